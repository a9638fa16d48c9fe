"""PD-ORS, ours, and the four it is compared with, on one growing cluster or under a growing number of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from equipoise.claims import Finding, Measured, at_least
from equipoise.place import Cluster, Result, Workload, bound, placers, prices, simulate
from equipoise.place.traces.synthetic import synthetic, synthetic_cluster
from equipoise.present.figures import Axis, Figure, Series

SLOTS = 20  # of an hour
SEEDS, HISTORY = 500, 900  # the first seed that is scored, and the first that prices are calibrated on
PAPER, OURS, OTHERS = "PD-ORS, recalled prices", "PDORS, our prices", ("FIFO", "DRF", "Dorm", "OASiS")
MORE = 0.1  # points or per cent: what a lead is at least, so that a tie is none
ABSTRACT = "arXiv 2108.02917, abstract and introduction"  # where these claims stand
UNREAD = (
    "all but the abstract and introduction; the model is re-derived and the constants are recalled, so the sentence is"
    " judged and no number of the paper."
)
NOTES = (
    "FIFO gives every job the width it asks for, 1 to 30 workers; the others size jobs themselves.",
    "The paper's prices are recalled, not read: where they lose, it may be our memory. Ours are calibrated by replaying"
    " other seeds, and idle machines are lent; neither re-plans here (benchmarks/place/regimes.py does, and earns more).",
    "At the recalled prices PD-ORS and OASiS are close to a tie; value-of-locality tells them apart at prices that choose.",
)


@dataclass(frozen=True)
class SeedRun:
    """One policy on one seed, beside the most that any could earn."""

    utility: float
    bound: float
    completed: int
    slots_all: float  # from arrival to finish, summed over all jobs; an unfinished one counts to the end of the run
    slots_done: float  # summed over finished jobs

    @property
    def share(self) -> float:
        """Per cent of the LP bound."""
        return 100.0 * self.utility / self.bound


Runs = dict[str, list[SeedRun]]  # by policy, a run a seed
Policies = dict[str, Any]  # by the name they are shown by


def contenders(past: Sequence[Workload]) -> Policies:
    """The paper's policy with recalled prices, ours, and the four others; what is calibrated sees only `past`."""
    recalled = prices.Recalled(past)
    return {
        PAPER: placers.PDORS(prices=recalled, backfill=False),
        OURS: placers.PDORS(prices=prices.Replay(past)),
        "FIFO": placers.FIFO(),
        "DRF": placers.DRF(),
        "Dorm": placers.Dorm(),
        "OASiS": placers.OASiS(prices=recalled),
    }


def scored(result: Result, most: float) -> SeedRun:
    """What counts of a run. It must pass its certificate: nothing is compared that does not hold."""
    assert result.certificate().passed, result.certificate()
    arrival = np.array([job.arrival for job in result.jobs])
    done = result.finish >= 0
    slots = np.where(done, result.finish + 1, result.end) - arrival
    return SeedRun(result.utility, most, result.completed, float(slots.sum()), float(slots[done].sum()))


def play(cluster: Cluster, workloads: Sequence[Workload], shown: Policies, slots: int = SLOTS) -> Runs:
    """Every policy on every workload, with the workload's LP bound."""
    most = [bound(cluster, jobs, slots=slots).utility for jobs in workloads]
    return {
        label: [
            scored(simulate(cluster, jobs, policy, slots=slots, seed=k), top)
            for k, (jobs, top) in enumerate(zip(workloads, most, strict=True))
        ]
        for label, policy in shown.items()
    }


def grown(sizes: Sequence[tuple[int, int]], seeds: int, histories: int) -> list[Runs]:
    """The contenders at each (machines, jobs)."""
    return [_at(machines, jobs, seeds, histories) for machines, jobs in sizes]


@cache
def _at(machines: int, jobs: int, seeds: int, histories: int) -> Runs:
    """At one size. Prices are calibrated at the same size, on other seeds."""
    past = [synthetic(jobs, seed=HISTORY + k, slots=SLOTS) for k in range(histories)]
    now = [synthetic(jobs, seed=SEEDS + k, slots=SLOTS) for k in range(seeds)]
    return play(synthetic_cluster(machines), now, contenders(past))


def words(machines: str, jobs: str, seeds: int, histories: int) -> str:
    """The protocol of a growth."""
    return (
        f"{jobs} synthetic jobs arrive over {SLOTS} slots at {machines} machines; seeds {SEEDS}-{SEEDS + seeds - 1}, prices"
        f" from seeds {HISTORY}-{HISTORY + histories - 1}. Greedy placement for all, since rounding often finds none; OASiS"
        " has the recalled prices too. Utility as a share of the LP bound, which knows all jobs in advance."
    )


def by_seed(runs: list[Runs], label: str, value: Callable[[SeedRun], float]) -> list[float]:
    """A value's mean over all sizes, seed by seed: seeds are independent, sizes of one seed are not."""
    return [float(np.mean([value(run) for run in seed])) for seed in zip(*(r[label] for r in runs), strict=True)]


def leads(runs: list[Runs], label: str, about: str, over: str) -> list[Finding]:
    """Utility gained over each of the four, in points of the LP bound."""
    mine = by_seed(runs, label, lambda run: run.share)
    findings = []
    gain = partial(Finding.mean, bound=at_least(MORE), unit="points of the LP bound", over=over, about=about)
    for other in OTHERS:
        gained = [a - b for a, b in zip(mine, by_seed(runs, other, lambda run: run.share), strict=True)]
        when = f"{label} against {other}" if about == "ours" else f"against {other}"
        findings.append(gain(f"utility gained over {other}", gained, when=when))
    return findings


def growth(what: str, sizes: Sequence[int], runs: list[Runs], protocol: str, *captions: str) -> Measured:
    """The leads as jobs or machines grow; two figures, with captions: utility, and its share of the bound."""
    over = f"{len(runs[0][PAPER])} seeds, each the mean of {len(sizes)} sizes"
    values: dict[str, Callable[[SeedRun], float]] = {
        "total utility": lambda run: run.utility,
        "utility, % of the LP bound": lambda run: run.share,
    }
    titles = (f"Utility as {what} grow", "Share of what anybody could earn")
    figures = [
        Figure(title, x=Axis(what), y=Axis(name), series=curves(runs, sizes, value), caption=caption)
        for title, (name, value), caption in zip(titles, values.items(), captions, strict=True)
    ]
    return Measured(
        protocol=protocol,
        findings=[*leads(runs, PAPER, "paper", over), *leads(runs, OURS, "ours", over)],
        figures=figures,
        notes=NOTES,
    )


def curves(runs: list[Runs], x: Sequence[float], value: Callable[[SeedRun], float]) -> list[Series]:
    """A policy's mean over seeds at each size, with its standard error."""
    out = []
    for label in runs[0]:
        table = np.array([[value(run) for run in r[label]] for r in runs])
        error = table.std(axis=1, ddof=1) / np.sqrt(table.shape[1])
        out.append(Series(label, x, table.mean(axis=1).tolist(), error=error.tolist()))
    return out
