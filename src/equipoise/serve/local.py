"""A service for the moment: its own process, a virtual clock, a free port of this machine, a store that is thrown away."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from equipoise.errors import InputError

if TYPE_CHECKING:
    from equipoise.serve.client import Client

PATIENCE = 300.0  # seconds; after an upgrade the planner is compiled once
LOOK = 0.05


@contextmanager
def local_service(machines: str | Path | Mapping[str, object], *options: str, slot: str = "10m") -> Iterator[Client]:
    """A client of a service for the moment, which ends with the block.

    Parameters
    ----------
    machines
        A file of machines, or what stands in one.
    options
        As `equipoise serve` has them, such as "--horizon", "48".
    slot
        The length of a slot.
    """
    from equipoise.serve.client import Client

    with tempfile.TemporaryDirectory(prefix="equipoise-") as folder:
        file = Path(folder) / "cluster.json" if isinstance(machines, Mapping) else Path(machines)
        if isinstance(machines, Mapping):
            file.write_text(json.dumps(machines))
        with started(file, slot, *options) as url, Client(url) as client:
            yield client


@contextmanager
def started(cluster: Path, slot: str, *options: str) -> Iterator[str]:
    """The address of a service with these machines, which ends with the block."""
    if not cluster.is_file():
        raise InputError(f"{cluster}: no such file; expected the machines of a cluster, as YAML, JSON or CSV")
    with tempfile.TemporaryDirectory(prefix="equipoise-") as folder:
        log = Path(folder) / "log"
        given = {"store": f"sqlite:///{folder}/store.db", "cluster": cluster, "clock": "virtual", "slot": slot}
        given |= {"port": 0, "rate": 0}
        words = [f"--{name}={value}" for name, value in given.items()]
        command = [sys.executable, "-m", "equipoise", "serve", *words, "--log-json", *options]
        with log.open("wb") as errors:
            # In a session of its own: Ctrl-C reaches the caller only, which may still have a last request.
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)
        try:
            yield _address(process, log)
        finally:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Where it listens, once it says so; what it said last, when it ends instead."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        ended = process.poll() is not None
        said = log.read_text(errors="replace").splitlines(keepends=True)
        for line in said:
            if line.startswith("{") and line.endswith("\n"):
                told = json.loads(line)
                if told.get("event") == "serving" and _answers(str(told["url"])):
                    return str(told["url"])
        if ended:
            why = said[-1].strip().removeprefix("error: ") if said else f"exit code {process.returncode}"
            raise InputError(f"the service did not start: {why}")
        time.sleep(LOOK)
    raise InputError(f"the service did not start within {PATIENCE:g} s")


def _answers(url: str) -> bool:
    """Whether somebody accepts connections there: it says where just before it does."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 0), timeout=LOOK).close()
    except OSError:
        return False
    return True
