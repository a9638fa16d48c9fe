"""Events as they are stored: a stream for browsers and clients, and the log page by page."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

from equipoise.serve.access import Caller
from equipoise.serve.api.guard import Reader
from equipoise.serve.api.jobs import own_tenant
from equipoise.serve.api.refusals import GUARDED
from equipoise.serve.models import EventPage
from equipoise.serve.plan.events import Event
from equipoise.serve.plan.messages import event_out
from equipoise.serve.service import Service

MOST_CELLS = 200_000  # of the events kept in memory for streams; a stream that is further behind reads the store
PAGE = 500
LONGEST = 600.0  # seconds of a stream: a client that connects again shows its token again
LOOK = 10.0  # seconds after which a stream that waits looks whether its token still holds


class Hub:
    """The newest events, and the streams that wait for the next. Filled from the planner thread, read on the event loop."""

    def __init__(self) -> None:
        self.recent: deque[Event] = deque()
        self._weight = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        self.stopping = False
        self._news: asyncio.Event | None = None

    def stored(self, events: list[Event]) -> None:
        """From the planner thread: events are stored."""
        if self.loop is not None and events:
            self.loop.call_soon_threadsafe(self._take, events)

    def _take(self, events: list[Event]) -> None:
        if self.recent and events[0].seq != self.recent[-1].seq + 1:
            self.recent.clear()  # a stream that is behind reads the store
            self._weight = 0
        self.recent.extend(events)
        self._weight += sum(map(weight, events))
        while self._weight > MOST_CELLS and len(self.recent) > 1:
            self._weight -= weight(self.recent.popleft())
        self.wake()

    def wake(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def wait(self, until: float) -> None:
        """Until something new is stored, or it is time to end."""
        if self._news is None:
            self._news = asyncio.Event()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), until - self.now())

    def after(self, seq: int) -> list[Event] | None:
        """Recent events after `seq`; None when they are no longer in memory."""
        if not self.recent or self.recent[0].seq > seq + 1:
            return None
        behind = seq - self.recent[0].seq + 1
        return [self.recent[k] for k in range(behind, min(len(self.recent), behind + PAGE))]


def weight(event: Event) -> int:
    """What an event takes in memory: itself, and its cells."""
    return 4 + len(event.data.get("cells", ()))


def visible(event: Event, caller: Caller) -> bool:
    """Machines, prices and the clock are everyone's; jobs are their tenant's."""
    tenant = own_tenant(caller)
    return tenant is None or not event.job or event.tenant == tenant


def routes_stream(service: Service, hub: Hub, knows: Callable[[Caller], bool]) -> APIRouter:
    router = APIRouter(prefix="/v1", responses=GUARDED, tags=["events"])
    store = service.store

    @router.get("/log", response_model=EventPage)
    async def log(
        caller: Reader,
        after: Annotated[int, Query(ge=0, le=10**15)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> JSONResponse:
        """The log, oldest first. `next` is where the next page begins, null at the end."""
        events = await to_thread.run_sync(lambda: list(store.events(after, limit=limit)))
        shown = [event_out(event) for event in events if visible(event, caller)]
        return JSONResponse({"events": shown, "next": events[-1].seq if len(events) == limit else None})

    @router.get("/events", response_class=EventSourceResponse)
    async def events(
        request: Request,
        caller: Reader,
        after: Annotated[
            int | None, Query(ge=0, le=10**15, description="begin after this seq; else with what is new")
        ] = None,
        last_event_id: Annotated[str | None, Header(pattern=r"^[0-9]{1,15}$")] = None,
    ) -> AsyncIterator[ServerSentEvent]:
        """A stream of events (server-sent), from `after` or Last-Event-ID on; it begins with `hello`."""
        view = service.view
        seq = int(last_event_id) if last_event_id else view.seq if after is None else after
        yield ServerSentEvent(event="hello", data={"seq": view.seq, "now": view.now}, retry=1000)
        until = hub.now() + LONGEST
        while not hub.stopping and hub.now() < until and knows(caller):
            batch = hub.after(seq)
            if batch is None and seq < service.view.seq:
                since = seq
                batch = await to_thread.run_sync(lambda since=since: list(store.events(since, limit=PAGE)))  # type: ignore[misc]
            if not batch:
                await hub.wait(min(until, hub.now() + LOOK))
                continue
            for event in batch:
                seq = event.seq
                if visible(event, caller):
                    yield ServerSentEvent(id=str(event.seq), event=event.kind, data=event_out(event))

    return router
