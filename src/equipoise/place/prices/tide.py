"""How the load rises and falls: the clearing price of the jobs that came lately, over that of the history."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.place.desk import Desk
from equipoise.place.job import Workload
from equipoise.place.prices.posted import cut, densities

Floats = NDArray[np.float64]
EVERY = 6  # slots between two looks
LEAST, MOST = 0.02, 50.0  # how far prices may follow


class Tide:
    """Prices follow the load of the last `window` slots; before the run has lasted that long, the end of history helps."""

    def __init__(self, desk: Desk, past: Workload, anchor: float, window: int) -> None:
        self.anchor, self.window = anchor, window
        shift = max(job.arrival for job in past) + 1
        before, now = densities(desk.cluster, past, desk.horizon), densities(desk.cluster, desk.jobs, desk.horizon)
        self.arrival = np.concatenate((before.arrival - shift, now.arrival))
        self.density = np.concatenate((before.density, now.density))
        self.need = np.concatenate((before.need, now.need))

    def at(self, slot: int) -> float:
        """The factor on all prices in a slot; only jobs of the slots before it count."""
        first, last = np.searchsorted(self.arrival, (slot - self.window, slot))
        price = cut(self.density[first:last], self.need[first:last], self.window)
        return float(np.clip(price / self.anchor, LEAST, MOST))
