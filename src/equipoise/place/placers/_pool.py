"""Room for promises, slot by slot, in parts of machines whose sizes are powers of two.

What fits by count then fits on machines: parts are put on machines the largest first, and each finds room (buddies). So a
plan holds no machine, and a slot's machines are chosen when the slot comes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equipoise.kernels import Floats, Ints, kernel
from equipoise.place.cluster import Cluster, is_device
from equipoise.place.planner.job_arrays import JobArrays, fits_together, servers_for
from equipoise.units import MILLI

SHARES = 8  # units of a GPU where some job asks for less than one
PARTS = 64  # units of a machine without GPUs
SIZES = 24  # a part has 2**k units, k below this
NO_PLAN: Ints = np.empty((0, 2), dtype=np.int64)
ENOUGH = 1.0 - 1e-9  # of the work: what a plan must cover, since sums of rates are not exact


class Levels(NamedTuple):
    """The widths at which a job may be planned, the narrowest first; each is faster than the one before."""

    workers: Ints
    size: Ints  # log2 of the units of one part
    parts: Ints  # how many parts, each on a machine of its own
    rate: Floats  # samples per slot, less the restart
    share: Floats  # of the cluster's scarcest resource that it holds


class Pool(NamedTuple):
    """Machines that one plan may use: in each slot, units that are free for parts of 2**k units or larger."""

    domain: int  # of the cluster: the machines' type
    machines: Ints  # ids
    units: Ints  # [machine in the pool]
    per_unit: Floats  # [r] milli-units that each unit has at least
    full: Ints  # [slot % window, k] units in parts of 2**k or larger, with nothing planned
    room: Ints  # [slot % window, k] those that are free


def pools_of(cluster: Cluster, window: int, shares: bool) -> list[Pool]:
    """Of each type of machines, those with GPUs and those without."""
    has = next((r for r, name in enumerate(cluster.resources) if is_device(name)), -1)
    capacity = cluster.capacity
    gpus = capacity[:, has] // MILLI if has >= 0 else np.zeros(len(capacity), dtype=np.int64)
    found = []
    for name in range(len(cluster.types)):
        for group in (gpus > 0, gpus == 0):
            entries = np.flatnonzero(group & (cluster.entry_types == name))
            if len(entries):
                units = np.where(gpus > 0, gpus * (SHARES if shares else 1), PARTS)
                per_unit = (capacity[entries] / units[entries, None]).min(axis=0)
                machines = np.flatnonzero(np.isin(cluster.type_of, entries))
                domain = cluster.domains.index((cluster.types[name], None))
                room = np.zeros((2, window, SIZES), dtype=np.int64)
                found.append(Pool(domain, machines, units[cluster.type_of[machines]], per_unit, *room))
    return found


def usable(pool: Pool, capacity: Ints) -> Ints:
    """Units of each machine of the pool, of what may be used of all machines."""
    with np.errstate(divide="ignore", invalid="ignore"):
        held = np.where(pool.per_unit > 0.0, capacity[pool.machines] / pool.per_unit + 1e-9, np.inf).min(axis=1)
    return np.asarray(np.minimum(pool.units, held), dtype=np.int64)


def by_size(units: Ints) -> Ints:
    """[k] the units in parts of 2**k or larger."""
    sizes = np.arange(SIZES)
    return np.asarray(((units[:, None] >> sizes) << sizes).sum(axis=0))


def levels_of(
    arrays: JobArrays, pool: Pool, full: Ints, capacity: Ints, total: Floats, asked: int, widest: int
) -> Levels:
    """Powers of two up to the widest useful width, and the width asked for; over machines in equal parts."""
    keep = max(0.0, 1.0 - arrays.restart)
    most = int(max(fits_together(row, arrays.worker, arrays.server, arrays.per_server, widest) for row in capacity))
    widths = {1 << k for k in range(SIZES) if 1 << k <= widest} | {min(asked, widest), widest}
    rows: list[tuple[int, int, int, float, float]] = []
    for width in sorted(w for w in widths if w > 0):
        alone = width <= most
        parts, part = (1, width)
        if not alone:
            if most == 0:
                continue
            part = 1 << (most.bit_length() - 1)
            parts = -(-width // part)
            if parts * part > widest:
                continue
            width = parts * part
        need = part * arrays.worker + servers_for(part, arrays.per_server) * arrays.server
        with np.errstate(divide="ignore", invalid="ignore"):
            units = np.where(need > 0, need / pool.per_unit, 0.0).max()
        if not units < 2.0 ** (SIZES - 1):
            continue
        size = max(0, int(np.ceil(units - 1e-9)) - 1).bit_length()
        rate = float((arrays.together if alone else arrays.apart)[pool.domain, width]) * keep
        if full[size] >= parts << size and rate > 0.0 and (not rows or rate > rows[-1][3]):
            held = width * arrays.worker + servers_for(width, arrays.per_server) * arrays.server
            rows.append((width, size, parts, rate, float((held[total > 0] / total[total > 0]).max())))
    table = np.array(rows, dtype=float).reshape(-1, 5).T.copy()
    workers, size, parts = table[:3].astype(np.int64)
    return Levels(workers, size, parts, table[3], table[4])


@kernel
def widest_at(room: Ints, row: int, levels: Levels, top: int, reserve: int) -> int:
    """The widest level, at most `top`, that fits in a slot beside `reserve` units; -1: none."""
    for level in range(top, -1, -1):
        need, fits = (levels.parts[level] << levels.size[level]) + reserve, True
        for k in range(levels.size[level] + 1):
            fits = fits and room[row, k] >= need
        if fits:
            return level
    return -1


@kernel
def plan(
    room: Ints, now: int, due: int, levels: Levels, need: float, out: Ints, least: int, reserve: int, early: bool
) -> int:
    """The narrowest plan that does the work by the end of slot `due`: rows (slot, level) in `out`. Returns how many.

    At the lowest level, of `least` and those above, that suffices, as late as it may be; before it, as far as the work
    needs, at the one below: late as well, or with `early` from now on. `reserve` units stay free.
    """
    slots, window, need = due - now + 1, room.shape[0], need * ENOUGH
    if slots <= 0 or slots > window:
        return 0
    narrow, wide = np.full(slots, -1), np.full(slots, -1)
    for top in range(least, levels.rate.shape[0]):
        total, first = 0.0, slots
        while first > 0 and total < need:
            first -= 1
            wide[first] = widest_at(room, (now + first) % window, levels, top, reserve)
            if wide[first] >= 0:
                total += levels.rate[wide[first]]
        if total < need:
            narrow, wide = wide, narrow
            continue
        if early:
            rows, total = 0, 0.0
            for t in range(slots):
                level = wide[t] if t >= first else (narrow[t] if top > least else -1)
                if level >= 0 and total < need:
                    out[rows, 0], out[rows, 1] = now + t, level
                    rows += 1
                    total += levels.rate[level]
            return rows
        begin = turn = first  # from `begin` at the level below, from `turn` at this one
        if top > least:
            before, after, begin, turn = 0.0, 0.0, 0, slots
            for t in range(slots):
                before += levels.rate[narrow[t]] if narrow[t] >= 0 else 0.0
            while before + after < need and turn > first:
                turn -= 1
                before -= levels.rate[narrow[turn]] if narrow[turn] >= 0 else 0.0
                after += levels.rate[wide[turn]] if wide[turn] >= 0 else 0.0
            spare = before + after - need
            while begin < turn and (narrow[begin] < 0 or levels.rate[narrow[begin]] <= spare):
                spare -= levels.rate[narrow[begin]] if narrow[begin] >= 0 else 0.0
                begin += 1
        rows = 0
        for t in range(begin, slots):
            level = wide[t] if t >= turn else narrow[t]
            if level >= 0:
                out[rows, 0], out[rows, 1] = now + t, level
                rows += 1
        return rows
    return 0


@kernel
def earliest(room: Ints, now: int, last: int, levels: Levels, need: float) -> int:
    """The first slot in which the work could be done in what is free; -1: none up to `last`."""
    done, window, top = 0.0, room.shape[0], levels.rate.shape[0] - 1
    for slot in range(now, min(last, now + window - 1) + 1):
        level = widest_at(room, slot % window, levels, top, 0)
        if level >= 0:
            done += levels.rate[level]
        if done >= need * ENOUGH:
            return slot
    return -1


@kernel
def book(room: Ints, cells: Ints, levels: Levels, sign: int) -> None:
    """Take the room of a plan (sign 1), or give it back (-1)."""
    window = room.shape[0]
    for c in range(cells.shape[0]):
        level = cells[c, 1]
        for k in range(levels.size[level] + 1):
            room[cells[c, 0] % window, k] -= sign * (levels.parts[level] << levels.size[level])


@kernel
def needed(cells: Ints, levels: Levels, left: float, early: bool) -> int:
    """How many cells, counted from the last (`early`: from the first), cover the work left; -1: not all of them do."""
    got, n = 0.0, 0
    while n < cells.shape[0] and got < left * ENOUGH:
        n += 1
        got += levels.rate[cells[n - 1 if early else cells.shape[0] - n, 1]]
    return n if got >= left * ENOUGH else -1


@kernel
def area(cells: Ints, levels: Levels) -> float:
    """Share of the cluster times slots."""
    out = 0.0
    for c in range(cells.shape[0]):
        out += levels.share[cells[c, 1]]
    return out
