"""A capacity calendar: which machines, or how much of them, jobs may not have, and in which slots.

A failure is known in its first slot, with its repair; the end of a spot machine `notice` slots before; all else from the
start. What a window takes is the same for the execution and for the audit: whole milli-units of named machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from equipoise import units
from equipoise.errors import InputError, unknown_name
from equipoise.kernels import Bools, Ints
from equipoise.place.cluster import Cluster

RESERVATION, MAINTENANCE, SPOT, FAILURE = "reservation", "maintenance", "spot", "failure"
KINDS = (RESERVATION, MAINTENANCE, SPOT, FAILURE)
SUDDEN = (SPOT, FAILURE)  # kinds that take what jobs have already: a whole machine


@dataclass(frozen=True)
class Window:
    """Slots first..last-1 in which jobs may not have a machine, or an amount of it.

    Parameters
    ----------
    machine
        Its name; the name of equal machines or their type, or "", for an amount on any (of these): the last ones that have
        room.
    first, last
        Its first slot, and the first slot after it.
    amount
        Human quantities, as {"gpu": 4}; None: all that the machine has.
    kind
        reservation, maintenance, spot (the machine ends) or failure.
    notice
        Of spot: known so many slots before.
    where
        The file and line that say so, for errors.
    """

    machine: str
    first: int
    last: int
    amount: Mapping[str, int] | None = None
    kind: str = RESERVATION
    notice: int = 0
    where: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown_name("kind of window", str(self.kind), KINDS)
        for name in ("first", "last", "notice"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
                raise self.refused(f"{name} is {value!r}; expected a slot, a whole number of 0 or more", "slots")
        if self.last <= self.first:
            raise self.refused(
                f"last is slot {self.last}, first is slot {self.first}; expected the first slot after it", "slots"
            )
        if (self.kind in SUDDEN and self.amount is not None) or not (self.machine or self.amount):
            expected = "a whole machine" if self.kind in SUDDEN else "a machine, or an amount of it or of any"
            raise self.refused(f"{self.kind} of {self.machine or 'no machine'}; expected {expected}", "machine")
        if self.notice and self.kind != SPOT:
            raise self.refused(f"notice has no effect on a {self.kind}; it is for spot", "notice")
        if self.amount is not None and not isinstance(self.amount, units.Demand):
            read = {str(r): units.resource(v, f"amount: {r}") for r, v in self.amount.items()}
            object.__setattr__(self, "amount", units.Demand(read))

    @property
    def known(self) -> int:
        """The slot in which it becomes known."""
        return max(0, self.first - self.notice) if self.kind in SUDDEN else 0

    def refused(self, why: str, code: str) -> InputError:
        """The error of this window, where it stands."""
        return InputError(f"{self.where}: {why}".removeprefix(": "), code=f"window.{code}")


class Blocked(NamedTuple):
    """A window on a cluster: what it takes of which machines."""

    first: int
    last: int
    known: int
    kind: str
    machines: Ints
    amounts: Ints  # [machine, r] milli-units

    @property
    def sudden(self) -> bool:
        """Whether it takes what jobs have already."""
        return self.kind in SUDDEN


@dataclass(frozen=True)
class Calendar:
    """Windows in any order. Where several take more than a machine has, all of it is taken."""

    windows: tuple[Window, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "windows", tuple(self.windows))
        if not all(isinstance(window, Window) for window in self.windows):
            raise InputError("Calendar: expected windows, as Calendar((Window('a-0', 3, 5),))", code="calendar.windows")

    def on(self, cluster: Cluster, end: int) -> tuple[Blocked, ...]:
        """What it takes of a cluster up to slot `end`; windows that name a machine first."""
        capacity = cluster.capacity[cluster.type_of]
        types = {name for machine in cluster.machines for name in (machine.name, machine.type)}
        found: list[Blocked] = []
        for window in sorted(self.windows, key=lambda window: window.machine not in cluster.machine_ids):
            if window.first >= end:
                raise window.refused(f"it begins in slot {window.first}; the run ends at slot {end}", "horizon")
            try:
                need = None if window.amount is None else cluster.demand(window.amount, "amount")
                if window.machine and window.machine not in {*cluster.machine_ids, *types}:
                    raise unknown_name("machine", window.machine, list(cluster.machine_ids))
            except InputError as error:
                raise InputError(f"{window.where}: {error}".removeprefix(": "), code=error.code) from None
            if (h := cluster.machine_ids.get(window.machine)) is not None:
                machines, amounts = np.array([h]), capacity[[h]] if need is None else need[None]
                lacks = amounts[0] > capacity[h]
            elif need is None:
                raise window.refused(f"{window.machine!r} is a type of machines; say the amount", "amount")
            else:
                machines, amounts, lacks = _spread(window, need, cluster, capacity, found)
            if lacks.any():
                name = cluster.resources[int(lacks.argmax())]
                asked = f"{units.show((window.amount or {})[name])} {name}"
                raise window.refused(
                    f"amount: {asked} is more than {window.machine or 'the cluster'} has then", "amount"
                )
            last = min(window.last, end)
            found.append(Blocked(window.first, last, window.known, window.kind, machines, amounts))
        return tuple(found)


def _spread(
    window: Window, need: Ints, cluster: Cluster, capacity: Ints, found: list[Blocked]
) -> tuple[Ints, Ints, Bools]:
    """An amount on the last machines that have room in all of its slots; and of which resources there is too little."""
    room = capacity.copy()
    for other in found:
        if other.first < window.last and window.first < other.last and not other.sudden:
            room[other.machines] -= other.amounts
    meant = [window.machine in ("", machine.name, machine.type) for machine in cluster.machines]
    left, amounts = need.copy(), np.zeros_like(room)
    for h in np.flatnonzero(np.array(meant)[cluster.type_of])[::-1]:
        amounts[h] = np.clip(room[h], 0, left)
        left -= amounts[h]
        if not left.any():
            break
    machines = np.flatnonzero(amounts.any(axis=1))
    return machines, amounts[machines], left > 0
