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
        waiting = self.scheduler.state.waiting.values()
        found = [(held, self.own(held)) for held in waiting if held.state == LENT and len(held.cells)]
        return [(held, cells) for held, cells in found if len(cells)]

    def own(self, held: Held) -> Int32s:
        """What a job has from the first slot on."""
        cells, first = held.cells, self.scheduler.first
        if not len(cells) or held.id not in self.scheduler.state.jobs:
            return NO_CELLS
        return cells if cells[0, SLOT] >= first else np.asarray(cells[cells[:, SLOT] >= first])

    @contextmanager
    def aside(self, held: Held) -> Iterator[None]:
        """The planner sees what is lent, and what the job itself has, as free."""
        ahead = [(one.shape, cells) for one, cells in self.ahead() if one.id != held.id]
        if len(own := self.own(held)):
            ahead.append((held.shape, own))
        with self.scheduler.state.floor.without(ahead):
            yield

    def in_the_way(self, held: Held, cells: Int32s) -> list[Held]:
        """Those who must give way so that a plan fits, the least dense first on every machine."""
        spots = {(t, h) for t, h in cells[:, (SLOT, MACHINE)].tolist()}
        near: dict[str, tuple[Held, Int32s]] = {}
        for one, mine in self.ahead():
            if one.id != held.id and any((t, h) in spots for t, h in mine[:, (SLOT, MACHINE)].tolist()):
                near[one.id] = one, mine
        if not near:
            return []
        floor, own, out = self.scheduler.state.floor, self.own(held), dict[str, Held]()
        order = [one.id for one in reversed(self.scheduler.by_density(one for one, _ in near.values()))]
        for (t, h, _, _), need in zip(cells.tolist(), held_by(held.shape, cells), strict=True):
            used = floor.used(t, h) - at_cell(held.shape, own, t, h)
            for id in out:
                used -= at_cell(near[id][0].shape, near[id][1], t, h)
            for id in order:
                if (used + need <= floor.capacity[h]).all():
                    break
                one, mine = near[id]
                if id not in out and (amount := at_cell(one.shape, mine, t, h)).any():
                    out[id] = one
                    used -= amount
        return list(out.values())


def at_cell(shape: Shape, cells: Int32s, slot: int, machine: int) -> Ints:
    """[r] milli-units that cells hold on one machine in one slot."""
    here = cells[(cells[:, SLOT] == slot) & (cells[:, MACHINE] == machine)]
    return np.asarray(held_by(shape, here).sum(axis=0))
