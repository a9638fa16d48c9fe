"""An event of the log: what was decided or happened, in full. Applying events in order is all that replay does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OPENED, SUBMITTED, DECIDED, TICK, PROGRESS, FINISHED, CANCELLED, MACHINE, PRICES = (
    "opened",
    "submitted",
    "decided",
    "tick",
    "progress",
    "finished",
    "cancelled",
    "machine",
    "prices",
)
KINDS = (OPENED, SUBMITTED, DECIDED, TICK, PROGRESS, FINISHED, CANCELLED, MACHINE, PRICES)


@dataclass(frozen=True, slots=True)
class Event:
    """`seq` counts from 1 without gaps; `slot` is when it happened, `at` the wall time, unix seconds; `data` plain JSON."""

    seq: int
    slot: int
    at: float
    kind: str
    job: str  # "" where it is about none
    tenant: str
    data: dict[str, Any]
