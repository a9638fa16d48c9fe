"""CPU on one-way links where nothing is lost and no box binds: the push form (docs/train.md, 5).

    x+ = x + eta (C - I)(v o phi),   v+ = C v,   C column-stochastic, one v for each graph

What leaves one node enters others, so the budget holds even while v is being learnt; once C v = v, shares rest only where
all prices phi are equal. A message is a price in a code, and v as it is: both ends reckon what moves from what was said.
"""

from __future__ import annotations

import numpy as np

from equipoise.kernels import Bools, Floats, Ints, kernel
from equipoise.train.arrays import AnyArray
from equipoise.train.codec import (
    MANTISSA,
    NUMBERS,
    SATURATED,
    UNDERFLOWED,
    bits_per_number,
    largest_code,
    mantissa_bits,
    moved_floor,
    quantise,
    value,
)
from equipoise.train.dynamics._gift_kernels import floor_of
from equipoise.train.dynamics._slots import Slots
from equipoise.train.limiter import BIGGEST_FLOW
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Market
from equipoise.train.quantize import FLOAT_BITS
from equipoise.train.region import LinkTable, Region
from equipoise.train.topology import Arcs

STEP = 0.9  # of the limit 1 / max_j (1 - c_jj) v_j a_j, where the eigenvalues' circles reach -1 (Gershgorin)
SETTLED, MOST_PRODUCTS = 1e-12, 100_000

MESSAGE = np.dtype([("price", np.float64), ("part", np.float64), ("units", np.int64), ("floor", np.int64)])


class Pushed:
    """Shares, prices, and the weights v of every graph. Nothing is ever in flight after a round."""

    OWN = ("shares", "weights", "tally")
    relax, theta = 1.0, None

    def __init__(self, region: Region, table: LinkTable, market: Market, method: Method, network: Network) -> None:
        assert network.period is not None
        self.region, self.table, self.market = region, table, market
        mantissa = mantissa_bits(method.quantizer)
        self.code = mantissa, bits_per_number(mantissa)
        nodes = len(region.ids)
        self.shares = market.start()[region.ids]
        self.escrow, self.sent = np.zeros(nodes, dtype=np.int64), np.zeros(len(region.link), dtype=np.int64)
        self.received, self.collecting = self.sent, np.zeros(nodes, dtype=np.bool_)
        self.weights = np.ones((network.period, nodes))  # v, per graph
        graphs = [network.arcs(phase) for phase in range(network.period)]
        self._keeps = [keeps(arcs)[region.ids] for arcs in graphs]
        steepest = max(float(((1.0 - keeps(arcs)) * stationary(arcs) * market.curvature).max()) for arcs in graphs)
        self.step = STEP / (method.sector * steepest)
        self.messages = np.zeros(region.rows, dtype=MESSAGE)
        self.bits = region.count("prices"), region.count("ledgers")
        self.tally = np.zeros(3, dtype=np.int64)
        self.acting = np.ones(nodes, dtype=np.bool_)

    def say(self, number: int) -> bool:
        market, phase = self.market, number % len(self.weights)
        prices = np.asarray(market.cost.derivative(market.grid.floats(self.shares)), dtype=np.float64)
        if not np.isfinite(prices).all():
            return False
        parts = self._keeps[phase] * self.weights[phase]
        slots, scale = Slots.of(self.region), self.step / market.grid.unit
        return bool(_say(slots, prices, parts, scale, self.shares, self.messages, self.code, self.bits, self.tally))

    def hear(self, number: int) -> bool:
        phase = number % len(self.weights)
        parts = self._keeps[phase] * self.weights[phase]
        _hear(Slots.of(self.region), parts, self.shares, self.messages)
        self.weights[phase] = parts
        return True

    def in_flight(self, alive: Bools) -> int:
        return 0

    def reprice(self, links: Bools | None = None) -> None:
        """Prices are made anew in every round anyway."""

    def keep(self, rows: Ints, places: Ints) -> None:
        self.messages[places] = self.messages[rows]

    def shut(self, links: Bools) -> None:
        """Nobody goes where this form is played."""

    reopen = shut

    def enter(self, nodes: Ints) -> None:
        """Nor does anybody come."""

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        own = {name: getattr(self, name) for name in self.OWN} | {"messages": self.messages.view(np.int64)}
        return own | {"bits.prices": self.bits[0], "bits.ledgers": self.bits[1]}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        for name, array in self.memory().items():
            array[:] = memory[name]


def keeps(arcs: Arcs) -> Floats:
    """c_ii = c_ji = 1 / (1 + out-degree of i): what a node keeps, and gives to each."""
    return np.asarray(1.0 / (1.0 + arcs.out_degree))


def stationary(arcs: Arcs) -> Floats:
    """v = C v with mean 1, by repeated products: what the rounds will learn."""
    v, kept = np.ones(arcs.n), keeps(arcs)
    for _ in range(MOST_PRODUCTS):
        parts = kept * v
        after = parts + np.bincount(arcs.receivers, parts[arcs.senders], arcs.n)
        if np.abs(after - v).max() <= SETTLED:
            break
        v = after
    return v


@kernel
def _say(
    slots: Slots,
    prices: Floats,
    parts: Floats,
    scale: float,
    shares: Ints,
    messages: AnyArray,
    code: tuple[int, int],
    bits: tuple[Ints, Ints],
    tally: Ints,
) -> bool:
    """Prices to each, and what i gives j: eta c_ji v_i phi_i, in whole units. False when that is out of all bounds."""
    mantissa, code_bits = code
    fine = True
    for i in range(len(prices)):
        for e in range(slots.first[i], slots.first[i + 1]):
            t, b = slots.target[e], slots.base[e]
            if t < 0:
                continue
            tally[NUMBERS] += 1
            if b < 0 or mantissa == MANTISSA:
                messages[t].price = prices[i]
                messages[t].floor = 0 if mantissa == MANTISSA else floor_of(prices[i], mantissa)
                bits[0][e] += FLOAT_BITS
            else:
                change, floor = prices[i] - messages[b].price, messages[b].floor
                size = quantise(change, floor, mantissa)
                messages[t].price = messages[b].price + value(size, floor, mantissa, change)
                messages[t].floor = moved_floor(floor, size, mantissa)
                tally[SATURATED] += size >= largest_code(mantissa)
                tally[UNDERFLOWED] += size == 0 and change != 0.0
                bits[0][e] += code_bits
            bits[1][e] += FLOAT_BITS
            amount = scale * parts[i] * messages[t].price
            fine &= abs(amount) < BIGGEST_FLOW
            messages[t].units = int(amount) if abs(amount) < BIGGEST_FLOW else 0
            messages[t].part = parts[i]
            shares[i] -= messages[t].units
    return fine


@kernel
def _hear(slots: Slots, parts: Floats, shares: Ints, messages: AnyArray) -> None:
    """CPU comes in, and parts of v: `parts` becomes v."""
    for i in range(len(shares)):
        for e in range(slots.first[i], slots.first[i + 1]):
            if slots.fresh[e]:
                heard = messages[slots.where[e]]
                shares[i] += heard.units
                parts[i] += heard.part
