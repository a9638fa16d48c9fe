"""Everything that changes during a run: who has met whom, shares, models, and the round's number."""

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
from equipoise.parallel import side_by_side, threads_for
from equipoise.train.allocate import Allocation
from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.audit import Auditor
from equipoise.train.average import Averaging
from equipoise.train.channel import NUMBERS, SATURATED, UNDERFLOWED, Channel, Tally
from equipoise.train.costs._kernels import OTHER
from equipoise.train.coupling import CouplingLink
from equipoise.train.learn import Learning
from equipoise.train.links import LinkBits, Links, Round
from equipoise.train.method import Method
from equipoise.train.models._base import Model
from equipoise.train.models.least_squares import LeastSquares
from equipoise.train.network import Network
from equipoise.train.overhead import Overhead
from equipoise.train.problem import Market, Problem
from equipoise.train.quantize import FLOAT_BITS
from equipoise.train.sampler import Sampler
from equipoise.train.steps import StepWarning, choose_steps, known_smoothness
from equipoise.train.swift import learn_on, trade_on
from equipoise.train.trade import ELASTICITY_BITS, Trading


class State:
    """Both halves of a run, ready for its next round."""

    epoch, last_event = 0, -1  # on a network where nothing happens

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
        self.network, self.method = network, method
        nodes = problem.sized(network.n)
        self.coupling = CouplingLink.of(problem, method, batch)
        self.market = problem.market(nodes, max(map(abs, (budgets or {}).values()), default=0.0))
        self.links = Links(network)
        self.links.round(0)
        smoothness = None if problem.model is None else known_smoothness(problem.model)
        self.steps = choose_steps(self.market, problem.model, smoothness, network, method, delay)
        self.overhead = Overhead(self.links, self._curvature_bits(method))
        if smoothness is not None and method.alpha == "auto":
            self.overhead.flood(smoothness, self.links, network)
        pairs, slots = self.links.pairs, self.links.slots
        self.allocation: Allocation | Trading | None = None
        self.learning: Averaging | Learning | None = None
        self.budget = 0
        if self.market is not None:
            if self.steps.inertia is not None:
                self.allocation = Trading(
                    self.market, method, self.steps.inertia, 2 * pairs, slots, self.links.per_link
                )
            else:
                self.allocation = Allocation(self.market, method, self.steps.step, pairs, slots, delay)
            self.budget = self.market.budget
            if method.limits_boxes:
                warn_of_locked_links(self.market, network)
        if problem.model is not None and self.steps.alpha is not None:
            first = first_models(problem.model, start, seed)
            half = Averaging if method.by_meetings else Learning
            if self.coupling is not None and self.shares is not None:  # batches follow shares
                batch = self.coupling.first(self.shares)
            sampler = Sampler(problem.model, batch, seed)
            self.learning = half(sampler, method, self.steps, slots=slots, start=first)
            if self.coupling is not None:
                self.coupling.after(sampler)
                if isinstance(self.allocation, Trading):
                    self.allocation.reprice()
            if (
                method.by_meetings and smoothness is not None
            ):  # the largest first gradient: the scale of messages about models that begin at 0
                self.overhead.flood(np.abs(self.learning.trackers).max(axis=1), self.links, network)

    def _curvature_bits(self, method: Method) -> int:
        """At first contact: a curvature, or an elasticity where it is not told with every message anyway."""
        if self.market is None or method.cpu_weights != "curvature":
            return 0
        if method.by_markets:
            return 0 if self.links.per_link else ELASTICITY_BITS
        return FLOAT_BITS

    def meet(self, number: int) -> Round:
        """Who is connected in this round; room is made for pairs that meet for the first time."""
        round = self.links.round(number)
        self.make_room()
        self.overhead.advance(round, number)
        return round

    def make_room(self) -> None:
        """For all pairs that have met so far."""
        if self.links.per_link:
            pairs, slots = self.links.pairs, self.links.slots
            if self.allocation is not None:
                self.allocation.grow(pairs, slots)
            if self.learning is not None:
                self.learning.grow(slots)
            self.overhead.grow(slots)

    def advance(self, round: Round, number: int) -> str | None:
        """One round of both halves; the name of what diverged, or None."""
        allocation, learning = self.allocation, self.learning
        if self.coupling is not None and learning is not None and self.shares is not None:
            self.coupling.before(self.shares, learning.sampler, number)
        shares_fine, models_fine = side_by_side(
            lambda: allocation is None or allocation.advance(round, number),
            lambda: learning is None or learning.advance(round, number),
            worth=0 if allocation is None or learning is None else self.network.n,
        )
        if self.coupling is not None and learning is not None:
            self.coupling.after(learning.sampler)
        return None if shares_fine and models_fine else "models" if shares_fine else "shares"

    def audit(self, auditor: Auditor) -> None:
        """Show the shares of this round to an auditor."""
        if self.market is not None and self.allocation is not None:
            unit = self.market.grid.unit
            auditor.watch_shares(self.allocation.shares, unit, self.budget * unit)

    @property
    def swift(self) -> bool:
        """Whether many rounds can be played without leaving compiled code: a static network, and kinds that kernels know."""
        cpu = self.allocation is None or (isinstance(self.allocation, Trading) and self.allocation.curve.kind != OTHER)
        model = self.learning is None or (
            isinstance(self.learning, Averaging)
            and self.learning.sampler.exact
            and type(self.learning.model) is LeastSquares  # a subclass may differ
        )
        even = self.learning is None or self.method.ramp is None
        return self.network.static and cpu and model and even and threads_for(self.network.n) == 1

    def hurry(self, round: Round, number: int, count: int, auditor: Auditor) -> tuple[int, str | None]:
        """`count` rounds at once, the two halves side by side: how many were played, and what diverged in the last."""
        worst = np.array([auditor.worst.budget, auditor.worst.box])

        def trade() -> int:
            if not isinstance(self.allocation, Trading) or self.market is None:
                return count
            return trade_on(self.allocation.floor(round), number, count, self.budget * self.market.grid.unit, worst)

        def learn() -> int:
            if not isinstance(self.learning, Averaging) or not isinstance(self.learning.model, LeastSquares):
                return count
            model = self.learning.model
            return learn_on(self.learning.circle(round), model.hessian, model.slope, number, count)

        traded, learnt = side_by_side(trade, learn, worth=count * self.network.n)
        auditor.worst.budget, auditor.worst.box = float(worst[0]), float(worst[1])
        done = min(traded, learnt)
        played = min(done + 1, count)
        auditor.watch_links(round.topology, done)
        if done == count:
            return played, None
        return played, "shares" if traded == done else "models"

    def rebudget(self, budget: float, round: Round) -> None:
        """A new budget: the difference enters (leaves) at node 0 and then its neighbours, inside the boxes."""
        assert self.allocation is not None and self.market is not None
        units = self.market.snapped(budget)
        nearest = breadth_first_order(round.topology.laplacian(), 0, directed=False, return_predecessors=False)
        self.market.shift(self.allocation.shares, units - self.budget, nearest.astype(np.int64))
        self.budget = units

    @property
    def shares(self) -> Floats | None:
        """CPUs of each node, exactly."""
        return None if self.allocation is None else self.allocation.market.grid.floats(self.allocation.shares)

    @property
    def models(self) -> Floats | None:
        """Parameters of each node."""
        return None if self.learning is None else self.learning.models

    def _channels(self) -> dict[str, Channel]:
        found: dict[str, Channel] = {}
        if self.allocation is not None:
            found["prices"] = self.allocation.channel
        if isinstance(self.allocation, Trading):
            found["markets"] = self.allocation.markets
        if self.learning is not None:
            found["models"] = self.learning.channel
        if isinstance(self.learning, Averaging):
            found["meetings"] = self.learning.meetings
        return found

    def tallies(self) -> dict[str, Tally]:
        """How often each stream left the quantiser's range."""
        return {
            name: Tally(int(c.tally[NUMBERS]), int(c.tally[SATURATED]), int(c.tally[UNDERFLOWED]))
            for name, c in self._channels().items()
        }

    def bit_parts(self) -> dict[str, int]:
        """Bits sent so far over all links, by what they were for."""
        parts: dict[str, int] = {}
        for name, bits in self._slot_bits().items():
            parts[name] = (
                int(bits.sum()) if self.links.per_link else int((bits * self.network.topology(0).degree).sum())
            )
        if self.allocation is not None:
            parts["prices"] += int(self.allocation.amount_bits.sum()) + parts.pop("markets", 0)
        if self.learning is not None:
            parts["models"] += parts.pop("meetings", 0)
        return parts

    def _slot_bits(self) -> dict[str, AnyArray]:
        slots = self.links.slots
        return {name: c.bits_sent[:slots] for name, c in self._channels().items()} | {
            "overhead": self.overhead.bits[:slots]
        }

    def link_bits(self) -> LinkBits:
        """Bits of each directed link."""
        senders, receivers = self.links.directed()
        each = np.sum(list(self._slot_bits().values()), axis=0)
        bits = each if self.links.per_link else each[senders]
        if self.allocation is not None:
            bits = bits + self.allocation.amount_bits[: len(senders)]
        return LinkBits(senders, receivers, bits)

    def meters(self) -> dict[str, float]:
        """Samples drawn and CPU-seconds spent, where batches are drawn."""
        return meters(self.learning, self.coupling)

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        parts: dict[str, dict[str, AnyArray]] = {"links": dict(self.links.memory()), "overhead": self.overhead.memory()}
        if self.allocation is not None:
            parts["cpu"] = self.allocation.memory()
            parts["budget"] = {"units": np.array(self.budget)}
        if self.learning is not None:
            parts["model"] = self.learning.memory()
            parts["sampler"] = dict(self.learning.sampler.memory())
        if self.coupling is not None:
            parts["coupling"] = self.coupling.memory()
        return {f"{part}/{name}": array for part, arrays in parts.items() for name, array in arrays.items()}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        """Take up a checkpoint."""
        self.links.restore(part_of(memory, "links"))
        self.overhead.restore(part_of(memory, "overhead"))
        if self.allocation is not None:
            self.allocation.restore(part_of(memory, "cpu"))
            self.budget = int(memory["budget/units"])
        if self.learning is not None:
            self.learning.restore(part_of(memory, "model"))
            self.learning.sampler.restore(part_of(memory, "sampler"))
        if self.coupling is not None:
            self.coupling.restore(part_of(memory, "coupling"))


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
