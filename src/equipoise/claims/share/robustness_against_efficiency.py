"""Robustness against efficiency: must who saves energy lose tasks?"""

from functools import partial
from typing import Any

from equipoise.claims import Finding, Measured, Scale, at_least, claim
from equipoise.claims.share import _published as shared
from equipoise.claims.share._published import LOADS, PER_1000, PUBLISHED, lead, least_sure, mean_of, played, told
from equipoise.present.figures import Axis, Figure, Series
from equipoise.share import Sweep, policies
from equipoise.statistics import Paired

FRUGAL, SIMPLE, OURS = "UARA+LARA", "EDF", "Hybrid"
CROWDED = LOADS[1:]
NEARLY = -0.5  # points; at 10 tasks everybody finishes nearly all that can be finished
THRIFTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)  # least chance of success that Hybrid spends energy on


@claim(
    "There is a trade-off: UARA+LARA is the most efficient policy and pays with tasks; robust ones pay with energy.",
    source=f"{shared.SOURCE}, abstract and discussion",
    effort=40,
)
def measure(scale: Scale) -> Measured:
    count = scale.pick(quick=300, full=1500)
    found = played((*PUBLISHED, SIMPLE, OURS), count, loads=LOADS)
    light = played((*PUBLISHED, OURS), scale.pick(quick=2000, full=6000), loads=LOADS[:1])
    paced = played([policies.Hybrid(thrift=t, called=f"thrift {t:g}") for t in THRIFTS], count)
    over = f"paired, mean of {count} seeds"
    loss = least_sure(found.gap(_leader(found, "success", load), FRUGAL, "success", load) for load in LOADS)
    gain = least_sure(found.gap(FRUGAL, name, "efficiency", load) for load in LOADS for name in PUBLISHED[:-1])
    pays = least_sure(found.gap(_leader(found, "success", load), FRUGAL, "energy", load) for load in LOADS)
    finishes = least_sure(_leads(found, "success", load) for load in CROWDED)
    saves = least_sure(_leads(found, "efficiency", load) for load in LOADS)
    nearly, few = _leads(light, "success", LOADS[0]), f"paired, mean of {len(light.seeds)} seeds"
    leading, ahead, ours = "most successful published policy", "lead of Hybrid in", partial(_lead, about="ours")
    efficient = "lead of UARA+LARA in efficiency over the other published policies"
    energy = f"energy of the {leading} above that of UARA+LARA, the least sure load"
    findings = [
        _lead(f"UARA+LARA below the {leading}, the least sure of six loads", loss, over, when="it loses tasks"),
        _lead(efficient, gain, over, when="it is the most efficient"),
        lead(energy, pays, over=over, when="robust ones pay with energy"),
        ours(f"{ahead} success over the best published policy, 20 tasks and more", finishes, over),
        ours(f"{ahead} efficiency over the best published policy", saves, over),
        ours(f"{ahead} success over the best published policy, 10 tasks", nearly, few, bound=at_least(NEARLY)),
    ]
    return Measured(
        protocol=f"The published policies and Hybrid on the authors' preset at {', '.join(map(str, LOADS))} tasks, "
        f"{told(count)}; robustness is success, efficiency success per energy. At 60 tasks also Hybrid "
        f"at several thrifts, and at 10 tasks {len(light.seeds)} seeds.",
        findings=findings,
        figures=(_frontier(found, 60, _path(paced, "Hybrid, thrift .1 to .7")), _frontier(found, 20)),
        notes=("A trade-off is one of policies, not of the site, if another policy leads in both.",),
    )


def _leader(found: Sweep, what: str, load: int) -> str:
    return max(PUBLISHED, key=lambda name: mean_of(found, name, what, load))


def _leads(found: Sweep, what: str, load: int) -> Paired:
    """Hybrid over the best published policy of this load."""
    return found.gap(OURS, _leader(found, what, load), what, load)


def _lead(quantity: str, gap: Paired, over: str, **more: Any) -> Finding:
    return lead(quantity, gap, over=f"{gap.one} over {gap.other}, {gap.load} tasks, {over}", **more)


def _dots(found: Sweep, load: int) -> tuple[Series, ...]:
    rows = [row for row in found.rows if row["load"] == load]
    return tuple(Series(row["policy"], [PER_1000 * row["efficiency"]], [row["success"]], "dots") for row in rows)


def _path(found: Sweep, name: str) -> Series:
    """One policy with a constant varied."""
    x, y = ([row[measure] for row in found.rows] for measure in ("efficiency", "success"))
    return Series(name, [PER_1000 * value for value in x], y, dash="dashed")


def _frontier(found: Sweep, load: int, *paths: Series) -> Figure:
    return Figure(
        f"Success against efficiency, {load} tasks",
        x=Axis("success % per 1000 energy"),
        y=Axis(shared.SUCCESS),
        series=(*_dots(found, load), *paths),
        caption="Up and to the right is better." + (" A constant moves a policy along its line." if paths else ""),
    )
