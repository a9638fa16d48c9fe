"""UARA against Uniform: the energy it saves, under three laws of energy, and what it pays for it."""

from __future__ import annotations

from equipoise.claims import Finding, Measured, Scale, claim
from equipoise.claims.share._published import (
    AHEAD,
    BEHIND,
    LOADS,
    SOURCE,
    lead,
    least_sure,
    mean_of,
    pair,
    played,
    points,
    told,
)
from equipoise.present.figures import Axis, Figure, Series
from equipoise.share import Site, Sweep
from equipoise.share.published import PUBLISHED_LOAD, PUBLISHED_TABLE
from equipoise.share.site import LAWS

UARA, UNIFORM = "UARA", "Uniform"
LIGHTER = LOADS[1:-1]  # at 10 tasks the two do the same
WORDS = {"pooled": "pooled energy", "per_node": "energy node by node", "linear": "linear energy"}


@claim("UARA reduces energy against Uniform.", source=f"{SOURCE}, comparison with Uniform", effort=12)
def measure(scale: Scale) -> Measured:
    count = scale.pick(quick=400, full=4000)
    found = {law: played((UARA, UNIFORM), count, loads=LOADS, site=Site(power=law)) for law in LAWS}
    over = f"paired, mean of {count} seeds"
    behind = "success of UARA minus that of Uniform, 60 tasks"
    figure = Figure(
        "Energy that UARA saves against Uniform",
        x=Axis("tasks"),
        y=Axis("percent of Uniform's energy"),
        series=tuple(_curve(sweep, law) for law, sweep in found.items()),
        caption="Below zero it costs energy: a task that keeps its server makes that one run fast while others idle.",
    )
    return Measured(
        protocol=f"UARA and Uniform on the same tasks of the paper preset, {LOADS[0]} to {LOADS[-1]} of them, "
        f"{told(count)}, with three laws of energy: cubic in the site's utilisation, cubic node by node, linear.",
        findings=(
            *(_saved(sweep, law, (PUBLISHED_LOAD,), over) for law, sweep in found.items()),
            *(_saved(sweep, law, LIGHTER, over) for law, sweep in found.items()),
            points(found["pooled"], behind, UARA, UNIFORM, BEHIND, over=over, about="ours"),
        ),
        figures=(figure,),
        notes=(
            "In the paper's own table, one run, UARA takes "
            f"{PUBLISHED_TABLE[UARA].energy - PUBLISHED_TABLE[UNIFORM].energy:g} more than Uniform. "
            "At 10 tasks the two do the same and are not judged.",
            "UARA gives the same shares as Uniform; it saves by sending later, which also loses a few tasks.",
        ),
    )


def _saved(found: Sweep, law: str, loads: tuple[int, ...], over: str) -> Finding:
    """The least sure saving at these loads, in percent of Uniform's energy."""
    gap = least_sure(pair(found, UNIFORM, UARA, "energy", load) for load in loads)
    among = f"{loads[0]} tasks" if len(loads) == 1 else f"{loads[0]} to {loads[-1]} tasks"
    return lead(
        "energy saved by UARA" if len(loads) == 1 else "least sure saving of UARA at lighter loads",
        gap,
        AHEAD,
        scale=100.0 / mean_of(found, UNIFORM, "energy", gap.load),
        unit="% of Uniform's",
        over=f"{gap.load} tasks, {over}",
        when=f"{WORDS[law]} at {among}",
    )


def _curve(found: Sweep, law: str) -> Series:
    gaps = [pair(found, UNIFORM, UARA, "energy", load) for load in LOADS]
    whole = [mean_of(found, UNIFORM, "energy", load) for load in LOADS]
    return Series(
        WORDS[law],
        LOADS,
        [100.0 * gap.difference / energy for gap, energy in zip(gaps, whole, strict=True)],
        error=[100.0 * (gap.standard_error or 0.0) / energy for gap, energy in zip(gaps, whole, strict=True)],
    )
