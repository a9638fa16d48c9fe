"""Light load: is everybody close to the most that anyone could finish?"""

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_most, claim
from equipoise.claims.share._published import PUBLISHED, SOURCE, Floats, by_name, mean_of, played, told
from equipoise.present.figures import Mark, bars
from equipoise.share import Sweep

LOAD = 10
WELL = 5.0  # points below the bound of any policy; half a task of ten
BESIDE = ("EDF", "Hybrid")


@claim("All policies perform well under light load.", source=f"{SOURCE}, panels over 10 to 60 tasks", effort=15)
def measure(scale: Scale) -> Measured:
    count = scale.pick(quick=1000, full=10_000)
    names = (*PUBLISHED, *BESIDE)
    found = played(names, count, loads=(LOAD,), oracle=count)
    bound = 100.0 * found.bounds[LOAD] / LOAD
    figure = by_name(
        f"Success at {LOAD} tasks",
        names,
        bars("success", [mean_of(found, name, "success", LOAD) for name in names]),
        marks=(Mark("y", float(bound.mean()), "most that anyone could finish"),),
        caption="How close everybody comes on a nearly empty site; LARA and UARA+LARA ask just in time.",
    )
    return Measured(
        protocol=f"All policies on the authors' preset at {LOAD} tasks, {told(count)}; beside them, on every seed, the "
        f"bound that no policy can beat (linear program). Performing well means within {WELL:g} points of it.",
        findings=[_behind(found, name, bound, "paper" if name in PUBLISHED else "ours") for name in names],
        figures=(figure,),
        notes=("Success is judged on a noisy error here: who tries in every step until the deadline has more luck.",),
    )


def _behind(found: Sweep, name: str, bound: Floats, about: str) -> Finding:
    below, over = np.asarray(bound - found.measured[name, LOAD]["success"]), f"mean of {len(found.seeds)} seeds"
    quantity = "success below the bound of any policy"
    return Finding.mean(quantity, below, at_most(WELL), unit="points", over=over, when=name, about=about)
