"""What `equipoise share` can be told, and how that becomes policies, a workload and a site."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, field_validator

from equipoise.cli.options import setting
from equipoise.cli.policy_file import load_policy, whole_reference
from equipoise.errors import InputError, unknown_name

PRESETS = ("paper", "network-heavy", "recorded")
USUAL = "published,UniformCorrected,Hybrid"
RANGES = ("arrival", "data", "deadline", "a", "b", "target")
TASK_FIELDS = {"arrival": int, "deadline": int, "data": float, "target": float}
TASK_OPTIONS = {"a": float, "b": float, "floor": float, "delay": int, "sigma": float}
SERVERS_MOST = 1_000
LOADS_MOST = 1_000
NUMBER_MOST = 2**53  # of seeds and such
YAML_TIME = "minutes and seconds"
Range = tuple[float, float]


def span(description: str) -> Any:
    """A range that tasks are drawn from."""
    return setting(None, description, "Workload", "LO:HI")


class Machine(BaseModel):
    """A server as it stands in a file."""

    model_config = ConfigDict(extra="forbid")
    capacity: float
    power_cap: float | None = None


class Comparison(BaseModel):
    """What every study of share can be told: who competes, how crowded, how often."""

    model_config = ConfigDict(extra="forbid", validate_default=True, ser_json_inf_nan="strings")

    policies: list[str] = setting(
        USUAL,
        "Names with commas between; `published`, `all`; NAME:clairvoyant for a twin that knows the true curves.",
        "Comparison",
        "NAMES",
    )
    policy_file: list[str] | None = setting(
        None, "Your own policies beside them, commas between.", "Comparison", "FILE.py:CLASS"
    )
    loads: list[int] = setting("10:60:10", "Numbers of tasks: 10,20,60 or FIRST:LAST:STEP.", "Comparison", "LOADS")
    seeds: int = setting(200, "Seeds of each load; every policy meets the same tasks.", "Comparison", "COUNT")
    first_seed: int = setting(0, "The first of them.", "Comparison", "SEED")

    @field_validator("policies", mode="before")
    @classmethod
    def _policies(cls, value: Any) -> list[str]:
        return _known_policies(_words(value))

    @field_validator("policy_file", mode="before")
    @classmethod
    def _policy_file(cls, value: Any) -> list[str] | None:
        return None if value is None else [whole_reference(word) for word in _words(value)]

    @field_validator("loads", mode="before")
    @classmethod
    def _loads(cls, value: Any) -> list[int]:
        return _read_loads(value)

    @field_validator(
        "seeds",
        "first_seed",
        "oracle",
        "horizon",
        "timeline_load",
        "timeline_seed",
        "timeline_task",
        check_fields=False,
    )
    @classmethod
    def _whole(cls, value: int | None, info: Any) -> int | None:
        least = 1 if info.field_name in ("seeds", "horizon", "timeline_load") else 0
        if value is not None and value < least:
            raise InputError(f"{info.field_name} must be {least} or more, not {value}")
        if value is not None and value > NUMBER_MOST:
            raise InputError(f"{info.field_name} must be less than 2^53, not {value}")
        return value

    @property
    def seed_numbers(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)

    def players(self) -> list[Any]:
        """The policies themselves, no two of one name."""
        from equipoise.share import policies
        from equipoise.share.sweep import refuse_equal_names
        from equipoise.share.view import name_of

        found = [*map(policies.named, self.policies), *map(load_policy, self.policy_file or [])]
        refuse_equal_names([name_of(policy) for policy in found])
        return found


class LadderConfig(Comparison):
    """Everything that determines a climb."""

    loads: list[int] = setting("10,20,40,60", "Numbers of tasks: 10,20,60 or FIRST:LAST:STEP.", "Comparison", "LOADS")


class ShareConfig(Comparison):
    """Everything that determines a comparison; the same file repeats it bit for bit."""

    oracle: int = setting(200, "Seeds of each load whose bound is computed; 0: none.", "Comparison", "COUNT")

    preset: str = setting("paper", f"Where the workload starts from: {', '.join(PRESETS)}.", "Workload")
    arrival: Range | None = span("Step of arrival, floored (0:36 in the presets).")
    data: Range | None = span("Samples to send (14:35; network-heavy 78:144).")
    deadline: Range | None = span("Steps from arrival to deadline, rounded (36:46).")
    a: Range | None = span("Error of a curve after its first sample (.8:1.2).")
    b: Range | None = span("How fast it falls: error = a samples^-b (.25:.467).")
    target: Range | None = span("Error at which a task has succeeded (.147:.162).")
    sigma: float | None = setting(
        None, "Standard deviation of the noise in observed errors (.005; recorded 0).", "Workload", "NUMBER"
    )
    horizon: int | None = setting(
        None, "Steps that are played (until the last deadline; network-heavy 100).", "Workload", "STEPS"
    )
    prior_shift: float = setting(0.0, "Added to the mean of b that policies are told.", "Workload", "NUMBER")
    curves: str | None = setting(
        None, "Recording to replay (recorded); the shipped one unless given.", "Workload", "FILE"
    )
    tasks: list[dict[str, float]] | None = setting(
        None, "Tasks one by one instead of drawn ones.", "Workload", only_in_file=True
    )

    servers: list[Machine] = setting(
        "5x30", "Samples per step of each: 5x30, 30,30,60, or with power caps 5x30@4.", "Site", "SERVERS"
    )
    bandwidth: float = setting(100.0, "Of the uplink, samples per step.", "Site", "NUMBER")
    delay: float = setting(3.0, "Mean steps between sent and ready to compute.", "Site", "STEPS")
    jitter: float = setting(1.0, "Standard deviation of that delay.", "Site", "STEPS")
    task_cap: float | None = setting(
        None, "Most samples per step for one task; the fastest server's unless given.", "Site", "NUMBER"
    )
    power: str = setting("pooled", "Law of energy: pooled, per_node, linear.", "Site", "LAW")
    idle_power: float = setting(0.25, "Energy of an idle server in a step.", "Site", "NUMBER")
    busy_power: float = setting(7.5, "What a fully used one adds.", "Site", "NUMBER")
    migration: str = setting("within", "When a task may change server: within a step, or between steps.", "Site")

    timeline_load: int | None = setting(
        None, "Tasks in the report's timeline; the largest load unless given.", "Output"
    )
    timeline_seed: int | None = setting(None, "Seed of the timeline; the first unless given.", "Output")
    timeline_task: int | None = setting(
        None, "Task of the timeline; the one on which policies differ most unless given.", "Output"
    )

    by_hand: ClassVar[str] = "the tasks are given one by one"

    @field_validator("preset")
    @classmethod
    def _preset(cls, value: str) -> str:
        if value not in PRESETS:
            raise unknown_name("preset", value, PRESETS)
        return value

    @field_validator(*RANGES, mode="before")
    @classmethod
    def _range(cls, value: Any) -> Any:
        return None if value is None else read_range(value)

    @field_validator("servers", mode="before")
    @classmethod
    def _servers(cls, value: Any) -> Any:
        if isinstance(value, list):  # bare numbers in a file are capacities
            return [{"capacity": one} if isinstance(one, int | float) else one for one in value]
        return read_servers(value) if isinstance(value, str | int | float) else value

    @field_validator("curves")
    @classmethod
    def _whole_path(cls, value: str | None) -> str | None:
        """Absolute, so that a config.yaml repeats its run from any folder."""
        return None if value is None else str(Path(value).absolute())

    @field_validator("prior_shift")
    @classmethod
    def _finite(cls, value: float) -> float:
        if not -1.0 <= value <= 1.0:
            raise InputError(f"prior_shift must be -1 to 1, not {value}: b itself is about 0.36")
        return value

    @field_validator("tasks", mode="before")
    @classmethod
    def _tasks(cls, value: Any) -> Any:
        if value is not None:
            read_tasks(value)
        return value


@dataclass(frozen=True, eq=False)
class Job:
    """A configuration made real."""

    policies: list[Any]
    workload: Any
    site: Any
    title: str


def build(config: ShareConfig) -> Job:
    """Policies, workload and site; what cannot be is refused, what can have no effect too."""
    refuse_idle_settings(config)
    site, workload = _site(config), _workload(config)
    if config.task_cap is not None and config.task_cap > site.speeds.max():
        fastest = float(site.speeds.max())
        raise InputError(f"--task-cap {config.task_cap:g} has no effect: the fastest server does {fastest:g} a step")
    shown = config.timeline_load or (len(config.tasks) if config.tasks else max(config.loads))
    if config.timeline_task is not None and config.timeline_task >= shown:
        raise InputError(
            f"--timeline-task {config.timeline_task}: at a load of {shown} there are tasks 0 to {shown - 1}"
        )
    players = config.players()
    changed = any(getattr(config, name) is not None for name in (*RANGES, "sigma", "horizon"))
    whose = f"the {config.preset} workload" + (", changed" if changed else "")
    whose = f"{len(config.tasks)} tasks given one by one" if config.tasks else whose
    seeds = "1 seed" if config.seeds == 1 else f"{config.seeds} seeds"
    policies = "1 policy" if len(players) == 1 else f"{len(players)} policies"
    return Job(
        players,
        workload,
        site,
        f"{policies} on {whose}, {seeds}" + (" a load" if len(config.loads) > 1 and not config.tasks else ""),
    )


def refuse_idle_settings(config: ShareConfig) -> None:
    """A setting that was changed but can have no effect is a misunderstanding: say so."""
    plain = ShareConfig()
    given = config.tasks is not None and config.by_hand
    replayed = config.preset == "recorded" and "preset is recorded, whose curves bring their own"
    idle = {
        **dict.fromkeys(("preset", "arrival", "data", "deadline", "sigma", "loads", "timeline_load"), given),
        **dict.fromkeys(("a", "b", "target"), given or replayed),
        "curves": config.preset != "recorded" and f"preset is {config.preset} (add --preset recorded)",
    }
    for name, reason in idle.items():
        if reason and getattr(config, name) != getattr(plain, name):
            raise InputError(f"--{name.replace('_', '-')} has no effect: {reason}")


def _site(config: ShareConfig) -> Any:
    from equipoise.share import Server, Site

    servers = tuple(Server(machine.capacity, machine.power_cap) for machine in config.servers)
    names = ("bandwidth", "delay", "jitter", "task_cap", "power", "idle_power", "busy_power", "migration")
    return Site(servers, **{name: getattr(config, name) for name in names})


def _workload(config: ShareConfig) -> Any:
    from equipoise.share import Workload

    changes = {name: getattr(config, name) for name in (*RANGES, "sigma", "horizon")}
    changes = {name: value for name, value in changes.items() if value is not None}
    if config.tasks is not None:
        workload = Workload.of(read_tasks(config.tasks), **changes)
    elif config.preset == "recorded":
        workload = Workload.recorded(_recording(config.curves), **changes)
    else:
        make: dict[str, Callable[..., Any]] = {"paper": Workload.paper, "network-heavy": Workload.network_heavy}
        workload = make[config.preset](**changes)
    (log_a, b), prior = workload.prior.mean, workload.prior
    return workload.but(prior=replace(prior, mean=(log_a, b + config.prior_shift)))


def _recording(path: str | None) -> Any:
    from equipoise.share.recording import Recording

    return None if path is None else Recording.load(path)


def _words(value: Any) -> list[str]:
    """Names with commas between, or a list of them."""
    if isinstance(value, str):
        value = [word.strip() for word in value.split(",")]
    if not isinstance(value, list) or not value or not all(isinstance(word, str) and word for word in value):
        raise InputError(f"expected names with commas between, not {value!r}")
    return value


def _known_policies(words: list[str]) -> list[str]:
    """Groups replaced by their members, every name as it is shown in tables."""
    from equipoise.share import policies
    from equipoise.share.view import name_of

    groups = {"published": policies.PUBLISHED, "all": policies.ALL}
    found: list[str] = []
    for word in words:
        if word in groups:
            found += [name_of(policy()) for policy in groups[word]]
        else:
            twin = word.partition(":")[2]
            policies.named(word)
            found.append(name_of(policies.named(word.partition(":")[0])) + (f":{twin}" if twin else ""))
    return list(dict.fromkeys(found))


def _read_loads(value: Any) -> list[int]:
    """10,20,60 or 10:60:10, which includes its last."""
    expected = f"expected numbers of tasks such as 10,20,60 or 10:60:10, not {value!r}"
    if isinstance(value, int):
        raise InputError(
            f"in a file write a list, such as [10, 20, 60]: YAML reads 10:50:10 as {YAML_TIME}, found {value}"
        )
    try:
        if isinstance(value, str) and ":" in value:
            first, last, step = (int(part) for part in value.split(":"))
            found = range(first, last + 1, step) if step > 0 else range(0)
            if not 1 <= first <= last or not 1 <= len(found) <= LOADS_MOST:
                raise InputError(f"{expected}; at most {LOADS_MOST} of them")
            return list(found)
        parts = value.split(",") if isinstance(value, str) else value
        loads = [int(part) for part in parts]
        if any(isinstance(part, bool | float) for part in parts):
            raise InputError(expected)
    except (ValueError, TypeError):
        raise InputError(expected) from None
    if not loads or min(loads) < 1:
        raise InputError(f"every load is at least one task, not {value!r}")
    return list(dict.fromkeys(loads))


def read_range(value: Any) -> Range:
    """`lo:hi`, one number for both, or a list of two. A bare number in a file may be a `lo:hi` that YAML took for a time."""
    if isinstance(value, int | float):
        raise InputError(f"in a file write a list, such as [14, 35]: YAML reads 14:35 as {YAML_TIME}, found {value}")
    parts = value.split(":") if isinstance(value, str) else value
    try:
        numbers = [float(part) for part in parts]
    except (ValueError, TypeError):
        numbers = []
    if len(numbers) not in (1, 2):
        raise InputError(f"expected a range LO:HI, such as 14:35, not {value!r}")
    low, high = numbers[0], numbers[-1]
    if not (math.isfinite(low) and math.isfinite(high)) or low < 0 or high < low:
        raise InputError(f"expected a range LO:HI with 0 <= LO <= HI, not {value!r}")
    return low, high


def read_servers(value: str | float) -> list[dict[str, float]]:
    """`5x30@4` is five servers of 30 samples per step, each with a power cap of 4; parts with commas between."""
    machines: list[dict[str, float]] = []
    for part in str(value).split(","):
        many, times, rest = part.strip().partition("x")
        capacity, at, cap = (rest if times else part.strip()).partition("@")
        try:
            machine = {"capacity": float(capacity)} | ({"power_cap": float(cap)} if at else {})
            count = int(many) if times else 1
        except ValueError:
            raise InputError(f"expected servers such as 5x30, 30,30,60 or 5x30@4, not {value!r}") from None
        if not 1 <= count <= SERVERS_MOST:
            raise InputError(f"{part!r}: expected 1 to {SERVERS_MOST:,} servers")
        machines += [machine] * count
    return machines


def read_tasks(value: Any) -> list[Any]:
    """Tasks from a file's list of mappings; mistakes name the task, counted from 0 as everywhere."""
    from equipoise.share import Curve, Task

    if not isinstance(value, list) or not value:
        raise InputError(f"expected a list of tasks, each with {', '.join(TASK_FIELDS)}")
    found = []
    for k, entry in enumerate(value):
        given = _task_numbers(k, entry)
        curve = {name: given.pop(name) for name in ("a", "b", "floor") if name in given}
        try:
            found.append(Task(curve=Curve(**curve), **given))
        except InputError as error:
            raise InputError(f"task {k}: {str(error).partition(': ')[2]}") from None
    return found


def _task_numbers(k: int, entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise InputError(f"task {k}: expected `name: value` pairs, not {entry!r}")
    kinds: dict[str, type] = TASK_FIELDS | TASK_OPTIONS
    for name in entry:
        if name not in kinds:
            raise InputError(f"task {k}: {unknown_name('field', str(name), kinds)}")
    for name in TASK_FIELDS:
        if name not in entry:
            raise InputError(f"task {k}: {name} is missing")
    given = {}
    for name, number in entry.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise InputError(f"task {k}: {name} is {number!r}; expected a number")
        if kinds[name] is int and number != (number if not math.isfinite(number) else int(number)):
            raise InputError(f"task {k}: {name} is {number!r}; expected a whole number of steps")
        given[name] = int(number) if kinds[name] is int and math.isfinite(number) else float(number)
    return given
