"""A run whose every round is looked at from outside: the exact sum of the shares, and how far any is outside its box."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.train import Method, Moment, Network, Problem, Run, solve
from equipoise.train.arrays import Floats


@dataclass(frozen=True, eq=False)
class Watched:
    """What every round showed, in CPUs."""

    run: Run
    off: Floats  # |sum of shares - budget|, summed without rounding
    outside: Floats  # how far the farthest share was outside its box; 0: all inside


def off_budget(shares: Sequence[float] | Floats, budget: float) -> float:
    """|sum - budget|; fsum rounds once, so it is 0 only where the sum is the budget to the last bit."""
    return abs(math.fsum([*map(float, shares), -budget]))


def watched(
    problem: Problem,
    network: Network,
    method: Method | None = None,
    *,
    rounds: int,
    budget: float,
    each_round: Callable[[], None] | None = None,
    **options: Any,
) -> Watched:
    """Solve; `each_round` is called after every round, for costs that move."""
    lo, hi = (np.broadcast_to(getattr(problem.cost, end), network.n) for end in ("lo", "hi"))
    off: list[float] = []
    outside: list[float] = []

    def look(moment: Moment) -> None:
        shares = moment.shares
        assert shares is not None
        off.append(off_budget(shares, budget))
        outside.append(float(np.max([0.0, (lo - shares).max(), (shares - hi).max()])))
        if each_round is not None:
            each_round()

    run = solve(problem, network, method, rounds=rounds, every=rounds, callback=look, **options)
    return Watched(run, np.array(off), np.array(outside))
