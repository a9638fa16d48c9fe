"""The service as its users meet it: in this process on a store of its own, or as a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from starlette.testclient import TestClient

from equipoise.place import Cluster, Machine
from equipoise.serve.access import Access, Limits, Tokens, access_for, digest, new_token
from equipoise.serve.api.app import app_of
from equipoise.serve.service import Service
from equipoise.serve.settings import Settings
from equipoise.serve.store import TenantRow, TokenRow, open_store

BOXES = Cluster((Machine({"gpu": 4, "cpu": 32, "memory": "128Gi"}, 2, "box"),))
JOB: dict[str, Any] = {"name": "job", "worker": {"gpu": 1, "cpu": 2}, "workers": 2, "duration": "20m", "value": 10}
UNLIMITED = Limits(rate=0, stranger_rate=0)


class Live:
    """A service and its application in this process; `as_(name)` asks with the token of that name."""

    def __init__(self, url: str, cluster: Cluster | None, settings: Settings, tokens: dict[str, tuple[str, str]]) -> None:
        self.store = open_store(url)
        try:
            self.secrets = {name: new_token() for name in tokens}
            known = {row.name for row in self.store.tokens()}
            for name, (role, tenant) in tokens.items():
                if name in known:
                    self.store.remove_token(name)
                self.store.add_token(TokenRow(name, digest(self.secrets[name]), role, tenant, 0.0))
            self.access: Access = access_for(self.store.tokens, host="127.0.0.1", limits=UNLIMITED)
            self.service = Service(self.store, settings, cluster)
            self.service.start()
            self.app = app_of(self.service, self.access)
        except BaseException:
            self.store.close()
            raise

    def client(self, name: str = "") -> TestClient:
        headers = {"Authorization": f"Bearer {self.secrets[name]}"} if name else {}
        return TestClient(self.app, "http://127.0.0.1", raise_server_exceptions=False, headers=headers)

    def quota(self, tenant: str, **milli: int) -> None:
        self.store.put_tenant(TenantRow(tenant, milli))
        self.service.read_quotas()

    def close(self) -> None:
        self.service.stop()
        self.store.close()


@contextmanager
def live(
    folder: Path, *, cluster: Cluster | None = BOXES, tokens: dict[str, tuple[str, str]] | None = None,
    clock: str = "virtual", url: str = "", **settings: Any,
) -> Iterator[Live]:  # fmt: skip
    """A service on a store in `folder`, open to everyone unless `tokens` (name: (role, tenant)) are given."""
    chosen = Settings(**({"slot_seconds": 600.0, "horizon": 12, "clock": clock} | settings))
    one = Live(url or f"sqlite:///{folder}/store.db", cluster, chosen, tokens or {})
    try:
        yield one
    finally:
        one.close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def served(folder: Path, *options: str, seconds: float = 120.0) -> Iterator[httpx.Client]:
    """`equipoise serve` as a process of its own; ended by SIGTERM, and by force only when that does not help."""
    machines = folder / "machines.yaml"
    machines.write_text("machines:\n  - {name: box, count: 2, capacity: {gpu: 4, cpu: 32, memory: 128Gi}}\n")
    port = free_port()
    command = [
        sys.executable, "-m", "equipoise.cli", "serve", "--store", f"sqlite:///{folder}/store.db", "--port", str(port),
        "--cluster", str(machines), "--clock", "virtual", "--slot", "10m", "--horizon", "12", *options,
    ]  # fmt: skip
    env = {k: v for k, v in os.environ.items() if not k.startswith("EQUIPOISE_")}
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30.0) as client:
            _until_well(client, process, time.monotonic() + seconds, folder / "server.log")
            yield client
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until_well(client: httpx.Client, process: subprocess.Popen[bytes], limit: float, log: Path) -> None:
    while time.monotonic() < limit:
        if process.poll() is not None:
            break
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"the server did not come up:\n{log.read_text()[-2000:]}")


__all__ = ["BOXES", "JOB", "Live", "Tokens", "live", "served"]
