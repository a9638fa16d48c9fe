"""What is only lent: idle machines that a job without promise runs on, and that give way to a promise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from equipoise.place.desk import LENT
from equipoise.place.planner import NO_CELLS
from equipoise.place.planner.seat import MACHINE, SLOT
from equipoise.place.planner.shape import Shape
from equipoise.serve.plan.floor import Int32s, Ints, held_by
from equipoise.serve.plan.state import Held

if TYPE_CHECKING:
    from equipoise.serve.plan.planning import Planning


class Lent:
    """Cells lent from the first slot on."""

    def __init__(self, scheduler: Planning) -> None:
        self.scheduler = scheduler

    def ahead(self) -> list[tuple[Held, Int32s]]:
        """Jobs without promise that have cells from the first slot on, and those cells."""
        first = self.scheduler.first
        found = [
            (held, held.cells[held.cells[:, SLOT] >= first])
            for held in self.scheduler.state.waiting.values()
            if held.state == LENT and len(held.cells)
        ]
        return [(held, cells) for held, cells in found if len(cells)]

    def own(self, held: Held) -> Int32s:
        """What the job itself has from the first slot on."""
        here = held.id in self.scheduler.state.jobs and len(held.cells) > 0
        return held.cells[held.cells[:, SLOT] >= self.scheduler.first] if here else NO_CELLS

    @contextmanager
    def aside(self, held: Held) -> Iterator[None]:
        """The planner sees what is lent, and what the job itself has, as free."""
        floor, own = self.scheduler.state.floor, self.own(held)
        ahead = [(one, cells) for one, cells in self.ahead() if one.id != held.id]
        if len(own):
            ahead.append((held, own))
        for one, cells in ahead:
            floor.release(one.shape, cells)
        try:
            yield
        finally:
            for one, cells in ahead:
                floor.take(one.shape, cells)

    def in_the_way(self, held: Held, cells: Int32s) -> list[Held]:
        """Those who must give way so that a plan fits, the least dense first on every machine."""
        ahead = {one.id: (one, mine) for one, mine in self.ahead()}
        if not ahead:
            return []
        floor, out = self.scheduler.state.floor, dict[str, Held]()
        ahead.pop(held.id, None)
        own = self.own(held)
        order = [one.id for one in reversed(self.scheduler.by_density(one for one, _ in ahead.values()))]
        for (t, h, _, _), need in zip(cells.tolist(), held_by(held.shape, cells), strict=True):
            used = floor.planner.book.used[t % floor.window, floor.planner.book.group[t % floor.window, h]].copy()
            used -= at_cell(held.shape, own, t, h)
            for id in out:
                used -= at_cell(ahead[id][0].shape, ahead[id][1], t, h)
            for id in order:
                if (used + need <= floor.capacity[h]).all():
                    break
                one, mine = ahead[id]
                if id not in out and (amount := at_cell(one.shape, mine, t, h)).any():
                    out[id] = one
                    used -= amount
        return list(out.values())


def at_cell(shape: Shape, cells: Int32s, slot: int, machine: int) -> Ints:
    """[r] milli-units that cells hold on one machine in one slot."""
    here = cells[(cells[:, SLOT] == slot) & (cells[:, MACHINE] == machine)]
    return np.asarray(held_by(shape, here).sum(axis=0))
