"""The REST interface put together, and the pages beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import get_args

from anyio import to_thread
from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from equipoise import __version__
from equipoise.serve.access import Access
from equipoise.serve.api.accounts import routes_access
from equipoise.serve.api.cluster import routes_cluster
from equipoise.serve.api.guard import Guard, Reader
from equipoise.serve.api.jobs import JobState, Quick, own_tenant, routes_jobs
from equipoise.serve.api.refusals import GUARDED, known_parameters, refuse, speak_plainly
from equipoise.serve.api.stream import Hub, routes_stream
from equipoise.serve.certify import certify
from equipoise.serve.models import CertificateOut, HealthOut
from equipoise.serve.plan.decide import Scheduler
from equipoise.serve.plan.events import Body
from equipoise.serve.service import Service, Unavailable

PAGE = files("equipoise.serve") / "page"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PATIENCE = 20  # times as long as a certificate took to make, until the next is made


def app_of(service: Service, access: Access, hub: Hub) -> ASGIApp:
    """Everything behind the guard."""
    return Guard(Quick(framework(service, access, hub), service), access)


def framework(service: Service, access: Access, hub: Hub) -> FastAPI:
    """All routes, documented."""
    service.listen(hub.stored)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        hub.loop = asyncio.get_running_loop()
        ticking = asyncio.create_task(_clock(service)) if service.settings.clock == "real" else None
        yield
        if ticking is not None:
            ticking.cancel()

    app = FastAPI(
        title="Equipoise",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        description="Admission, sizing and placement of training jobs; every decision is stored before it is answered.",
    )
    speak_plainly(app)
    for router in (
        routes_jobs(service),
        routes_cluster(service),
        routes_stream(service, hub, access.knows),
        routes_access(access, service.store, service.read_quotas, lambda: service.view.cluster.resources),
        _routes_proof(service),
    ):
        app.include_router(router, dependencies=[Depends(known_parameters)])
    app.include_router(_pages())
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _document(app: FastAPI) -> Body:
    """The OpenAPI document. A route that streams or answers in plain text refuses in JSON, as all do; it is written here."""
    if app.openapi_schema is None:
        app.openapi_schema = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorOut"}}}
        for methods in app.openapi_schema["paths"].values():
            for operation in methods.values():
                for status, answer in operation["responses"].items():
                    if status >= "400":
                        answer["content"] = refusal
    return app.openapi_schema


async def _clock(service: Service) -> None:
    """Tell the planner when a slot begins."""
    while True:
        view = service.view
        begins = view.start + (view.now + 1) * view.slot_seconds
        await asyncio.sleep(max(0.0, begins - time.time()))
        now = service.slot_at(time.time())
        if now > service.view.now:

            def tick(scheduler: Scheduler, now: int = now) -> Body:
                if now > scheduler.state.now:
                    scheduler.tick(now)
                return {}

            try:
                await asyncio.wrap_future(service.ask(tick, urgent=True))
            except Unavailable:
                await asyncio.sleep(1.0)


def _routes_proof(service: Service) -> APIRouter:
    router = APIRouter(responses=GUARDED, tags=["proof"])
    made: Body = {"until": 0.0, "seq": -1, "whole": {}, "general": {}}
    making = asyncio.Lock()

    @router.get("/v1/certificate", response_model=CertificateOut)
    async def certificate(caller: Reader) -> JSONResponse:
        """Every claim recomputed from the log alone. On a long log it may be some seconds old; `seq` says of which event."""

        def make() -> None:
            began = time.monotonic()
            found, seq = certify(service.store.events(0))
            done = time.monotonic()
            whole = found.as_dict() | {"seq": seq}
            general = [check.as_dict() | {"meaning": check.general} for check in found]
            made.update(
                until=done + PATIENCE * (done - began), seq=seq, whole=whole, general=whole | {"checks": general}
            )

        async with making:
            if service.view.seq != made["seq"] and time.monotonic() >= made["until"]:
                await to_thread.run_sync(make)
        return JSONResponse(made["whole" if own_tenant(caller) is None else "general"])  # a tenant sees no counts

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics(caller: Reader) -> Response:
        """For Prometheus. Numbers of all tenants: not for a token of one."""
        if own_tenant(caller) is not None:
            own = f"your token {caller.name!r} is of {caller.tenant!r} alone"
            raise HTTPException(403, f"this tells of all tenants; {own}")

        def read() -> bytes:
            view, numbers = service.view, service.metrics
            numbers.seq.set(view.seq)
            numbers.slot.set(view.now)
            counts = service.store.counts()
            for state in get_args(JobState):
                numbers.jobs.labels(state).set(counts.get(state, 0))
            for resource, share in view.utilisation(view.used(view.now, view.now)).items():
                numbers.utilisation.labels(resource).set(share[0])
            for status in ("up", "draining", "down"):
                numbers.machines.labels(status).set(view.status.count(status))
            numbers.waiting.set(service.waiting)
            return numbers.text()

        text = await to_thread.run_sync(read)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @router.get("/health", response_model=HealthOut)
    async def health() -> JSONResponse:
        """Whether decisions can be made and stored."""
        if service.failed is not None:
            return refuse(503, f"the service cannot go on: {type(service.failed).__name__}")
        if service.trouble:
            return refuse(503, "decisions cannot be stored; the log says why")
        return JSONResponse({"status": "ok", "seq": service.view.seq})

    return router


def _pages() -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def page() -> Response:
        return FileResponse(str(PAGE / "index.html"), media_type="text/html")

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        kind = KINDS.get("." + name.rpartition(".")[2], "")
        if not kind or "/" in name or "\\" in name or name.startswith(".") or not (PAGE / name).is_file():
            return refuse(404, "no such file")
        return FileResponse(str(PAGE / name), media_type=kind, headers={"Cache-Control": "no-cache"})

    return router
