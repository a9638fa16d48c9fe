"""What `equipoise share execute` can be told."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from equipoise.cli.options import setting
from equipoise.cli.policy_file import whole_reference
from equipoise.cli.share_config import Comparison, Machine, ShareConfig, read_range
from equipoise.errors import InputError

SEED_MOST = 40_000
FOUR = "Uniform,SDF,UARA+LARA,Hybrid"
Range = tuple[float, float]


class ExecuteConfig(BaseModel):
    """The inputs of an execution. The clock is real: a repeated run has the same tasks, not the same microseconds."""

    model_config = ConfigDict(extra="forbid", validate_default=True)

    policies: list[str] = setting(FOUR, "Names with commas between; `published`, `all`.", "Comparison", "NAMES")
    policy_file: list[str] | None = setting(
        None, "Your own policies beside them, commas between.", "Comparison", "FILE.py:CLASS"
    )
    tasks: int = setting(24, "Tasks, each a training process.", "Comparison", "COUNT")
    repeats: int = setting(1, "Seeds; every policy meets the same tasks.", "Comparison", "COUNT")
    seed: int = setting(0, "The first of them.", "Comparison", "SEED")

    kinds: list[str] = setting("sgd,mlp,nb", "What tasks train: sgd, mlp, nb, torch, commas between.", "Tasks", "NAMES")
    work: str | None = setting(
        None, "Instead: your function of a seed that yields its error after each unit.", "Tasks", "FILE.py:FUNCTION"
    )
    target: float | None = setting(
        None, "Error at which every task has succeeded; else what it reaches alone within its work.", "Tasks", "NUMBER"
    )
    length: Range = setting("60:900", "Work of a task, samples of the site, log-uniform.", "Tasks", "LO:HI")
    arrival: Range = setting("0:12", "Step of arrival, floored.", "Tasks", "LO:HI")
    deadline: Range = setting("16:24", "Steps from arrival to deadline, rounded.", "Tasks", "LO:HI")
    data: Range = setting("14:35", "Samples to send.", "Tasks", "LO:HI")
    patience: float = setting(
        2.0, "Seconds of CPU, or asleep, without a unit after which a task counts as hung.", "Tasks", "SECONDS"
    )
    trial: float = setting(
        1.0, "Seconds of CPU of each trial that measures speed and curves beforehand.", "Tasks", "SECONDS"
    )

    cpus: float = setting(1.0, "CPUs of this machine that are the whole site.", "Site", "CORES")
    step: float = setting(0.4, "Length of a step.", "Site", "SECONDS")
    limiter: str = setting(
        "auto", "How processes are held: auto, systemd, cgroup2, cgroup1, stop, none.", "Site", "KIND"
    )
    servers: list[Machine] = setting("5x30", "Samples per step of each, such as 5x30 or 30,30,60.", "Site", "SERVERS")
    bandwidth: float = setting(100.0, "Of the uplink, samples per step.", "Site", "NUMBER")
    delay: float = setting(3.0, "Mean steps between sent and ready to compute.", "Site", "STEPS")
    jitter: float = setting(1.0, "Standard deviation of that delay.", "Site", "STEPS")
    power: str = setting("pooled", "Law of energy: pooled, per_node, linear.", "Site", "LAW")

    units: dict[str, float] | None = setting(
        None, "Seconds of CPU of a unit by kind: repeats the targets of a run.", "Tasks", only_in_file=True
    )

    _policies = field_validator("policies", mode="before")(Comparison._policies.__func__)  # type: ignore[attr-defined]
    _policy_file = field_validator("policy_file", mode="before")(Comparison._policy_file.__func__)  # type: ignore[attr-defined]
    _servers = field_validator("servers", mode="before")(ShareConfig._servers.__func__)  # type: ignore[attr-defined]

    @field_validator("kinds", mode="before")
    @classmethod
    def _kinds(cls, value: Any) -> Any:
        words = [word.strip() for word in value.split(",")] if isinstance(value, str) else value
        if not words or not all(isinstance(word, str) and word for word in words):
            raise InputError(f"expected kinds of task with commas between, not {value!r}")
        return words

    @field_validator("length", "arrival", "deadline", "data", mode="before")
    @classmethod
    def _range(cls, value: Any) -> Any:
        return read_range(value)

    @field_validator("work")
    @classmethod
    def _work(cls, value: str | None) -> str | None:
        return None if value is None else whole_reference(value, "function", "FILE.py:FUNCTION, such as my.py:train")

    @field_validator("tasks", "repeats")
    @classmethod
    def _one_or_more(cls, value: int, info: Any) -> int:
        if value < 1:
            raise InputError(f"{info.field_name} must be 1 or more, not {value}")
        return value

    @field_validator("seed")
    @classmethod
    def _seed(cls, value: int) -> int:
        if not 0 <= value <= SEED_MOST:
            raise InputError(f"seed must be 0 to {SEED_MOST:,}, not {value}")
        return value

    @property
    def seed_numbers(self) -> list[int]:
        return list(range(self.seed, self.seed + self.repeats))

    def players(self) -> list[Any]:
        """The policies themselves, no two of one name."""
        return Comparison.players(self)  # type: ignore[arg-type]
