"""One step of the site for many seeds at once: what arrives, what a policy may ask, on which server it runs, what follows.

Order inside a step (docs/share.md, 1): arrivals, delays that end, deadlines, the uplink if nobody decides it, looks at all
who are ready if the site takes them; the policy decides; its decision is checked, applied and observed; a completion is
stamped with the next step. Only tasks to which something happens cost
time; loops that look for them, and those that compute curves, have no branches, so that processors run them fast.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.kernels import INDEX, ZERO, Floats, Indices, Int32s, Ints, inner, kernel
from equipoise.share._arithmetic import exp, keys_of, ln, normal, two_normals, uniform
from equipoise.share.servers import place, settle, show_where, take_turns
from equipoise.share.site import LAWS, PER_NODE, PER_SAMPLE, Site, cheapest_loads, step_energy
from equipoise.share.task import COMPUTING, DELAYED, DONE, FAILED, PENDING, SENDING, table_error
from equipoise.share.view import View
from equipoise.share.workload import Batch

SLACK = 1e-6  # samples per step by which a sum of shares may round above its limit
DUST = 1e-9  # samples that count as nothing
LARGEST = 1.7e308  # what is above is not a number
LEAST_SEEN = 1e-4  # of an error that is looked at
LOOKS, JITTERS = 2**40, 2**41  # numbers of draws from which the noise of looks, and jitter by steps, are counted
NEVER = np.iinfo(np.int32).max
TIME_MOST = 2**30  # steps; half of what a time can hold, so that two can be added
BLOCK = 512  # observations made at a time: what they need stays in the nearest cache
WORK, LOG_A, SLOPE, ERROR, SIGMA, NOISE = (BLOCK * row for row in range(6))  # rows of their tile


CURVE = np.dtype(  # what every step of computing needs of a task, in one line of the cache
    [
        *((name, np.float64) for name in ("samples", "work", "log_a", "b", "floor", "sigma")),
        ("noise_key", np.uint64),
        ("observations", np.int32),
        ("table", np.int32),  # -1: a power law
    ]
)
TASK = np.dtype(
    [
        *((name, np.float64) for name in ("data_all", "data_left", "target")),  # records have a `data` of their own
        *((name, np.int32) for name in ("arrival", "deadline", "delay", "done_at")),
        ("looks", np.int32),  # before decisions, where the site takes them
    ]
)
SUMS = np.dtype(
    [
        ("energy", np.float64),
        ("sent", np.float64),
        ("idle", np.float64),  # samples not computed in steps with a computing task
        ("unplaced", np.float64),  # samples that a decision gave and the servers could not
        ("moves", np.int64),  # changes of server between steps
        ("switches", np.int64),  # changes of the task that holds the only server
        ("holder", np.int64),  # the task that holds it, counted from 1; 0: nobody yet
        ("owed", np.float64),  # steps of it that switches still cost
    ]
)


class Now(NamedTuple):
    """What the engine knows, hidden or not: arrays with a row per seed."""

    state: NDArray[np.int8]
    due: Int32s  # when a task next changes by itself: it arrives, its delay or its time is over
    server: Int32s  # where it last computed; -1: nowhere
    cap: Floats  # samples per step that it may get
    spare: Floats  # the second noise of a pair
    curve: NDArray[np.void]
    task: NDArray[np.void]
    sums: NDArray[np.void]  # per seed
    table_samples: Floats
    table_errors: Floats


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
    fluid: bool  # like servers, moved within the step: whatever sums up to the capacity can be run
    equal: bool  # the uplink divides itself
    rate_jitter: float
    by_luck: bool  # success is judged on the observed error
    looks: bool  # all who are ready are observed in every step, before the decision
    delay: float  # mean, of the network
    switch_cost: float  # steps; counts where there is one server


FINE, NOT_A_NUMBER, NEGATIVE, WRONG_STATE, TASK_OVER, SITE_OVER, NO_SUCH_SERVER = range(7)
COMPUTE, BANDWIDTH = 0, 1


class Fault(NamedTuple):
    """The first thing wrong with a decision."""

    code: int
    resource: int
    seed: int  # row
    task: int
    amount: float


ALL_FINE = Fault(FINE, COMPUTE, -1, -1, 0.0)
NOT_PLACED = np.empty((0, 0))


def start(batch: Batch, site: Site) -> Now:
    """Nothing has arrived."""
    shape = batch.shape
    curve, task = np.zeros(shape, CURVE), np.zeros(shape, TASK)
    for name in ("work", "b", "floor", "sigma", "table"):
        curve[name] = getattr(batch, name)
    curve["log_a"], curve["noise_key"] = np.log(batch.a), keys_of(batch.seeds, shape[1])
    task["data_all"], task["target"] = batch.data, batch.target
    for name in ("arrival", "deadline", "delay"):
        task[name] = np.minimum(getattr(batch, name), TIME_MOST)
    task["done_at"] = -1
    return Now(
        state=np.zeros(shape, np.int8),
        due=task["arrival"].copy(),
        server=np.full(shape, -1, np.int32),
        cap=np.minimum(batch.speed, site.most_per_task),
        spare=np.zeros(shape),
        curve=curve,
        task=task,
        sums=np.zeros(shape[0], SUMS),
        table_samples=np.ascontiguousarray(batch.table_samples),
        table_errors=np.ascontiguousarray(batch.table_errors),
    )


def rules(site: Site) -> Rules:
    within = site.migration == "within"
    return Rules(
        capacity=site.capacity,
        task_cap=site.most_per_task,
        bandwidth=float(site.bandwidth),
        speeds=site.speeds.copy(),
        capacities=site.capacities.copy(),
        law=LAWS.index(site.power),
        idle=site.idle_power,
        busy=site.busy_power,
        within=within,
        fluid=within and site.alike,
        equal=site.uplink == "equal",
        rate_jitter=float(site.rate_jitter),
        by_luck=site.success == "observed",
        looks=site.observes == "ready",
        delay=float(site.delay),
        switch_cost=site.switch_cost,
    )


def empty_view(shape: tuple[int, int], rule: Rules) -> View:
    """The arrays that every step of a run writes into."""
    return View(
        step=0,
        state=np.zeros(shape, np.int8),
        arrival=np.zeros(shape, np.int64),
        deadline=np.zeros(shape, np.int64),
        data=np.zeros(shape),
        data_left=np.zeros(shape),
        target=np.ones(shape),
        samples=np.zeros(shape),
        error=np.ones(shape),
        observations=np.zeros(shape, np.int64),
        observed=np.zeros(shape, np.bool_),
        first_error=np.ones(shape),
        ready=np.full(shape, -1),
        task_cap=np.full(shape, rule.task_cap),
        capacity=rule.capacity,
        bandwidth=rule.bandwidth,
        servers=len(rule.speeds),
        part=rule.task_cap / rule.capacity,
        delay=rule.delay,
    )


@kernel
def open_step(step: int, now: Now, view: View, rule: Rules, watched: bool) -> None:
    """Arrivals, delays that end, deadline failures, an equal uplink, looks; and the view shows them."""
    seeds, tasks = now.state.shape
    who = np.empty(tasks + 1, np.int64)
    for s in range(seeds):
        n, dues = 0, now.due[s]
        for i in range(tasks):
            who[n] = i
            n += dues[i] <= step
        for k in range(n):
            i = who[k]
            task, state, due = now.task[s, i], now.state[s, i], now.due[s, i]
            if state == PENDING:
                view.arrival[s, i], view.deadline[s, i], view.target[s, i] = task.arrival, task.deadline, task.target
                view.task_cap[s, i], task.data_left = now.cap[s, i], task.data_all
                view.data[s, i] = view.data_left[s, i] = task.data_all
                state, due = SENDING, task.deadline
                if rule.equal or task.data_all <= DUST:
                    state, due = DELAYED, min(step + task.delay, task.deadline)
            if state == DELAYED and step >= due:
                state, due = SENDING if rule.equal else COMPUTING, task.deadline
                view.ready[s, i] = -1 if rule.equal else step
            if step >= task.deadline:
                state, due = FAILED, NEVER
            now.state[s, i], now.due[s, i] = state, due
    if rule.equal:
        send_equally(step, now, view, rule)
    for s in range(seeds):
        states, shown = now.state[s], view.state[s]
        for i in range(tasks):
            shown[i] = states[i]
    if rule.looks and watched:
        look(step, now, view)


@inner
def send_equally(step: int, now: Now, view: View, rule: Rules) -> None:
    """Everyone who has not sent everything gets the same part, also who is still delayed; who has can compute at once."""
    (seeds, tasks), least, most = now.state.shape, 1.0 - rule.rate_jitter, 1.0 + rule.rate_jitter
    for s in range(seeds):
        waiting, states = 0, now.state[s]
        for i in range(tasks):
            waiting += (states[i] == SENDING) | (states[i] == DELAYED)
        for i in range(tasks):
            if states[i] == SENDING:
                task, luck = now.task[s, i], uniform(now.curve[s, i].noise_key, JITTERS + step)
                sent = rule.bandwidth / waiting * (least + (most - least) * luck)
                if rule.bandwidth == np.inf:  # all of it, and no more
                    sent = task.data_left
                now.sums[s].sent += sent
                task.data_left -= sent
                if task.data_left <= DUST:
                    task.data_left = 0.0
                    states[i], view.ready[s, i] = COMPUTING, step
                view.data_left[s, i] = task.data_left


def ready_steps(batch: Batch, site: Site) -> Ints:
    """The step from which each task can compute where no policy has a say in it; beyond the horizon: never."""
    now, rule = start(batch, site), rules(site)
    view = empty_view(batch.shape, rule)
    for step in range(batch.horizon):
        open_step(step, now, view, rule, False)
    return np.where(view.ready >= 0, view.ready, batch.horizon)


@inner
def look(step: int, now: Now, view: View) -> None:
    """Observe every task that can compute; twice when it has just become able to, for its first error."""
    seeds, tasks = now.state.shape
    for s in range(seeds):
        for i in range(tasks):
            if now.state[s, i] == COMPUTING:
                curve, task = now.curve[s, i], now.task[s, i]
                true, task.looks = true_error(curve, now), task.looks + 1
                last = task.looks
                for number in range(0 if view.ready[s, i] == step else last, last + 1, last):
                    seen = max(true + curve.sigma * normal(curve.noise_key, LOOKS + number), LEAST_SEEN)
                    if number == 0:
                        view.first_error[s, i] = seen
                    else:
                        view.error[s, i] = seen
                view.observed[s, i], view.observations[s, i] = True, last + 1


@inner
def true_error(curve: Any, now: Now) -> float:
    """Of one task, at what it has computed."""
    done = max(curve.samples, 1.0)
    if curve.table >= 0:
        return float(table_error(now.table_samples[curve.table], now.table_errors[curve.table], done))
    return float(exp(curve.log_a - curve.b * ln(done)) + curve.floor)


def close_step(
    step: int,
    now: Now,
    view: View,
    bandwidth: Floats,
    compute: Floats,
    server: Ints,
    rule: Rules,
    watched: bool,
    ran: Floats,
    opens: bool = False,
) -> Fault:
    """Send, compute, observe, and account for it; or say what is wrong with the decision. If it `opens`, the next step too.

    `compute` is lowered where the servers could not follow; errors are drawn only if they are `watched`; `ran` (seeds,
    tasks, servers), unless empty, receives who ran where. What most runs do not need is compiled when a run needs it.
    """
    seeds, tasks = now.state.shape
    placed, where = NOT_PLACED, server.shape[1] == tasks
    free = rule.fluid and not where and len(rule.speeds) > 1 and rule.law != PER_NODE
    if not free:
        placed, first, excused = np.zeros((seeds, 1 + len(rule.speeds))), 0, -1
        while (first := run_where(first, excused, now, bandwidth, compute, server, rule, ran, placed)) < seeds:
            fault = find_fault(first, now, bandwidth, compute, server[first if where else 0], rule)
            if fault.code != FINE:
                return fault
            excused = first
    plain = (tuple(now), tuple(view), tuple(rule))  # numba would read the name of every field at every call
    first, excused = 0, -1
    while (first := serve(first, excused, step, plain, bandwidth, compute, watched, placed, opens)) < seeds:
        fault = find_fault(first, now, bandwidth, compute, server[0, :0], rule)
        if fault.code != FINE:
            return fault
        excused = first
    if free and len(ran) == seeds:
        show_where(now.server, compute, rule.speeds[0], ran)
    return ALL_FINE


@kernel
def serve(
    first: int,
    excused: int,
    step: int,
    plain: Any,
    bandwidth: Floats,
    compute: Floats,
    watched: bool,
    placed: Floats,
    opens: bool,
) -> int:
    """From the first seed on: up to which one no decision looks wrong, the `excused` apart. Those are served.

    `placed`, unless it is empty, tells of each seed what is computed, and what each server runs. Where all are served it can
    open the next step too: to hand over the arrays once more costs as much as to look through them.
    """
    now, view, rule = Now(*plain[0]), View(*plain[1]), Rules(*plain[2])
    seeds, tasks = now.state.shape
    load, checked = np.empty(len(rule.speeds)), len(placed) > 0
    senders, runners, found, last = np.empty(tasks + 1, INDEX), np.empty(tasks + 1, INDEX), ZERO, seeds
    seen, capacities = np.empty(seeds * tasks + 1, INDEX), rule.capacities
    for s in range(first, seeds):
        sums, sending, running, sent, total, before = now.sums[s], 0, 0, 0.0, 0.0, INDEX(s * tasks)
        for i in range(tasks):
            senders[sending] = runners[running] = i
            sending += bandwidth[s, i] > 0.0
            running += compute[s, i] > 0.0
        if rule.equal:
            sending = 0
        for k in range(sending):
            sent += bandwidth[s, senders[k]]
        for k in range(running):
            total += compute[s, runners[k]]
        over = sent > rule.bandwidth + SLACK or total > rule.capacity + SLACK
        right, waiting = check(s, now, bandwidth, compute, rule)
        odd = not checked and s != excused and (over or not right)
        if not odd:
            for i in range(tasks):
                view.observed[s, i] = False
            if checked:
                total = placed[s, 0]
                for j in range(len(load)):
                    load[j] = placed[s, 1 + j]
            for k in range(sending):
                i = senders[k]
                task = now.task[s, i]
                part = min(bandwidth[s, i], task.data_left)
                sums.sent += part
                task.data_left -= part
                if task.data_left <= DUST:
                    task.data_left = 0.0
                    now.state[s, i], now.due[s, i] = DELAYED, min(step + 1 + task.delay, task.deadline)
                view.data_left[s, i] = task.data_left
            for k in range(running):
                i = runners[k]
                curve = now.curve[s, i]
                curve.samples += compute[s, i]
                curve.observations += 1
                view.samples[s, i] = curve.samples
                if not rule.looks:
                    view.observed[s, i], view.observations[s, i] = True, curve.observations
                if not rule.by_luck and curve.samples >= curve.work - DUST:
                    now.state[s, i], now.due[s, i] = DONE, NEVER
                    now.task[s, i].done_at = step + 1
                seen[found] = before + i
                found += 1
            if waiting:
                sums.idle += rule.capacity - total
            if waiting or rule.law != PER_SAMPLE:
                sums.energy += step_energy(rule.law, rule.idle, rule.busy, capacities, total, load)
        else:
            last = s
            break
    if watched or rule.by_luck:
        observe(step, seen, found, now, view, rule, watched)
    if opens and last == seeds:
        open_step(step + 1, now, view, rule, watched)
    return int(last)


@kernel
def run_where(
    first: int,
    excused: int,
    now: Now,
    bandwidth: Floats,
    compute: Floats,
    server: Ints,
    rule: Rules,
    ran: Floats,
    placed: Floats,
) -> int:
    """From the first seed on: who runs on which server, up to a decision that looks wrong; what comes of it in `placed`.

    Tasks take turns on a single server, are asked to be somewhere, or cannot be moved freely; or it is to be shown.
    """
    seeds, tasks = now.state.shape
    rates, load, speeds = np.empty(tasks), np.zeros(len(rule.speeds)), np.empty(len(rule.speeds))
    senders, runners, order = np.empty(tasks + 1, INDEX), np.empty(tasks + 1, INDEX), np.empty(tasks, INDEX)
    asked_where, kept = server.shape[1] == tasks, ran.shape[0] == seeds
    pooled = rule.fluid and not kept and rule.law != PER_NODE  # then nothing depends on who runs where
    for s in range(first, seeds):
        sums, home, ys, xs = now.sums[s], server[s if asked_where else 0], bandwidth[s], compute[s]
        here = ran[s if kept else 0 : s + 1 if kept else 0]
        sending, running, sent, total, wrong, settled = 0, 0, 0.0, 0.0, False, True
        for i in range(tasks):
            senders[sending] = runners[running] = i
            sending += ys[i] > 0.0
            running += xs[i] > 0.0
        for k in range(0 if rule.equal else sending):
            sent += ys[senders[k]]
        for k in range(running):
            total += xs[runners[k]]
        for i in range(len(home)):
            wrong |= (xs[i] > 0.0) & (home[i] >= len(rule.speeds))
            settled &= (xs[i] <= 0.0) | (home[i] >= 0)
        wrong |= sent > rule.bandwidth + SLACK or total > rule.capacity + SLACK
        if s != excused and (wrong or not check(s, now, bandwidth, compute, rule)[0]):
            return int(s)
        if len(rule.speeds) == 1:
            lost = take_turns(runners, running, xs, sums, rule.speeds[0], rule.switch_cost)
            sums.unplaced += lost
            total -= lost
        fluid = rule.fluid and (not asked_where or (pooled and settled))
        if not fluid:
            cut, moved = place(xs, home, now.server[s], rule.speeds, rule.within, load, here, order)
            sums.unplaced += cut
            sums.moves += moved
            total -= cut
        elif asked_where:
            sums.moves += settle(runners, running, home, now.server[s])
        for j in range(len(speeds)):
            speeds[j] = rule.speeds[j]
        if fluid and rule.law == PER_NODE:
            n = ZERO
            for k in range(running):
                rates[n] = xs[runners[k]]
                n += xs[runners[k]] > 0.0
            cheapest_loads(rates, n, load)
            for j in range(len(load)):
                speeds[j] = load[j]
        placed[s, 0] = total
        for j in range(len(load)):
            placed[s, 1 + j] = load[j]
        if fluid and kept:  # what was charged for, shown on servers
            for i in range(tasks):
                rates[i] = xs[i]
            place(rates, home, now.server[s], speeds, rule.within, load, here, order)
    return int(seeds)


@inner
def observe(step: int, at: Indices, n: int, now: Now, view: View, rule: Rules, watched: bool) -> None:
    """Curve and noise of n tasks that computed, `at` their places among all tasks of all seeds; several at a time.

    Where success is a matter of the observed error, it is judged here, and only its end is shown to who looks before
    decisions.
    """
    curves, spare, error, tasks = now.curve.ravel(), now.spare.ravel(), view.error.ravel(), INDEX(now.state.shape[1])
    new, key, pair = np.empty(BLOCK + 1, INDEX), np.ones(BLOCK + 1, np.uint64), np.ones(BLOCK + 1, np.uint64)
    t = np.ones(6 * BLOCK)
    for start in range(0, n, BLOCK):
        who, count, fresh = at[start : start + BLOCK], min(n - start, BLOCK), INDEX(0)
        size = (count + 7) // 8 * 8  # whole vectors; what they compute beyond is not used
        for j in range(count):
            curve = curves[who[j]]
            t[WORK + j], t[LOG_A + j], t[SLOPE + j] = max(curve.samples, 1.0), curve.log_a, curve.b
            t[ERROR + j], t[SIGMA + j], t[NOISE + j] = curve.floor, curve.sigma, spare[who[j]]
            key[fresh], pair[fresh], new[fresh] = curve.noise_key, (curve.observations + 1) >> 1, j
            fresh += INDEX(curve.observations & 1)  # else the second of its pair is there
        for j in range(size):
            t[WORK + j] = ln(t[WORK + j])
        for j in range(size):  # a loop of its own, which has fewer numbers to hold at once
            t[ERROR + j] += exp(t[LOG_A + j] - t[SLOPE + j] * t[WORK + j])
        for j in range(count):
            if curves[who[j]].table >= 0:
                t[ERROR + j] = true_error(curves[who[j]], now)
        for j in range((int(fresh) + 7) // 8 * 8):
            t[WORK + j], t[LOG_A + j] = two_normals(key[j], pair[j])
        for j in range(int(fresh)):
            t[NOISE + new[j]] = t[WORK + j]
            spare[who[new[j]]] = t[LOG_A + j]
        for j in range(size):
            t[ERROR + j] += t[SIGMA + j] * t[NOISE + j]
        for j in range(count if watched and not rule.looks else 0):
            error[who[j]] = t[ERROR + j]
        for j in range(count if rule.by_luck or (watched and rule.looks) else 0):
            s, i = who[j] // tasks, who[j] % tasks
            if rule.by_luck and max(t[ERROR + j], LEAST_SEEN) <= now.task[s, i].target:
                now.state[s, i], now.due[s, i] = DONE, NEVER
                now.task[s, i].done_at = step + 1
            if watched and rule.looks and now.state[s, i] == DONE:
                view.observed[s, i], view.error[s, i] = True, t[ERROR + j]


@inner
def check(s: int, now: Now, bandwidth: Floats, compute: Floats, rule: Rules) -> tuple[bool, bool]:
    """Of one seed: whether no task's part is wrong, and one can compute."""
    most_y = min(rule.bandwidth + SLACK, LARGEST)
    wrong, waiting = False, False
    for i in range(now.state.shape[1]):
        y, x, state = bandwidth[s, i], compute[s, i], now.state[s, i]
        sends = (state == SENDING) & (y > 0.0) & (y <= most_y)
        computes = (state == COMPUTING) & (x > 0.0) & (x <= now.cap[s, i] + SLACK)
        wrong |= not ((sends | rule.equal | (y == 0.0)) & (computes | (x == 0.0)))
        waiting |= state == COMPUTING
    return not wrong, waiting


@kernel
def find_fault(s: int, now: Now, bandwidth: Floats, compute: Floats, home: Ints, rule: Rules) -> Fault:
    """The first rule that a seed's decision breaks, in the order of tasks."""
    sent, computed = 0.0, 0.0
    for i in range(now.state.shape[1]):
        y, x, state = 0.0 if rule.equal else bandwidth[s, i], compute[s, i], now.state[s, i]
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
        if x > now.cap[s, i] + SLACK:
            return Fault(TASK_OVER, COMPUTE, s, i, x)
        sent += y
        computed += x
        if sent > rule.bandwidth + SLACK:
            return Fault(SITE_OVER, BANDWIDTH, s, i, sent)
        if computed > rule.capacity + SLACK:
            return Fault(SITE_OVER, COMPUTE, s, i, computed)
    for i in range(len(home)):
        if compute[s, i] > 0.0 and home[i] >= len(rule.speeds):
            return Fault(NO_SUCH_SERVER, COMPUTE, s, i, float(home[i]))
    return Fault(FINE, COMPUTE, -1, -1, 0.0)
