"""Turn a chosen schedule into machines: which workers and servers sit where, slot by slot; and give them back."""

from __future__ import annotations

import numpy as np

from equipoise.kernels import Int32s, inner, kernel
from equipoise.place.planner.hull import TOGETHER, SlotChoice
from equipoise.place.planner.job_arrays import JobArrays, inside, servers_for
from equipoise.place.planner.occupancy import NONE, Occupancy, move
from equipoise.place.planner.slot_costs import SlotCosts, slot_costs

SLOT, MACHINE, WORKERS, SERVERS = 0, 1, 2, 3  # columns of a cell
ROUNDING = 1e-9
NO_CELLS = np.empty((0, 4), np.int32)


@kernel
def works(cells: Int32s, first: int, last: int, arrays: JobArrays) -> float:
    """Samples per slot of cells first..last-1, which are one slot: the rate law with its locality rule."""
    width = 0
    for k in range(first, last):
        width += cells[k, WORKERS]
    for on in range(arrays.within.shape[0]):  # a rack comes before the type that it is part of
        if inside(arrays.within, on, cells, first, last):
            return float(arrays.together[on, width] if last - first == 1 else arrays.apart[on, width])
    return 0.0  # over several types


@inner
def same(cells: Int32s, a: int, b: int, c: int, d: int) -> bool:
    """Whether cells a..b-1 and c..d-1 are one placement."""
    if b - a != d - c:
        return False
    for i in range(a, b):
        found = False
        for j in range(c, d):
            found = found or (
                cells[i, MACHINE] == cells[j, MACHINE]
                and cells[i, WORKERS] == cells[j, WORKERS]
                and cells[i, SERVERS] == cells[j, SERVERS]
            )
        if not found:
            return False
    return True


@kernel
def _holds(occupancy: Occupancy, row: int, h: int, arrays: JobArrays, w: int, s: int) -> bool:
    g = occupancy.group[row, h]
    for r in range(arrays.worker.shape[0]):
        if (
            occupancy.used[row, g, r] + w * arrays.worker[r] + s * arrays.server[r]
            > occupancy.capacity[occupancy.type[row, g], r]
        ):
            return False
    return True


@kernel
def _among(h: int, cells: Int32s, first: int, last: int) -> bool:
    """Whether machine h is in cells first..last-1."""
    found = False
    for k in range(first, last):
        found |= cells[k, MACHINE] == h
    return found


@kernel
def _pick(occupancy: Occupancy, row: int, g: int, cells: Int32s, before: int, first: int, last: int) -> int:
    """A machine of group g not yet in this slot's cells first..last-1: one of the slot before (before..first-1) first."""
    for k in range(before, first):
        h = cells[k, MACHINE]
        if occupancy.group[row, h] == g and not _among(h, cells, first, last):
            return int(h)
    h = occupancy.first[row, g]
    while h != NONE and _among(h, cells, first, last):
        h = occupancy.after[row, h]
    return int(h)


@kernel
def pack_slot(
    occupancy: Occupancy,
    t: int,
    arrays: JobArrays,
    kind: int,
    width: int,
    cells: Int32s,
    before: int,
    n: int,
    options: SlotCosts,
) -> int:
    """Write one slot's cells after cells[before:n], the slot before (or nothing); returns the new end. Takes nothing.

    `options` are those of the slot, in the domain that `kind` has. A job with a restart time keeps its machines
    when they still have room for it.
    """
    row = t % occupancy.base.shape[0]
    if arrays.restart > 0.0 and before < n:
        kept = 0
        for k in range(before, n):
            kept += cells[k, WORKERS]
        stays = kept == width and inside(arrays.within, kind // 2, cells, before, n)
        for k in range(before, n):
            stays = stays and _holds(occupancy, row, cells[k, MACHINE], arrays, cells[k, WORKERS], cells[k, SERVERS])
        if stays:
            end = n + (n - before)
            cells[n:end] = cells[before:n]
            cells[n:end, SLOT] = t
            return end
    servers = servers_for(width, arrays.per_server)
    together = kind % 2 == TOGETHER
    order = 0 if together else options.order[width]
    holder = options.holder[width]
    rows_of = options.hosts  # scratch: the cell of a candidate
    end = n
    for turn in range(2):
        for k in range(width + servers):
            c = options.path_worker[order, k] if k < width else options.path_server[order, k - width]
            if together:
                c = holder
            if turn == 0:
                rows_of[c] = NONE
                continue
            if rows_of[c] == NONE:
                cells[end, SLOT], cells[end, WORKERS], cells[end, SERVERS] = t, 0, 0
                cells[end, MACHINE] = _pick(occupancy, row, options.of[c], cells, before, n, end)
                rows_of[c] = end
                end += 1
            cells[rows_of[c], WORKERS if k < width else SERVERS] += 1
    return end


@kernel
def pack(
    occupancy: Occupancy,
    arrays: JobArrays,
    work: float,
    start: int,
    last: int,
    choice: SlotChoice,
    cells: Int32s,
    n: int,
    options: SlotCosts,
) -> tuple[int, float]:
    """Write the cells of a whole schedule after cells[:n], the slot start - 1 (or nothing); takes nothing yet.

    Stops when the work is done: kept machines may save the restart a plan had allowed for. Returns the end and the work
    that is still missing (0: none).
    """
    before, missing = 0, work
    for t in range(start, last + 1):
        kind, width = choice.kind[t - start], choice.width[t - start]
        if width == 0:
            before = n
            continue
        slot_costs(occupancy, t % occupancy.base.shape[0], arrays, options, kind // 2)
        end = pack_slot(occupancy, t, arrays, kind, width, cells, before, n, options)
        gain = works(cells, n, end, arrays)
        if arrays.restart > 0.0 and not same(cells, before, n, n, end):
            gain *= max(0.0, 1.0 - arrays.restart)
        missing -= gain
        before, n = n, end
        if missing <= ROUNDING * work:
            return n, 0.0
    return n, missing


@kernel
def take(occupancy: Occupancy, arrays: JobArrays, cells: Int32s, sign: int) -> None:
    """Take what the cells need (sign 1), or give it back (-1)."""
    amount = np.empty(arrays.worker.shape[0], np.int64)
    for k in range(cells.shape[0]):
        for r in range(amount.shape[0]):
            amount[r] = sign * (cells[k, WORKERS] * arrays.worker[r] + cells[k, SERVERS] * arrays.server[r])
        move(occupancy, cells[k, SLOT] % occupancy.base.shape[0], cells[k, MACHINE], amount)


@kernel
def room_value(occupancy: Occupancy, arrays: JobArrays, cells: Int32s, level: float) -> float:
    """What cells cost if every machine were used to `level` (0 to 1): the worth of the room they keep from others."""
    total = 0.0
    for r in range(arrays.worker.shape[0]):
        factor = np.exp(occupancy.growth[r] * level)
        for k in range(cells.shape[0]):
            amount = cells[k, WORKERS] * arrays.worker[r] + cells[k, SERVERS] * arrays.server[r]
            total += amount * factor * occupancy.base[cells[k, SLOT] % occupancy.base.shape[0], r]
    return total


@kernel
def cost_of(occupancy: Occupancy, arrays: JobArrays, cells: Int32s) -> float:
    """What cells not yet taken cost at the prices posted now."""
    total = 0.0
    for k in range(cells.shape[0]):
        row = cells[k, SLOT] % occupancy.base.shape[0]
        g = occupancy.group[row, cells[k, MACHINE]]
        for r in range(arrays.worker.shape[0]):
            amount = cells[k, WORKERS] * arrays.worker[r] + cells[k, SERVERS] * arrays.server[r]
            total += amount * occupancy.base[row, r] * occupancy.factor[row, g, r]
    return total
