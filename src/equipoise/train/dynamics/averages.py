"""Models where no link returns: every node averages its neighbourhood, and trackers lead downhill (docs/train.md, 3.7).

    say    y_j
    reply  m_i, the mean of what host i heard and its own, each with r = 1 / (degree + 1)
    move   ybar - y = sum over neighbours of r_j (y_j - m_i) - r_i (y_i - m_j): what leaves one node enters another
           z -= (1 - beta) / alpha (ybar - y);   y = ybar + beta (ybar - ybar_prev) - alpha z

Trackers take up what disagreement costs, so no second stream is needed to mix them, and their sum is the sum of gradients
throughout. Models and trackers lie side by side in one row per node, [y | z].
"""

from __future__ import annotations

import numpy as np

from equipoise.kernels import Floats, Ints, kernel
from equipoise.train.arrays import AnyArray
from equipoise.train.exchange.rows import Meter, Near, Round, Site, Voice
from equipoise.train.method import Method
from equipoise.train.sampler import Sampler

RUNAWAY = 1e12  # growth of models or trackers that is a divergence


class Tracked:
    """Every node's model and tracker: what `averages` and `mixing` have in common."""

    def __init__(self, site: Site, sampler: Sampler, method: Method, start: Floats, calm: float | None = None) -> None:
        """`calm`: the size that nothing may outgrow, of the whole network where this is a part of it."""
        self.site, self.sampler, self.model, self.method = site, sampler, sampler.model, method
        m = self.model.size
        self.yz = np.zeros((len(start), 2 * m))
        self.yz[:, :m] = start
        self.gradient = np.array(sampler.at(np.ascontiguousarray(self.models), 0))  # a copy: it is written over
        if method.tracker_start == "gradient":  # or the invariant is off for ever (docs/train.md, 3.1)
            self.yz[:, m:] = self.gradient
        self.calm = RUNAWAY * (1.0 + float(np.abs(self.yz).max())) if calm is None else calm
        self.meter = Meter(site)

    @property
    def models(self) -> Floats:
        """One row of parameters per node."""
        return self.yz[:, : self.model.size]

    @property
    def trackers(self) -> Floats:
        """Each node's estimate of the mean gradient."""
        return self.yz[:, self.model.size :]

    def track(self, number: int) -> bool:
        """z += grad g(y) - grad g(y_prev); False where a number has run away or is none."""
        if not np.abs(self.yz).max(initial=0.0) <= self.calm:
            return False
        with np.errstate(all="ignore"):
            new = self.sampler.at(np.ascontiguousarray(self.models), number + 1)
        if not np.isfinite(new).all():
            return False
        self.trackers[:] += new - self.gradient
        self.gradient[:] = new
        return True

    NODE: tuple[str, ...] = ("yz", "gradient")

    def voices(self) -> dict[str, Voice]:
        """Streams by name."""
        raise NotImplementedError

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep, by node."""
        kept: dict[str, AnyArray] = {f"node/{name}": getattr(self, name) for name in self.NODE}
        for part, voice in self.voices().items():
            kept |= {f"said/{part}.{name}": rows for name, rows in voice.memory().items()}
        return kept | self.meter.memory()

    def restore(self, memory: dict[str, AnyArray]) -> None:
        """Take up a checkpoint of the whole network."""
        self.meter.restore(memory)
        for name in self.NODE:
            setattr(self, name, memory[f"node/{name}"][self.site.own].copy())
        for part, voice in self.voices().items():
            voice.restore(memory[f"said/{part}.heard"], memory[f"said/{part}.floors"])


class Averages(Tracked):
    """The learning half of the nodes of a site."""

    needs = frozenset({"symmetric", "reliable"})
    NODE = ("yz", "gradient", "average")

    def __init__(
        self,
        site: Site,
        sampler: Sampler,
        method: Method,
        start: Floats,
        steps: tuple[float, float],
        calm: float | None = None,
    ) -> None:
        """`steps`: alpha, and the momentum beta."""
        super().__init__(site, sampler, method, start, calm)
        self.alpha, self.momentum = steps
        self.average = self.models.copy()
        busiest = max(int(site.near(k).degree.max(initial=1)) for k in site.rounds or (0,))
        self.said = Voice(site, method.quantizer, self.model.size, finest=0.5)
        self.means = Voice(site, method.quantizer, self.model.size, finest=1.0 / (max(busiest, 2) + 1))

    def voices(self) -> dict[str, Voice]:
        return {"model": self.said, "mean": self.means}

    def play(self, number: int) -> Round:
        """One round. False when models or trackers have run away: the run has diverged."""
        site, m = self.site, self.model.size
        near, own = site.near(number), site.own
        trust: Floats = 1.0 / (near.degree + 1.0).astype(np.float64)
        models = np.ascontiguousarray(self.models)
        self.said.say(models, number)
        self.meter.add(number, self.said.bits(number) + (site.degree_bits if site.first(number) else 0))
        yield (self.said,)
        means = np.empty((len(own), m))
        _meet(near, own, trust, models, self.said.at(number), means)
        self.means.say(means, number)
        self.meter.add(number, self.means.bits(number))
        yield (self.means,)
        change = np.zeros((len(own), m))
        _move(near, own, trust, self.said.at(number), self.means.at(number), change)
        alpha = self.alpha * self.method.faded(number)
        to = self.models + change
        self.trackers[:] -= (1.0 - self.momentum) / alpha * change
        self.models[:] = to + self.momentum * (to - self.average) - alpha * self.trackers
        self.average = to
        return self.track(number)


@kernel
def _meet(near: Near, own: Ints, trust: Floats, models: Floats, said: Floats, means: Floats) -> None:
    """Every host takes the mean of what it heard and its own."""
    for r in range(len(own)):
        i = own[r]
        weight = trust[i]
        for c in range(models.shape[1]):
            means[r, c] = trust[i] * models[r, c]
        for e in range(near.first[i], near.first[i + 1]):
            j = near.node[e]
            weight += trust[j]
            for c in range(models.shape[1]):
                means[r, c] += trust[j] * said[j, c]
        for c in range(models.shape[1]):
            means[r, c] /= weight


@kernel
def _move(near: Near, own: Ints, trust: Floats, said: Floats, means: Floats, change: Floats) -> None:
    """ybar - y: what a node takes in its own meeting, less what it gives in those of its neighbours."""
    for r in range(len(own)):
        i = own[r]
        for e in range(near.first[i], near.first[i + 1]):
            j = near.node[e]
            for c in range(change.shape[1]):
                change[r, c] += trust[j] * (said[j, c] - means[i, c]) - trust[i] * (said[i, c] - means[j, c])
