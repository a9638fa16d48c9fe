"""Routes about jobs: submit, list, get, explain, history, cancel, progress, finish, forecast."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable
from typing import Annotated, Literal

from anyio import to_thread
from fastapi import APIRouter, Header, Path, Query
from fastapi.responses import JSONResponse
from pydantic import Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from equipoise.errors import InputError
from equipoise.place.job_spec import JobSpec, Number
from equipoise.place.planner import NO_CELLS
from equipoise.serve.access import NAME, Caller
from equipoise.serve.api.guard import Reader, Submitter
from equipoise.serve.api.refusals import GUARDED, REFUSALS, answers, refusal_of
from equipoise.serve.models import OVER, EventPage, ExplainOut, ForecastOut, JobPage, JobWithCells, RequestBody
from equipoise.serve.plan import events as kinds, explain as explaining
from equipoise.serve.plan.decide import NotFound, Scheduler
from equipoise.serve.plan.events import Body
from equipoise.serve.plan.messages import cells_out, event_out, job_out, wall_of
from equipoise.serve.plan.state import Held
from equipoise.serve.replay import Twin, restored
from equipoise.serve.service import Command, Service, body_digest

JobState = Literal["admitted", "lent", "pending", "refused", "finished", "cancelled"]
PLAIN = r"^[^\x00-\x1f]*$"  # no control characters: a database would choke on some
LONGEST_KEY = 200
REST, LONGEST_REST = 2.0, 2.0  # times as long as a replay took; seconds
MOST_IN_A_PAGE, MOST_EVENTS = 1_000, 10_000
Id = Annotated[str, Path(pattern=r"^j[0-9]{1,15}$", description="as submit answered")]
Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", max_length=LONGEST_KEY, pattern=PLAIN, description="ask again with it: one job"),
]

Words = Annotated[
    dict[Annotated[str, Field(max_length=60)], Annotated[str, Field(max_length=200)]], Field(max_length=32)
]


class JobIn(JobSpec):
    """A job: `workers` for `duration`, or the long form (`work` or `samples` and `epochs`, `batch`, `time_per_sample`)."""

    tags: Words | None = None


class ProgressIn(RequestBody):
    """How far a job is: samples done, or the part of its work."""

    done: Number | None = Field(None, ge=0)
    fraction: Number | None = Field(None, ge=0, le=1)


def with_cells(held: Held, scheduler: Scheduler) -> Body:
    state = scheduler.state
    return job_out(held, state.machines.names, wall_of(state)) | {"cells": cells_out(held, state.machines.names)}


async def submitted(service: Service, job: JobIn, owner: str, key: str) -> tuple[int, Body]:
    """The stored answer to a submission."""
    unique = (owner, key, body_digest(job.model_dump(exclude_unset=True))) if key else None
    command = lambda scheduler: with_cells(scheduler.submit(job, owner), scheduler)  # noqa: E731
    return await asyncio.wrap_future(service.ask(command, key=unique, status=201))


class JobRoutes:
    """The routes about jobs of one service."""

    def __init__(self, service: Service) -> None:
        self.service, self.store = service, service.store
        self._twin, self._one_at_a_time = Twin(service.store), asyncio.Lock()

    async def submit(
        self,
        body: JobIn,
        caller: Submitter,
        key: Key = None,
        dry_run: bool = False,
        explain: Annotated[
            bool, Query(description="with dry_run: also why, and the least change that would help")
        ] = False,
        tenant: Annotated[str | None, Query(pattern=NAME, description="for whom, if your token has no tenant")] = None,
    ) -> JSONResponse:
        """Submit a job: the answer is the decision, stored with what it reserves. `dry_run`: only what it would be."""
        owner = _owner(caller, tenant)
        if dry_run and explain:
            return JSONResponse(await self._replaying(lambda: self._imagined(body, owner)))
        if dry_run:
            return await self._asked(lambda scheduler: with_cells(scheduler.imagine(body, owner)[0], scheduler))
        status, answer = await submitted(self.service, body, owner, key or "")
        return JSONResponse(answer, status)

    async def jobs(
        self,
        caller: Reader,
        state: Annotated[list[JobState] | None, Query(description="one or several")] = None,
        tenant: Annotated[str | None, Query(max_length=64, pattern=PLAIN)] = None,
        name: Annotated[str, Query(max_length=200, pattern=PLAIN, description="part of the name")] = "",
        after: Annotated[str | None, Query(pattern=r"^[0-9]{1,15}$", description="`next` of the page before")] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_IN_A_PAGE)] = 100,
        order: Annotated[str, Query(pattern="^(newest|oldest)$")] = "newest",
    ) -> JSONResponse:
        """Jobs, newest first, page by page."""
        whose = tenant if tenant is not None else own_tenant(caller)
        if tenant is not None and not caller.sees(tenant):
            return JSONResponse({"jobs": [], "next": None})

        def read() -> Body:
            rows = self.store.jobs(
                tenant=whose,
                states=state or (),
                name=name,
                after=int(after) if after else None,
                newest_first=order == "newest",
                limit=limit,
            )
            view = self.service.view
            told = [view.told(row.id) or row.data for row in rows]
            return {"jobs": told, "next": str(rows[-1].n) if len(rows) == limit else None}

        return JSONResponse(await to_thread.run_sync(read))

    async def job(self, id: Id, caller: Reader) -> JSONResponse:
        """One job, with the cells it still has."""
        told, view = await self._mine(id, caller), self.service.view
        live = view.live.get(id)
        cells = cells_out(live, view.names) if live is not None else []
        return JSONResponse(told | {"cells": cells})

    async def history(self, id: Id, caller: Reader) -> JSONResponse:
        """All that happened to a job."""
        await self._mine(id, caller)
        events = await to_thread.run_sync(lambda: list(self.store.events(job=id, limit=MOST_EVENTS)))
        return JSONResponse({"events": [event_out(event) for event in events], "next": None})

    async def explain(self, id: Id, caller: Reader) -> JSONResponse:
        """Why it was treated so: the log is replayed to the moment the job came, and the planner asked there."""
        told = await self._mine(id, caller)
        return JSONResponse(await self._replaying(lambda: self._explained(id, told)))

    async def cancel(self, id: Id, caller: Submitter) -> JSONResponse:
        """Cancel: what it held is free, and waiting jobs are considered again."""
        return await self._change(id, caller, lambda scheduler: scheduler.cancel(id))

    async def progress(self, id: Id, body: ProgressIn, caller: Submitter) -> JSONResponse:
        """How far it is. A promised job that is late is planned again at its measured pace."""
        done, fraction = body.done, body.fraction
        if (done is None) == (fraction is None):
            raise InputError("expected one of done (samples) and fraction (0 to 1)")

        def report(scheduler: Scheduler) -> Held:
            work = scheduler.job(id).job.work
            samples = done if done is not None else (fraction or 0.0) * work
            return scheduler.progress(id, samples, self.service.elapsed())

        return await self._change(id, caller, report)

    async def finish(self, id: Id, caller: Submitter) -> JSONResponse:
        """It is done, early or late: what it still held is free."""
        return await self._change(id, caller, lambda scheduler: scheduler.finished(id))

    async def forecast(self, body: JobIn, caller: Reader) -> JSONResponse:
        """When could this start, and end? Nothing is stored."""
        return await self._asked(lambda scheduler: explaining.forecast(scheduler, body, caller.tenant))

    # What they share.

    async def _replaying(self, work: Callable[[], Body]) -> Body:
        """One replay at a time, and a rest after each: they take CPU from decisions, and the threads of other reads."""
        async with self._one_at_a_time:
            began = time.monotonic()
            try:
                return await to_thread.run_sync(work)
            finally:
                await asyncio.sleep(min(LONGEST_REST, REST * (time.monotonic() - began)))

    async def _asked(self, command: Command) -> JSONResponse:
        status, body = await asyncio.wrap_future(self.service.ask(command))
        return JSONResponse(body, status)

    async def _mine(self, id: str, caller: Caller) -> Body:
        """A job the caller may know of, live or over; else it is not there."""
        told = self.service.view.told(id)
        if told is None:
            row = await to_thread.run_sync(self.store.job, id)
            told = row.data if row is not None else None
        if told is None or not caller.sees(told["tenant"]):
            raise NotFound(f"no job {id!r}")
        return told

    async def _change(self, id: str, caller: Caller, command: Callable[[Scheduler], Held]) -> JSONResponse:
        told = await self._mine(id, caller)
        if told["state"] in OVER:
            raise HTTPException(409, f"job {id} is {told['state']}; nothing more happens to it")
        return await self._asked(lambda scheduler: with_cells(command(scheduler), scheduler))

    def _imagined(self, job: JobIn, owner: str) -> Body:
        """The answer to a submission, explained: a copy of the state is asked, so that no other request waits."""
        service = self.service
        scheduler = Scheduler(self._twin.now(), time.time, service.quota, finish=service.settings.finish)
        held, verdict = scheduler.imagine(job, owner)
        fresh = dataclasses.replace(held, cells=NO_CELLS)
        found = explaining.explanation(scheduler, fresh)
        text = explaining.text(found, verdict.state, verdict.reason, would=True)
        return with_cells(held, scheduler) | {"explain": {"text": text, **found}}

    def _explained(self, id: str, told: Body) -> Body:
        service, store = self.service, self.store
        first = next(iter(store.events(job=id, limit=1)))
        state = restored(store, first.seq)
        scheduler = Scheduler(state, lambda: 0.0, service.quota, finish=service.settings.finish)
        found = explaining.explanation(scheduler, state.jobs[id])
        decided = [event_out(event) for event in store.events(job=id, limit=50) if event.kind == kinds.DECIDED]
        reason = str(decided[0]["data"]["reason"]) if decided else ""
        state_then = str(decided[0]["data"]["state"]) if decided else told["state"]
        text = explaining.text(found, state_then, reason, since=told["state"])
        return {"job": id, "state": told["state"], "reason": told["reason"], "told": decided, "text": text, **found}


def routes_jobs(service: Service) -> APIRouter:
    """The routes, documented."""
    router, to = APIRouter(prefix="/v1", responses=GUARDED, tags=["jobs"]), JobRoutes(service)
    both: dict[int | str, Body] = {200: {"model": JobWithCells}, **answers(409)}
    router.post("/jobs", status_code=201, response_model=JobWithCells, responses=both)(to.submit)
    router.get("/jobs", response_model=JobPage)(to.jobs)
    router.get("/jobs/{id}", response_model=JobWithCells, responses=answers(404))(to.job)
    router.get("/jobs/{id}/history", response_model=EventPage, responses=answers(404))(to.history)
    router.get("/jobs/{id}/explain", response_model=ExplainOut, responses=answers(404))(to.explain)
    router.delete("/jobs/{id}", response_model=JobWithCells, responses=answers(404, 409))(to.cancel)
    router.post("/jobs/{id}/progress", response_model=JobWithCells, responses=answers(404, 409))(to.progress)
    router.post("/jobs/{id}/finish", response_model=JobWithCells, responses=answers(404, 409))(to.finish)
    router.post("/forecast", response_model=ForecastOut)(to.forecast)
    return router


def own_tenant(caller: Caller) -> str | None:
    """The only tenant whose things the caller sees; None: all of them."""
    return None if caller.role == "admin" or not caller.tenant else caller.tenant


def _owner(caller: Caller, tenant: str | None) -> str:
    """The tenant of a job: the caller's; a caller without one may name any."""
    if tenant is not None and not caller.sees(tenant):
        raise HTTPException(403, f"your token {caller.name!r} submits for the tenant {caller.tenant!r} only")
    return caller.tenant if tenant is None else tenant


class Quick:
    """Plain submissions, which most requests are, past the framework: it takes more CPU for one than the decision does.

    An ASGI application between the guard and the framework. Whatever is not plain (parameters, a role that does not
    suffice, a body with a mistake) goes on to the framework, whose answer is the documented one.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = _key_of_plain(scope)
        if key is None:
            await self.app(scope, receive, send)
            return
        messages = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        if messages[-1]["type"] != "http.request":  # the client went away before the end of its request
            await self.app(scope, _again(messages, receive), send)
            return
        try:
            job = JobIn.model_validate_json(b"".join(message.get("body", b"") for message in messages))
        except ValidationError:
            await self.app(scope, _again(messages, receive), send)
            return
        answer = await self._answer(job, scope["state"]["caller"].tenant, key)
        await answer(scope, receive, send)

    async def _answer(self, job: JobIn, owner: str, key: str) -> JSONResponse:
        try:
            status, body = await submitted(self.service, job, owner, key)
        except tuple(REFUSALS) as refusal:
            return refusal_of(refusal)
        return JSONResponse(body, status)


def _key_of_plain(scope: Scope) -> str | None:
    """The idempotency key ("" for none) of a plain submission; None for any other request."""
    if scope["type"] != "http" or scope["path"] != "/v1/jobs" or scope["method"] != "POST" or scope["query_string"]:
        return None
    caller: Caller | None = scope["state"]["caller"]
    if caller is None or not caller.may("submit"):
        return None
    key, kind = b"", b""
    for name, value in scope["headers"]:
        if name == b"idempotency-key" and key:
            return None
        if name == b"idempotency-key":
            key = value
        elif name == b"content-type":
            kind = value
    decent = len(key) <= LONGEST_KEY and key.isascii() and (not key or key.decode().isprintable())
    return key.decode() if decent and kind == b"application/json" else None


def _again(messages: list[Message], receive: Receive) -> Receive:
    """What was read is read again, then what comes."""
    waiting = iter(messages)

    async def read() -> Message:
        return next(waiting, None) or await receive()

    return read
