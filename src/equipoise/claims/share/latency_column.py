"""The latency column at 60 tasks: a mean over the tasks that succeeded, and what it hides."""

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_most, claim
from equipoise.claims.share._published import AHEAD, PUBLISHED, SOURCE, Floats, by_name, farthest, seeds, told
from equipoise.present.figures import bars
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
    apart = max(abs(round(run[name], 1) - PUBLISHED_TABLE[name].latency) for name in PUBLISHED)
    printed = "largest difference of a printed latency from the authors' run played here"
    rises = "latency of Uniform rises when failures count until their deadline"
    counted = {name: _with_failures(found) for name, found in runs.items()}
    rise = counted["Uniform"] - column["Uniform"]
    figure = by_name(
        f"Latency at {PUBLISHED_LOAD} tasks",
        tuple(runs),
        bars("over successes", [float(np.nanmean(column[name])) for name in runs]),
        bars("failures count until their deadline", [float(values.mean()) for values in counted.values()]),
        y="steps",
        caption="The mean over successes leaves out who failed; the second bar counts them in.",
    )
    return Measured(
        protocol=f"The authors' run; then the published policies and {OURS} on the same tasks of the authors' preset at "
        f"{PUBLISHED_LOAD} tasks, {told(count)}. Latency is steps from arrival to the step of success, over successes.",
        findings=(
            Finding(printed, apart, at_most(0.0), "steps", when="the authors' run"),
            farthest("latency", far, "the same tasks for all"),
            Finding.mean(
                rises, rise[np.isfinite(rise)], AHEAD, unit="steps", over=f"mean of {count} seeds", about="ours"
            ),
        ),
        figures=(figure,),
        notes=(
            "The column leaves out, of all tasks: "
            + ", ".join(f"{name} {100.0 - run.success.mean():.0f} %" for name, run in runs.items()),
        ),
    )


def _with_failures(run: Run) -> Floats:
    """Steps, a mean a seed over all tasks: a failure was waited for until its deadline."""
    until = np.where(run.state == DONE, run.done_at, run.batch.deadline) - 1
    return np.asarray((until - run.batch.arrival).mean(axis=1))
