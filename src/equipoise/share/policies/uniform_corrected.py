"""Uniform with the right denominator: only tasks that can compute are counted. The honest robust baseline.

It never idles for want of counting, but gives as much to a task that cannot make it as to one that is nearly there.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.share.divide import count, equal, to_each
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class UniformCorrected:
    label: ClassVar[str] = "UniformCorrected"
    colour: ClassVar[str] = "#1f2937"
    marker: ClassVar[str] = "emptyCircle"
    rank: ClassVar[int] = 6  # in tables and charts
    blind: ClassVar[bool] = True  # to errors

    def decide(self, view: View) -> Decision:
        part = np.minimum(view.capacity / count(view.computing), view.task_cap)
        return Decision(
            bandwidth=equal(view.sending, view.data_left, view.bandwidth), compute=to_each(view.computing, part)
        )
