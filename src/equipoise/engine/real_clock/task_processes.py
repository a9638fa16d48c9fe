"""Tasks, and their processes: start them, let them begin, read what they have done, end them, leave none behind.

A task is a generator that does a unit of work, yields its error, and so on. Ours train scikit-learn estimators or a torch
module on data that comes with scikit-learn; a user may name a function.

They are forked from a server that has loaded what they need. What they write and their owner reads is memory shared by
both: for each task how many units it has done, its last error, the CPU it took, how it ended; and every error in order.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import mmap
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from numpy.typing import NDArray

from equipoise.engine.cpu_limit import CpuLimiter, Held
from equipoise.engine.fork_server import ForkServer
from equipoise.errors import Failure, InputError, unknown_name
from equipoise.kernels import Floats, Ints
from equipoise.registry import is_reference, load_reference

if TYPE_CHECKING:
    from equipoise.data.dataset import Dataset

Errors = Iterator[float]


@dataclass(frozen=True)
class TaskKind:
    """A family of tasks: (model, which of its settings, data) of share's recorder, and real samples in a unit."""

    trained: tuple[tuple[str, int, str], ...]
    rows: int
    needs: str = "sklearn"


# Those whose errors still fall after seconds of training; naive Bayes learns fast, so it is fed slowly.
KINDS: dict[str, TaskKind] = {
    "sgd": TaskKind((("sgd", 2, "digits-blurred"), ("sgd", 5, "digits"), ("sgd", 8, "digits-blurred")), rows=16),
    "mlp": TaskKind((("mlp", 1, "digits"), ("mlp", 3, "digits-blurred"), ("mlp", 4, "digits")), rows=16),
    "nb": TaskKind(
        (("naive-bayes-bernoulli", 0, "digits-wrong-labels"), ("naive-bayes-multinomial", 0, "digits-blurred")), rows=2
    ),
    "torch": TaskKind((("torch", 0, "digits"), ("torch", 0, "digits-blurred")), rows=16, needs="torch"),
}


@dataclass(frozen=True)
class Work:
    """One task's work: a kind of ours, or FILE.py:function; its seed decides everything else about it."""

    kind: str
    seed: int

    def open(self) -> Errors:
        """The generator; what it costs to make it is not the task's."""
        if is_reference(self.kind):
            return _users(self.kind, self.seed)
        rng = np.random.default_rng(self.seed)
        return _ours(KINDS[self.kind], int(rng.integers(len(KINDS[self.kind].trained))), rng)


def _ours(kind: TaskKind, which: int, rng: np.random.Generator) -> Errors:
    """One of a kind, its data, order and weights drawn."""
    model, setting, material = kind.trained[which]
    recorder = importlib.import_module("equipoise.share.record")
    data = recorder.prepare(recorder.DATA[material], rng)
    if model == "torch":
        return torch_work(_perceptron(data, int(rng.integers(2**31))), data, rows=kind.rows, rng=rng)
    known = recorder.MODELS[model]
    estimator = known.build(known.settings[setting], int(rng.integers(2**31)))
    return partial_fit_work(estimator, data, rows=kind.rows, rng=rng)


def partial_fit_work(estimator: Any, data: Dataset, *, rows: int, rng: np.random.Generator) -> Errors:
    """Work that trains a scikit-learn estimator; yields its error on held-out data after each unit.

    Parameters
    ----------
    estimator
        Anything with `partial_fit` and `predict`.
    data
        What it learns from; the order of its rows is drawn anew for each pass.
    rows
        Samples of a unit.
    rng
        Draws the order.
    """
    classes = np.arange(data.classes)
    with np.errstate(divide="ignore"):  # naive Bayes takes ln 0 for a class not yet seen
        for chosen in _chunks(len(data.y), rows, rng):
            estimator.partial_fit(data.X[chosen], data.y[chosen], classes=classes)
            yield data.error_of(estimator.predict(data.X_test))


def torch_work(
    module: Any, data: Dataset, *, rows: int, rng: np.random.Generator, optimizer: Any = None, loss: Any = None
) -> Errors:
    """Work that trains a torch module; yields its error on held-out data after each unit.

    Parameters
    ----------
    module
        It maps rows of data to a score for each class.
    data
        What it learns from; the order of its rows is drawn anew for each pass.
    rows
        Samples of a unit.
    rng
        Draws the order.
    optimizer
        SGD with a step of 0.05 unless given.
    loss
        Cross-entropy unless given.
    """
    import torch

    torch.set_num_threads(1)
    descend = optimizer or torch.optim.SGD(module.parameters(), lr=0.05)
    measure = loss or torch.nn.CrossEntropyLoss()
    X, held = (torch.as_tensor(part, dtype=torch.float32) for part in (data.X, data.X_test))
    y = torch.as_tensor(data.y)
    for chosen in _chunks(len(data.y), rows, rng):
        descend.zero_grad()
        measure(module(X[chosen]), y[chosen]).backward()
        descend.step()
        with torch.no_grad():
            yield data.error_of(module(held).argmax(1).numpy())


def _perceptron(data: Dataset, seed: int) -> Any:
    """One hidden layer of 32."""
    import torch

    torch.manual_seed(seed)
    inputs = int(data.X.shape[1])
    return torch.nn.Sequential(torch.nn.Linear(inputs, 32), torch.nn.ReLU(), torch.nn.Linear(32, data.classes))


def _chunks(samples: int, rows: int, rng: np.random.Generator) -> Iterator[Ints]:
    """Row numbers, `rows` at a time, pass after pass, shuffled for each pass."""
    left: Ints = np.empty(0, np.int64)
    while True:
        while len(left) < rows:
            left = np.concatenate([left, rng.permutation(samples)])
        yield left[:rows]
        left = left[rows:]


def refuse_unknown(kinds: list[str]) -> None:
    for kind in kinds:
        if not is_reference(kind) and kind not in KINDS:
            raise unknown_name("kind of task", kind, KINDS)


def preload(kinds: list[str]) -> None:
    """Import, read and run once all that the tasks of these kinds need, so that it costs them nothing."""
    for kind in kinds:
        if is_reference(kind):
            load_function(kind)
        else:
            try:
                importlib.import_module(KINDS[kind].needs)
            except ImportError:
                needs = KINDS[kind].needs
                raise InputError(
                    f"tasks of kind {kind!r} need {needs}, which is not installed: pip install 'equipoise[{needs}]'",
                    code="library.missing",
                ) from None
            for which in range(len(KINDS[kind].trained)):
                next(_ours(KINDS[kind], which, np.random.default_rng(which)))


@cache
def load_function(reference: str) -> Callable[[int], object]:
    """`FILE.py:function`, the file run once; a mistake in it is one line that says where."""
    found = load_reference(reference, "function")
    if not callable(found):
        path, _, name = reference.rpartition(":")
        raise InputError(f"{Path(path).name}: {name} is a {type(found).__name__}; expected a function of a seed")
    return found


def _users(reference: str, seed: int) -> Errors:
    """The user's function, called with the task's seed; it must return something that yields errors."""
    found = load_function(reference)(seed)
    if not isinstance(found, Iterable):
        name = reference.rpartition(":")[2]
        raise TypeError(
            f"{name}({seed}) returned {type(found).__name__}; expected a generator that yields an error after each unit"
        )
    return iter(found)


EMPTY, READY, WORKING, REACHED, ENOUGH, ENDED, RAISED, NOT_A_NUMBER = range(8)
OVER = (REACHED, ENOUGH, ENDED, RAISED, NOT_A_NUMBER)  # nothing more will come
ERRORS_MOST = 20_000  # errors kept of a task; later ones show only as its last
MESSAGE_MOST = 1_800  # bytes of a traceback's end
TRACEBACK_LINES = 6  # of a traceback that are kept
START_SECONDS = 120.0  # in which the server must have loaded everything
DEATH_SECONDS = 1.0  # in which the server reports a death
KILL_SECONDS = 20.0  # in which a killed process must be gone

ROW = np.dtype(
    [
        ("status", np.int64),
        ("units", np.int64),
        ("error", np.float64),
        ("cpu", np.float64),  # seconds of CPU that its units took
        ("at", np.float64),  # when the last unit was done, on the clock that all processes share (time.monotonic)
        ("message", f"S{MESSAGE_MOST}"),
    ]
)


class TaskMemory:
    """Rows and errors of so many tasks, on a file without a name. It is gone when the last process that has it is."""

    def __init__(self, slots: int, handle: int | None = None) -> None:
        self.slots = slots
        size = slots * (ROW.itemsize + 8 * ERRORS_MOST)
        if handle is None:
            self.handle = _nameless()
            os.ftruncate(self.handle, size)
        else:
            self.handle = handle
        shared = mmap.mmap(self.handle, size)
        self.rows: NDArray[np.void] = np.frombuffer(shared, ROW, slots)
        errors = np.frombuffer(shared, np.float64, slots * ERRORS_MOST, slots * ROW.itemsize)
        self.errors: Floats = errors.reshape(slots, ERRORS_MOST)

    def clear(self, slot: int) -> None:
        self.rows[slot] = np.zeros((), ROW)

    def seen(self, slot: int) -> Floats:
        """A copy of the errors so far."""
        return self.errors[slot, : min(int(self.rows[slot]["units"]), ERRORS_MOST)].copy()

    def set_status(self, slot: int, status: int, message: str = "") -> None:
        """The message is written first: who reads the status may read it."""
        self.rows["message"][slot] = message.encode(errors="replace")[-MESSAGE_MOST:]
        self.rows["status"][slot] = status

    def message(self, slot: int) -> str:
        return bytes(self.rows[slot]["message"]).decode(errors="replace").strip()

    def close(self) -> None:
        os.close(self.handle)


def _nameless() -> int:
    """A file in memory, or where there is none a temporary one that has lost its name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("equipoise-tasks")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


@dataclass(frozen=True)
class Start:
    """What a task process does: its work, and when it stops by itself (at an error, after units or seconds of CPU)."""

    work: Work
    target: float | None = None
    units: int | None = None
    cpu: float | None = None


class TaskProcesses:
    """Task processes by slot. Made by `open_processes`."""

    def __init__(self, memory: TaskMemory, server: ForkServer) -> None:
        self.memory, self.server = memory, server
        self.pids: dict[int, int] = {}
        self._gates: dict[int, int] = {}  # writing lets the task begin

    def start(self, slot: int, start: Start) -> int:
        """Fork a process for this task; returns its id. It makes itself ready and waits to be let in."""
        self._close_gate(slot)
        self.memory.clear(slot)
        closed, self._gates[slot] = os.pipe()
        try:
            values = asdict(start) | {"slot": slot, "slots": self.memory.slots}
            self.pids[slot] = self.server.fork(values, [self.memory.handle, closed])
        finally:
            os.close(closed)
        return self.pids[slot]

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
        """Whether the process is gone; the server reports it within moments."""
        until = time.monotonic() + DEATH_SECONDS
        while not self.exited(slot) and time.monotonic() < until:
            time.sleep(0.002)
        return self.exited(slot)

    def let_in(self, slot: int) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self._gates[slot], b"!")

    def end(self, slot: int, held: Held | None) -> None:
        """Kill the task process and what it started, then release it: held, it could take seconds to die."""
        if self.server.alive and slot in self.pids:
            self.server.kill(self.pids[slot])
        if held is not None:
            held.release()

    def wait_gone(self, slots: Sequence[int]) -> None:
        """Until these processes are dead."""
        until = time.monotonic() + KILL_SECONDS
        while self.server.alive and not all(map(self.exited, slots)):
            if time.monotonic() > until:
                raise Failure(f"a task process does not die in {KILL_SECONDS:g} s after SIGKILL (slots {list(slots)})")
            time.sleep(0.002)

    def status(self, slot: int) -> int:
        return int(self.memory.rows[slot]["status"])

    def exited(self, slot: int) -> bool:
        return slot not in self.pids or self.server.exit_code(self.pids[slot]) is not None

    def fault(self, slot: int) -> str:
        """Why a task that is over did not end well; nothing if it did, or goes on."""
        status, row = self.status(slot), self.memory.rows[slot]
        units = int(row["units"])
        if status in (RAISED, NOT_A_NUMBER):
            return self.memory.message(slot)
        if status == ENDED:
            last = f" at an error of {float(row['error']):.4g}" if units else ""
            return f"ended by itself after {units} units{last}, above its target"
        if status not in OVER and slot in self.pids and (code := self.server.exit_code(self.pids[slot])) is not None:
            how = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
            return f"its process {how} after {units} units"
        return ""

    def left(self) -> int:
        """Processes below the server."""
        return len(psutil.Process(self.server.pid).children(recursive=True))

    def check_alive(self) -> None:
        self.server.check_alive()

    def close(self) -> None:
        """The server ends its tasks and itself."""
        for slot in list(self._gates):
            self._close_gate(slot)
        self.server.close()
        self.memory.close()

    def _close_gate(self, slot: int) -> None:
        gate = self._gates.pop(slot, None)
        if gate is not None:
            os.close(gate)


@contextmanager
def open_processes(slots: int, kinds: Sequence[str], python: str | None = None) -> Iterator[TaskProcesses]:
    """A server that has loaded what these kinds of work need, with room for so many tasks at once."""
    refuse_unknown(list(kinds))
    server = ForkServer(
        "task processes",
        f"{__name__}:run_task",
        "equipoise.engine.real_clock.task_processes:preload",
        [list(kinds)],
        patience=START_SECONDS,
        python=python,
    )
    processes = TaskProcesses(TaskMemory(slots), server)
    try:
        yield processes
    finally:
        processes.close()


def run_task(values: dict[str, object], files: list[int]) -> int:
    """The life of a task process: make ready, wait to be let in, work. Its exit code."""
    slot, gate, server = int(str(values["slot"])), files[1], os.getppid()
    memory = TaskMemory(int(str(values["slots"])), files[0])
    try:
        start = Start(**{name: values[name] for name in ("target", "units", "cpu")}, work=Work(**values["work"]))  # type: ignore[arg-type]
        errors = start.work.open()
        memory.set_status(slot, READY)
        if not os.read(gate, 1):
            return 1  # the owner is gone
        memory.set_status(slot, WORKING)
        _do_units(memory, slot, errors, start, server)
    except BaseException as error:
        lines = "".join(traceback.format_exception(error)).strip().splitlines()
        memory.set_status(slot, RAISED, "\n".join(lines[-TRACEBACK_LINES:]))
        return 1
    return 0


def _do_units(memory: TaskMemory, slot: int, errors: Errors, start: Start, server: int) -> None:
    """Unit after unit, until the target, so many units, so much CPU, or the end."""
    row, kept = memory.rows[slot], memory.errors[slot]
    began = time.process_time()
    for done, value in enumerate(errors, 1):
        try:
            error = float(value)
        except (TypeError, ValueError):
            error = math.nan
        if not math.isfinite(error):
            memory.set_status(slot, NOT_A_NUMBER, f"yielded {value!r} after unit {done}; expected a number")
            return
        if done <= ERRORS_MOST:
            kept[done - 1] = error
        spent = time.process_time() - began
        row["error"], row["cpu"], row["at"] = error, spent, time.monotonic()
        row["units"] = done
        if start.target is not None and error <= start.target:
            memory.set_status(slot, REACHED)
            return
        if (start.units is not None and done >= start.units) or (start.cpu is not None and spent >= start.cpu):
            memory.set_status(slot, ENOUGH)
            return
        if os.getppid() != server:
            return
    memory.set_status(slot, ENDED)
