"""The book of a run: history rows, the auditor's findings, and whether it is time to stop."""

from __future__ import annotations

import math
from dataclasses import astuple
from typing import Any, Generic, TypeVar

import numpy as np

from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.audit import (
    Auditor,
    Extremes,
    as_part,
    cost_noise,
    cost_size,
    cpu_gap,
    farthest,
    kkt_violation,
    largest,
    loss_noise,
    model_gap,
    worst_part,
)
from equipoise.train.dynamics.own import Dynamics
from equipoise.train.dynamics.summed import Summed
from equipoise.train.dynamics.tracking import Tracking
from equipoise.train.grid import exact_sum, spread
from equipoise.train.hostile.state import HostileState
from equipoise.train.models._base import Model
from equipoise.train.problem import Problem, Subset
from equipoise.train.state import State
from equipoise.train.topology import Topology
from equipoise.train.truth import CpuOptimum, ModelOptimum, optimal_model, optimal_shares

SHARES_KEPT_UP_TO = 1000  # nodes; larger networks keep no history of every share
HALVES = ("cpu", "model", "loss")  # what a start is remembered of
FEW = 4  # witnesses of a loss that nothing certifies: scoring a net on all data costs as much as many rounds
RUNAWAY = 1e6  # a gap this many times the one at the start, and the optimum itself, is a divergence
ROUNDED = 1e-12  # of the size of costs: a gap below 0 by less is rounding, where centres come and go
GRADIENT_NOISE = 1e-9  # of L times the model: gradients smaller than this are rounding
NOTABLE = 0.99  # a gap below this part of the best so far counts as progress
S = TypeVar("S", bound=State | HostileState)


class Book(Generic[S]):
    """Writes a row whenever asked, and remembers the best gap and when it was reached."""

    def __init__(self, problem: Problem, state: S) -> None:
        self.auditor = Auditor()
        model = problem.model
        if model is not None and not model.convex:
            refuse_zeros(model, state)
        self.model_optimum: ModelOptimum | None = None
        self.cpu_optimum: CpuOptimum | None = None
        self.first: dict[str, float] = {}  # each half's gap at the start, or after the last change of what is best
        self.noise: dict[str, float] = {}  # below which a gap is rounding
        self.size: dict[str, float] = {}  # what a gap is compared with before it is called a divergence
        self.best, self.best_round = math.inf, 0
        self.rows: list[dict[str, float]] = []
        self.shares: list[Floats] = []
        self.reprice(state)

    def reprice(self, state: S) -> None:
        """Solve centrally for the budget and the nodes in force; from now on gaps are relative to the gap here."""
        self.best = math.inf
        self._price_shares(state)
        self._price_models(state)

    def _price_shares(self, state: S) -> None:
        if state.market is None:
            return
        self.cpu_optimum = self._best_shares(state)
        start = cpu_gap(state.market.cost, self._priced(state), self.cpu_optimum)
        self.noise["cpu"] = cost_noise(state.market, self.cpu_optimum)
        self.first["cpu"] = max(start, self.noise["cpu"], self._gap_of_equal_shares(state))
        self.size["cpu"] = max(start, cost_size(state.market, self.cpu_optimum), self.size.get("cpu", 0.0))

    def watch(self, state: S, graph: Any = None) -> None:
        """Every round: the budget and the boxes, and how many links the graph had."""
        if graph is not None:
            self._watch_links(graph)
        state.audit(self.auditor)

    def write(self, state: S, number: int) -> float:
        """One row of history; returns the relative gap - or, where a model has no optimum to compare with, its loss as part
        of the one at the start - or the square of how far models differ, whatever is worst."""
        row: dict[str, float] = {"round": float(number)} | self._centres(state) | state.meters()
        gaps: dict[str, float] = {}
        market, x = state.market, state.shares
        if state.coupling is not None and state.coupling.cost.moves:  # the optimum has moved with what batches showed
            self._follow_costs(state)
        if market is not None and x is not None and self.cpu_optimum is not None:
            gaps["cpu"] = cpu_gap(market.cost, self._priced(state), self.cpu_optimum)
            budget, flying = state.budget * market.grid.unit, self._flying(state)
            row |= {"cpu_gap": gaps["cpu"], "kkt": self._kkt(state, x), "budget": budget} | flying
            row["budget_residual"] = float(np.sum(x)) + sum(flying.values()) - budget
            if len(x) <= SHARES_KEPT_UP_TO:
                self.shares.append(x)
        progress: dict[str, float] = {}
        if state.models is not None and state.learning is not None:
            if self.model_optimum is not None:
                gaps["model"] = row["model_gap"] = model_gap(*self._learnt(state), self.model_optimum)
                self._remember_first(gaps["model"], self.model_optimum)
            else:
                row["loss"] = worst_loss(*self._learnt(state))
                self.first.setdefault("loss", max(abs(row["loss"]), 1e-300))
                progress["loss"] = row["loss"] / self.first["loss"]
            row["consensus"] = self.auditor.consensus(state.models[self._alive(state)])
            row |= self._sums(state)
            if not state.learning.sampler.exact:
                row["noise"] = noise_floor(state, number, self._known(state))
        parts = [self._part(half, gap) for half, gap in gaps.items()]
        row |= {"gap": sum(gaps.values()) if gaps else math.nan, "relative_gap": worst_part(parts)}
        row["bits"] = float(sum(state.bit_parts().values()))
        self.rows.append(row)
        done = largest(*progress.values(), *([self._worst(parts)] if parts else []))
        if abs(done) < NOTABLE * self.best:
            self.best, self.best_round = abs(done), number
        # a target asks for models that agree to its root, and for gradients that cancel to it, as the certificate does
        return largest(done, row.get("consensus", 0.0) ** 2, self._uncancelled(state, row) ** 2)

    # what differs where centres come and go

    def _price_models(self, state: S) -> None:
        """Solve the learning half centrally, once."""
        if self.model_optimum is None and state.learning is not None and state.learning.model.convex:
            self.model_optimum = optimal_model(state.learning.model)

    def _best_shares(self, state: S) -> CpuOptimum:
        assert state.market is not None
        return optimal_shares(state.market.cost, state.budget * state.market.grid.unit, *state.market.inner)

    def _priced(self, state: S) -> Floats:
        """Shares to hold against the best ones."""
        assert state.shares is not None
        return state.shares

    def _gap_of_equal_shares(self, state: S) -> float:
        return 0.0  # runs begin there

    def _follow_costs(self, state: S) -> None:
        self.cpu_optimum = self._best_shares(state)

    def _watch_links(self, graph: Topology) -> None:
        self.auditor.watch_links(graph)

    def _centres(self, state: S) -> dict[str, float]:
        return {}

    def _flying(self, state: S) -> dict[str, float]:
        """CPUs in nobody's share."""
        return {}

    def _kkt(self, state: S, x: Floats) -> float:
        assert state.market is not None
        market = state.market
        with np.errstate(all="ignore"):
            return kkt_violation(x, market.cost.derivative(x), market.curvature, market.lo, market.hi)

    def _learnt(self, state: S) -> tuple[Model, Floats]:
        """The model on the data of those who are there, and the parameters that each of them has."""
        assert state.learning is not None and state.models is not None
        return state.learning.model, state.models

    def _remember_first(self, gap: float, optimum: ModelOptimum) -> None:
        self.noise["model"] = loss_noise(optimum)
        self.first.setdefault("model", largest(gap, self.noise["model"]))
        self.size["model"] = max(self.first["model"], abs(optimum.loss))

    def _alive(self, state: S) -> AnyArray | slice:
        return slice(None)

    def _known(self, state: S) -> AnyArray | slice:
        """Who is there, and known to be."""
        return slice(None)

    def _sums(self, state: S) -> dict[str, float]:
        """Whether gradients cancel, or trackers are still the sum of gradients, computed anew."""
        learning: Any = state.learning
        gradients = learning.sampler.again(state.models)
        if isinstance(learning, Summed | Dynamics):
            return {"gradient": self.auditor.gradient_error(gradients)}
        return {"tracker": self.auditor.tracker_error(gradients, learning.trackers)}

    def _uncancelled(self, state: S, row: dict[str, float]) -> float:
        """What is left of the gradients, as a part of the largest; 0 where even those were rounding."""
        if "gradient" not in row or state.models is None:
            return 0.0
        rounding = GRADIENT_NOISE * len(state.models) * getattr(state.learning, "L", 0.0) * np.abs(state.models).max()
        return row["gradient"] if self.auditor.worst.gradient > rounding else 0.0

    def _part(self, half: str, gap: float) -> float:
        return as_part(gap, self.first[half], self.noise[half])

    def _worst(self, parts: list[float]) -> float:
        return worst_part(parts)

    # what is kept

    def runaway(self) -> bool:
        """Whether a half has gone far beyond any gap that its problem could have, or is no number at all."""
        row = self.rows[-1]
        sizes = {f"{half}_gap": size for half, size in self.size.items()} | {"loss": self.first.get("loss", 1.0)}
        return any(not row.get(name, 0.0) <= RUNAWAY * size for name, size in sizes.items())

    def history(self) -> dict[str, Floats]:
        """Columns of all rows."""
        names = list(self.rows[0]) if self.rows else ["round", "gap", "relative_gap", "bits"]
        return {name: np.array([row[name] for row in self.rows]) for name in names}

    def share_history(self) -> Floats | None:
        return np.array(self.shares) if self.shares else None

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        kept: dict[str, AnyArray] = {f"history/{name}": column for name, column in self.history().items()}
        kept["book/worst"] = np.array(astuple(self.auditor.worst))
        kept["book/best"] = np.array([self.best, self.best_round])
        kept["book/first"] = np.array([self.first.get(half, np.nan) for half in HALVES])
        if self.shares:
            kept["book/shares"] = np.array(self.shares)
        return kept

    def restore(self, memory: dict[str, AnyArray]) -> None:
        """Take up a checkpoint."""
        columns = {n.removeprefix("history/"): c for n, c in memory.items() if n.startswith("history/")}
        self.rows = [dict(zip(columns, map(float, row), strict=True)) for row in zip(*columns.values(), strict=True)]
        budget, box, tracker, gradient, model, rounds, links, over, words = map(float, memory["book/worst"])
        counts = int(rounds), int(links)
        self.auditor.worst = Extremes(budget, box, tracker, gradient, model, *counts, over, int(words))
        self.best, self.best_round = float(memory["book/best"][0]), int(memory["book/best"][1])
        first = dict(zip(HALVES, map(float, memory["book/first"]), strict=True))
        self.first = {half: gap for half, gap in first.items() if not math.isnan(gap)}
        self.shares = list(memory["book/shares"]) if "book/shares" in memory else []


class HostileBook(Book[HostileState]):
    """The book of a run on a hostile network: gaps are against what the survivors could reach, and relative to the gap at
    the last event, or to that of equal shares and first models if it is larger."""

    def write(self, state: HostileState, number: int) -> float:
        done = super().write(state, number)
        return largest(
            done, self.rows[-1].get("consensus", 0.0) ** 2
        )  # a target asks for models that agree to its root

    def _price_models(self, state: HostileState) -> None:
        if state.learning is None or not state.learning.model.convex:
            return
        survivors, models = self._learnt(state)
        self.model_optimum = optimum = optimal_model(survivors)
        start, begun = (model_gap(survivors, Y, optimum) for Y in (models, state.learning.start[state.members.known]))
        self.size["model"] = max(start, abs(optimum.loss), self.size.get("model", 1e-300))
        self.noise["model"] = loss_noise(optimum)
        self.first["model"] = largest(start, self.noise["model"], begun)

    def _best_shares(self, state: HostileState) -> CpuOptimum:
        """Of those who are there."""
        assert state.market is not None
        market, there = state.market, state.members.known
        lo, hi = market.inner
        pinned = pins(lo, hi)
        lo, hi = np.where(there, lo, pinned), np.where(there, hi, pinned)
        units = min(state.budget, exact_sum(market.high[there]))  # boxes that are too small end up full
        return optimal_shares(market.cost, units * market.grid.unit + float(pinned[~there].sum()), lo, hi)

    def _priced(self, state: HostileState) -> Floats:
        """Shares where they count, and elsewhere the value at which the optimum is pinned as well."""
        assert state.market is not None and state.shares is not None
        return np.where(counted(state), state.shares, pins(*state.market.inner))

    def _gap_of_equal_shares(self, state: HostileState) -> float:
        """Among those who are there."""
        assert state.market is not None and self.cpu_optimum is not None
        market, there = state.market, state.members.known
        shares = self._priced(state)
        fits = min(state.budget, exact_sum(market.high[there]))
        shares[there] = market.grid.floats(spread(fits, market.low[there], market.high[there]))
        return cpu_gap(market.cost, shares, self.cpu_optimum)

    def _follow_costs(self, state: HostileState) -> None:
        self._price_shares(state)

    def _watch_links(self, graph: object) -> None:
        self.auditor.worst.rounds += 1

    def _centres(self, state: HostileState) -> dict[str, float]:
        return {"centres": float(state.members.alive.sum())}

    def _flying(self, state: HostileState) -> dict[str, float]:
        assert state.market is not None
        return {"in_flight": state.in_flight * state.market.grid.unit}

    def _kkt(self, state: HostileState, x: Floats) -> float:
        """How far the prices of those who are there differ where they could still act on it."""
        assert state.market is not None and state.allocation is not None
        market, counts = state.market, state.members.alive & ~state.allocation.collecting
        with np.errstate(all="ignore"):
            prices = market.cost.derivative(np.where(counts, x, pins(market.lo, market.hi)))
        parts: list[AnyArray] = [array[counts] for array in (x, prices, market.curvature, market.lo, market.hi)]
        return kkt_violation(*parts) if counts.any() else 0.0

    def _learnt(self, state: HostileState) -> tuple[Model, Floats]:
        assert state.learning is not None
        model, there = state.learning.model, self._known(state) if state.learning.model.convex else self._alive(state)
        return Subset(model, np.flatnonzero(state.members.known)), state.learning.models[there]

    def _remember_first(self, gap: float, optimum: ModelOptimum) -> None:
        """Known since the last event."""

    def _alive(self, state: HostileState) -> AnyArray:
        return state.members.alive

    def _known(self, state: HostileState) -> AnyArray:
        return np.asarray(state.members.alive & state.members.known)

    def _sums(self, state: HostileState) -> dict[str, float]:
        """Whether trackers + in flight are still the sum of gradients."""
        known, learning = state.members.known, state.learning
        if not isinstance(learning, Tracking):
            return {}
        gradients = np.where(known[:, None], learning.sampler.again(learning.models), 0.0)
        asleep = known & ~state.exchange.acting  # stragglers: their gradients are of an earlier round
        gradients[asleep] = learning.gradient[asleep]
        trackers = np.vstack([np.where(known[:, None], learning.trackers, 0.0), state.tracker_in_flight()])
        return {"tracker": self.auditor.tracker_error(gradients, trackers)}

    def _part(self, half: str, gap: float) -> float:
        return 0.0 if -ROUNDED * self.size[half] <= gap < 0 else super()._part(half, gap)

    def _worst(self, parts: list[float]) -> float:
        return largest(*map(abs, parts))


def counted(state: HostileState) -> AnyArray:
    """Whose shares count: centres that are there, are known to be, and have a whole share."""
    gathering = np.zeros(len(state.members.alive), dtype=np.bool_)
    if state.allocation is not None:
        gathering = state.allocation.collecting
    return np.asarray(state.members.known & state.members.alive & ~gathering)


def pins(lo: Floats, hi: Floats) -> Floats:
    """A value inside each box, for those who are not there."""
    return np.where(np.isfinite(lo), lo, np.where(np.isfinite(hi), hi, 0.0))


def worst_loss(model: Model, Y: Floats, witnesses: int = FEW) -> float:
    """The largest loss on everybody's data among the models farthest from the average one."""
    with np.errstate(all="ignore"):
        return float(model.totals(np.ascontiguousarray(farthest(Y, witnesses))).max())


def noise_floor(state: Any, number: int, there: AnyArray | slice) -> float:
    """What mini-batches leave of the gap at steps like these: gamma/2 times the variance of the summed gradient.

    Models on average move by gamma = step alpha / n down the summed gradient (alpha / n / (1 - beta) with momentum), whose
    variance is sum_i p_i^2 sigma_i^2 / B_i; near an optimum SGD then hovers at gamma/4 to gamma/2 times that. Not a number
    where a batch is one sample, which shows no variance.
    """
    learning, steps = state.learning, state.steps
    assert learning is not None
    sampler = learning.sampler
    if steps.alpha is None:  # a dynamics of one's own, whose steps nobody knows
        return math.nan
    if sampler.batch is None or sampler.spread is None or learning.model.sizes is None:
        return math.nan
    size = learning.model.sizes / learning.model.sizes.sum()
    each = size**2 * sampler.spread * (1.0 / sampler.batch - 1.0 / learning.model.sizes)
    variance = float(each[there].sum())
    if state.method.by_meetings:
        gamma = steps.alpha * state.method.faded(number) / (1.0 - steps.momentum)
    else:
        gamma = steps.step * steps.alpha * state.method.faded(number)
    return float(0.5 * gamma / learning.model.nodes * variance)


def refuse_zeros(model: Model, state: Any) -> None:
    """A net cannot learn from zeros."""
    if state.learning is not None and hasattr(model, "start") and not state.learning.models.any():
        raise InputError(
            f"{type(model).__name__} cannot learn from zeros, where its hidden units are all alike: "
            "solve(..., start=model.start(seed))",
            code="start.zeros",
        )
