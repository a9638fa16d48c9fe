"""A run over links that are reliable and return: both halves on one layout, ready for the next round (docs/train.md, 2)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import breadth_first_order

from equipoise.parallel import side_by_side
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.audit import Auditor
from equipoise.train.channel import Tally
from equipoise.train.costs._kernels import OTHER
from equipoise.train.dynamics._layout import Layout
from equipoise.train.dynamics._price_kernels import Watch
from equipoise.train.dynamics.prices import Prices
from equipoise.train.dynamics.summed import Summed, choose_theta
from equipoise.train.links import LinkBits
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import FLOAT_BITS
from equipoise.train.region import LinkTable
from equipoise.train.sampler import Sampler
from equipoise.train.spectrum import adjacency_gap
from equipoise.train.state import first_models, part_of, warn_of_locked_links
from equipoise.train.steps import Steps, known_smoothness
from equipoise.train.topology import Topology


class LinkState:
    """The halves of all nodes, in one process."""

    epoch, last_event, coupling = 0, -1, None  # on a network where nothing happens

    def __init__(
        self,
        problem: Problem,
        network: Network,
        method: Method,
        *,
        seed: int = 0,
        start: str | ArrayLike = "auto",
        budgets: Mapping[int, float] | None = None,
    ) -> None:
        self.network, self.method = network, method
        nodes, model = problem.sized(network.n), problem.model
        self.market = problem.market(nodes, max(map(abs, (budgets or {}).values()), default=0.0))
        self.table = LinkTable.of(network)
        self.layout = Layout(self.table)
        self.gap = adjacency_gap(nodes, self.table.senders, self.table.receivers)
        self.budget = 0 if self.market is None else self.market.budget
        self.allocation: Prices | None = None
        self.learning: Summed | None = None
        self.overhead: Ints = np.zeros(len(self.table), dtype=np.int64)
        used: dict[str, float] = {}
        if self.market is not None:
            warn_of_locked_links(self.market, network)
            units = self.market.start()
            self.allocation = Prices(self.layout, self.market, method.quantizer, self.gap, units)
            used |= {"cpu_theta": self.allocation.rule.theta, "cpu_relax": self.allocation.rule.relax}
        if model is not None:
            smoothness = known_smoothness(model)
            L = float(smoothness.max())
            theta = choose_theta(self.gap, L, model, self.layout.graphs)
            first = first_models(model, start, seed)
            self.learning = Summed(self.layout, Sampler(model), method.quantizer, L, theta, first)
            used |= {"model_theta": theta, "local_steps": float(self.learning.local_steps)}
            self.overhead += flooding_bits(self.table, smoothness)
        self.steps = Steps(0.0, None, None, None, links=used)

    # a round

    def meet(self, number: int) -> Topology:
        """The graph of this round."""
        return self.network.topology(number)

    def advance(self, graph: Topology, number: int) -> str | None:
        """One round of both halves; the name of what diverged, or None."""
        halves = [half for half in (self.allocation, self.learning) if half is not None]
        for half in halves:
            half.say(number)
        fine = [half.hear(number) for half in halves]
        return None if all(fine) else "shares" if halves[fine.index(False)] is self.allocation else "models"

    @property
    def swift(self) -> bool:
        """Whether many rounds can be played without leaving compiled code."""
        cpu = self.allocation is None or self.allocation.rule.kind != OTHER
        return cpu and (self.learning is None or self.learning.matrix is not None)

    def hurry(self, graph: Topology, number: int, count: int, auditor: Auditor) -> tuple[int, str | None]:
        """`count` rounds at once, the two halves side by side: how many were played, and what diverged in the last."""
        allocation, learning, market = self.allocation, self.learning, self.market
        seen: Ints = np.zeros(2, dtype=np.int64)
        record: Ints = np.zeros((count if auditor.keeps else 0, self.network.n), dtype=np.int64)

        def trade() -> int:
            if allocation is None or market is None:
                return count
            boxes = allocation.boxes
            watch = Watch(self.budget, boxes.low, boxes.high, seen, record)
            return allocation.burst(number, count, watch)

        def learn() -> int:
            return count if learning is None else learning.burst(number, count)

        traded, learnt = side_by_side(trade, learn, worth=count * self.network.n)
        if market is not None:
            auditor.see_units(seen, market.grid.unit)
            auditor.keep(record[:traded][:, self.layout.by_node], self.budget)
        done = min(traded, learnt)
        for k in range(min(self.layout.graphs, done)):
            times = len(range(k, done, self.layout.graphs))
            auditor.watch_links(self.network.topology(number + k), times)
        if done == count:
            return count, None
        return done + 1, "shares" if traded == done else "models"

    def audit(self, auditor: Auditor) -> None:
        """Show the shares of this round to an auditor."""
        if self.market is not None and self.allocation is not None:
            auditor.watch_units(self.allocation.units, self.market, self.budget)

    def rebudget(self, budget: float, graph: Topology) -> None:
        """A new budget: the difference enters (leaves) at node 0 and then its neighbours, inside the boxes."""
        assert self.allocation is not None and self.market is not None
        units = self.market.snapped(budget)
        nearest = breadth_first_order(graph.laplacian(), 0, directed=False, return_predecessors=False)
        shares = self.allocation.units.copy()
        self.market.shift(shares, units - self.budget, nearest.astype(np.int64))
        self.allocation.shift(shares - self.allocation.units)
        self.budget = units

    # what others look at

    @property
    def shares(self) -> Floats | None:
        """CPUs of each node, exactly."""
        if self.allocation is None or self.market is None:
            return None
        return self.market.grid.floats(self.allocation.units)

    @property
    def models(self) -> Floats | None:
        """Parameters of each node."""
        return None if self.learning is None else self.learning.models

    def tallies(self) -> dict[str, Tally]:
        """Minifloats move their range: nothing saturates for long."""
        return {}

    def _bits(self) -> dict[str, Ints]:
        halves = {"prices": self.allocation, "models": self.learning}
        return {name: half.link_bits() for name, half in halves.items() if half is not None} | {
            "overhead": self.overhead
        }

    def bit_parts(self) -> dict[str, int]:
        """Bits sent so far over all links, by what they were for."""
        return {name: int(bits.sum()) for name, bits in self._bits().items()}

    def link_bits(self) -> LinkBits:
        """Bits of each directed link."""
        return LinkBits(self.table.senders, self.table.receivers, np.sum(list(self._bits().values()), axis=0))

    def meters(self) -> dict[str, float]:
        return {}

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        kept: dict[str, AnyArray] = {"budget": np.array(self.budget)}
        for name, half in {"cpu": self.allocation, "model": self.learning}.items():
            if half is not None:
                kept |= {f"{name}/{part}": array for part, array in half.memory().items()}
        return kept

    def restore(self, memory: dict[str, AnyArray]) -> None:
        """Take up a checkpoint."""
        self.budget = int(memory["budget"])
        for name, half in {"cpu": self.allocation, "model": self.learning}.items():
            if half is not None:
                half.restore(part_of(memory, name))


def flooding_bits(table: LinkTable, values: Floats) -> Ints:
    """Bits per link until all know the largest value: every link carries a float in each round until then."""
    bits: Ints = np.zeros(len(table), dtype=np.int64)
    known, number = values.copy(), 0
    while known.min() < values.max():
        there = table.turn(number)
        bits[there] += FLOAT_BITS
        heard = known.copy()
        np.maximum.at(heard, table.receivers[there], known[table.senders[there]])
        known, number = heard, number + 1
    return bits
