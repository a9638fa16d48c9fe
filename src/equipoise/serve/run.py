"""Run a service until it is told to stop: the web server, the clock, and a clean end."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import uvicorn

from equipoise.errors import InputError
from equipoise.place.cluster import Cluster, Machine
from equipoise.present.where import where
from equipoise.serve.access import Access, Limits, access_for
from equipoise.serve.api.app import app_of
from equipoise.serve.api.stream import Hub
from equipoise.serve.plan.decide import Scheduler, opening
from equipoise.serve.plan.events import OPENED
from equipoise.serve.plan.explain import forecast
from equipoise.serve.plan.machines import Machines
from equipoise.serve.plan.state import State
from equipoise.serve.service import Service, Settings
from equipoise.serve.store import open_store
from equipoise.serve.telemetry import say

LOG = logging.getLogger("equipoise.serve")
BACKLOG = 1024
EXAMPLE = Cluster((Machine({"gpu": 8, "cpu": 64, "memory": "512Gi"}, 8, "gpu"),))
PATIENCE = 10  # seconds that requests under way are given at the end


class Server(uvicorn.Server):
    """Ends event streams first: they would never end by themselves."""

    hub: Hub

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.end_streams()
        super().handle_exit(sig, frame)

    def end_streams(self) -> None:
        self.hub.stopping = True
        if self.hub.loop is not None:
            self.hub.loop.call_soon_threadsafe(self.hub.wake)


def warm_up() -> None:
    """Load (or compile) every kernel before anybody waits for one: a small day on two machines that are not there."""
    machines = Machines(Cluster((Machine({"gpu": 2, "cpu": 4}, 2, "rehearsal"),)), 9, np.ones(2), np.ones(2))
    scheduler = Scheduler(State(), lambda: 0.0, lambda tenant: {})
    scheduler.record(OPENED, **opening(machines, slot_seconds=60.0, horizon=8, start=0.0, clock="virtual"))
    job = {"worker": {"gpu": 1}, "workers": 2, "duration": "3m", "value": 1e6}
    for restart in (None, "1s"):
        for server in (None, {"cpu": 1}):
            scheduler.submit({**job, "server": server, "restart": restart}, "")
    scheduler.submit({"worker": {"gpu": 1}, "workers": 1, "duration": "2m", "value": 1e-6}, "")  # waits, and is lent to
    scheduler.tick(1)
    scheduler.set_machine("rehearsal-1", "down")
    scheduler.set_machine("rehearsal-1", "up")
    forecast(scheduler, {"worker": {"gpu": 1}, "duration": "1m"}, "")
    scheduler.cancel(next(iter(scheduler.state.jobs)))
    scheduler.tick(4)


def listening(host: str, port: int) -> socket.socket:
    """A socket of our own, taken before anything else is touched; port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named: else asyncio leaves Nagle on
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        one.bind((host.strip("[]"), port))
    except (OSError, OverflowError) as problem:
        one.close()
        raise InputError(f"cannot listen on {host}:{port} ({problem}); choose another --host or --port") from None
    return one


def run(
    service: Service, access: Access, *, host: str, listener: socket.socket, tls: tuple[str, str] | None = None
) -> int:
    """Serve until SIGTERM or Ctrl-C; 0 when it ended well, 1 when the service could not go on."""
    hub = Hub()
    app = app_of(service, access, hub)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_graceful_shutdown=PATIENCE,
        lifespan="on",
        ws="none",
        ssl_certfile=tls[0] if tls else None,
        ssl_keyfile=tls[1] if tls else None,
    )
    server = Server(config)
    server.hub = hub

    def give_up() -> None:
        server.end_streams()
        server.should_exit = True

    service.on_failure = give_up
    service.start()
    listener.listen(BACKLOG)  # from here on every connection is accepted
    scheme, port = "https" if tls else "http", listener.getsockname()[1]
    say(LOG, logging.INFO, "serving", url=f"{scheme}://{host}:{port}/", store=service.store.shown, seq=service.view.seq)
    for sig in (signal.SIGTERM, signal.SIGINT):  # uvicorn would raise the signal again: we end below instead
        signal.signal(sig, lambda *_: None)
    try:
        server.run(sockets=[listener])
    finally:
        service.stop()
        service.store.close()
        say(LOG, logging.INFO, "stopped", seq=service.view.seq)
    return 0 if service.failed is None and server.started else 1


def serve_store(
    url: str,
    cluster: Cluster | None,
    given: Mapping[str, Any],
    *,
    host: str,
    port: int,
    names: Sequence[str] = (),
    tls: tuple[str, str] | None = None,
    rate: float | None = None,
) -> int:
    """Open a store and serve it until told to stop: 0 when it ended well, 1 when it could not go on.

    Parameters
    ----------
    url
        The store: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME.
    cluster
        The machines; None for those that the store keeps, or an example in a new one.
    given
        Settings by name; the others are what the store was opened with, then the defaults.
    host, port
        Where to listen; port 0 is any free one.
    names
        Names by which browsers may call it, beside localhost.
    tls
        Files of the certificate chain and of its key.
    rate
        Requests per second of one caller; 0 for no limit.
    """
    listener = listening(host, port)
    for file in tls or ():
        if not Path(file).is_file():
            raise InputError(f"{file}: no such file; expected a PEM file for TLS")
    store = open_store(url, on_wait=lambda: say(LOG, logging.INFO, "waiting", why="another server holds the store"))
    say(LOG, logging.INFO, "starting", where=str(where("serve")))  # a store that cannot be had is told alone
    try:
        limits = Limits() if rate is None else Limits(rate=rate, burst=2 * rate)
        access = access_for(store.tokens, host=host, names=names, tls=tls is not None, limits=limits)
        if store.last() == 0 and cluster is None:
            cluster = EXAMPLE
            say(LOG, logging.WARNING, "no --cluster: an example is served", machines="8 machines of 8 GPUs")
        first = next(iter(store.events(0, 1)), None)
        kept = {name: first.data[name] for name in ("slot_seconds", "horizon", "clock")} if first is not None else {}
        service = Service(store, Settings(**{**kept, **given}), cluster)
        say(LOG, logging.INFO, "loading the planner", note="after an upgrade it is compiled once: about a minute")
        warm_up()
        return run(service, access, host=host, listener=listener, tls=tls)
    except BaseException:
        store.close()
        raise
