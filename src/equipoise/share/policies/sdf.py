"""Shortest deadline first, as published: the most urgent task gets one server's part of the site, then the next.

Knows nothing of learning, so under load it spends the site on urgent tasks that cannot finish.
"""

from dataclasses import dataclass
from typing import ClassVar

from equipoise.share.divide import greedy
from equipoise.share.policies._authors import decision, urgent_shares
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class SDF:
    label: ClassVar[str] = "SDF"
    colour: ClassVar[str] = "#d97706"
    marker: ClassVar[str] = "rect"
    rank: ClassVar[int] = 2  # in tables and charts
    frugal: ClassVar[bool] = True  # leaves compute idle by design: a task that cannot use its part keeps it
    published: ClassVar[bool] = True
    blind: ClassVar[bool] = True  # to errors

    def decide(self, view: View) -> Decision:
        bandwidth = greedy(view.deadline, view.sending, view.data_left, view.bandwidth)
        return decision(view, urgent_shares(view), order=view.deadline)._replace(bandwidth=bandwidth)
