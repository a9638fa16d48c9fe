"""The learning half of a round: every node averages its neighbourhood, and trackers lead downhill (docs/train.md, 3.7).

Node j says its model y_j; meeting i answers with the mean m_i of what it heard and its own; a node's average is the mean
of the answers around it. Trackers take up what disagreement costs, so no second stream is needed to mix them, and their
sum is the sum of gradients throughout. Models and trackers lie side by side in one row per node, [y | z].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equipoise.kernels import kernel
from equipoise.parallel import threads_for, together
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.channel import Channel, Wire, send
from equipoise.train.links import Neighbours, Round
from equipoise.train.method import Method
from equipoise.train.sampler import Sampler
from equipoise.train.steps import Steps

PACE = 0.05  # e-folds per round in which models settle at best
FOUR = 4  # parameters that fit a register each
RUNAWAY = 1e12  # growth of models or trackers that is a divergence


class Circle(NamedTuple):
    """Who meets whom in one round, and what they hold, as the kernels see it."""

    near: Neighbours
    slots: Ints
    senders: Ints
    trust: Floats  # 1 / (degree + 1)
    trusts: Floats  # of each entry's neighbour
    around: Floats  # sum over a node's neighbours
    plain: Ints
    repeats: Ints
    said: Wire
    answered: Wire
    per_link: bool
    alpha: float
    momentum: float
    calm: float
    heard: Floats  # sum of what a node heard, each with its weight
    means: Floats
    average: Floats  # ybar of the last round
    yz: Floats
    gradient: Floats


class Averaging:
    """Every node's model and tracker, and where its average was a round ago."""

    KEPT = ("yz", "gradient", "average")

    def __init__(self, sampler: Sampler, method: Method, steps: Steps, *, slots: int, start: Floats) -> None:
        assert steps.alpha is not None
        model, self.method = sampler.model, method
        self.sampler, self.model, self.alpha, self.momentum = sampler, model, steps.alpha, steps.momentum
        nodes, m = model.nodes, model.size
        self.yz = np.zeros((nodes, 2 * m))
        self.yz[:, :m] = start
        self.gradient = np.array(sampler.at(self.models, 0))  # a copy: it is written over
        if method.tracker_start == "gradient":  # or the invariant is off for ever (docs/train.md, 3.1)
            self.yz[:, m:] = self.gradient
        self.average = self.models.copy()
        self.channel = Channel(method.quantizer, width=m, parts=1, slots=slots, ratio=self._first_step(), pace=PACE)
        self.meetings = Channel(method.quantizer, width=m, parts=1, slots=slots, ratio=self._first_step(), pace=PACE)
        self.plain = self.channel.plain
        self.heard, self.means = np.zeros((nodes, m)), np.zeros((nodes, m))
        self.calm = RUNAWAY * (1.0 + float(np.abs(self.yz).max()))
        self._static_circle: Circle | None = None

    def _first_step(self) -> float:
        """The size of a first move: the scale of messages about models that begin at 0."""
        return self.alpha * float(np.abs(self.trackers).max()) or 1.0

    @property
    def models(self) -> Floats:
        """One row of parameters per node."""
        return self.yz[:, : self.model.size]

    @property
    def trackers(self) -> Floats:
        """Each node's estimate of the mean gradient."""
        return self.yz[:, self.model.size :]

    def grow(self, slots: int) -> None:
        """Room for pairs that have just met."""
        self.channel.grow(slots)
        self.meetings.grow(slots)

    def circle(self, round: Round) -> Circle:
        """Everything a round needs."""
        if self._static_circle is not None:
            return self._static_circle
        degree = round.topology.degree
        made = Circle(
            near=round.neighbours,
            slots=round.slots,
            senders=round.senders,
            trust=round.trust,
            trusts=round.trust_by_entry,
            around=round.trust_around,
            plain=self.plain,
            repeats=round.kept("codes of meetings", lambda: self.meetings.repeats(np.maximum(degree, 2))),
            said=self.channel.wire,
            answered=self.meetings.wire,
            per_link=round.per_link,
            alpha=self.alpha,
            momentum=self.momentum,
            calm=self.calm,
            heard=self.heard,
            means=self.means,
            average=self.average,
            yz=self.yz,
            gradient=self.gradient,
        )
        if not round.per_link:
            self._static_circle = made
        return made

    def advance(self, round: Round, number: int) -> bool:
        """One round. False when models or trackers have run away: the run has diverged."""
        circle = self.circle(round)
        if self.method.ramp is not None:
            circle = circle._replace(alpha=self.alpha * self.method.faded(number))
        if not self._descend(circle, number):
            return False
        with np.errstate(all="ignore"):
            gradient = self.sampler.at(self.models, number + 1)
        return track(gradient, self.gradient, self.yz)

    def _descend(self, circle: Circle, number: int) -> bool:
        """On one thread, or on several where there are many nodes: each node is written by one thread only."""
        workers = threads_for(len(self.yz))
        if workers == 1:
            return descend(circle, number)
        spans = [(k * len(self.yz) // workers, (k + 1) * len(self.yz) // workers) for k in range(workers)]
        links = [(k * len(circle.slots) // workers, (k + 1) * len(circle.slots) // workers) for k in range(workers)]
        tallies = np.zeros((2, workers, 3), dtype=np.int64)
        together(say, [(circle, number, *span, tally) for span, tally in zip(links, tallies[0], strict=True)])
        together(meet, [(circle, *span) for span in spans])
        together(reply, [(circle, number, *span, tally) for span, tally in zip(links, tallies[1], strict=True)])
        fine = together(move, [(circle, *span) for span in spans])
        self.channel.tally += tallies[0].sum(axis=0)
        self.meetings.tally += tallies[1].sum(axis=0)
        return all(fine)

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        kept = {name: getattr(self, name) for name in self.KEPT}
        kept |= {f"channel.{name}": array for name, array in self.channel.memory().items()}
        return kept | {f"meetings.{name}": array for name, array in self.meetings.memory().items()}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        for part, channel in (("channel.", self.channel), ("meetings.", self.meetings)):
            channel.restore({k.removeprefix(part): v for k, v in memory.items() if k.startswith(part)})
        for name in self.KEPT:
            setattr(self, name, memory[name])
        self._static_circle = None


@kernel
def descend(circle: Circle, number: int) -> bool:
    """Models are said, meetings answer with their means, and everybody moves. False when a number has run away."""
    nodes, slots = len(circle.yz), len(circle.slots)
    say(circle, number, 0, slots, circle.said.tally)
    meet(circle, 0, nodes)
    reply(circle, number, 0, slots, circle.answered.tally)
    return move(circle, 0, nodes)


@kernel
def say(circle: Circle, number: int, begin: int, end: int, tally: Ints) -> None:
    """Models, to all who meet."""
    send(circle.said, circle.yz, circle.slots, circle.senders, circle.plain, number, 0, begin, end, tally)


@kernel
def reply(circle: Circle, number: int, begin: int, end: int, tally: Ints) -> None:
    """Means, back to them."""
    send(circle.answered, circle.means, circle.slots, circle.senders, circle.repeats, number, 0, begin, end, tally)


@kernel
def meet(circle: Circle, begin: int, end: int) -> None:
    """Every host takes the mean of what it heard and its own."""
    near = circle.near
    _meet(
        near.first,
        near.heard,
        circle.trust,
        circle.trusts,
        circle.around,
        circle.yz,
        circle.said.heard,
        begin,
        end,
        circle.heard,
        circle.means,
    )


@kernel
def _meet(
    first: Ints,
    slots: AnyArray,
    trust: Floats,
    trusts: Floats,
    around: Floats,
    yz: Floats,
    said: Floats,
    begin: int,
    end: int,
    heard: Floats,
    means: Floats,
) -> None:
    """m_i = sum of r_j y_j over i and its neighbours, over the sum of r_j; r = trust, 1 / (degree + 1)."""
    m = means.shape[1]
    for i in range(begin, end):
        if m == FOUR:
            a, b, c, d = _four(first[i], first[i + 1], slots, trusts, said)
            heard[i, 0], heard[i, 1], heard[i, 2], heard[i, 3] = a, b, c, d
        else:
            for c in range(m):
                heard[i, c] = 0.0
            for e in range(first[i], first[i + 1]):
                r, slot = trusts[e], slots[e]
                for c in range(m):
                    heard[i, c] += r * said[slot, c]
        for c in range(m):
            means[i, c] = (heard[i, c] + trust[i] * yz[i, c]) / (trust[i] + around[i])


@kernel
def _four(begin: int, end: int, slots: AnyArray, weights: Floats, rows: Floats) -> tuple[float, float, float, float]:
    """A weighted sum of short rows, kept in registers."""
    a = b = c = d = 0.0
    for e in range(begin, end):
        w, slot = weights[e], slots[e]
        a += w * rows[slot, 0]
        b += w * rows[slot, 1]
        c += w * rows[slot, 2]
        d += w * rows[slot, 3]
    return a, b, c, d


@kernel
def move(circle: Circle, begin: int, end: int) -> bool:
    """Every node goes to its average and down its tracker."""
    near = circle.near
    return _move(
        near.first,
        near.heard,
        near.told,
        circle.trust,
        circle.trusts,
        circle.around,
        circle.said.heard,
        circle.answered.heard,
        circle.per_link,
        circle.alpha,
        circle.momentum,
        circle.calm,
        begin,
        end,
        circle.heard,
        circle.average,
        circle.yz,
    )


@kernel
def _move(
    first: Ints,
    slots: AnyArray,
    told: AnyArray,
    trust: Floats,
    trusts: Floats,
    around: Floats,
    said: Floats,
    answered: Floats,
    per_link: bool,
    alpha: float,
    momentum: float,
    calm: float,
    begin: int,
    end: int,
    heard: Floats,
    average: Floats,
    yz: Floats,
) -> bool:
    """y moves to its average, carried on, and down the tracker; the tracker takes up the disagreement (docs/train.md, 3.7):

        z -= (1 - beta) / alpha (ybar - y);  y = ybar + beta (ybar - ybar_prev) - alpha z

    ybar - y is what j gives in the meetings around it, r_j (m_i - y_j), and what it takes as the host of its own: what
    leaves one node enters another, so the sum of trackers stays. False when a number has run away.
    """
    m, fine, take_up = heard.shape[1], True, (1.0 - momentum) / alpha
    own = np.empty(m)
    for i in range(begin, end):
        r, links = trust[i], first[i + 1] - first[i]
        for c in range(m):
            own[c] = 0.0
        for e in range(first[i], first[i + 1]):
            slot = slots[e]
            for c in range(m):
                own[c] += answered[slot, c]
            if per_link:
                for c in range(m):
                    heard[i, c] -= r * said[told[e], c] + trusts[e] * answered[told[e], c]
        if not per_link:
            for c in range(m):
                heard[i, c] -= r * links * said[i, c] + around[i] * answered[i, c]
        for c in range(m):
            change = heard[i, c] + r * own[c]
            to = yz[i, c] + change
            yz[i, m + c] -= take_up * change
            yz[i, c] = to + momentum * (to - average[i, c]) - alpha * yz[i, m + c]
            average[i, c] = to
            fine &= abs(yz[i, c]) <= calm
    return fine


@kernel
def track(gradient: Floats, before: Floats, yz: Floats) -> bool:
    """z += grad g(y) - grad g(y_prev); False, and nothing is changed, where a gradient is not finite."""
    m = gradient.shape[1]
    fine = True
    for i in range(len(gradient)):
        for c in range(m):
            fine &= np.isfinite(gradient[i, c])
    if fine:
        for i in range(len(gradient)):
            for c in range(m):
                yz[i, m + c] += gradient[i, c] - before[i, c]
                before[i, c] = gradient[i, c]
    return fine
