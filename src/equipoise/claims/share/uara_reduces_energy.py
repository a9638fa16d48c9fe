"""UARA against Uniform: the energy it saves at every load, and what it pays for it."""

from functools import partial

from equipoise.claims import Measured, Scale, claim
from equipoise.claims.share._published import BEHIND, LOADS, SOURCE, lead, least_sure, over_tasks, played, points, told
from equipoise.present.figures import Series
from equipoise.share.published import PUBLISHED_LOAD, PUBLISHED_TABLE

UARA, UNIFORM = "UARA", "Uniform"


@claim("UARA reduces energy against Uniform.", source=f"{SOURCE}, comparison with Uniform", effort=6)
def measure(scale: Scale) -> Measured:
    count = scale.pick(quick=400, full=4000)
    found = played((UARA, UNIFORM), count, loads=LOADS)
    over = f"paired, mean of {count} seeds"
    gaps = {load: found.gap(UNIFORM, UARA, "energy", load) for load in LOADS}
    usual = {load: float(found.measured[UNIFORM, load]["energy"].mean()) for load in LOADS}
    saved = [Series("saved", LOADS, [100.0 * gaps[load].difference / usual[load] for load in LOADS])]
    caption = "It computes less, the busier the uplink is, and finishes less."
    pays, at = "success of UARA minus that of Uniform, 60 tasks", f"{PUBLISHED_LOAD} tasks"
    saves = partial(lead, percent_of=usual[PUBLISHED_LOAD], unit="% of Uniform's")
    return Measured(
        protocol=f"UARA and Uniform on the same tasks of the authors' preset, 10 to 60 of them, {told(count)}.",
        findings=(
            lead("least sure saving of any load", least_sure(gaps.values()), over=over, when="at every load"),
            saves("energy saved by UARA", gaps[PUBLISHED_LOAD], over=f"{at}, {over}", when=f"at {at}"),
            points(found, pays, UARA, UNIFORM, BEHIND, over=over, about="ours"),
        ),
        figures=(over_tasks("Energy that UARA saves against Uniform", "percent of Uniform's energy", saved, caption),),
        notes=(
            "In the paper's own table, one run with other tasks for each policy, UARA takes "
            f"{PUBLISHED_TABLE[UARA].energy - PUBLISHED_TABLE[UNIFORM].energy:g} more than Uniform.",
        ),
    )
