"""What reads see: the jobs and machines as of the last transaction. Published whole, so no reader waits for the planner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.place.cluster import Cluster
from equipoise.place.planner.packing import MACHINE, SERVERS, SLOT, WORKERS
from equipoise.serve.plan.events import Body
from equipoise.serve.plan.machines import DOWN, Floats, Ints, amounts_of
from equipoise.serve.plan.messages import Wall, job_out
from equipoise.serve.plan.state import Held, State
from equipoise.units import MILLI


@dataclass(frozen=True)
class View:
    """All of one moment, and never changed."""

    seq: int
    now: int
    slot_seconds: float
    horizon: int
    start: float
    clock: str
    live: Mapping[str, Held]  # copies of the jobs that are not over
    cluster: Cluster
    names: tuple[str, ...]
    status: tuple[str, ...]
    capacity: Ints  # [machine, r] milli-units
    base: Floats  # [r] utility per milli-unit and slot
    growth: Floats

    @classmethod
    def of(cls, state: State, live: Mapping[str, Held]) -> View:
        machines = state.machines
        return cls(
            seq=state.seq,
            now=state.now,
            slot_seconds=state.slot_seconds,
            horizon=state.horizon,
            start=state.start,
            clock=state.clock,
            live=live,
            cluster=machines.cluster,
            names=tuple(machines.names),
            status=tuple(machines.status),
            capacity=machines.capacity,
            base=machines.base,
            growth=machines.growth,
        )

    @property
    def wall(self) -> Wall | None:
        return Wall(self.start, self.slot_seconds) if self.clock == "real" else None

    def told(self, id: str) -> Body | None:
        """A job that is not over, as the API answers."""
        held = self.live.get(id)
        return job_out(held, self.names, self.wall) if held is not None else None

    def used(self, first: int, last: int, jobs: Iterable[Held] | None = None) -> Ints:
        """[slot, machine, r] milli-units held in slots first..last."""
        out = np.zeros((max(0, last + 1 - first), *self.capacity.shape), np.int64)
        given = list(self.live.values()) if jobs is None else list(jobs)
        some = [held for held in given if len(held.cells)]
        if some:
            cells, amounts = amounts_of([(held.shape, held.cells) for held in some])
            seen = (cells[:, SLOT] >= first) & (cells[:, SLOT] <= last)
            np.add.at(out, (cells[seen, SLOT] - first, cells[seen, MACHINE]), amounts[seen])
        return out

    def utilisation(self, used: Ints) -> dict[str, list[float]]:
        """Share of every resource of machines not down that is held, slot by slot."""
        there = self.capacity[[status != DOWN for status in self.status]].sum(axis=0, dtype=float)
        held = used.sum(axis=1, dtype=float)
        share = np.divide(held, there, out=np.zeros_like(held), where=there > 0)
        return {r: share[:, k].round(6).tolist() for k, r in enumerate(self.cluster.resources)}

    def prices(self, used: Ints) -> Floats:
        """[slot, machine, r] utility per unit and slot."""
        capacity = self.capacity
        full = np.divide(used, capacity, out=np.zeros(used.shape), where=capacity > 0)
        return np.asarray(self.base * np.exp(self.growth * full) * MILLI)

    def bars(self, jobs: Sequence[Held], first: int, last: int) -> list[Body]:
        """Cells of slots first..last as bars: stretches with the same workers and servers of a job on one machine, each with
        the share it takes of the resource that it takes most of there."""
        some = [held for held in jobs if len(held.cells)]
        if not some:
            return []
        cells, amounts = amounts_of([(held.shape, held.cells) for held in some])
        of = np.repeat(np.arange(len(some)), [len(held.cells) for held in some])
        order = np.lexsort((cells[:, SLOT], cells[:, MACHINE], of))
        order = order[(cells[order, SLOT] >= first) & (cells[order, SLOT] <= last)]
        if not len(order):
            return []
        cells, amounts, of = cells[order], amounts[order], of[order]
        new = np.ones(len(cells), dtype=bool)
        same = (of[1:] == of[:-1]) & (cells[1:, SLOT] == cells[:-1, SLOT] + 1)
        for column in (MACHINE, WORKERS, SERVERS):
            same &= cells[1:, column] == cells[:-1, column]
        new[1:] = ~same
        begin = np.flatnonzero(new)
        end = np.append(begin[1:], len(cells)) - 1
        share = (amounts[begin] / self.capacity[cells[begin, MACHINE]].clip(min=1)).max(axis=1).round(4)
        rows = zip(of[begin].tolist(), cells[begin].tolist(), cells[end, SLOT].tolist(), share.tolist(), strict=True)
        return [
            {"job": some[j].id, "name": some[j].name, "state": some[j].state}
            | {"machine": h, "first": t, "last": until, "workers": w, "servers": s, "share": part}
            for j, (t, h, w, s), until, part in rows
        ]
