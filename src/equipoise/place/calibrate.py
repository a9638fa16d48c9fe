"""Placers with the prices that a spec names, and prices found by replaying history, as a file that --prices reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from equipoise import __version__
from equipoise.document import Plain, Row
from equipoise.errors import InputError
from equipoise.place.cluster import Cluster
from equipoise.place.execution import Execution
from equipoise.place.files import read_jobs, write_jobs
from equipoise.place.job import Workload
from equipoise.place.placers import PDORS
from equipoise.place.prices import Fixed, Level, Prices, Replay
from equipoise.place.prices.replay import NUMBERS, gentlest, trial_rows
from equipoise.place.simulate import Placer
from equipoise.place.spec import PLACERS, PLAIN, PRICED, PRICES, RECOMMENDED, REPLAY, PlaceSpec, PricedSpec, price_kind
from equipoise.registry import Choice, is_reference, make_reference
from equipoise.spec import read_yaml

OWN_COLOURS = ("#9333ea", "#be185d", "#0f766e", "#a16207")


# Placers.


def price_kinds(spec: PlaceSpec) -> list[str]:
    """The kinds of prices that its placers use, in order: pdors:replay is replay, oasis recalled."""
    named = [name.partition(":") for name in spec.policy if name != RECOMMENDED and not is_reference(name)]
    return [found for plain, _, kind in named if (found := _kind(spec, PLACERS.find(plain), kind))]


def needs_history(kind: str) -> bool:
    """Whether prices of this kind come from past jobs, and cannot do without."""
    return kind == PRICED or (kind in PRICES.names() and bool(PRICES.find(kind).facts.get("needs_history", True)))


def learns(spec: PlaceSpec) -> bool:
    """Whether one of its placers learns from history where there is any."""
    plain = [name.partition(":")[0] for name in spec.policy if name != RECOMMENDED and not is_reference(name)]
    return any("history" in _settings(PLACERS.find(name)) for name in plain)


def _kind(spec: PricedSpec, choice: Choice, asked: str) -> str:
    """The kind of prices of a placer: its own (`kind`), as asked, or as the spec says; "" for one without."""
    if "prices" not in _settings(choice):
        return asked
    return str(choice.facts.get("kind") or (asked if asked in PRICES.names() else spec.prices))


def _settings(choice: Choice) -> tuple[str, ...]:
    return cast("tuple[str, ...]", choice.facts.get("settings", ()))


def placer_of(spec: PricedSpec, history: Sequence[Workload], cluster: Cluster, name: str, number: int) -> Placer:
    """The placer of this name (`pdors`, `pdors:recalled`, `my.py:Mine`) as the spec says.

    A placer gets the fields of the spec that its class names in `settings`; as `history` the past jobs, None if there are
    none.
    """
    if is_reference(name):
        return _own(name, OWN_COLOURS[number % len(OWN_COLOURS)])
    plain, _, kind = name.partition(":")
    choice = PLACERS.find(plain)
    given = {setting: getattr(spec, setting) for setting in _settings(choice)}
    if kind == PRICED or "history" in given:
        given["history"] = tuple(history) or None
    elif prices := _kind(spec, choice, kind):
        given["prices"] = price(spec, history, cluster, prices, only="kind" in choice.facts)
    if kind:
        given["label"] = f"{choice.name} {kind}"
    if kind == PLAIN:
        given |= {"replan": 0, "backfill": False, "caution": 1.0}
    return PLACERS.make(plain, **given)


def _own(reference: str, colour: str) -> Placer:
    """A user's placer; without a label it has the name of its class."""
    placer = make_reference(reference)
    path, _, name = reference.rpartition(":")
    if not callable(getattr(placer, "start", None)):
        raise InputError(f"{Path(path).name}: {name} is not a policy of place: it has no method start(run, seed)")
    for field, value in (("label", name), ("colour", colour)):
        if not isinstance(getattr(placer, field, None), str):
            try:
                object.__setattr__(placer, field, value)
            except AttributeError:
                raise InputError(f"{Path(path).name}: {name} has no {field}; give it one, as {value!r}") from None
    return cast(Placer, placer)


def price(spec: PricedSpec, history: Sequence[Workload], cluster: Cluster, kind: str, *, only: bool = False) -> Prices:
    """Prices of a kind: from history, as given, or from a file. `only`: of a placer that knows no other."""
    if kind == "fixed":
        if spec.fixed_prices is None:
            raise InputError("--prices fixed: no prices are given; say --fixed-prices gpu=2,cpu=.1")
        return Fixed(spec.fixed_prices, spec.fixed_ratio)
    if spec.fixed_prices is not None and not only:
        raise InputError(f"--fixed-prices has no effect: prices are {kind}; say --prices fixed")
    if kind not in PRICES.names():
        return read_prices(Path(kind), cluster)
    given = {"history": tuple(history)} if needs_history(kind) else {}
    return PRICES.make(kind, **given)


# Prices from history.


@dataclass(frozen=True)
class Calibration:
    """Every candidate that was replayed on history, and the prices chosen."""

    trials: list[Row]  # as in `PlaceComparison.calibration`
    chosen: Level
    said: dict[str, Plain]  # what it was calibrated with
    notes: tuple[str, ...] = ()

    def write(self, path: Path) -> None:
        """A YAML file that `--prices FILE` reads, and beside it the history whose load the prices start from."""
        import yaml

        chosen = self.chosen
        values: dict[str, Plain] = {"kind": chosen.name} | {name: float(getattr(chosen, name)) for name in NUMBERS}
        if chosen.follow is not None:
            past = path.with_name(f"{path.stem}-history.json")
            write_jobs(chosen.follow[1], past)
            values |= {"clearing": float(chosen.follow[0]), "history": past.name}
        try:
            path.write_text(yaml.safe_dump(values | {"calibrated": self.said}, sort_keys=False))
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}; choose another with --out") from None


def calibrate(spec: PricedSpec, *, begun: Callable[[int], None] = lambda number: None) -> Calibration:
    """Replay every candidate on history.

    Parameters
    ----------
    spec
        Its `history` are the past jobs (the built-in example's without).
    begun
        Called with the number of each candidate as its replay begins; how many there will be is not known before.
    """
    from equipoise.place.scene import history_scene

    if spec.prices != REPLAY:
        raise InputError(f"--prices {spec.prices}: nothing to calibrate; leave it out, for only {REPLAY} is")
    scene = history_scene(spec)
    placer = cast(PDORS, placer_of(spec, scene.history, scene.cluster, "pdors", 0))
    run = Execution(scene.cluster, scene.jobs, scene.slots, scene.horizon, pace=spec.pace)
    table = cast(Replay, placer.prices).trials(run, placer, begun)
    chosen = gentlest(table)
    said: dict[str, Plain] = {
        "history": [past.source for past in scene.history],
        "jobs": sum(map(len, scene.history)),
        "slot": float(scene.jobs.slot),
        "slots": scene.slots,
        "horizon": scene.horizon,
        "backfill": spec.backfill,
        "utility": float(chosen.utility),
        "version": __version__,
    }
    return Calibration(trial_rows(placer.label, table), chosen.prices, said, scene.notes)


def read_prices(path: Path, cluster: Cluster) -> Level:
    """Prices that `place calibrate` wrote."""
    values = read_yaml(path)
    kind = str(values.get("kind"))
    if price_kind(kind, f"{path}: kind {kind}", "make it again with `equipoise place calibrate`") != Level.name:
        raise InputError(f"{path}: kind is {kind}; expected {Level.name}, as `place calibrate` writes")
    follow = None
    if values.get("history") is not None:
        follow = _number(path, values, "clearing"), read_jobs(path.with_name(str(values["history"])), cluster)
    return Level(**{name: _number(path, values, name) for name in NUMBERS}, follow=follow)


def _number(path: Path, values: Mapping[str, object], name: str) -> float:
    value, least = values.get(name), 1.0 if name == "ratio" else 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
        raise InputError(f"{path}: {name} is {value!r}; expected a number of {least:g} or more")
    return float(value)
