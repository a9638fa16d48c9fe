"""The approximation guarantee: what share of the optimum does it promise, and what share is earned?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, claim
from equipoise.claims.place._growth import ABSTRACT, HISTORY, OURS, PAPER, SEEDS, UNREAD
from equipoise.place import Workload, bound, placers, prices, simulate
from equipoise.place.cluster import Cluster
from equipoise.place.traces.synthetic import REGIMES, regime, synthetic, synthetic_cluster
from equipoise.present.figures import Axis, Figure, bars

HISTORIES = 2
MACHINES, JOBS, SLOTS = 2, 4, 6  # of a tiny workload: the optimum itself can be computed
FACTOR = 2.0  # of the ratio 2 max(1, ln(U/L)), recalled from OASiS; rounding adds factors that only weaken it
PROMISED, RATIO = "guaranteed", "U/L"
Row = dict[str, float]  # per cent of the optimum or of a bound above it: earned by each, guaranteed; log10 of U/L


def promised(detail: dict[str, Any]) -> tuple[float, float]:
    """The guaranteed per cent of the optimum, and log10 of the largest U/L, from the prices a run posted."""
    growth = max(detail["posted"]["growth"])  # ln(U/L) of each resource
    return 100.0 / (FACTOR * max(1.0, growth)), growth / math.log(10.0)


def rows(cluster: Cluster, slots: int, past: Sequence[Workload], now: Sequence[Workload], *, exact: bool) -> list[Row]:
    """A row a workload in which anything can be earned."""
    paper: Any = placers.PDORS(prices=prices.Recalled(past), backfill=False)
    ours: Any = placers.PDORS(prices=prices.Replay(past))
    out = []
    for jobs in now:
        most = bound(cluster, jobs, slots=slots, exact=exact).utility
        if most > 0.0:
            run = simulate(cluster, jobs, paper, slots=slots)
            least, ratio = promised(run.detail)
            earned = simulate(cluster, jobs, ours, slots=slots).utility
            out.append({PAPER: 100 * run.utility / most, OURS: 100 * earned / most, PROMISED: least, RATIO: ratio})
    return out


def large(name: str, seeds: int) -> list[Row]:
    """A regime against its LP bound."""
    past, now = ([regime(name, first + k)[1] for k in range(n)] for first, n in ((HISTORY, HISTORIES), (SEEDS, seeds)))
    return rows(regime(name, SEEDS)[0], REGIMES[name].slots, past, now, exact=False)


def tiny(count: int) -> list[Row]:
    """Workloads of a few jobs against the optimum."""
    past, now = (
        [synthetic(JOBS, seed=first + k, slots=SLOTS, small=True) for k in range(n)]
        for first, n in ((HISTORY, HISTORIES), (SEEDS, count))
    )
    return rows(synthetic_cluster(MACHINES), SLOTS, past, now, exact=True)


@claim(
    "The online algorithm earns a guaranteed share of the offline optimum.",
    source=ABSTRACT + "; the ratio itself recalled",
    unread=UNREAD,
    effort=25,
)
def measure(scale: Scale) -> Measured:
    names = scale.pick(("20x40", "50x50"), ("20x40", "20x100-small", "50x50"))
    seeds, draws = scale.pick(4, 8), scale.pick(12, 40)
    played = {f"{REGIMES[n].machines} machines, {REGIMES[n].jobs} jobs": large(n, seeds) for n in names}
    named, many = "; ".join(played), [row for some in played.values() for row in some]
    few = played["tiny, of the optimum"] = tiny(draws)
    findings = []
    for some, when in ((many, "against the LP bound"), (few, "tiny, against the optimum")):
        least, over = min(row[PAPER] / row[PROMISED] for row in some), f"worst of {len(some)} runs"
        findings.append(Finding("earned over guaranteed", least, at_least(1.0), "times", over=over, when=when))
    findings += [
        Finding(
            "guaranteed share of the optimum",
            max(row[PROMISED] for row in many),
            at_most(2.0),
            "%",
            over=f"largest of {len(many)} runs",
            when="the guarantee says little",
            about="ours",
        ),
        Finding.mean(
            "utility with prices from history",
            [row[OURS] for row in many],
            at_least(50.0),
            unit="% of the LP bound",
            over=f"{len(many)} runs",
            when="our prices, without a guarantee",
            about="ours",
        ),
    ]
    ratios = sorted(row[RATIO] for row in many)
    figure = Figure(
        "Guaranteed and earned",
        x=Axis(groups=list(played)),
        y=Axis("% of the LP bound or the optimum", log=True),
        series=[
            bars(key, [sum(row[key] for row in some) / len(some) for some in played.values()])
            for key in (PROMISED, PAPER, OURS)
        ],
        caption="The guarantee holds, two orders of magnitude below what prices from history earn without one.",
    )
    return Measured(
        protocol=f"{named}: seeds {SEEDS}-{SEEDS + seeds - 1} against the LP bound, which is above the optimum. {len(few)}"
        f" tiny workloads ({MACHINES} machines, {JOBS} small jobs, {SLOTS} slots) against the optimum itself, an integer"
        f" program. Prices from seeds {HISTORY}-{HISTORY + HISTORIES - 1}. The guarantee is 1 / (2 max(1, ln(U/L))) of the"
        " optimum, recalled, without what rounding adds to it.",
        findings=findings,
        figures=(figure,),
        notes=(
            f"U/L of the recalled prices is 10^{ratios[0]:.0f} to 10^{ratios[-1]:.0f}: next to nothing until a machine is"
            " full, then prohibitive.",
        ),
    )
