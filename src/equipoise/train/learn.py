"""The learning half as in the paper: consensus on models and trackers, and gradient tracking (docs/train.md, 2 and 3.1).

Models and trackers lie side by side in one row per node, [y | z]; the sum of trackers is the sum of gradients throughout.
"""

from __future__ import annotations

import numpy as np

from equipoise.kernels import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.average import RUNAWAY, track
from equipoise.train.channel import Channel, quantise_counted
from equipoise.train.links import Neighbours, Round
from equipoise.train.method import Method
from equipoise.train.quantize import Coder
from equipoise.train.sampler import Sampler
from equipoise.train.steps import Steps


class Learning:
    """Every node's model and tracker."""

    def __init__(self, sampler: Sampler, method: Method, steps: Steps, *, slots: int, start: Floats) -> None:
        model = sampler.model
        self.sampler, self.model, self.method = sampler, model, method
        assert steps.alpha is not None
        self.step, self.alpha = steps.step, steps.alpha
        nodes, m = model.nodes, model.size
        self.yz = np.zeros((nodes, 2 * m))
        self.yz[:, :m] = start
        self.gradient = np.array(sampler.at(self.models, 0))  # a copy: it is written over
        if method.tracker_start == "gradient":  # or the invariant is off for ever (docs/train.md, 3.1)
            self.yz[:, m:] = self.gradient
        self.channel = Channel(method.quantizer, width=2 * m, parts=2, slots=slots, ratio=self.step * self.alpha)
        self.calm = RUNAWAY * (1.0 + float(np.abs(self.yz).max()))

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

    def advance(self, round: Round, number: int) -> bool:
        """One round. False when models or trackers have run away: the run has diverged."""
        self.channel.exchange(self.yz, round, number)
        said, near, weights = self.channel.heard, round.neighbours, round.entry_weights(self.method.model_weights)
        edge_coder = self.channel.edge_coder
        before = self.trackers.copy()
        mix(
            said,
            near,
            weights,
            self.step,
            edge_coder is not None,
            edge_coder or self.channel.coder,
            self.channel.tally,
            self.yz,
        )
        self.models[:] -= self.step * self.alpha * self.method.faded(number) * before
        if not np.abs(self.yz).max() <= self.calm:
            return False
        with np.errstate(all="ignore"):
            gradient = self.sampler.at(self.models, number + 1)
        return track(gradient, self.gradient, self.yz)

    KEPT = ("yz", "gradient")

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        own = {name: getattr(self, name) for name in self.KEPT}
        return own | {f"channel.{name}": array for name, array in self.channel.memory().items()}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        self.channel.restore({k.removeprefix("channel."): v for k, v in memory.items() if k.startswith("channel.")})
        for name in self.KEPT:
            setattr(self, name, memory[name])


@kernel
def mix(
    said: Floats, near: Neighbours, weights: Floats, step: float, quantise: bool, coder: Coder, tally: Ints, yz: Floats
) -> None:
    """v_i += step sum_j w_ij (v_j - v_i), or q(v_j - v_i): both ends compute the same with the other sign."""
    for i in range(len(yz)):
        for e in range(near.first[i], near.first[i + 1]):
            for c in range(yz.shape[1]):
                difference = said[near.heard[e], c] - said[near.told[e], c]
                if quantise:
                    difference = quantise_counted(coder, difference, tally)
                yz[i, c] += step * weights[e] * difference
