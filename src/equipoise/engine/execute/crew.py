"""The driver's side of the preloaded server: start task processes, let them in, end them, leave none behind."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil

from equipoise.engine.cpu_limit import CpuLimiter, Held
from equipoise.engine.execute.board import ENDED, EXITED, NOT_A_NUMBER, OVER, RAISED, READY, Board
from equipoise.engine.execute.server import ALONE
from equipoise.engine.execute.work import Work, refuse_unknown
from equipoise.errors import Failure, InputError

START_LIMIT = 120.0  # seconds in which the server must have loaded everything
DEATH_SEEN = 1.0  # seconds in which the server tells of a death
ANSWER_LIMIT = 20.0  # seconds in which it must answer an order
COMMAND = "from equipoise.engine.execute.server import main; main()"


@dataclass(frozen=True)
class Start:
    """What a task process is told: its work, and when to stop by itself (an error, units, seconds of CPU)."""

    work: Work
    target: float | None = None
    units: int | None = None
    cpu: float | None = None


class Crew:
    """Task processes by slot. Use `hired`."""

    def __init__(self, board: Board, server: subprocess.Popen[bytes], orders: int, answers: int, complaints: Any):
        self.board, self.server, self.orders, self.answers = board, server, orders, answers
        self.complaints = complaints
        self.heard = b""

    def start(self, slot: int, start: Start) -> int:
        """Fork a process for this task; returns its id. It makes itself ready and waits to be let in."""
        work = start.work
        said = {"kind": work.kind, "seed": work.seed, "target": start.target, "units": start.units, "cpu": start.cpu}
        return int(self._ask({"start": slot, **said})["pid"])

    def wait_ready(self, slots: Sequence[int], limit: float) -> list[int]:
        """Until all are ready or over; those that are not in time."""
        until = time.monotonic() + limit
        waiting = list(slots)
        while waiting and time.monotonic() < until:
            waiting = [slot for slot in waiting if not (self.status(slot) >= READY or self.exited(slot))]
            if waiting:
                self.check_alive()
                time.sleep(0.002)
        return waiting

    def held(self, slot: int, pid: int, cpu: CpuLimiter, share: float) -> Held | None:
        """Hold a task that is ready; None if it is not, or has died."""
        if self.status(slot) != READY:
            return None
        try:
            return cpu.hold(pid, share)
        except InputError:
            if self.has_died(slot):
                return None
            raise

    def has_died(self, slot: int) -> bool:
        """Whether the process is gone; the server tells within moments."""
        until = time.monotonic() + DEATH_SEEN
        while not self.exited(slot) and time.monotonic() < until:
            time.sleep(0.002)
        return self.exited(slot)

    def let_in(self, slot: int) -> None:
        self._tell({"go": slot})

    def end(self, slot: int, held: Held | None) -> None:
        """Kill the task process and what it started. It is let go after the blow: held, it could take seconds to die."""
        if self.server.poll() is None:
            self._tell({"kill": slot})
        if held is not None:
            held.release()

    def wait_gone(self, slots: Sequence[int]) -> None:
        """Until these processes are dead."""
        until = time.monotonic() + ANSWER_LIMIT
        while self.server.poll() is None and not all(map(self.exited, slots)):
            if time.monotonic() > until:
                raise Failure(f"a task process does not die in {ANSWER_LIMIT:g} s after SIGKILL (slots {list(slots)})")
            time.sleep(0.002)

    def status(self, slot: int) -> int:
        return int(self.board.rows[slot]["status"])

    def exited(self, slot: int) -> bool:
        return bool(self.board.rows[slot]["exit"])

    def fault(self, slot: int) -> str:
        """Why a task that is over did not end well; nothing if it did, or goes on."""
        status, row = self.status(slot), self.board.rows[slot]
        units = int(row["units"])
        if status in (RAISED, NOT_A_NUMBER):
            return self.board.message(slot)
        if status == ENDED:
            last = f" at an error of {float(row['error']):.4g}" if units else ""
            return f"ended by itself after {units} units{last}, above its target"
        if status not in OVER and self.exited(slot):
            code = int(row["exit"]) - EXITED
            how = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
            return f"its process {how} after {units} units"
        return ""

    def left(self) -> int:
        """Processes below the server."""
        return len(psutil.Process(self.server.pid).children(recursive=True))

    def check_alive(self) -> None:
        code = self.server.poll()
        if code is not None:
            raise Failure(
                f"the server of task processes is gone (exit {code}){self._complaint()}; nothing was left running"
            )

    def _tell(self, order: dict[str, Any]) -> None:
        try:
            os.write(self.orders, json.dumps(order).encode() + b"\n")
        except BrokenPipeError:
            self.server.wait()
            self.check_alive()

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        self._tell(order)
        return self.listen(ANSWER_LIMIT)

    def listen(self, limit: float) -> dict[str, Any]:
        """The server's next answer."""
        until = time.monotonic() + limit
        while b"\n" not in self.heard:
            left = until - time.monotonic()
            if not select.select([self.answers], [], [], max(left, 0.0))[0]:
                raise Failure(f"the server of task processes did not answer in {limit:g} s{self._complaint()}")
            got = os.read(self.answers, 65536)
            if not got:
                self.server.wait()
                self.check_alive()
            self.heard += got
        line, _, self.heard = self.heard.partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        if "input" in said:
            raise InputError(said["input"])
        if "failure" in said:
            raise Failure(f"the server of task processes: {said['failure']}")
        return said

    def _complaint(self) -> str:
        """The last line it wrote to its standard error."""
        self.complaints.seek(0)
        lines = self.complaints.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    def dismiss(self) -> None:
        """The server ends its tasks and itself when its pipe closes."""
        for end in (self.orders, self.answers):
            with contextlib.suppress(OSError):
                os.close(end)
        try:
            self.server.wait(ANSWER_LIMIT)
        except subprocess.TimeoutExpired:
            self.server.kill()  # the system then kills its tasks
            self.server.wait()
        self.board.close()
        self.complaints.close()


@contextmanager
def hired(slots: int, kinds: Sequence[str], python: str = sys.executable) -> Iterator[Crew]:
    """A server that has loaded what these kinds of work need, with room for so many tasks at once."""
    refuse_unknown(list(kinds))
    board = Board(slots)
    mine_in, its_out = os.pipe()
    its_in, mine_out = os.pipe()
    words = [python, "-c", COMMAND, its_in, its_out, board.handle, slots, os.getpid(), *kinds]
    complaints = tempfile.TemporaryFile()  # noqa: SIM115  # closed by dismiss
    try:
        server = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=complaints,
            stderr=complaints,
            pass_fds=(its_in, its_out, board.handle),
            env=os.environ | ALONE,
            start_new_session=True,
        )
    except OSError as error:
        for end in (mine_in, its_out, its_in, mine_out, board.handle):
            os.close(end)
        complaints.close()
        raise Failure(f"cannot start the server of task processes ({python}): {error.strerror}") from None
    os.close(its_in)
    os.close(its_out)
    crew = Crew(board, server, mine_out, mine_in, complaints)
    try:
        try:
            crew.listen(START_LIMIT)
        except BaseException:
            server.kill()  # it may still be loading, and would read its pipe only then
            raise
        yield crew
    finally:
        crew.dismiss()
