"""The paper's panels over 10 to 60 tasks: what falls and what rises as the site fills."""

import math
from itertools import pairwise

from equipoise.claims import Finding, Measured, Scale, claim
from equipoise.claims.share._published import AHEAD, LOADS, PUBLISHED, SOURCE, UNITS, curves, over_tasks, played, told
from equipoise.present.figures import Axis, Figure
from equipoise.share import Sweep

PANELS = {"success": "falls", "energy": "rises", "efficiency": "falls", "latency": "rises"}  # as the load grows
AXES = {"success": "percent of tasks", "latency": "steps over successes"}


@claim(
    "From 10 to 60 tasks success and efficiency fall and energy and latency rise, for every policy.",
    source=f"{SOURCE}, panels over 10 to 60 tasks",
    effort=18,
)
def measure(scale: Scale) -> Measured:
    count = scale.pick(quick=800, full=5000)
    found = played(PUBLISHED, count, loads=LOADS)
    return Measured(
        protocol=f"The five published policies on the authors' preset at {', '.join(map(str, LOADS))} tasks, the same "
        f"tasks for all at a load, {told(count)}; latency over successes.",
        findings=(*(_trend(found, panel) for panel in PANELS), _falls_again(found)),
        figures=tuple(_figure(found, panel) for panel in PANELS),
        notes=("From 40 tasks on the uplink, not the load, decides what can be computed: energy falls again.",),
    )


def _trend(found: Sweep, panel: str) -> Finding:
    """The least sure step from one load to the next, over all policies; loads draw different tasks."""
    way, (unit, factor) = PANELS[panel], UNITS[panel]
    rows = {(row["policy"], row["load"]): row for row in found.rows}
    steps = []
    for name in PUBLISHED:
        for before, after in pairwise(LOADS):
            one, other = rows[name, before], rows[name, after]
            rise = other[panel] - one[panel]
            error = math.hypot(one[f"{panel}_se"], other[f"{panel}_se"])
            steps.append((rise if way == "rises" else -rise, error, f"{name}, {before} to {after} tasks"))
    value, error, where = min(steps, key=lambda step: step[0] / step[1])
    what, over = f"{panel} {way}, the least sure step from a load to the next", f"means of {len(found.seeds)} seeds"
    when = f"{panel} {way} with the load"
    return Finding(what, factor * value, AHEAD, unit, factor * error, f"{where}, {over}", when)


def _falls_again(found: Sweep) -> Finding:
    before, after = (found.measured["Uniform", load]["energy"] for load in (40, 60))
    over, falls = f"means of {len(before)} seeds", "energy of Uniform at 40 tasks above that at 60"
    return Finding.mean(falls, before - after, AHEAD, over=over, about="ours")


def _figure(found: Sweep, panel: str) -> Figure:
    way, (unit, factor) = PANELS[panel], UNITS[panel]
    y, lines = Axis(AXES.get(panel, unit), log=panel == "efficiency"), curves(found, panel, PUBLISHED, factor)
    caption = f"{panel.capitalize()} {way} as the site fills; bands are standard errors."
    return over_tasks(f"{panel.capitalize()} over the load", y, lines, caption)
