"""What nodes tell each other besides prices and models: degrees, curvatures, the largest smoothness (docs/train.md, 3.7)."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse.csgraph import shortest_path

from equipoise.kernels import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.channel import lengthened
from equipoise.train.links import Links, Round
from equipoise.train.network import Network
from equipoise.train.quantize import FLOAT_BITS

DEGREE_BITS = 8  # more where a node can have more than 255 neighbours


class Overhead:
    """Bits per slot for degrees (every round where neighbours change, else once) and curvatures (at first contact)."""

    def __init__(self, links: Links, curvature_bits: int) -> None:
        self.switching = links.per_link
        self.curvature_bits = curvature_bits
        self.degree_bits = max(DEGREE_BITS, math.ceil(math.log2(max(links.nodes, 2))))
        self.bits = np.zeros(links.slots, dtype=np.int64)
        self.met = np.zeros(links.slots, dtype=np.bool_)

    def grow(self, slots: int) -> None:
        """Room for pairs that have just met."""
        if slots > len(self.bits):
            room = max(slots, 2 * len(self.bits))
            self.bits, self.met = lengthened(self.bits, room), lengthened(self.met, room)

    def advance(self, round: Round, number: int) -> None:
        """One round's share."""
        if not self.switching and number > 0:
            return
        _count(round.slots, self.degree_bits, self.curvature_bits, self.bits, self.met)

    def flood(self, values: Floats, links: Links, network: Network) -> None:
        """Agree on the largest value: every link carries a float in each round until all know it."""
        if network.static:
            origin = int(np.argmax(values))
            hops = shortest_path(abs(network.topology(0).laplacian()), unweighted=True, indices=origin)
            self.bits += FLOAT_BITS * int(hops.max())
            return
        known, number = values.copy(), 0
        while known.min() < values.max():
            round = links.round(number)
            self.grow(links.slots)
            self.bits[round.slots] += FLOAT_BITS
            heard = known.copy()
            np.maximum.at(heard, round.topology.heads, known[round.topology.tails])
            np.maximum.at(heard, round.topology.tails, known[round.topology.heads])
            known, number = heard, number + 1

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        return {"bits": self.bits, "met": self.met}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        self.bits, self.met = memory["bits"], memory["met"]


@kernel
def _count(slots: Ints, degree_bits: int, curvature_bits: int, bits: Ints, met: AnyArray) -> None:
    for slot in slots:
        bits[slot] += degree_bits + (0 if met[slot] else curvature_bits)
        met[slot] = True
