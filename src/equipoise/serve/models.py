"""What the REST interface answers, once for the service and its client. It loads no planner.

Quantities as in `place`: "16Gi", "4ms", "2h". Times in slots.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, WithJsonSchema

from equipoise.serve.plan.events import Body

OVER = ("finished", "refused", "cancelled")  # states in which nothing more happens to a job


class RequestBody(BaseModel):
    """What a client sends: an unknown field is a mistake."""

    model_config = ConfigDict(extra="forbid")


def _always_whole(schema: Body) -> None:
    """The service leaves no field out: the defaults are for a client that asks a service of another version."""
    schema["required"] = list(schema["properties"])
    for one in schema["properties"].values():
        one.pop("default", None)


class Answer(BaseModel):
    """What the service answers. Fields that an older service leaves out have defaults; those of a newer one are kept."""

    model_config = ConfigDict(extra="allow", frozen=True, json_schema_extra=_always_whole)

    @property
    def extra(self) -> Body:
        """Fields that this version does not know."""
        return self.model_extra or {}

    def as_dict(self) -> Body:
        """Plain values, as the service sent them."""
        return self.model_dump(mode="json")


class JobStatus(Answer):
    """A job as decided. Slots are numbers; `why` is one sentence for people."""

    id: str = ""
    name: str = ""
    tenant: str = ""
    state: str = ""
    reason: str = ""
    why: str = ""
    submitted: int = 0
    at: str = Field(default="", description="the calendar time of the submission")
    worth: float = 0.0
    cost: float = 0.0
    start: int | None = Field(default=None, description="the first planned slot")
    end: int | None = Field(default=None, description="the last planned slot")
    starts_at: str | None = Field(default=None, description="the same on the wall clock, where it is real")
    ends_at: str | None = None
    finish: int | None = None
    work: float = Field(default=0.0, description="samples")
    done: float = Field(default=0.0, description="samples")
    pace: float = Field(default=1.0, description="measured speed over the stated one")
    workers: int = Field(0, description="the most at once in its plan")
    machines: list[str] = Field(default_factory=list)
    worker: dict[str, float] = Field(default_factory=dict, description="what one worker needs, in units")
    seq: int = 0

    @property
    def over(self) -> bool:
        """Finished, refused or cancelled: nothing more happens to it."""
        return self.state in OVER


Cell = tuple[int, str, int, int]


class JobWithCells(JobStatus):
    """A job and the cells that it still has. In a list of jobs, a client has None instead of cells."""

    cells: Annotated[list[Cell] | None, WithJsonSchema(TypeAdapter(list[Cell]).json_schema())] = Field(
        default=None, description="slot, machine, workers, servers"
    )


class JobPage(Answer):
    """A page of jobs, and the cursor of the next."""

    jobs: list[JobStatus] = Field(default_factory=list)
    next: str | None = Field(default=None, description="the cursor of the next page; null at the end")


class MachineStatus(Answer):
    """A machine: up, draining or down; capacity, and what is used in this slot, in units."""

    name: str = ""
    status: str = ""
    capacity: dict[str, float] = Field(default_factory=dict)
    used: dict[str, float] = Field(default_factory=dict)


class MachineList(BaseModel):
    machines: list[MachineStatus]


class Displaced(BaseModel):
    job: str
    reason: str


class MachineChanged(BaseModel):
    machine: MachineStatus
    replanned: list[str]
    displaced: list[Displaced]


class ClusterStatus(Answer):
    """The clock and the machines."""

    now: int = 0
    slot_seconds: float = 0.0
    horizon: int = 0
    clock: str = ""
    start: str = Field(default="", description="the calendar time of slot 0, where there is one")
    resources: list[str] = Field(default_factory=list)
    machines: list[MachineStatus] = Field(default_factory=list)
    seq: int = 0


class PricesOut(BaseModel):
    now: int
    slots: list[int]
    resources: list[str]
    mean: dict[str, list[float]]
    by_machine: list[list[float]] | None = None
    machines: list[str]


class Bar(BaseModel):
    job: str
    name: str
    state: str
    machine: int
    first: int
    last: int
    workers: int
    servers: int
    share: float = Field(description="of the machine's resource that it takes most of, 0 to 1")


class Occupied(BaseModel):
    machine: int
    first: int
    last: int
    share: float


class ScheduleOut(BaseModel):
    now: int
    first: int
    last: int
    machines: list[str]
    bars: list[Bar]
    others: list[Occupied]
    utilisation: dict[str, list[float]]


class ForecastOut(BaseModel):
    start: int | None
    end: int | None
    text: str


class CheckOut(BaseModel):
    name: str
    value: float | None
    limit: float | None
    passed: bool | None
    meaning: str


class CertificateOut(BaseModel):
    passed: bool
    checks: list[CheckOut]
    seq: int


class EventRecord(Answer):
    """An event of the log, with one sentence for people."""

    seq: int = 0
    slot: int = 0
    at: str = ""
    kind: str = ""
    job: str = ""
    name: str = Field(default="", description="of the job")
    tenant: str = ""
    text: str = ""
    data: Body = Field(default_factory=dict)


class EventPage(BaseModel):
    events: list[EventRecord]
    next: int | None = None


class ExplainOut(BaseModel):
    """Why a job was treated as it was, asked of the planner as it stood when the job came."""

    model_config = ConfigDict(extra="allow")

    job: str
    state: str
    reason: str
    text: str
    earliest_start: int | None
    earliest_finish: int | None
    prices: list[Body]
    best: Body | None
    changes: list[Body]
    smaller: Body | None


class StatusOut(BaseModel):
    now: int
    seq: int
    clock: str
    version: str
    jobs: dict[str, int]
    utilisation: dict[str, float]
    uptime: float
    store: str
    waiting: int = Field(description="requests not yet taken up by the planner")


class ClockOut(BaseModel):
    now: int


class HealthOut(BaseModel):
    status: str
    seq: int
