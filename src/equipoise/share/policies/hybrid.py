"""Hybrid, our own: keep the most tasks that fit in time by what a success costs, pace them, and race when unsure.

It learns curves as a learner does, gives everyone a floor as Uniform does, and leaves tasks that cannot make it. Weak
where nothing can be foretold: on a crowded uplink it sends blindly, and on wild curves it is little better than SRTF.

Every step (docs/share.md, 3):

1. Estimate the work left of every task, with its uncertainty.
2. Send: the most transfers that arrive in time for their work (Moore and Hodgson), the most urgent first.
3. Price: the expected samples per success if a task is run until it pays to give up (a Gittins index).
4. Keep: the most tasks, those expected to arrive among them, whose prices fit before their deadlines.
5. Pace: compute only as much as the kept need with a margin; all of the site if estimates cannot be trusted.
6. Serve: probes and a floor for all, then who cannot wait, then by deadline, then what is left by price.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.errors import refuse_negative
from equipoise.kernels import Bools, Floats, Ints, kernel
from equipoise.share._arithmetic import quantile
from equipoise.share.divide import insert
from equipoise.share.estimators import Estimate, Estimator, Fit
from equipoise.share.estimators._base import outlook
from equipoise.share.estimators.familiar import Familiar
from equipoise.share.policies._learning import Learning
from equipoise.share.task import COMPUTING, DELAYED, PENDING, SENDING
from equipoise.share.view import Decision, Policy, Scene, View

PROBES = np.array([0.5, 1.0, 2.0, 4.0])  # samples in the first four steps, times `probe`
SEEN = 4  # observations after which an estimate counts in the trust of a seed
FLOOR_MOST = 0.9  # of the budget
GOLDEN = 0.6180339887498949  # its multiples are spread evenly over (0, 1)


@dataclass(frozen=True)
class Hybrid(Learning):
    """Constants were chosen on seeds 4000-4599, those of real curves on the fitting half of the recording.

    `margin`: standard deviations of work that pace leaves room for. `floor`: part of the budget that all who compute
    share, per unit of mean spread; with 0 who is not kept gets nothing, not even what is left over. `probe`: size of the
    first steps. `ahead`: steps of arrivals that are expected. `trust`: mean spread of ln work above which it races
    (0: always, infinity: never) - the fallback switch.
    """

    estimator: Estimator = field(default_factory=Familiar)
    margin: float = 2.5
    floor: float = 0.1
    probe: float = 0.5
    ahead: float = 16.0
    trust: float = 0.4

    label: ClassVar[str] = "Hybrid"
    colour: ClassVar[str] = "#2563eb"
    marker: ClassVar[str] = "circle"
    rank: ClassVar[int] = 15  # in tables and charts

    def __post_init__(self) -> None:
        refuse_negative("Hybrid", margin=self.margin, floor=self.floor, probe=self.probe, ahead=self.ahead)
        refuse_negative("Hybrid", finite=False, trust=self.trust)

    def start(self, scene: Scene) -> Policy:
        shape = (scene.seeds, scene.tasks)
        rule = Rule(
            margin=self.margin,
            floor=self.floor,
            probe=self.probe,
            ahead=self.ahead,
            trust=self.trust,
            delay=scene.site.delay,
            servers=float(len(scene.site.servers)),
        )
        return Planning(self.estimator.start(scene), rule, np.zeros(shape), np.ones(shape))


class Rule(NamedTuple):
    """The policy's constants, and two of the site's."""

    margin: float
    floor: float
    probe: float
    ahead: float
    trust: float
    delay: float
    servers: float


@dataclass
class Planning:
    """Hybrid in a run; it remembers what it last believed of every task, to expect more like them."""

    fit: Fit
    rule: Rule
    log_work: Floats
    spread: Floats

    def decide(self, view: View) -> Decision:
        self.fit.learn(view)
        estimate = self.fit.estimate(view)
        bandwidth, compute = np.zeros(view.state.shape), np.zeros(view.state.shape)
        ahead = outlook(self.fit, view, estimate)
        _decide(view, estimate, ahead, self.log_work, self.spread, self.rule, bandwidth, compute)
        return Decision(bandwidth, compute)


class Scratch(NamedTuple):
    """Room for the jobs of one seed: tasks that are here, and some that are expected; sorted by `due`."""

    task: Ints  # -1: expected
    due: Floats  # steps from now
    work: Floats  # samples
    kept: Bools
    heap: Ints
    order: Ints
    key: Floats


@kernel
def _decide(
    view: View,
    estimate: Estimate,
    ahead: Floats,
    log_work: Floats,
    spread: Floats,
    rule: Rule,
    bandwidth: Floats,
    compute: Floats,
) -> None:
    seeds, tasks = view.state.shape
    room = 3 * tasks
    jobs = Scratch(
        np.empty(room, np.int64),
        np.empty(room),
        np.empty(room),
        np.empty(room, np.bool_),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room),
    )
    price, need, keep = np.empty(tasks), np.empty(tasks), np.empty(tasks, np.bool_)
    for s in range(seeds):
        _send(view, estimate, s, rule, jobs, bandwidth[s])
        computing = 0
        for i in range(tasks):
            if SENDING <= view.state[s, i] <= COMPUTING:
                log_work[s, i], spread[s, i] = estimate.log_work[s, i], estimate.spread[s, i]
                price[i] = _price(ahead[s, i], view.task_cap[s, i] * _time(view, s, i, rule))
                computing += view.state[s, i] == COMPUTING
        if computing > 0:
            n = _gather(view, price, log_work[s], spread[s], s, rule, jobs)
            demand = _keep(jobs, n, view.capacity, keep)
            _serve(view, estimate, s, rule, demand, price, need, keep, jobs, compute[s])


@kernel
def _time(view: View, s: int, i: int, rule: Rule) -> float:
    """Steps in which a task may compute, less what it is expected to wait before."""
    time = float(view.deadline[s, i] - view.step)
    if view.state[s, i] == SENDING:
        time -= rule.delay + 1.0
    elif view.state[s, i] == DELAYED:
        time -= 0.5 * rule.delay
    return time


@kernel
def _send(view: View, estimate: Estimate, s: int, rule: Rule, jobs: Scratch, given: Floats) -> None:
    """The most transfers that leave time for the expected work, by when they must be through; then the smallest."""
    n = 0
    for i in range(view.state.shape[1]):
        if view.state[s, i] == SENDING:
            jobs.key[i] = _time(view, s, i, rule) - math.ceil(estimate.left[s, i] / view.task_cap[s, i])
            n = insert(jobs.order, n, jobs.key, i)
    for j in range(n):
        i = jobs.order[j]
        jobs.task[j], jobs.due[j], jobs.work[j] = i, jobs.key[i], view.data_left[s, i]
    keep_most(jobs.work, jobs.due, n, view.bandwidth, jobs.kept, jobs.heap)
    left = view.bandwidth
    for wanted in (True, False):
        m = 0
        for j in range(n):
            if jobs.kept[j] == wanted:
                m = insert(jobs.order, m, jobs.due if wanted else jobs.work, j)
        for k in range(m):
            j = jobs.order[k]
            given[jobs.task[j]] = min(jobs.work[j], left)
            left -= given[jobs.task[j]]


@kernel
def _price(ahead: Floats, most: float) -> float:
    """Expected samples per success, if the task is run until the best point to give up, at most `most` samples on.

    min over d of E[min(left, d)] / P(left <= d), over quantiles of the work left; infinite if success is out of reach.
    """
    price, spent, parts = np.inf, 0.0, len(ahead)
    for k in range(parts):
        more = max(ahead[k], 0.1)
        if more > most:
            break
        spent += more
        price = min(price, (spent + more * (parts - k - 1)) / (k + 1.0))
    return price


@kernel
def _gather(view: View, price: Floats, log_work: Floats, spread: Floats, s: int, rule: Rule, jobs: Scratch) -> int:
    """Everyone here at their price, and arrivals expected at the mean rate so far, like those that came; their number."""
    tasks = view.state.shape[1]
    n, came, slack = 0, 0, 0.0
    for i in range(tasks):
        if view.state[s, i] == PENDING:
            continue
        jobs.heap[came] = i  # those that came
        came += 1
        slack += view.deadline[s, i] - view.arrival[s, i]
        if view.state[s, i] <= COMPUTING:
            jobs.key[i] = _time(view, s, i, rule)
            n = insert(jobs.order, n, jobs.key, i)
    for j in range(n):
        i = jobs.order[j]
        jobs.task[j], jobs.due[j], jobs.work[j] = i, jobs.key[i], price[i]
    rate, slack = came / (view.step + 1.0), slack / came - rule.delay - 1.0
    for j in range(int(min(rate * rule.ahead, 2.0 * tasks))):
        like = jobs.heap[j % came]
        work = math.exp(log_work[like] + spread[like] * quantile((0.5 + GOLDEN * j) % 1.0))
        n = _insert_job(jobs, n, slack + (j + 1) / rate, work if work <= view.task_cap[s, like] * slack else np.inf)
    return n


@kernel
def _insert_job(jobs: Scratch, n: int, due: float, work: float) -> int:
    """Put an expected task among the n jobs, which ascend in `due`; the new n."""
    at = n
    while at > 0 and jobs.due[at - 1] > due:
        jobs.task[at], jobs.due[at], jobs.work[at] = jobs.task[at - 1], jobs.due[at - 1], jobs.work[at - 1]
        at -= 1
    jobs.task[at], jobs.due[at], jobs.work[at] = -1, due, work
    return n + 1


@kernel
def _keep(jobs: Scratch, n: int, capacity: float, keep: Bools) -> float:
    """Mark the tasks that are kept; the rate at which all that is kept gets done in time."""
    keep_most(jobs.work, jobs.due, n, capacity, jobs.kept, jobs.heap)
    done, demand = 0.0, 0.0
    for j in range(n):
        if jobs.task[j] >= 0:
            keep[jobs.task[j]] = jobs.kept[j]
        if jobs.kept[j]:
            done += jobs.work[j]
            demand = max(demand, done / max(jobs.due[j], 1.0))
    return demand


@kernel
def _serve(
    view: View,
    estimate: Estimate,
    s: int,
    rule: Rule,
    demand: float,
    price: Floats,
    need: Floats,
    keep: Bools,
    jobs: Scratch,
    given: Floats,
) -> None:
    """Pace, then give: probes and floor, who cannot wait, by deadline, what is left by price."""
    tasks = view.state.shape[1]
    computing, needed, doubt, seen = 0, 0.0, 0.0, 0
    for i in range(tasks):
        if view.state[s, i] == COMPUTING:
            computing += 1
            left, spread = estimate.left[s, i], estimate.spread[s, i]
            spare = rule.margin * spread * math.exp(estimate.log_work[s, i])
            need[i] = min((left + spare) / max(_time(view, s, i, rule), 1.0), view.task_cap[s, i])
            needed += need[i] if keep[i] else 0.0
            if view.observations[s, i] >= SEEN:
                doubt += spread
                seen += 1
    doubt = doubt / seen if seen > 0 else 0.0
    race = doubt > rule.trust or rule.trust == 0.0
    budget = view.capacity if race else min(max(demand, needed), view.capacity)
    even = np.inf if race else budget / rule.servers
    floor = min(FLOOR_MOST, rule.floor * doubt) * budget / computing
    left, n = budget, 0
    for i in range(tasks):
        if view.state[s, i] != COMPUTING:
            continue
        first = rule.probe * PROBES[view.observations[s, i]] if view.observations[s, i] < SEEN else 0.0
        given[i] = min(max(floor, first), view.task_cap[s, i], left)
        left -= given[i]
        if keep[i]:
            jobs.key[i] = float(view.deadline[s, i])
            n = insert(jobs.order, n, jobs.key, i)
    if needed <= view.capacity:
        for k in range(n):
            i = jobs.order[k]
            if need[i] >= min(even, view.task_cap[s, i]):
                left -= _raise(given, i, need[i], left)
    for k in range(n):
        i = jobs.order[k]
        left -= _raise(given, i, min(max(even, need[i]), view.task_cap[s, i]), left)
    if left > 0.0:
        others = 0
        for i in range(tasks):
            if view.state[s, i] == COMPUTING and (keep[i] or rule.floor > 0.0):
                others = insert(jobs.order, others, price, i)
        for k in range(others):
            left -= _raise(given, jobs.order[k], view.task_cap[s, jobs.order[k]], left)


@kernel
def _raise(given: Floats, i: int, level: float, left: float) -> float:
    """Give task i up to `level`, out of what is left; what it took."""
    more = min(max(level - given[i], 0.0), left)
    given[i] += more
    return float(more)


@kernel
def keep_most(work: Floats, due: Floats, n: int, rate: float, kept: Bools, heap: Ints) -> None:
    """Keep as many of n jobs, which ascend in `due`, as can be done in time at `rate` (Moore and Hodgson).

    The largest give way. A job that would be late even alone is never kept, nor one whose work is infinite. `heap` is
    room for n indices.
    """
    size, total = 0, 0.0
    for j in range(n):
        kept[j] = False
        if (
            work[j] > rate * due[j] + 1e-9 or work[j] == np.inf
        ):  # added to the total, it would swallow the rest's digits
            continue
        kept[j] = True
        total += work[j]
        size = _push(heap, size, j, work)
        if total > rate * due[j] + 1e-9:
            largest, size = _pop(heap, size, work)
            kept[largest] = False
            total -= work[largest]


@kernel
def _push(heap: Ints, size: int, j: int, work: Floats) -> int:
    """Put j into a heap whose root has the most work; the new size."""
    k = size
    while k > 0 and work[heap[(k - 1) // 2]] < work[j]:
        heap[k] = heap[(k - 1) // 2]
        k = (k - 1) // 2
    heap[k] = j
    return size + 1


@kernel
def _pop(heap: Ints, size: int, work: Floats) -> tuple[int, int]:
    """Take the root; (it, the new size)."""
    root, size = heap[0], size - 1
    j, k = heap[size], 0
    while 2 * k + 1 < size:
        child = 2 * k + 1
        if child + 1 < size and work[heap[child + 1]] > work[heap[child]]:
            child += 1
        if work[heap[child]] <= work[j]:
            break
        heap[k] = heap[child]
        k = child
    heap[k] = j
    return root, size
