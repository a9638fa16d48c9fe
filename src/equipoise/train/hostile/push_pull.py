"""The learning half on a hostile network: models are pulled, trackers are pushed, and pushes are kept in ledgers.

Every node mixes the models it last heard (rows sum to 1) and hands out parts of its tracker (columns sum to 1). What it has
handed out over a link so far is a running sum, sent whole: a later packet makes up for lost ones, so sum of trackers + in
flight = sum of gradients throughout. Leaving a link out of the books, at both ends, restores that for each side by itself
(docs/train.md, 5).
"""

from __future__ import annotations

import numpy as np

from equipoise.kernels import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.average import RUNAWAY, track
from equipoise.train.channel import lengthened
from equipoise.train.hostile.descent import mixing
from equipoise.train.hostile.mail import NEVER, SEQUENCE_BITS, Mail
from equipoise.train.hostile.post import Post
from equipoise.train.hostile.traffic import Traffic
from equipoise.train.method import Method
from equipoise.train.sampler import Sampler


class PushPull:
    """Every node's model and tracker, [y | z], and what was handed out and taken in over every link."""

    def __init__(
        self,
        sampler: Sampler,
        method: Method,
        alpha: float,
        cap: float,
        kept: float,
        *,
        mail: Mail,
        directed: bool,
        start: Floats,
    ) -> None:
        self.open(sampler, method, mail, alpha, cap, kept, directed, start)
        self.yz[:, : self.model.size] = start
        self.gradient = np.array(sampler.at(self.models, 0))
        if method.tracker_start == "gradient":
            self.yz[:, self.model.size :] = self.gradient
        self.calm = RUNAWAY * (1.0 + float(np.abs(self.yz).max()))

    def open(
        self,
        sampler: Sampler,
        method: Method,
        mail: Mail,
        alpha: float,
        cap: float,
        kept: float,
        directed: bool,
        start: Floats,
    ) -> None:
        """Everything at 0, and no books."""
        self.sampler, self.model, self.method, self.mail, self.directed = sampler, sampler.model, method, mail, directed
        self.alpha, self.cap, self.kept = alpha, cap, kept
        nodes, m = self.model.nodes, self.model.size
        self.start = start
        self._mixed: tuple[Traffic, tuple[Floats, Floats]] | None = None
        self.yz = np.zeros((nodes, 2 * m))
        self.gradient = np.zeros((nodes, m))
        self.speed = np.zeros((nodes, m))  # momentum of a node's descent
        self.last = np.zeros((nodes, m))  # its tracker a round ago
        self.age = np.zeros(nodes, dtype=np.int64)
        self.pulled, self.pushed = np.zeros((nodes, m)), np.zeros(nodes)  # of one round
        self.given = np.empty((0, m))  # running sums, per link
        self.taken = np.empty((0, m))
        self.post = Post(method.quantizer, m, m, mail.window)
        self.header_bits = np.empty(0, dtype=np.int64)
        self.times = np.empty(0, dtype=np.int64)  # every packet passes one link
        self.calm = np.inf  # larger numbers have run away

    KEPT = ("given", "taken", "header_bits")
    OWN = ("yz", "gradient", "speed", "last", "age")

    @property
    def models(self) -> Floats:
        """One row of parameters per node."""
        return self.yz[:, : self.model.size]

    @property
    def trackers(self) -> Floats:
        """Each node's estimate of the gradient it should follow."""
        return self.yz[:, self.model.size :]

    def grow(self, links: int) -> None:
        """Room for pairs that have just met."""
        old = len(self.given)
        if links > old:
            room = links if not old else max(links, 2 * old)
            for name in self.KEPT:
                setattr(self, name, lengthened(getattr(self, name), room))
            self.post.grow(room)
            self.times = np.ones(room, dtype=np.int64)

    def in_flight(self, open_: AnyArray) -> Floats:
        """Sum of what was handed out and not yet taken in, over links that are in the books."""
        return np.asarray((self.given[: len(open_)][open_] - self.taken[: len(open_)][open_]).sum(axis=0))

    def give(self, traffic: Traffic, number: int, acting: AnyArray, going: AnyArray, open_: AnyArray) -> bool:
        """Mix, descend, hand out trackers, and send. False when a number has run away."""
        m = self.model.size
        pull, push = self._mixing(traffic)
        order, link, senders, receivers = traffic.by_link
        counts = open_[order]
        _pull(link, receivers, counts, acting, pull, self.post.held, self.mail.latest, self.yz, self.pulled)
        _push(link, senders, counts, acting, push, self.yz, self.given, self.pushed)
        fine = _descend(
            acting,
            self.alpha * self.method.faded(number),
            self.cap,
            self.calm,
            self.pulled,
            self.pushed,
            self.yz,
            self.speed,
            self.last,
            self.age,
        )
        self.post.say(traffic, number, going, self.mail, self.yz[:, :m].copy(), self.given, self.times)
        self.header_bits[traffic.link[going]] += SEQUENCE_BITS
        return bool(fine)

    def take(self, owners: Ints, acting: AnyArray, number: int) -> bool:
        """After delivery: take in trackers; gradients move on. False when a gradient is not finite."""
        self.post.hear(self.mail)
        _take(self.mail.fresh, owners, self.post.held, self.taken, self.yz)
        with np.errstate(all="ignore"):
            gradient = self.sampler.at(self.models, number + 1)
        if not acting.all():
            gradient = np.where(acting[:, None], gradient, self.gradient)
            if self.sampler.batch is not None:  # who does not act draws nothing
                self.sampler.samples -= int(self.sampler.batch[~acting].sum())
        return track(gradient, self.gradient, self.yz)

    def reverse(self, links: Ints, senders: Ints, receivers: Ints, sign: float) -> None:
        """Leave links out of the books at both ends (sign 1), or put them back (-1)."""
        m = self.model.size
        np.add.at(self.yz[:, m:], senders[links], sign * self.given[links])
        np.subtract.at(self.yz[:, m:], receivers[links], sign * self.taken[links])

    def forget(self, links: Ints) -> None:
        """Links whose one end is gone: their books are closed."""
        self.given[links] = self.taken[links] = 0.0

    def enter(self, nodes: Ints) -> None:
        """Centres join with the model a run starts from, and their own gradient as tracker."""
        m = self.model.size
        self.yz[nodes, :m] = self.start[nodes]
        self.gradient[nodes] = self.sampler.again(self.models)[nodes]
        self.yz[nodes, m:] = self.gradient[nodes]
        self.calm_down(nodes)

    def calm_down(self, nodes: AnyArray | slice) -> None:
        """Momentum of another time is forgotten."""
        self.speed[nodes] = self.last[nodes] = 0.0
        self.age[nodes] = 0

    def _mixing(self, traffic: Traffic) -> tuple[Floats, Floats]:
        """Weights of pulling and of pushing by link, made once for a graph that stays."""
        if self._mixed is None or self._mixed[0] is not traffic:
            pull, push = mixing(traffic, self.directed, self.kept)
            self._mixed = traffic, (pull[traffic.by_link[0]], push[traffic.by_link[0]])
        return self._mixed[1]

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        own = {name: getattr(self, name) for name in (*self.OWN, *self.KEPT)}
        return own | {f"post.{name}": array for name, array in self.post.memory().items()}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        self.post.restore({k.removeprefix("post."): v for k, v in memory.items() if k.startswith("post.")})
        for name in (*self.OWN, *self.KEPT):
            setattr(self, name, memory[name])
        self.times = np.ones(len(self.given), dtype=np.int64)


@kernel
def _pull(
    link: Ints,
    receivers: Ints,
    counts: AnyArray,
    acting: AnyArray,
    weights: Floats,
    heard: Floats,
    latest: Ints,
    yz: Floats,
    pulled: Floats,
) -> None:
    """sum_j w_ij (y_j - y_i) of every node i, from what it last heard."""
    m = pulled.shape[1]
    pulled[:] = 0.0
    for e in range(len(link)):
        i, way = receivers[e], link[e]
        if counts[e] and acting[i] and latest[way] != NEVER:
            for c in range(m):
                pulled[i, c] += weights[e] * (heard[way, c] - yz[i, c])


@kernel
def _push(
    link: Ints,
    senders: Ints,
    counts: AnyArray,
    acting: AnyArray,
    weights: Floats,
    yz: Floats,
    given: Floats,
    pushed: Floats,
) -> None:
    """Every node hands out parts of its tracker; `pushed` is how much of it."""
    m = given.shape[1]
    pushed[:] = 0.0
    for e in range(len(link)):
        i, way = senders[e], link[e]
        if counts[e] and acting[i]:
            pushed[i] += weights[e]
            for c in range(m):
                given[way, c] += weights[e] * yz[i, m + c]


@kernel
def _descend(
    acting: AnyArray,
    alpha: float,
    cap: float,
    calm: float,
    pulled: Floats,
    pushed: Floats,
    yz: Floats,
    speed: Floats,
    last: Floats,
    age: Ints,
) -> bool:
    """y_i += what it pulled - alpha s_i, where s_i = b s_i + z_i + b (z_i - z_i_prev) carries on as long as it leads
    downhill; of its tracker a node keeps what it has not handed out. False when a number has run away."""
    m = speed.shape[1]
    fine = True
    for i in range(len(yz)):
        if not acting[i]:
            continue
        b = min(cap, age[i] / (age[i] + 3.0))
        downhill = 0.0
        for c in range(m):
            z = yz[i, m + c]
            speed[i, c] = b * speed[i, c] + z + b * (z - last[i, c])
            last[i, c] = z
            downhill += speed[i, c] * z
        age[i] += 1
        if downhill < 0.0:
            age[i] = 0
            for c in range(m):
                speed[i, c] = yz[i, m + c]
        for c in range(m):
            yz[i, c] += pulled[i, c] - alpha * speed[i, c]
            yz[i, m + c] *= 1.0 - pushed[i]
            fine &= abs(yz[i, c]) <= calm
    return fine


@kernel
def _take(fresh: AnyArray, owners: Ints, heard: Floats, taken: Floats, yz: Floats) -> None:
    """What the running sum has grown by since it was last looked at."""
    m = taken.shape[1]
    for way in range(len(owners)):
        if fresh[way]:
            i = owners[way]
            for c in range(m):
                yz[i, m + c] += heard[way, m + c] - taken[way, c]
                taken[way, c] = heard[way, m + c]
