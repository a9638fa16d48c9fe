"""How many bits each link may have carried where links return, counted from the graphs and the words of the protocol alone.

A link of a graph carries, in each round of that graph, what its sender says to all its neighbours there:

    models   a number per parameter: 64 bits at the first meeting, then codes of sign, 6 bits of exponent, and a mantissa
    prices   one such number, a flag for an elasticity, and with boxes a flag for parts
             16 bits of elasticity before the first meeting, and again whenever it has changed
             where a box holds something back: 20 bits of parts, and 1 + up to 66 bits of what the row decides
    at first each round 64 bits over every link there is, until all know the largest L

All is known to the bit but elasticities that changed and boxes that held back; and these a sender says to all alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from equipoise.kernels import Bools, Floats, Ints
from equipoise.train.network import Network

FLOAT, SIGN, EXPONENT, FINEST = 64, 1, 6, 20
ELASTICITY, PARTS, DECIDED = 16, 20, 1 + 66


def code_bits(rho: float) -> int:
    """The fewest bits of a code whose relative error is that of rho; a float where rho is 0."""
    if not rho > 0:
        return FLOAT
    mantissa = math.ceil(-math.log2(math.expm1(rho / 2)) - 1)
    return SIGN + EXPONENT + min(max(mantissa, 0), FINEST)


@dataclass(frozen=True, eq=False)
class LinkCount:
    """The links of a network that repeats, numbered by (sender, receiver), and what is said over them."""

    n: int
    keys: Ints  # sender x n + receiver, ascending
    graphs: Bools  # [graph, link]: which are in it
    numbers: int  # that a message has: a price, and a model's parameters
    cpu: bool
    boxed: bool
    code: int
    flood: Ints  # bits of each link until all know the largest L

    @classmethod
    def of(
        cls, network: Network, rho: float, *, cpu: bool, boxed: bool, size: int, steepness: Floats | None
    ) -> LinkCount:
        """`steepness` is L of every node where there is a model of `size` parameters."""
        n, own = network.n, []
        assert network.period is not None
        for k in range(network.period):
            graph = network.topology(k)
            own.append(np.concatenate([graph.tails * n + graph.heads, graph.heads * n + graph.tails]))
        keys = np.unique(np.concatenate(own))
        graphs = np.array([np.isin(keys, some) for some in own])
        flood = _flooded(n, keys, graphs, steepness) if steepness is not None else np.zeros(len(keys), dtype=np.int64)
        return cls(n, keys, graphs, cpu + size, cpu, boxed, code_bits(rho), flood)

    def allowed(self, rounds: int) -> tuple[Ints, Ints]:
        """The fewest and the most bits of each link after so many rounds."""
        least, most = self.flood.copy(), self.flood.copy()
        for t, there in enumerate(self.graphs):
            fewest, loose = self._said(t, rounds)
            least[there] += fewest
            most[there] += fewest + loose
        return least, most

    def total(self, rounds: int) -> tuple[int, int]:
        """The same of all links together."""
        least = most = int(self.flood.sum())
        for t, links in enumerate(self.graphs.sum(axis=1).tolist()):
            fewest, loose = self._said(t, rounds)
            least, most = least + links * fewest, most + links * (fewest + loose)
        return least, most

    def _said(self, t: int, rounds: int) -> tuple[int, int]:
        """The fewest bits that a link of a graph carried, and the most beside them."""
        times = len(range(t, rounds, len(self.graphs)))
        said = self.numbers * (FLOAT + (times - 1) * self.code) if times else 0
        if not self.cpu:
            return said, 0
        loose = times * ELASTICITY + max(times - 1, 0) * (PARTS + DECIDED) * self.boxed
        return said + ELASTICITY + times * (1 + self.boxed), loose

    def wrong(self, senders: Ints, receivers: Ints, bits: Ints, rounds: int) -> list[str]:
        """What the protocol does not allow of these counts, in words; nothing if it allows all of them."""
        given = senders * self.n + receivers
        chords = sorted({(int(i), int(j)) for i, j in zip(senders, receivers, strict=True)} - self._pairs())
        if chords or len(np.unique(given)) < len(given) or len(given) < len(self.keys):
            words = [f"a chord: {i} to {j} is no link of any round" for i, j in chords]
            words += ["a link is counted twice"] if len(np.unique(given)) < len(given) else []
            missing = len(np.setdiff1d(self.keys, given))
            return words + ([f"{missing} links of the graphs have no count"] if missing else [])
        bits = bits[np.argsort(given, kind="stable")]
        least, most = self.allowed(rounds)
        bad = np.flatnonzero((bits < least) | (bits > most))
        found = [
            f"{self._name(k)} carried {bits[k]:,} bits, allowed are {least[k]:,} to {most[k]:,}" for k in bad.tolist()
        ]
        return found or self._unlike(bits - least)

    def _unlike(self, beside: Ints) -> list[str]:
        """A sender says the same to all neighbours of a graph: what its links carried beside what is fixed is a sum over
        the graphs that they are in, whatever was said in each."""
        found = []
        ends = np.flatnonzero(np.diff(self.keys // self.n)) + 1
        for own in np.split(np.arange(len(self.keys)), ends):
            if (beside[own] == beside[own[0]]).all() and len(self.graphs) == 1:
                continue
            shape = self.graphs[:, own].T.astype(float)
            heard = np.linalg.lstsq(shape, beside[own].astype(float), rcond=None)[0]
            off = np.abs(shape @ heard - beside[own])
            if off.max(initial=0.0) > 1e-3:  # whole bits: anything near 0 is rounding
                found.append(
                    f"{self._name(own[int(off.argmax())])} or another of its sender carried other bits than the same "
                    "words elsewhere"
                )
        return found

    def _pairs(self) -> set[tuple[int, int]]:
        return {(int(key) // self.n, int(key) % self.n) for key in self.keys}

    def _name(self, k: int) -> str:
        return f"the link {int(self.keys[k]) // self.n} to {int(self.keys[k]) % self.n}"


def _flooded(n: int, keys: Ints, graphs: Bools, steepness: Floats) -> Ints:
    """Each round every link there is carries a float, until nobody knows less than the largest."""
    bits = np.zeros(len(keys), dtype=np.int64)
    knows, number = steepness >= steepness.max(), 0
    while not knows.all():
        there = graphs[number % len(graphs)]
        bits[there] += FLOAT
        told = keys[there][knows[keys[there] // n]] % n
        knows = knows.copy()
        knows[told] = True
        number += 1
    return bits
