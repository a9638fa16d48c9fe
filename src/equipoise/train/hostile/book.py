"""The book of a run on a hostile network: everything is held against what the survivors could reach."""

from __future__ import annotations

import math

import numpy as np

from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.audit import (
    Auditor,
    as_part,
    cost_noise,
    cost_size,
    disagreement,
    kkt_violation,
    largest,
    loss_noise,
    worst_part,
)
from equipoise.train.book import NOTABLE, SHARES_KEPT_UP_TO, Book, noise_floor, refuse_zeros, worst_loss
from equipoise.train.dynamics.tracking import Tracking
from equipoise.train.grid import exact_sum, spread
from equipoise.train.hostile.state import HostileState
from equipoise.train.problem import Problem, Subset
from equipoise.train.truth import CpuOptimum, ModelOptimum, optimal_model, optimal_shares

ROUNDED = 1e-12  # of the size of costs: a gap below 0 by less is rounding


class HostileBook(Book):
    """Rows of history against the survivors' optimum, and an audit of shares + in flight in every round."""

    def __init__(self, problem: Problem, state: HostileState) -> None:
        market = state.market
        self.auditor = Auditor(
            problem.cost, problem.model, None if market is None else market.lo, None if market is None else market.hi
        )
        if problem.model is not None and not problem.model.convex:
            refuse_zeros(problem.model, state)
        self.cpu_optimum: CpuOptimum | None = None
        self.model_optimum: ModelOptimum | None = None
        self.survivors: Subset | None = None
        self.first: dict[str, float] = {}
        self.noise: dict[str, float] = {}
        self.size: dict[str, float] = {}
        self.best, self.best_round = math.inf, 0
        self.rows: list[dict[str, float]] = []
        self.shares: list[Floats] = []
        self.reprice(state)

    def reprice(self, state: HostileState) -> None:  # type: ignore[override]
        """Solve both halves centrally for those who are there; from now on gaps are relative to the gap
        here, or to that of equal shares (first models) if it is larger."""
        self.best = math.inf
        self._price(state)
        if state.learning is not None and state.learning.model.convex:
            chosen = np.flatnonzero(state.members.known)
            self.survivors = Subset(state.learning.model, chosen)
            self.model_optimum = optimal_model(self.survivors)
            start = self._model_gap(state)
            self.size["model"] = max(start, abs(self.model_optimum.loss), self.size.get("model", 1e-300))
            self.noise["model"] = loss_noise(self.model_optimum)
            begun = self.auditor.gaps_of(self.survivors, state.learning.start[chosen], self.model_optimum)
            self.first["model"] = largest(start, self.noise["model"], float(begun.max()))

    def _price(self, state: HostileState) -> None:
        """The best shares of those who are there."""
        if state.market is not None:
            market, grid = state.market, state.market.grid
            there = state.members.known
            lo, hi = market.inner
            pinned = pins(lo, hi)
            lo, hi = np.where(there, lo, pinned), np.where(there, hi, pinned)
            units = min(state.budget, exact_sum(market.high[there]))  # boxes that are too small end up full
            self.cpu_optimum = optimal_shares(market.cost, units * grid.unit + float(pinned[~there].sum()), lo, hi)
            start = self.auditor.cpu_gap(self._priced(state), self.cpu_optimum)
            self.size["cpu"] = max(start, cost_size(market, self.cpu_optimum), self.size.get("cpu", 0.0))
            self.noise["cpu"] = cost_noise(market, self.cpu_optimum)
            self.first["cpu"] = max(start, self.noise["cpu"], self._first_gap(state))

    def watch(self, state: HostileState, traffic: object = None) -> None:  # type: ignore[override]
        """Every round: shares + in flight against the budget, shares alone, and the boxes."""
        if traffic is not None:
            self.auditor.worst.rounds += 1
        state.audit(self.auditor)

    def write(self, state: HostileState, number: int) -> float:  # type: ignore[override]
        """One row of history; returns the relative gap."""
        row: dict[str, float] = {"round": float(number), "centres": float(state.members.alive.sum())}
        gaps: dict[str, float] = {}
        row |= state.meters()
        if state.coupling is not None and state.coupling.cost.moves:  # the optimum has moved with what batches showed
            self._price(state)
        market, x = state.market, state.shares
        if market is not None and x is not None and self.cpu_optimum is not None:
            gaps["cpu"] = self.auditor.cpu_gap(self._priced(state), self.cpu_optimum)
            unit = market.grid.unit
            row |= {
                "cpu_gap": gaps["cpu"],
                "kkt": survivors_kkt(state, x),
                "budget": state.budget * unit,
                "in_flight": state.in_flight * unit,
                "budget_residual": float(np.sum(x)) + state.in_flight * unit - state.budget * unit,
            }
            if len(x) <= SHARES_KEPT_UP_TO:
                self.shares.append(x)
        progress: dict[str, float] = {}
        if state.learning is not None:
            if self.model_optimum is not None:
                row["model_gap"] = gaps["model"] = self._model_gap(state)
            else:
                survivors = Subset(state.learning.model, np.flatnonzero(state.members.known))
                row["loss"] = worst_loss(survivors, state.learning.models[state.members.alive])
                self.first.setdefault("loss", max(abs(row["loss"]), 1e-300))
                progress["loss"] = row["loss"] / self.first["loss"]
            row |= self._learning(state)
            if not state.learning.sampler.exact:
                row["noise"] = noise_floor(state, number, state.members.alive & state.members.known)
        parts = [
            0.0 if -ROUNDED * self.size[half] <= gap < 0 else as_part(gap, self.first[half], self.noise[half])
            for half, gap in gaps.items()
        ]
        row |= {"gap": sum(gaps.values()) if gaps else math.nan, "relative_gap": worst_part(parts)}
        row["bits"] = float(sum(state.bit_parts().values()))
        self.rows.append(row)
        done = largest(*(abs(part) for part in parts), *progress.values())
        if abs(done) < NOTABLE * self.best:
            self.best, self.best_round = abs(done), number
        return largest(done, row.get("consensus", 0.0) ** 2)  # a target asks for models that agree to its root

    def _learning(self, state: HostileState) -> dict[str, float]:
        """How far models differ, and whether trackers + in flight are still the sum of gradients, computed anew."""
        assert state.learning is not None
        known, learning = state.members.known, state.learning
        Y = learning.models[state.members.alive]
        self.auditor.worst.model = max(self.auditor.worst.model, float(np.linalg.norm(Y, axis=1).max()))
        if not isinstance(learning, Tracking):
            return {"consensus": disagreement(Y, self.auditor.worst.model)}
        gradients = np.where(known[:, None], learning.sampler.again(learning.models), 0.0)
        asleep = known & ~state.steady
        gradients[asleep] = learning.gradient[asleep]
        trackers = np.vstack([np.where(known[:, None], learning.trackers, 0.0), state.tracker_in_flight()])
        return {
            "consensus": disagreement(Y, self.auditor.worst.model),
            "tracker": self.auditor.tracker_error(gradients, trackers),
        }

    def _priced(self, state: HostileState) -> Floats:
        """Shares where they count, and elsewhere the value at which the optimum is pinned as well."""
        assert state.market is not None and state.shares is not None and state.allocation is not None
        return np.where(counted(state), state.shares, pins(*state.market.inner))

    def _first_gap(self, state: HostileState) -> float:
        """The gap that equal shares would have among those who are there."""
        assert state.market is not None and self.cpu_optimum is not None
        market, there = state.market, state.members.known
        shares = self._priced(state)
        fits = min(state.budget, exact_sum(market.high[there]))
        shares[there] = market.grid.floats(spread(fits, market.low[there], market.high[there]))
        return self.auditor.cpu_gap(shares, self.cpu_optimum)

    def _model_gap(self, state: HostileState) -> float:
        assert self.survivors is not None and self.model_optimum is not None and state.learning is not None
        both = state.members.alive & state.members.known
        return float(self.auditor.gaps_of(self.survivors, state.learning.models[both], self.model_optimum).max())


def counted(state: HostileState) -> AnyArray:
    """Whose shares count: centres that are there, are known to be, and have a whole share."""
    gathering = np.zeros(len(state.members.alive), dtype=np.bool_)
    if state.allocation is not None:
        gathering = state.allocation.collecting
    return np.asarray(state.members.known & state.members.alive & ~gathering)


def survivors_kkt(state: HostileState, x: Floats) -> float:
    """How far the prices of those who are there differ where they could still act on it."""
    assert state.market is not None and state.allocation is not None
    market = state.market
    counts = state.members.alive & ~state.allocation.collecting
    inside = np.where(counts, x, pins(market.lo, market.hi))
    with np.errstate(all="ignore"):
        prices = market.cost.derivative(inside)
    parts: list[AnyArray] = [array[counts] for array in (x, prices, market.curvature, market.lo, market.hi)]
    return kkt_violation(*parts) if counts.any() else 0.0


def pins(lo: Floats, hi: Floats) -> Floats:
    """A value inside each box, for those who are not there."""
    return np.where(np.isfinite(lo), lo, np.where(np.isfinite(hi), hi, 0.0))
