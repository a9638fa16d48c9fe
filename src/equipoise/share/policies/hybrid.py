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

from dataclasses import dataclass, field

import numpy as np

from equipoise.errors import refuse_negative
from equipoise.kernels import Floats, borrowed, kernel
from equipoise.share.estimators import Estimate, Estimator, Fit
from equipoise.share.estimators._base import PARTS, SURE
from equipoise.share.estimators.bayes import BayesFit
from equipoise.share.estimators.familiar import Familiar
from equipoise.share.policies import _beliefs, _plans, _prices
from equipoise.share.policies._beliefs import CERTAIN, MEAN, RIGHT, SD, SHARE, WIDE, Beliefs, chance, known_of
from equipoise.share.policies._learning import Learning
from equipoise.share.policies._plans import Memory, Rule
from equipoise.share.policies._prices import DONE, HOPE, LEAST, LEFT_LEAST, MOST, PRICE, SPENT, WIDTH, look_ahead
from equipoise.share.task import COMPUTING
from equipoise.share.view import Decision, Policy, Scene, View

MIDDLE = 3  # the quantile of the work left that transfers leave time for: 3 1/2 of PARTS
VAGUE = 0.7  # of a belief in the estimator remains where it says as little as ignorance would
SOUND = 0.85  # share of tasks that the estimator was right about, from which others are given up on its word
LEAST_HOPE = 0.1  # P(success) worth energy
MINORITY = 0.5  # of tasks, the most that are given up on the word of an estimator that was never tested
GIVEN = 15.0  # samples after which a task may be given up
IDLE = 6.0  # tasks per server on average, at most, on a site that is quiet
STEEP = 2.0  # times the mean slope that is told: what hardly any curve has (tuned on bundles from seed 1000 on)
NO_OUTLOOK = np.empty((0, 0, PARTS))


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

    label, colour, marker, rank = "Hybrid", "#2563eb", "circle", 15

    def __post_init__(self) -> None:
        refuse_negative("Hybrid", margin=self.margin, floor=self.floor, probe=self.probe, ahead=self.ahead)
        refuse_negative("Hybrid", finite=False, trust=self.trust, thrift=self.thrift)

    def start(self, scene: Scene) -> Policy:
        site, shape = scene.site, (scene.seeds, scene.tasks)
        chosen = (self.margin, self.floor, self.probe, self.ahead, self.trust, self.thrift)
        rule = Rule(
            *chosen,
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
        return Planning(fit, rule, Memory.start(*shape), Beliefs.start(*shape))


@dataclass
class Planning:
    """Hybrid in a run; it remembers what it last believed of every task, to expect more like them."""

    fit: Fit
    rule: Rule
    memory: Memory
    beliefs: Beliefs

    def decide(self, view: View) -> Decision:
        self.fit.learn(view)
        estimate = self.fit.estimate(view)
        decision = Decision(np.zeros(view.state.shape), np.zeros(view.state.shape))
        own = getattr(self.fit, "outlook", None)
        ahead = NO_OUTLOOK if own is None else own(view, estimate)
        _decide(view, estimate, ahead, self.memory, self.beliefs, self.rule, decision)
        return decision


@kernel
def _decide(
    view: View, estimate: Estimate, ahead: Floats, memory: Memory, beliefs: Beliefs, rule: Rule, decision: Decision
) -> None:
    view, estimate, memory, beliefs, decision = borrowed((view, estimate, memory, beliefs, decision))
    _plans.look(view, estimate, rule.delay, memory)
    judged = not rule.told and len(ahead) == 0  # votes of past curves are beliefs of their own kind
    step, capacity, (jobs, heap, key, t, free) = view.step, view.capacity, memory.room
    for s in range(len(memory.crowd)):
        tasks, crowd, order, given = memory.task[s], memory.crowd[s], memory.order[s], decision.compute[s]
        seed, note = beliefs.seed[s], beliefs.note[s]
        n, computing = crowd.here, 0
        if judged and crowd.came > 0:
            _beliefs.judge(tasks, memory.shown[s], crowd.shown, crowd.usual / crowd.came, step, note, seed)
        tried, lost = seed[_beliefs.ENDED], 0.0  # tasks: done by now or begun, and not worth to go on with
        sound = rule.told or (judged and seed[RIGHT] >= SOUND)
        quiet = crowd.slack <= IDLE * rule.servers * (step + 1.0)  # tasks that are here on average
        thrifty = rule.linear and not quiet
        strict = sound or (judged and thrifty and seed[RIGHT] >= SHARE)
        hope, likely = rule.thrift if thrifty else LEAST_HOPE, chance(seed[RIGHT], 1.0) if judged else 1.0
        for start in range(0, n, WIDTH):
            count, doubted = min(n - start, WIDTH), False
            for j in range(count):
                task, sure = tasks[order[start + j]], likely
                if judged and task.spread >= WIDE:
                    sure *= VAGUE
                if not np.isfinite(task.log_work):  # nothing is said yet
                    sure, task.log_work, task.spread = 0.0, seed[MEAN], seed[SD]
                doubted |= sure < CERTAIN
                t[_prices.MEAN + j], t[_prices.SD + j], t[_prices.SURE + j] = (
                    task.log_work,
                    max(task.spread, SURE),
                    sure,
                )
                t[DONE + j], t[LEAST + j], t[MOST + j] = task.done, task.done, task.cap * task.time
            if len(ahead) > 0:
                for j in range(count):
                    for k in range(PARTS):
                        t[WIDTH * k + j] = ahead[s, order[start + j], k]
            else:
                look_ahead(t, count)
            _prices.price_all(t, count)
            if doubted:
                for j in range(count):  # what is known of the works of this run
                    free[DONE + j] = t[DONE + j]
                    mean, sd, free[LEAST + j] = known_of(note, order[start + j], t[DONE + j], seed)
                    free[_prices.MEAN + j], free[_prices.SD + j] = mean, sd
                look_ahead(free, count)
            for j in range(count):
                task, sure = tasks[order[start + j]], t[_prices.SURE + j]
                task.middle, task.left = max(t[WIDTH * MIDDLE + j], LEFT_LEAST), t[SPENT + j]
                if sure < CERTAIN:
                    task.middle = _prices.price_mixed(t, j, (MIDDLE + 0.5) / PARTS, free)
                if sure < 0.5:
                    task.log_work, task.spread, task.left = free[_prices.MEAN + j], free[_prices.SD + j], 0.0
                    for k in range(PARTS):
                        task.left += free[WIDTH * k + j] / PARTS
                task.price, task.lost = t[PRICE + j], strict and t[DONE + j] >= GIVEN and t[HOPE + j] < hope
                if task.state == COMPUTING:
                    computing += 1
                    tried += t[DONE + j] >= GIVEN
                    lost += task.lost
        if sound or seed[RIGHT] > SHARE or lost <= MINORITY * tried:
            for k in range(n):
                if tasks[order[k]].lost:
                    tasks[order[k]].price = np.inf
        _plans.by_time(tasks, order, n)
        if judged and not sound and rule.servers == 1.0:
            _plans.take_turns(tasks, order, n, capacity, rule.steep, given)
        elif computing > 0:
            count = _plans.expect(tasks, order, memory.came[s], crowd, step, rule, jobs, key)
            demand = _plans.keep(tasks, order, count, capacity, jobs, heap)
            _plans.serve(tasks, order, n, capacity, demand, rule, sound, quiet, seed, heap, key, given)
        if rule.decided:
            _plans.send(tasks, order, n, view.bandwidth, jobs, heap, key, decision.bandwidth[s])
