"""Run a service until it is told to stop: the web server, the clock, and a clean end."""

from __future__ import annotations

import logging
import signal
import socket
from types import FrameType
from typing import Any

import uvicorn

from equipoise.errors import InputError
from equipoise.serve.access import Access
from equipoise.serve.api.app import app_of
from equipoise.serve.api.stream import Hub
from equipoise.serve.logs import say
from equipoise.serve.plan.decide import Scheduler
from equipoise.serve.service import Service

LOG = logging.getLogger("equipoise.serve")
BACKLOG = 1024
PATIENCE = 10  # seconds that requests under way are given at the end
SMALLEST = {"name": "warm-up", "worker": {}, "workers": 1, "duration": "1s"}


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


def warm_up(service: Service) -> None:
    """Load (or compile) the planner's kernels before anybody waits for them. Nothing is stored."""
    resource = service.state.cluster.resources[0]
    body: dict[str, Any] = SMALLEST | {"worker": {resource: "1m"}}
    scheduler = Scheduler(service.state, lambda: 0.0, lambda tenant: {})
    scheduler.imagine(body, "")
    scheduler.imagine(body | {"server": {resource: "1m"}, "restart": "1s"}, "")


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
        app, log_config=None, access_log=False, server_header=False, date_header=True,
        timeout_graceful_shutdown=PATIENCE, lifespan="on", ws="none",
        ssl_certfile=tls[0] if tls else None, ssl_keyfile=tls[1] if tls else None,
    )  # fmt: skip
    server = Server(config)
    server.hub = hub

    def give_up() -> None:
        server.end_streams()
        server.should_exit = True

    service.on_failure = give_up
    service.start()
    listener.listen(BACKLOG)  # from here on nobody is turned away
    scheme, port = "https" if tls else "http", listener.getsockname()[1]
    say(LOG, logging.INFO, "serving", url=f"{scheme}://{host}:{port}/", store=service.store.shown, seq=service.view.seq)
    for sig in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises again what it was told: we end below instead
        signal.signal(sig, lambda *_: None)
    try:
        server.run(sockets=[listener])
    finally:
        service.stop()
        service.store.close()
        say(LOG, logging.INFO, "stopped", seq=service.view.seq)
    return 0 if service.failed is None and server.started else 1
