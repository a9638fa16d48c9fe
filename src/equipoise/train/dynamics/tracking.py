"""Learning over links that may carry one way: models are pulled, trackers are pushed (docs/train.md, 5).

    say    u_i = y_i - alpha s_i, s_i = b s_i + z_i + b (z_i - z_i_prev); and given_ij, which grows by w_ij z_i
    hear   y_i = u_i + sum_j r_ij (u_j - u_i);  z_i += what running sums have grown by + grad - grad_prev

Rows of r and columns of w sum to less than 1. What was handed out over a link is a running sum, kept as it was said to the
last bit: a later packet makes up for lost ones, and sum of trackers + in flight = sum of gradients throughout. A link that
closes is taken out of the trackers at both ends, which restores that for those who are left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equipoise.kernels import Bools, Floats, Ints, kernel
from equipoise.train.arrays import AnyArray
from equipoise.train.codec import (
    MANTISSA,
    NUMBERS,
    SATURATED,
    UNDERFLOWED,
    bits_per_number,
    first_floor,
    largest_code,
    mantissa_bits,
    moved_floor,
    quantise,
    value,
)
from equipoise.train.dynamics._slots import Slots
from equipoise.train.dynamics.links import RUNAWAY
from equipoise.train.method import Method
from equipoise.train.quantize import FLOAT_BITS
from equipoise.train.region import LinkTable, Region
from equipoise.train.sampler import Sampler


class Descent(NamedTuple):
    """Per node: where it would go by itself, momentum, its tracker a round ago, and rounds since it last turned round."""

    ahead: Floats
    speed: Floats
    last: Floats
    age: Ints


class Sums(NamedTuple):
    """Per slot: handed out over it, taken in over the way back, and the model last heard over that."""

    given: Floats
    taken: Floats
    heard: Floats
    met: Bools


class Tracking:
    """Every node's model and tracker, [y | z]. Needs nothing of links."""

    OWN = ("yz", "gradient", "said", "floors", "bits", "tally")

    def __init__(
        self,
        region: Region,
        table: LinkTable,
        sampler: Sampler,
        method: Method,
        steps: tuple[float, float, float],
        start: Floats,
        alpha_limit: float,
        directed: bool,
    ) -> None:
        """`steps`: alpha, momentum, and the part of what it mixes that a node keeps."""
        self.alpha_limit, self.directed = alpha_limit, directed
        self.region, self.table, self.sampler, self.model, self.method = region, table, sampler, sampler.model, method
        self.alpha, self.momentum, self.kept = steps
        mantissa = mantissa_bits(method.quantizer)
        self.code = mantissa, bits_per_number(mantissa)
        (nodes, m), slots = start.shape, len(region.link)
        self.start = start
        self.gradient = np.array(sampler.at(start, 0))
        trackers = self.gradient if method.tracker_start == "gradient" else np.zeros_like(self.gradient)
        self.yz = np.hstack([start, trackers])
        self.descent = Descent(
            np.zeros((nodes, m)), np.zeros((nodes, m)), np.zeros((nodes, m)), np.zeros(nodes, dtype=np.int64)
        )
        self.sums = Sums(
            np.zeros((slots, m)), np.zeros((slots, m)), np.zeros((slots, m)), np.zeros(slots, dtype=np.bool_)
        )
        self.said, self.floors = np.zeros((region.rows, 2 * m)), np.zeros((region.rows, 2), dtype=np.int64)
        self.bits = region.count("models")
        self.tally = np.zeros(3, dtype=np.int64)
        self.acting = np.ones(nodes, dtype=np.bool_)
        self.largest = RUNAWAY * (1.0 + float(np.abs(self.yz).max(initial=0.0)))
        self._weights: dict[int, tuple[Floats, Floats]] = {}

    @property
    def models(self) -> Floats:
        return self.yz[:, : self.model.size]

    @property
    def trackers(self) -> Floats:
        """Each node's estimate of the gradient it should follow."""
        return self.yz[:, self.model.size :]

    def in_flight(self, open_: Bools) -> Floats:
        """Sum of what was handed out and not yet taken in, over these links."""
        return np.asarray((self.sums.given - self.sums.taken[self.table.back])[open_].sum(axis=0))

    def say(self, number: int) -> bool:
        slots, alpha = Slots.of(self.region), self.alpha * self.method.faded(number)
        _descend(self.yz, self.descent, alpha, self.momentum, self.acting)
        push, _ = self._mixing(number)
        _say(
            slots,
            push,
            self.yz,
            self.descent.ahead,
            self.sums.given,
            self.said,
            self.floors,
            self.code,
            self.bits,
            self.tally,
        )
        return True

    def hear(self, number: int) -> bool:
        _, pull = self._mixing(number)
        fine = _hear(
            Slots.of(self.region), pull, self.yz, self.descent.ahead, self.sums, self.said, self.acting, self.largest
        )
        with np.errstate(all="ignore"):
            gradient = self.sampler.at(self.models, number + 1)
        if not self.acting.all():
            gradient = np.where(self.acting[:, None], gradient, self.gradient)
            if self.sampler.batch is not None:  # who does not act draws nothing
                self.sampler.samples -= int(self.sampler.batch[~self.acting].sum())
        self.trackers[:] += gradient - self.gradient
        self.gradient = np.ascontiguousarray(gradient)
        return bool(fine and np.isfinite(self.gradient).all())

    def keep(self, rows: Ints, places: Ints) -> None:
        self.said[places] = self.said[rows]

    def shut(self, links: Bools) -> None:
        """These links are taken out of the trackers at both ends."""
        sums, owners = self.sums, self.table.senders[links]
        np.add.at(self.trackers, owners, sums.given[links] - sums.taken[links])
        sums.given[links] = sums.taken[links] = 0.0
        sums.met[links] = False
        if links.any():
            self._calm_down()

    def reopen(self, links: Bools) -> None:
        """These links start anew, with nothing handed out."""
        if links.any():
            self._calm_down()

    def enter(self, nodes: Ints) -> None:
        """Centres join with the model a run starts from, and their own gradient as tracker."""
        self.models[nodes] = self.start[nodes]
        self.gradient[nodes] = self.sampler.again(self.models)[nodes]
        self.trackers[nodes] = self.gradient[nodes]

    def _calm_down(self) -> None:
        """Momentum of another time is forgotten."""
        self.descent.speed[:] = self.descent.last[:] = 0.0
        self.descent.age[:] = 0

    def _mixing(self, number: int) -> tuple[Floats, Floats]:
        """Per slot: the weight of pushing over it, and of pulling over the way back; 0 where there is no link."""
        turns = len(self.table.turns)
        known = self._weights.get(number % turns) if turns else None
        if known is None:
            table, here = self.table, self.table.turn(number)
            out, into = (np.bincount(ends[here], minlength=table.n) for ends in (table.senders, table.receivers))
            if not self.directed:  # both ends take the larger number of neighbours
                out = into = np.maximum(out[table.senders], out[table.receivers])
            else:
                out, into = out[table.senders], into[table.senders]
            push = np.where(here, (1.0 - self.kept) / np.maximum(out, 1), 0.0)
            pull = np.where(here[table.back], (1.0 - self.kept) / np.maximum(into, 1), 0.0)
            known = push[self.region.link], pull[self.region.link]
            if turns:
                self._weights[number % turns] = known
        return known

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        return {name: getattr(self, name) for name in self.OWN} | self.descent._asdict() | self.sums._asdict()

    def restore(self, memory: dict[str, AnyArray]) -> None:
        for name, array in self.memory().items():
            array[:] = memory[name]


@kernel
def _descend(yz: Floats, descent: Descent, alpha: float, momentum: float, acting: Bools) -> None:
    """u of everybody who acts; momentum carries on as long as it leads downhill."""
    m = descent.ahead.shape[1]
    for i in range(len(yz)):
        if not acting[i]:
            continue
        b, downhill = min(momentum, descent.age[i] / (descent.age[i] + 3.0)), 0.0
        for c in range(m):
            z = yz[i, m + c]
            descent.speed[i, c] = b * descent.speed[i, c] + z + b * (z - descent.last[i, c])
            descent.last[i, c] = z
            downhill += descent.speed[i, c] * z
        descent.age[i] += 1
        if downhill < 0.0:
            descent.age[i] = 0
            for c in range(m):
                descent.speed[i, c] = yz[i, m + c]
        for c in range(m):
            descent.ahead[i, c] = yz[i, c] - alpha * descent.speed[i, c]


@kernel
def _say(
    slots: Slots,
    push: Floats,
    yz: Floats,
    ahead: Floats,
    given: Floats,
    said: Floats,
    floors: Ints,
    code: tuple[int, int],
    bits: Ints,
    tally: Ints,
) -> None:
    """Models and running sums to each neighbour; of its tracker a node keeps what it has not handed out."""
    m = ahead.shape[1]
    mantissa, code_bits = code
    numbers = saturated = underflowed = 0
    whole = np.empty(m)
    for i in range(len(yz)):
        whole[:] = yz[i, m:]
        for e in range(slots.first[i], slots.first[i + 1]):
            t, b = slots.target[e], slots.base[e]
            if t < 0:
                continue
            numbers += 2 * m
            plain = b < 0 or mantissa == MANTISSA
            bits[e] += 2 * m * (FLOAT_BITS if plain else code_bits)
            for part in range(2):
                floor, largest = 0 if plain else floors[b, part], 0
                for c in range(m):
                    k = part * m + c
                    wanted = ahead[i, c] if part == 0 else given[e, c] + push[e] * whole[c]
                    if plain:
                        said[t, k] = wanted
                    else:
                        change = wanted - said[b, k]
                        size = quantise(change, floor, mantissa)
                        largest = max(largest, size)
                        said[t, k] = said[b, k] + value(size, floor, mantissa, change)
                        saturated += size >= largest_code(mantissa)
                        underflowed += (size == 0) & (change != 0.0)
                    if part == 1:
                        yz[i, k] -= said[t, k] - given[e, c]
                        given[e, c] = said[t, k]
                if not plain:
                    floors[t, part] = moved_floor(floor, largest, mantissa)
                elif mantissa != MANTISSA:
                    floors[t, part] = first_floor(said[t, part * m : (part + 1) * m], mantissa)
    tally[NUMBERS] += numbers
    tally[SATURATED] += saturated
    tally[UNDERFLOWED] += underflowed


@kernel
def _hear(
    slots: Slots, pull: Floats, yz: Floats, ahead: Floats, sums: Sums, said: Floats, acting: Bools, largest: float
) -> bool:
    """Take in what has arrived, and go where that leads. False when a number has run away."""
    m, fine = ahead.shape[1], True
    for i in range(len(yz)):
        if not acting[i]:
            continue
        for c in range(m):
            yz[i, c] = ahead[i, c]
        for e in range(slots.first[i], slots.first[i + 1]):
            if slots.fresh[e]:
                sums.met[e] = True
                w = slots.where[e]
                for c in range(m):
                    sums.heard[e, c] = said[w, c]
                    yz[i, m + c] += said[w, m + c] - sums.taken[e, c]
                    sums.taken[e, c] = said[w, m + c]
            if sums.met[e] and pull[e] > 0.0:
                for c in range(m):
                    yz[i, c] += pull[e] * (sums.heard[e, c] - ahead[i, c])
        for c in range(m):
            fine &= abs(yz[i, c]) <= largest
    return fine
