"""One candidate price, replayed over history, and what it earned there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from equipoise.place.desk import Desk
from equipoise.place.job import Workload
from equipoise.place.prices.posted import Prices


@dataclass(frozen=True)
class Trial:
    """Utility and completed jobs, summed over the histories."""

    prices: Prices
    utility: float
    completed: int


def replay_key(policy: Any) -> tuple[object, ...]:
    """What of a policy changes how history replays."""
    return policy.family, policy.placer, policy.method, policy.backfill, policy.caution


def trials(desk: Desk, policy: Any, pasts: Sequence[Workload]) -> Callable[[Prices], Trial]:
    """A function that replays candidates as `policy` would use them, without re-planning (it only refines)."""
    from equipoise.place.simulate import simulate

    horizon = None if desk.slots is not None else desk.horizon

    def score(prices: Prices) -> Trial:
        runs = [
            simulate(desk.cluster, past, replace(policy, prices=prices, replan=0), slots=desk.slots, horizon=horizon)
            for past in pasts
        ]
        return Trial(prices, sum(run.utility for run in runs), sum(run.completed for run in runs))

    return score
