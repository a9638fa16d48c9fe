"""The preloaded server: it has imported and read all that tasks need, and forks a process for each of them.

It has one thread and has run no parallel kernel, so that forking is safe. It ends when its driver does, and takes every
task process with it: the driver's end of the pipe closes however the driver dies; a task is killed by the system when the
server dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import math
import os
import select
import signal
import sys
import time
import traceback
import warnings
from typing import Any

from equipoise.engine.execute import board as states
from equipoise.engine.execute.board import ERRORS_MOST, EXITED, Board
from equipoise.engine.execute.work import Work, preload

ALONE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
PR_SET_PDEATHSIG = 1
LOOK = 0.5  # seconds between looks at whether the driver is alive, should its pipe have been inherited by someone
LINES = 6  # of a traceback that are told


def main() -> None:
    """Arguments: the descriptors of orders, answers and the board, its slots; then what to preload."""
    orders, answers, handle, slots, driver = (int(word) for word in sys.argv[1:6])
    board = Board(slots, handle)
    try:
        warnings.simplefilter("ignore")
        preload(sys.argv[6:])
    except Exception as error:
        kind = "input" if type(error).__name__ == "InputError" else "failure"
        _answer(answers, {kind: str(error) if kind == "input" else f"{type(error).__name__}: {error}"})
        return
    gc.freeze()  # what is loaded stays shared with the tasks
    _answer(answers, {"ready": os.getpid()})
    _Server(orders, answers, board, driver).serve()


def _answer(pipe: int, what: dict[str, Any]) -> None:
    os.write(pipe, json.dumps(what).encode() + b"\n")


class _Server:
    def __init__(self, orders: int, answers: int, board: Board, driver: int) -> None:
        self.orders, self.answers, self.board, self.driver = orders, answers, board, driver
        self.pids: dict[int, int] = {}  # of running tasks, by slot
        self.gates: dict[int, int] = {}  # writing lets the task begin
        self.wake, wake_end = os.pipe()
        for end in (self.wake, wake_end):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Until the driver is gone."""
        text = b""
        try:
            while os.getppid() == self.driver:
                ready, _, _ = select.select([self.orders, self.wake], [], [], LOOK)
                if self.wake in ready:
                    os.read(self.wake, 4096)
                self._reap()
                if self.orders in ready:
                    got = os.read(self.orders, 65536)
                    if not got:
                        return
                    *lines, text = (text + got).split(b"\n")
                    for line in lines:
                        self._obey(json.loads(line))
        finally:
            for slot in self.pids:
                self._kill(slot)
            for pid in self.pids.values():
                os.waitpid(pid, 0)

    def _obey(self, order: dict[str, Any]) -> None:
        if "start" in order:
            self._fork(order)
        elif "go" in order and order["go"] in self.gates:
            with contextlib.suppress(BrokenPipeError):
                os.write(self.gates[order["go"]], b"!")
        elif "kill" in order:
            self._kill(order["kill"])

    def _fork(self, order: dict[str, Any]) -> None:
        slot, me = order["start"], os.getpid()
        self.board.clear(slot)
        closed, gate = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(closed)
            os.close(gate)
            _answer(self.answers, {"failure": f"no process for task {slot}: {error.strerror}"})
            return
        if pid == 0:
            code = 1
            try:
                self._become_task(me, gate)
                code = _run(self.board, slot, closed, order, me)
            finally:
                os._exit(code)
        os.close(closed)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # here and in the task: whoever is first
        self.pids[slot], self.gates[slot] = pid, gate
        _answer(self.answers, {"pid": pid})

    def _become_task(self, server: int, gate: int) -> None:
        """A group of its own, default signals, none of the server's ends of pipes."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:  # it died before that was said
            os._exit(1)
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        for end in (self.orders, self.answers, self.wake, gate, *self.gates.values()):
            os.close(end)

    def _kill(self, slot: int) -> None:
        """The task and what it started. It is reaped later: one that is held to next to nothing dies slowly."""
        pid = self.pids.get(slot)
        if pid is not None:
            for end in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    end(pid, signal.SIGKILL)

    def _reap(self) -> None:
        for slot, pid in list(self.pids.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)  # what it started and left
                self._gone(slot, os.waitstatus_to_exitcode(status))

    def _gone(self, slot: int, code: int) -> None:
        self.board.rows[slot]["exit"] = EXITED + code
        del self.pids[slot]
        os.close(self.gates.pop(slot))


def _run(board: Board, slot: int, gate: int, order: dict[str, Any], server: int) -> int:
    """The life of a task process: make ready, wait to be let in, work. Its exit code."""
    try:
        errors = Work(order["kind"], order["seed"]).open()
        board.say(slot, states.READY)
        if not os.read(gate, 1):
            return 1  # the server is gone
        board.say(slot, states.WORKING)
        _work(board, slot, errors, order["target"], order["units"], order["cpu"], server)
    except BaseException as error:
        board.say(slot, states.RAISED, _tail(error))
        return 1
    return 0


def _work(
    board: Board, slot: int, errors: Any, target: float | None, units: int | None, cpu: float | None, server: int
) -> None:
    """Unit after unit, until the target, so many units, so much CPU, or the end."""
    row, kept = board.rows[slot], board.errors[slot]
    began = time.process_time()
    for done, value in enumerate(errors, 1):
        try:
            error = float(value)
        except (TypeError, ValueError):
            error = math.nan
        if not math.isfinite(error):
            board.say(slot, states.NOT_A_NUMBER, f"yielded {value!r} after unit {done}; expected a number")
            return
        if done <= ERRORS_MOST:
            kept[done - 1] = error
        spent = time.process_time() - began
        row["error"], row["cpu"], row["at"] = error, spent, time.monotonic()
        row["units"] = done
        if target is not None and error <= target:
            board.say(slot, states.REACHED)
            return
        if (units is not None and done >= units) or (cpu is not None and spent >= cpu):
            board.say(slot, states.ENOUGH)
            return
        if os.getppid() != server:
            return
    board.say(slot, states.ENDED)


def _tail(error: BaseException) -> str:
    """The last lines of a traceback."""
    lines = "".join(traceback.format_exception(error)).strip().splitlines()
    return "\n".join(lines[-LINES:])
