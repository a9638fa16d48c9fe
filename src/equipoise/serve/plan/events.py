"""An event of the log: what was decided or happened, in full. Applying events in order is all that replay does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

OPENED, SUBMITTED, DECIDED, TICK, PROGRESS = "opened", "submitted", "decided", "tick", "progress"
FINISHED, CANCELLED, MACHINE, PRICES = "finished", "cancelled", "machine", "prices"
Body = dict[str, Any]  # a JSON object


def attributes(one: object, *names: str) -> Body:
    """These attributes, by name."""
    return {name: getattr(one, name) for name in names}


@dataclass(frozen=True, slots=True)
class Event:
    """`seq` counts from 1 without gaps; `slot` is when it happened, `at` the wall time, unix seconds; `data` plain JSON."""

    seq: int
    slot: int
    at: float
    kind: str
    job: str  # "" where it is about none
    tenant: str
    data: Body


# The data of each kind, as it is stored.


class MachinesData(TypedDict):
    """All machines, their status, the slots ahead that are planned, and prices by milli-unit."""

    machines: list[Body]
    inside: float
    between: float
    across: NotRequired[float | None]
    status: list[str]
    window: int
    base: list[float]
    growth: list[float]


class OpenedData(TypedDict):
    """`floor` is the stored word for the machines."""

    format: int
    slot_seconds: float
    horizon: int
    start: float
    clock: str
    floor: MachinesData


class SubmittedData(TypedDict):
    name: str
    job: Body


class DecidedData(TypedDict):
    """`cells` (slot, machine, workers, servers) where they changed."""

    state: str
    reason: str
    worth: float
    cost: float
    cells: NotRequired[list[list[int]]]


class TickData(TypedDict):
    slot: int


class ProgressData(TypedDict):
    """Samples, and the measured pace: see `Held`."""

    done: float
    pace: float
    reported: float
    mark: float
    since: float


class FinishedData(TypedDict):
    slot: int
    reason: str


class MachineData(TypedDict):
    """ "added" with `machine`, or a status with the `name` of one."""

    status: str
    name: NotRequired[str]
    machine: NotRequired[Body]


class PricesData(TypedDict):
    base: list[float]
    growth: list[float]
