"""Centres of unequal speed on one machine: a slow centre does more work for every sample it draws.

All workers of a machine are as fast as each other. What a slow centre would spend on a sample is spent here on further
passes of the same gradient's matrix products, whose results are dropped: the CPU is real, and so is holding it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy

import numpy as np

from equipoise.errors import InputError
from equipoise.train.arrays import Floats, Ints
from equipoise.train.models.softmax import Softmax

BLOCK = 64  # rows of a pass: the sample that was drawn, over and over


class Laborious(Softmax):
    """A softmax that does `passes[i]` passes for every sample that centre i draws; gradients are the same to the bit.

    Workers do the work, for they have a part of it; the whole model, with the coordinator, does none.
    """

    def __init__(self, model: Softmax, passes: Ints) -> None:
        if len(passes) != model.nodes or (passes < 0).any():
            raise InputError(
                f"passes must be {model.nodes} whole numbers of at least 0, one per centre; not {passes!r}",
                code="passes.range",
            )
        self.__dict__.update(vars(model))
        self.passes, self.works = passes, False

    def sampled(self, Y: Floats, rows: Sequence[Ints]) -> tuple[Floats, Floats]:
        if self.works:
            for node, picked in enumerate(rows):
                for row in picked:
                    self.labour(node, int(row), Y[node], int(self.passes[node]))
        return super().sampled(Y, rows)

    def labour(self, node: int, row: int, y: Floats, passes: int) -> None:
        """So many passes over a block of this sample."""
        X = np.repeat(self._data.X[node][row : row + 1], BLOCK, axis=0)
        for _ in range(passes):
            scores = self._scores(X, y)
            scores -= scores.max(axis=0)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=0)
            scores @ X

    def part(self, nodes: Ints) -> Laborious:
        """The losses of these nodes alone, and their labour."""
        mine = copy(self)
        mine.__dict__.update(vars(super().part(nodes)))
        mine.passes, mine.works = self.passes[nodes], True
        return mine


def seconds_a_pass(model: Softmax, passes: int = 300, tries: int = 7) -> float:
    """CPU-seconds of a pass on this machine: the median of some tries."""
    whole, y = Laborious(model, np.zeros(model.nodes, dtype=np.int64)), np.zeros(model.size)
    took = []
    for _ in range(tries):
        began = time.process_time()
        whole.labour(0, 0, y, passes)
        took.append((time.process_time() - began) / passes)
    return float(np.median(took))
