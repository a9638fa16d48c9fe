"""The latency column at 60 tasks: a mean over the tasks that succeeded, and what it hides."""

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_most, claim
from equipoise.claims.share._published import AHEAD, PUBLISHED, SOURCE, Floats, seeds, told
from equipoise.present.figures import Axis, Figure, bars
from equipoise.share import Run, policies, simulate
from equipoise.share.published import PUBLISHED_LOAD, PUBLISHED_TABLE, published_run
from equipoise.share.task import DONE

OURS = "Hybrid"


@claim(
    "The table at 60 tasks tells the latency of each policy beside its success and energy.",
    source=f"{SOURCE}, Table 1, latency column",
    effort=15,
)
def measure(scale: Scale) -> Measured:
    count = scale.pick(quick=400, full=4000)
    run = {row["policy"]: row["latency"] for row in published_run().rows if row["load"] == PUBLISHED_LOAD}
    runs = {n: simulate(policies.named(n), load=PUBLISHED_LOAD, seeds=seeds(count)) for n in (*PUBLISHED, OURS)}
    column = {name: found.latency for name, found in runs.items()}
    far = {n: abs(PUBLISHED_TABLE[n].latency - np.nanmean(column[n])) / np.nanstd(column[n]) for n in PUBLISHED}
    with_failures = _with_failures(runs["Uniform"]) - column["Uniform"]
    return Measured(
        protocol=f"The authors' run; then the published policies and {OURS} on the same tasks of the authors' preset at "
        f"{PUBLISHED_LOAD} tasks, {told(count)}. Latency is steps from arrival to the step of success, over successes.",
        findings=(
            Finding(
                "largest difference of a printed latency from the authors' run played here",
                max(abs(round(run[name], 1) - PUBLISHED_TABLE[name].latency) for name in PUBLISHED),
                at_most(0.0),
                unit="steps",
                when="the authors' run",
            ),
            Finding(
                "largest distance of a published latency from the mean of the same tasks",
                float(max(far.values())),
                at_most(2.0),
                unit="sd of a single run",
                over=f"worst of five policies: {max(far, key=lambda name: far[name])}",
                when="the same tasks for all",
            ),
            Finding.mean(
                "latency of Uniform rises when failures count until their deadline",
                with_failures[np.isfinite(with_failures)],
                AHEAD,
                unit="steps",
                over=f"mean of {count} seeds",
                about="ours",
            ),
        ),
        figures=(_figure(runs, column),),
        notes=(
            "The column leaves out, of all tasks: "
            + ", ".join(f"{name} {100.0 - run.success.mean():.0f} %" for name, run in runs.items()),
        ),
    )


def _with_failures(run: Run) -> Floats:
    """Steps, a mean a seed over all tasks: a failure was waited for until its deadline."""
    until = np.where(run.state == DONE, run.done_at, run.batch.deadline) - 1
    return np.asarray((until - run.batch.arrival).mean(axis=1))


def _figure(runs: dict[str, Run], column: dict[str, Floats]) -> Figure:
    return Figure(
        f"Latency at {PUBLISHED_LOAD} tasks",
        x=Axis("policy", groups=tuple(runs)),
        y=Axis("steps"),
        series=(
            bars("over successes", [float(np.nanmean(column[name])) for name in runs]),
            bars("failures count until their deadline", [float(_with_failures(run).mean()) for run in runs.values()]),
        ),
        caption="The mean over successes leaves out who failed; the second bar counts them in.",
    )
