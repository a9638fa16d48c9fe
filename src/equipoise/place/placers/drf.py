"""DRF: each slot, a worker at a time to the job with the smallest dominant share, until nothing fits.

Fair in what is held, blind to what it is worth and to where it is: it spreads jobs over machines though that slows
them, changes widths with every arrival, and when many wait nobody gets enough to finish in time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.kernels import Int32s, Ints
from equipoise.place.execution import Execution
from equipoise.place.placers._slotwise import WORKERS, Slotwise, fill


@dataclass(frozen=True)
class DRF:
    label: str = "DRF"
    colour: ClassVar[str] = "#ea580c"
    candidate: ClassVar[bool] = False  # never recommended
    rank: ClassVar[int] = 4

    def start(self, run: Execution, seed: int) -> DRFSession:
        return DRFSession(run)


class DRFSession(Slotwise):
    def seats(self, queue: Ints) -> Int32s:
        """Widths by progressive filling; the wide seated first, together where they can be.

        If not all of them fit in that order, they sit where filling put them.
        """
        width, workers, servers = fill(queue, self.jobs, self.capacity.copy())
        widths = np.zeros_like(self.width)
        widths[queue] = width
        order = queue[np.argsort(-width, kind="stable")]
        rows = self.undisturbed(order[: np.count_nonzero(width)], widths=widths)
        if rows[:, WORKERS].sum() == width.sum():
            return rows
        k, h = np.nonzero(workers + servers)
        return np.column_stack((queue[k], h, workers[k, h], servers[k, h])).astype(np.int32)
