"""What Hybrid does with its beliefs in one step of one seed: expect, keep, serve and send.

Facts and plans of a task stand in one record, jobs in a list of records: nothing here looks at the view.
"""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.kernels import INDEX, ZERO, Floats, Indices, inner
from equipoise.share._arithmetic import exp, ln
from equipoise.share.divide import insert
from equipoise.share.estimators import Estimate
from equipoise.share.policies._beliefs import MOVED, PASSED, TESTS
from equipoise.share.policies._moore_hodgson import JOB, keep_most
from equipoise.share.policies._prices import ROOM
from equipoise.share.task import COMPUTING, DELAYED, DONE, PENDING, SENDING
from equipoise.share.view import View

PROBED = 7.5  # times `probe`: samples in the first four steps, of which each doubles the one before
SEEN = 4  # observations after which an estimate counts in the trust of a seed
FLOOR_MOST = 0.9  # of the budget
IMPATIENCE = 0.33  # tests passed at which half of the time left is planned for
DRIFT = 4.0  # times that the mean move of ln work in tests so far is expected to come again
SPARE = 0.4  # of the site: how full the tasks that are not kept may make it
ERROR_LEAST = 1e-9
CRUMB = 0.001  # samples; a step with any is a chance to be seen at the target
GOLDEN = np.array([NormalDist().inv_cdf((0.5 + 0.6180339887498949 * j) % 1.0) for j in range(256)])  # spread evenly
EXPECTED = INDEX(2**40)  # the task of a job that is not here yet

FACTS = ("cap", "done", "data_left", "error", "target", "log_target")  # as in the view
# `time`: steps in which it may compute, less what it is expected to wait before. `log_work`, `spread`: last believed.
# Samples: `price` per success, `middle` of the work left, its mean, `need` per step. `seen`: observations. `lost`: its
# P(success) is not worth the energy.
PLANS = ("time", "log_work", "spread", "price", "middle", "left", "need")
FLAGS = [("seen", np.int64), ("state", np.int8), *((name, np.bool_) for name in ("listed", "keep", "lost"))]
TASK = np.dtype([*((name, np.float64) for name in FACTS + PLANS), *FLAGS], align=True)
# Of a seed: how many are here, have come, were shown by the last step; time and work that fits, of all.
COUNTS = [(name, np.int64) for name in ("here", "came", "shown")]
CROWD = np.dtype([*COUNTS, ("slack", np.float64), ("usual", np.float64)])


class Rule(NamedTuple):
    """The policy's constants, and what it must know of its estimator and of the site."""

    margin: float
    floor: float
    probe: float
    ahead: float
    trust: float
    thrift: float
    told: bool  # the truth: nothing is to be judged
    linear: bool  # energy is linear in work, so that pacing wins nothing
    lucky: bool  # success is a matter of the observed error
    decided: bool  # the uplink, by us
    delay: float
    servers: float
    steep: float  # slope of a curve, ln error over ln samples, that hardly any has


class Memory(NamedTuple):
    """What it knows of tasks, and who they are: lists with a row per seed. And room to work in."""

    task: NDArray[np.void]
    crowd: NDArray[np.void]
    order: Indices  # who is here, by the time left
    came: Indices
    shown: Indices
    room: tuple[NDArray[np.void], Indices, Floats, Floats, Floats]  # jobs, a heap of them, keys, two tiles

    @classmethod
    def start(cls, seeds: int, tasks: int) -> "Memory":
        lists, size = np.zeros((3, seeds, tasks + 1), INDEX), 3 * tasks + 8
        room = np.zeros(size, JOB), np.zeros(size, INDEX), np.ones(size), np.ones(ROOM), np.ones(ROOM)
        return cls(np.zeros((seeds, tasks), TASK), np.zeros(seeds, CROWD), lists[0], lists[1], lists[2], room)


@inner
def look(view: View, estimate: Estimate, delay: float, memory: Memory) -> None:
    """Bring lists and facts of all seeds up to date."""
    state, observed, deadline, arrival, cap = view.state, view.observed, view.deadline, view.arrival, view.task_cap
    samples, data, error, target, seen = view.samples, view.data_left, view.error, view.target, view.observations
    said, spread, order, came, shown = estimate.log_work, estimate.spread, memory.order, memory.came, memory.shown
    tasks, crowds = memory.task, memory.crowd
    for s in range(len(state)):
        crowd, states, arrived, saw, n = crowds[s], state[s], ZERO, ZERO, ZERO
        for i in range(len(states)):  # without a branch: where they are is hard to predict
            shown[s, saw] = i
            arrived += states[i] != PENDING
            saw += observed[s, i]
        for k in range(crowd.here):
            order[s, n] = order[s, k]
            n += state[s, order[s, k]] <= COMPUTING
        if arrived > crowd.came:
            count, slack, usual = ZERO, 0.0, 0.0
            for i in range(len(states)):
                if states[i] != PENDING:
                    came[s, count], time, task = i, float(deadline[s, i] - arrival[s, i]), tasks[s, i]
                    count, slack, usual = count + 1, slack + time, usual + time * cap[s, i]
                    if states[i] <= COMPUTING and not task.listed:
                        order[s, n], task.listed, task.cap, task.target = i, True, cap[s, i], target[s, i]
                        task.log_target = ln(task.target)
                        n += 1
            crowd.came, crowd.slack, crowd.usual = count, slack, usual
        crowd.here, crowd.shown = n, saw
        for k in range(n):
            i, task = order[s, k], tasks[s, order[s, k]]
            task.state, task.seen = state[s, i], seen[s, i]
            task.done, task.data_left, task.error = samples[s, i], data[s, i], error[s, i]
            task.log_work, task.spread = said[s, i], spread[s, i]
            wait = delay + 1.0 if task.state == SENDING else 0.5 * delay if task.state == DELAYED else 0.0
            task.time = deadline[s, i] - view.step - wait
        for k in range(saw):
            i = shown[s, k]
            if state[s, i] == DONE:
                tasks[s, i].state, tasks[s, i].done = DONE, samples[s, i]


@inner
def by_time(tasks: Any, order: Indices, n: int) -> None:
    """The first n in the order of their time, equals by number; they nearly are."""
    for k in range(1, n):
        i, at, time = order[k], k, tasks[order[k]].time
        while at > 0:
            other = order[at - 1]
            if (tasks[other].time < time) | ((tasks[other].time == time) & (other < i)):  # one branch, well foretold
                break
            order[at] = other
            at -= 1
        order[at] = i


@inner
def send(
    tasks: Any, order: Indices, n: int, bandwidth: float, jobs: Any, heap: Indices, key: Floats, given: Floats
) -> None:
    """The most transfers that leave time for the likely work, by when they must be through; then the smallest."""
    m = ZERO
    for k in range(n):
        task = tasks[order[k]]
        if task.state == SENDING:
            key[order[k]] = task.time - math.ceil(task.middle / task.cap)
            m = insert(heap, m, key, order[k])
    for j in range(m):
        i = heap[j]
        jobs[j].task, jobs[j].due, jobs[j].work = i, key[i], tasks[i].data_left
    keep_most(jobs, m, bandwidth, heap)
    left, others = bandwidth, ZERO
    for j in range(m):
        key[j] = jobs[j].work
        if jobs[j].kept:
            given[jobs[j].task] = min(jobs[j].work, left)
            left -= given[jobs[j].task]
        else:
            others = insert(heap, others, key, INDEX(j))
    for k in range(others):
        job = jobs[heap[k]]
        given[job.task] = min(job.work, left)
        left -= given[job.task]


@inner
def expect(tasks: Any, order: Indices, came: Indices, crowd: Any, step: int, rule: Rule, jobs: Any, key: Floats) -> int:
    """Jobs of who is here, at their price, and of arrivals at the mean rate so far, like those that came; how many."""
    n, count = int(crowd.here), int(crowd.came)
    for j in range(n):
        i = order[j]
        jobs[j].task, jobs[j].due, jobs[j].work = i, tasks[i].time, tasks[i].price
    apart, slack = (step + 1.0) / count, crowd.slack / count - rule.delay - 1.0
    expected, like = int(min(rule.ahead / apart, 2.0 * len(tasks))), ZERO
    for j in range(expected):
        task = tasks[came[like]]
        key[j] = task.log_work + task.spread * GOLDEN[j % len(GOLDEN)]
        like = like + 1 if like + 1 < count else ZERO
    for j in range((expected + 7) // 8 * 8):  # whole vectors; what they compute beyond is not used
        key[j] = exp(key[j])
    last, j = n - 1, expected - 1
    for at in range(n + expected - 1, -1, -1):  # both ascend in `due`: merged from the end
        if j < 0:
            break
        due, job = slack + (j + 1) * apart, jobs[at]
        if last >= 0 and jobs[last].due > due:
            job.task, job.due, job.work = jobs[last].task, jobs[last].due, jobs[last].work
            last -= 1
        else:
            fits = key[j] <= tasks[came[j % count]].cap * slack
            job.task, job.due, job.work = EXPECTED, due, key[j] if fits else np.inf
            j -= 1
    return n + expected


@inner
def keep(tasks: Any, order: Indices, n: int, capacity: float, jobs: Any, heap: Indices) -> float:
    """Mark the tasks that are kept; the rate at which all that is kept gets done in time. Without hard branches."""
    done, demand, at = 0.0, 0.0, ZERO
    keep_most(jobs, n, capacity, heap)
    for j in range(n):
        job = jobs[j]
        heap[at] = job.kept  # of those who are here, in order
        at += job.task != EXPECTED
        done += job.work if job.kept else 0.0
        demand = max(demand, done / max(job.due, 1.0))
    for k in range(at):
        tasks[order[k]].keep = heap[k] > ZERO
    return demand


@inner
def serve(
    tasks: Any,
    order: Indices,
    here: int,
    capacity: float,
    demand: float,
    rule: Rule,
    sound: bool,
    quiet: bool,
    seed: Floats,
    heap: Indices,
    price: Floats,
    given: Floats,
) -> None:
    """Pace, then give: probes and floor, who cannot wait, by deadline, by price, and what is idle to all by deadline."""
    idle, thrifty = rule.lucky and quiet, rule.linear and not quiet
    drift = exp(max(DRIFT * seed[MOVED] / (seed[TESTS] + 2.0), 0.0))
    patience = 1.0 if rule.told else seed[PASSED] / (seed[PASSED] + IMPATIENCE)
    n, needed, doubt, seen = ZERO, 0.0, 0.0, 0
    for k in range(here):
        heap[n], price[n] = order[k], tasks[order[k]].log_work
        n += tasks[order[k]].state == COMPUTING
    for k in range((n + 7) // 8 * 8):  # whole vectors; what they compute beyond is not used
        price[k] = exp(price[k])
    for k in range(n):
        task = tasks[heap[k]]
        spare = rule.margin * task.spread * price[k]
        task.need = min((task.left + spare) * drift / max(task.time * patience, 1.0), task.cap)
        needed += task.need if task.keep else 0.0
        if task.seen >= SEEN:
            doubt, seen = doubt + task.spread, seen + 1
    doubt = doubt / seen if seen > 0 else 0.0
    race = rule.trust < np.inf and (doubt > rule.trust or rule.trust == 0.0 or rule.linear)
    budget = capacity if race else min(max(demand, needed), capacity)
    even = capacity if race else budget / rule.servers
    floor = min(FLOOR_MOST, rule.floor * doubt) * budget / n
    left, free = budget, capacity
    for k in range(n):
        i, task = heap[k], tasks[heap[k]]
        first = task.done + 0.5 * rule.probe if task.done < PROBED * rule.probe else CRUMB if rule.lucky else 0.0
        if left > 0.0 and (task.price < np.inf or not thrifty):
            first = max(first, floor)
        given[i] = min(first, task.cap, free)
        left, free = left - given[i], free - given[i]
    left = max(left, 0.0)
    if needed <= capacity:
        for k in range(n):
            task = tasks[heap[k]]
            if task.keep and task.need >= min(even, task.cap):
                left -= _raise(given, heap[k], task.need, left)
    for k in range(n):
        task = tasks[heap[k]]
        if task.keep:
            left -= _raise(given, heap[k], min(max(even, task.need), task.cap), left)
    if left > 0.0:
        others, cheap = ZERO, heap[n:]
        for k in range(n):
            price[heap[k]] = tasks[heap[k]].price
            if price[heap[k]] < np.inf and given[heap[k]] < tasks[heap[k]].cap:
                others = insert(cheap, others, price, heap[k])
        for k in range(others):
            left -= _raise(given, cheap[k], tasks[cheap[k]].cap, left)
    spent = idle or not (sound or thrifty)  # on who is given up
    wanted, total = 0.0, 0.0
    for k in range(n):
        task = tasks[heap[k]]
        total += given[heap[k]]
        wanted += task.cap if (not task.keep) & ((task.price < np.inf) | spent) else 0.0
    full = max(0.0 if thrifty else max(SPARE * capacity, budget), 0.5 * wanted)
    left = (capacity if idle else min(full, capacity)) - total
    for k in range(n):
        task = tasks[heap[k]]
        if left <= 0.0:
            break
        if not task.keep and (task.price < np.inf or spent):
            left -= _raise(given, heap[k], task.cap, left)


@inner
def take_turns(tasks: Any, order: Indices, n: int, capacity: float, steep: float, given: Floats) -> None:
    """One resource in time, and nothing that is said of tasks has come true: by deadline, the hopeless last.

    Hopeless is whose error must fall faster than curves do, if it had all of its time: a line through what it has shown
    so far says less about what is to come.
    """
    left = capacity
    for last in (False, True):
        for k in range(n):
            task, slope = tasks[order[k]], 0.0
            if task.state == COMPUTING:
                if task.seen > 0:
                    above = ln(max(task.error, ERROR_LEAST) / task.target)
                    slope = above / ln(1.0 + task.cap * task.time / max(task.done, 1.0))
                if (slope > steep) == last:
                    left -= _raise(given, order[k], task.cap, left)


@inner
def _raise(given: Floats, i: int, level: float, left: float) -> float:
    """Give task i up to `level`, out of what is left; what it took."""
    more = min(max(level - given[i], 0.0), left)
    given[i] += more
    return float(more)
