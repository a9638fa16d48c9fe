"""Turn a chosen schedule into machines: which workers and servers sit where, slot by slot; and give them back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.kernels import kernel
from equipoise.place.planner.book import NONE, Book, move
from equipoise.place.planner.hull import TOGETHER, Choice
from equipoise.place.planner.options import Options, slot_options
from equipoise.place.planner.shape import Shape, servers_for

Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]

SLOT, MACHINE, WORKERS, SERVERS = 0, 1, 2, 3  # columns of a cell
ROUNDING = 1e-9


@kernel
def works(cells: Int32s, first: int, last: int, shape: Shape) -> float:
    """Samples per slot of cells first..last-1, which are one slot: the rate law with its locality rule."""
    width = 0
    for k in range(first, last):
        width += cells[k, WORKERS]
    return float(shape.together[width] if last - first == 1 else shape.apart[width])


@kernel
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
def _holds(book: Book, row: int, h: int, shape: Shape, w: int, s: int) -> bool:
    g = book.group[row, h]
    for r in range(shape.worker.shape[0]):
        if book.used[row, g, r] + w * shape.worker[r] + s * shape.server[r] > book.capacity[book.type[row, g], r]:
            return False
    return True


@kernel
def _pick(book: Book, row: int, g: int, cells: Int32s, before: int, first: int, last: int) -> int:
    """A machine of group g not yet in this slot's cells first..last-1: one of the slot before (before..first-1) first."""
    for k in range(before, first):
        h = cells[k, MACHINE]
        if book.group[row, h] == g:
            taken = False
            for m in range(first, last):
                taken |= cells[m, MACHINE] == h
            if not taken:
                return int(h)
    h = book.first[row, g]
    while h != NONE:
        taken = False
        for m in range(first, last):
            taken |= cells[m, MACHINE] == h
        if not taken:
            return int(h)
        h = book.after[row, h]
    return NONE


@kernel
def seat_slot(
    book: Book, t: int, shape: Shape, kind: int, width: int, cells: Int32s, before: int, n: int, options: Options
) -> int:
    """Write one slot's cells after cells[before:n], the slot before (or nothing); returns the new end. Takes nothing.

    `options` are those of the slot. A job with a restart time keeps its machines when they still have room for it.
    """
    row = t % book.base.shape[0]
    if shape.restart > 0.0 and before < n:
        kept = 0
        for k in range(before, n):
            kept += cells[k, WORKERS]
        stays = kept == width
        for k in range(before, n):
            stays = stays and _holds(book, row, cells[k, MACHINE], shape, cells[k, WORKERS], cells[k, SERVERS])
        if stays:
            for k in range(before, n):
                cells[n + k - before, SLOT] = t
                for column in range(MACHINE, SERVERS + 1):
                    cells[n + k - before, column] = cells[k, column]
            return n + (n - before)
    servers = servers_for(width, shape.per_server)
    order = 0 if kind == TOGETHER else options.order[width]
    holder = options.holder[width]
    seats = options.hosts  # scratch: the cell of a candidate
    end = n
    for turn in range(2):
        for k in range(width + servers):
            c = options.path_worker[order, k] if k < width else options.path_server[order, k - width]
            if kind == TOGETHER:
                c = holder
            if turn == 0:
                seats[c] = NONE
                continue
            if seats[c] == NONE:
                cells[end, SLOT], cells[end, WORKERS], cells[end, SERVERS] = t, 0, 0
                cells[end, MACHINE] = _pick(book, row, options.of[c], cells, before, n, end)
                seats[c] = end
                end += 1
            cells[seats[c], WORKERS if k < width else SERVERS] += 1
    return end


@kernel
def seat(
    book: Book,
    shape: Shape,
    work: float,
    start: int,
    last: int,
    choice: Choice,
    cells: Int32s,
    n: int,
    options: Options,
) -> tuple[int, float]:
    """Write the cells of a whole schedule after cells[:n], the slot start - 1 (or nothing); takes nothing yet.

    Stops when the work is done: kept machines may save the restart a plan had allowed for. Returns the end and the work
    that is still missing (0: none).
    """
    before, missing = 0, work
    for t in range(start, last + 1):
        if choice.width[t - start] == 0:
            before = n
            continue
        slot_options(book, t % book.base.shape[0], shape, options)
        end = seat_slot(book, t, shape, choice.kind[t - start], choice.width[t - start], cells, before, n, options)
        gain = works(cells, n, end, shape)
        if shape.restart > 0.0 and not same(cells, before, n, n, end):
            gain *= max(0.0, 1.0 - shape.restart)
        missing -= gain
        before, n = n, end
        if missing <= ROUNDING * work:
            return n, 0.0
    return n, missing


@kernel
def take(book: Book, shape: Shape, cells: Int32s, sign: int) -> None:
    """Take what the cells need (sign 1), or give it back (-1)."""
    amount = np.empty(shape.worker.shape[0], np.int64)
    for k in range(cells.shape[0]):
        for r in range(amount.shape[0]):
            amount[r] = sign * (cells[k, WORKERS] * shape.worker[r] + cells[k, SERVERS] * shape.server[r])
        move(book, cells[k, SLOT] % book.base.shape[0], cells[k, MACHINE], amount)


@kernel
def toll(book: Book, shape: Shape, cells: Int32s, level: float) -> float:
    """What cells cost if every machine were used to `level` (0 to 1): the worth of the room they keep from others."""
    total = 0.0
    for r in range(shape.worker.shape[0]):
        factor = np.exp(book.growth[r] * level)
        for k in range(cells.shape[0]):
            amount = cells[k, WORKERS] * shape.worker[r] + cells[k, SERVERS] * shape.server[r]
            total += amount * factor * book.base[cells[k, SLOT] % book.base.shape[0], r]
    return total


@kernel
def cost_of(book: Book, shape: Shape, cells: Int32s) -> float:
    """What cells not yet taken cost at the prices posted now."""
    total = 0.0
    for k in range(cells.shape[0]):
        row = cells[k, SLOT] % book.base.shape[0]
        g = book.group[row, cells[k, MACHINE]]
        for r in range(shape.worker.shape[0]):
            amount = cells[k, WORKERS] * shape.worker[r] + cells[k, SERVERS] * shape.server[r]
            total += amount * book.base[row, r] * book.factor[row, g, r]
    return total
