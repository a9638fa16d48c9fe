"""One step of the site for many seeds at once: what arrives, what a policy may ask, and what follows from it.

Order inside a step (docs/share.md, 1): arrivals, delays that end, deadlines; the policy decides; its decision is
checked, applied and observed; a completion is stamped with the next step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.compiled import kernel
from equipoise.share.curve import table_error
from equipoise.share.noise import keys_of, normal
from equipoise.share.placing import place
from equipoise.share.power import PER_NODE, cheapest_loads, step_energy
from equipoise.share.site import LAWS, Site
from equipoise.share.task import COMPUTING, DELAYED, DONE, FAILED, PENDING, SENDING
from equipoise.share.view import View
from equipoise.share.workload import Batch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SLACK = 1e-6  # samples per step by which a sum of shares may round above its limit
DUST = 1e-9  # samples that count as nothing


class Hidden(NamedTuple):
    """What the engine knows of every task."""

    noise_key: NDArray[np.uint64]
    arrival: Ints
    deadline: Ints
    data: Floats
    target: Floats
    sigma: Floats
    delay: Ints
    a: Floats
    b: Floats
    floor: Floats
    table: Ints
    table_samples: Floats
    table_errors: Floats
    work: Floats


class Now(NamedTuple):
    """Where every task stands. Arrays [seeds, tasks]; what only its arrival tells is zero (target 1) before that."""

    state: NDArray[np.int8]
    arrival: Ints
    deadline: Ints
    data: Floats
    target: Floats
    data_left: Floats
    ready_at: Ints
    samples: Floats
    error: Floats
    observations: Ints
    observed: Bools
    done_at: Ints
    server: Ints  # where it last computed


SHOWN = tuple(name for name in View._fields if name in Now._fields)


class Tally(NamedTuple):
    """Sums per seed."""

    energy: Floats
    sent: Floats
    idle_while_work: Floats  # samples not computed in steps with a computing task
    unplaced: Floats  # samples that a decision gave and the servers could not
    moves: Ints  # changes of server between steps


class Rules(NamedTuple):
    """The site in numbers."""

    capacity: float
    task_cap: float
    bandwidth: float
    speeds: Floats
    capacities: Floats
    law: int
    idle: float
    busy: float
    within: bool  # tasks may change server inside a step
    fluid: bool  # like servers, moved within the step: without homes, whatever sums up to the capacity can be run


FINE, NOT_A_NUMBER, NEGATIVE, WRONG_STATE, TASK_OVER, SITE_OVER, NO_SUCH_SERVER = range(7)
COMPUTE, BANDWIDTH = 0, 1


class Fault(NamedTuple):
    """The first thing wrong with a decision."""

    code: int
    resource: int
    seed: int  # row
    task: int
    amount: float


def hidden(batch: Batch) -> Hidden:
    return Hidden(
        keys_of(batch.seeds, batch.shape[1]),
        *(np.ascontiguousarray(getattr(batch, name)) for name in Hidden._fields[1:]),
    )


def start(shape: tuple[int, int]) -> Now:
    """Nothing has arrived."""
    return Now(
        state=np.full(shape, PENDING, np.int8),
        arrival=np.zeros(shape, np.int64),
        deadline=np.zeros(shape, np.int64),
        data=np.zeros(shape),
        target=np.ones(shape),
        data_left=np.zeros(shape),
        ready_at=np.zeros(shape, np.int64),
        samples=np.zeros(shape),
        error=np.ones(shape),
        observations=np.zeros(shape, np.int64),
        observed=np.zeros(shape, np.bool_),
        done_at=np.full(shape, -1, np.int64),
        server=np.full(shape, -1, np.int64),
    )


def tally(seeds: int) -> Tally:
    return Tally(np.zeros(seeds), np.zeros(seeds), np.zeros(seeds), np.zeros(seeds), np.zeros(seeds, np.int64))


def rules(site: Site) -> Rules:
    within = site.migration == "within"
    return Rules(
        site.capacity, site.most_per_task, float(site.bandwidth), site.speeds, site.capacities,
        LAWS.index(site.power), site.idle_power, site.busy_power, within, within and site.alike,
    )  # fmt: skip


def empty_view(shape: tuple[int, int], rule: Rules) -> View:
    """The arrays that every step of a run writes into."""
    return View(
        step=0, state=np.zeros(shape, np.int8), arrival=np.zeros(shape, np.int64), deadline=np.zeros(shape, np.int64),
        data=np.zeros(shape), data_left=np.zeros(shape), target=np.ones(shape), samples=np.zeros(shape),
        error=np.ones(shape), observations=np.zeros(shape, np.int64), observed=np.zeros(shape, np.bool_),
        capacity=rule.capacity, bandwidth=rule.bandwidth, task_cap=rule.task_cap,
    )  # fmt: skip


@kernel
def open_step(step: int, task: Hidden, now: Now) -> None:
    """Arrivals, delays that end, deadline failures."""
    seeds, tasks = now.state.shape
    for s in range(seeds):
        for i in range(tasks):
            state = now.state[s, i]
            if state == PENDING and step >= task.arrival[s, i]:
                state = SENDING
                now.arrival[s, i] = task.arrival[s, i]
                now.deadline[s, i] = task.deadline[s, i]
                now.data[s, i] = task.data[s, i]
                now.data_left[s, i] = task.data[s, i]
                now.target[s, i] = task.target[s, i]
                if task.data[s, i] <= DUST:
                    state = DELAYED
                    now.ready_at[s, i] = step + task.delay[s, i]
            if state == DELAYED and step >= now.ready_at[s, i]:
                state = COMPUTING
            if SENDING <= state <= COMPUTING and step >= task.deadline[s, i]:
                state = FAILED
            now.state[s, i] = state


def show(step: int, now: Now, view: View) -> View:
    """The view of this step: a copy, so that a policy may do with it what it likes."""
    for name in SHOWN:
        np.copyto(getattr(view, name), getattr(now, name))
    return view._replace(step=step)


@kernel
def find_fault(now: Now, bandwidth: Floats, compute: Floats, server: Ints, rule: Rules) -> Fault:
    """The first rule that a decision breaks, in the order of seeds and tasks."""
    seeds, tasks = now.state.shape
    for s in range(seeds):
        sent, computed = 0.0, 0.0
        for i in range(tasks):
            y, x, state = bandwidth[s, i], compute[s, i], now.state[s, i]
            if y == 0.0 and x == 0.0:
                continue
            if not np.isfinite(y):
                return Fault(NOT_A_NUMBER, BANDWIDTH, s, i, y)
            if not np.isfinite(x):
                return Fault(NOT_A_NUMBER, COMPUTE, s, i, x)
            if y < 0.0:
                return Fault(NEGATIVE, BANDWIDTH, s, i, y)
            if x < 0.0:
                return Fault(NEGATIVE, COMPUTE, s, i, x)
            if y > 0.0 and state != SENDING:
                return Fault(WRONG_STATE, BANDWIDTH, s, i, y)
            if x > 0.0 and state != COMPUTING:
                return Fault(WRONG_STATE, COMPUTE, s, i, x)
            if x > rule.task_cap + SLACK:
                return Fault(TASK_OVER, COMPUTE, s, i, x)
            sent += y
            computed += x
            if sent > rule.bandwidth + SLACK:
                return Fault(SITE_OVER, BANDWIDTH, s, i, sent)
            if computed > rule.capacity + SLACK:
                return Fault(SITE_OVER, COMPUTE, s, i, computed)
        if server.shape[1] == tasks:
            for i in range(tasks):
                home = server[s, i]
                if compute[s, i] > 0.0 and home >= len(rule.speeds):
                    return Fault(NO_SUCH_SERVER, COMPUTE, s, i, float(home))
    return Fault(FINE, COMPUTE, -1, -1, 0.0)


@kernel
def close_step(
    step: int, task: Hidden, now: Now, bandwidth: Floats, compute: Floats, server: Ints, rule: Rules, sums: Tally,
    watched: bool, ran: Floats,
) -> None:  # fmt: skip
    """Send, compute, observe, and account for it. `compute` is lowered where the servers could not follow.

    Errors are drawn only if they are `watched`; `ran` (seeds, tasks, servers), unless empty, receives who ran where.
    """
    seeds, tasks = now.state.shape
    rates, load, speeds = np.empty(tasks), np.zeros(len(rule.speeds)), rule.speeds.copy()
    order = np.empty(tasks, np.int64)
    asked_where, kept = server.shape[1] == tasks, ran.shape[0] == seeds
    fluid = rule.fluid and not asked_where
    for s in range(seeds):
        home, here = server[s if asked_where else 0], ran[s if kept else 0 : s + 1 if kept else 0]
        if not fluid:
            cut, moved = place(compute[s], home, now.server[s], rule.speeds, rule.within, load, here, order)
            sums.unplaced[s] += cut
            sums.moves[s] += moved
        waiting, n, total = False, 0, 0.0
        for i in range(tasks):
            now.observed[s, i] = False
            state = now.state[s, i]
            if state == SENDING:
                part = min(bandwidth[s, i], now.data_left[s, i])
                sums.sent[s] += part
                now.data_left[s, i] -= part
                if now.data_left[s, i] <= DUST:
                    now.data_left[s, i] = 0.0
                    now.state[s, i] = DELAYED
                    now.ready_at[s, i] = step + 1 + task.delay[s, i]
            elif state == COMPUTING:
                waiting = True
                x = compute[s, i]
                if x <= 0.0:
                    continue
                rates[n] = x
                n += 1
                total += x
                now.samples[s, i] += x
                now.observations[s, i] += 1
                now.observed[s, i] = True
                if watched:
                    noise = 0.0
                    if task.sigma[s, i] > 0.0:
                        noise = task.sigma[s, i] * normal(task.noise_key[s, i], now.observations[s, i])
                    now.error[s, i] = true_error(task, s, i, now.samples[s, i]) + noise
                if now.samples[s, i] >= task.work[s, i] - DUST:
                    now.state[s, i] = DONE
                    now.done_at[s, i] = step + 1
        if waiting:
            sums.idle_while_work[s] += rule.capacity - total
        if fluid and rule.law == PER_NODE:
            cheapest_loads(rates, n, load)
            speeds[:] = load
        sums.energy[s] += step_energy(rule.law, rule.idle, rule.busy, rule.capacities, total, load)
        if fluid and kept:  # what was charged for, shown on servers
            place(compute[s].copy(), home, now.server[s], speeds, True, load, here, order)


@kernel
def true_error(task: Hidden, s: int, i: int, samples: float) -> float:
    """The curve without noise; fewer samples than one count as one."""
    done = max(samples, 1.0)
    k = task.table[s, i]
    if k >= 0:
        return table_error(task.table_samples[k], task.table_errors[k], done)
    return float(task.a[s, i] * done ** -task.b[s, i] + task.floor[s, i])
