"""Locality: what is it worth to plan workers and servers onto one machine, at slow links and at fast ones?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_least, between, claim
from equipoise.claims.place._growth import (
    ABSTRACT,
    HISTORY,
    MORE,
    SEEDS,
    SLOTS,
    UNREAD,
    Policies,
    Runs,
    SeedRun,
    curves,
    play,
)
from equipoise.place import Workload, placers, prices
from equipoise.place.execution import Execution
from equipoise.place.prices._posted import clearing
from equipoise.place.traces.synthetic import synthetic, synthetic_cluster
from equipoise.present.figures import Axis, Figure, Mark

MACHINES, JOBS, SEED_COUNT, HISTORIES = 40, 40, 8, 6
AWARE, BLIND = "plans for locality", "ignores it"
SLOW, USUAL, FAST = 0.2, 1.0, 25.0  # times the workload's bandwidth between machines
LINKS = {SLOW: "links five times slower", USUAL: "the workload's links", FAST: "links as fast as inside a machine"}
LEVELS, RATIO, LEAD = (0.35, 1.0, 3.0), 10.0, 5.0  # of the price: times the clearing price, full over empty, slots


def linked(jobs: Workload, times: float) -> Workload:
    """The same jobs at other links between machines, never faster than inside one."""
    changed = [job.but(between=min(job.inside, times * job.between)) for job in jobs]
    return replace(jobs, jobs=tuple(changed))


def at(times: float, seeds: int) -> Runs:
    """Both ways at the same prices, multiples of history's clearing price; of each seed the mean over them."""
    past = [linked(synthetic(JOBS, seed=HISTORY + k, slots=SLOTS), times) for k in range(HISTORIES)]
    now = [linked(synthetic(JOBS, seed=SEEDS + k, slots=SLOTS), times) for k in range(seeds)]
    cluster = synthetic_cluster(MACHINES)
    anchor = clearing(Execution(cluster, past[0], SLOTS, None), past)
    shown: Policies = {}
    for level in LEVELS:
        posted = prices.Level(level * anchor, RATIO, LEAD)
        shown[f"{AWARE} {level}"] = placers.PDORS(prices=posted, backfill=False)
        shown[f"{BLIND} {level}"] = placers.OASiS(prices=posted)
    found = play(cluster, now, shown)
    return {
        label: [_mean(seed) for seed in zip(*(found[f"{label} {level}"] for level in LEVELS), strict=True)]
        for label in (AWARE, BLIND)
    }


def _mean(runs: tuple[SeedRun, ...]) -> SeedRun:
    return replace(runs[0], utility=float(np.mean([run.utility for run in runs])))


@claim(
    "Planning for locality, workers and parameter servers on one machine where that is faster, earns more.",
    source=ABSTRACT,
    unread=UNREAD,
    effort=18,
)
def measure(scale: Scale) -> Measured:
    links = scale.pick((SLOW, USUAL, FAST), (SLOW, 0.5, USUAL, 2.0, 5.0, FAST))
    runs = {times: at(times, SEED_COUNT) for times in links}
    findings, find = [], partial(Finding.mean, unit="points of the LP bound", over=f"{SEED_COUNT} seeds")
    for times, name in LINKS.items():
        gained = [a.share - b.share for a, b in zip(runs[times][AWARE], runs[times][BLIND], strict=True)]
        bound, about = (between(-1.0, 1.0), "ours") if times == FAST else (at_least(MORE), "paper")
        findings.append(find("utility gained by planning for locality", gained, bound, when=name, about=about))
    figure = Figure(
        "What locality earns",
        x=Axis("bandwidth between machines, times the workload's", log=True),
        y=Axis("utility, % of the LP bound"),
        series=curves(list(runs.values()), links, lambda run: run.share),
        marks=(Mark("x", USUAL, "the workload"),),
        caption="The slower the links, the more it is worth to plan for one machine; at the fastest, nothing.",
    )
    return Measured(
        protocol=f"{JOBS} synthetic jobs at {MACHINES} machines over {SLOTS} slots, seeds {SEEDS}-{SEEDS + SEED_COUNT - 1};"
        f" bandwidth between machines {', '.join(f'{t:g}' for t in links)} times the workload's 0.1-5 Gbit/s, never above"
        f" the 10-40 inside one. The same prices for both: {', '.join(f'{level:g}' for level in LEVELS)} times the clearing"
        f" price of seeds {HISTORY}-{HISTORY + HISTORIES - 1}. PDORS against OASiS, which plans as if workers and servers"
        " never met on one machine (should they meet, they run faster there too).",
        findings=findings,
        figures=(figure,),
        notes=("Prices are the same, so only locality differs. At the recalled ones it drowns: who comes first wins.",),
    )
