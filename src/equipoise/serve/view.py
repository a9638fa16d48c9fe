"""What reads see: the jobs and machines as of the last transaction. Published whole, so no reader waits for the planner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.place.cluster import Cluster
from equipoise.place.planner.seat import MACHINE, SLOT
from equipoise.place.quantity import MILLI
from equipoise.serve.plan.floor import DOWN, Floats, Ints, amounts_of
from equipoise.serve.plan.state import Held, State
from equipoise.serve.plan.tell import job_out


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
        floor = state.floor
        return cls(
            state.seq, state.now, state.slot_seconds, state.horizon, state.start, state.clock, live, floor.cluster,
            tuple(floor.names), tuple(floor.status), floor.capacity, floor.base, floor.growth,
        )  # fmt: skip

    def told(self, id: str) -> dict[str, Any] | None:
        """A job that is not over, as the API tells it."""
        held = self.live.get(id)
        return job_out(held, self.names) if held is not None else None

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


def bars(live: Held, first: int, last: int, capacity: Ints) -> list[dict[str, Any]]:
    """A job's cells as bars: stretches of slots with the same workers and servers on one machine; `share` of what it has
    most of there."""
    cells = (
        live.cells[(live.cells[:, SLOT] >= first) & (live.cells[:, SLOT] <= last)] if len(live.cells) else live.cells
    )
    out: list[dict[str, Any]] = []
    for t, h, w, s in cells[np.lexsort((cells[:, SLOT], cells[:, MACHINE]))].tolist():
        before = out[-1] if out else None
        if before and (before["machine"], before["last"], before["workers"], before["servers"]) == (h, t - 1, w, s):
            before["last"] = t
        else:
            bar = {"machine": h, "first": t, "last": t, "workers": w, "servers": s}
            out.append(bar | {"share": _share(live, w, s, capacity[h])})
    return out


def _share(live: Held, workers: int, servers: int, capacity: Ints) -> float:
    held = workers * live.shape.worker + servers * live.shape.server
    return round(float((held / capacity.clip(min=1)).max()), 4)
