"""The book of a run: history rows, the auditor's findings, and whether it is time to stop."""

from __future__ import annotations

import math
from dataclasses import astuple
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.audit import (
    Auditor,
    Extremes,
    as_part,
    cost_noise,
    cost_size,
    kkt_violation,
    largest,
    loss_noise,
    worst_part,
)
from equipoise.train.dynamics.own import Dynamics
from equipoise.train.dynamics.summed import Summed
from equipoise.train.models._base import Model
from equipoise.train.problem import Problem
from equipoise.train.state import State
from equipoise.train.topology import Topology
from equipoise.train.truth import CpuOptimum, ModelOptimum, optimal_model, optimal_shares

SHARES_KEPT_UP_TO = 1000  # nodes; larger networks keep no history of every share
HALVES = ("cpu", "model", "loss")  # what a start is remembered of
FEW = 4  # witnesses of a loss that nothing certifies: scoring a net on all data costs as much as many rounds
RUNAWAY = 1e6  # a gap this many times the one at the start, and the optimum itself, is a divergence
NOTABLE = 0.99  # a gap below this part of the best so far counts as progress


class Book:
    """Writes a row whenever asked, and remembers the best gap and when it was reached."""

    def __init__(self, problem: Problem, state: State) -> None:
        market = state.market
        self.auditor = Auditor(
            problem.cost, problem.model, None if market is None else market.lo, None if market is None else market.hi
        )
        model = problem.model
        if model is not None and not model.convex:
            refuse_zeros(model, state)
        self.model_optimum: ModelOptimum | None = None if model is None or not model.convex else optimal_model(model)
        self.cpu_optimum: CpuOptimum | None = None
        self.first: dict[str, float] = {}  # each half's gap at the start, or after the last change of budget
        self.noise: dict[str, float] = {}  # below which a gap is rounding
        self.size: dict[str, float] = {}  # what a gap is compared with before it is called a divergence
        self.best, self.best_round = math.inf, 0
        self.reprice(state)
        self.rows: list[dict[str, float]] = []
        self.shares: list[Floats] = []

    def reprice(self, state: State) -> None:
        """Solve the CPU half centrally for the budget in force; from now on its gap is relative to the gap here."""
        if state.market is None or state.shares is None:
            return
        self.cpu_optimum = self._best_shares(state)
        start = self.auditor.cpu_gap(state.shares, self.cpu_optimum)
        self.noise["cpu"] = cost_noise(state.market, self.cpu_optimum)
        self.first["cpu"] = max(start, self.noise["cpu"])
        self.size["cpu"] = max(start, cost_size(state.market, self.cpu_optimum), self.size.get("cpu", 0.0))
        self.best = math.inf

    def _best_shares(self, state: State) -> CpuOptimum:
        assert state.market is not None
        market = state.market
        return optimal_shares(market.cost, state.budget * market.grid.unit, *market.inner)

    def watch(self, state: State, graph: Topology | None = None) -> None:
        """Every round: the budget and the boxes, and how many links the graph had."""
        if graph is not None:
            self.auditor.watch_links(graph)
        state.audit(self.auditor)

    def write(self, state: State, number: int) -> float:
        """One row of history; returns the relative gap - or, where a model has no optimum to compare with, its loss as part
        of the one at the start - or the square of how far models differ, whatever is worst."""
        row: dict[str, float] = {"round": float(number)}
        gaps: dict[str, float] = {}
        x, Y = state.shares, state.models
        if state.coupling is not None and state.coupling.cost.moves:  # the optimum has moved with what batches showed
            self.cpu_optimum = self._best_shares(state)
        row |= state.meters()
        if x is not None and state.market is not None and self.cpu_optimum is not None:
            gaps["cpu"] = self.auditor.cpu_gap(x, self.cpu_optimum)
            market = state.market
            with np.errstate(all="ignore"):
                prices = market.cost.derivative(x)
            row |= {
                "cpu_gap": gaps["cpu"],
                "kkt": kkt_violation(x, prices, market.curvature, market.lo, market.hi),
                "budget": state.budget * market.grid.unit,
                "budget_residual": float(np.sum(x)) - state.budget * market.grid.unit,
            }
            if len(x) <= SHARES_KEPT_UP_TO:
                self.shares.append(x)
        progress: dict[str, float] = {}
        if Y is not None and state.learning is not None:
            if self.model_optimum is not None:
                gaps["model"] = row["model_gap"] = float(self.auditor.model_gaps(Y, self.model_optimum).max())
                self.noise["model"] = loss_noise(self.model_optimum)
                self.first.setdefault("model", largest(gaps["model"], self.noise["model"]))
                self.size["model"] = max(self.first["model"], abs(self.model_optimum.loss))
            else:
                row["loss"] = worst_loss(state.learning.model, Y)
                self.first.setdefault("loss", max(abs(row["loss"]), 1e-300))
                progress["loss"] = row["loss"] / self.first["loss"]
            sampler = state.learning.sampler
            row["consensus"] = self.auditor.consensus(Y)
            if isinstance(state.learning, Summed | Dynamics):
                row["gradient"] = self.auditor.gradient_error(sampler.again(Y))
            else:
                row["tracker"] = self.auditor.tracker_error(sampler.again(Y), state.learning.trackers)
            if not sampler.exact:
                row["noise"] = noise_floor(state, number)
        parts = [as_part(gap, self.first[half], self.noise[half]) for half, gap in gaps.items()]
        relative = worst_part(parts)
        row |= {"gap": sum(gaps.values()) if gaps else math.nan, "relative_gap": relative}
        row["bits"] = float(sum(state.bit_parts().values()))
        self.rows.append(row)
        done = largest(*progress.values(), *([relative] if parts else []))
        if abs(done) < NOTABLE * self.best:
            self.best, self.best_round = abs(done), number
        return largest(done, row.get("consensus", 0.0) ** 2)  # a target asks for models that agree to its root

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


def worst_loss(model: Model, Y: Floats, witnesses: int = FEW) -> float:
    """The largest loss on everybody's data among the models farthest from the average one."""
    if len(Y) > witnesses:
        apart = np.linalg.norm(Y - Y.mean(axis=0), axis=1)
        Y = Y[np.sort(np.argsort(apart, kind="stable")[-witnesses:])]
    with np.errstate(all="ignore"):
        return float(model.totals(np.ascontiguousarray(Y)).max())


def noise_floor(state: Any, number: int, there: AnyArray | None = None) -> float:
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
    variance = float(each.sum() if there is None else each[there].sum())
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
