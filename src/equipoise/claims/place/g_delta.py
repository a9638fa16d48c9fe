"""The factor G_delta: which rows of the slot's program does it keep, and does it keep them all?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_least, claim
from equipoise.claims.place._growth import ABSTRACT, UNREAD
from equipoise.claims.place._slots import Floats, Slot, asked
from equipoise.place.planner.rounding import FAVOURS, Relaxation, stretch
from equipoise.present.figures import Axis, Figure, Mark, Series

DELTA = 0.1  # the probability with which a kind of rows may fail
MACHINES, SEED, DRAWS = 50, 1, 200
GRID = (0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0, 6.0)
PACKING, COVERING, ALL = "packing", "covering", "all"
Kept = dict[str, float]  # by kind of rows, the per cent of draws that keep them


@dataclass(frozen=True)
class Relaxed:
    """A slot, a width that fits it, and its fractional placement [workers or servers, machine]."""

    slot: Slot
    width: int
    counts: Floats
    number: int

    def kept(self, factor: float) -> Kept:
        """Multiplied, and rounded up with the probability of the fraction, else down; the same draws for every factor."""
        rng = np.random.default_rng([SEED, self.number])
        target = factor * self.counts
        drawn = np.floor(target) + (rng.random((DRAWS, *target.shape)) < target - np.floor(target))
        arrays = self.slot.arrays
        taken = drawn[:, 0, :, None] * arrays.worker + drawn[:, 1, :, None] * arrays.server
        packed = (taken <= self.slot.free).all(axis=(1, 2))
        covered = (drawn.sum(axis=2) >= [self.width, self.slot.servers(self.width)]).all(axis=1)
        share = {PACKING: packed, COVERING: covered, ALL: packed & covered}
        return {rows: 100.0 * float(held.mean()) for rows, held in share.items()}

    def factor(self, favour: str) -> float:
        """G_delta for the rows it favours: from the servers needed, and the least number of seats on a usable machine."""
        arrays, free = self.slot.arrays, self.slot.free
        need = np.maximum(arrays.worker, arrays.server)
        seats = free[(free >= need).all(axis=1)][:, need > 0] / need[need > 0]
        pack = float(seats.min()) if len(seats) else 1.0
        return stretch(favour, DELTA, float(self.slot.servers(self.width)), pack, free.size)


def relaxed(count: int) -> list[Relaxed]:
    """The slots' relaxations at widths that a whole placement exists for."""
    out = []
    for number, (slot, width, _) in enumerate(asked(count, MACHINES, SEED)):
        program = Relaxation(slot.cluster.size, len(slot.cluster.resources))
        program.slot(slot.arrays, slot.free, slot.price_worker, slot.price_server)
        out.append(Relaxed(slot, width, program.solve(width)[1], number))
    return out


@claim(
    "Scaled by G_delta before it is rounded, a relaxed placement keeps its constraints with probability 1 - delta.",
    source=ABSTRACT + "; G_delta itself recalled",
    unread=UNREAD,
    effort=6,
)
def measure(scale: Scale) -> Measured:
    problems = relaxed(scale.pick(30, 200))
    factors = {favour: [p.factor(favour) for p in problems] for favour in FAVOURS}
    scaled = {favour: [p.kept(g) for p, g in zip(problems, factors[favour], strict=True)] for favour in FAVOURS}
    grid = [[p.kept(g) for p in problems] for g in GRID]
    over = f"{len(problems)} slots, {DRAWS} draws each"
    findings = []
    for favour in FAVOURS:
        for rows in (favour, ALL):
            kept, least = [one[rows] for one in scaled[favour]], at_least(100.0 * (1.0 - DELTA))
            when = f"{rows} rows with G for {favour}"
            findings.append(Finding.mean(f"draws that keep {rows} rows", kept, least, unit="%", over=over, when=when))
    plain = [one[ALL] - max(scaled[f][k][ALL] for f in FAVOURS) for k, one in enumerate(grid[GRID.index(1.0)])]
    gained = "draws that keep all rows, above the better G_delta"
    findings.append(
        Finding.mean(
            gained, plain, at_least(0.0), unit="points", over=over, when="G = 1, not scaled at all", about="ours"
        )
    )
    means = {rows: [float(np.mean([one[rows] for one in some])) for some in grid] for rows in (PACKING, COVERING, ALL)}
    best = int(np.argmax(means[ALL]))
    middle = {favour: float(np.median(factors[favour])) for favour in FAVOURS}
    figure = Figure(
        "Rows kept by a draw, over G",
        x=Axis("G", log=True),
        y=Axis("draws, %"),
        series=[Series(f"{rows} rows kept", GRID, means[rows]) for rows in means],
        marks=[Mark("x", middle[favour], f"G for {favour}, median") for favour in FAVOURS],
        caption="One kind of rows is kept where the other is broken; few draws keep both, at any G.",
    )
    return Measured(
        protocol=f"{len(problems)} half-loaded slots of {MACHINES} machines at widths that fit (as in"
        f" rounding-success-rate). The relaxed placement times G is rounded {DRAWS} times. G_delta for delta = {DELTA}, from"
        " each slot's own size, once for the covering rows (workers and servers enough) and once for the packing rows (every"
        " capacity).",
        findings=findings,
        figures=(figure,),
        notes=(
            f"The best single G of those tried is {GRID[best]:g}: {means[ALL][best]:.0f} % of draws keep all rows.",
            f"G_delta is {middle[COVERING]:.2f} for covering and {middle[PACKING]:.3f} for packing (medians).",
        ),
    )
