"""Shortest deadline first, as published: the most urgent task gets one server's part of the site, then the next.

Knows nothing of learning, so under load it spends the site on urgent tasks that cannot finish.
"""

from dataclasses import dataclass

from equipoise.share.divide import greedy
from equipoise.share.policies._authors import URGENT, decision
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class SDF:
    label, colour, marker, rank = "SDF", "#d97706", "rect", 2
    frugal = True  # leaves compute idle by design: a task that cannot use its part keeps it
    published = True
    blind = True  # to errors

    def decide(self, view: View) -> Decision:
        bandwidth = greedy(view.deadline, view.sending, view.data_left, view.bandwidth)
        return decision(view, URGENT)._replace(bandwidth=bandwidth, order=view.deadline)
