"""The CPU half of a round: prices are exchanged, CPU flows along edges, boxes hold (docs/train.md, 2, 3.4, 3.5, 3.7).

What leaves one node enters another in whole grid units, so the sum of shares cannot change.
"""

from __future__ import annotations

import numpy as np

from equipoise.kernels import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.channel import Channel, lengthened, quantise_counted
from equipoise.train.grid import NO_BOUND
from equipoise.train.limiter import BIGGEST_FLOW, FLAG_BITS, limit
from equipoise.train.links import Round
from equipoise.train.method import Method
from equipoise.train.problem import Market
from equipoise.train.quantize import Coder


class Allocation:
    """Who holds how much CPU, what each marginal unit is worth, and the momentum of every edge."""

    def __init__(self, market: Market, method: Method, step: float, pairs: int, slots: int, delay: int = 0) -> None:
        self.market, self.method, self.step = market, method, step
        nodes = len(market.lo)
        self.curvature = market.curvature * method.curvature_factor
        self.shares: Ints = market.start()
        self.excess = np.zeros(nodes)  # nu - omega: the price a full node adds so that others can see past it
        self.prices = np.zeros((nodes, 1))
        self.late = np.zeros((delay + 1 if delay else 0, nodes))  # prices of the last rounds, where they travel so long
        self.channel = Channel(method.quantizer, width=1, parts=1, slots=slots)
        self.flow = np.zeros(pairs)  # f_prev, real-valued, before limiting
        self.difference = np.zeros(pairs)  # d_prev
        self.age = np.zeros(pairs, dtype=np.int64)  # t
        self.seen = np.full(pairs, -2, dtype=np.int64)  # round in which the edge was last there
        self.limiter_bits = np.zeros(nodes, dtype=np.int64)  # of one round's promises, per sender
        self.amount_bits = np.zeros(
            2 * pairs, dtype=np.int64
        )  # of amounts so far, per link: 2p and 2p + 1 are pair p's

    def grow(self, pairs: int, slots: int) -> None:
        """Room for pairs that have just met."""
        self.channel.grow(slots)
        if pairs > len(self.seen):
            room = max(pairs, 2 * len(self.seen))
            old = len(self.seen)
            for name in ("flow", "difference", "age", "seen"):
                setattr(self, name, lengthened(getattr(self, name), room))
            self.seen[old:] = -2
            self.amount_bits = lengthened(self.amount_bits, 2 * room)

    def advance(self, round: Round, number: int) -> bool:
        """One round. False when a flow no longer fits the grid: the run has diverged and nothing was moved."""
        market, grid = self.market, self.market.grid
        x = grid.floats(self.shares)
        self.prices[:, 0] = market.price(x, self.method) + self.excess
        limited = self.method.limits_boxes and market.boxed
        if len(self.late):
            self.wait(number)
        self.channel.exchange(self.prices, round, number, flags=FLAG_BITS if limited else 0)
        wanted = np.empty(len(round.pair), dtype=np.int64)
        weights, edge_coder = round.weights(self.method.cpu_weights, self.curvature), self.channel.edge_coder
        largest = wish(
            self.channel.heard,
            round.tail_slot,
            round.head_slot,
            round.pair,
            weights,
            self.step,
            self.method.momentum,
            number,
            grid.unit,
            edge_coder is not None,
            edge_coder or self.channel.coder,
            self.flow,
            self.difference,
            self.age,
            self.seen,
            self.shares,
            limited,
            2.0**61 / max(1, round.topology.all_edges),
            self.channel.tally,
            wanted,
        )
        if not largest <= BIGGEST_FLOW:
            return False
        tails, heads = round.topology.tails, round.topology.heads
        if limited:
            moved = limit(
                wanted,
                tails,
                heads,
                round.pair,
                self.shares,
                market.low,
                market.high,
                self.limiter_bits,
                self.amount_bits,
            )
            self.channel.bits_sent[round.slots] += self.limiter_bits[round.senders]
            wished = apply(moved, wanted, tails, heads, self.shares)
            if self.method.box == "price":
                gap = grid.floats(wished - self.shares)  # desired net inflow - actual
                refill(self.excess, gap, market.stiffness, self.shares, market.low, market.high, grid.unit)
        else:
            apply(wanted, wanted, tails, heads, self.shares)
        return True

    def wait(self, number: int) -> None:
        """Both ends act on prices that are `delay` rounds old; before that, on the first ones."""
        length = len(self.late)
        self.late[number % length] = self.prices[:, 0]
        self.prices[:, 0] = self.late[max(0, number + 1 - length) % length]

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        own = {
            name: getattr(self, name)
            for name in ("shares", "excess", "flow", "difference", "age", "seen", "amount_bits", "late")
        }
        return own | {f"channel.{name}": array for name, array in self.channel.memory().items()}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        self.channel.restore({k.removeprefix("channel."): v for k, v in memory.items() if k.startswith("channel.")})
        for name, array in memory.items():
            if not name.startswith("channel."):
                setattr(self, name, array)


@kernel
def wish(
    heard: Floats,
    tail_slot: Ints,
    head_slot: Ints,
    pair: Ints,
    weights: Floats,
    step: float,
    momentum: bool,
    number: int,
    unit: float,
    quantise_difference: bool,
    coder: Coder,
    flow: Floats,
    difference: Floats,
    age: Ints,
    seen: Ints,
    shares: Ints,
    limited: bool,
    room: float,
    tally: Ints,
    wanted: Ints,
) -> float:
    """Flow along each edge from high price to low, in units; both ends compute the same number (docs/train.md, 3.7).

    Returns the largest flow or share in units, infinity when one no longer fits (one that a limiter will cut
    anyway is cut here).
    """
    largest = 0.0
    most = min(BIGGEST_FLOW, room)  # sums over a hub's edges stay inside 64 bits
    for i in range(len(shares)):
        largest = max(largest, abs(shares[i]))
    for e in range(len(pair)):
        d = heard[tail_slot[e], 0] - heard[head_slot[e], 0]
        if quantise_difference:
            d = quantise_counted(coder, d, tally)
        f = step * weights[e] * d
        if momentum:
            p = pair[e]
            if seen[p] != number - 1 or flow[p] * d < 0.0:
                flow[p], difference[p], age[p] = 0.0, d, 0
            beta = age[p] / (age[p] + 3.0)
            f = step * weights[e] * (d + beta * (d - difference[p])) + beta * flow[p]
            flow[p], difference[p] = f, d
            age[p] += 1
            seen[p] = number
        steps = abs(f) / unit
        if not steps < most:
            if not limited or np.isnan(steps):
                return np.inf
            steps = most
        largest = max(largest, steps)
        wanted[e] = int(steps) if f > 0 else -int(steps)
    return largest


@kernel
def apply(flow: Ints, wish: Ints, tails: Ints, heads: Ints, shares: Ints) -> Ints:
    """Move the flow; return what the shares would be had every wish been granted."""
    wished = shares.copy()
    for e in range(len(flow)):
        shares[tails[e]] -= flow[e]
        shares[heads[e]] += flow[e]
        wished[tails[e]] -= wish[e]
        wished[heads[e]] += wish[e]
    return wished


@kernel
def refill(excess: Floats, refused: Floats, stiffness: Floats, x: Ints, low: Ints, high: Ints, unit: float) -> None:
    """The price of a full node: a virtual share that holds what could not move (docs/train.md, 3.5)."""
    for i in range(len(excess)):
        K = stiffness[i]
        e = excess[i] + K * refused[i]
        nu = max(0.0, e - K * (high[i] - x[i]) * unit) if high[i] < NO_BOUND else 0.0
        omega = max(0.0, -e - K * (x[i] - low[i]) * unit) if low[i] > -NO_BOUND else 0.0
        excess[i] = nu - omega
