"""How many bits a run may have sent, from the graphs and the protocol alone, whatever the run itself counted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import shortest_path

from equipoise.train.arrays import Floats, Ints
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.quantize import FLOAT_BITS, Quantizer


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

        Codes and floats are known to the bit where links stay; a message after a silence takes up to a float. What else
        varies: elasticities that changed, factors of a limiter and amounts that it cut, and how long the largest L took.
        """
        if "links" in (self.method.cpu, self.method.learning):
            return self._over_links(rounds)
        missed = rounds - audited  # a round in which the run diverged had messages, and no audit
        last = 2 * self.network.topology(max(rounds - 1, 0)).edges
        least, _ = self._between(audited, links)
        _, most = self._between(rounds, links + missed * last)
        return least, most

    def _over_links(self, rounds: int) -> tuple[int, int]:
        """Over links that return all is known to the bit but how often an elasticity or a part of a box was said.

        A graph's links carry floats at their first meeting, then codes: sign, exponent of 6 bits, mantissa. Prices have a
        flag for an elasticity and, with boxes, one for parts and for what a row at its bound decides. The largest L is told
        by floats until all know it.
        """
        network, quantizer = self.network, self.method.quantizer
        assert network.period is not None
        mantissa = max(0, math.ceil(-math.log2(math.expm1(quantizer.rho / 2)) - 1)) if quantizer.rho else 52
        code = 7 + min(mantissa, 20) if quantizer.rho else FLOAT_BITS
        fixed = loose = 0
        for k in range(min(network.period, rounds)):
            links = 2 * network.topology(k).edges
            times = len(range(k, rounds, network.period))
            numbers = FLOAT_BITS + (times - 1) * code
            fixed += links * numbers * (self.size + self.cpu)
            if self.cpu:
                fixed += links * (16 + times * (1 + self.boxed))
                loose += links * times * (16 + (20 + 67) * self.boxed)
        if self.cpu and rounds < network.period:  # the first elasticities of graphs that no round has played
            fixed += 16 * sum(2 * network.topology(k).edges for k in range(rounds, network.period))
        shortest, longest = _flooding(network, self.met) if self.size else (0, 0)
        return fixed + FLOAT_BITS * shortest, fixed + loose + FLOAT_BITS * longest

    def _between(self, rounds: int, links: int) -> tuple[int, int]:
        network, method, met = self.network, self.method, self.met
        flooded = self.size > 0 and method.alpha == "auto"
        first, steady, late = _traffic(network, rounds, links, met, sure=not flooded or rounds >= network.n)
        links = first + int(steady.sum() + late.sum())
        least = most = 0
        for numbers, finer in self._streams():
            opening = FLOAT_BITS if method.quantizer.mode == "innovation" else method.quantizer.bits
            codes = _message_bits(method.quantizer, finer)
            fixed = opening * first + int(codes @ steady)
            least += numbers * (fixed + int(codes @ late))
            most += numbers * (fixed + int(np.maximum(codes, opening) @ late))
        degree = max(8, math.ceil(math.log2(max(network.n, 2)))) * (first if network.static else links)
        least, most = least + degree, most + degree
        if self.cpu:
            if method.by_markets:  # a 16-bit elasticity: each round; or at first, then a bit, and anew when changed
                fixed = links + 16 * first if network.static else 16 * links
                least, most = least + fixed, most + fixed + (16 * links if network.static else 0)
            elif method.cpu_weights == "curvature":
                least, most = least + FLOAT_BITS * first, most + FLOAT_BITS * max(first, met)
            if method.limits_boxes and self.boxed:
                least, most = least + 2 * links, most + (2 + 16 + 64) * links
        if flooded:
            shortest, longest = _flooding(network, met)
            told = 2 * FLOAT_BITS if method.by_meetings else FLOAT_BITS  # the largest L; and the largest first gradient
            least, most = least + told * shortest, most + told * longest
        return least, most

    def _streams(self) -> list[tuple[int, Floats]]:
        """Each stream of messages: how many numbers one carries, and by how much a sender of each degree shrinks its news
        (1 is one code). Hosts speak the finer the more they have around them, models to a part in e."""
        around: Floats = np.arange(1.0, self.network.n + 2.0)
        once = np.ones(len(around))
        streams: list[tuple[int, Floats]] = []
        if self.cpu:
            streams += [(1, np.e * once), (1, around)] if self.method.by_markets else [(1, once)]
        if self.size > 0:
            m = self.size
            ours = [(m, np.e * once), (m, np.maximum(around, 3.0))]
            streams += ours if self.method.by_meetings else [(2 * m, once)]
        return streams


def _traffic(network: Network, rounds: int, links: int, met: int, sure: bool) -> tuple[int, Ints, Ints]:
    """Messages by kind: first contacts; on links that were there a round before, by the sender's degree; after a silence.

    Where graphs never repeat, `links` messages over `met` links are all that is known (`sure`: all of those were played).
    """
    most = network.n + 1
    steady, late = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
    if network.period is None:
        first = met if sure else 0
        late[min(1, most - 1)] = links - first
        return first, steady, late
    graphs = [network.topology(k) for k in range(min(network.period, rounds))]
    keys = [graph.tails * network.n + graph.heads for graph in graphs]
    known, first = np.empty(0, dtype=np.int64), 0
    for k, graph in enumerate(graphs):
        times = -(-(rounds - k) // network.period)
        new = ~np.isin(keys[k], known)
        again = times - new
        stays = np.isin(keys[k], keys[k - 1])
        for ends in (graph.tails, graph.heads):
            degree = graph.degree[ends]
            steady += np.bincount(degree, again * stays, most).astype(np.int64)
            late += np.bincount(degree, again * ~stays, most).astype(np.int64)
        first += 2 * int(new.sum())
        known = np.union1d(known, keys[k])
    return first, steady, late


def _message_bits(quantizer: Quantizer, finer: Floats) -> Ints:
    """Bits of a number whose news is to be shrunk so much: a code, or several - or a float, where that is shorter."""
    error = math.expm1(quantizer.rho / 2)
    if quantizer.mode != "innovation" or (finer == 1.0).all():
        return np.full(len(finer), quantizer.bits)
    if error >= 0.9:  # a code says too little
        return np.full(len(finer), FLOAT_BITS)
    times = np.ceil(np.log(finer) / -math.log(max(error, 1e-9))).astype(np.int64)
    return np.asarray(np.minimum(np.maximum(times, 1) * quantizer.bits, FLOAT_BITS))


def _flooding(network: Network, met: int) -> tuple[int, int]:
    """The fewest and the most messages until all know the largest L, whoever has it."""
    if not network.static:  # connected graphs: each round tells at least one more node
        return 0, (network.n - 1) * met
    links = 2 * network.topology(0).edges
    depth = int(shortest_path(abs(network.topology(0).laplacian()), unweighted=True, indices=0).max())
    return -(-depth // 2) * links, min(2 * depth, network.n - 1) * links
