"""What config.yaml alone says of a run, found by other means than the run's own: best shares, a best model, and the bits
that each link may have carried."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize

from equipoise.kernels import Floats, Ints
from equipoise.train.costs._base import Cost, second
from equipoise.train.models._base import Model
from equipoise.train.network import Network

DOUBLINGS, HALVINGS = 200, 120
FAR = 2.0**60  # CPUs: nobody takes as many where a box is open
EXACT = {"xtol": 1e-300, "rtol": 1e-15, "maxiter": 500}  # Brent's method, to the last bit
ROUNDED = 2.0**-46  # of the size of costs: what rounding leaves of their differences
NEAR = 4096  # units by which shares may be off without anybody caring
ARRIVED = 1e-6  # of the gradient at the start: a model that is as good as the best
WITNESSES = 32  # models that are scored on everybody's data: those farthest from the average
FLOAT, SIGN, EXPONENT, FINEST = 64, 1, 6, 20  # bits of a number, and of a code: its mantissa has at most FINEST
ELASTICITY, PARTS, DECIDED = 16, 20, 1 + 66


def part_of(gap: float, scale: float, noise: float) -> float:
    """A gap as a part of the one at the start; what is rounding is none."""
    return 0.0 if abs(gap) <= noise and noise > 1e-9 * scale else gap / scale


# shares


class Prices:
    """What nodes would take at the price at which all of a budget is taken: any shares are held against that.

    The price is found by Brent's method; `near` are shares to look around where boxes are open.
    """

    def __init__(self, cost: Cost, lo: Floats, hi: Floats, unit: float, budget: float, near: Floats) -> None:
        self.cost, self.lo, self.hi, self.unit = cost, lo, hi, unit
        inside = np.clip(near, lo, hi)
        self._ends = np.where(np.isfinite(lo), lo, inside - FAR), np.where(np.isfinite(hi), hi, inside + FAR)

        def missing(price: float) -> float:
            return math.fsum(self._at(price).tolist()) - budget

        slopes = cost.derivative(inside)
        low, high = float(slopes.min()), float(slopes.max())
        width = max(high - low, abs(high), 1e-6)
        for _ in range(DOUBLINGS):
            below, above = missing(low), missing(high)
            if below <= 0.0 <= above:
                break
            low, high, width = low - width, high + width, 2.0 * width
        self.price = brentq(missing, low, high, **EXACT) if below < 0.0 < above else high if below < 0.0 else low
        self.wanted = self._at(self.price)

    def _at(self, price: float) -> Floats:
        """What each node takes at a price: where its derivative meets it, by halving, or the end of its box."""
        derivative, (left, right) = self.cost.derivative, self._ends
        for _ in range(HALVINGS):
            middle = 0.5 * (left + right)
            more = derivative(middle) < price
            left, right = np.where(more, middle, left), np.where(more, right, middle)
        x, (first, last) = 0.5 * (left + right), self._ends
        x = np.where(derivative(first) >= price, first, x)
        return np.asarray(np.where(derivative(last) <= price, last, x))

    def gap(self, x: Floats) -> float:
        """How much more these shares cost than the best, or more than that, whatever the price: by Lagrange."""
        with np.errstate(all="ignore"):
            each = self.cost.value(x) - self.cost.value(self.wanted) - self.price * (x - self.wanted)
        return math.fsum(each.tolist()) if np.isfinite(each).all() else math.inf

    @property
    def noise(self) -> float:
        """A gap that is rounding, of costs or of shares to their unit."""
        z, cost = self.wanted, self.cost
        bend = second(cost, z, self.lo, self.hi)
        size = np.abs(cost.value(z)) + np.abs(cost.derivative(z) * z) + bend * z**2
        return max(ROUNDED * float(size.sum()), float(bend.sum()) * (NEAR * self.unit) ** 2, 1e-300)

    def limit(self, x: Floats, allowed: float, most: float, curvature: Floats) -> float:
        """How far prices may differ where the gap is `allowed`: its root times the steepest slope, at most `most`, and
        rounding. Nodes at the bound where they should be have no say; those that should be count by all of their box."""
        lo, hi = self.lo, self.hi
        inside = np.clip(x, lo, hi)
        acts = ~((inside == self.wanted) & ((inside == lo) | (inside == hi)))
        bends = np.maximum(second(self.cost, inside, lo, hi), second(self.cost, self.wanted, lo, hi))
        bends = np.where((self.wanted == lo) | (self.wanted == hi), np.maximum(bends, curvature), bends)
        steep = float(bends[acts].max(initial=0.0))
        price = float(np.abs(self.cost.derivative(inside)[acts]).max(initial=0.0))
        alike = max(math.sqrt(2 * steep * self.noise), 8 * self.unit * steep, 64 * float(np.spacing(price)))
        return max(min(math.sqrt(2 * steep * allowed), most), alike)


def price_spread(x: Floats, prices: Floats, curvature: Floats, lo: Floats, hi: Floats) -> float:
    """The least p such that some common price is within p of everybody's who could still act on it."""

    def sides(price: float) -> tuple[float, float]:
        more = np.minimum(price - prices, curvature * (hi - x))
        less = np.minimum(prices - price, curvature * (x - lo))
        return max(0.0, float(more.max())), max(0.0, float(less.max()))

    def balance(price: float) -> float:
        more, less = sides(price)
        return more - less

    low, high = float(prices.min()), float(prices.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        return math.nan
    if balance(low) >= 0.0 or balance(high) <= 0.0:
        return min(max(sides(low)), max(sides(high)))
    return max(sides(brentq(balance, low, high, **EXACT)))


# models


@dataclass(frozen=True, eq=False)
class Least:
    """The least loss of one model for all, and what it may be off by."""

    loss: float
    scale: float  # the gap at the start
    noise: float  # a difference of losses that is rounding
    off: float  # how far above the least the loss may be; infinite where nothing proves it

    @classmethod
    def find(cls, model: Model, start: Floats, guess: Floats) -> Least:
        """By L-BFGS on the pooled loss, from any guess: a file's best model, or the start."""
        first, slope = model.total(start)
        size = float(np.abs(slope).max()) or 1.0
        options = {"maxiter": 5000, "maxfun": 10_000, "maxcor": 20, "ftol": 0.0, "gtol": 1e-10 * size}
        y = np.asarray(minimize(model.total, guess, jac=True, method="L-BFGS-B", options=options).x)
        loss, gradient = model.total(y)
        noise = max(1e-12 * abs(loss), ROUNDED * abs(first), 1e-300)
        proven = float(gradient @ gradient) / (2 * model.convexity) if model.convexity > 0 else math.inf
        flat = float(np.abs(gradient).max()) <= max(ARRIVED * size, 1e-12)
        return cls(loss, max(first - loss, noise), noise, min(proven, noise if flat else math.inf))


def worst_loss(model: Model, models: Floats) -> float:
    """The largest loss on everybody's data; of many models, of those farthest from the average."""
    if len(models) > WITNESSES and not model.quick_totals:
        models = models[np.sort(np.argsort(_from_average(models), kind="stable")[-WITNESSES:])]
    with np.errstate(all="ignore"):
        return float(np.max(model.totals(np.ascontiguousarray(models))))


def can_show(truth: Floats, mean: float | None) -> bool:
    """Whether a model that is always right would be told from the constant answer on these rows: see below."""
    if mean is not None:
        always = (truth - mean) ** 2
        return bool(always.mean() > 2.0 * math.sqrt(always.var() / len(truth)))
    counts = np.unique(truth, return_counts=True)[1]
    parts = counts / counts.sum()
    chance = float(((1.0 - parts) / counts.sum()).sum())  # of each class p (1 - p) / n, and n = p times all rows
    return len(counts) - 1 > 2.0 * math.sqrt(chance) + 1.0 / float(counts.min())


def worst_beside_constant(
    model: Model, models: Floats, X: Any, truth: Floats, mean: float | None
) -> tuple[float, float]:
    """Of the worst model on held-out rows: its balanced error, and the limit, two standard errors and one row of the rarest
    class below always giving one class; of numbers its mean square error as a part of that of always giving the `mean`, and
    the limit, two standard errors below it."""
    pairs = []
    with np.errstate(all="ignore"):
        for y in models:
            if mean is not None:
                miss, always = (X @ y - truth) ** 2, (truth - mean) ** 2
                limit = 1.0 - 2.0 * float(np.std(always - miss)) / math.sqrt(len(truth)) / float(always.mean())
                pairs.append((float(miss.mean() / always.mean()), limit))
                continue
            labels, counts = np.unique(truth, return_counts=True)
            own = [np.flatnonzero(truth == label) for label in labels]
            found = [model.accuracy(y, X[rows], truth[rows]) or 0.0 for rows in own]
            said = [model.accuracy(y, X, np.full(len(truth), label)) or 0.0 for label in labels]
            chance = sum(rate * (1.0 - rate) / count for rate, count in zip(said, counts, strict=True))
            room = 2.0 * math.sqrt(chance) + 1.0 / float(counts.min())
            pairs.append((1.0 - sum(found) / len(labels), 1.0 - (1.0 + room) / len(labels)))
    return max(pairs, key=lambda pair: pair[0] - pair[1])


def apart(models: Floats) -> float:
    """The farthest model from the average one, as a part of the largest."""
    return float(_from_average(models).max()) / max(float(np.linalg.norm(models, axis=1).max()), 1e-300)


def _from_average(models: Floats) -> Floats:
    return np.asarray(np.linalg.norm(models - models.mean(axis=0), axis=1))


# bits


def code_bits(rho: float) -> int:
    """The fewest bits of a code whose relative error is that of rho; a float where rho is 0."""
    if not rho > 0:
        return FLOAT
    mantissa = math.ceil(-math.log2(math.expm1(rho / 2)) - 1)
    return SIGN + EXPONENT + min(max(mantissa, 0), FINEST)


class LinkCount:
    """The links of a network that repeats, and the bits of what is said over them.

    A link of a graph carries, in each round of that graph, what its sender says to all its neighbours there:

        models   a number per parameter: 64 bits at the first meeting, then codes of sign, exponent and mantissa
        prices   one such number, a flag for an elasticity, and with boxes a flag for parts
                 16 bits of elasticity before the first meeting, and again whenever it has changed
                 where a box holds something back: 20 bits of parts, and 1 + up to 66 bits of what the row decides
        at first each round 64 bits over every link there is, until all know the largest L

    All is known to the bit but elasticities that changed and boxes that held back; and these a sender says to all alike.
    `steepness` is L of every node where there is a model of `size` parameters.
    """

    def __init__(
        self, network: Network, rho: float, *, cpu: bool, boxed: bool, size: int, steepness: Floats | None
    ) -> None:
        assert network.period is not None
        self.n, self.cpu, self.boxed, self.code = network.n, cpu, boxed, code_bits(rho)
        n = self.n
        self.numbers = cpu + size  # of a message
        graphs = [network.topology(k) for k in range(network.period)]
        own = [np.concatenate([g.tails * n + g.heads, g.heads * n + g.tails]) for g in graphs]
        self.keys = keys = np.unique(np.concatenate(own))  # sender x n + receiver, ascending
        self.graphs = np.array([np.isin(keys, some) for some in own])  # [graph, link]: which are in it
        self.flood, number = np.zeros(len(keys), dtype=np.int64), 0  # until all know the largest L
        knows = np.ones(n, dtype=bool) if steepness is None else steepness >= steepness.max()
        while not knows.all():
            there = self.graphs[number % len(graphs)]
            self.flood[there] += FLOAT
            knows[keys[there][knows[keys[there] // n]] % n] = True
            number += 1

    def allowed(self, rounds: int) -> tuple[Ints, Ints]:
        """The fewest and the most bits of each link after so many rounds."""
        least, most = self.flood.copy(), self.flood.copy()
        for t, there in enumerate(self.graphs):
            times = len(range(t, rounds, len(self.graphs)))
            said = self.numbers * (FLOAT + (times - 1) * self.code) if times else 0
            loose = 0
            if self.cpu:
                said += ELASTICITY + times * (1 + self.boxed)
                loose = times * ELASTICITY + max(times - 1, 0) * (PARTS + DECIDED) * self.boxed
            least[there] += said
            most[there] += said + loose
        return least, most

    def total(self, rounds: int) -> tuple[int, int]:
        """The same of all links together."""
        least, most = self.allowed(rounds)
        return int(least.sum()), int(most.sum())

    def wrong(self, senders: Ints, receivers: Ints, bits: Ints, rounds: int) -> list[str]:
        """What the protocol does not allow of these counts, in words; nothing if it allows all of them."""
        given = senders * self.n + receivers
        chords = ~np.isin(given, self.keys) | (receivers < 0) | (receivers >= self.n)
        missing, twice = len(np.setdiff1d(self.keys, given)), len(np.unique(given)) < len(given)
        if chords.any() or missing or twice:
            pairs = zip(senders[chords].tolist(), receivers[chords].tolist(), strict=True)
            words = [f"a chord: {i} to {j} is no link of any round" for i, j in sorted(pairs)]
            words += ["a link is counted twice"] if twice else []
            return words + ([f"{missing} links of the graphs have no count"] if missing else [])
        bits = bits[np.argsort(given, kind="stable")]
        least, most = self.allowed(rounds)
        bad = np.flatnonzero((bits < least) | (bits > most)).tolist()
        found = [f"{self._name(k)} carried {bits[k]:,} bits, allowed are {least[k]:,} to {most[k]:,}" for k in bad]
        return found or self._unlike(bits - least)

    def _unlike(self, beside: Ints) -> list[str]:
        """A sender says the same to all neighbours of a graph: what its links carried beside what is fixed is a sum over
        the graphs that they are in, whatever was said in each."""
        found = []
        for own in np.split(np.arange(len(self.keys)), np.flatnonzero(np.diff(self.keys // self.n)) + 1):
            shape, loose = self.graphs[:, own].T.astype(float), beside[own].astype(float)
            off = np.abs(shape @ np.linalg.lstsq(shape, loose, rcond=None)[0] - loose)
            if off.max(initial=0.0) > 1e-3:  # whole bits: anything near 0 is rounding
                name = self._name(own[int(off.argmax())])
                found.append(f"{name} or another of its sender carried other bits than the same words elsewhere")
        return found

    def _name(self, k: int) -> str:
        return f"the link {int(self.keys[k]) // self.n} to {int(self.keys[k]) % self.n}"
