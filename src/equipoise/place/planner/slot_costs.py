"""What a job can have in one slot, and at what cost: every width, together on one machine or spread (spec, section 2)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from equipoise.kernels import Floats, Int32s, Ints, kernel
from equipoise.place.planner.job_arrays import JobArrays, fits_together, servers_for
from equipoise.place.planner.occupancy import BUCKETS, NONE, Occupancy

ENOUGH = 32  # candidate machines after which a scan may stop, once they hold twice the width
MOST = 512  # candidate machines per slot at most, and twice the width
AS_THEY_COME, SERVERS_AFTER, SERVERS_APART, SERVERS_TIGHT = 0, 1, 2, 3  # orders in which a width is filled
PARTS = (0.75, 0.5)  # of the width reached where room is short: servers are also set apart for so many workers only
ORDERS = 4 + len(PARTS)
DEARER = 1.5  # a worker pushed off a machine is thought to cost this much of the dearest worker that is needed,
BEYOND_PRICE = 1e6  # or, where room is short, so much of it that only room counts
LOOK_AHEAD = 8  # servers are put on a machine in the number that is cheapest each, at the loss of so many more workers


class SlotCosts(NamedTuple):
    """Costs by width (inf: not possible), and the path by which each spread width is reached.

    A candidate is one machine of a group: `of` is its group, `nth` which machine of that group. Width w spread in order
    k puts workers on path_worker[k, 0..w-1] and servers on path_server[k, 0..s-1].
    """

    together: Floats  # [w]
    holder: Int32s  # [w] the candidate that holds width w together
    spread: Floats  # [w] the cheapest of the orders
    order: Int32s  # [w] which
    path_worker: Int32s  # [order, w]
    path_server: Int32s
    of: Int32s  # [candidate]
    nth: Int32s
    price_worker: Floats  # [candidate]
    price_server: Floats
    free: Ints  # [candidate, r]
    work: Ints  # [candidate, r] scratch
    key: Floats  # [candidate] scratch: what a server costs there
    batch: Int32s  # [candidate] scratch: how many servers at that cost
    hosts: Int32s  # [candidate] scratch: servers put there
    holds: Int32s  # [candidate] scratch: workers that still fit
    by_worker: Int32s  # [candidate] scratch: candidates by the price of a worker
    by_server: Int32s


def new_slot_costs(widest: int, resources: int) -> SlotCosts:
    """Room for jobs of up to `widest` workers."""
    most, w = MOST + 2 * widest, widest + 1
    (together, spread), (holder, order) = np.empty((2, w)), np.empty((2, w), np.int32)
    paths = np.empty((2, ORDERS, w), np.int32)
    of, nth, *scratch = np.empty((7, most), np.int32)
    *prices, key = np.empty((3, most))
    rooms = np.empty((2, most, resources), np.int64)
    return SlotCosts._make((together, holder, spread, order, *paths, of, nth, *prices, *rooms, key, *scratch))


@kernel
def slot_costs(occupancy: Occupancy, row: int, arrays: JobArrays, out: SlotCosts, on: int = 0) -> int:
    """Fill `out` for every width in domain `on`; returns how many candidate machines were looked at."""
    n = scan(occupancy, row, arrays, out, on)
    spread(arrays, n, out, True)
    return n


@kernel
def scan(occupancy: Occupancy, row: int, arrays: JobArrays, out: SlotCosts, on: int = 0) -> int:
    """Find candidate machines of a domain, the least used first, and what every width costs together; returns how many."""
    limit = arrays.together.shape[1] - 1
    worker, server, per_server = arrays.worker, arrays.server, arrays.per_server
    resources = worker.shape[0]
    for w in range(limit + 1):
        out.together[w] = out.spread[w] = math.inf
    out.together[0] = out.spread[0] = 0.0
    most_servers = servers_for(limit, per_server)
    n, held, blocks = 0, 0, 0
    for b in range(BUCKETS):
        g = occupancy.top[row, b]
        while g != NONE:
            if not arrays.within[on, occupancy.first[row, g]]:
                g = occupancy.later[row, g]
                continue
            kind = occupancy.type[row, g]
            workers, room = limit, most_servers
            for r in range(resources):
                out.free[n, r] = occupancy.capacity[kind, r] - occupancy.used[row, g, r]
                if worker[r] > 0:
                    workers = min(workers, _quotient(out.free[n, r], worker[r]))
                if server[r] > 0:
                    room = min(room, _quotient(out.free[n, r], server[r]))
            if workers > 0 or room > 0:
                price_worker, price_server = 0.0, 0.0
                for r in range(resources):
                    price = occupancy.base[row, r] * occupancy.factor[row, g, r]
                    price_worker += worker[r] * price
                    price_server += server[r] * price
                here = fits_together(out.free[n], worker, server, per_server, limit) if workers > 0 else 0
                servers = 0
                for w in range(1, here + 1):
                    if servers * per_server < w and per_server > 0:
                        servers += 1
                    cost = w * price_worker + servers * price_server
                    if cost <= out.together[w]:  # of equal machines the fuller, which leaves room for the wide
                        out.together[w] = cost
                        out.holder[w] = n
                copies = 0
                if workers > 0:
                    copies += (limit + workers - 1) // workers
                if room > 0:
                    copies += (most_servers + room - 1) // room
                copies = min(copies, occupancy.members[row, g], out.of.shape[0] - 1 - n)
                for k in range(copies):
                    out.of[n] = g
                    out.nth[n] = k
                    out.price_worker[n] = price_worker
                    out.price_server[n] = price_server
                    if k > 0:
                        for r in range(resources):
                            out.free[n, r] = out.free[n - 1, r]
                    n += 1
                held += copies * workers
                blocks += copies * here
                if (n >= ENOUGH and held >= 2 * limit and blocks >= limit) or n >= out.of.shape[0] - 1:
                    return n
            g = occupancy.later[row, g]
    return n


@kernel
def spread(arrays: JobArrays, n: int, out: SlotCosts, thorough: bool) -> None:
    """The whole cost curve of spreading over machines: width by width, the cheapest of some greedy orders.

    Given the servers, workers are placed best by price; the orders differ in where servers go. Unless `thorough` only
    the quick orders are tried while they reach every width.
    """
    limit = arrays.together.shape[1] - 1
    if n == 0 or (limit < 2 and arrays.per_server == 0):
        return  # one worker is never spread
    _sort(out.price_worker, n, out.by_worker)
    if arrays.per_server > 0:
        _sort(out.price_server, n, out.by_server)
    reached = 0
    for order in range(ORDERS if arrays.per_server > 0 else 1):
        if order <= SERVERS_AFTER:
            _in_turn(arrays, limit, n, order, out)
            continue
        if order == SERVERS_APART and not thorough and out.spread[limit] < math.inf:
            return
        if order == SERVERS_TIGHT and reached == limit:
            return
        part = PARTS[order - SERVERS_TIGHT - 1] if order > SERVERS_TIGHT else 1.0
        width = limit if order <= SERVERS_TIGHT else int(part * reached)
        dearer = BEYOND_PRICE if order == SERVERS_TIGHT else DEARER
        got = _reserved(arrays, width, n, dearer, order, out)
        if order <= SERVERS_TIGHT:
            reached = max(reached, got)


@kernel
def _sort(price: Floats, n: int, order: Int32s) -> None:
    """Candidates by price, equal ones as they came. They come nearly in order, the least used first."""
    for k in range(n):
        m = k
        while m > 0 and price[order[m - 1]] > price[k]:
            order[m] = order[m - 1]
            m -= 1
        order[m] = k


@kernel
def _quotient(a: int, b: int) -> int:
    """a // b for a >= 0 and b > 0, by floating point and a correction: several times faster than whole division."""
    q = int(a / b)
    if q * b > a:
        q -= 1
    elif a - q * b >= b:
        q += 1
    return q


@kernel
def _times(free: Ints, c: int, amount: Ints, most: int) -> int:
    """How often an amount fits into free[c], at most `most`, which times the amount is at most the cluster."""
    for r in range(amount.shape[0]):
        if free[c, r] < most * amount[r]:
            most = _quotient(free[c, r], amount[r])
    return most


@kernel
def _in_turn(arrays: JobArrays, limit: int, n: int, order: int, out: SlotCosts) -> None:
    """Each worker on the machine that is cheapest for it; each server likewise, before the workers it serves or after."""
    worker, server, per_server, free = arrays.worker, arrays.server, arrays.per_server, out.work
    by_worker, by_server = out.by_worker, out.by_server
    price_worker, price_server, spread, chosen = out.price_worker, out.price_server, out.spread, out.order
    path_worker, path_server = out.path_worker[order], out.path_server[order]
    for c in range(n):
        for r in range(worker.shape[0]):
            free[c, r] = out.free[c, r]
    spent = 0.0
    i, j, w, s = 0, 0, 0, 0
    while w < limit:
        block, found = limit if per_server == 0 else min(per_server, limit - w), 0
        for turn in range(2):
            if (turn == 0) == (order == AS_THEY_COME):
                if per_server == 0:
                    continue
                while j < n and _times(free, by_server[j], server, 1) == 0:
                    j += 1
                if j == n:
                    return
                c = by_server[j]
                for r in range(server.shape[0]):
                    free[c, r] -= server[r]
                path_server[s] = c
                spent += price_server[c]
                s += 1
                continue
            while found < block and i < n:
                c = by_worker[i]
                more = _times(free, c, worker, block - found)
                for r in range(worker.shape[0]):
                    free[c, r] -= more * worker[r]
                for k in range(w + found, w + found + more):
                    path_worker[k] = c
                found += more
                if found < block:
                    i += 1
        for k in range(w, w + found):
            spent += price_worker[path_worker[k]]
            if spent < spread[k + 1]:
                spread[k + 1], chosen[k + 1] = spent, order
        w += found
        if found < block:
            return


@kernel
def _reserved(arrays: JobArrays, limit: int, n: int, dearer: float, order: int, out: SlotCosts) -> int:
    """All servers first, where they and the workers they push away cost least; then workers by price. The width reached.

    A smaller width takes the cheapest of these workers and servers: a part of what fits, fits.
    """
    worker, server, per_server, free = arrays.worker, arrays.server, arrays.per_server, out.work
    by_worker, by_server = out.by_worker, out.by_server
    price_worker, price_server, spread, chosen = out.price_worker, out.price_server, out.spread, out.order
    path_worker, path_server = out.path_worker[order], out.path_server[order]
    key, batch, hosts, holds = out.key, out.batch, out.hosts, out.holds
    needed, total, marginal = servers_for(limit, per_server), 0, 0.0
    for k in range(n):
        c = by_worker[k]
        for r in range(worker.shape[0]):
            free[c, r] = out.free[c, r]
        hosts[c], holds[c] = 0, _times(free, c, worker, limit)
        if holds[c] > 0 and total < limit:
            marginal = price_worker[c]
        total += holds[c]
    replaced = dearer * marginal
    for c in range(n):
        extra = replaced - price_worker[c]
        key[c], batch[c] = _batch(free, c, worker, server, holds[c], needed, price_server[c], extra)
    servers = 0
    while servers * per_server < min(limit, total):
        needed = servers_for(min(limit, total), per_server) - servers
        c, least = 0, math.inf
        for k in range(n):
            if key[k] < least:
                c, least = k, key[k]
        if least == math.inf:
            break
        if batch[c] <= needed:
            for r in range(server.shape[0]):
                free[c, r] -= batch[c] * server[r]
            hosts[c] += batch[c]
            servers += batch[c]
            total -= holds[c]
            holds[c] = _times(free, c, worker, limit)
            total += holds[c]
        extra = replaced - price_worker[c]
        key[c], batch[c] = _batch(free, c, worker, server, holds[c], needed, price_server[c], extra)
    s = 0
    for k in range(n):
        for _ in range(hosts[by_server[k]]):
            path_server[s] = by_server[k]
            s += 1
    w, s, spent = 0, 0, 0.0
    for k in range(n):
        c = by_worker[k]
        for _ in range(holds[c]):
            if w == limit:
                return w
            if s * per_server <= w:
                if s == servers:
                    return w
                spent += price_server[path_server[s]]
                s += 1
            path_worker[w] = c
            spent += price_worker[c]
            w += 1
            if spent < spread[w]:
                spread[w], chosen[w] = spent, order
    return w


@kernel
def _batch(
    free: Ints, c: int, worker: Ints, server: Ints, holds: int, needed: int, price: float, extra: float
) -> tuple[float, int]:
    """Servers on a candidate at the least cost each: their price, and `extra` for every worker they push away."""
    best, batch = math.inf, 0
    kept = holds  # beside one server
    for r in range(worker.shape[0]):
        left = free[c, r] - server[r]
        if left < 0:
            return best, batch
        if left < kept * worker[r]:
            kept = _quotient(left, worker[r])
    for lost in range(holds - kept, min(holds, holds - kept + LOOK_AHEAD) + 1):
        fit = needed
        for r in range(worker.shape[0]):
            left = free[c, r] - (holds - lost) * worker[r]
            if server[r] > 0:
                fit = min(fit, _quotient(left, server[r]))
        cost = price + np.float64(lost) / fit * max(0.0, extra)
        if cost < best:
            best, batch = cost, fit
        if fit == needed or extra <= 0.0:
            break
    return best, batch
