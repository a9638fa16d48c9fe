"""Which nodes belong to which worker, and costs, boxes and data as one worker holds them: those of its own nodes."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from equipoise.errors import InputError
from equipoise.train.arrays import Floats, Ints
from equipoise.train.costs._base import Cost
from equipoise.train.costs.coupled import Coupled
from equipoise.train.costs.latency import Latency
from equipoise.train.costs.quadratic import Quadratic
from equipoise.train.grid import exact_sum
from equipoise.train.models._base import Model
from equipoise.train.models.least_squares import LeastSquares
from equipoise.train.models.smooth_svm import SmoothSVM
from equipoise.train.models.softmax import Softmax
from equipoise.train.network import Network
from equipoise.train.problem import Market, Subset
from equipoise.train.sampler import Sampler
from equipoise.train.topology import Arcs

C = TypeVar("C")
BUILT_IN = (LeastSquares, Softmax, SmoothSVM)


def local_market(market: Market, nodes: Ints) -> Market:
    """The CPU half of these nodes."""
    return replace(
        market,
        cost=local_cost(market.cost, nodes, len(market.lo)),
        budget=exact_sum(market.start()[nodes]),
        **{name: getattr(market, name)[nodes] for name in ("lo", "hi", "low", "high", "curvature", "stiffness")},
    )


def local_cost(cost: Cost, nodes: Ints, n: int) -> Cost:
    """The cost of these nodes, of n in all."""
    if type(cost) in (Quadratic, Latency):
        return _sliced(cost, nodes, n)
    if isinstance(cost, Coupled) and type(cost) is Coupled:
        mine: Coupled = _sliced(cost, nodes, n)
        mine.cost = None if cost.cost is None else local_cost(cost.cost, nodes, n)
        return mine
    return Scattered(cost, nodes, n)


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

    def __init__(self, cost: Any, nodes: Ints, n: int) -> None:
        self.whole, self.n, self.mine, self.nodes = cost, n, nodes, len(nodes)
        self.lo, self.hi = (
            np.broadcast_to(np.asarray(getattr(cost, name, end), dtype=np.float64), (n,))[nodes]
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
        """Others are asked about as if they held what the first own node does."""
        everybody = []
        for x in given:
            everybody.append(np.full(self.n, x[0]))
            everybody[-1][self.mine] = x
        return np.asarray(getattr(self.whole, name)(*everybody))[self.mine]


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
    """Draws for these nodes, by their numbers in the whole network."""

    def __init__(self, sampler: Sampler, nodes: Ints) -> None:
        super().__init__(part_of_model(sampler.model, nodes), None, sampler.seed)
        self.at_nodes = nodes
        if sampler.batch is not None:
            self.batch = sampler.batch[nodes]
            self.spread = None if sampler.spread is None else sampler.spread[nodes]
            if hasattr(self.model, "widest"):
                self.model.widest = int(sampler.batch.max())
        self._last = (0, self.batch)


def partition(network: Network, shards: int) -> Ints:
    """The shard of every node. Nodes are lined up so that neighbours are near each other, and the line is cut evenly:
    as they are numbered, or by Cuthill and McKee, whichever lets fewer links cross."""
    n = network.n
    if not 1 <= shards <= n:
        raise InputError(
            f"{shards} workers for {n} centres: give at least 1 and at most one for each centre", code="workers.range"
        )
    cuts = np.arange(n, dtype=np.int64) * shards // n
    if shards == 1 or network.period is None:
        return cuts
    one, other = _links(network)
    crossing = int((cuts[one] != cuts[other]).sum())
    ones = np.ones(len(one), dtype=np.int8)
    graph = coo_array((ones, (one, other)), shape=(n, n)).tocsr()
    line = reverse_cuthill_mckee((graph + graph.T).tocsr(), symmetric_mode=True)
    better = np.empty(n, dtype=np.int64)
    better[line] = cuts
    return better if int((better[one] != better[other]).sum()) < crossing else cuts


def _links(network: Network) -> tuple[Ints, Ints]:
    """The links of all graphs."""
    graphs = [network.graph(k) for k in range(network.period or 0)]
    ends = [(g.senders, g.receivers) if isinstance(g, Arcs) else (g.tails, g.heads) for g in graphs]
    return np.concatenate([a for a, _ in ends]), np.concatenate([b for _, b in ends])
