"""FIFO: in order of arrival, each at the width it asked for, on the same machines until it is done.

Nobody overtakes, so a wide job that waits for room keeps everybody behind it waiting, on machines that stand idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.kernels import Int32s, Ints
from equipoise.place.execution import Execution
from equipoise.place.placers._slotwise import JOB, Slotwise


@dataclass(frozen=True)
class FIFO:
    label: str = "FIFO"
    colour: ClassVar[str] = "#6b7280"
    rank: ClassVar[int] = 3

    def start(self, run: Execution, seed: int) -> FIFOSession:
        return FIFOSession(run)


class FIFOSession(Slotwise):
    def seats(self, queue: Ints) -> Int32s:
        free = self.capacity.copy()
        held = self.still(queue, free)  # the head of the queue, but for those whose machine went away
        rest = queue[~np.isin(queue, held[:, JOB])]
        return np.concatenate((held, self.in_order(rest, free=free, fixed=True)))
