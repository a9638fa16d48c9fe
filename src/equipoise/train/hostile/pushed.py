"""The CPU half on one-way links where nothing is lost and no box binds: the push form.

    x+ = x + eta (C - I)(v o phi),   v+ = C v,   C column-stochastic, one v for each graph

What leaves one node enters others, so the budget holds even while v is being learnt; once C v = v, shares rest only where
all prices phi are equal (docs/train.md, 5).
"""

from __future__ import annotations

import numpy as np

from equipoise.kernels import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.hostile.ledger import Ledger
from equipoise.train.hostile.mail import SEQUENCE_BITS, Mail
from equipoise.train.hostile.traffic import Roads, Traffic
from equipoise.train.limiter import BIGGEST_FLOW
from equipoise.train.method import Method
from equipoise.train.problem import Market
from equipoise.train.quantize import FLOAT_BITS

STEP = 0.9  # of the limit 1 / max_j (1 - c_jj) v_j a_j, where the eigenvalues' circles reach -1 (Gershgorin)
SETTLED, MOST_PRODUCTS = 1e-12, 100_000


class Pushed(Ledger):
    """Shares, prices, and the weights v of every graph. Nothing is ever in flight after a round."""

    def __init__(
        self, market: Market, method: Method, mail: Mail, present: AnyArray, roads: Roads, period: int
    ) -> None:
        super().__init__(market, method, mail, present)
        self.weights = np.ones((period, len(market.lo)))  # v, per graph
        steepest = max(
            float(((1.0 - keeps(traffic)) * stationary(traffic) * market.curvature).max())
            for traffic in map(roads.traffic, range(period))
        )
        self.step = STEP / (method.sector * steepest)

    OWN: tuple[str, ...] = (*Ledger.OWN, "weights")

    def give(self, traffic: Traffic, number: int, acting: AnyArray, going: AnyArray, open_: AnyArray) -> bool:
        """Everybody says its price, and its weight."""
        market = self.market
        self.prices[:, 0] = market.cost.derivative(market.grid.floats(self.shares))
        if not np.isfinite(self.prices[acting]).all():
            return False
        self.amount_bits[traffic.link[going]] += FLOAT_BITS + SEQUENCE_BITS
        self.post.say(traffic, number, going, self.mail, self.prices, self._nothing, self.times)
        self._round = traffic, number
        return True

    def take(self, owners: Ints, acting: AnyArray) -> bool:
        """CPU moves as the prices say that were heard; weights are learnt on."""
        self.post.hear(self.mail)
        traffic, number = self._round
        v = self.weights[number % len(self.weights)]
        share = keeps(traffic)
        fine = _move(
            traffic.senders,
            traffic.receivers,
            traffic.link,
            share,
            v,
            self.post.held,
            self.step,
            self.market.grid.unit,
            self.shares,
        )
        self.weights[number % len(self.weights)] = product(traffic, share, v)
        return bool(fine)


def keeps(traffic: Traffic) -> Floats:
    """c_ii = c_ji = 1 / (1 + out-degree of i): what a node keeps, and gives to each."""
    return np.asarray(1.0 / (1.0 + traffic.degree))


def product(traffic: Traffic, share: Floats, v: Floats) -> Floats:
    """C v."""
    parts = share * v
    return np.asarray(parts + np.bincount(traffic.receivers, parts[traffic.senders], traffic.n))


def stationary(traffic: Traffic) -> Floats:
    """v = C v with mean 1, by repeated products: what the rounds will learn."""
    v, share = np.ones(traffic.n), keeps(traffic)
    for _ in range(MOST_PRODUCTS):
        after = product(traffic, share, v)
        if np.abs(after - v).max() <= SETTLED:
            break
        v = after
    return v


@kernel
def _move(
    senders: Ints,
    receivers: Ints,
    link: Ints,
    share: Floats,
    v: Floats,
    heard: Floats,
    step: float,
    unit: float,
    shares: Ints,
) -> bool:
    """What i gives j: eta c_ji v_i phi_i, in whole units; both ends know all of it."""
    fine = True
    for e in range(len(link)):
        i = senders[e]
        amount = step * share[i] * v[i] * heard[link[e], 0] / unit
        if not abs(amount) < BIGGEST_FLOW:
            fine = False
            continue
        units = int(amount)
        shares[i] -= units
        shares[receivers[e]] += units
    return fine
