"""What a store keeps, as values: rows of jobs, answers, snapshots, tokens and tenants; and what can go wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from equipoise.errors import Failure, InputError
from equipoise.serve.plan.events import Body, Event


class Fenced(Exception):
    """Another server has taken the store over: this one must stop and may not write again."""


class StoreBusy(InputError):
    """Another server holds the store."""


class StoreLost(Failure):
    """The database is away, or cannot write. Whether an `append` was kept: see `Store.last()` once it answers again."""


@dataclass(frozen=True)
class JobRow:
    """A job as lists and counts see it. `n`: its place in the order of submission; `seq`: the event that last changed it."""

    n: int
    id: str
    tenant: str
    name: str
    state: str
    reason: str
    submitted: int  # slot
    finish: int | None  # slot
    seq: int
    data: Body


@dataclass(frozen=True)
class StoredAnswer:
    """What was answered to a request with this idempotency key; `digest` is the sha256 (hex) of the request's body."""

    tenant: str
    key: str
    digest: str
    status: int
    body: Body


@dataclass(frozen=True)
class Snapshot:
    """The planner's state after event `seq`, so that a restart need not replay from 1."""

    seq: int
    digest: str
    state: Body


@dataclass
class Batch:
    """What one transaction keeps: all of it or nothing. `jobs` replace older rows of the same id; the last of an id wins."""

    events: list[Event] = field(default_factory=list)
    jobs: list[JobRow] = field(default_factory=list)
    answers: list[StoredAnswer] = field(default_factory=list)
    snapshot: Snapshot | None = None


@dataclass(frozen=True)
class TokenRow:
    """A token by its sha256 (hex); the token itself is never stored. `tenant` "" sees all tenants."""

    name: str
    digest: str
    role: str
    tenant: str
    created: float  # unix seconds

    def as_dict(self) -> dict[str, str]:
        """All but the digest; the time in words."""
        created = datetime.fromtimestamp(self.created, UTC).isoformat(timespec="seconds")
        return {"name": self.name, "role": self.role, "tenant": self.tenant, "created": created}


@dataclass(frozen=True)
class TenantRow:
    """`quota`: milli-units by resource, plus "jobs" for the number of unfinished jobs; {} is no limit."""

    name: str
    quota: dict[str, int]
