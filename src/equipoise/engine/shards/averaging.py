"""A round of the learning half by averages, on one shard (the twin of train.average.Averaging.advance)."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from equipoise.engine.shards.crossing import Crossing, Packets, talk
from equipoise.train.average import Averaging, meet, move, track
from equipoise.train.links import Round


def average_round(
    learning: Averaging, round: Round, crossing: Crossing, number: int
) -> Generator[Packets, Packets, bool]:
    """Models are said, meetings answer, everybody moves. False when a number has run away here."""
    circle = learning.circle(round)
    if learning.method.ramp is not None:
        circle = circle._replace(alpha=learning.alpha * learning.method.faded(number))
    nodes = len(circle.yz)
    yield from talk(learning.channel, circle.yz, crossing, circle.plain, number)
    meet(circle, 0, nodes)
    yield from talk(learning.meetings, circle.means, crossing, circle.repeats, number)
    fine = move(circle, 0, nodes)
    with np.errstate(all="ignore"):
        gradient = learning.sampler.at(learning.models, number + 1)
    return bool(track(gradient, learning.gradient, learning.yz) and fine)
