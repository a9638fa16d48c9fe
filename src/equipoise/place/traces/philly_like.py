"""As many jobs as wanted that look like Philly's: the same mix of GPUs, durations with its heavy tail, days and nights.

Every constant is from the shared table of 55,645 jobs (six virtual clusters, September to December 2017).
"""

from __future__ import annotations

import numpy as np

from equipoise.errors import whole_number
from equipoise.kernels import Floats
from equipoise.place.job import Workload
from equipoise.place.traces._rows import Mapped, TraceRow

GPUS = {1: 52975, 2: 287, 4: 1482, 8: 861, 12: 7, 16: 26, 24: 4, 32: 3}  # jobs by GPUs
WEEKDAYS = (7331, 8812, 10152, 11862, 10873, 3186, 3429)  # jobs by day, Monday first
HOURS = (  # jobs by hour of the day, before noon and after
    *(3283, 2662, 2573, 2775, 1660, 3031, 4017, 5073, 2617, 2245, 2714, 2146),
    *(1825, 1623, 1528, 1560, 1111, 1056, 1745, 1495, 2264, 2244, 2019, 2379),
)
# Durations: a mixture of lognormals (weight, mean and deviation of ln seconds), fitted by expectation maximisation to
# the logarithms, for jobs of one GPU and of several; cut at the shortest and longest job seen.
ONE = ((0.0739, 3.9451, 0.1783), (0.2436, 5.6644, 0.9532), (0.4738, 7.8613, 0.7305), (0.2087, 8.2592, 2.2074))
SEVERAL = ((0.3447, 5.4743, 0.9997), (0.3163, 9.4357, 1.0766), (0.1987, 11.7265, 0.5113), (0.1403, 12.2042, 1.1554))
SHORTEST, LONGEST = 5.0, 4_628_226.0  # seconds


def philly_like(
    jobs: int,
    *,
    seed: int = 0,
    days: int = 7,
    slot: str | float = "10m",
    elasticity: float = 1,
    gpus_per_machine: int = 8,
    sized_utility: bool = True,
    worth: str = "none",
) -> Workload:
    """Jobs drawn like those of Philly, from a Monday's midnight on; the same for the same arguments.

    Parameters
    ----------
    jobs
        How many.
    days
        Over so many days.
    seed, slot, elasticity, gpus_per_machine, sized_utility, worth
        As for `philly`.
    """
    mapped = Mapped.of(slot, seed, elasticity, sized_utility, gpus_per_machine, worth=worth)
    jobs, days = whole_number(jobs, "philly_like: jobs"), whole_number(days, "philly_like: days")
    rng = np.random.default_rng([seed, jobs, days])
    widths = rng.choice(list(GPUS), jobs, p=_shares(list(GPUS.values())))
    seconds = np.where(widths == 1, _durations(rng, ONE, jobs), _durations(rng, SEVERAL, jobs))
    submits = np.sort(_arrivals(rng, jobs, days))
    found = [
        TraceRow(line=k, id=f"job-{k}", submit=float(submits[k]), duration=float(seconds[k]), width=int(w))
        for k, w in enumerate(widths)
    ]
    return mapped.workload(found, (), f"philly_like {jobs} jobs, {days} days", calendar=False)


def _durations(rng: np.random.Generator, mixture: tuple[tuple[float, float, float], ...], count: int) -> Floats:
    weights, means, deviations = (np.array(column) for column in zip(*mixture, strict=True))
    which = rng.choice(len(mixture), count, p=_shares(weights))
    drawn = np.exp(means[which] + deviations[which] * rng.standard_normal(count))
    return np.asarray(np.clip(drawn, SHORTEST, LONGEST).round(), dtype=np.float64)


def _arrivals(rng: np.random.Generator, count: int, days: int) -> Floats:
    """Seconds from the first midnight: a day by weekday, an hour by the clock, any second of it."""
    day = rng.choice(days, count, p=_shares([WEEKDAYS[d % 7] for d in range(days)]))
    hour = rng.choice(24, count, p=_shares(HOURS))
    return np.asarray(day * 86400.0 + hour * 3600.0 + np.floor(rng.random(count) * 3600.0), dtype=np.float64)


def _shares(weights: object) -> Floats:
    counted = np.asarray(weights, dtype=np.float64)
    return np.asarray(counted / counted.sum(), dtype=np.float64)
