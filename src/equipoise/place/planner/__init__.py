"""The planner: what is taken of every machine, and the cheapest schedule of a job at the prices that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.errors import unknown_name
from equipoise.kernels import Floats, Int32s, Ints
from equipoise.place.cluster import Cluster
from equipoise.place.planner import occupancy as occupancies
from equipoise.place.planner.hull import TOGETHER, hull_fill, new_choice, new_hull, new_pool
from equipoise.place.planner.job_arrays import JobArrays
from equipoise.place.planner.packing import NO_CELLS as NO_CELLS, SLOT, cost_of, pack, pack_slot, take
from equipoise.place.planner.slot_costs import new_slot_costs, slot_costs
from equipoise.place.planner.work_units import UNITS, fill_by_units

PATIENCE = 48  # slots without a better schedule after which a flat utility is looked at no further
METHODS = ("hull", "dynamic")  # ways to choose a schedule from the slots' options
HOPEFUL = 0.25, 0.6  # of its slots a job with a restart time is first thought to change in; else in all of them


@dataclass(frozen=True)
class Plan:
    """A schedule not yet taken: its cells (slot, machine, workers, servers), what it is worth and costs."""

    cells: Int32s
    payoff: float
    cost: float
    worth: float

    @property
    def last(self) -> int:
        """The slot it finishes in."""
        return int(self.cells[-1, SLOT])


class Planner:
    """State of the slots now..now+window-1. Prices: base[t, r] exp(growth_r used / capacity), base by the slot's row."""

    def __init__(
        self,
        cluster: Cluster,
        window: int,
        growth: Floats,
        base: Floats,
        *,
        patience: int = PATIENCE,
        method: str = "hull",
        units: int = UNITS,
    ) -> None:
        if method not in METHODS:
            raise unknown_name("method", str(method), METHODS)
        self.cluster, self.window, self.patience = cluster, window, patience
        self.method, self.units = method, units
        rows = np.broadcast_to(base, (window, len(cluster.resources)))
        self.occupancy = occupancies.new_occupancy(cluster, window, growth, rows)
        self.now = 0
        self.blocked: dict[int, Ints] = {}  # by slot
        self._widest = 0
        self._room(32)
        self._pool, self._choice = new_pool(), new_choice(window)

    def _room(self, widest: int) -> None:
        """Scratch for jobs of so many workers; where it does not hold them, for twice as many."""
        if widest > self._widest:
            self._widest = 2 * widest
            self._options = new_slot_costs(self._widest, len(self.cluster.resources))
            self._hull = new_hull(self._widest, len(self.cluster.domains))

    def _cells(self, arrays: JobArrays, slots: int, before: Int32s) -> Int32s:
        """Cells of the slot before, and room for those of so many slots after it."""
        cells = np.empty((len(before) + slots * min(self.cluster.size, 2 * arrays.widest), 4), np.int32)
        cells[: len(before)] = before
        return cells

    def advance(self, now: int) -> None:
        """Time moves on: the rows of past slots become those of the slots that come into view."""
        for t in range(max(self.now, now - self.window), now):
            occupancies.clear(self.occupancy, t % self.window)
            self.blocked.pop(t, None)
        self.now = now

    def block(self, slot: int, amounts: Ints) -> None:
        """Keep these milli-units [machine, r] from jobs in a slot, instead of those kept until now."""
        if amounts is self.blocked.get(slot):
            return
        more = amounts - self.blocked.get(slot, 0)
        self.blocked[slot] = amounts
        for h in np.flatnonzero(more.any(axis=1)).tolist():
            occupancies.move(self.occupancy, slot % self.window, h, more[h])

    def plan(
        self,
        arrays: JobArrays,
        value: Floats,
        work: float,
        start: int,
        end: int,
        *,
        floor: float = 0.0,
        before: Int32s = NO_CELLS,
    ) -> tuple[bool, Plan | None]:
        """Whether the work can be covered in slots start..end-1, and the best schedule that pays more than `floor`.

        value[k] is the worth of finishing in slot start + k; `before` the job's cells in slot start - 1.
        """
        self._room(arrays.widest)
        covered = False
        for share in (*HOPEFUL, 1.0) if arrays.restart > 0.0 else (1.0,):
            keep = 1.0 - min(1.0, arrays.restart) * share
            asked = (self.occupancy, arrays, keep, work, start, end, value, floor)
            if self.method == "dynamic":
                covered, _, _, last = fill_by_units(*asked, self.units, self._options, self._choice)
            else:
                scratch = (self._options, self._hull, self._pool, self._choice)
                covered, _, _, last = hull_fill(*asked, self.patience, *scratch)
            if last < 0:
                return covered, None
            cells, missing = self._pack(arrays, work, start, last, before)
            if missing == 0.0:
                worth = float(value[cells[-1, SLOT] - start])
                cost = cost_of(self.occupancy, arrays, cells)  # packing may keep machines, which planning does not see
                return True, Plan(cells, worth - cost, cost, worth)
        return covered, None

    def _pack(self, arrays: JobArrays, work: float, start: int, last: int, before: Int32s) -> tuple[Int32s, float]:
        slots = int(np.count_nonzero(self._choice.width[: last + 1 - start]))
        cells = self._cells(arrays, slots, before)
        n, missing = pack(self.occupancy, arrays, work, start, last, self._choice, cells, len(before), self._options)
        return cells[len(before) : n].copy(), missing

    def pack_now(self, arrays: JobArrays, width: int, slot: int, before: Int32s) -> Int32s:
        """Cells for exactly `width` workers in one slot, the fastest way that there is; none when they do not fit."""
        self._room(arrays.widest)
        cells, known = self._cells(arrays, 1, before), -1
        options, n = self._options, len(before)
        for way in arrays.ways(width):
            if way // 2 != known:
                known = way // 2
                slot_costs(self.occupancy, slot % self.window, arrays, options, known)
            if (options.together if way % 2 == TOGETHER else options.spread)[width] < np.inf:
                n = pack_slot(self.occupancy, slot, arrays, way, width, cells, 0, len(before), options)
                break
        return cells[len(before) : n].copy()

    def roomiest(self, slot: int) -> Ints:
        """The largest free amount of each resource on any one machine in a slot."""
        return occupancies.roomiest(self.occupancy, slot % self.window)

    def take(self, arrays: JobArrays, cells: Int32s) -> None:
        """Reserve cells."""
        take(self.occupancy, arrays, cells, 1)

    def release(self, arrays: JobArrays, cells: Int32s) -> None:
        """Give cells back, exactly as taken; those of past slots are gone already and ignored."""
        take(self.occupancy, arrays, cells[cells[:, SLOT] >= self.now], -1)

    def used(self, slot: int) -> Ints:
        """[machine, r] milli-units taken in a slot."""
        return occupancies.use(self.occupancy, slot % self.window)
