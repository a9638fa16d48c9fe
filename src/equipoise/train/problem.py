"""What is to be solved: costs of CPU under a budget, a model on shards, or both (docs/train.md, 1)."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.train.arrays import Floats, Ints
from equipoise.train.costs._base import Cost, box, check_cost, curvature
from equipoise.train.grid import Grid, exact_sum, proportion, spread
from equipoise.train.method import Method
from equipoise.train.models._base import Model, UserModel, adopt, check_model
from equipoise.train.models.least_squares import LeastSquares
from equipoise.train.truth import optimal_shares

STIFFNESS = 1.0  # kappa: the price of a full node, in curvatures (docs/train.md, 3.5)


class Problem:
    """minimise sum_i f_i(x_i) + g_i(y_i) with sum x = budget, lo <= x <= hi, and one model y. Either half may be absent."""

    def __init__(self, cost: Cost | None = None, budget: float | None = None, model: Any = None) -> None:
        if cost is None and model is None:
            raise InputError("a problem needs a cost, a model, or both", code="problem.empty")
        if (cost is None) != (budget is None):
            raise InputError("a cost needs a budget, and a budget a cost: give both or neither", code="problem.cost")
        if budget is not None and not (isinstance(budget, numbers.Real) and math.isfinite(budget)):
            raise InputError(f"budget must be a finite number of CPUs, not {budget!r}", code="budget.number")
        self.cost, self.budget = cost, None if budget is None else float(budget)
        self.model: Model | None = None if model is None else adopt(model)
        if isinstance(self.model, UserModel):
            check_model(model, points=1, nodes=3)
        of_cost, of_model = getattr(cost, "nodes", None), getattr(self.model, "nodes", None)
        sizes = {s for s in (of_cost, of_model) if s is not None}
        if len(sizes) > 1:
            raise InputError(
                f"the cost speaks of {of_cost} nodes and the model of {of_model} shards", code="problem.nodes"
            )
        self.nodes: int | None = sizes.pop() if sizes else None
        if cost is not None and self.nodes is not None:
            self.market(self.nodes)  # refuse an infeasible budget now, not when the run starts

    def __repr__(self) -> str:
        shared = "" if self.cost is None else f"{self.budget:g} CPUs by {type(self.cost).__name__} costs"
        trained = "" if self.model is None else type(getattr(self.model, "wrapped", self.model)).__name__
        return f"<Problem: {' and '.join(filter(None, (trained, shared)))}>"

    def sized(self, nodes: int) -> int:
        """The number of nodes, agreed with a network's."""
        if self.nodes is not None and self.nodes != nodes:
            raise InputError(f"the problem has {self.nodes} nodes but the network has {nodes}", code="problem.nodes")
        return nodes

    def market(self, nodes: int, largest: float = 0.0) -> Market | None:
        """The CPU half for this many nodes, on a grid that holds budgets up to `largest`."""
        if self.cost is None or self.budget is None:
            return None
        return Market.open(self.cost, self.budget, nodes, largest)


@dataclass(frozen=True, eq=False)
class Market:
    """The CPU half in numbers: boxes and budget in grid units, curvatures, prices."""

    cost: Cost
    grid: Grid
    budget: int  # units
    lo: Floats
    hi: Floats
    low: Ints  # units, snapped inward
    high: Ints
    curvature: Floats  # largest f'' of each node on its box
    stiffness: Floats  # kappa a_i

    @classmethod
    def open(cls, cost: Cost, budget: float, nodes: int, largest: float = 0.0) -> Market:
        lo, hi = box(cost, nodes)
        check_cost(cost, nodes)
        _, steepest = curvature(cost, lo, hi)
        if not (np.isfinite(steepest).all() and (steepest > 0).all()):
            node = int(np.flatnonzero(~((steepest > 0) & np.isfinite(steepest)))[0])
            raise InputError(f"{type(cost).__name__} has no positive finite curvature at node {node}: {steepest[node]}")
        refuse_infeasible(budget, lo, hi)
        wished = None if np.isfinite(lo).all() else optimal_shares(cost, budget, lo, hi).shares
        grid = Grid.fit(max(abs(budget), abs(largest)), lo, wished)
        low, high = grid.inward(lo, hi)
        # Where a box has no grid point, the nearest one is the box.
        lo, hi = (
            np.minimum(lo, np.where(low == high, grid.floats(low), lo)),
            np.maximum(hi, np.where(low == high, grid.floats(high), hi)),
        )
        market = cls(cost, grid, 0, lo, hi, low, high, steepest, STIFFNESS * steepest)
        return replace(market, budget=market.snapped(budget))

    def snapped(self, budget: float) -> int:
        """A feasible budget in units; at the very ends it gives way to boxes that were snapped inward."""
        refuse_infeasible(budget, self.lo, self.hi)
        return min(max(self.grid.units(budget), exact_sum(self.low)), exact_sum(self.high))

    @property
    def inner(self) -> tuple[Floats, Floats]:
        """The boxes as the grid has them, in CPUs: snapped inward, and open ends stay open."""
        lo = np.where(np.isfinite(self.lo), self.grid.floats(self.low), -np.inf)
        return lo, np.where(np.isfinite(self.hi), self.grid.floats(self.high), np.inf)

    @property
    def boxed(self) -> bool:
        """Whether any node has a bound at all."""
        return bool(np.isfinite(self.lo).any() or np.isfinite(self.hi).any())

    def start(self) -> Ints:
        """x(0): equal shares, or in the proportions that the cost asks for, as far as the boxes allow."""
        wish = getattr(self.cost, "first_wish", None)
        if wish is not None:
            return proportion(self.budget, self.low, self.high, wish)
        return spread(self.budget, self.low, self.high)

    def shift(self, shares: Ints, amount: int, order: Ints) -> None:
        """The budget grows or shrinks by `amount` units: nodes take it in this order, each up to its box."""
        for node in order:
            if amount == 0:
                break
            room = self.high[node] - shares[node] if amount > 0 else self.low[node] - shares[node]
            part = min(amount, int(room)) if amount > 0 else max(amount, int(room))
            shares[node] += part
            amount -= part
        if amount:
            raise ArithmeticError(f"{amount} units of budget found no room: the budget was not checked")

    def price(self, x: Floats, method: Method) -> Floats:
        """f'(x): what a marginal unit costs; with a penalty outside the box where the method has no limiter."""
        if method.limits_boxes:
            return self.cost.derivative(x)
        inside = np.clip(x, self.lo, self.hi)
        return np.asarray(self.cost.derivative(inside) + method.curvature_factor * self.curvature * (x - inside))


def refuse_infeasible(budget: float, lo: Floats, hi: Floats) -> None:
    """A budget must be finite and lie between the sums of lo and hi, to rounding."""
    if not math.isfinite(budget):
        raise InputError(f"budget must be a finite number of CPUs, not {budget}", code="budget.number")
    nodes, least, most = len(lo), float(lo.sum()), float(hi.sum())
    slack = 1e-12 * max(abs(budget), float(np.abs(lo[np.isfinite(lo)]).sum()), 1e-300)
    if budget < least - slack:
        raise InputError(
            f"budget {budget:g} is below the sum of lo, {least:g} over {nodes} nodes: raise it or lower lo",
            code="budget.low",
        )
    if budget > most + slack:
        raise InputError(
            f"budget {budget:g} is above the sum of hi, {most:g} over {nodes} nodes: lower it or raise hi",
            code="budget.high",
        )


class Subset(Model):
    """A model as some of its nodes see it, which is what survivors are left with: their losses g_i, each as it was."""

    def __init__(self, model: Model, nodes: Ints) -> None:
        self.whole, self.chosen = model, nodes
        self.nodes, self.size = len(nodes), model.size
        self.convexity = model.convexity * len(nodes) / model.nodes  # a ridge is dealt out evenly
        self.quick_totals = isinstance(model, LeastSquares) and not model.matrix_free

    def loss(self, node: int, y: Floats) -> float:
        return self.whole.loss(int(self.chosen[node]), y)

    def gradient(self, node: int, y: Floats) -> Floats:
        return self.whole.gradient(int(self.chosen[node]), y)

    def totals(self, Y: Floats) -> Floats:
        if not isinstance(self.whole, LeastSquares) or self.whole.matrix_free:
            return super().totals(Y)
        best = self.whole.optimum_of(self.chosen)
        least, _ = self.total(best)
        H = self.whole.hessian[self.chosen].sum(axis=0)
        return np.asarray(least + 0.5 * np.einsum("ij,jk,ik->i", Y - best, H, Y - best))

    def optimum(self) -> Floats | None:
        """From the pooled rows of these nodes, where the model is least squares."""
        if not isinstance(self.whole, LeastSquares):
            return None
        return self.whole.optimum_of(self.chosen)
