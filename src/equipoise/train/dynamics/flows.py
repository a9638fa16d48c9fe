"""The paper's CPU half: prices are told, CPU flows along edges from cheap to dear, boxes hold (docs/train.md, 2 and 3.5).

say    p_i = f_i'(x_i), and beyond a box a penalty, or the price of a full node
hear   flow_ij = step w_ij (p_i - p_j) in whole units, at both ends alike: what leaves one node enters another
"""

from __future__ import annotations

import numpy as np

from equipoise.kernels import Floats, Ints, kernel
from equipoise.train.arrays import AnyArray
from equipoise.train.exchange.rows import (
    LONG_BITS,
    NO_CODER,
    Delivered,
    Meter,
    Near,
    Round,
    Site,
    Voice,
    quantise_counted,
)
from equipoise.train.grid import NO_BOUND
from equipoise.train.limiter import BIGGEST_FLOW, FLAG_BITS, Limiter
from equipoise.train.method import Method
from equipoise.train.problem import Market
from equipoise.train.quantize import Coder


class Pipe:
    """Shares in whole units that move along links: what `flows` and `markets` have in common."""

    def __init__(self, site: Site, market: Market, start: Ints, limited: bool) -> None:
        self.site, self.market, self.limited = site, market, limited
        self.units: Ints = start.copy()
        self.limiter = Limiter(site, market.low, market.high)
        self.meter = Meter(site)
        self.excess = np.zeros(len(start))  # planned minus real share: what a full node could not take or give

    @property
    def unit(self) -> float:
        return self.market.grid.unit

    @property
    def x(self) -> Floats:
        """Shares, CPUs."""
        return self.market.grid.floats(self.units)

    def shift(self, change: Ints) -> None:
        """The budget has changed: shares move by so many units."""
        self.units += change

    def _most(self, number: int) -> float:
        """Units that may flow along a link: sums over a hub's links stay inside 64 bits."""
        return float(BIGGEST_FLOW / max(1, len(self.site.near(number).node) // 2))


class Flows(Pipe):
    """Who holds how much CPU, and what a marginal unit is worth there."""

    needs = frozenset({"symmetric", "reliable"})

    def __init__(
        self, site: Site, market: Market, method: Method, step: float, start: Ints, curvature: Floats, delay: int = 0
    ) -> None:
        """`curvature` of own nodes; neighbours are told. `delay`: rounds that prices travel."""
        super().__init__(site, market, start, method.limits_boxes and market.boxed)
        self.method, self.step = method, step
        self.curvature = Delivered(site, (curvature * method.curvature_factor)[:, None])
        self.voice = Voice(site, method.quantizer, 1, short=LONG_BITS)
        self.late = np.zeros(
            (delay + 1 if delay else 0, len(start))
        )  # prices of the last rounds, where they travel so long

    def play(self, number: int) -> Round:
        """One round. False when a flow no longer fits the grid: the run has diverged and nothing was moved."""
        site, market, voice, method = self.site, self.market, self.voice, self.method
        if method.cpu_weights == "curvature" and site.first(number):
            self.meter.add(number, self.curvature.bits)
            yield (self.curvature,)
        price = market.price(self.x, method) + self.excess
        voice.say(self._travelled(price, number)[:, None], number)
        self.meter.add(number, voice.bits(number) + self._beside(number))
        yield (voice,)
        weights = self._weights(number)
        coder, quantised = voice.edge_coder or NO_CODER, voice.edge_coder is not None
        wanted: Ints = np.zeros(len(weights), dtype=np.int64)
        most = self._most(number)
        heard, near = voice.at(number), site.near(number)
        rule = (self.step, self.unit, most, self.limited, quantised)
        largest = _wish(near, site.own, heard, weights, rule, coder, voice.tally, wanted)
        if not max(largest, float(np.abs(self.units).max(initial=0))) <= BIGGEST_FLOW:
            return False
        moved = wanted
        if self.limited:
            moved, bits = yield from self.limiter.cut(number, wanted, self.units)
            self.meter.add(number, 0, bits)
        left = outflow(near, site.own, moved)
        self.units -= left
        if self.limited and method.box == "price":
            refused = market.grid.floats(left - outflow(near, site.own, wanted))
            _refill(self.excess, refused, market.stiffness, self.units, (market.low, market.high), self.unit)
        return True

    def _weights(self, number: int) -> Floats:
        """Of each entry: 1 / max(d_i a_i, d_j a_j) by curvature, which both ends know; else the graph's."""
        near, kind = self.site.near(number), self.method.cpu_weights
        if kind != "curvature":
            return self.site.weights(number, kind)
        with np.errstate(divide="ignore"):  # nobody asks for entries of nodes that live elsewhere
            steep = near.degree * self.curvature.rows[:, 0]
            owner = np.repeat(np.arange(self.site.n), np.diff(near.first))
            return np.asarray(1.0 / np.maximum(steep[owner], steep[near.node]))

    def _beside(self, number: int) -> int:
        """Bits of a message beside the price: flags, and at first contact the degree, if weights are made of it."""
        told = 0 if self.method.cpu_weights == "laplacian" else self.site.degree_bits
        return (FLAG_BITS if self.limited else 0) + (told if self.site.first(number) else 0)

    def _travelled(self, price: Floats, number: int) -> Floats:
        """Both ends act on prices that are `delay` rounds old; before that, on the first ones."""
        length = len(self.late)
        if not length:
            return price
        self.late[number % length] = price
        return np.asarray(self.late[max(0, number + 1 - length) % length])

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep, by node."""
        kept = {"node/units": self.units, "node/excess": self.excess, "node/late": self.late}
        return kept | self.meter.memory() | {f"said/{name}": rows for name, rows in self.voice.memory().items()}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        """Take up a checkpoint of the whole network."""
        self.meter.restore(memory)
        own = self.site.own
        self.units, self.excess = memory["node/units"][own].copy(), memory["node/excess"][own].copy()
        self.late = memory["node/late"][:, own].copy()
        self.voice.restore(memory["said/heard"], memory["said/floors"])


@kernel
def _wish(
    near: Near,
    own: Ints,
    heard: Floats,
    weights: Floats,
    rule: tuple[float, float, float, bool, bool],
    coder: Coder,
    tally: Ints,
    wanted: Ints,
) -> float:
    """Units along each own entry, out of the node where its price is higher; the largest, infinity when one no longer fits
    (one that a limiter will cut anyway is cut here)."""
    step, unit, most, limited, quantised = rule
    largest = 0.0
    for r in range(len(own)):
        i = own[r]
        for e in range(near.first[i], near.first[i + 1]):
            d = heard[i, 0] - heard[near.node[e], 0]
            if quantised:
                d = quantise_counted(coder, d, tally)
            steps = abs(step * weights[e] * d) / unit
            if not steps < most:
                if not limited or np.isnan(steps):
                    return np.inf
                steps = most
            largest = max(largest, steps)
            wanted[e] = int(steps) if d > 0.0 else -int(steps)
    return largest


@kernel
def outflow(near: Near, own: Ints, moved: Ints) -> Ints:
    """Units that leave each own node."""
    left = np.zeros(len(own), dtype=np.int64)
    for r in range(len(own)):
        for e in range(near.first[own[r]], near.first[own[r] + 1]):
            left[r] += moved[e]
    return left


@kernel
def _refill(excess: Floats, refused: Floats, stiffness: Floats, x: Ints, box: tuple[Ints, Ints], unit: float) -> None:
    """The price of a full node: a virtual share that holds what could not move (docs/train.md, 3.5)."""
    low, high = box
    for i in range(len(excess)):
        K = stiffness[i]
        e = excess[i] + K * refused[i]
        nu = max(0.0, e - K * (high[i] - x[i]) * unit) if high[i] < NO_BOUND else 0.0
        omega = max(0.0, -e - K * (x[i] - low[i]) * unit) if low[i] > -NO_BOUND else 0.0
        excess[i] = nu - omega
