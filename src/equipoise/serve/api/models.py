"""What goes in and comes out of the REST interface. Quantities as in `place`: "16Gi", "4ms", "2h"."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Number = Annotated[float, Field(allow_inf_nan=False)]
Quantity = Annotated[str, Field(max_length=100)] | Number
Amounts = Annotated[dict[Annotated[str, Field(max_length=60)], Quantity], Field(max_length=64)]
Words = Annotated[
    dict[Annotated[str, Field(max_length=60)], Annotated[str, Field(max_length=200)]], Field(max_length=32)
]


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class JobIn(Asked):
    """A job: `workers` for `duration`, or the long form (`work` or `samples` and `epochs`, `batch`, `time_per_sample`)."""

    name: Annotated[str, Field(max_length=200)] | None = None
    worker: Amounts = Field(description="what one worker needs", examples=[{"gpu": 1, "cpu": 4, "memory": "16Gi"}])
    server: Amounts | None = Field(None, description="what a parameter server needs; none: all-reduce")
    workers_per_server: int | None = None
    workers: int | None = Field(None, description="short form: so many workers at once, never more", examples=[4])
    duration: Quantity | None = Field(None, description="short form: for so long", examples=["2h"])
    work: Number | None = Field(None, description="samples to go through")
    samples: Number | None = None
    epochs: Number | None = None
    batch: int | None = Field(None, description="global batch: at most so many workers")
    time_per_sample: Quantity | None = Field(None, examples=["4ms"])
    gradient: Quantity | None = Field(None, examples=["440MB"])
    requested: int | None = Field(None, description="workers it is lent when it has no promise")
    most: int | None = None
    restart: Quantity | None = Field(None, description="time lost whenever width or machines change")
    inside: Quantity | None = Field(None, description="bandwidth inside a machine", examples=["20Gbps"])
    between: Quantity | None = None
    utility: Annotated[dict[str, Quantity], Field(max_length=8)] | None = Field(
        None, examples=[{"kind": "sigmoid", "value": 80, "steepness": 0.5, "middle": 6}]
    )
    value: Number | None = Field(None, description="what finishing is worth, without a utility", examples=[10])
    deadline: Quantity | None = Field(None, description="nothing is worth after it", examples=["24h"])
    tags: Words | None = None


class JobOut(BaseModel):
    """A job as decided. Slots are numbers; `why` is one sentence for people."""

    model_config = ConfigDict(extra="allow")

    id: str
    name: str
    tenant: str
    state: str
    reason: str
    why: str
    submitted: int
    at: str
    worth: float
    cost: float
    start: int | None
    end: int | None
    starts_at: str | None = Field(None, description="the same on the wall clock, where it is real")
    ends_at: str | None = None
    finish: int | None
    work: float
    done: float
    pace: float
    workers: int
    machines: list[str]
    worker: dict[str, float]
    seq: int


class JobWithCells(JobOut):
    cells: list[tuple[int, str, int, int]] = Field(description="slot, machine, workers, servers")


class JobsOut(BaseModel):
    jobs: list[JobOut]
    next: str | None = Field(description="the cursor of the next page; null at the end")


class ProgressIn(Asked):
    """How far a job is: samples done, or the part of its work."""

    done: Number | None = Field(None, ge=0)
    fraction: Number | None = Field(None, ge=0, le=1)


class MachineIn(Asked):
    name: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")
    capacity: Amounts = Field(examples=[{"gpu": 8, "cpu": 64, "memory": "512Gi"}])
    count: int = Field(1, ge=1, le=10_000)


class MachineOut(BaseModel):
    name: str
    status: str
    capacity: dict[str, float]
    used: dict[str, float]


class MachinesOut(BaseModel):
    machines: list[MachineOut]


class Displaced(BaseModel):
    job: str
    reason: str


class MachineChanged(BaseModel):
    machine: MachineOut
    replanned: list[str]
    displaced: list[Displaced]


class ClusterOut(BaseModel):
    now: int
    slot_seconds: float
    horizon: int
    clock: str
    start: str
    resources: list[str]
    machines: list[MachineOut]
    seq: int


class PricesIn(Asked):
    base: Annotated[dict[str, Annotated[float, Field(ge=0, le=1e12)]], Field(max_length=64)]
    ratio: float = Field(10.0, ge=1, le=1e12)


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


class EventOut(BaseModel):
    seq: int
    slot: int
    at: str
    kind: str
    job: str
    name: str = Field(description="of the job")
    tenant: str
    text: str
    data: dict[str, Any]


class EventsOut(BaseModel):
    events: list[EventOut]
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
    prices: list[dict[str, Any]]
    best: dict[str, Any] | None
    smaller: dict[str, Any] | None


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


class ClockIn(Asked):
    advance: int | None = Field(None, ge=1, le=10_000)
    slot: int | None = Field(None, ge=0, le=10_000_000)


class ClockOut(BaseModel):
    now: int


class HealthOut(BaseModel):
    status: str
    seq: int
