"""LAS (after Tiresias): each slot, the jobs that have received least so far; what they leave, to whoever fits.

Needs no durations. Service is the dominant share held, times slots. Equal jobs take turns and all finish late, and
every turn is a restart; the original's few discrete queues, which damp that, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.kernels import Int32s, Ints
from equipoise.place.execution import Execution
from equipoise.place.placers._slotwise import JOB, Slotwise, dominant


@dataclass(frozen=True)
class LAS:
    label: str = "LAS"
    colour: ClassVar[str] = "#0d9488"
    rank: ClassVar[int] = 7

    def start(self, run: Execution, seed: int) -> LASSession:
        return LASSession(run)


class LASSession(Slotwise):
    def __init__(self, run: Execution) -> None:
        super().__init__(run)
        self.attained = np.zeros(len(run.jobs))  # dominant share x slots
        self.share = np.array([dominant(self.jobs, j, int(w)) for j, w in enumerate(self.width)])

    def seats(self, queue: Ints) -> Int32s:
        rows = self.undisturbed(queue[np.argsort(self.attained[queue], kind="stable")])
        served = np.unique(rows[:, JOB])
        self.attained[served] += self.share[served]
        return rows
