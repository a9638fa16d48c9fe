"""A run on a network where everything arrives: both halves, ready for the next round (docs/train.md, 2)."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from equipoise.errors import InputError
from equipoise.parallel import side_by_side
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.audit import Auditor, Words
from equipoise.train.choose import choose
from equipoise.train.codec import NUMBERS, SATURATED, UNDERFLOWED, Tally
from equipoise.train.costs._kernels import OTHER
from equipoise.train.coupling import CouplingLink
from equipoise.train.dynamics._layout import Layout
from equipoise.train.dynamics._price_kernels import Watch
from equipoise.train.dynamics.averages import Averages
from equipoise.train.dynamics.flows import Flows
from equipoise.train.dynamics.markets import Markets
from equipoise.train.dynamics.mixing import Mixing
from equipoise.train.dynamics.own import Dynamics, is_own
from equipoise.train.dynamics.prices import Prices
from equipoise.train.dynamics.summed import Summed, choose_theta
from equipoise.train.exchange import LinkBits
from equipoise.train.exchange.rows import CODED, SINGLE, Meter, Round, Site, Voice, added_up, flood
from equipoise.train.method import Method
from equipoise.train.models._base import Model
from equipoise.train.network import Network
from equipoise.train.problem import Market, Problem
from equipoise.train.quantize import FLOAT_BITS
from equipoise.train.region import LinkTable
from equipoise.train.sampler import Sampler
from equipoise.train.spectrum import adjacency_gap
from equipoise.train.steps import StepWarning, choose_steps, known_smoothness
from equipoise.train.topology import Topology


class State:
    """The halves of all nodes, in one process."""

    epoch, last_event = 0, -1  # on a network where nothing happens
    here = True  # whether the halves are in this process, to be looked at

    def __init__(
        self,
        problem: Problem,
        network: Network,
        method: Method,
        *,
        seed: int = 0,
        start: str | ArrayLike = "auto",
        budgets: Mapping[int, float] | None = None,
        batch: ArrayLike | None = None,
        delay: int = 0,
    ) -> None:
        self.network, self.model = network, problem.model
        self.method = method = choose(method, problem, network, batch=batch)
        nodes = problem.sized(network.n)
        self.coupling = CouplingLink.of(problem, method, batch)
        self.market = problem.market(nodes, max(map(abs, (budgets or {}).values()), default=0.0))
        self.budget = 0 if self.market is None else self.market.budget
        self.site, self.delay = Site(network), delay
        self.overhead = Meter(self.site)
        if "links" in (method.cpu, method.learning) or is_own(method.learning):
            self.table = LinkTable.of(network)
            self.layout = Layout(self.table)
            self.gap = adjacency_gap(nodes, self.table.senders, self.table.receivers)
        smoothness = None if self.model is None else known_smoothness(self.model)
        self.steps = choose_steps(self.market, self.model, smoothness, network, method, delay)
        self.allocation: Prices | Markets | Flows | None = None
        self.learning: Summed | Averages | Mixing | Dynamics | None = None
        if self.market is not None:
            if method.limits_boxes:
                warn_of_locked_links(self.market, network)
            self.allocation = self._allocation(self.market)
        if self.model is not None and smoothness is not None:
            first = first_models(self.model, start, seed)
            if self.coupling is not None and self.shares is not None:  # batches follow shares
                batch = self.coupling.first(self.shares)
            self.learning = self._learning(Sampler(self.model, batch, seed), float(smoothness.max()), first)
            if self.coupling is not None:
                self.coupling.after(self.learning.sampler)
                if isinstance(self.allocation, Markets):
                    self.allocation.reprice()
            if method.alpha == "auto":
                flood(self.overhead, smoothness)

    def _allocation(self, market: Market) -> Prices | Markets | Flows:
        method, steps, units = self.method, self.steps, market.start()
        if method.cpu == "links":
            prices = Prices(self.layout, market, method.quantizer, self.gap, units)
            steps.links.update(cpu_theta=prices.rule.theta, cpu_relax=prices.rule.relax)
            return prices
        if steps.inertia is not None:
            return Markets(self.site, market, method.quantizer, steps.inertia, units)
        return Flows(self.site, market, method, steps.step, units, market.curvature, self.delay)

    def _learning(self, sampler: Sampler, L: float, first: Floats) -> Summed | Averages | Mixing | Dynamics:
        method, steps = self.method, self.steps
        if isinstance(method.learning, type):
            nodes = np.arange(self.network.n)
            own: Dynamics = method.learning(self.table, nodes, sampler, method, L, first)
            return own.over_rows(self.site)
        if method.learning == "links":
            theta = choose_theta(self.gap, L, sampler.model, self.layout.graphs)
            summed = Summed(self.layout, sampler, method.quantizer, L, theta, first)
            steps.links.update(model_theta=theta, local_steps=float(summed.local_steps))
            return summed
        assert steps.alpha is not None
        if method.by_meetings:
            return Averages(self.site, sampler, method, first, (steps.alpha, steps.momentum))
        return Mixing(self.site, sampler, method, first, (steps.step, steps.alpha))

    # a round

    def meet(self, number: int) -> Topology:
        """The graph of this round."""
        return self.network.topology(number)

    def advance(self, graph: Topology, number: int) -> str | None:
        """One round of both halves; the name of what diverged, or None."""
        allocation, learning = self.allocation, self.learning
        if self.coupling is not None and learning is not None and self.shares is not None:
            self.coupling.before(self.shares, learning.sampler, number)
            self.spend()
        self.site.turn_to(number)
        shares_fine, models_fine = side_by_side(
            lambda: allocation is None or heard_out(allocation.play(number)),
            lambda: learning is None or heard_out(learning.play(number)),
            worth=0 if allocation is None or learning is None else self.network.n,
        )
        if self.coupling is not None and learning is not None:
            self.coupling.after(learning.sampler)
        return None if shares_fine and models_fine else "models" if shares_fine else "shares"

    def spend(self) -> None:
        """A round of the whole budget, where shares buy samples."""
        if self.coupling is not None and self.market is not None:
            self.coupling.cpu_seconds += self.coupling.cost.tau * (self.budget * self.market.grid.unit)

    @property
    def swift(self) -> bool:
        """Whether many rounds can be played without leaving compiled code."""
        cpu = self.allocation is None or (isinstance(self.allocation, Prices) and self.allocation.rule.kind != OTHER)
        models = self.learning is None or (isinstance(self.learning, Summed) and self.learning.matrix is not None)
        return cpu and models and self.coupling is None

    def hurry(self, graph: Topology, number: int, count: int, auditor: Auditor) -> tuple[int, str | None]:
        """`count` rounds at once, the two halves side by side: how many were played, and what diverged in the last."""
        allocation, learning, market = self.allocation, self.learning, self.market
        seen: Ints = np.zeros(2, dtype=np.int64)
        record: Ints = np.zeros((count if auditor.keeps else 0, self.network.n), dtype=np.int64)

        def trade() -> int:
            if not isinstance(allocation, Prices) or market is None:
                return count
            boxes = allocation.boxes
            watch = Watch(self.budget, boxes.low, boxes.high, seen, record)
            return allocation.burst(number, count, watch)

        def learn() -> int:
            return learning.burst(number, count) if isinstance(learning, Summed) else count

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

    def words(self, number: int) -> list[Words]:
        """What everybody believes of everybody in this round's graph, for an auditor."""
        found = []
        for half in self._halves.values() if self.here else ():
            if isinstance(half, Prices | Summed):
                rows = half.believed(number).copy()
                found.append(Words(rows, FLOAT_BITS if half.plain(number) else half.code_bits, True))
            else:
                found += [Words(v.at(number).copy(), v.bits(number) // v.width, v.kind == CODED) for v in watched(half)]
        return found

    def links_met(self, number: int) -> Ints:
        """The links over which something is heard in this round, as sender x n + receiver."""
        n, found = self.network.n, []
        for half in self._halves.values():
            if isinstance(half, Prices | Summed):
                paths, nodes, t = self.layout.paths, self.layout.nodes, number % self.layout.graphs
                owner, heard = (part[t, : paths.links[t]].astype(np.int64) for part in (paths.owner, paths.node))
                found.append(nodes[heard] * n + nodes[owner])
            else:
                near = self.site.near(number)
                found.append(near.node * n + np.repeat(np.arange(n), np.diff(near.first)))
        return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)

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
        """How often the paper's codes left their range. Minifloats move theirs: nothing saturates for long."""
        return {
            name: Tally(int(voice.tally[NUMBERS]), int(voice.tally[SATURATED]), int(voice.tally[UNDERFLOWED]))
            for name, voice in voices_of(self.allocation, self.learning).items()
        }

    @property
    def _halves(self) -> dict[str, Any]:
        halves = {"prices": self.allocation, "models": self.learning}
        return {name: half for name, half in halves.items() if half is not None}

    def bit_parts(self) -> dict[str, int]:
        """Bits sent so far over all links, by what they were for."""
        sent = {name: sent_by(half) for name, half in self._halves.items()}
        return sent | {"overhead": self.overhead.total}

    def link_bits(self) -> LinkBits:
        """Bits of each directed link."""
        n, parts = self.network.n, [self.overhead.pairs()]
        for half in self._halves.values():
            if isinstance(half, Prices | Summed):
                parts.append((self.table.senders * n + self.table.receivers, half.link_bits()))
            else:
                parts.append(half.meter.pairs())
        keys, bits = added_up(parts)
        return LinkBits(keys // n, keys % n, bits)

    def meters(self) -> dict[str, float]:
        """Samples drawn and CPU-seconds spent, where batches are drawn."""
        return meters(self.learning, self.coupling)

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        parts: dict[str, dict[str, AnyArray]] = {"overhead": self.overhead.memory()}
        parts["budget"] = {"units": np.array(self.budget)}
        parts["tally"] = {name: voice.tally for name, voice in voices_of(self.allocation, self.learning).items()}
        if self.allocation is not None:
            parts["cpu"] = self.allocation.memory()
        if self.learning is not None:
            parts["model"] = self.learning.memory()
            parts["sampler"] = dict(self.learning.sampler.memory())
        if self.coupling is not None:
            parts["coupling"] = self.coupling.memory()
        return {f"{part}/{name}": array for part, arrays in parts.items() for name, array in arrays.items()}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        """Take up a checkpoint."""
        self.overhead.restore(part_of(memory, "overhead"))
        self.budget = int(memory["budget/units"])
        for name, voice in voices_of(self.allocation, self.learning).items():
            voice.tally[:] = memory[f"tally/{name}"]
        if self.allocation is not None:
            self.allocation.restore(part_of(memory, "cpu"))
        if self.learning is not None:
            self.learning.restore(part_of(memory, "model"))
            self.learning.sampler.restore(part_of(memory, "sampler"))
        if self.coupling is not None:
            self.coupling.restore(part_of(memory, "coupling"))


def heard_out(talk: Round) -> bool:
    """A round of one half where all nodes live here: what is said is heard."""
    while True:
        try:
            next(talk)
        except StopIteration as end:
            return bool(end.value)


def watched(half: Any) -> list[Voice]:
    """Streams whose codes can be held against their bits: not the paper's, whose levels are the quantiser's own."""
    named = {"Markets": ("prices", "answers"), "Averages": ("said", "means")}.get(type(half).__name__, ("voice",))
    return [voice for voice in (getattr(half, name) for name in named) if voice.kind in (CODED, SINGLE)]


def voices_of(allocation: object, learning: object) -> dict[str, Voice]:
    """Of the paper's forms, whose codes have a range, by what is sent."""
    voices = {"prices": allocation.voice} if isinstance(allocation, Flows) else {}
    return voices | ({"models": learning.voice} if isinstance(learning, Mixing) else {})


def sent_by(half: Any) -> int:
    """Bits that a half has sent so far."""
    return int(half.link_bits().sum()) if isinstance(half, Prices | Summed) else int(half.meter.total)


def meters(learning: Any, coupling: CouplingLink | None) -> dict[str, float]:
    """Columns of history that runs with mini-batches have: samples drawn, and CPU-seconds where shares buy them."""
    read: dict[str, float] = {}
    if learning is not None and not learning.sampler.exact:
        read["samples"] = float(learning.sampler.samples)
    if coupling is not None:
        read["cpu_seconds"] = coupling.cpu_seconds
    return read


def part_of(memory: dict[str, AnyArray], part: str) -> dict[str, AnyArray]:
    return {name.removeprefix(part + "/"): array for name, array in memory.items() if name.startswith(part + "/")}


def warn_of_locked_links(market: Market, network: Network) -> None:
    """CPU passes through a pinned node, but not along a link with both ends pinned: say so where that cuts the network."""
    pinned = market.low == market.high
    if pinned.sum() < 2 or network.period is None:
        return
    graphs = [network.topology(k) for k in range(network.period)]
    tails, heads = np.concatenate([g.tails for g in graphs]), np.concatenate([g.heads for g in graphs])
    locked = pinned[tails] & pinned[heads]
    ones = np.ones(int((~locked).sum()))
    _, piece = connected_components(coo_array((ones, (tails[~locked], heads[~locked])), shape=(network.n, network.n)))
    parting = np.flatnonzero(locked & (piece[tails] != piece[heads]))
    if len(np.unique(piece[~pinned])) > 1 and len(parting):
        i, j = tails[parting[0]], heads[parting[0]]
        warnings.warn(
            f"CPU cannot pass the link {i} - {j}, whose ends are both pinned (lo = hi): shares on its two sides stay apart",
            StepWarning,
            stacklevel=4,
        )


def first_models(model: Model, start: str | ArrayLike, seed: int) -> Floats:
    """y(0): what the model starts from by seed ("auto"; zeros where it does not say), zeros, or random by seed, or what the
    user gives (one row for all, or one per node)."""
    if isinstance(start, str) and start == "auto" and hasattr(model, "start"):
        start = model.start(seed if getattr(model, "drawn", True) else None)
    if isinstance(start, str):
        if start in ("auto", "zeros"):
            return np.zeros((model.nodes, model.size))
        if start == "random":
            return np.random.default_rng(seed).standard_normal((model.nodes, model.size))
        raise InputError(f'start must be "auto", "zeros", "random" or an array, not {start!r}', code="start.kind")
    given = np.asarray(start, dtype=np.float64)
    if given.shape not in ((model.size,), (model.nodes, model.size)) or not np.isfinite(given).all():
        raise InputError(
            f"start must be finite, of shape ({model.size},) or ({model.nodes}, {model.size}); it is {given.shape}",
            code="start.shape",
        )
    return np.broadcast_to(given, (model.nodes, model.size)).copy()


def fingerprint(problem: Problem, state: Any, seed: int, budgets: Mapping[int, float], faults: object = None) -> str:
    """A short name of all that determines a run, so that a checkpoint is not taken up by another one."""
    graph, market = state.network.arcs(0), state.market
    parts: list[object] = [
        state.network.n,
        state.network.description,
        state.method,
        seed,
        sorted(budgets.items()),
        faults,
    ]
    arrays = [graph.senders, graph.receivers, graph.weights]
    if market is not None:
        parts.append(problem.budget)
        arrays += [market.lo, market.hi, market.curvature, market.cost.derivative(market.grid.floats(market.start()))]
    if state.learning is not None:
        arrays += [state.models, state.learning.sampler.again(state.models)]
    digest = hashlib.sha256(repr(parts).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:12]
