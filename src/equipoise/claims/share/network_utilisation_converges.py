"""Network utilisation: the same for every policy, because everything is sent in any case."""

from __future__ import annotations

from functools import partial

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, between, claim
from equipoise.claims.share._published import LOADS, PUBLISHED, SOURCE, curves, mean_of, played, seeds, told
from equipoise.present.figures import Axis, Figure, Series
from equipoise.share import Site, Sweep, Workload

ALIKE = 1.0  # points of the uplink between any two policies


@claim(
    "Network utilisation converges: it is the same for all policies.",
    source=f"{SOURCE}, panels over 10 to 60 tasks",
    unread="the panel itself; the sentence is read as policies converging with each other",
    effort=15,
)
def measure(scale: Scale) -> Measured:
    count = scale.pick(quick=200, full=2000)
    paper, heavy = (
        played(PUBLISHED, count, loads=LOADS, workload=workload)
        for workload in (Workload.paper(), Workload.network_heavy())
    )
    offered = [_offered(load, count) for load in LOADS]
    used = [mean_of(paper, "Uniform", "network", load) for load in LOADS]
    growth = (used[-1] - used[-2]) / (used[1] - used[0])
    off = max(abs(one - other) for one, other in zip(used, offered, strict=True))
    worst, means = f"worst of {len(LOADS)} loads", f"means of {count} seeds"
    spread = partial(Finding, unit="points", over=f"{worst}, {means}")
    ours, sent = partial(Finding, about="ours"), "largest distance from all data of all tasks, sent once"
    findings = [
        spread(
            "largest difference of two policies at any load", _spread(paper), at_most(ALIKE), when="the paper's uplink"
        ),
        ours(sent, off, at_most(0.01), "points", over=f"Uniform, {worst}"),
        ours(
            "growth of use from 50 to 60 tasks over that from 10 to 20, Uniform", growth, between(0.9, 1.1), over=means
        ),
        spread("largest difference of two policies on a crowded uplink", _spread(heavy), at_least(ALIKE), about="ours"),
    ]
    return Measured(
        protocol=f"The five published policies at {LOADS[0]} to {LOADS[-1]} tasks of the paper preset and of the "
        f"network-heavy one (four to five times the data), {told(count)}; percent of the uplink used over the "
        "horizon.",
        findings=findings,
        figures=(
            Figure(
                "Network utilisation",
                x=Axis("tasks"),
                y=Axis("percent of the uplink"),
                series=(*curves(paper, "network", PUBLISHED), Series("all data", LOADS, offered, dash="dashed")),
                caption="All five lie on the line of all data that arrive; it grows with the load and does not "
                "level off.",
            ),
            Figure(
                "Network utilisation, network-heavy",
                x=Axis("tasks"),
                y=Axis("percent of the uplink"),
                series=curves(heavy, "network", PUBLISHED),
                caption="Where the uplink is the bottleneck, tasks fail before they are sent and policies part.",
            ),
        ),
        notes=(
            "The utilisation says nothing about a policy as long as the uplink has room: it is a property of the "
            "tasks.",
        ),
    )


def _spread(found: Sweep) -> float:
    """Points between the highest and the lowest policy, at the load where they are farthest apart."""
    return max(float(np.ptp([mean_of(found, name, "network", load) for name in PUBLISHED])) for load in LOADS)


def _offered(load: int, count: int) -> float:
    """Percent of the uplink that all data of all tasks take, mean over the seeds: no policy is in it."""
    site, workload = Site(), Workload.paper()
    batch = workload.draw(load, seeds(count), site)
    return float(100.0 * batch.data.sum(axis=1).mean() / (site.bandwidth * workload.horizon))
