"""What a run of place is: each field is an option of `equipoise place`, a key of config.yaml and a Python argument.

A new option is a new field. A placer whose class names a field in `settings` is made with its value; a trace format whose
reader has a parameter of the same name is called with it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

from pydantic import AfterValidator, ValidationInfo, field_validator, model_validator

from equipoise.errors import InputError, unknown_name
from equipoise.registry import Registry, whole_reference
from equipoise.spec import FIRST, Spec, WholePath, known_names, panel
from equipoise.units import seconds

if TYPE_CHECKING:
    from equipoise.place.job import Workload
    from equipoise.place.prices import Prices
    from equipoise.place.scene import PlaceScene
    from equipoise.place.simulate import Placer

PLACERS: Registry[Placer] = Registry("equipoise.place.placers", "policy")
PRICES: Registry[Prices] = Registry("equipoise.place.prices", "prices")
TRACES: Registry[Workload] = Registry("equipoise.place.traces", "format")
AUTO, OWN = "auto", "own"  # formats of jobs besides those of traces
SYNTHETIC = "synthetic"  # no format of files: without JOBS they are drawn as the paper's experiments have them
PACKINGS = ("greedy", "rounding")
SEEN, UNSEEN = PACES = ("seen", "unseen")  # whether the true work of a job is known after the first slot it ran in
DRAWN = "drawn"
WORTHS = ("none", DRAWN)  # what a job of a trace is worth that states nothing of it
EVERY = "all"
RECOMMENDED = "recommended"
USUAL = "dated"  # the policy where there is no reason for another
PLAIN = "plain"  # pdors:plain: neither re-planning nor backfill
REPLAY = "replay"  # the usual kind of prices
PRICED = "priced"  # elasticflow:priced: with a price from history
COUNT_MOST = 2**31  # of slots, machines, seeds and such
SEEDS_MOST = 10_000
WIDEST = 1000.0  # times the width asked for


def taken(good: Callable[[Any], bool], why: str) -> AfterValidator:
    """For the annotation of a field that takes None and what is good; else one line: the value, and why not."""

    def check(value: object) -> object:
        if value is not None and not good(value):
            raise InputError(f"{value} {why}")
        return value

    return AfterValidator(check)


def count_from(least: int) -> AfterValidator:
    """For the annotation of a count of slots, machines, seeds and such."""
    why = f"is no count; expected a whole number from {least} to {COUNT_MOST:,}"
    return taken(lambda value: least <= value <= COUNT_MOST, why)


PART = "is no part; expected a number"
Count = Annotated[int | None, count_from(1)]
Steps = Annotated[int, taken(lambda n: 0 <= n <= COUNT_MOST, "steps; expected 0 (no re-planning) or more")]
Seeds = Annotated[
    int, taken(lambda n: 1 <= n <= SEEDS_MOST, f"seeds; expected a whole number from 1 to {SEEDS_MOST:,}")
]
Times = Annotated[float | None, taken(lambda x: 1.0 <= x <= WIDEST, f"times; expected a number from 1 to {WIDEST:g}")]
Wrong = Annotated[float, taken(lambda x: 0.0 <= x < 1.0, f"{PART} from 0 to below 1, such as 0.5")]
Share = Annotated[float, taken(lambda x: 0.0 < x < 1.0, f"{PART} between 0 and 1, such as 0.25")]
Slack = Annotated[float, taken(lambda x: 0.0 <= x <= 1.0, f"{PART} from 0 to 1, such as 0.1")]


of_jobs, of_time, of_prices, of_policies = map(panel, ("Jobs", "Time", "Prices", "Policies"))
of_change, of_bound = panel("What if"), panel("Bound")


def placer_names(*, every: bool = True) -> list[str]:
    """Every placer there is, as --policy calls it; or those that `all` stands for, not the `named_only`."""
    return [choice.stem for choice in PLACERS.choices() if every or not choice.facts.get("named_only")]


def formats() -> list[str]:
    """How a file of jobs can be written."""
    return [AUTO, OWN, *TRACES.names("matches")]


class SceneSpec(Spec):
    """Jobs, the cluster they run on, and how far ahead is planned."""

    jobs: WholePath = of_jobs(None, "Jobs: our own format, or a trace.", "FILE", only_in_file=True)
    cluster: WholePath = of_jobs(
        None, "The machines: YAML, JSON or CSV; also Alibaba's node list or Tiresias' cluster table.", "FILE"
    )
    machines: Count = of_jobs(None, "So many equal GPU machines, instead of --cluster.", "COUNT")
    gpus_per_machine: Count = of_jobs(None, "GPUs of each; also what fitted one machine in the trace. (default: 8)")
    format: str = of_jobs(
        "auto",
        f"How JOBS is written: {', '.join(formats())}. Without JOBS: {SYNTHETIC} draws the paper's kind.",
        "NAME",
    )
    slot: str | None = of_jobs(None, "Length of a slot. (default: the file's own, 10m for traces)", "10m")
    elasticity: Times = of_jobs(
        None, "Jobs of a trace run on up to so many times the GPUs they had. (default: 1; elasticflow: 4)"
    )
    worth: str = of_jobs(
        WORTHS[0],
        "What jobs of a trace, or drawn ones, are worth: none (nothing is stated), or drawn by --seed.",
        "none|drawn",
    )
    sized_utility: bool = of_jobs(True, "With --worth drawn: worth grows with the job's GPU time.")
    window: str | None = of_jobs(
        None, "Score only jobs that arrive in these slots; history is as long a stretch before them.", "FROM:TO"
    )
    restart: str | None = of_jobs(None, "Lost whenever a job starts, moves or is resized.", "30s")
    wrong: Wrong = of_jobs(0.0, "Durations are wrong by up to this part: 0.5 is by up to 50 %.", "PART")
    draw: Count = of_jobs(None, "Without JOBS: so many are drawn. (default: 400)", "COUNT")
    horizon: Count = of_time(
        None, "Plan each job within so many slots of its arrival, rolling. (default: 48 hours)", "SLOTS"
    )
    slots: Count = of_time(None, "Or: everything ends at this slot.", "SLOTS")
    seed: Annotated[int, count_from(0)] = of_time(0, "Draws jobs, utilities, wrong durations; re-planning.", "SEED")

    @classmethod
    def upgrade(cls, values: dict[str, object], version: str) -> dict[str, object]:
        """In 0.1.0 the worth of a trace's jobs was drawn, a job's pace was not seen, all policies took part, `packing`
        was called `placer`, and without `jobs` they were synthetic."""
        values = {"packing" if name == "placer" else name: value for name, value in values.items()}
        if version != FIRST:
            return values
        first = {"worth": DRAWN, "pace": UNSEEN, "policy": EVERY}
        known = {name: value for name, value in first.items() if name in cls.model_fields}
        drawn = {} if values.get("jobs") else {"format": SYNTHETIC}
        if drawn and "history_format" in cls.model_fields and values.get("format"):  # it was that of the history
            drawn["history_format"] = str(values.get("history_format") or values["format"])
        return known | values | drawn

    _known = known_names({"worth": WORTHS, "format": [*formats(), SYNTHETIC]})

    @model_validator(mode="after")
    def _read_where_there_is_a_file(self) -> Self:
        """A file is never synthetic: who adds JOBS to a config of 0.1.0 that had none has them read."""
        if self.jobs is not None and self.format == SYNTHETIC:
            self.format = AUTO
        return self

    @field_validator("slot", "restart")
    @classmethod
    def _time(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and seconds(value, str(info.field_name)) <= 0 and info.field_name == "slot":
            raise InputError(f"slot is {value!r}; expected a length such as 10m")
        return value

    @field_validator("window")
    @classmethod
    def _window(cls, value: str | None) -> str | None:
        if value is not None:
            first, colon, last = value.partition(":")
            if not (colon and first.isdigit() and last.isdigit() and int(first) < int(last)):
                raise InputError(f"{value!r} is no window; expected slots FROM:TO, such as 1008:2016")
        return value

    def span(self) -> tuple[int, int] | None:
        """The slots in which scored jobs arrive."""
        if self.window is None:
            return None
        first, _, last = self.window.partition(":")
        return int(first), int(last)


class PricedSpec(SceneSpec):
    """A scene with history to calibrate prices on, and how PDORS uses them."""

    history: list[str] | None = of_prices(
        None, "Past jobs that prices are calibrated on; several with commas between.", "FILES"
    )
    history_format: str | None = of_prices(None, "How they are written. (default: as JOBS)", "NAME")
    history_share: Share = of_prices(
        0.25, "Without --history: this first part of the jobs is history, and is not scored.", "PART"
    )
    learn_durations: bool | None = of_prices(
        None,
        "Plan by how long jobs of the same user took in history over what they stated. (default: where history has users)",
    )
    prices: str = of_prices(REPLAY, f"{', '.join(PRICES.names())}, or a file of `place calibrate`.", "KIND")
    fixed_prices: dict[str, float] | None = of_prices(
        None, "With --prices fixed: utility per unit and slot on an empty machine.", "gpu=2,cpu=.1"
    )
    fixed_ratio: float = of_prices(10.0, "With --prices fixed: a full machine costs so many times an empty one.")
    pace: str = of_policies(
        SEEN, "Wrong durations are seen after a job's first slot; or unseen, until it is done.", "NAME"
    )
    replan: Steps = of_policies(40, "Steps of re-planning in every slot.", "STEPS")
    caution: float = of_policies(
        1.0, "Plan for so many times the work jobs state; 1.25 where they often overrun.", "TIMES"
    )
    slack: Slack = of_policies(
        0.0, "Promise the latest date that is worth 1 - slack of the planned one; re-planning keeps it.", "PART"
    )
    backfill: bool = of_policies(True, "Lend idle machines to waiting jobs, without promise.")
    packing: str = of_policies(
        "greedy", "How workers are put on machines: greedy, or rounding (the paper's).", "NAME", old="placer"
    )

    _named = known_names({"pace": PACES, "packing": PACKINGS, "history_format": formats()})

    @field_validator("history", mode="before")
    @classmethod
    def _files(cls, value: object) -> object:
        return None if value is None else [str(Path(name).absolute()) for name in words(value, "past.yaml")]

    @field_validator("prices")
    @classmethod
    def _known_prices(cls, value: str) -> str:
        if Path(value).suffix in (".yaml", ".yml"):
            return str(Path(value).absolute())
        kind = price_kind(value, f"prices {value}", f"say {REPLAY}")
        if kind not in PRICES.names():
            raise unknown_name("prices", kind, PRICES.names())
        return kind

    @field_validator("fixed_prices", mode="before")
    @classmethod
    def _pairs(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        found = {}
        for pair in words(value, "gpu=2,cpu=.1"):
            name, equals, number = pair.partition("=")
            try:
                found[name.strip()] = float(number)
            except ValueError:
                equals = ""
            if not equals or not name.strip() or not math.isfinite(found[name.strip()]):
                raise InputError(f"{pair!r} is no price; expected RESOURCE=NUMBER, such as gpu=2,cpu=.1")
        return found


class PlaceSpec(PricedSpec):
    """Policies side by side: `PlaceSpec.from_yaml(path).build().compare().save(folder)`."""

    policy: list[str] = of_policies(
        RECOMMENDED,
        f"Commas between: {', '.join(placer_names())}; all (but elasticflow and sia); your own FILE.py:CLASS; "
        "pdors:recalled and other kinds of prices, pdors:plain (no re-planning, no lending), elasticflow:priced; "
        "recommended: the best on history, with a few beside it.",
        "NAMES",
    )
    calendar: WholePath = of_jobs(
        None, "What jobs may not have: reservations, maintenance, machines that end or fail.", "FILE"
    )
    recommend: bool = of_policies(False, "With --policy too: replay history, and say which is recommended.")
    fair: bool = of_policies(
        False, "Dated: a job counts the less the more of the cluster its user has had, half forgotten in a week."
    )
    baseline: str | None = of_policies(None, "Gains are told against this policy. (default: FIFO)", "NAME")
    bound: bool = of_policies(True, "The upper bound that no schedule can pass (an LP).")

    @field_validator("policy", mode="before")
    @classmethod
    def _names(cls, value: object) -> list[str]:
        found: list[str] = []
        for name in words(value, "pdors,drf"):
            if name.lower() == EVERY:
                found += placer_names(every=False)
            elif name.lower() == RECOMMENDED:
                found.append(RECOMMENDED)
            else:
                found.append(policy_named(name))
        return list(dict.fromkeys(found))

    def build(self) -> PlaceScene:
        """Read all files, and make the cluster, the jobs, their history and the placers."""
        from equipoise.place.scene import build

        return build(self)


class WhatIfSpec(PlaceSpec):
    """One policy as it is (the first of `policy`), and what would be other."""

    add: int | None = of_change(None, "So many machines more, or fewer: --add=-1. (default: 1)", "COUNT")
    machine: str | None = of_change(None, "Of this name or type.", "NAME")
    instead: Annotated[str | None, AfterValidator(lambda name: name and policy_named(name))] = of_change(
        None, "Another policy instead of --policy.", "NAME"
    )


class SweepSpec(PlaceSpec):
    """The same comparison with so many seeds."""

    policy: list[str] = of_policies(EVERY, "As for `place`; the same for every seed.", "NAMES")
    seeds: Seeds = of_time(8, "So many draws, from --seed on.", "COUNT")

    def scenes(self) -> list[PlaceScene]:
        """A scene for each seed."""
        if RECOMMENDED in self.policy:
            raise InputError("--policy recommended may be another for each seed; name policies to sweep")
        return [self.model_copy(update={"seed": self.seed + k}).build() for k in range(self.seeds)]


class BoundSpec(SceneSpec):
    """The bound alone."""

    exact: bool = of_bound(False, "The optimum itself, for a handful of jobs.")
    coarsen: int | None = of_bound(
        None, "Merge so many slots into one: looser, faster. (default: as few as fit)", "SLOTS"
    )
    time_limit: float | None = of_bound(None, "Stop after so many seconds; then it may not repeat.", "SECONDS")


def policy_named(name: str) -> str:
    """`pdors`, `pdors:recalled` in small letters, `my.py:Mine` with its whole path; or an error that names the nearest."""
    if ".py" in name:
        return whole_reference(name)
    plain, colon, kind = name.lower().partition(":")
    plain, known = plain.removesuffix("-style"), placer_names()
    if plain not in known:
        raise unknown_name("policy", name.lower(), [*known, EVERY])
    own = cast("Sequence[str]", PLACERS.find(plain).facts.get("kinds", ()))
    kinds = (*PRICES.names(), PLAIN) if plain == "pdors" else own
    if plain == "pdors" and colon:
        kind = price_kind(kind, f"pdors:{kind}", f"say pdors:{REPLAY}")
    if colon and not kinds:
        raise InputError(f"{name!r}: {plain} comes in no kinds, as pdors does: pdors:recalled")
    if colon and kind not in kinds:
        raise unknown_name(f"kind of {plain}", kind, kinds)
    return plain + colon + kind


def price_kind(kind: str, said: str, way_out: str) -> str:
    """A kind of prices by its name of today: `best` of 0.1.0, the better of replay and bid, is replay, with a note; bid is
    refused. Both lines begin with what was `said`, and end with the way out."""
    if kind == "best":
        warnings.warn(
            f"{said} is read as {REPLAY}, which it chose in all four regimes measured; {way_out}", stacklevel=2
        )
        return REPLAY
    if kind == "bid":
        why = f"went in 0.2: {REPLAY} was chosen over it in all four regimes measured"
        raise InputError(f"{said} {why}; {way_out}", code="prices.removed")
    return kind


def words(value: object, example: str) -> list[str]:
    """Text with commas between, or a list; at least one word."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise InputError(f"{value!r}; expected names with commas between, such as {example}")
    found = [part.strip() for part in parts if part.strip()]
    if not found:
        raise InputError(f"{value!r} is empty; expected names with commas between, such as {example}")
    return found
