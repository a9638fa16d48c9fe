"""Uniform, as published (Hasan and Pena): everyone in the site counts, and each who can compute gets the same part.

Simple and hard to fool, but its denominator counts tasks that are still sending or delayed, so part of the site idles.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.share.divide import count, equal, to_each
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class Uniform:
    label: ClassVar[str] = "Uniform"
    colour: ClassVar[str] = "#6b7280"
    marker: ClassVar[str] = "circle"
    rank: ClassVar[int] = 1  # in tables and charts
    published: ClassVar[bool] = True
    blind: ClassVar[bool] = True  # to errors

    def decide(self, view: View) -> Decision:
        part = np.minimum(view.capacity / count(view.active), view.task_cap)
        return Decision(
            bandwidth=equal(view.sending, view.data_left, view.bandwidth), compute=to_each(view.computing, part)
        )
