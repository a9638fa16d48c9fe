"""SRTF: each slot, the jobs with the least time left at the width they asked for; what they leave, to whoever fits.

It knows stated durations and nothing of worth. Starves long jobs while short ones keep coming, is misled by statements
that are too low (a job past its statement goes first, for ever), and preempts without counting the restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.kernels import Int32s, Ints
from equipoise.place.execution import Execution
from equipoise.place.placers._slotwise import Slotwise


@dataclass(frozen=True)
class SRTF:
    label: str = "SRTF"
    colour: ClassVar[str] = "#d97706"
    rank: ClassVar[int] = 6

    def start(self, run: Execution, seed: int) -> SRTFSession:
        return SRTFSession(run)


class SRTFSession(Slotwise):
    def seats(self, queue: Ints) -> Int32s:
        left = np.maximum(self.run.work[queue] - self.run.done[queue], 0.0) / self.speed[queue]
        return self.undisturbed(queue[np.argsort(left, kind="stable")])
