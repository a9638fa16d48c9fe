"""Shortest first, in plain NumPy: docs/write-a-policy.md builds it line by line.

equipoise share check examples/shortest_first.py:ShortestFirst
equipoise share --policy-file examples/shortest_first.py:ShortestFirst
"""

import numpy as np

from equipoise.share import Decision, View, greedy


class ShortestFirst:
    """Little data first on the uplink; on the servers whoever is nearest to its target, newcomers before all."""

    def decide(self, view: View) -> Decision:
        above = np.log(np.maximum(view.error, 1e-3) / view.target)
        turn = np.where(view.observations < 3, 0.0, np.maximum(above, 0.0))
        return Decision(
            bandwidth=greedy(view.data_left, view.sending, view.data_left, view.bandwidth),
            compute=greedy(turn, view.computing, view.task_cap, view.capacity),
        )
