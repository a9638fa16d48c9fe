"""Shortest deadline first, as published: serve the most urgent task fully, then the next, in both stages.

Knows nothing of learning, so under load it spends the site on urgent tasks that cannot finish.
"""

from dataclasses import dataclass
from typing import ClassVar

from equipoise.share.divide import greedy
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class SDF:
    label: ClassVar[str] = "SDF"
    colour: ClassVar[str] = "#d97706"
    marker: ClassVar[str] = "rect"
    rank: ClassVar[int] = 2  # in tables and charts
    published: ClassVar[bool] = True
    blind: ClassVar[bool] = True  # to errors

    def decide(self, view: View) -> Decision:
        return Decision(
            bandwidth=greedy(view.deadline, view.sending, view.data_left, view.bandwidth),
            compute=greedy(view.deadline, view.computing, view.task_cap, view.capacity),
        )
