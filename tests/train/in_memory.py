"""An exchange in which everything arrives at once, for parts of a network that a test plays side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.train.exchange import Half
from equipoise.train.region import LinkTable, Region


class InMemory:
    """Everything arrives at once, in a part of the network: what is said in row l is heard from row l."""

    def __init__(self, table: LinkTable, region: Region) -> None:
        self.table, self.region = table, region
        self._home = region.where.copy()
        region.where[:] = -1
        self._met = np.zeros(len(region.link), dtype=np.bool_)

    def open(self, number: int) -> None:
        region, rows = self.region, np.arange(len(self.region.link))
        here = self.table.turn(number)[region.link]
        region.base, region.target = np.where(self._met, rows, -1), np.where(here, rows, -1)
        self._met |= here

    def move(self, number: int, halves: Sequence[Half]) -> None:
        region = self.region
        region.fresh = region.target >= 0
        region.where[region.fresh] = self._home[region.fresh]
        region.acked[region.fresh] = number
