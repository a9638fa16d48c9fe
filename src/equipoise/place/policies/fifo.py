"""FIFO: in order of arrival, each at the width it asked for, on the same machines until it is done.

Nobody overtakes, so a wide job that waits for room keeps everybody behind it waiting, on machines that stand idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from equipoise.place.desk import Desk
from equipoise.place.policies.slotwise import Int32s, Ints, Slotwise


@dataclass(frozen=True)
class FIFO:
    label: str = "FIFO"
    colour: ClassVar[str] = "#6b7280"

    def start(self, desk: Desk, seed: int) -> Session:
        return Session(desk)


class Session(Slotwise):
    def seats(self, queue: Ints) -> Int32s:
        return self.in_order(queue, fixed=True)  # those that run are the head of the queue
