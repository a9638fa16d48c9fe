"""Ways to divide the CPU of an instance, and one training run of it under one of them: how its accuracy grew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from equipoise.train.arrays import Floats
from equipoise.train.coupling.instance import Instance
from equipoise.train.grid import proportion
from equipoise.train.method import AUTO_DESCENT, AUTO_STEP, Method
from equipoise.train.network import Network
from equipoise.train.problem import Market, Problem
from equipoise.train.quantize import LogQuantizer
from equipoise.train.solve import Moment, solve

LINK_CHANCE = 0.3  # of a random network's pairs
TOLD = 10  # rounds after which the oracle is told sigma anew
SMOOTHED = 3  # records of which the mean is taken


# Ways to divide the same CPU that do not learn: inside the boxes, and the sum is the budget to the last bit.


def divided(weights: Floats, instance: Instance) -> Floats:
    """Shares in proportion to weights, clipped to boxes: x = clip(level weights); the sum is exact on the grid."""
    market = Market.open(instance.cost(np.ones(len(weights))), instance.budget, len(weights))
    return market.grid.floats(proportion(market.budget, market.low, market.high, weights))


def equal(instance: Instance) -> Floats:
    """The same CPU for all."""
    return divided(np.ones(len(instance.speed)), instance)


def by_data(instance: Instance) -> Floats:
    """CPU in proportion to samples held."""
    return divided(instance.sizes.astype(np.float64), instance)


def equal_finish(instance: Instance) -> Floats:
    """All would pass through their shards in the same time: N_i / speed_i."""
    return divided(instance.sizes / instance.speed, instance)


def neyman(instance: Instance) -> Floats:
    """p_i sigma_i / sqrt(speed_i), with sigma_i of whole shards at the reference, which nobody knows beforehand."""
    return divided(instance.sizes * instance.sigma / np.sqrt(instance.speed), instance)


RIVALS: dict[str, Callable[[Instance], Floats]] = {
    "equal": equal,
    "data": by_data,
    "finish": equal_finish,
    "neyman": neyman,
}
LABELS = {
    "coupled": "coupled (sigma learnt)",
    "equal": "equal shares",
    "data": "in proportion to data",
    "finish": "equal finish time",
    "neyman": "Neyman, sigma known",
    "oracle": "Neyman, sigma told anew",
}


@dataclass(frozen=True)
class Pace:
    """How fast models descend. `cap`: our averages, with this momentum. Else gradient tracking along edges, as it must be
    where models are not convex: `descent` is step x alpha x max L_i, halved after `fade` rounds and ever more slowly after.
    """

    descent: float = AUTO_DESCENT
    fade: float | None = None
    cap: float | None = None

    def method(self, instance: Instance) -> Method:
        """Log-quantised; CPU by markets."""
        if self.cap is not None:
            return Method(cap=self.cap)
        quantizer = LogQuantizer()
        step = AUTO_STEP / float(np.exp(quantizer.rho / 2))
        steepest = float(instance.model.smoothness().max())
        return Method(quantizer=quantizer, alpha=self.descent / (step * steepest), fade=self.fade)


@dataclass(frozen=True, eq=False)
class Played:
    """A run's records: CPU-seconds spent and test accuracy, the mean over all centres' own models."""

    cpu_seconds: Floats
    accuracy: Floats
    shares: Floats
    sigma: Floats | None  # as learnt in the run
    samples: int
    worst_budget: float  # |sum x - b| in any round, CPUs
    worst_box: float

    @property
    def smooth(self) -> Floats:
        """Mean of the last SMOOTHED records, or of as many as there are."""
        sums = np.concatenate([[0.0], np.cumsum(self.accuracy)])
        first = np.maximum(np.arange(1, len(sums)) - SMOOTHED, 0)
        return np.asarray((sums[1:] - sums[first]) / (np.arange(1, len(sums)) - first))

    def seconds_to(self, target: float) -> float:
        """CPU-seconds until the smoothed accuracy first reaches the target; infinite if it never does."""
        reached = np.flatnonzero(self.smooth >= target)
        return float(self.cpu_seconds[reached[0]]) if len(reached) else np.inf


def play(
    instance: Instance, allocation: str, pace: Pace, rounds: int, *, every: int = 5, until: float | None = None
) -> Played:
    """`allocation` is a rival's name, "coupled" or "oracle"; the run ends early where the smoothed accuracy is `until`."""
    model = instance.model
    records: list[tuple[int, float]] = []
    sizes = instance.sizes
    network = Network.erdos_renyi(len(sizes), LINK_CHANCE, seed=instance.seed)
    told = instance.cost(instance.sigma_at(instance.start)) if allocation == "oracle" else None
    cost = instance.cost() if allocation == "coupled" else told
    shares = None if cost is not None else RIVALS[allocation](instance)
    batch = None if shares is None else instance.cost(np.ones(len(sizes))).batches(shares)

    def look(moment: Moment) -> bool:
        models = moment.state.models
        assert models is not None
        if told is not None and moment.number % TOLD == 0:
            told.tell(instance.sigma_at(models))
        if moment.number % every:
            return False
        scores = [model.accuracy(y, instance.X_test, instance.y_test) or 0.0 for y in models]
        records.append((moment.number, float(np.mean(scores))))
        last = [score for _, score in records[-SMOOTHED:]]
        return until is not None and sum(last) / len(last) >= until

    run = solve(
        Problem(model=model) if cost is None else Problem(cost=cost, budget=instance.budget, model=model),
        network,
        pace.method(instance),
        rounds=rounds,
        every=rounds,
        seed=instance.seed,
        start=instance.start,
        batch=batch,
        callback=look,
    )
    numbers, accuracy = np.array(records, dtype=np.float64).reshape(-1, 2).T
    held = run.shares if shares is None else shares
    assert held is not None
    return Played(
        cpu_seconds=numbers * instance.tau * instance.budget,
        accuracy=accuracy,
        shares=held,
        sigma=cost.sigma if cost is not None and cost.moves else None,
        samples=int(run.history["samples"][-1]),
        worst_budget=run.worst.budget if shares is None else abs(float(held.sum()) - instance.budget),
        worst_box=run.worst.box if shares is None else float(np.maximum(instance.lo - held, held - instance.hi).max()),
    )
