"""Time sharing: LaiRA's six tasks against LARA's three, over many bundles of recorded curves."""

from functools import partial

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_least, claim
from equipoise.claims.share._published import AHEAD, by_name
from equipoise.present.figures import bars
from equipoise.share import policies
from equipoise.share.bundles import LEAD, OURS, THEIRS, bundles
from equipoise.share.view import name_of

FEWER = 10.0  # times that LaiRA switches less often


@claim(
    "On a bundle of ten tasks that share one resource in time, LaiRA finishes six and LARA three, and LaiRA switches "
    "between tasks one to two orders of magnitude less often.",
    source="Wang, Liu and Zhou, CoRE-Learning with Look-Ahead and Immediate Resource Allocation (AAAI 2026), mixed bundle",
    unread="deadlines of its bundle, all parameters, and LARA itself (ICML 2024), which is reconstructed here",
    effort=20,
)
def measure(scale: Scale) -> Measured:
    count = scale.pick(quick=40, full=400)
    players = [policies.LaiRA(), policies.ReconstructedLARA(), policies.SDF(), policies.Hybrid()]
    players.append(policies.clairvoyant(policies.Hybrid()))
    found = bundles(players, seeds=count).played.measured
    lead = found[OURS, 10]["successes"] - found[THEIRS, 10]["successes"]
    ratio = float(found[THEIRS, 10]["switches"].mean() / found[OURS, 10]["switches"].mean())
    simple = found["Hybrid", 10]["successes"] - found["SDF", 10]["successes"]
    over, names = f"paired, mean of {count} bundles", [name_of(player) for player in players]
    tasks = partial(Finding.mean, bound=AHEAD, unit="tasks of 10", over=over)
    means = bars("mean", [float(found[name, 10]["successes"].mean()) for name in names])
    mostly, switches = f"bundles on which it leads by {LEAD} or more", f"switches of {THEIRS}, over those of {OURS}"
    caption = "One resource in time, recorded curves."
    return Measured(
        protocol=f"Bundles 0-{count - 1} of ten recorded curves on one resource, 600 units (`equipoise share bundles`). "
        "Parameters of both were tuned on seeds from 1000 on.",
        findings=(
            tasks("tasks by which LaiRA leads", lead, when="LaiRA ahead"),
            Finding.share(mostly, lead >= LEAD, at_least(50.0), when="by three tasks"),
            Finding(switches, ratio, at_least(FEWER), over=f"means of {count} bundles", when="fewer switches"),
            tasks("tasks by which Hybrid leads deadline order", simple, about="ours"),
        ),
        figures=(by_name("Tasks finished of ten", names, means, y="tasks", caption=caption),),
        notes=(
            f"The paper shows one bundle. Here the lead on a single one scatters by {float(np.std(lead)):.1f} tasks (sd).",
        ),
    )
