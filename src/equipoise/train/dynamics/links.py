"""Learning over links that carry both ways and return: relaxed, linearised ADMM (docs/train.md, 5).

    say    q_ij = 2 rho_ij y_i - z_ij
    hear   z_ij += relax (q_ji - z_ij);   y_i = (h (y_i + beta (y_i - y_prev)) - grad_i + sum z_ij) / (h + sum rho_ij)

m numbers per directed link and round. z needs no agreement of both ends, so loss only delays it, and a link that closes
simply leaves the sums at both.
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
    first_floor,
    largest_code,
    mantissa_bits,
    moved_floor,
    quantise,
    value,
)
from equipoise.train.dynamics._slots import Slots
from equipoise.train.method import Method
from equipoise.train.quantize import FLOAT_BITS
from equipoise.train.region import LinkTable, Region
from equipoise.train.sampler import Sampler
from equipoise.train.spectrum import adjacency_gap

RELAX = 0.8
STIFFNESS = 0.55  # h in units of L; from 1/2 on the linearised step is stable on any graph
LEAST_PENALTY, SLOW_NETWORK = 0.5, 0.13  # rho sqrt(d_i d_j) in units of L: max(.5, .13 / sqrt(gap))
RUNAWAY = 1e8  # times what models and gradients began with


class Links:
    """Every node's model, and its side z of every link. Needs links that carry both ways and return."""

    OWN = ("models", "before", "gradient", "z", "rho", "said", "floors", "bits", "tally")

    def __init__(
        self, region: Region, table: LinkTable, sampler: Sampler, method: Method, steepest: float, start: Floats
    ) -> None:
        """`sampler` and `start` speak of this region's nodes; `steepest` is L, the largest smoothness of any node's loss."""
        self.region, self.sampler, self.model, self.method = region, sampler, sampler.model, method
        mantissa = mantissa_bits(method.quantizer)
        self.code = mantissa, bits_per_number(mantissa)
        gap = max(adjacency_gap(table.n, table.senders, table.receivers), 1e-12)
        self.stiffness = _stiffness(method, steepest)
        self.alpha, self.alpha_limit = 1.0 / self.stiffness, 2.0 / steepest  # stable from h = L / 2 on
        self.momentum = 0.0 if method.cap == "auto" else float(method.cap)
        degree = table.degree
        self.owner = np.repeat(np.arange(len(region.ids)), np.diff(region.first))
        each = np.sqrt(degree[region.ids[self.owner]] * degree[region.peer])
        self.penalty = steepest * max(LEAST_PENALTY, SLOW_NETWORK / np.sqrt(gap)) / each  # rho of an open link
        self.start = start
        self.models = start.copy()
        self.before = self.models.copy()
        self.gradient = np.array(sampler.at(start, 0))
        slots, m = len(region.link), start.shape[1]
        self.rho, self.z = np.zeros(slots), np.zeros((slots, m))  # 0 while a link is not in the sums
        self.said, self.floors = np.zeros((region.rows, m)), np.zeros(region.rows, dtype=np.int64)
        self.bits = region.count("models")
        self.tally = np.zeros(3, dtype=np.int64)
        self.acting = np.ones(len(region.ids), dtype=np.bool_)
        self.largest = RUNAWAY * (
            1.0 + max(np.abs(self.models).max(initial=0.0), np.abs(self.gradient).max(initial=0.0))
        )

    @property
    def yz(self) -> Floats:
        """What a checkpoint's name is made from."""
        return self.models

    def say(self, number: int) -> bool:
        slots, rho = Slots.of(self.region), (self.rho, self.penalty)
        _say(slots, self.models, self.z, rho, self.said, self.floors, self.code, self.bits, self.tally)
        return True

    def hear(self, number: int) -> bool:
        slots, stiffness = Slots.of(self.region), self.stiffness / self.method.faded(number)
        _take(slots, self.models, self.z, (self.rho, self.penalty), self.said, RELAX, self.acting)
        fine = _descend(
            slots.first,
            self.models,
            self.before,
            self.gradient,
            self.z,
            self.rho,
            stiffness,
            self.momentum,
            self.acting,
            self.largest,
        )
        with np.errstate(all="ignore"):
            gradient = self.sampler.at(self.models, number + 1)
        if not self.acting.all():
            gradient = np.where(self.acting[:, None], gradient, self.gradient)
            if self.sampler.batch is not None:  # who does not act draws nothing
                self.sampler.samples -= int(self.sampler.batch[~self.acting].sum())
        self.gradient = np.ascontiguousarray(gradient)
        return bool(fine and np.isfinite(self.gradient[self.acting]).all())

    def keep(self, rows: Ints, places: Ints) -> None:
        self.said[places] = self.said[rows]

    def shut(self, links: Bools) -> None:
        """These links are out of the sums, at this end."""
        self.z[links] = self.rho[links] = 0.0

    def reopen(self, links: Bools) -> None:
        """These links start anew: they are in the sums again once both ends have heard each other."""
        self.shut(links)

    def enter(self, nodes: Ints) -> None:
        """Centres join with the model a run starts from."""
        self.models[nodes] = self.before[nodes] = self.start[nodes]
        self.gradient[nodes] = self.sampler.again(self.models)[nodes]

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        return {name: getattr(self, name) for name in self.OWN}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        for name in self.OWN:
            getattr(self, name)[:] = memory[name]


def _stiffness(method: Method, steepest: float) -> float:
    """h: 1 / alpha where that is given, else as small as is stable; nets bear less than convex losses need."""
    return STIFFNESS * steepest / method.descent if method.alpha == "auto" else 1.0 / float(method.alpha)


@kernel
def _say(
    slots: Slots,
    models: Floats,
    z: Floats,
    rho: tuple[Floats, Floats],
    said: Floats,
    floors: Ints,
    code: tuple[int, int],
    bits: Ints,
    tally: Ints,
) -> None:
    mantissa, code_bits = code
    m, top = models.shape[1], largest_code(mantissa)
    numbers = saturated = underflowed = 0
    for i in range(len(models)):
        for e in range(slots.first[i], slots.first[i + 1]):
            t, b = slots.target[e], slots.base[e]
            if t < 0:
                continue
            twice = 2.0 * rho[0][e] if rho[0][e] > 0.0 else rho[1][e]
            numbers += m
            if b < 0 or mantissa == MANTISSA:
                for c in range(m):
                    said[t, c] = twice * models[i, c] - z[e, c]
                floors[t] = 0 if mantissa == MANTISSA else first_floor(said[t], mantissa)
                bits[e] += FLOAT_BITS * m
                continue
            floor, largest = floors[b], 0
            for c in range(m):
                change = twice * models[i, c] - z[e, c] - said[b, c]
                size = quantise(change, floor, mantissa)
                largest = max(largest, size)
                said[t, c] = said[b, c] + value(size, floor, mantissa, change)
                saturated += size >= top
                underflowed += (size == 0) & (change != 0.0)
            floors[t] = moved_floor(floor, largest, mantissa)
            bits[e] += code_bits * m
    tally[NUMBERS] += numbers
    tally[SATURATED] += saturated
    tally[UNDERFLOWED] += underflowed


@kernel
def _take(
    slots: Slots, models: Floats, z: Floats, rho: tuple[Floats, Floats], said: Floats, relax: float, acting: Bools
) -> None:
    m = z.shape[1]
    for i in range(len(acting)):
        if not acting[i]:
            continue
        for e in range(slots.first[i], slots.first[i + 1]):
            if not slots.fresh[e]:
                continue
            if rho[0][e] > 0.0:
                w = slots.where[e]
                for c in range(m):
                    z[e, c] += relax * (said[w, c] - z[e, c])
            elif slots.acked[e] >= 0:
                rho[0][e] = rho[1][e]
                for c in range(m):
                    z[e, c] = rho[1][e] * models[i, c]


@kernel
def _descend(
    first: Ints,
    models: Floats,
    before: Floats,
    gradient: Floats,
    z: Floats,
    rho: Floats,
    stiffness: float,
    momentum: float,
    acting: Bools,
    largest: float,
) -> bool:
    """y_i anew, of everybody who acts. False when a number has run away."""
    m, fine = models.shape[1], True
    total = np.empty(m)
    for i in range(len(models)):
        if not acting[i]:
            continue
        weight = stiffness
        for c in range(m):
            ahead = models[i, c] + momentum * (models[i, c] - before[i, c])
            total[c] = stiffness * ahead - gradient[i, c]
        for e in range(first[i], first[i + 1]):
            weight += rho[e]
            for c in range(m):
                total[c] += z[e, c]
        for c in range(m):
            before[i, c] = models[i, c]
            models[i, c] = total[c] / weight
            fine &= abs(models[i, c]) <= largest
    return fine
