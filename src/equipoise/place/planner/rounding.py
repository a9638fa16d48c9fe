"""The paper's placement: a linear program per slot and width, rounded at random. Slow; greedy is the default.

For a width W the slot's mixed packing and covering program is

    minimise   sum_h p_h w_h + q_h s_h                        prices of a worker and of a server on machine h
    subject to sum_h w_h >= W,  sum_h s_h >= ceil(W/gamma)    covering
               alpha^r w_h + beta^r s_h <= free_h^r           packing, for every machine and resource

Its relaxation is solved, the solution is multiplied by G, and every count is rounded up with the probability of its
fraction, else down. G, recalled from the source: with m packing rows, and the least ratio of a row's limit to an entry
being a in the covering rows and b in the packing rows,

    covering (> 1):   G = 1 + x + sqrt(x^2 + 2 x),   x = ln(3/delta) / a
    packing (<= 1):   G = 1 + x - sqrt(x^2 + 2 x),   x = 3 ln(3 m/delta) / (2 b)

keeps each kind of row with probability 1 - delta; no G keeps both at the size of a cluster (the claim g-delta). So it is
drawn again until it fits, at most TRIES times; then greedy places the slot, and that is counted. G is 1 here, which falls
back least: 31% of slots and widths on 100 machines, against 81% with G for covering and 95% for packing (delta 0.5).
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from equipoise.kernels import Floats, Int32s, Ints
from equipoise.linear_program import model_of, run, solver_of
from equipoise.place.cluster import Cluster
from equipoise.place.planner import NO_CELLS, Plan, Planner
from equipoise.place.planner.hull import SPREAD
from equipoise.place.planner.job_arrays import JobArrays, servers_for
from equipoise.place.planner.occupancy import use
from equipoise.place.planner.packing import SLOT, pack_slot
from equipoise.place.planner.slot_costs import slot_costs

TRIES = 50  # draws for one slot and width before greedy places it
DEAREST = 1e7  # times the median: prices above are told to HiGHS as this, or its tolerances would hide the others
ROUNDING = 1e-9  # of the work, and of a worker: sums are not exact
FAVOURS = ("covering", "packing")


@dataclass
class Counts:
    """What the rounding went through. `fallbacks` are slots and widths that greedy placed after all tries failed."""

    slots: int = 0
    programs: int = 0
    impossible: int = 0
    tries: int = 0
    rounded: int = 0
    fallbacks: int = 0


@dataclass(frozen=True)
class Offer:
    """One way to run a job in one slot: samples, cost, and its cells (machine, workers, servers)."""

    rate: float
    cost: float
    cells: Int32s


class Relaxation:
    """The slot's linear program in one HiGHS object: a new job changes the matrix, a slot or a width only bounds and costs.

    Columns are workers, then servers, by machine. Rows are in units of the larger demand; costs are divided by their
    median, so the placement does not depend on the unit of price.
    """

    def __init__(self, machines: int, resources: int) -> None:
        self.machines, self.resources = machines, resources
        self._solver: Any = None  # a Highs; its type stubs do not know changeRowsBounds
        self._arrays: JobArrays | None = None
        self._columns = np.arange(2 * machines, dtype=np.int32)
        self._rows = np.arange(machines * resources + 2, dtype=np.int32)

    def _model(self, arrays: JobArrays) -> None:
        """The matrix of a job; the basis of the one before is a start like any other."""
        h, r = self.machines, self.resources
        self._unit = np.maximum(np.maximum(arrays.worker, arrays.server), 1).astype(float)
        entries = np.empty((2, h, r + 1))
        entries[0, :, :r], entries[1, :, :r] = arrays.worker / self._unit, arrays.server / self._unit
        entries[:, :, r] = 1.0
        index = np.empty((2, h, r + 1), np.int32)
        index[:, :, :r] = np.arange(h * r).reshape(h, r)
        index[0, :, r], index[1, :, r] = h * r, h * r + 1
        start, shape = (r + 1) * np.arange(2 * h + 1), (h * r + 2, 2 * h)
        rows = sparse.csc_matrix((entries.ravel(), index.ravel(), start), shape=shape)
        most = np.repeat([np.inf, np.inf if arrays.per_server else 0.0], h)
        model = model_of(np.zeros(2 * h), most, rows, -np.inf, np.full(h * r + 2, np.inf))
        if self._solver is None:
            self._solver = solver_of(model, presolve="off")
        else:
            basis = self._solver.getBasis()
            self._solver.passModel(model)
            if basis.valid:
                self._solver.setBasis(basis)
        self._arrays = arrays

    def slot(self, arrays: JobArrays, free: Ints, price_worker: Floats, price_server: Floats) -> None:
        """State the slot: milli-units free, and prices, by machine."""
        if self._arrays is not arrays:
            self._model(arrays)
        cost = np.concatenate([price_worker, price_server])
        some = cost[cost > 0.0]
        self._scale = float(np.median(some)) if len(some) else 1.0
        cost = np.minimum(cost / self._scale, DEAREST)
        room = (free / self._unit).ravel()
        self._solver.changeColsCost(len(cost), self._columns, cost)
        self._solver.changeRowsBounds(len(room), self._rows[:-2], np.full(len(room), -np.inf), room)

    def solve(self, width: int) -> tuple[float, Floats]:
        """Its cost and the counts [workers or servers, machine]; inf and zeros when even parts of workers do not fit."""
        import highspy

        solver, arrays = self._solver, self._arrays
        assert arrays is not None
        least = np.array([width, servers_for(width, arrays.per_server)], dtype=float)
        solver.changeRowsBounds(2, self._rows[-2:], least, np.full(2, np.inf))
        run(solver)
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return math.inf, np.zeros((2, self.machines))
        counts = np.maximum(np.asarray(solver.getSolution().col_value), 0.0).reshape(2, self.machines)
        return float(solver.getInfo().objective_function_value * self._scale), counts


def stretch(favour: str, delta: float, cover: float, pack: float, rows: int) -> float:
    """G: by how much a fractional placement is multiplied before it is rounded (see the module)."""
    if favour == "covering":
        x = math.log(3.0 / delta) / cover
        return 1.0 + x + math.sqrt(x * x + 2.0 * x)
    x = 3.0 * math.log(3.0 * rows / delta) / (2.0 * pack)
    return 1.0 + x - math.sqrt(x * x + 2.0 * x)


@dataclass
class Rounding:
    """Randomised rounding of slots, with G = 1."""

    cluster: Cluster
    seed: int = 0
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng([self.seed, 11])
        self.relaxation = Relaxation(self.cluster.size, len(self.cluster.resources))

    def state(self, arrays: JobArrays, free: Ints, price_worker: Floats, price_server: Floats) -> None:
        """The slot to place in, by machine: milli-units free, the prices of a worker and of a server."""
        self._arrays, self._free = arrays, free
        self.relaxation.slot(arrays, free, price_worker, price_server)
        self.counts.slots += 1

    def place(self, width: int) -> tuple[float, Ints | None]:
        """The relaxed cost, and counts [workers or servers, machine] of `width` workers or a few more; None: not found."""
        self.counts.programs += 1
        cost, fractional = self.relaxation.solve(width)
        if cost == math.inf:
            self.counts.impossible += 1
            return cost, None
        whole = np.floor(fractional + ROUNDING)
        up = self.random.random((TRIES, *whole.shape)) < fractional - whole
        drawn = (whole + up).astype(np.int64)
        good = np.flatnonzero(self._feasible(drawn, width))
        self.counts.tries += int(good[0]) + 1 if len(good) else TRIES
        if not len(good):
            return cost, None
        self.counts.rounded += 1
        workers, servers = chosen = drawn[good[0]]
        needed = servers_for(int(workers.sum()), self._arrays.per_server)
        servers[:] = np.diff(
            np.minimum(servers.cumsum(), needed), prepend=0
        )  # none idle: the last machines' are left out
        return cost, chosen

    def _feasible(self, drawn: Ints, width: int) -> NDArray[np.bool_]:
        """Which draws hold every capacity, have `width` workers or more but not over F, and servers enough for them."""
        arrays = self._arrays
        workers, servers = drawn[:, 0].sum(axis=1), drawn[:, 1].sum(axis=1)
        taken = drawn[:, 0, :, None] * arrays.worker + drawn[:, 1, :, None] * arrays.server
        fits = (taken <= self._free).all(axis=(1, 2)) & (workers >= width) & (workers <= arrays.widest)
        return np.asarray(fits & (servers * arrays.per_server >= workers) if arrays.per_server else fits)


class RoundingPlanner(Planner):
    """The planner with the paper's placement: spread options come from rounding, on a geometric grid of widths."""

    def __init__(
        self, cluster: Cluster, window: int, growth: Floats, base: Floats, *, seed: int = 0, **settings: Any
    ) -> None:
        super().__init__(cluster, window, growth, base, **settings)
        self.rounding = Rounding(cluster, seed)

    @property
    def counts(self) -> Counts:
        return self.rounding.counts

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
        """As `Planner.plan`, by the same hull fill; a restart is charged to every slot."""
        self._room(arrays.widest)
        keep = 1.0 - min(1.0, arrays.restart)
        best, found, covered, improved = floor, None, False, start
        pool: list[Segment] = []
        offers: dict[int, list[Offer]] = {}
        total, spent, fresh = 0.0, 0.0, -1
        for t in range(start, end):
            if value[t - start] <= best or (covered and t - improved > self.patience):
                break
            row = t % self.window
            if fresh >= 0 and self._alike(row, fresh % self.window):
                offers[t] = offers[fresh]
            else:
                offers[t] = self.offers(arrays, keep, t)
                fresh = t if self.occupancy.touched[row] == 0 else -1
            for piece in hull_of(offers[t], t):
                if covered and piece.slope >= pool[-1].slope:
                    break
                bisect.insort(pool, piece, key=lambda p: p.slope)
                total, spent = total + piece.gain, spent + piece.cost
                while total - pool[-1].gain >= work * (1.0 - ROUNDING):
                    total, spent = total - pool[-1].gain, spent - pool[-1].cost
                    pool.pop()
                covered = total >= work * (1.0 - ROUNDING)
            if not covered:
                continue
            chosen = {p.slot: p.offer for p in sorted(pool, key=lambda p: p.offer.rate)}
            tail = pool[-1].slot  # where only a part is needed: the cheapest offer that does it
            needed = chosen[tail].rate - max(0.0, total - work) - ROUNDING * work
            chosen[tail] = min((o for o in offers[tail] if o.rate >= needed), key=lambda o: o.cost)
            cost = sum(o.cost for o in chosen.values())
            if value[max(chosen) - start] - cost > best:
                best, improved = float(value[max(chosen) - start]) - cost, t
                cells = np.concatenate([np.insert(chosen[slot].cells, SLOT, slot, axis=1) for slot in sorted(chosen)])
                found = Plan(cells, best, cost, best + cost)
        return covered, found

    def _alike(self, row: int, other: int) -> bool:
        """Whether nothing is taken in either slot, at equal prices."""
        occupancy = self.occupancy
        empty = occupancy.touched[row] == occupancy.touched[other] == 0
        return bool(empty and np.array_equal(occupancy.base[row], occupancy.base[other]))

    def offers(self, arrays: JobArrays, keep: float, t: int) -> list[Offer]:
        """All ways to run the job in a slot: together, any width; spread, F, F/2, F/4, ... workers or a few more."""
        return [offer for on in arrays.taken for offer in self._offers(arrays, keep, t, on)]

    def _offers(self, arrays: JobArrays, keep: float, t: int, on: int) -> list[Offer]:
        occupancy, row, options = self.occupancy, t % self.window, self._options
        slot_costs(occupancy, row, arrays, options, on)
        out = []
        for w in range(1, arrays.widest + 1):
            if options.together[w] < math.inf:
                machine = occupancy.first[row, options.of[options.holder[w]]]
                cells = np.array([[machine, w, servers_for(w, arrays.per_server)]], np.int32)
                out.append(Offer(keep * arrays.together[on, w], float(options.together[w]), cells))
        free, price_worker, price_server = self.priced(arrays, row)
        free[~arrays.within[on]] = 0
        self.rounding.state(arrays, free, price_worker, price_server)
        width, least = arrays.widest, 1 if arrays.per_server else 2
        while width >= least:
            cost, counts = self.rounding.place(width)
            cells = NO_CELLS[:, 1:]
            if counts is not None:
                machines = np.flatnonzero(counts.any(axis=0))
                cells = np.column_stack([machines, *counts[:, machines]]).astype(np.int32)
            elif cost < math.inf and options.spread[width] < math.inf:
                self.counts.fallbacks += 1
                room = self._cells(arrays, 1, NO_CELLS)
                cells = room[: pack_slot(occupancy, t, arrays, 2 * on + SPREAD, width, room, 0, 0, options), 1:]
            if len(cells):
                machines, workers, servers = cells.T
                wide = int(workers.sum())
                rate = arrays.together[on, wide] if len(cells) == 1 else arrays.apart[on, wide]
                paid = float(workers @ price_worker[machines] + servers @ price_server[machines])
                out.append(Offer(keep * rate, paid, cells))
            width //= 2
        return out

    def priced(self, arrays: JobArrays, row: int) -> tuple[Ints, Floats, Floats]:
        """By machine: milli-units free, and the prices of a worker and of a server."""
        occupancy, capacity = self.occupancy, self.cluster.capacity[self.cluster.type_of]
        price = occupancy.base[row] * occupancy.factor[row, occupancy.group[row]]
        return capacity - use(occupancy, row), price @ arrays.worker, price @ arrays.server


@dataclass(frozen=True)
class Segment:
    """A piece of a slot's hull, and the offer it leads to."""

    slope: float
    gain: float
    cost: float
    slot: int
    offer: Offer


def hull_of(offers: list[Offer], slot: int) -> list[Segment]:
    """The lower convex hull of offers from (0, 0), as segments of rising slope."""
    nothing = Offer(0.0, 0.0, NO_CELLS)
    hull = [nothing]
    for o in sorted(offers, key=lambda o: (o.rate, -o.cost)):
        if o.rate <= 0.0:
            continue
        while len(hull) > 1 and (
            o.cost <= hull[-1].cost
            or (hull[-1].cost - hull[-2].cost) * (o.rate - hull[-2].rate)
            >= (o.cost - hull[-2].cost) * (hull[-1].rate - hull[-2].rate)
        ):
            hull.pop()
        if o.rate > hull[-1].rate:
            hull.append(o)
    return [
        Segment((b.cost - a.cost) / (b.rate - a.rate), b.rate - a.rate, b.cost - a.cost, slot, b)
        for a, b in pairwise(hull)
    ]
