"""What the exchange says of a region's slots, as kernels take it."""

from __future__ import annotations

from typing import NamedTuple

from equipoise.kernels import Bools, Ints
from equipoise.train.region import Region


class Slots(NamedTuple):
    """Of a region: its nodes' slots, and what the exchange says of them."""

    first: Ints
    base: Ints
    target: Ints
    where: Ints
    fresh: Bools
    acked: Ints

    @classmethod
    def of(cls, region: Region) -> Slots:
        return cls(region.first, region.base, region.target, region.where, region.fresh, region.acked)
