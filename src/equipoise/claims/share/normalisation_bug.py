"""The normalisation of UARA+LARA: a cap that counts tasks which cannot compute, and how much of the loss it explains."""

from __future__ import annotations

from functools import partial

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, claim
from equipoise.claims.share._published import AHEAD, SOURCE, Floats, lead, mean_of, pair, played, points, told
from equipoise.present.figures import Axis, Figure, bars
from equipoise.share import Sweep, Task, Workload, policies, simulate
from equipoise.statistics import ratio_and_error

PUBLISHED, CORRECTED = "UARA+LARA", "UARALARACorrected"
KNOWING, BOTH = "UARA+LARA (clairvoyant)", "UARALARACorrected (clairvoyant)"
COMPUTING, SENDING = 5, 20  # tasks of the example
EACH, WHOLE = 6.0, 150.0  # samples per step: 150 / 25 each, and the site
MOST = 50.0  # percent; who explains a loss explains most of it


@claim(
    "UARA+LARA divides the site by tasks that cannot compute yet; this starves the cluster and is why it collapses.",
    source=f"{SOURCE}, the normalisation bug",
    unread="how much of the loss the paper puts down to it; it is held against half",
    effort=10,
)
def measure(scale: Scale) -> Measured:
    count = scale.pick(quick=1000, full=10_000)
    names = ("Uniform", PUBLISHED, CORRECTED, f"{PUBLISHED}:clairvoyant", f"{CORRECTED}:clairvoyant")
    found = played(names, count)
    over = f"paired, mean of {count} seeds"
    starved, corrected = (starving(name) for name in (PUBLISHED, CORRECTED))
    idle = pair(found, PUBLISHED, CORRECTED, "idle_while_work")
    each, wins = partial(Finding, unit="samples per step"), partial(points, found, over=over)
    findings = [
        each(
            "most that one of five computing tasks gets while twenty send",
            float(starved.max()),
            at_most(EACH),
            when="the example of 5 and 20 tasks",
        ),
        lead(
            "compute idle while work waits, published minus corrected",
            idle,
            AHEAD,
            unit="points",
            over=over,
            when="idling at 60 tasks",
        ),
        wins("points that the right denominator wins", CORRECTED, PUBLISHED, when="points lost by it at 60 tasks"),
        _explained(found, over),
        each(
            "compute of the five together with the right denominator",
            float(corrected.sum()),
            at_least(WHOLE),
            about="ours",
        ),
        wins(
            "points that true work with the wrong denominator wins over the right one without",
            KNOWING,
            CORRECTED,
            about="ours",
        ),
        wins("points below Uniform that stay with the right denominator and true work", "Uniform", BOTH, about="ours"),
    ]
    return Measured(
        protocol=f"By hand: {COMPUTING} tasks that can compute and {SENDING} that are still sending, ample requests. "
        f"Then 60 tasks of the paper preset, {told(count)}: Uniform, UARA+LARA as published, with the right "
        "denominator, and the twins of both that know every task's true work.",
        findings=findings,
        figures=(_figure(found),),
        notes=(
            "What is left with the right denominator and true work is lost by asking just in time: everybody is "
            "paced to arrive at the deadline, nobody is given up, and who was capped once never catches up.",
        ),
    )


def starving(name: str) -> Floats:
    """Samples per step of tasks that can compute, in the first step, while others are sending."""
    ready = [Task(arrival=0, deadline=40, data=0, delay=0, target=0.15)] * COMPUTING
    sending = [Task(arrival=0, deadline=40, data=1000, target=0.15)] * SENDING
    run = simulate(policies.named(name), Workload.of([*ready, *sending]), trace=True)
    return np.asarray(run.kept.compute[0, 0, :COMPUTING])


def _explained(found: Sweep, over: str) -> Finding:
    """Of the points that UARA+LARA is below Uniform: what part does the right denominator win back?"""
    base = found.measured[PUBLISHED, 60]["success"]
    won, lost = (found.measured[name, 60]["success"] - base for name in (CORRECTED, "Uniform"))
    ratio, error = ratio_and_error(won, lost)
    return Finding(
        "part of the points lost to Uniform that the right denominator wins back",
        100.0 * ratio,
        at_least(MOST),
        unit="%",
        error=100.0 * (error or 0.0),
        over=over,
        when="most of the loss against Uniform",
    )


def _figure(found: Sweep) -> Figure:
    names = ("Uniform", PUBLISHED, CORRECTED, KNOWING, BOTH)
    return Figure(
        "UARA+LARA at 60 tasks, corrected step by step",
        x=Axis("policy", groups=("Uniform", "UARA+LARA", "right denominator", "true work", "both")),
        y=Axis("percent"),
        series=(
            bars("success, % of tasks", [mean_of(found, name, "success") for name in names]),
            bars("idle while work waits, % of the site", [mean_of(found, name, "idle_while_work") for name in names]),
        ),
        caption="What the denominator is worth, what true estimates are worth, and what stays lost with both.",
    )
