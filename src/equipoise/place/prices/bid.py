"""Bid prices: what a unit of each resource was worth in each slot of past workloads, by the duals of their joint LP."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from equipoise.kernels import Floats
from equipoise.place.bound import duals
from equipoise.place.execution import Execution
from equipoise.place.prices._posted import History, Posted, Trial, history_of, replay_key, trials

if TYPE_CHECKING:
    from equipoise.place.placers.pdors import PDORS

FLOOR = 0.02  # of the mean price: what a slot without shortage costs
SCALES = (0.7, 1.0, 1.4, 2.0)
GROWTHS = (0.0, 1.0, 2.3)
LARGEST = 200  # jobs of the pooled program; histories beyond are left to the replay


@dataclass(frozen=True)
class Scaled:
    """Given base prices, scaled, rising by exp(growth used / capacity)."""

    base: Floats
    scale: float
    growth: float
    name: ClassVar[str] = "bid"

    def post(self, run: Execution, policy: object = None) -> Posted:
        note = {"kind": self.name, "scale": self.scale, "growth": self.growth}
        return Posted(self.scale * self.base, np.full(self.base.shape[1], self.growth), note)


@dataclass(frozen=True)
class Bid:
    """p_r[t] = max(lambda_r[t], 2% of its mean) exp(growth used / capacity); the scale and growth found by replay.

    With a rolling horizon the mean over slots holds for every slot.
    """

    history: History | None = None
    name: ClassVar[str] = "bid"
    rank: ClassVar[int] = 3
    _found: dict[object, list[Trial]] = field(init=False, default_factory=dict, repr=False, compare=False)

    def post(self, run: Execution, policy: PDORS | None = None) -> Posted:
        return max(self.trials(run, policy), key=lambda trial: trial.utility).prices.post(run)

    def trials(self, run: Execution, policy: PDORS | None) -> list[Trial]:
        """Every candidate and its score; made once for a cluster and a horizon."""
        key = (replay_key(policy), run.cluster, run.slots, run.horizon, run.pace)
        if key not in self._found:
            pasts = history_of(self.history, self.name)
            pooled = pasts[: max(1, LARGEST // len(pasts[0]))]
            span = run.slots or max(job.arrival for past in pooled for job in past) + run.horizon
            prices = duals(run.cluster, pooled, span, horizon=None if run.slots is not None else run.horizon)
            mean = prices.mean(axis=0)
            base = np.maximum(prices, FLOOR * mean) if run.slots is not None else mean[None, :]
            score = trials(run, policy, pasts)
            self._found[key] = [score(Scaled(base, scale, growth)) for scale in SCALES for growth in GROWTHS]
        return list(self._found[key])
