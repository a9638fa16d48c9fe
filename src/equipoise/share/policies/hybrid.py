"""Hybrid, our own: keep the most tasks that fit, pace them once beliefs have held, leave nothing idle before that.

It learns curves as a learner does, and gives what would stand idle to everybody as Uniform does; what it believes of a
task counts only as far as tasks of the same run have borne it out. Weak where nothing can be foretold: on a crowded
uplink it sends blindly, and on wild curves it is little better than SRTF.

Every step (docs/share.md, 3):

1. Estimate the work left of every task, with its uncertainty; judge what was said of tasks that are done by now.
2. Price: the expected samples per success if a task is run until it pays to give up (a Gittins index).
3. Send: the most transfers that arrive in time for their work (Moore and Hodgson), the most urgent first.
4. Keep: the most tasks, those expected to arrive among them, whose prices fit before their deadlines.
5. Pace: compute only as much as the kept need with a margin; all of the site until estimates have been borne out.
6. Serve: probes and a floor for all, then who cannot wait, then by deadline, then by price; then what is idle to all.
"""

import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.errors import refuse_negative
from equipoise.kernels import INDEX, ZERO, Bools, Floats, Indices, Ints, inner, kernel
from equipoise.share._arithmetic import exp, ln
from equipoise.share.divide import insert
from equipoise.share.estimators import Estimate, Estimator, Fit
from equipoise.share.estimators._base import PARTS, SURE
from equipoise.share.estimators.bayes import BayesFit
from equipoise.share.estimators.familiar import Familiar
from equipoise.share.policies import _prices
from equipoise.share.policies._beliefs import (
    CERTAIN,
    MEAN,
    MOVED,
    PASSED,
    RIGHT,
    SD,
    SHARE,
    TESTS,
    WIDE,
    Beliefs,
    chance,
    judge,
    known_of,
)
from equipoise.share.policies._learning import Learning
from equipoise.share.policies._moore_hodgson import keep_most
from equipoise.share.policies._prices import LEFT_LEAST, ROOM, WIDTH, look_ahead, mean_of, price_all, price_mixed
from equipoise.share.task import COMPUTING, DELAYED, PENDING, SENDING
from equipoise.share.view import Decision, Policy, Scene, View

PROBED = 7.5  # times `probe`: samples in the first four steps, of which each doubles the one before
SEEN = 4  # observations after which an estimate counts in the trust of a seed
FLOOR_MOST = 0.9  # of the budget
MIDDLE = 3  # the quantile of the work left that transfers leave time for: 3 1/2 of PARTS
IMPATIENCE = 0.33  # tests passed at which half of the time left is planned for
DRIFT = 4.0  # times that the mean move of ln work in tests so far is expected to come again
VAGUE = 0.7  # of a belief in the estimator remains where it says as little as ignorance would
SOUND = 0.85  # share of tasks that the estimator was right about, from which others are given up on its word
HOPE = 0.1  # least P(success) worth energy
GIVEN = 15.0  # samples after which a task may be given up
SPARE = 0.4  # of the site: how full the tasks that are not kept may make it
IDLE = 6.0  # tasks per server on average, at most, on a site that is quiet
STEEP = 2.0  # times the mean slope that is told: what hardly any curve has (tuned on bundles from seed 1000 on)
ERROR_LEAST = 1e-9
EXPECTED = INDEX(2**40)  # a job that is not here yet
CRUMB = 0.001  # samples; a step with any is a chance to be seen at the target
GOLDEN = np.array([NormalDist().inv_cdf((0.5 + 0.6180339887498949 * j) % 1.0) for j in range(256)])  # spread evenly


@dataclass(frozen=True)
class Hybrid(Learning):
    """Constants were chosen on seeds 4000-4599, those of real curves on the fitting half of the recording.

    `margin`: standard deviations of work that pace leaves room for. `floor`: part of the budget that all who compute
    share, per unit of mean spread. `probe`: size of the first steps. `ahead`: steps of arrivals that are expected.
    `trust`: mean spread of ln work above which it races (0: always, infinity: never) - the fallback switch. `thrift`: the
    least P(success) worth energy where energy is linear in work and there is much to do: more saves energy, and loses tasks.
    """

    estimator: Estimator = field(default_factory=Familiar)
    margin: float = 2.5
    floor: float = 0.03
    probe: float = 0.5
    ahead: float = 16.0
    trust: float = 0.4
    thrift: float = 0.4

    label: ClassVar[str] = "Hybrid"
    colour: ClassVar[str] = "#2563eb"
    marker: ClassVar[str] = "circle"
    rank: ClassVar[int] = 15  # in tables and charts

    def __post_init__(self) -> None:
        refuse_negative("Hybrid", margin=self.margin, floor=self.floor, probe=self.probe, ahead=self.ahead)
        refuse_negative("Hybrid", finite=False, trust=self.trust, thrift=self.thrift)

    def start(self, scene: Scene) -> Policy:
        site, shape = scene.site, (scene.seeds, scene.tasks)
        rule = Rule(
            margin=self.margin,
            floor=self.floor,
            probe=self.probe,
            ahead=self.ahead,
            trust=self.trust,
            thrift=self.thrift,
            told=self.clairvoyant,
            linear=site.power not in ("pooled", "per_node"),
            lucky=site.success == "observed",
            decided=site.uplink == "decided",
            delay=float(site.delay),
            servers=float(len(site.servers)),
            steep=STEEP * scene.prior.mean[1],
        )
        fit = self.estimator.start(scene)
        if isinstance(fit, BayesFit):
            fit.whole = False  # means come from the quantiles that prices need
        return Planning(fit, rule, Memory.start(shape), Beliefs.start(*shape))


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


@dataclass
class Planning:
    """Hybrid in a run; it remembers what it last believed of every task, to expect more like them."""

    fit: Fit
    rule: Rule
    memory: "Memory"
    beliefs: Beliefs

    def decide(self, view: View) -> Decision:
        self.fit.learn(view)
        estimate = self.fit.estimate(view)
        bandwidth, compute = np.zeros(view.state.shape), np.zeros(view.state.shape)
        own = getattr(self.fit, "outlook", None)
        ahead = NO_OUTLOOK if own is None else own(view, estimate)
        _decide(view, estimate, ahead, self.memory, self.beliefs, self.rule, bandwidth, compute)
        return Decision(bandwidth, compute)


NO_OUTLOOK = np.empty((0, 0, PARTS))


class Memory(NamedTuple):
    """What it keeps of the tasks from step to step."""

    log_work: Floats  # last believed, and
    spread: Floats
    order: Indices  # who is here, by the time left
    here: Ints  # how many, per seed
    listed: Bools

    @classmethod
    def start(cls, shape: tuple[int, int]) -> "Memory":
        order, here = np.zeros(shape, INDEX), np.zeros(shape[0], np.int64)
        return cls(np.zeros(shape), np.ones(shape), order, here, np.zeros(shape, np.bool_))


class Plan(NamedTuple):
    """Room for one seed, by task: what is believed and planned."""

    time: Floats  # steps in which it may compute
    price: Floats
    middle: Floats  # of the work left
    left: Floats  # its mean
    need: Floats  # samples per step
    keep: Bools


class Jobs(NamedTuple):
    """Room for the jobs of one seed: tasks that are here, and some that are expected; sorted by `due`."""

    task: Indices  # EXPECTED: none that is here
    due: Floats  # steps from now
    work: Floats  # samples
    kept: Bools
    heap: Indices
    order: Indices
    key: Floats
    came: Indices  # the tasks that have arrived


@kernel
def _decide(
    view: View,
    estimate: Estimate,
    ahead: Floats,
    memory: Memory,
    beliefs: Beliefs,
    rule: Rule,
    bandwidth: Floats,
    compute: Floats,
) -> None:
    (seeds, tasks), cap = view.state.shape, view.task_cap
    room = 3 * tasks + 8
    jobs = Jobs(
        np.empty(room, INDEX),
        np.empty(room),
        np.empty(room),
        np.empty(room, np.bool_),
        np.empty(room, INDEX),
        np.empty(room, INDEX),
        np.ones(room),
        np.empty(room, INDEX),
    )
    plan = Plan(
        np.empty(tasks), np.empty(tasks), np.empty(tasks), np.empty(tasks), np.empty(tasks), np.empty(tasks, np.bool_)
    )
    t, free = np.ones(ROOM), np.ones(ROOM)
    for s in range(seeds):
        seed, note, given = beliefs.seed[s], beliefs.note[s], compute[s]
        came, slack, usual, shown = _list(view, s, memory, jobs)
        judged = not rule.told and len(ahead) == 0  # votes of past curves are beliefs of their own kind
        if judged and came > 0:
            judge(view, s, jobs.heap, shown, usual / came, estimate, note, seed, rule.lucky)
        sound = rule.told or (judged and seed[RIGHT] >= SOUND)
        quiet = slack <= IDLE * rule.servers * (view.step + 1.0)  # tasks that are here on average
        thrifty = rule.linear and not quiet
        strict = sound or (judged and thrifty and seed[RIGHT] >= SHARE)
        n, computing, likely = memory.here[s], 0, chance(seed[RIGHT], 0.0) if judged else 1.0
        for start in range(0, n, WIDTH):
            count, doubted = min(n - start, WIDTH), False
            for j in range(count):
                i, sure = memory.order[s, start + j], likely
                if judged and estimate.spread[s, i] >= WIDE:
                    sure *= VAGUE
                if not np.isfinite(estimate.log_work[s, i]):  # it says nothing yet
                    sure, estimate.log_work[s, i], estimate.spread[s, i] = 0.0, seed[MEAN], seed[SD]
                doubted |= sure < CERTAIN
                plan.time[i] = _time(view, s, i, rule)
                t[_prices.MEAN + j], t[_prices.SD + j] = estimate.log_work[s, i], max(estimate.spread[s, i], SURE)
                t[_prices.DONE + j], t[_prices.MOST + j], t[_prices.SURE + j] = (
                    view.samples[s, i],
                    cap[s, i] * plan.time[i],
                    sure,
                )
            if len(ahead) > 0:
                for j in range(count):
                    for k in range(PARTS):
                        t[WIDTH * k + j] = ahead[s, memory.order[s, start + j], k]
            else:
                look_ahead(t, count)
            price_all(t, count)
            if doubted:
                for j in range(count):  # what is known of the works of this run
                    i = memory.order[s, start + j]
                    free[_prices.MEAN + j], free[_prices.SD + j] = known_of(note, i, t[_prices.DONE + j], seed)
                    free[_prices.DONE + j] = t[_prices.DONE + j]
                look_ahead(free, count)
            for j in range(count):
                i, sure, middle = (
                    memory.order[s, start + j],
                    t[_prices.SURE + j],
                    max(t[WIDTH * MIDDLE + j], LEFT_LEAST),
                )
                if sure < CERTAIN:
                    middle = price_mixed(t, j, (MIDDLE + 0.5) / PARTS, free)
                if sure < 0.5:
                    estimate.log_work[s, i], estimate.spread[s, i] = free[_prices.MEAN + j], free[_prices.SD + j]
                plan.left[i] = t[_prices.SPENT + j] if sure >= 0.5 else mean_of(free, j)
                lost = (
                    strict and t[_prices.DONE + j] >= GIVEN and t[_prices.HOPE + j] < (rule.thrift if thrifty else HOPE)
                )
                plan.price[i], plan.middle[i] = np.inf if lost else t[_prices.PRICE + j], middle
                memory.log_work[s, i], memory.spread[s, i] = estimate.log_work[s, i], estimate.spread[s, i]
                computing += view.state[s, i] == COMPUTING
        _sort(memory.order[s], n, plan.time, jobs.order)
        if judged and not sound and rule.servers == 1.0:
            _take_turns(view, cap[s], s, n, plan, jobs, rule.steep, given)
        elif computing > 0:
            expected = _expect(jobs, n, came, slack, view.step, cap[s], plan, memory, s, rule)
            demand = _keep(jobs, n + expected, view.capacity, plan.keep)
            _serve(view, cap[s], estimate, s, n, rule, sound, quiet, seed, demand, plan, jobs, given)
        if rule.decided:
            _send(view, cap[s], s, plan, jobs, bandwidth[s])


@inner
def _list(view: View, s: int, memory: Memory, jobs: Jobs) -> tuple[int, float, float, int]:
    """Who has come, and in `heap` whom the last step showed; who is here is brought up to date.

    Gives how many have come, their time in all, the samples that they can compute in it, and how many were shown.
    """
    state, observed, listed, order = view.state[s], view.observed[s], memory.listed[s], memory.order[s]
    came, slack, usual, shown, new = ZERO, 0.0, 0.0, ZERO, ZERO
    for i in range(len(state)):  # without a branch: where they are is hard to predict
        jobs.came[came] = jobs.heap[shown] = jobs.task[new] = i
        came += state[i] != PENDING
        shown += observed[i]
        new += (state[i] >= SENDING) & (state[i] <= COMPUTING) & (not listed[i])
        time = float(view.deadline[s, i] - view.arrival[s, i])
        slack += time
        usual += time * view.task_cap[s, i]
    n = ZERO
    for k in range(memory.here[s]):
        i = order[k]
        order[n] = i
        n += state[i] <= COMPUTING
    for k in range(new):
        order[n], listed[jobs.task[k]] = jobs.task[k], True
        n += 1
    memory.here[s] = n
    return came, slack, usual, shown


@inner
def _sort(order: Indices, n: int, key: Floats, copy: Indices) -> None:
    """The first n in ascending key, equals by number; they nearly are. Also into `copy`."""
    for k in range(1, n):
        i, at = order[k], k
        while at > 0 and (key[order[at - 1]] > key[i] or (key[order[at - 1]] == key[i] and order[at - 1] > i)):
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
    for k in range(n):
        copy[k] = order[k]


@inner
def _time(view: View, s: int, i: int, rule: Rule) -> float:
    """Steps in which a task may compute, less what it is expected to wait before."""
    time = float(view.deadline[s, i] - view.step)
    if view.state[s, i] == SENDING:
        time -= rule.delay + 1.0
    elif view.state[s, i] == DELAYED:
        time -= 0.5 * rule.delay
    return time


@inner
def _send(view: View, cap: Floats, s: int, plan: Plan, jobs: Jobs, given: Floats) -> None:
    """The most transfers that leave time for the likely work, by when they must be through; then the smallest."""
    n = ZERO
    for i in range(len(cap)):
        if view.state[s, i] == SENDING:
            jobs.key[i] = plan.time[i] - math.ceil(plan.middle[i] / cap[i])
            n = insert(jobs.order, n, jobs.key, i)
    for j in range(n):
        i = jobs.order[j]
        jobs.task[j], jobs.due[j], jobs.work[j] = i, jobs.key[i], view.data_left[s, i]
    keep_most(jobs.work, jobs.due, n, view.bandwidth, jobs.kept, jobs.heap)
    left = view.bandwidth
    for wanted in (True, False):
        m = ZERO
        for j in range(n):
            if jobs.kept[j] == wanted:
                m = insert(jobs.order, m, jobs.due if wanted else jobs.work, j)
        for k in range(m):
            j = jobs.order[k]
            given[jobs.task[j]] = min(jobs.work[j], left)
            left -= given[jobs.task[j]]


@inner
def _expect(
    jobs: Jobs, n: int, came: int, slack: float, step: int, cap: Floats, plan: Plan, memory: Memory, s: int, rule: Rule
) -> int:
    """Jobs of the n who are here at their price, and of arrivals at the mean rate so far, like those that came; of these
    the number."""
    for j in range(n):
        i = jobs.order[j]
        jobs.task[j], jobs.due[j], jobs.work[j] = i, plan.time[i], plan.price[i]
    rate, slack = came / (step + 1.0), slack / came - rule.delay - 1.0
    expected = int(min(rate * rule.ahead, 2.0 * len(cap)))
    like = ZERO
    for j in range(expected):
        i = jobs.came[like]
        jobs.key[j] = memory.log_work[s, i] + memory.spread[s, i] * GOLDEN[j % len(GOLDEN)]
        like = like + 1 if like + 1 < came else ZERO
    for j in range((expected + 7) // 8 * 8):  # whole vectors; what they compute beyond is not used
        jobs.key[j] = exp(jobs.key[j])
    last, j, apart = n - 1, expected - 1, 1.0 / rate
    for at in range(n + expected - 1, -1, -1):  # both ascend in `due`: merged from the end
        if j < 0:
            break
        due = slack + (j + 1) * apart
        if last >= 0 and jobs.due[last] > due:
            jobs.task[at], jobs.due[at], jobs.work[at] = jobs.task[last], jobs.due[last], jobs.work[last]
            last -= 1
        else:
            work = jobs.key[j]
            jobs.task[at], jobs.due[at] = EXPECTED, due
            jobs.work[at] = work if work <= cap[jobs.came[j % came]] * slack else np.inf
            j -= 1
    return expected


@inner
def _keep(jobs: Jobs, n: int, capacity: float, keep: Bools) -> float:
    """Mark the tasks that are kept; the rate at which all that is kept gets done in time."""
    keep_most(jobs.work, jobs.due, n, capacity, jobs.kept, jobs.heap)
    done, demand = 0.0, 0.0
    for j in range(n):
        if jobs.task[j] != EXPECTED:
            keep[jobs.task[j]] = jobs.kept[j]
        if jobs.kept[j]:
            done += jobs.work[j]
            demand = max(demand, done / max(jobs.due[j], 1.0))
    return demand


@inner
def _serve(
    view: View,
    cap: Floats,
    estimate: Estimate,
    s: int,
    here: int,
    rule: Rule,
    sound: bool,
    quiet: bool,
    seed: Floats,
    demand: float,
    plan: Plan,
    jobs: Jobs,
    given: Floats,
) -> None:
    """Pace, then give: probes and floor, who cannot wait, by deadline, by price, and what is idle to all by deadline."""
    keep, need, n = plan.keep, plan.need, 0
    idle, thrifty = rule.lucky and quiet, rule.linear and not quiet
    drift = exp(max(DRIFT * seed[MOVED] / (seed[TESTS] + 2.0), 0.0))
    patience = 1.0 if rule.told else seed[PASSED] / (seed[PASSED] + IMPATIENCE)
    needed, doubt, seen = 0.0, 0.0, 0
    for k in range(here):
        i = jobs.order[k]
        if view.state[s, i] != COMPUTING:
            continue
        jobs.order[n] = i
        n += 1
        left, spread = plan.left[i], estimate.spread[s, i]
        spare = rule.margin * spread * exp(estimate.log_work[s, i])
        need[i] = min((left + spare) * drift / max(plan.time[i] * patience, 1.0), cap[i])
        needed += need[i] if keep[i] else 0.0
        if view.observations[s, i] >= SEEN:
            doubt += spread
            seen += 1
    doubt = doubt / seen if seen > 0 else 0.0
    race = rule.trust < np.inf and (doubt > rule.trust or rule.trust == 0.0 or rule.linear)
    budget = view.capacity if race else min(max(demand, needed), view.capacity)
    even = view.capacity if race else budget / rule.servers
    floor = min(FLOOR_MOST, rule.floor * doubt) * budget / n
    left, room = budget, view.capacity
    for k in range(n):
        i = jobs.order[k]
        done = view.samples[s, i]
        first = done + 0.5 * rule.probe if done < PROBED * rule.probe else CRUMB if rule.lucky else 0.0
        if left > 0.0 and (plan.price[i] < np.inf or not thrifty):
            first = max(first, floor)
        given[i] = min(first, cap[i], room)
        left -= given[i]
        room -= given[i]
    left = max(left, 0.0)
    if needed <= view.capacity:
        for k in range(n):
            i = jobs.order[k]
            if keep[i] and need[i] >= min(even, cap[i]):
                left -= _raise(given, i, need[i], left)
    for k in range(n):
        i = jobs.order[k]
        if keep[i]:
            left -= _raise(given, i, min(max(even, need[i]), cap[i]), left)
    if left > 0.0:
        others = ZERO
        for k in range(n):
            if plan.price[jobs.order[k]] < np.inf:
                others = insert(jobs.heap, others, plan.price, jobs.order[k])
        for k in range(others):
            i = jobs.heap[k]
            left -= _raise(given, i, cap[i], left)
    spent = idle or not (sound or thrifty)  # on who is given up
    others, wanted = 0, 0.0
    for k in range(n):
        i = jobs.order[k]
        if not keep[i] and (plan.price[i] < np.inf or spent):
            jobs.heap[others] = i
            wanted += cap[i]
            others += 1
    full = max(0.0 if thrifty else max(SPARE * view.capacity, budget), 0.5 * wanted)
    left = (view.capacity if idle else min(full, view.capacity)) - _sum(given)
    for k in range(others):
        left -= _raise(given, jobs.heap[k], cap[jobs.heap[k]], max(left, 0.0))


@inner
def _take_turns(view: View, cap: Floats, s: int, n: int, plan: Plan, jobs: Jobs, steep: float, given: Floats) -> None:
    """One resource in time, and nothing that is said of tasks has come true: by deadline, the hopeless last.

    Hopeless is whose error must fall faster than curves do, if it had all of its time: a line through what it has shown
    so far says less about what is to come.
    """
    left = view.capacity
    for last in (False, True):
        for k in range(n):
            i, slope = jobs.order[k], 0.0
            if view.state[s, i] == COMPUTING:
                if view.observations[s, i] > 0:
                    above = ln(max(view.error[s, i], ERROR_LEAST) / view.target[s, i])
                    slope = above / ln(1.0 + cap[i] * plan.time[i] / max(view.samples[s, i], 1.0))
                if (slope > steep) == last:
                    left -= _raise(given, i, cap[i], left)


@inner
def _sum(values: Floats) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


@inner
def _raise(given: Floats, i: int, level: float, left: float) -> float:
    """Give task i up to `level`, out of what is left; what it took."""
    more = min(max(level - given[i], 0.0), left)
    given[i] += more
    return float(more)
