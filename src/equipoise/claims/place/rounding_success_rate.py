"""Randomised rounding: how often does a draw of the slot's relaxed placement fit, where a placement exists?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_least, claim
from equipoise.claims.place._growth import ABSTRACT, HISTORY, SEEDS, SLOTS, UNREAD
from equipoise.claims.place._slots import Slot, asked, greedy
from equipoise.place.job import worth_over
from equipoise.place.planner import Planner
from equipoise.place.planner.job_arrays import arrays_of
from equipoise.place.planner.rounding import TRIES, Rounding, RoundingPlanner
from equipoise.place.prices import densities
from equipoise.place.traces.synthetic import synthetic, synthetic_cluster
from equipoise.present.figures import Axis, Figure, Mark, Series

HIGH = 95.0  # per cent: what "with high probability" is taken to mean at least
SEED = 0
MACHINES, JOBS, RATIO = 20, 40, 10.0  # of a whole run; the price of a full machine over an empty one


@dataclass(frozen=True)
class Tried:
    """One slot: draws until one fitted (0: none did); the costs of both placements over the exact one (inf: none)."""

    draws: int
    rounded: float
    greedy: float


def tried(machines: int, count: int) -> list[Tried]:
    """Slots at widths that an exact integer program can place."""
    out = []
    for k, (slot, width, least) in enumerate(asked(count, machines, SEED)):
        rounding = Rounding(slot.cluster, seed=k)
        rounding.state(slot.arrays, slot.free, slot.price_worker, slot.price_server)
        _, counts = rounding.place(width)
        cost = np.inf if counts is None else slot.cost(counts)
        out.append(Tried(0 if counts is None else rounding.counts.tries, cost / least, greedy(slot)[width] / least))
    return out


def in_a_run(seed: int) -> float:
    """Per cent rounded, of the widths F, F/2, F/4, ... that greedy can place in the slot in which a job of a run arrives."""
    cluster = synthetic_cluster(MACHINES)
    level = 0.3 * float(np.median(densities(cluster, synthetic(JOBS, seed=HISTORY, slots=SLOTS), SLOTS).density))
    planner = RoundingPlanner(cluster, SLOTS, np.full(4, np.log(RATIO)), level / cluster.total, seed=seed)
    placed = []
    for job in synthetic(JOBS, seed=seed, slots=SLOTS):
        arrays, now = arrays_of(job, cluster), job.arrival
        slot = Slot(cluster, planner.occupancy, arrays, *planner.priced(arrays, now))
        planner.rounding.state(arrays, slot.free, slot.price_worker, slot.price_server)
        costs, width = greedy(slot, now), arrays.widest
        while width:
            if costs[width] < np.inf:
                placed.append(planner.rounding.place(width)[1] is not None)
            width //= 2
        value = worth_over(job.utility.kind, *job.utility.parameters, 0, SLOTS - now)
        plan = Planner.plan(planner, arrays, value, job.work, now, SLOTS)[1]  # the run itself goes on by greedy
        if plan is not None:
            planner.take(arrays, plan.cells)
    return 100.0 * float(np.mean(placed))


@claim(
    "A randomised rounding of each slot's relaxed placement gives a feasible one with high probability.",
    source=ABSTRACT,
    unread=UNREAD,
    effort=12,
)
def measure(scale: Scale) -> Measured:
    sizes, count, seeds = scale.pick(((20, 100), 40, 2), ((20, 50, 100), 200, 8))
    found = {machines: tried(machines, count) for machines in sizes}
    high, what, findings, curves = at_least(HIGH), f"placed within {TRIES} draws", [], []
    for machines, slots in found.items():
        where, of = f"half-loaded, {machines} machines", f"{len(slots)} slots"
        placed = [one.draws > 0 for one in slots]
        findings.append(Finding.share(f"slots {what}", placed, high, over=of, when=where))
        ours = [one.greedy < np.inf for one in slots]
        findings.append(Finding.share("slots placed by greedy", ours, high, over=of, when=where, about="ours"))
        after = [100.0 * float(np.mean([0 < one.draws <= k for one in slots])) for k in range(1, TRIES + 1)]
        curves.append(Series(where, range(1, TRIES + 1), after))
    runs, where = [in_a_run(SEEDS + k) for k in range(seeds)], f"in a run, {MACHINES} machines"
    findings.append(Finding.mean(f"widths {what}", runs, high, unit="%", over=f"{seeds} runs", when=where))
    every = [one for slots in found.values() for one in slots]
    dear = float(np.mean([one.rounded for one in every if one.draws]))
    cheap = float(np.mean([one.greedy for one in every if one.greedy < np.inf]))
    figure = Figure(
        "Rounding a slot until it fits",
        x=Axis("draws"),
        y=Axis("slots placed, %"),
        series=curves,
        marks=(Mark("y", HIGH, "with high probability"),),
        caption="The first draws help; the slots that are left then hardly ever come right.",
    )
    return Measured(
        protocol=f"{count} half-loaded slots each of {', '.join(map(str, sizes))} machines at rising prices, a synthetic job"
        " in each at a width drawn from those that an exact integer program can place; and the slots in which"
        f" {JOBS} jobs arrive one after the other at {MACHINES} machines, seeds {SEEDS}-{SEEDS + seeds - 1}. The slot's LP"
        f" is solved by HiGHS and rounded as it is (G = 1, the kindest to it: see g-delta), at most {TRIES} times. A draw"
        " fits when it holds every capacity and has workers enough, not over F, and servers for them.",
        findings=findings,
        figures=(figure,),
        notes=(
            f"Where a draw fits it costs {dear:.3f} times the exact placement on average; greedy {cheap:.3f} times.",
            "Slots that hold the width in parts of workers only are left out: nobody could place them.",
        ),
    )
