"""Costs, boxes and data as one worker holds them: its own, and of its neighbours no more than they tell."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.costs._base import Cost
from equipoise.train.costs.coupled import Coupled
from equipoise.train.costs.latency import Latency
from equipoise.train.costs.quadratic import Quadratic
from equipoise.train.grid import exact_sum
from equipoise.train.models._base import Model
from equipoise.train.models.least_squares import LeastSquares
from equipoise.train.models.smooth_svm import SmoothSVM
from equipoise.train.models.softmax import Softmax
from equipoise.train.problem import Market, Subset
from equipoise.train.sampler import Sampler, drawn_rows

C = TypeVar("C")
FEW = 20  # one neighbour to so many own nodes
BUILT_IN = (LeastSquares, Softmax, SmoothSVM)


class Nodes(Protocol):
    """Nodes that a worker knows of, in ascending order, and which of them are its own."""

    @property
    def nodes(self) -> Ints: ...
    @property
    def own(self) -> AnyArray: ...
    @property
    def n(self) -> int:
        """Of the whole network."""

    def __len__(self) -> int: ...


def local_market(market: Market, region: Nodes) -> Market:
    """The CPU half of a region. Boxes and curvatures of neighbours are known (they tell them); their costs are not."""
    at = region.nodes
    return replace(
        market,
        cost=local_cost(market.cost, region),
        budget=exact_sum(market.start()[at]),
        lo=market.lo[at],
        hi=market.hi[at],
        low=market.low[at],
        high=market.high[at],
        curvature=market.curvature[at],
        stiffness=market.stiffness[at],
    )


def local_cost(cost: Cost, region: Nodes) -> Cost:
    """The cost of a region's nodes; in place of a neighbour's stands that of an own node, which nobody asks for."""
    instead = np.where(region.own, region.nodes, region.nodes[region.own][0])
    if type(cost) in (Quadratic, Latency):
        return _sliced(cost, instead, region.n)
    if isinstance(cost, Coupled) and type(cost) is Coupled:
        mine: Coupled = _sliced(cost, instead, region.n)
        mine.cost = None if cost.cost is None else local_cost(cost.cost, region)
        return mine
    return Scattered(cost, region)


def _sliced(cost: C, nodes: Ints, n: int) -> C:
    """A copy whose arrays of one number per node have those of these nodes."""
    mine = copy(cost)
    for name, value in vars(cost).items():
        if isinstance(value, np.ndarray) and value.shape[:1] == (n,):
            setattr(mine, name, value[nodes].copy())
    mine.nodes = len(nodes)  # type: ignore[attr-defined]
    return mine


class Scattered:
    """A user's cost, asked about all nodes for the sake of some: separable costs answer each node by itself."""

    def __init__(self, cost: Any, region: Nodes) -> None:
        self.whole, self.n, self.nodes = cost, region.n, len(region)
        self.own, self.mine = region.own, region.nodes[region.own]
        self.lo, self.hi = (
            np.broadcast_to(np.asarray(getattr(cost, name, end), dtype=np.float64), (region.n,))[region.nodes]
            for name, end in (("lo", -np.inf), ("hi", np.inf))
        )
        self.never_flat = bool(getattr(cost, "never_flat", False))
        for name in ("second", "response"):  # what a cost may offer
            if getattr(cost, name, None) is not None:
                setattr(self, name, partial(self._ask, name))

    def value(self, x: Floats) -> Floats:
        return self._ask("value", x)

    def derivative(self, x: Floats) -> Floats:
        return self._ask("derivative", x)

    def _ask(self, name: str, *given: Floats) -> Floats:
        """Neighbours are answered as the first own node is: nobody asks."""
        found = np.asarray(getattr(self.whole, name)(*map(self._for_all, given)))[self.mine]
        out = np.full(self.nodes, found[0])
        out[self.own] = found
        return out

    def _for_all(self, x: Floats) -> Floats:
        mine = x[self.own]
        everybody = np.full(self.n, mine[0])
        everybody[self.mine] = mine
        return everybody


class LocalModel(Model):
    """The model of a region: own nodes have their data, neighbours have none and no gradient."""

    def __init__(self, model: Model, region: Nodes) -> None:
        own, self.ghosts = region.nodes[region.own], np.flatnonzero(~region.own)
        self.nodes, self.size, self.convexity, self.convex = len(region), model.size, model.convexity, model.convex
        self.places = np.flatnonzero(region.own)
        self.fresh = type(model) in BUILT_IN  # whether its answers are nobody else's
        # Where there are few, neighbours get a copy of an own node: cheaper than to gather and scatter everybody's rows.
        self.filled = len(self.ghosts) * FEW <= self.nodes
        self.part = part_of_model(model, np.where(region.own, region.nodes, own[0]) if self.filled else own)
        if model.sizes is not None:
            self.sizes = np.ones(self.nodes, dtype=np.int64)
            self.sizes[self.places] = np.asarray(model.sizes)[own]

    def gradients(self, Y: Floats) -> Floats:
        if not self.filled:
            return self._placed(self.part.gradients(self._own(Y)))
        return self._blanked(self.part.gradients(Y), 0.0)

    def sampled(self, Y: Floats, rows: Sequence[Ints]) -> tuple[Floats, Floats]:
        if self.filled:
            instead = rows[int(self.places[0])]
            everybody = [instead if len(each) == 0 else each for each in rows]
            gradients, spread = self.part.sampled(Y, everybody)
            return self._blanked(gradients, 0.0), self._blanked(spread, np.nan)
        gradients, spread = self.part.sampled(self._own(Y), [rows[int(i)] for i in self.places])
        return self._placed(gradients), self._placed(spread, np.nan)

    def _blanked(self, rows: Floats, blank: float) -> Floats:
        """Neighbours have no gradient here; an array that a model keeps for itself is left alone."""
        if len(self.ghosts):
            rows = rows if self.fresh else rows.copy()
            rows[self.ghosts] = blank
        return rows

    def _own(self, Y: Floats) -> Floats:
        return Y if not len(self.ghosts) else np.ascontiguousarray(Y[self.places])

    def _placed(self, rows: Floats, missing: float = 0.0) -> Floats:
        if not len(self.ghosts):
            return rows
        out = np.full((self.nodes, *rows.shape[1:]), missing)
        out[self.places] = rows
        return out


def part_of_model(model: Model, nodes: Ints) -> Model:
    """Only these nodes' losses and data; a model that cannot be divided is asked about all."""
    kind = type(model)
    divides = kind in BUILT_IN or "part" in vars(kind)
    wrapped = getattr(model, "wrapped", None)
    if divides:
        part: Model = model.part(nodes)  # type: ignore[attr-defined]
        return part
    if wrapped is not None and hasattr(wrapped, "part"):
        from equipoise.train.models._base import adopt

        return adopt(wrapped.part(nodes))
    if kind.gradients is Model.gradients and "gradients" not in vars(model):
        return Subset(model, nodes)
    return Undivided(model, nodes)


class Undivided(Model):
    """Some nodes of a model that answers for all at once: it is asked for all, and the others' answers are dropped."""

    def __init__(self, model: Model, nodes: Ints) -> None:
        self.whole, self.chosen = model, nodes
        self.nodes, self.size, self.convexity, self.convex = len(nodes), model.size, model.convexity, model.convex
        self.sizes = None if model.sizes is None else np.asarray(model.sizes)[nodes]

    def gradients(self, Y: Floats) -> Floats:
        everybody = np.zeros((self.whole.nodes, self.size))
        everybody[self.chosen] = Y
        return np.asarray(self.whole.gradients(everybody))[self.chosen]

    def sampled(self, Y: Floats, rows: Sequence[Ints]) -> tuple[Floats, Floats]:
        everybody, picked = np.zeros((self.whole.nodes, self.size)), [np.zeros(1, dtype=np.int64)] * self.whole.nodes
        everybody[self.chosen] = Y
        for node, mine in zip(self.chosen, rows, strict=True):
            picked[node] = mine
        gradients, spread = self.whole.sampled(everybody, picked)
        return gradients[self.chosen], spread[self.chosen]


class LocalSampler(Sampler):
    """Draws for own nodes, by their global numbers."""

    def __init__(self, sampler: Sampler, region: Nodes) -> None:
        self.model, self.seed = LocalModel(sampler.model, region), sampler.seed
        self.region, self.own = region, region.own
        self.samples = 0
        self.batch = None if sampler.batch is None else _batch(sampler.batch, region)
        self.spread = None if sampler.spread is None else np.where(self.own, sampler.spread[region.nodes], np.nan)
        self._last = (0, self.batch)
        if sampler.batch is not None and hasattr(self.model.part, "widest"):
            self.model.part.widest = int(sampler.batch.max())

    def at(self, Y: Floats, number: int) -> Floats:
        found = super().at(Y, number)
        if self.batch is not None:  # of these, neighbours draw nothing
            self.samples -= int(self.batch[~self.own].sum())
        return found

    def rows(self, number: int, batch: Ints) -> list[Ints]:
        nothing = np.empty(0, dtype=np.int64)
        sizes: AnyArray | None = self.model.sizes
        assert sizes is not None
        return [
            drawn_rows(self.seed, number, int(node), int(size), int(b)) if mine else nothing
            for node, mine, size, b in zip(self.region.nodes, self.own, sizes, batch, strict=True)
        ]


def _batch(batch: Ints, region: Nodes) -> Ints:
    return np.where(region.own, batch[region.nodes], 1)
