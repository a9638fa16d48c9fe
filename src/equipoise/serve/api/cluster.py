"""Routes about the cluster: machines, prices, schedule, status, clock. All reads are of the last published view."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.exceptions import HTTPException

from equipoise import __version__
from equipoise.errors import InputError, unknown_name
from equipoise.place.job_spec import KINDS, MachineSpec
from equipoise.serve.api.guard import Admin, Reader
from equipoise.serve.api.jobs import own_tenant
from equipoise.serve.api.refusals import GUARDED, answers
from equipoise.serve.models import (
    ClockOut,
    ClusterStatus,
    MachineChanged,
    MachineList,
    PricesOut,
    RequestBody,
    ScheduleOut,
    StatusOut,
)
from equipoise.serve.plan.decide import Scheduler
from equipoise.serve.plan.events import Body, attributes
from equipoise.serve.plan.machines import DOWN, DRAINING, UP, Ints
from equipoise.serve.plan.messages import iso
from equipoise.serve.service import Command, Service
from equipoise.serve.view import View
from equipoise.units import MILLI

Name = Annotated[str, Path(max_length=80)]
MOST_AT_ONCE = 10_000  # slots of a virtual clock


class MachineIn(MachineSpec):
    name: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")
    count: int = Field(1, ge=1, le=10_000)


class PricesIn(RequestBody):
    base: Annotated[dict[str, Annotated[float, Field(ge=0, le=1e12)]], Field(max_length=64)]
    ratio: float = Field(10.0, ge=1, le=1e12)


class ClockIn(RequestBody):
    advance: int | None = Field(None, ge=1, le=10_000)
    slot: int | None = Field(None, ge=0, le=10_000_000)


class ClusterRoutes:
    """The routes about the cluster of one service."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def cluster(self, caller: Reader) -> JSONResponse:
        """Machines, their status and what is held on them in this slot."""
        view = self.service.view
        machines = await to_thread.run_sync(machines_out, view, None)
        start, resources = iso(view.start) if view.clock == "real" else "", list(view.cluster.resources)
        own = attributes(view, "now", "slot_seconds", "horizon", "clock", "seq")
        return JSONResponse(own | {"start": start, "resources": resources, "machines": machines})

    async def add(self, body: MachineIn, caller: Admin) -> JSONResponse:
        """New machines; waiting jobs are considered again."""
        names = (await self._asked(lambda scheduler: {"names": scheduler.add_machines(body.model_dump())}))["names"]
        told = await to_thread.run_sync(machines_out, self.service.view, set(names))
        return JSONResponse({"machines": told}, 201)

    async def drain(self, name: Name, caller: Admin) -> JSONResponse:
        """No new work; what is promised there stays."""
        return await self._change(name, DRAINING)

    async def down(self, name: Name, caller: Admin) -> JSONResponse:
        """It failed: its jobs are planned again from what they reported, by density."""
        return await self._change(name, DOWN)

    async def up(self, name: Name, caller: Admin) -> JSONResponse:
        """It is back."""
        return await self._change(name, UP)

    async def prices(
        self, caller: Reader, resource: Annotated[str | None, Query(max_length=60)] = None
    ) -> JSONResponse:
        """Utility per unit and slot, for the slots ahead: means, and by machine for one resource."""
        return JSONResponse(await to_thread.run_sync(prices_out, self.service.view, resource))

    async def set_prices(self, body: PricesIn, caller: Admin) -> JSONResponse:
        """Set what an empty machine costs, and how much more a full one."""

        def command(scheduler: Scheduler) -> Body:
            scheduler.set_prices(body.base, body.ratio)
            return {}

        await self._asked(command)
        return JSONResponse(await to_thread.run_sync(prices_out, self.service.view, None))

    async def schedule(
        self,
        caller: Reader,
        first: Annotated[int | None, Query(ge=0, le=10**9)] = None,
        last: Annotated[int | None, Query(ge=0, le=10**9)] = None,
    ) -> JSONResponse:
        """What is planned, as bars; of other tenants only how full machines are."""
        tenant = own_tenant(caller)
        return JSONResponse(await to_thread.run_sync(schedule_out, self.service.view, first, last, tenant))

    async def status(self, caller: Reader) -> JSONResponse:
        """Numbers of the moment."""
        return JSONResponse(await to_thread.run_sync(self._status, own_tenant(caller)))

    async def clock(self, body: ClockIn, caller: Admin) -> JSONResponse:
        """Move a virtual clock on, slot by slot."""
        if self.service.view.clock != "virtual":
            raise HTTPException(409, "the clock is real; only a service with --clock virtual is told the time")
        if (body.advance is None) == (body.slot is None):
            raise InputError("expected one of advance (slots) and slot (a number)")

        def command(scheduler: Scheduler) -> Body:
            now = scheduler.state.now
            to = now + body.advance if body.advance is not None else int(body.slot or 0)
            if to - now > MOST_AT_ONCE:
                raise InputError(f"slot {to} is {to - now:,} slots ahead; expected at most {MOST_AT_ONCE:,} at once")
            if to != now:
                scheduler.tick(to)
            return {"now": scheduler.state.now}

        return JSONResponse(await self._asked(command))

    # What they share.

    async def _asked(self, command: Command) -> Body:
        return (await asyncio.wrap_future(self.service.ask(command)))[1]

    async def _change(self, name: str, status: str) -> JSONResponse:
        def command(scheduler: Scheduler) -> Body:
            replanned, displaced = scheduler.set_machine(name, status)
            return {"replanned": replanned, "displaced": [{"job": j, "reason": r} for j, r in displaced]}

        answer = await self._asked(command)
        told = await to_thread.run_sync(machines_out, self.service.view, {name})
        return JSONResponse({"machine": told[0], **answer})

    def _status(self, tenant: str | None) -> Body:
        service, view = self.service, self.service.view
        share = view.utilisation(view.used(view.now, view.now))
        return attributes(view, "now", "seq", "clock") | {
            "version": __version__,
            "jobs": service.store.counts(tenant),
            "waiting": service.waiting,
            "utilisation": {r: shares[0] for r, shares in share.items()},
            "uptime": round(time.time() - service.began, 3),
            "store": service.store.kind,
        }


def routes_cluster(service: Service) -> APIRouter:
    """The routes, documented."""
    router, to = APIRouter(prefix="/v1", responses=GUARDED, tags=["cluster"]), ClusterRoutes(service)
    router.get("/cluster", response_model=ClusterStatus)(to.cluster)
    router.post("/machines", status_code=201, response_model=MachineList)(to.add)
    for verb, change in (("drain", to.drain), ("down", to.down), ("up", to.up)):
        router.post(f"/machines/{{name}}/{verb}", response_model=MachineChanged, responses=answers(404))(change)
    router.get("/prices", response_model=PricesOut)(to.prices)
    router.put("/prices", response_model=PricesOut)(to.set_prices)
    router.get("/schedule", response_model=ScheduleOut)(to.schedule)
    router.get("/status", response_model=StatusOut)(to.status)
    router.post("/clock", response_model=ClockOut, responses=answers(409))(to.clock)
    return router


def machines_out(view: View, names: set[str] | None) -> list[Body]:
    """Machines, or those of these names, with what is held on them in this slot; units."""
    resources, used = view.cluster.resources, view.used(view.now, view.now)[0]
    amounts = (view.capacity / MILLI).tolist(), (used / MILLI).tolist()
    rows = zip(view.names, view.status, view.cluster.type_of.tolist(), *amounts, strict=True)
    return [
        {
            "name": name,
            "status": status,
            "capacity": dict(zip(resources, capacity, strict=True)),
            "used": dict(zip(resources, held, strict=True)),
        }
        | {kind: value for kind in KINDS if (value := getattr(view.cluster.machines[entry], kind))}
        for name, status, entry, capacity, held in rows
        if names is None or name in names
    ]


def prices_out(view: View, resource: str | None) -> Body:
    resources = view.cluster.resources
    if resource is not None and resource not in resources:
        raise unknown_name("resource", resource, resources)
    last = view.now + view.horizon - 1
    price = view.prices(view.used(view.now, last))
    has = view.capacity > 0
    weight = has.sum(axis=0)
    mean = (price * has).sum(axis=1) / weight.clip(min=1)
    return {
        "now": view.now,
        "slots": list(range(view.now, last + 1)),
        "resources": list(resources),
        "mean": {r: mean[:, k].tolist() for k, r in enumerate(resources)},
        "machines": list(view.names),
        "by_machine": None if resource is None else price[:, :, resources.index(resource)].T.tolist(),
    }


def schedule_out(view: View, first: int | None, last: int | None, tenant: str | None) -> Body:
    if first is not None and last is not None and last < first:
        raise InputError(f"last is {last}, before first, {first}; expected slots in order")
    first = view.now if first is None else max(first, view.now)
    last = max(first, min(view.now + view.horizon, 10**9 if last is None else last))
    lives = list(view.live.values())
    seen = [live for live in lives if tenant is None or live.tenant == tenant]
    used = view.used(first, last, lives)
    others = [] if tenant is None else occupied(view, used - view.used(first, last, seen), first)
    told = {"bars": view.bars(seen, first, last), "others": others, "utilisation": view.utilisation(used)}
    return {"now": view.now, "first": first, "last": last, "machines": list(view.names), **told}


def occupied(view: View, used: Ints, first: int) -> list[Body]:
    """How full machines are with what others hold, as stretches of equal share: no names, no counts of jobs."""
    share = (used / view.capacity.clip(min=1)).max(axis=2).round(3)
    out: list[Body] = []
    for h in range(share.shape[1]):
        for t in range(share.shape[0]):
            value = float(share[t, h])
            if value == 0.0:
                continue
            before = out[-1] if out else None
            if before and (before["machine"], before["last"], before["share"]) == (h, first + t - 1, value):
                before["last"] = first + t
            else:
                out.append({"machine": h, "first": first + t, "last": first + t, "share": value})
    return out
