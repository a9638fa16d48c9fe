"""The latency column at 60 tasks: a mean over the tasks that succeeded, and what it hides."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.claims import Finding, Interval, Measured, Scale, claim
from equipoise.claims.share._published import AHEAD, BEHIND, PUBLISHED, SOURCE, Floats, seeds, told
from equipoise.present.figures import Axis, Figure, bars
from equipoise.share import Run, policies, simulate
from equipoise.share.task import DONE

LOAD = 60
CORRECTED, OURS = "UniformCorrected", "Hybrid"


@claim(
    "The table at 60 tasks tells the latency of each policy beside its success and energy.",
    source=f"{SOURCE}, comparison at 60 tasks, latency column",
    unread="the numbers of the column and how failures count in it; here it is the mean over successes",
    effort=10,
)
def measure(scale: Scale) -> Measured:
    count = scale.pick(quick=1000, full=4000)
    runs = {
        name: simulate(policies.named(name), load=LOAD, seeds=seeds(count)) for name in (*PUBLISHED, CORRECTED, OURS)
    }
    column = {name: run.latency for name, run in runs.items()}
    slowest = "UARA+LARA"
    next_one = max((name for name in PUBLISHED if name != slowest), key=lambda name: np.nanmean(column[name]))
    over, both = f"paired, mean of {count} seeds", f"{OURS} minus {CORRECTED}"
    slower, with_failures = column[slowest] - column[next_one], _with_failures(runs["Uniform"])
    rises = "latency of Uniform rises when failures count until their deadline"
    same = _on_the_same(runs[OURS], runs[CORRECTED])
    findings = [
        _ours("UARA+LARA takes longer than the next slowest", slower, AHEAD, f"over {next_one}, {over}"),
        _ours(rises, with_failures - column["Uniform"], AHEAD, over),
        _ours(f"{both}, each over its own successes", column[OURS] - column[CORRECTED], AHEAD, over),
        _ours(f"{both}, over tasks that both finish", same, BEHIND, over),
    ]
    return Measured(
        protocol=f"The published policies, {CORRECTED} and {OURS} on the paper preset at {LOAD} tasks, "
        f"{told(count)}. Latency is steps from arrival to completion: over successes as the preset counts it, over "
        "all tasks with a failure counted until its deadline, and over tasks that two policies both finish.",
        findings=findings,
        figures=(_figure(runs, column),),
        notes=(
            "Who finishes more tasks finishes longer ones, too, and they lengthen its mean over successes: where "
            "the last two findings both hold, the policy that looks slower is faster on the same tasks.",
            "The column leaves out, of all tasks: "
            + ", ".join(f"{name} {100.0 - run.success.mean():.0f} %" for name, run in runs.items()),
        ),
    )


def _ours(quantity: str, samples: Floats, bound: Interval, over: str) -> Finding:
    there = samples[np.isfinite(samples)]
    return Finding.mean(quantity, there, bound, unit="steps", over=over, about="ours")


def _done(run: Run) -> NDArray[np.bool_]:
    return np.asarray(run.state == DONE)


def _with_failures(run: Run) -> Floats:
    """Steps, a mean a seed over all tasks: a failure was waited for until its deadline."""
    until = np.where(_done(run), run.done_at, run.batch.deadline)
    return np.asarray((until - run.batch.arrival).mean(axis=1))


def _on_the_same(one: Run, other: Run) -> Floats:
    """Steps by which `one` is later, a mean a seed over tasks that both finish."""
    both = _done(one) & _done(other)
    later = np.where(both, one.done_at - other.done_at, 0).sum(axis=1)
    return np.where(both.any(axis=1), later / np.maximum(both.sum(axis=1), 1), np.nan)


def _figure(runs: dict[str, Run], column: dict[str, Floats]) -> Figure:
    return Figure(
        f"Latency at {LOAD} tasks",
        x=Axis("policy", groups=tuple(runs)),
        y=Axis("steps"),
        series=(
            bars("over successes", [float(np.nanmean(column[name])) for name in runs]),
            bars("failures count until their deadline", [float(_with_failures(run).mean()) for run in runs.values()]),
        ),
        caption="The mean over successes leaves out who failed; the second bar counts them in.",
    )
