"""What a run of share is: the options of `equipoise share`, the keys of its config.yaml, and the objects they become."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, field_validator

from equipoise.errors import InputError, refuse_if, unknown_name
from equipoise.registry import make_reference, whole_reference
from equipoise.spec import FIRST, Spec, Values, WholePath, panel, whole

if TYPE_CHECKING:
    from equipoise.share.bundles import Bundles
    from equipoise.share.site import Site
    from equipoise.share.sweep import Progress, Sweep
    from equipoise.share.view import Policy
    from equipoise.share.workload import Workload

PRESETS = ("authors", "described", "network-heavy", "recorded")
OLD_PRESETS = {"paper": "described"}  # what 0.1.0 called them
USUAL = "published,EDF,Hybrid"
FIRST_USUAL = "published,UniformCorrected,Hybrid"  # of 0.1.0
RENAMED = {  # policies that had another meaning in 0.1.0, by the names that mean the same today
    "Uniform": "DescribedUniform",
    "LARA": "DescribedLARA",
    "UARA": "DescribedUARA",
    "UARA+LARA": "DescribedUARA+LARA",
    "UARALARA": "DescribedUARA+LARA",
    "UniformCorrected": "Uniform",
    "UARALARACorrected": "DescribedUARA+LARA:corrected",
    "UARALARAFloor": "DescribedUARA+LARA:floor",
}
WAY_OUT = "a line `version: 0.2.0` in the file asks for today's meaning"
FIRST_PUBLISHED = ("Uniform", "SDF", "LARA", "UARA", "UARA+LARA")
TIME_SHARING = "Uniform,SDF,RoundRobin,SuccessiveHalving,ReconstructedLARA,STA,LaiRA,Hybrid"
RANGES = ("arrival", "data", "deadline", "a", "b", "target")
SERVERS_MOST = 1_000
LOADS_MOST = 1_000
NUMBER_MOST = 2**53  # of seeds and such
UNITS_MOST = 100_000
POLICIES_HELP = "Names with commas between; `published`, `all`; NAME:clairvoyant for a twin that knows the true curves."
YAML_TIME = "minutes and seconds"
Range = tuple[float, float]


def read_words(value: object, what: str = "names") -> list[str]:
    """Names with commas between, or a list of them."""
    words = [word.strip() for word in value.split(",")] if isinstance(value, str) else value
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
        raise InputError(f"expected {what} with commas between, not {value!r}")
    return words


def _read_policies(value: object) -> list[str]:
    """Groups replaced by their members, every name as it is shown in tables."""
    from equipoise.share.policies import POLICIES, named

    published = [choice.name for choice in POLICIES.choices() if choice.facts.get("published")]
    groups: dict[str, Sequence[str]] = {"published": published, "all": POLICIES.names()}
    found: list[str] = []
    for word in read_words(value):
        if word in groups:
            found += groups[word]
        else:
            kind, _, twin = word.partition(":")
            named(word)
            found.append(POLICIES.find(kind).name + (f":{twin}" if twin else ""))
    return list(dict.fromkeys(found))


def _renamed(value: object, *, noted: bool) -> list[str]:
    """Policies of a file of 0.1.0 by the names of today; each change with a note, if the file itself names them."""
    words = [inner for word in read_words(value) for inner in (FIRST_PUBLISHED if word == "published" else (word,))]
    found = []
    for word in words:
        kind, colon, twin = word.partition(":")
        now = RENAMED.get(kind, kind) + colon + twin
        if noted and now != word:
            warnings.warn(f"{word} is read as {now}, which it was in 0.1.0; {WAY_OUT}", stacklevel=2)
        found.append(now)
    return found


def _read_loads(value: object) -> list[int]:
    """10,20,60 or 10:60:10, which includes its last."""
    expected = f"expected numbers of tasks such as 10,20,60 or 10:60:10, not {value!r}"
    why = f"in a file write a list, such as [10, 20, 60]: YAML reads 10:50:10 as {YAML_TIME}, found {value}"
    refuse_if(isinstance(value, int), why)
    spans = isinstance(value, str) and ":" in value
    parts = value.split(":" if spans else ",") if isinstance(value, str) else value
    if not isinstance(parts, list) or any(isinstance(part, bool | float) for part in parts):
        raise InputError(expected)
    try:
        loads = [int(part) for part in parts]
    except (ValueError, TypeError):
        raise InputError(expected) from None
    if spans:
        refuse_if(len(loads) != 3, expected)
        first, last, step = loads
        many = (last - first) // step + 1 if step > 0 else 0
        wrong = not 1 <= first <= last or not 1 <= many <= LOADS_MOST
        refuse_if(wrong, f"{expected}; at most {LOADS_MOST} of them")
        return list(range(first, last + 1, step))
    refuse_if(not loads or min(loads) < 1, f"every load is at least one task, not {value!r}")
    return list(dict.fromkeys(loads))


def read_range(value: object) -> Range:
    """`lo:hi`, one number for both, or a list of two. A bare number in a file may be a `lo:hi` that YAML took for a time."""
    why = f"in a file write a list, such as [14, 35]: YAML reads 14:35 as {YAML_TIME}, found {value}"
    refuse_if(isinstance(value, int | float), why, code="range.form")
    parts = value.split(":") if isinstance(value, str) else value
    try:
        numbers = [float(part) for part in parts] if isinstance(parts, list | tuple) else []
    except (ValueError, TypeError):
        numbers = []
    refuse_if(len(numbers) not in (1, 2), f"expected a range LO:HI, such as 14:35, not {value!r}")
    low, high = numbers[0], numbers[-1]
    refuse_if(not 0.0 <= low <= high < math.inf, f"expected a range LO:HI with 0 <= LO <= HI, not {value!r}")
    return low, high


def read_servers(value: object) -> object:
    """`5x30@4` is five servers of 30 samples per step, each with a power cap of 4; parts with commas between.

    In a file it may be a list: bare numbers in it are capacities.
    """
    if isinstance(value, list):
        return [{"capacity": one} if isinstance(one, int | float) else one for one in value]
    if not isinstance(value, str | int | float):
        return value
    servers: list[dict[str, float]] = []
    for part in str(value).split(","):
        many, times, rest = part.strip().partition("x")
        capacity, at, cap = (rest if times else part.strip()).partition("@")
        try:
            server = {"capacity": float(capacity)} | ({"power_cap": float(cap)} if at else {})
            count = int(many) if times else 1
        except ValueError:
            raise InputError(f"expected servers such as 5x30, 30,30,60 or 5x30@4, not {value!r}") from None
        refuse_if(not 1 <= count <= SERVERS_MOST, f"{part!r}: expected 1 to {SERVERS_MOST:,} servers")
        servers += [server] * count
    return servers


def _read_tasks(value: object) -> object:
    from equipoise.share.task import read_tasks

    read_tasks(value)
    return value


class ServerSpec(BaseModel):
    """A server as it stands in a file."""

    model_config = ConfigDict(extra="forbid")
    capacity: float
    power_cap: float | None = None


# What a field takes on the command line or in a file, and what it becomes.
Names = Annotated[list[str], BeforeValidator(_read_policies)]
Files = Annotated[list[str], BeforeValidator(lambda value: [whole_reference(word) for word in read_words(value)])]
Loads = Annotated[list[int], BeforeValidator(_read_loads)]
Span = Annotated[Range, BeforeValidator(read_range)]
Servers = Annotated[list[ServerSpec], BeforeValidator(read_servers)]
Tasks = Annotated[list[dict[str, float]], BeforeValidator(_read_tasks)]
Rule = Annotated[str, BeforeValidator(lambda value: "true" if value is True else value)]  # YAML reads true as a bool
Count = Annotated[int, whole(1, NUMBER_MOST)]
Index = Annotated[int, whole(0, NUMBER_MOST)]

of_comparison, of_bundles, of_workload = map(panel, ("Comparison", "Bundles", "Workload"))
# Fields that are None unless given: then the preset has a value for them, or the result.
drawn, of_site, of_page = (partial(panel(name), None) for name in ("Workload", "Site", "Output"))
ranged = partial(drawn, metavar="LO:HI")  # a range that tasks are drawn from


class PoliciesSpec(Spec):
    """Which policies take part."""

    policies: Names = of_comparison(USUAL, POLICIES_HELP, "NAMES")
    policy_file: Files | None = of_comparison(None, "Your own policies beside them, commas between.", "FILE.py:CLASS")

    @classmethod
    def upgrade(cls, values: Values, version: str) -> Values:
        """In 0.1.0 the names of the paper meant our reading of its text, and the preset `paper` was the usual one."""
        if version != FIRST:
            return values
        usual = cls.model_fields["policies"].default
        given = {"policies": FIRST_USUAL if usual == USUAL else usual} | values
        if "preset" in cls.model_fields and not {"tasks", "preset"} & values.keys():
            warnings.warn(f"no preset is read as described, the usual one of 0.1.0; {WAY_OUT}", stacklevel=2)
            given = {"preset": "described"} | given
        return given | {"policies": _renamed(given["policies"], noted="policies" in values)}

    def players(self) -> list[Policy]:
        """The policies themselves, no two of one name."""
        from equipoise.share import policies
        from equipoise.share.sweep import refuse_equal_names
        from equipoise.share.view import name_of

        found = [*map(policies.named, self.policies), *map(policy_from, self.policy_file or [])]
        refuse_equal_names([name_of(policy) for policy in found])
        return found


class StudySpec(PoliciesSpec):
    """What every study of share can be told: who takes part, how crowded, how often."""

    loads: Loads = of_comparison("10:60:10", "Numbers of tasks: 10,20,60 or FIRST:LAST:STEP.", "LOADS")
    seeds: Count = of_comparison(200, "Seeds of each load; every policy meets the same tasks.", "COUNT")
    first_seed: Index = of_comparison(0, "The first of them.", "SEED")

    @property
    def seed_numbers(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)


AnyStudy = TypeVar("AnyStudy", "Bundles", "Sweep")


@dataclass(frozen=True, eq=False)
class StudyScene(Generic[AnyStudy]):
    """A study made real: its policies, and what plays them."""

    spec: StudySpec
    policies: list[Policy]
    study: Callable[..., AnyStudy]

    def run(self, progress: Progress | None = None) -> AnyStudy:
        """Play all of it."""
        spec = self.spec
        found = self.study(self.policies, loads=spec.loads, seeds=spec.seed_numbers, progress=progress)
        return replace(found, spec=spec)


class BundlesSpec(StudySpec):
    """Everything that determines a study of time sharing."""

    policies: Names = of_comparison(TIME_SHARING, POLICIES_HELP, "NAMES")
    loads: Loads = of_comparison("10", "Tasks of a bundle: 10,20 or FIRST:LAST:STEP.", "LOADS")
    seeds: Count = of_comparison(200, "Bundles; every policy meets the same ones.", "COUNT")
    units: Annotated[int, whole(2, UNITS_MOST)] = of_bundles(600, "Steps that are played.", "STEPS")
    switch_cost: float = of_bundles(0.0, "Steps lost when another task takes the resource over.", "STEPS")
    curves: WholePath = of_bundles(None, "Recording to draw from; the shipped one unless given.", "FILE")

    @classmethod
    def upgrade(cls, values: Values, version: str) -> Values:
        """There was no such study in 0.1.0."""
        return values

    def build(self) -> StudyScene[Bundles]:
        """Its policies and curves, ready to run."""
        from equipoise.share.bundles import bundles, falling
        from equipoise.share.site import Server, Site

        Site(servers=(Server(),), switch_cost=self.switch_cost)  # refuses what cannot be
        study = partial(bundles, units=self.units, switch_cost=self.switch_cost, curves=falling(self.curves))
        return StudyScene(self, self.players(), study)


class ShareSpec(StudySpec):
    """Everything that determines a comparison; the same file repeats it bit for bit."""

    oracle: Index = of_comparison(200, "Seeds of each load whose bound is computed; 0: none.", "COUNT")

    preset: str = of_workload("authors", f"What workload and site start from: {', '.join(PRESETS)}.")
    arrival: Span | None = ranged("Step of arrival, floored (authors 0:20, others 0:36).")
    data: Span | None = ranged("Samples to send (30:100; described 14:35).")
    deadline: Span | None = ranged("Steps from arrival to the first that is too late (21:51; described 36:46).")
    a: Span | None = ranged("Error of a curve after its first sample (.8:1.5; described .8:1.2).")
    b: Span | None = ranged("How fast it falls: error = a samples^-b (.2:.7; described .25:.467).")
    target: Span | None = ranged("Error at which a task has succeeded (.12:.22; described .147:.162).")
    speed: Span | None = ranged("A task's own limit, samples per step (20:50; described none).")
    sigma: float | None = drawn("Standard deviation of the noise in observed errors (.02; described .005).", "NUMBER")
    horizon: Count | None = drawn("Steps played (60 + 2 per task; described: until the last deadline).", "STEPS")
    prior_shift: float = of_workload(0.0, "Added to the mean of b that policies are told.", "NUMBER")
    curves: WholePath = drawn("Recording to replay (recorded); the shipped one unless given.", "FILE")
    tasks: Tasks | None = drawn("Tasks one by one instead of drawn ones.", only_in_file=True)

    servers: Servers | None = of_site("Samples per step of each: 5x30 (usual), 30,30,60; power caps 5x30@4.", "SERVERS")
    bandwidth: float | None = of_site("Of the uplink, samples per step (100).", "NUMBER")
    uplink: str | None = of_site("Who divides it: decided (by the policy), equal (authors).", "WHO")
    delay: float | None = of_site("Mean steps of delay in the network (3).", "STEPS")
    jitter: float | None = of_site("Standard deviation of that delay (0; described 1).", "STEPS")
    rate_jitter: float | None = of_site("Of an equal uplink: rates vary by this part (.2).", "NUMBER")
    task_cap: float | None = of_site("Most samples per step for one task; the fastest server's unless given.", "NUMBER")
    power: str | None = of_site("Law of energy: per_sample (authors), pooled (described), per_node, linear.", "LAW")
    idle_power: float | None = of_site("Energy of an idle server in a step (.1; .25).", "NUMBER")
    busy_power: float | None = of_site("What full use adds (7.5); per_sample: what a sample costs (.5).", "NUMBER")
    migration: str | None = of_site("When a task may change server: within a step, or between.", "WHEN")
    switch_cost: float | None = of_site("Steps lost when another task takes the only server over (0).", "STEPS")
    success: Rule | None = of_site("Error that success is judged on: observed, with its noise (authors), true.", "RULE")
    observes: str | None = of_site("Whose errors are seen in a step: of all who are ready (authors), served.", "WHOSE")

    timeline_load: Count | None = of_page("Tasks in the report's timeline; the largest load unless given.")
    timeline_seed: Index | None = of_page("Seed of the timeline; the first unless given.")
    timeline_task: Index | None = of_page("Task of the timeline; the one on which policies differ most unless given.")

    by_hand: ClassVar[str] = "the tasks are given one by one"

    @field_validator("preset")
    @classmethod
    def _preset(cls, value: str) -> str:
        value = OLD_PRESETS.get(value, value)
        if value not in PRESETS:
            raise unknown_name("preset", value, PRESETS)
        return value

    @field_validator("prior_shift")
    @classmethod
    def _finite(cls, value: float) -> float:
        refuse_if(not -1.0 <= value <= 1.0, f"prior_shift must be -1 to 1, not {value}: b itself is about 0.36")
        return value

    def plain(self) -> dict[str, Any]:
        """Of tasks by hand without what only drawn ones have, unless it was said."""
        idle = {"preset", "loads"} - self.model_fields_set if self.tasks is not None else set()
        return {name: value for name, value in super().plain().items() if name not in idle}

    def build(self) -> ShareScene:
        """Policies, workload and site; what cannot be is refused, what can have no effect too."""
        from equipoise.share.sweep import sweep

        self._refuse_idle_settings()
        workload = self._workload()
        site = site_of(self, workload.site)
        if self.task_cap is not None and self.task_cap > site.speeds.max():
            fastest = float(site.speeds.max())
            raise InputError(f"--task-cap {self.task_cap:g} has no effect: the fastest server does {fastest:g} a step")
        shown = self.timeline_load or (len(self.tasks) if self.tasks else max(self.loads))
        why = f"--timeline-task {self.timeline_task}: at a load of {shown} there are tasks 0 to {shown - 1}"
        refuse_if(self.timeline_task is not None and self.timeline_task >= shown, why)
        study = partial(sweep, workload=workload, site=site, oracle=self.oracle)
        return ShareScene(self, self.players(), study, workload, site)

    def _refuse_idle_settings(self) -> None:
        """A setting that was changed but can have no effect is a misunderstanding: say so."""
        given = self.tasks is not None and self.by_hand
        replayed = self.preset == "recorded" and "preset is recorded, whose curves bring their own"
        drawn = ("arrival", "data", "deadline", "speed", "sigma", "loads", "timeline_load")
        idle = {
            **dict.fromkeys(drawn, given),
            **dict.fromkeys(("a", "b", "target"), given or replayed),
            "curves": self.preset != "recorded" and f"preset is {self.preset} (add --preset recorded)",
        }
        why = f"--preset recorded has no effect: {given}; a preset names their site and prior"
        refuse_if(given and self.preset == "recorded", why)
        usual = ShareSpec()
        for name, reason in idle.items():
            if reason and getattr(self, name) != getattr(usual, name):
                raise InputError(f"--{name.replace('_', '-')} has no effect: {reason}")

    def _workload(self) -> Workload:
        from equipoise.share.task import read_tasks
        from equipoise.share.workload import Workload

        changes = {name: getattr(self, name) for name in (*RANGES, "speed", "sigma", "horizon")}
        changes = {name: value for name, value in changes.items() if value is not None}
        if self.horizon is not None:
            changes["horizon_per_task"] = 0
        make = Workload.recorded if self.preset == "recorded" else getattr(Workload, self.preset.replace("-", "_"))
        if (
            self.tasks is not None
        ):  # a preset that is named says where they are played, and what is told of their curves
            where = make() if "preset" in self.model_fields_set else Workload.described()
            workload = Workload.of(read_tasks(self.tasks), **({"site": where.site, "prior": where.prior} | changes))
        else:
            workload = make(self.curves, **changes) if self.preset == "recorded" else make(**changes)
        (log_a, b), prior = workload.prior.mean, workload.prior
        return workload.but(prior=replace(prior, mean=(log_a, b + self.prior_shift)))


@dataclass(frozen=True, eq=False)
class ShareScene(StudyScene["Sweep"]):
    """A comparison made real: who takes part, what arrives, and where."""

    spec: ShareSpec
    workload: Workload
    site: Site

    @property
    def title(self) -> str:
        """7 policies on the authors workload, 200 seeds for each load."""
        spec = self.spec
        changed = any(getattr(spec, name) is not None for name in (*RANGES, "speed", "sigma", "horizon"))
        changed |= self.site != self.workload.site or spec.prior_shift != 0.0
        whose = f"the {spec.preset} workload" + (", changed" if changed else "")
        if spec.tasks:
            whose = f"{len(spec.tasks)} task{'s' if len(spec.tasks) > 1 else ''} given one by one"
        seeds = "1 seed" if spec.seeds == 1 else f"{spec.seeds} seeds"
        policies = "1 policy" if len(self.policies) == 1 else f"{len(self.policies)} policies"
        many = " for each load" if len(spec.loads) > 1 and not spec.tasks else ""
        return f"{policies} on {whose}, {seeds}{many}"

    def run(self, progress: Progress | None = None) -> Sweep:
        """Play every policy at every load with every seed."""
        from equipoise.share.sweep import Timeline

        timeline = Timeline(self.spec.timeline_load, self.spec.timeline_seed, self.spec.timeline_task)
        return replace(super().run(progress), timeline=timeline)

    def warnings(self) -> list[str]:
        """Tasks whose curve never reaches their target: by number when given, by count when drawn."""
        found, never = [], "can never succeed"
        for k, task in enumerate(self.workload.tasks):
            if math.isinf(task.work):
                why = f"its target {task.target:g} is below its curve's floor {task.curve.floor:g}"
                if task.target > task.curve.floor:
                    why = f"its curve falls too slowly (b {task.curve.b:g}) to reach {task.target:g}"
                found.append(f"task {k} {never}: {why}")
        for load in () if self.workload.tasks else self.spec.loads:
            work = self.workload.draw(load, self.spec.seed_numbers, self.site).work
            if hopeless := int((~(work < math.inf)).sum()):
                found.append(f"{hopeless} of {work.size} drawn tasks at {load} {never}: curves miss their targets")
        return found


def site_of(spec: Spec, usual: Site | None = None) -> Site:
    """The site of a spec; a setting that the spec does not have, or leaves open, is the usual one's."""
    from equipoise.share.site import Server, Site

    names = [field.name for field in fields(Site) if field.name in type(spec).model_fields]
    given = {name: getattr(spec, name) for name in names if getattr(spec, name) is not None}
    if "servers" in given:
        given["servers"] = tuple(Server(one.capacity, one.power_cap) for one in given["servers"])
    if given.get("uplink") == "decided":
        given = {"rate_jitter": 0.0} | given
    return (usual or Site()).but(**given)


def policy_from(text: str) -> Policy:
    """A policy by its name, or a user's own from FILE.py:CLASS."""
    if ".py" not in text:
        from equipoise.share import policies

        return policies.named(text)
    found: Any = make_reference(text)
    if not callable(getattr(found, "decide", None)) and not callable(getattr(found, "start", None)):
        path, _, name = text.rpartition(":")
        why = f"{Path(path).name}: {name} is not a policy: it has no method decide(view)"
        raise InputError(why, code="policy.method")
    return found  # type: ignore[no-any-return]
