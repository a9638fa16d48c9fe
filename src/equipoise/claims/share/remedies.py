"""The paper's remedies for UARA+LARA: do they win back what it lost against Uniform?"""

from __future__ import annotations

from functools import partial

from equipoise.claims import Measured, Scale, at_least, claim
from equipoise.claims.share._published import AHEAD, SOURCE, lead, mean_of, pair, played, points, told
from equipoise.present.figures import Axis, Figure, Mark, Series, bars
from equipoise.share import Sweep, Workload, policies

CORRECTED, FLOOR, HONEST, OURS = "UARALARACorrected", "UARALARAFloor", "UniformCorrected", "Hybrid"
NEVER = "Hybrid that never falls back"
NAMES = ("UARA+LARA", CORRECTED, FLOOR, "Uniform", HONEST, OURS)
FLOORS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # part of an equal share


@claim(
    "A corrected normalisation, minimum shares and hybrids that fall back to robust baselines would win back what "
    "UARA+LARA loses.",
    source=f"{SOURCE}, future work",
    effort=40,
)
def measure(scale: Scale) -> Measured:
    count = scale.pick(quick=800, full=4000)
    found = played(NAMES, count)
    floors = played([policies.UARALARAFloor(floor=f, called=f"{f:g}") for f in FLOORS], count)
    never = policies.Hybrid(trust=float("inf"), called=NEVER)
    wild = played((OURS, never), scale.pick(quick=200, full=2000), loads=(10,), workload=Workload.recorded())
    over, wild_over = f"60 tasks, paired, mean of {count} seeds", f"paired, mean of {len(wild.seeds)} seeds"
    back = partial(points, found, "success minus that of Uniform as published", other="Uniform", bound=at_least(0.0))
    ours = partial(points, found, over=over, about="ours")
    findings = [
        back(one=CORRECTED, over=over, when="corrected normalisation"),
        back(one=FLOOR, over=over, when="minimum share"),
        back(one=OURS, over=over, when="a hybrid that falls back (ours)"),
        lead(
            "points that falling back wins Hybrid",
            pair(wild, OURS, NEVER, load=10),
            AHEAD,
            unit="points",
            over=f"10 tasks with recorded curves, {wild_over}",
            about="ours",
        ),
        *(ours(f"points that {name} wins over UARA+LARA", name, "UARA+LARA") for name in (CORRECTED, FLOOR)),
        ours("success of Hybrid minus that of Uniform with the right denominator", OURS, HONEST),
    ]
    return Measured(
        protocol=f"60 tasks of the paper preset, {told(count)}: UARA+LARA with the right denominator, with half of "
        "an equal share as a minimum besides, and Hybrid, which paces on estimates and races when they cannot be "
        "trusted. The fall-back by itself: Hybrid with and without it on 10 tasks with recorded curves, "
        f"{told(len(wild.seeds))}.",
        findings=findings,
        figures=(_bars(found), _floors(found, floors)),
        notes=(
            "The paper names these remedies as future work and gives no numbers. Winning back means: not below "
            "Uniform, which carries the same wrong denominator; Uniform with the right one is the honest "
            "baseline.",
        ),
    )


def _bars(found: Sweep) -> Figure:
    return Figure(
        "Remedies at 60 tasks",
        x=Axis("policy", groups=NAMES),
        y=Axis("percent of tasks"),
        series=(bars("success", [mean_of(found, name, "success") for name in NAMES]),),
        caption="From UARA+LARA as published to Hybrid, with both Uniforms between them.",
    )


def _floors(found: Sweep, floors: Sweep) -> Figure:
    success, error = ([row[name] for row in floors.rows] for name in ("success", "success_se"))
    return Figure(
        "How large a minimum share?",
        x=Axis("minimum, part of an equal share"),
        y=Axis("percent of tasks"),
        series=(Series("UARA+LARA, corrected, with a minimum", FLOORS, success, error=error),),
        marks=tuple(Mark("y", mean_of(found, name, "success"), name) for name in ("Uniform", HONEST)),
        caption="With a minimum of one equal share it is Uniform with the right denominator and other transfers.",
    )
