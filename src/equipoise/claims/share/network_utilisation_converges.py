"""Network utilisation: the same for every policy, because none has a say in it; and what the uplink decides."""

from functools import partial

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, between, claim
from equipoise.claims.share._published import LOADS, PUBLISHED, SOURCE, curves, mean_of, over_tasks, played, seeds, told
from equipoise.share import Sweep, Workload
from equipoise.share.step import ready_steps


@claim(
    "Network utilisation converges: it is the same for all policies.",
    source=f"{SOURCE}, panels over 10 to 60 tasks",
    effort=15,
)
def measure(scale: Scale) -> Measured:
    count = scale.pick(quick=200, full=2000)
    found = played(PUBLISHED, count, loads=LOADS)
    heavy = played(PUBLISHED, count, loads=LOADS, workload=Workload.network_heavy())
    worst, widest = f"worst of {len(LOADS)} loads, means of {count} seeds", "largest difference of two policies"
    crowded, ours = f"{widest} where they divide a crowded uplink", partial(Finding, about="ours")
    never, mean = "tasks that never finish sending, 60 tasks", f"mean of {count} seeds"
    lines = curves(found, "network", PUBLISHED)
    caption = "One line: the uplink divides itself into equal parts, and no policy can touch it."
    return Measured(
        protocol=f"The five published policies at {LOADS[0]} to {LOADS[-1]} tasks of the authors' preset, {told(count)}; "
        "and where policies divide the uplink (network-heavy). Percent of the uplink used over the horizon.",
        findings=(
            Finding(f"{widest} at any load", _spread(found), at_most(0.0), "points", over=worst),
            ours(never, _never(count), between(24.0, 28.0), "% of tasks", over=mean),
            ours(crowded, _spread(heavy), at_least(1.0), "points", over=worst),
        ),
        figures=(over_tasks("Network utilisation", "percent of the uplink", lines, caption),),
        notes=(
            "The uplink is the bottleneck of the authors' site. Equal parts for all, also for those still in their delay, "
            "make all transfers late together.",
        ),
    )


def _spread(found: Sweep) -> float:
    """Points between the highest and the lowest policy, at the load where they are farthest apart."""
    return max(float(np.ptp([mean_of(found, name, "network", load) for name in PUBLISHED])) for load in LOADS)


def _never(count: int) -> float:
    """Percent of 60 tasks that cannot compute before their deadline."""
    workload = Workload.authors()
    batch = workload.draw(60, seeds(count))
    return float(100.0 * (ready_steps(batch, workload.site) >= batch.deadline).mean())
