"""Machines that come, drain, fail and return, over the planner's book of what is taken.

A machine that is not up is filled to the brim in the book, so that no plan sees room on it; what jobs really hold there
is known from their cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError, unknown_name
from equipoise.kernels import kernel
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job_spec import machine_from, plain_machine
from equipoise.place.planner import Planner
from equipoise.place.planner.job_arrays import JobArrays
from equipoise.place.planner.occupancy import Occupancy, move
from equipoise.place.planner.packing import MACHINE, SERVERS, SLOT, WORKERS
from equipoise.serve.plan.events import MachinesData

Ints = NDArray[np.int64]
Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]
Holding = tuple[JobArrays, Int32s]  # of a job, and its cells

UP, DRAINING, DOWN = "up", "draining", "down"


@kernel
def move_all(book: Occupancy, cells: Int32s, amounts: Ints, up: NDArray[np.bool_]) -> None:
    """Take the amount of every cell (negative: give back) on machines that are up."""
    for k in range(cells.shape[0]):
        if up[cells[k, MACHINE]]:
            move(book, cells[k, SLOT] % book.base.shape[0], cells[k, MACHINE], amounts[k])


class Machines:
    """Machines in order of coming, their status, and the book of `window` slots from now on."""

    def __init__(self, cluster: Cluster, window: int, base: Floats, growth: Floats, now: int = 0) -> None:
        self.window, self.now = window, now
        self.base, self.growth = (
            np.asarray(base, float),
            np.asarray(growth, float),
        )  # [r] per milli-unit and slot; ln ratio
        self.status: list[str] = [UP] * cluster.size
        self._set(cluster)
        self._open([])

    @property
    def index(self) -> dict[str, int]:
        return self._index

    def machine(self, name: str) -> int:
        if name not in self._index:
            raise unknown_name("machine", name[:80], self.names[:20])
        return self._index[name]

    def _set(self, cluster: Cluster) -> None:
        self.cluster, self.names = cluster, list(cluster.names)
        self.capacity = cluster.capacity[cluster.type_of]  # [machine, r] milli-units
        self._index = {name: h for h, name in enumerate(self.names)}

    def _open(self, held: Iterable[Holding]) -> None:
        """A new book with all that is held written into it."""
        self.planner = Planner(self.cluster, self.window, self.growth, self.base)
        self.planner.now = self.now
        for shape, cells in held:
            self.planner.take(shape, cells[cells[:, SLOT] >= self.now])
        for h in self.shut():
            self._fill(h, range(self.now, self.now + self.window))

    def shut(self) -> list[int]:
        """Machines that take no new work."""
        return [h for h, status in enumerate(self.status) if status != UP]

    def _fill(self, h: int, slots: Iterable[int]) -> None:
        book = self.planner.occupancy
        for t in slots:
            row = t % self.window
            move(book, row, h, self.capacity[h] - book.used[row, book.group[row, h]])

    # What happens to machines.

    def grown(self, machine: Machine) -> Cluster:
        """The cluster with more machines, after all others; refused when a name is taken."""
        old = self.cluster
        cluster = Cluster((*old.machines, machine), old.inside, old.between, old.across)
        taken = machine.name if machine.name in {m.name for m in old.machines} else ""
        taken = taken or next((name for name in cluster.names[old.size :] if name in self._index), "")
        if taken:
            raise InputError(f"machine {taken!r} is here already; expected a new name", code="machine.twice")
        return cluster

    def enlarge(self, cluster: Cluster) -> None:
        """Stand on a cluster that `grown` made; `fill_from` must follow. A resource that is new costs nothing."""
        price = dict(zip(self.cluster.resources, zip(self.base, self.growth, strict=True), strict=True))
        rows = np.array([price.get(r, (0.0, 0.0)) for r in cluster.resources])
        self.base, self.growth = rows[:, 0].copy(), rows[:, 1].copy()
        self.status += [UP] * (cluster.size - self.cluster.size)
        self._set(cluster)

    def set(self, h: int, status: str, held: Iterable[Holding]) -> None:
        """A machine drains, fails or returns. `held`: what jobs have, to know what it really holds."""
        was, self.status[h] = self.status[h], status
        ahead = range(self.now, self.now + self.window)
        if status != UP:
            self._fill(h, ahead)
        elif was != UP:
            really = self.held_on(h, held)
            book = self.planner.occupancy
            for t in ahead:
                row = t % self.window
                move(book, row, h, really[t - self.now] - book.used[row, book.group[row, h]])

    def held_on(self, h: int, held: Iterable[Holding]) -> Ints:
        """[slot from now, r] milli-units that jobs hold on a machine."""
        out = np.zeros((self.window, len(self.cluster.resources)), np.int64)
        for shape, cells in held:
            for t, _, w, s in cells[(cells[:, MACHINE] == h) & (cells[:, SLOT] >= self.now)].tolist():
                out[t - self.now] += w * shape.worker + s * shape.server
        return out

    def reprice(self, base: Floats, growth: Floats, held: Iterable[Holding]) -> None:
        self.base, self.growth = np.asarray(base, float), np.asarray(growth, float)
        self._open(held)

    # What jobs do.

    def take(self, shape: JobArrays, cells: Int32s) -> None:
        """Reserve cells from now on. On a machine that is not up (it drains) they were reserved before: keep it full."""
        shut = self._on_shut(cells)
        self.planner.take(shape, cells)
        self._refill(shut)

    def release(self, shape: JobArrays, cells: Int32s) -> None:
        """Give cells of this and later slots back."""
        shut = self._on_shut(cells)
        self.planner.release(shape, cells)
        self._refill(shut)

    def _on_shut(self, cells: Int32s) -> list[tuple[int, int]]:
        return [(h, t) for t, h in cells[:, (SLOT, MACHINE)].tolist() if self.status[h] != UP and t >= self.now]

    def _refill(self, cells: list[tuple[int, int]]) -> None:
        for h, t in cells:
            self._fill(h, (t,))

    def advance(self, now: int) -> None:
        """Time moves on; slots that come into view are empty, and full on machines that are not up."""
        before = self.now
        self.planner.advance(now)
        self.now = now
        new = range(max(before + self.window, now), now + self.window)
        for h in self.shut():
            self._fill(h, new)

    @contextmanager
    def without(self, held: Sequence[Holding]) -> Iterator[None]:
        """The book as if some holdings were free, for as long as the block lasts. Machines that are not up stay full."""
        if not held:
            yield
            return
        cells, amounts = amounts_of(held)
        up = np.array([status == UP for status in self.status])
        move_all(self.planner.occupancy, cells, -amounts, up)
        try:
            yield
        finally:
            move_all(self.planner.occupancy, cells, amounts, up)

    # What it looks like.

    def used(self, slot: int, machine: int) -> Ints:
        """[r] milli-units taken on one machine in one slot, what fills it while it is not up included."""
        book, row = self.planner.occupancy, slot % self.window
        return np.array(book.used[row, book.group[row, machine]])

    def plain(self) -> MachinesData:
        """Plain values from which `restored` makes equal machines, but for what jobs hold."""
        cluster = self.cluster
        told: MachinesData = {
            "machines": [plain_machine(m) for m in cluster.machines],
            "inside": cluster.inside,
            "between": cluster.between,
            "status": self.status,
            "window": self.window,
            "base": self.base.tolist(),
            "growth": self.growth.tolist(),
        }
        if cluster.across is not None:
            told["across"] = cluster.across
        return told

    @classmethod
    def restored(cls, plain: MachinesData, now: int) -> Machines:
        machines = tuple(machine_from(values) for values in plain["machines"])
        cluster = Cluster(machines, plain["inside"], plain["between"], plain.get("across"))
        made = cls(cluster, plain["window"], np.array(plain["base"]), np.array(plain["growth"]), now)
        made.status = list(plain["status"])
        return made

    def fill_from(self, held: Iterable[Holding]) -> None:
        """Write all that is held into a new book."""
        self._open(held)


def amounts_of(held: Sequence[Holding]) -> tuple[Int32s, Ints]:
    """All cells of one holding or more, and [cell, r] the milli-units they take."""
    cells = np.concatenate([mine for _, mine in held])
    of = np.repeat(np.arange(len(held)), [len(mine) for _, mine in held])
    worker = np.array([shape.worker for shape, _ in held])[of]
    server = np.array([shape.server for shape, _ in held])[of]
    return cells, np.asarray(cells[:, [WORKERS]] * worker + cells[:, [SERVERS]] * server)


def held_by(shape: JobArrays, cells: Int32s) -> Ints:
    """[cell, r] milli-units."""
    return np.asarray(
        cells[:, WORKERS].astype(np.int64)[:, None] * shape.worker
        + cells[:, SERVERS].astype(np.int64)[:, None] * shape.server
    )
