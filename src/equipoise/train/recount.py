"""How many bits a run may have sent, from the graphs and the protocol alone, whatever the run itself counted."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.sparse.csgraph import shortest_path

from equipoise.train.method import Method
from equipoise.train.network import Network

FLOAT, SINGLE, LONG, ELASTICITY, AMOUNT, FACTORS = 64, 32, 48, 16, 64, 16  # bits
PARTS = 20 + 67  # bits of the parts of a row at its bound, and of what it decides for a neighbour


@dataclass(frozen=True)
class Sent:
    """What was negotiated, by which method, over which network; `met` links were ever used."""

    network: Network
    method: Method
    cpu: bool
    boxed: bool
    size: int  # parameters of the model, 0 without one
    met: int

    def allowed(self, rounds: int, audited: int, links: int) -> tuple[int, int]:
        """The fewest and the most bits of so many rounds, of which `audited` had `links` messages in all.

        Numbers are known to the bit. What varies: elasticities and parts that changed, factors of a limiter and amounts
        that it cut, and how long the largest L took to be known.
        """
        network = self.network
        least = most = 0
        if network.period is None:
            last = 2 * network.topology(max(rounds - 1, 0)).edges  # a round that diverged had messages, and no audit
            fixed, loose, first = self._message(first=True)
            least, most = links * (fixed + first), (links + (rounds - audited) * last) * (fixed + loose + first)
        else:
            fixed, loose, _ = self._message(first=False)
            known: set[int] = set()
            for k in range(min(network.period, rounds)):
                opening, _, told = self._message(first=True, again=id(network.topology(k)) in known)
                known.add(id(network.topology(k)))
                there, times = 2 * network.topology(k).edges, len(range(k, rounds, network.period))
                least += there * (opening + told + (times - 1) * fixed)
                most += there * times * loose
            most += least
            if self.cpu and self.method.cpu == "links" and rounds < network.period:  # elasticities of graphs to come
                early = ELASTICITY * sum(2 * network.topology(k).edges for k in range(rounds, network.period))
                least, most = least + early, most + early
        if self.size and self.method.alpha == "auto":
            shortest, longest = _flooding(network, self.met)
            least, most = least + FLOAT * shortest, most + FLOAT * longest
        return least, most

    @property
    def steady(self) -> int:
        """Bits of a link and round once links have met: what is always there."""
        return self._message(first=False)[0]

    def _message(self, *, first: bool, again: bool = False) -> tuple[int, int, int]:
        """Bits of a link and round: always, at most beside, and what is only told when two meet in a graph first. A graph
        that stands in the list again is a new one over links, and the same one by rows."""
        new = first and not again
        method, limited = self.method, self.boxed and self.method.limits_boxes
        fixed = loose = told = 0
        degree = max(8, (self.network.n - 1).bit_length())
        if self.cpu and method.cpu == "links":
            fixed += self._number(first) + 1 + self.boxed
            loose += ELASTICITY + PARTS * self.boxed
            told += ELASTICITY
        elif self.cpu:
            if method.by_markets:
                fixed += self._number(new, 2, LONG) + self._number(new, self._busiest + 1, LONG) + ELASTICITY
            else:
                fixed += self._number(new, 1, LONG)
            told += degree * (not again) if method.by_markets or method.cpu_weights != "laplacian" else 0
            told += FLOAT * (not again) if not method.by_markets and method.cpu_weights == "curvature" else 0
            fixed, loose = fixed + 2 * limited, loose + (FACTORS + AMOUNT) * limited
        if self.size and method.learning == "links":
            fixed += self.size * self._number(first)
        elif self.size and isinstance(method.learning, type):
            fixed += int(method.learning.numbers(self.size)) * self._number(new)  # type: ignore[attr-defined]
        elif self.size and method.by_meetings:
            finer = max(self._busiest, 2) + 1
            fixed += self.size * (self._number(new, 2) + self._number(new, finer))
            told += degree * (not again)
        elif self.size:
            fixed += 2 * self.size * self._number(new)
            told += degree * (not again) if method.model_weights == "metropolis" else 0
        return fixed, loose, told

    @property
    def _busiest(self) -> int:
        """The most neighbours that a node has in any graph."""
        network = self.network
        return max(int(network.topology(k).degree.max(initial=1)) for k in range(network.period or 1))

    def _number(self, first: bool, finer: int = 1, short: int = SINGLE) -> int:
        """Bits of one number, right to a part in `finer`: a float at first, then sign, 6 bits of exponent and a mantissa."""
        quantizer = self.method.quantizer
        if quantizer.mode != "innovation":
            return quantizer.bits
        if self.network.period is None:
            return short
        rough = max(0, math.ceil(-math.log2(math.expm1(quantizer.rho / 2)) - 1))
        return FLOAT if first else 7 + min(20, max(rough, math.ceil(math.log2(finer) - 1)))


def _flooding(network: Network, met: int) -> tuple[int, int]:
    """The fewest and the most messages until all know the largest L, whoever has it: none where all have the same."""
    if not network.static:  # connected graphs: each round tells at least one more node
        return 0, (network.n - 1) * met
    links = 2 * network.topology(0).edges
    depth = int(shortest_path(abs(network.topology(0).laplacian()), unweighted=True, indices=0).max())
    return 0, min(2 * depth, network.n - 1) * links
