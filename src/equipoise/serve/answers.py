"""What the service answers, as values. Times in slots; a field that a newer service adds is kept in `extra`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

OVER = ("finished", "refused", "cancelled")
Plain = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What the service answers: fields it leaves out have their defaults, those unknown here are in `extra`."""

    extra: Plain = field(default_factory=dict, kw_only=True)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        known = {f.name for f in fields(cls)} - {"extra"}
        rest = {name: value for name, value in values.items() if name not in known}
        return cls(**{name: value for name, value in values.items() if name in known}, extra=rest)

    def as_dict(self) -> Plain:
        """Plain values, as the service told them."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "extra"}
        return own | self.extra


@dataclass(frozen=True)
class Job(Answer):
    """A job as the service knows it; times in slots. `cells` (slot, machine, workers, servers) where one is asked for."""

    id: str = ""
    name: str = ""
    tenant: str = ""
    state: str = ""
    reason: str = ""
    why: str = ""  # one sentence
    submitted: int = 0
    at: str = ""  # the calendar time of it
    worth: float | None = None
    cost: float | None = None
    start: int | None = None  # first and last planned slot
    starts_at: str | None = None  # on the wall clock, where it is real
    ends_at: str | None = None
    end: int | None = None
    finish: int | None = None
    work: float | None = None  # samples
    done: float | None = None
    pace: float | None = None
    workers: int | None = None  # widest in its plan
    machines: list[str] = field(default_factory=list)
    worker: Plain = field(default_factory=dict)
    seq: int = 0
    cells: list[list[Any]] | None = None

    @property
    def over(self) -> bool:
        """Finished, refused or cancelled: nothing more happens to it."""
        return self.state in OVER


@dataclass(frozen=True)
class Jobs(Answer):
    """A page of jobs, and the cursor of the next."""

    jobs: list[Job] = field(default_factory=list)
    next: str | None = None


@dataclass(frozen=True)
class Machine(Answer):
    """A machine: up, draining or down; capacity, and what is used in this slot, in units."""

    name: str = ""
    status: str = ""
    capacity: dict[str, float] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Cluster(Answer):
    """The clock and the machines. `start` is the calendar time of slot 0, where there is one."""

    now: int = 0
    slot_seconds: float = 0.0
    horizon: int = 0
    clock: str = ""
    start: str = ""
    resources: list[str] = field(default_factory=list)
    machines: list[Machine] = field(default_factory=list)
    seq: int = 0


@dataclass(frozen=True)
class Told(Answer):
    """An event of the log, with one sentence for people."""

    seq: int = 0
    slot: int = 0
    at: str = ""
    kind: str = ""
    job: str = ""
    name: str = ""
    tenant: str = ""
    text: str = ""
    data: Plain = field(default_factory=dict)
