"""The service as its users meet it: in this process on a port of its own, or as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from equipoise.place import Cluster, Machine
from equipoise.serve.access import Limits, access_for, digest, new_token
from equipoise.serve.api.app import app_of
from equipoise.serve.api.stream import Hub
from equipoise.serve.run import Server, listening
from equipoise.serve.service import Service, Settings
from equipoise.serve.store import TenantRow, TokenRow, open_store

BOXES = Cluster((Machine({"gpu": 4, "cpu": 32, "memory": "128Gi"}, 2, "box"),))
JOB: dict[str, Any] = {"name": "job", "worker": {"gpu": 1, "cpu": 2}, "workers": 2, "duration": "20m", "value": 10}
UNLIMITED = Limits(rate=0, stranger_rate=0)
PATIENCE = 120.0  # seconds for a server to come up; kernels may have to be compiled first


class Live:
    """A service, its application, and a web server on a thread; `client(name)` asks with the token of that name."""

    def __init__(
        self, url: str, cluster: Cluster | None, settings: Settings, tokens: dict[str, tuple[str, str]]
    ) -> None:
        self.store = open_store(url)
        try:
            self.secrets = {name: new_token() for name in tokens}
            for name, (role, tenant) in tokens.items():
                self.store.remove_token(name)
                self.store.add_token(TokenRow(name, digest(self.secrets[name]), role, tenant, 0.0))
            self.service = Service(self.store, settings, cluster)
        except BaseException:
            self.store.close()
            raise
        self.hub = Hub()
        self.app = app_of(self.service, access_for(self.store.tokens, host="127.0.0.1", limits=UNLIMITED), self.hub)
        self.service.start()
        listener = listening("127.0.0.1", 0)
        self.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.server = Server(uvicorn.Config(self.app, log_config=None, access_log=False, lifespan="on", ws="none"))
        self.server.hub = self.hub
        self._thread = threading.Thread(target=self.server.run, args=([listener],), daemon=True)
        self._thread.start()
        self._clients: dict[str, httpx.Client] = {}
        while not self.server.started:
            time.sleep(0.005)

    def client(self, name: str = "") -> httpx.Client:
        """Closed with the service."""
        if name not in self._clients:
            headers = {"Authorization": f"Bearer {self.secrets[name]}"} if name else {}
            self._clients[name] = httpx.Client(base_url=self.address, headers=headers, timeout=60.0)
        return self._clients[name]

    def quota(self, tenant: str, **milli: int) -> None:
        """Milli-units by resource; `jobs` a count."""
        self.store.put_tenant(TenantRow(tenant, milli))
        self.service.read_quotas()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self.server.end_streams()
        self.server.should_exit = True
        self._thread.join(30)
        self.service.stop()
        self.store.close()


@contextmanager
def live(
    folder: Path,
    *,
    cluster: Cluster | None = BOXES,
    tokens: dict[str, tuple[str, str]] | None = None,
    clock: str = "virtual",
    url: str = "",
    **settings: Any,
) -> Iterator[Live]:
    """A service on a store in `folder`, open to everyone unless `tokens` (name: (role, tenant)) are given."""
    chosen = Settings(**({"slot_seconds": 600.0, "horizon": 12, "clock": clock} | settings))
    one = Live(url or f"sqlite:///{folder}/store.db", cluster, chosen, tokens or {})
    try:
        yield one
    finally:
        one.close()


@contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[bytes]]]:
    """`equipoise serve` as a process of its own, ended by SIGTERM; it must then end well."""
    machines, log = folder / "machines.yaml", folder / "server.log"
    machines.write_text("machines:\n  - {name: box, count: 2, capacity: {gpu: 4, cpu: 32, memory: 128Gi}}\n")
    with listening("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "equipoise",
        "serve",
        "--store",
        f"sqlite:///{folder}/store.db",
        "--port",
        str(port),
        "--cluster",
        str(machines),
        "--clock",
        "virtual",
        "--slot",
        "10m",
        "--horizon",
        "12",
        *options,
    ]
    env = {k: v for k, v in os.environ.items() if not k.startswith("EQUIPOISE_")}
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
            _until_well(client, process, log)
            yield client, process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
    assert process.returncode == 0, log.read_text()[-2000:]


def _until_well(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit and process.poll() is None:
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"the server did not come up:\n{log.read_text()[-2000:]}")
