"""The paper's dynamic program over units of work (spec, section 2): kept for fidelity, and to check hull fill against.

Work is counted in units of `quantum` samples, and an option of a slot gains floor(rate / quantum) of them. The quantum is
a whole part of what the full width does in a slot, spread over machines: that option then loses nothing to the floor
(with any other quantum it loses most, and 8% of utility with it). Where the units of a slot are a multiple of the full
width of a parameter-server job, no spread option loses anything.
"""

from __future__ import annotations

import math

import numpy as np

from equipoise.kernels import Floats, Int32s, kernel
from equipoise.place.planner.hull import SPREAD, TOGETHER, SlotChoice
from equipoise.place.planner.job_arrays import JobArrays, takes
from equipoise.place.planner.occupancy import Occupancy
from equipoise.place.planner.slot_costs import SlotCosts, slot_costs

UNITS = 400  # of a job's work at least; the time of a plan grows with it
MOST_UNITS = 20_000
ROUNDING = 1e-9  # of a unit


@kernel
def quantum_of(arrays: JobArrays, keep: float, work: float, units: int) -> float:
    """Samples to a unit: the work is at least `units` of them, and a slot at full width a whole number."""
    full = float(arrays.apart[:, -1].max() * keep)
    if full * MOST_UNITS < work:  # a slot does so little that aligning with it would make millions of units
        return work / units
    return full / math.ceil(units * full / work - ROUNDING)


@kernel
def gain_of(arrays: JobArrays, keep: float, quantum: float, kind: int, width: int) -> int:
    """Whole units that an option does in a slot."""
    rate = arrays.together[kind // 2, width] if kind % 2 == TOGETHER else arrays.apart[kind // 2, width]
    units: int = math.floor(rate * keep / quantum + ROUNDING)
    return units


@kernel
def fill_by_units(
    occupancy: Occupancy,
    arrays: JobArrays,
    keep: float,
    work: float,
    start: int,
    end: int,
    value: Floats,
    floor: float,
    units: int,
    options: SlotCosts,
    choice: SlotChoice,
) -> tuple[bool, float, float, int]:
    """The best schedule in slots start..end-1 when finishing in slot t is worth value[t - start], which never rises.

    Fills `choice`; returns whether the work can be covered at all, the best payoff above `floor` (else floor), its
    cost, and its last slot (-1: none), as `hull_fill` does.
    """
    window, limit = occupancy.base.shape[0], arrays.together.shape[1] - 1
    quantum = quantum_of(arrays, keep, work, units)
    needed = max(1, math.ceil(work / quantum - ROUNDING))
    cost = np.full(needed + 1, math.inf)  # cost[q]: the least to have done q units or more
    cost[0] = 0.0
    picked = np.zeros((end - start, needed + 1), np.int32)  # by slot and q: the option that led there, 0 for none
    gains, costs = np.empty(needed + 1, np.int32), np.empty(needed + 1)  # a slot's options that are worth a thought
    codes = np.empty(needed + 1, np.int32)
    best, best_cost, best_last, fresh, count = floor, 0.0, -1, -1, 0
    for t in range(start, end):
        if value[t - start] <= best:
            break  # exact: costs are not negative
        row = t % window
        if fresh < 0 or occupancy.touched[row] > 0 or not np.all(occupancy.base[row] == occupancy.base[fresh]):
            costs[:] = math.inf
            for on in range(arrays.together.shape[0]):
                if takes(arrays, on):
                    slot_costs(occupancy, row, arrays, options, on)
                    _cheapest_by_gain(arrays, keep, quantum, options, on, costs, codes)
            count = _worth_a_thought(gains, costs, codes)
            fresh = row if occupancy.touched[row] == 0 else -1
        for q in range(needed, 0, -1):  # downwards: cost[q - gain] is still that of the slot before
            for k in range(count):
                offer = cost[max(0, q - gains[k])] + costs[k]
                if offer < cost[q]:
                    cost[q] = offer
                    picked[t - start, q] = codes[k]
        if value[t - start] - cost[needed] > best:
            best, best_cost, best_last = value[t - start] - cost[needed], cost[needed], t
    covered = cost[needed] < math.inf
    if best_last < 0:
        return covered, best, best_cost, best_last
    choice.width[: end - start] = 0
    q = needed
    for t in range(best_last, start - 1, -1):
        code = picked[t - start, q]
        if code > 0:
            kind, width = code // (limit + 1), code % (limit + 1)
            choice.kind[t - start], choice.width[t - start] = kind, width
            q = max(0, q - gain_of(arrays, keep, quantum, kind, width))
    return covered, best, best_cost, best_last


@kernel
def _cheapest_by_gain(
    arrays: JobArrays, keep: float, quantum: float, options: SlotCosts, on: int, costs: Floats, codes: Int32s
) -> None:
    """The cheapest option of each gain in a domain, coded (limit + 1) kind + width; gains are at most the work."""
    limit, needed = arrays.together.shape[1] - 1, costs.shape[0] - 1
    for kind in (TOGETHER, SPREAD):
        for w in range(1, limit + 1):
            paid = options.together[w] if kind == TOGETHER else options.spread[w]
            gain = min(needed, gain_of(arrays, keep, quantum, 2 * on + kind, w))
            if paid < costs[gain]:
                costs[gain], codes[gain] = paid, (limit + 1) * (2 * on + kind) + w


@kernel
def _worth_a_thought(gains: Int32s, costs: Floats, codes: Int32s) -> int:
    """Options of which none of larger gain is as cheap; returns how many there are."""
    needed = costs.shape[0] - 1
    least = math.inf
    for gain in range(needed, 0, -1):
        if costs[gain] >= least:
            costs[gain] = math.inf
        least = min(least, costs[gain])
    count = 0
    for gain in range(1, needed + 1):
        if costs[gain] < math.inf:
            gains[count], costs[count], codes[count] = gain, costs[gain], codes[gain]
            count += 1
    return count
