"""A peer at work: a process of its own environment that is asked in lines of JSON and answers in lines of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from turns import PeerFailed

PLAYERS = Path(__file__).with_name("players")
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
ANSWER_SECONDS = 300.0  # more than any one request should take


class Player:
    """One process, started with its arguments; asked one thing at a time."""

    def __init__(self, command: list[str], errors: Path) -> None:
        self.errors = errors
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors.open("w"),
            text=True,
            env={**os.environ, **ONE_CORE},
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to a request; PeerFailed when there is none in time."""
        assert self._process.stdin is not None and self._process.stdout is not None
        late = threading.Timer(ANSWER_SECONDS, self._process.kill)
        late.start()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            late.cancel()
        if not line:
            said = [row for row in self.errors.read_text().splitlines() if row.strip()]
            raise PeerFailed(said[-1].strip()[:200] if said else f"no answer within {ANSWER_SECONDS:.0f} s")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Players:
    """The peers' processes, each started when it is first needed and kept for the work to come."""

    def __init__(self, python: Path) -> None:
        self.python = python
        self._kept: dict[tuple[str, int], Player] = {}
        self._folder = tempfile.TemporaryDirectory()

    def of(self, script: str, processes: int = 0, *, ours: bool = False) -> Player:
        """A script of players/ in the peers' environment, or in ours; `processes` of them under MPI.

        One that ended is started anew.
        """
        kept = self._kept.get((script, processes))
        if kept is not None and kept.alive:
            return kept
        command = [sys.executable if ours else str(self.python), str(PLAYERS / script)]
        if processes:
            command = [str(self.python.with_name("mpiexec")), "-n", str(processes), *command]
        self._kept[script, processes] = Player(command, Path(self._folder.name) / f"{script}-{processes}.txt")
        return self._kept[script, processes]

    def __enter__(self) -> Players:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._kept.values():
            one.close()
        self._folder.cleanup()
