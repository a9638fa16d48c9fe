"""`equipoise` in processes that are forked from one which has loaded everything: the same command without its imports.

For tests that start many: what is killed, stopped and looked at is a process of its own, with its own session and files.
Where a start from nothing is what a test shows, it uses `subprocess`.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

LOADS = ("equipoise.cli", "equipoise.serve.run", "equipoise.serve.replay", "alembic.command", "psycopg")


class Forked:
    """A process as `subprocess.Popen` has it, as far as tests need: pid, returncode, poll, wait and signals."""

    def __init__(self, pid: int, ended: int) -> None:
        self.pid, self._ended = pid, ended
        self.returncode: int | None = None
        self._looking = threading.Lock()

    def poll(self) -> int | None:
        with self._looking:
            if self.returncode is None and select.select([self._ended], [], [], 0)[0]:
                self.returncode = int(os.read(self._ended, 20))
                os.close(self._ended)
        return self.returncode

    def wait(self, timeout: float = 600.0) -> int:
        limit = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > limit:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ended by itself in between
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that has loaded everything; it ends with this one."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        atexit.register(self.close)

    def close(self) -> None:
        self._control.close()
        self._process.wait(60)

    def start(
        self,
        words: Sequence[str],
        cwd: str | Path,
        out: IO[bytes],
        err: IO[bytes],
        env: Mapping[str, str] | None = None,
    ) -> Forked:
        """`equipoise WORDS` in a session of its own."""
        ended, says = os.pipe()
        order = {"argv": ["equipoise", *words], "cwd": str(cwd), "env": dict(os.environ if env is None else env)}
        text = json.dumps(order).encode()
        socket.send_fds(self._control, [len(text).to_bytes(8)], [out.fileno(), err.fileno(), says])
        self._control.sendall(text)
        os.close(says)
        return Forked(int.from_bytes(_whole(self._control, 8)), ended)


_nurseries: dict[int, Nursery] = {}
Done = subprocess.CompletedProcess[str]


def start(
    words: Sequence[str], cwd: str | Path, out: IO[bytes], err: IO[bytes], env: Mapping[str, str] | None = None
) -> Forked:
    """`equipoise WORDS` from this process's nursery."""
    if os.getpid() not in _nurseries:
        _nurseries[os.getpid()] = Nursery()
    return _nurseries[os.getpid()].start(words, cwd, out, err, env)


def run(words: Sequence[str], cwd: str | Path, env: Mapping[str, str] | None = None, timeout: float = 600.0) -> Done:
    """`equipoise WORDS` to its end, and what it printed, as `subprocess.run` has it."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start(words, cwd, out, err, env)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode())
    return subprocess.CompletedProcess(words, code, *said)


# in the nursery


def _whole(control: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = control.recv(size - len(found))
        if not part:
            raise EOFError
        found += part
    return found


def _serve(control: socket.socket) -> dict[str, object] | None:
    """Fork for every order, and say how each process ended; an order where this is a child, None where nobody asks more."""
    living: dict[int, tuple[int, int]] = {}  # pidfd: pid, where its end is told
    while True:
        for ready in select.select([control, *living], [], [])[0]:
            if ready is not control:
                pid, says = living.pop(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                os.write(says, str(code).encode())
                os.close(says)
                os.close(ready)
                continue
            head, files, _, _ = socket.recv_fds(control, 8, 3)
            if not head:
                return None
            out, err, says = files
            order: dict[str, object] = json.loads(_whole(control, int.from_bytes(head)))
            pid = os.fork()
            if pid == 0:
                os.setsid()
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(out, 1)
                os.dup2(err, 2)
                os.closerange(3, max(says, control.fileno(), *living, 0) + 1)
                return order
            living[os.pidfd_open(pid)] = (pid, says)
            os.close(out)
            os.close(err)
            control.sendall(pid.to_bytes(8))


def _main() -> None:
    import importlib

    control = socket.socket(fileno=int(sys.argv[1]))
    for name in LOADS:
        importlib.import_module(name)
    order = _serve(control)
    if order is None:
        return
    control.detach()
    os.chdir(str(order["cwd"]))
    os.environ.clear()
    os.environ.update(order["env"])  # type: ignore[call-overload]
    time.tzset()
    sys.argv[:] = order["argv"]  # type: ignore[call-overload]
    from equipoise.cli import main

    main()


if __name__ == "__main__":
    sys.path.pop(0)
    _main()
