"""Who lives, who is known to live, and which links are in the books, as events unfold."""

from __future__ import annotations

import numpy as np

from equipoise.train.arrays import AnyArray, Ints
from equipoise.train.hostile.timetable import Timetable


class Membership:
    """Three views of the centres: `alive` in truth, `known` to their neighbours, and the side of a split each is on."""

    def __init__(self, timetable: Timetable) -> None:
        n = timetable.n
        self.alive = timetable.first.copy()
        self.known = timetable.first.copy()
        self.side = np.zeros(n, dtype=np.bool_)
        self.cut = False  # the split is noticed: its links are out of the books
        self.arriving: list[int] = []  # who would join, and cannot as yet
        self.waiting: list[int] = []  # noticed dead whose CPU nobody could claim as yet

    KEPT = ("alive", "known", "side")

    @property
    def split(self) -> bool:
        return bool(self.side.any())

    def passes(self, senders: Ints, receivers: Ints) -> AnyArray:
        """Whether a packet over each link can arrive at all."""
        return np.asarray(self.alive[senders] & self.alive[receivers] & (self.side[senders] == self.side[receivers]))

    def open(self, senders: Ints, receivers: Ints) -> AnyArray:
        """Whether each link is in the books of both its ends."""
        both = self.known[senders] & self.known[receivers]
        return np.asarray(both & (self.side[senders] == self.side[receivers]) if self.cut else both)

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        own = {name: getattr(self, name) for name in self.KEPT}
        lists = {name: np.array(getattr(self, name), dtype=np.int64) for name in ("waiting", "arriving")}
        return own | lists | {"cut": np.array(self.cut)}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        for name in self.KEPT:
            setattr(self, name, memory[name])
        self.cut = bool(memory["cut"])
        self.waiting, self.arriving = ([int(node) for node in memory[name]] for name in ("waiting", "arriving"))
