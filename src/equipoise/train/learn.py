"""The learning half of a round: consensus on models and gradient tracking (docs/train.md, 2, 3.1 and 3.7).

Models and trackers lie side by side in one row per node, [y | z]; the sum of trackers is the sum of gradients throughout.
"""

from __future__ import annotations

import numpy as np

from equipoise.compiled import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.channel import Channel, lengthened, quantise_counted
from equipoise.train.links import Round
from equipoise.train.method import Method
from equipoise.train.models.model import Model
from equipoise.train.quantize import Coder
from equipoise.train.steps import Steps

LARGEST_BETA = 0.98  # of the mixing momentum (docs/train.md, 3.7)
ALARM = 10.0  # growth of a tracker that ends bold momentum
RETREAT = 4.0  # factor on 1 - cap at each alarm


class Learning:
    """Every node's model and tracker, and the momentum of every edge and node."""

    def __init__(
        self,
        model: Model,
        method: Method,
        steps: Steps,
        *,
        cap: float,
        careful: float,
        pairs: int,
        slots: int,
        start: Floats,
    ) -> None:
        self.model, self.method = model, method
        assert steps.alpha is not None
        self.step, self.alpha = steps.step, steps.alpha
        nodes, m = model.nodes, model.size
        self.cap = np.full(nodes, cap if method.momentum else 0.0)  # of the node momentum ...
        self.careful = careful if method.momentum else 0.0  # ... and what it falls back to
        self.quiet = np.full(nodes, np.inf)  # smallest |z|^2 since the last alarm
        self.yz = np.zeros((nodes, 2 * m))
        self.yz[:, :m] = start
        self.gradient = model.gradients(self.models)
        if method.tracker_start == "gradient":
            self.yz[:, m:] = (
                self.gradient
            )  # z(0) = grad g_i(y_i(0)), or the invariant is off for ever (docs/train.md, 3.1)
        self.drive = np.zeros((nodes, m))  # s, the momentum of the descent
        self.previous = self.trackers.copy()  # z_prev
        self.node_age = np.zeros(nodes, dtype=np.int64)
        self.channel = Channel(method.quantizer, width=2 * m, parts=2, slots=slots, ratio=self.step * self.alpha)
        remembered = pairs if method.momentum else 0
        self.flow = np.zeros((remembered, 2 * m))
        self.difference = np.zeros((remembered, 2 * m))
        self.age = np.zeros((remembered, 2 * m), dtype=np.int32)
        self.seen = np.full(pairs, -2, dtype=np.int64)

    @property
    def models(self) -> Floats:
        """One row of parameters per node."""
        return self.yz[:, : self.model.size]

    @property
    def trackers(self) -> Floats:
        """Each node's estimate of the mean gradient."""
        return self.yz[:, self.model.size :]

    def grow(self, pairs: int, slots: int) -> None:
        """Room for pairs that have just met."""
        self.channel.grow(slots)
        if pairs > len(self.seen):
            old, room = len(self.seen), max(pairs, 2 * len(self.seen))
            for name in ("flow", "difference", "age") if self.method.momentum else ():
                setattr(self, name, lengthened(getattr(self, name), room))
            self.seen = lengthened(self.seen, room)
            self.seen[old:] = -2

    def advance(self, round: Round, number: int) -> bool:
        """One round. False when a number is no longer finite: the run has diverged and the last models are kept."""
        before = self.yz.copy()
        self.channel.exchange(self.yz, round, number)
        edge_coder = self.channel.edge_coder
        _mix(
            self.channel.heard, round.tail_slot, round.head_slot, round.topology.tails, round.topology.heads, round.pair,
            round.weights(self.method.model_weights), self.step, self.method.momentum, number,
            edge_coder is not None, edge_coder or self.channel.coder,
            self.flow, self.difference, self.age, self.seen, self.channel.tally, self.yz,
        )  # fmt: skip
        z = before[:, self.model.size :]
        _drive(z, self.previous, self.drive, self.node_age, self.cap, self.quiet, self.careful)
        self.previous[:] = z
        self.models[:] -= self.step * self.alpha * self.drive
        if np.isfinite(self.yz).all():
            with np.errstate(all="ignore"):
                gradient = self.model.gradients(self.models)
            if np.isfinite(gradient).all():
                self.trackers[:] += gradient - self.gradient
                self.gradient = gradient
                return True
        self.yz[:] = before
        return False

    KEPT = ("yz", "gradient", "drive", "previous", "node_age", "cap", "quiet", "flow", "difference", "age", "seen")

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        own = {name: getattr(self, name) for name in self.KEPT}
        return own | {f"channel.{name}": array for name, array in self.channel.memory().items()}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        self.channel.restore({k.removeprefix("channel."): v for k, v in memory.items() if k.startswith("channel.")})
        for name, array in memory.items():
            if not name.startswith("channel."):
                setattr(self, name, array)


@kernel
def _mix(
    heard: Floats,
    tail_slot: Ints,
    head_slot: Ints,
    tails: Ints,
    heads: Ints,
    pair: Ints,
    weights: Floats,
    step: float,
    momentum: bool,
    number: int,
    quantise_difference: bool,
    coder: Coder,
    flow: Floats,
    difference: Floats,
    age: AnyArray,
    seen: Ints,
    tally: Ints,
    yz: Floats,
) -> None:
    """y and z flow along edges from the larger to the smaller; what leaves one end enters the other."""
    for e in range(len(pair)):
        i, j, p = tails[e], heads[e], pair[e]
        a, b, rate = tail_slot[e], head_slot[e], step * weights[e]
        absent = seen[p] != number - 1
        seen[p] = number
        for c in range(yz.shape[1]):
            d = heard[a, c] - heard[b, c]
            if quantise_difference:
                d = quantise_counted(coder, d, tally)
            f = rate * d
            if momentum:
                if absent or flow[p, c] * d < 0.0:
                    flow[p, c], difference[p, c], age[p, c] = 0.0, d, 0
                beta = min(LARGEST_BETA, age[p, c] / (age[p, c] + 3.0))
                f = rate * (d + beta * (d - difference[p, c])) + beta * flow[p, c]
                flow[p, c], difference[p, c] = f, d
                age[p, c] += 1
            yz[i, c] -= f
            yz[j, c] += f


@kernel
def _drive(z: Floats, previous: Floats, drive: Floats, age: Ints, cap: Floats, quiet: Floats, careful: float) -> None:
    """s = b s + z + b (z - z_prev) with b = min(cap, t/(t+3)), begun anew where s points against z (docs/train.md, 3.7).

    A node whose tracker has grown ALARM times above its quietest moment lowers its own cap towards the careful one: bold
    momentum is tried first and given up where the network is too slow for it.
    """
    for i in range(len(z)):
        loud = 0.0
        for c in range(z.shape[1]):
            loud += z[i, c] * z[i, c]
        alarmed = loud > ALARM * ALARM * quiet[i]
        if alarmed:
            cap[i] = max(careful, 1.0 - RETREAT * (1.0 - cap[i])) if cap[i] > careful else cap[i]
        quiet[i] = loud if alarmed else min(quiet[i], loud)
        b = min(cap[i], age[i] / (age[i] + 3.0))
        along = 0.0
        for c in range(z.shape[1]):
            drive[i, c] = b * drive[i, c] + z[i, c] + b * (z[i, c] - previous[i, c])
            along += drive[i, c] * z[i, c]
        age[i] += 1
        if along < 0.0 or alarmed:
            age[i] = 0
            for c in range(z.shape[1]):
                drive[i, c] = z[i, c]
