"""What coupling saves: CPU-seconds until the centres' models are good, against fixed ways to divide the same CPU.

Every run of a seed has the same shards, network, first models, budget, rule for batches and draws; shares and pace differ.
The target is a part of the held-out accuracy that the reference has, which is trained centrally on the same shards; it is
reached when the mean over centres' own models, smoothed over three looks, first is that high; a run that never gets there
counts as its whole length. The pace of each allocation is the best of its model's coarse grid in the mean of tuning seeds:
100-103 for mlp, 100-102 for softmax (there equal and data were played again up to a cap of 0.8 and 0.95, the others not in
full). Results are of other seeds.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from equipoise.document import Plain
from equipoise.errors import unknown_name
from equipoise.train.arrays import Floats
from equipoise.train.coupling.instance import CPUS, Blur, Factory, Instance, Perceptron, draw
from equipoise.train.grid import proportion
from equipoise.train.method import AUTO_DESCENT, AUTO_STEP, Method
from equipoise.train.models._base import Model, Shard
from equipoise.train.models.softmax import Softmax
from equipoise.train.network import Network
from equipoise.train.problem import Market, Problem
from equipoise.train.quantize import LogQuantizer
from equipoise.train.solve import Moment, solve

LINK_CHANCE = 0.3  # of a random network's pairs
TOLD = 10  # rounds after which the oracle is told sigma anew
SMOOTHED = 3  # records of which the mean is taken


# Ways to divide the same CPU that do not learn: inside the boxes, and the sum is the budget to the last bit.


def divided(instance: Instance, weights: Floats) -> Floats:
    """Shares in proportion to weights, clipped to boxes: x = clip(level weights); the sum is exact on the grid."""
    market = Market.open(instance.cost(np.ones(len(weights))), instance.budget, len(weights))
    return market.grid.floats(proportion(market.budget, market.low, market.high, weights))


# In proportion to: nothing; samples held; the time to pass through the shard; p_i sigma_i / sqrt(speed_i), with sigma_i of
# whole shards at the reference, which nobody knows beforehand.
RIVALS: dict[str, Callable[[Instance], Floats]] = {
    "equal": lambda it: divided(it, np.ones(len(it.speed))),
    "data": lambda it: divided(it, it.sizes.astype(np.float64)),
    "finish": lambda it: divided(it, it.sizes / it.speed),
    "neyman": lambda it: divided(it, it.sizes * it.sigma / np.sqrt(it.speed)),
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
        worst_budget=run.worst.budget if shares is None else abs(float(held.sum()) - instance.budget),
        worst_box=run.worst.box if shares is None else float(np.maximum(instance.lo - held, held - instance.hi).max()),
    )


ALLOCATIONS = ("coupled", "equal", "data", "finish", "neyman")
HIDDEN = 32  # units of the net

Progress = Callable[[str], object]
Work = tuple[str, int, bool, dict[str, Pace], int]  # model, seed, whether centres are equal, paces, rounds


@dataclass(frozen=True)
class Setting:
    """How a model is studied: the target as a part of the reference's accuracy, how long to wait for it, and the pace of
    each allocation, the best of the grid of benchmarks/train/coupling.py."""

    factory: Factory
    blur: Blur
    target: float
    rounds: int
    every: int  # rounds between two looks at the accuracy
    paces: dict[str, Pace]
    cpus: float = CPUS  # a centre, in the mean

    def draw(self, seed: int, equal: bool = False) -> Instance:
        """The instance of this seed."""
        return draw(self.factory, seed, equal=equal, noise=self.blur, cpus=self.cpus)


@dataclass(frozen=True, eq=False)
class AllocationRow:
    """One allocation over all seeds. Reductions are of coupled against it: 1 - ours / theirs, the mean over seeds."""

    allocation: str
    label: str
    cpu_seconds: Floats  # to the target, per seed; the whole run's where it was not reached
    missed: int  # seeds in which it was not
    saved_against_equal: float  # mean over seeds of 1 - this / equal shares
    saved_against_equal_error: float  # standard error, paired by seed
    saved_against_data: float
    saved_against_data_error: float
    noise: Floats  # variance of the summed gradient at the reference with the last shares, per seed
    spread: Floats  # sd of log sigma_i at the reference, per seed
    worst_budget: float  # |sum x - b| over all rounds and seeds
    worst_box: float

    @property
    def mean(self) -> float:
        return float(self.cpu_seconds.mean())

    def as_dict(self) -> dict[str, Plain]:
        """As result.json holds it."""
        names = ("saved_against_equal", "saved_against_equal_error", "saved_against_data", "saved_against_data_error")
        return {
            "allocation": self.allocation,
            "label": self.label,
            "cpu_seconds": self.cpu_seconds.tolist(),
            "mean": self.mean,
            "error": self.error,
            "missed": int(self.missed),
            **{name: getattr(self, name) for name in names},
        }

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return _error(self.cpu_seconds)


def softmax(shards: list[Shard], classes: int) -> Model:
    """Linear, convex."""
    return Softmax(shards, classes=classes, reg=1e-3)


def mlp(shards: list[Shard], classes: int) -> Model:
    """One hidden layer, not convex."""
    return Perceptron(shards, classes=classes, hidden=HIDDEN, reg=3e-4)


# A net's centres differ by wrong labels alone, their images are alike. The sd of log sigma_i at the reference was 0.63 and
# 0.76 on seeds 100 and 101, where this was chosen, but 0.58 in the mean of seeds 10-19 (0.38 to 0.75).
LABELS_ALONE = Blur(size=0.2, spread=0.0, wrong=0.005, wrong_spread=3.0, even=0.15, test=0.2)
SETTINGS = {
    "softmax": Setting(
        softmax,
        Blur(),
        target=0.96,
        rounds=600,
        every=5,
        paces={
            "coupled": Pace(cap=0.9),
            "equal": Pace(cap=0.65),
            "data": Pace(cap=0.8),
            "finish": Pace(cap=0.8),
            "neyman": Pace(cap=0.9),
            "oracle": Pace(cap=0.9),
        },
    ),
    "mlp": Setting(
        mlp,
        LABELS_ALONE,
        target=0.97,
        rounds=500,
        every=10,
        paces={
            "coupled": Pace(1.4, 100.0),
            "equal": Pace(0.7, 100.0),
            "data": Pace(1.4, 100.0),
            "finish": Pace(1.4, 100.0),
            "neyman": Pace(1.4, 100.0),
            "oracle": Pace(1.4, 100.0),  # not tuned: coupled's
        },
        cpus=2.5,  # noise matters more to a net than with softmax's 5; but centres of one sample then bind more often
    ),
}


def study(
    model: str = "softmax",
    seeds: Iterable[int] = range(10),
    equal: bool = False,
    progress: Progress | None = None,
    *,
    allocations: Sequence[str] = ALLOCATIONS,
    rounds: int | None = None,
    jobs: int = 1,
) -> list[AllocationRow]:
    """A row for each allocation; `equal` is the instance whose centres are as noisy as each other. `jobs` processes."""
    setting, seeds = _setting(model), list(seeds)
    limit = setting.rounds if rounds is None else rounds
    # Equal centres get equal shares whoever divides, so one pace suits all: that of equal shares.
    paces = {name: setting.paces.get("equal" if equal else name, Pace()) for name in allocations}
    work = [(model, seed, equal, paces, limit) for seed in seeds]
    found: list[Seed] = []
    for part in spread_out(work, jobs):
        found.append(part)
        if progress is not None:
            times = ", ".join(f"{name} {part.times[name]:,.0f}" for name in allocations)
            progress(f"seed {part.seed}: CPU-seconds to {part.target:.3f}: {times}")
    return [_row(name, found) for name in allocations]


@dataclass(frozen=True, eq=False)
class Seed:
    """All allocations on one seed."""

    seed: int
    target: float
    spread: float
    times: dict[str, float]
    missed: dict[str, bool]
    noise: dict[str, float]
    runs: dict[str, Played]


def _one_seed(work: Work) -> Seed:
    model, seed, equal, paces, rounds = work
    setting = _setting(model)
    instance = setting.draw(seed, equal)
    target = target_of(instance, setting.target)
    runs = {name: _played(instance, name, pace, rounds, target, setting.every) for name, pace in paces.items()}
    times = {name: run.seconds_to(target) for name, run in runs.items()}
    whole = rounds * instance.tau * instance.budget
    return Seed(
        seed,
        target,
        instance.spread,
        {name: min(time, whole) for name, time in times.items()},
        {name: math.isinf(time) for name, time in times.items()},
        {name: instance.noise(run.shares) for name, run in runs.items()},
        runs,
    )


def target_of(instance: Instance, part: float) -> float:
    """This part of the accuracy that the reference, trained centrally on all shards, has on held-out data."""
    return part * (instance.model.accuracy(instance.reference, instance.X_test, instance.y_test) or 0.0)


def _played(instance: Instance, name: str, pace: Pace, rounds: int, target: float, every: int) -> Played:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a pace past its limit may be tried
        return play(instance, name, pace, rounds, every=every, until=target)


def _row(name: str, found: list[Seed]) -> AllocationRow:
    own = np.array([part.times[name] for part in found])
    saved: dict[str, tuple[float, float]] = {}
    for rival in ("equal", "data"):
        if rival in found[0].times:
            each = 1.0 - own / np.array([part.times[rival] for part in found])
            saved[rival] = float(each.mean()), _error(each)
    nothing = (math.nan, math.nan)
    return AllocationRow(
        name,
        LABELS[name],
        own,
        sum(part.missed[name] for part in found),
        *saved.get("equal", nothing),
        *saved.get("data", nothing),
        np.array([part.noise[name] for part in found]),
        np.array([part.spread for part in found]),
        max(part.runs[name].worst_budget for part in found),
        max(part.runs[name].worst_box for part in found),
    )


def spread_out(work: list[Work], jobs: int) -> Iterable[Seed]:
    """In this process, or in several; in order either way."""
    if jobs == 1:
        yield from map(_one_seed, work)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_one_seed, work)


def _setting(model: str) -> Setting:
    if model not in SETTINGS:
        raise unknown_name("model", model, SETTINGS)
    return SETTINGS[model]


def _error(values: Floats) -> float:
    """Standard error of a mean."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
