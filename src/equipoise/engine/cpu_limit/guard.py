"""The owner's side of the guardian: start it, talk to it, and start another when it is killed."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from equipoise.engine.cpu_limit import groups
from equipoise.errors import Failure

SOURCE = str(Path(__file__).parents[3])  # the folder that has the package: -I and -S leave it off the path
CALL = "import sys; sys.path.insert(0, sys.argv[3]); from equipoise.engine.cpu_limit.guardian import main; "
CALL += "main(int(sys.argv[1]), sys.argv[2])"
TRIES = 3
NUMBERS = itertools.count(1)


class Guard:
    """One guardian process for one limiter. `state` gives the lines that tell a new guardian what its forerunner knew."""

    def __init__(self, state: Callable[[], Iterable[str]]) -> None:
        self.state = state
        self.lock = threading.RLock()
        self.owner = os.getpid()
        self.prefix = f"{groups.prefix(self.owner)}{next(NUMBERS)}-"  # an owner may have several limiters
        self.open = True
        self.started = 0
        self.process = self._start()
        if not any(self.ask("ping") for _ in range(TRIES)):  # from here on somebody cleans up, whoever is killed
            self.open = False
            raise Failure(f"the guardian of CPU limits does not start with {sys.executable}; use the kind none")

    @property
    def pid(self) -> int:
        """The guardian's process id; it changes when one was killed."""
        return self.process.pid

    def _start(self) -> subprocess.Popen[bytes]:
        """A session of its own (Ctrl-C does not reach it) and none of the owner's files."""
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", CALL, str(self.owner), self.prefix, SOURCE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
                close_fds=True,
                cwd="/",
            )
        except OSError as error:
            raise Failure(f"cannot start the guardian of CPU limits with {sys.executable}: {error}") from None
        self.process = process
        self.started += 1
        with contextlib.suppress(BrokenPipeError):
            for line in self.state():
                self._write(line)
        threading.Thread(target=self._watch, args=(process,), daemon=True, name="equipoise-guard").start()
        return process

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the guardian's end; if nobody asked for it, another takes over at once."""
        with contextlib.suppress(OSError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with self.lock:
            if self.open and self.process is process:
                with contextlib.suppress(Failure):
                    self._renew(process)

    def _renew(self, old: subprocess.Popen[bytes]) -> None:
        if self.started > 1000:
            raise Failure("the guardian of CPU limits ended a thousand times; giving up")
        for pipe in (old.stdin, old.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        old.wait()
        self._start()

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode(errors="surrogateescape") + b"\n")

    def tell(self, line: str) -> None:
        """Say one line; what it changes must be in `state` already, so that a new guardian hears it too."""
        with self.lock:
            if not self.usable():
                return
            try:
                self._write(line)
            except (BrokenPipeError, ValueError):
                self._renew(self.process)

    def ask(self, line: str) -> str | None:
        """Say one line and wait for the answer; None when the guardian was killed over it."""
        with self.lock:
            if not self.usable():
                return None
            try:
                self._write(line)
                assert self.process.stdout is not None
                answer: bytes = self.process.stdout.readline()
            except (BrokenPipeError, ValueError):
                answer = b""
            if answer.endswith(b"\n"):
                return answer.decode().strip()
            self._renew(self.process)
            return None

    def usable(self) -> bool:
        """Not after the end, and not in a fork of the owner."""
        return self.open and os.getpid() == self.owner

    def close(self) -> None:
        """Let the guardian put everything back, and wait for its end."""
        with self.lock:
            if not self.usable():
                return
            self.open = False
            process = self.process
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)  # its shadow continues what it stopped
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
