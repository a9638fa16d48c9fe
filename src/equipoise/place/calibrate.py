"""Placers with the prices that a spec names, and prices found by replaying history, as a file that --prices reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

import numpy as np

from equipoise import __version__
from equipoise.document import Plain, Row
from equipoise.errors import InputError
from equipoise.place.cluster import Cluster
from equipoise.place.execution import Execution
from equipoise.place.files import read_jobs, write_jobs
from equipoise.place.job import Workload
from equipoise.place.placers import PDORS
from equipoise.place.prices import Best, Fixed, Level, Prices
from equipoise.place.prices._posted import Trial
from equipoise.place.prices.bid import Scaled
from equipoise.place.simulate import Placer
from equipoise.place.spec import PLACERS, PLAIN, PRICED, PRICES, RECOMMENDED, SEEN, PlaceSpec, PricedSpec
from equipoise.registry import Choice, is_reference, make_reference
from equipoise.spec import read_yaml

OWN_COLOURS = ("#9333ea", "#be185d", "#0f766e", "#a16207")


# Placers.


def price_kinds(spec: PlaceSpec) -> list[str]:
    """The kinds of prices that its placers use, in order: pdors:bid is bid, oasis recalled."""
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
    """The placer of this name (`pdors`, `pdors:bid`, `my.py:Mine`) as the spec says.

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
    """Every candidate that was replayed on history, and the best of them."""

    cluster: Cluster
    trials: list[Row]  # as in `PlaceComparison.calibration`
    chosen: Trial
    said: dict[str, Plain]  # what it was calibrated with
    notes: tuple[str, ...] = ()

    def write(self, path: Path) -> None:
        """A YAML file that `--prices FILE` reads."""
        write_prices(path, self.chosen, self.cluster, self.said)


def calibrate(spec: PricedSpec, *, replayed: Callable[[int], None] | None = None) -> Calibration:
    """Replay every candidate on history.

    Parameters
    ----------
    spec
        Its `history` are the past jobs (the built-in example's without); its `prices` the kind: best, replay or bid.
    replayed
        Called with the number of each replay as it starts; how many there will be is not known before.
    """
    from equipoise.place.scene import history_scene

    if not (needs_history(spec.prices) and hasattr(PRICES.load(spec.prices), "trials")):
        kinds = [name for name in PRICES.names() if hasattr(PRICES.load(name), "trials")]
        raise InputError(f"--prices {spec.prices}: nothing to calibrate; expected one of {', '.join(kinds)}")
    scene = history_scene(spec)
    placer = cast(PDORS, placer_of(spec, scene.history, scene.cluster, "pdors", 0))
    window: dict[str, int | None] = {"slots": scene.slots, "horizon": scene.horizon}
    rows = trial_rows(scene.cluster, scene.jobs, placer, **window, pace=spec.pace, replayed=replayed)
    run = Execution(scene.cluster, scene.jobs, scene.slots, scene.horizon, pace=spec.pace)
    chosen = cast(Best, placer.prices).trials(run, placer)[next(k for k, row in enumerate(rows) if row["chosen"])]
    said: dict[str, Plain] = {
        "history": [past.source for past in scene.history],
        "jobs": sum(map(len, scene.history)),
        "slot": float(scene.jobs.slot),
        **window,
        "backfill": spec.backfill,
        "utility": float(chosen.utility),
        "version": __version__,
    }
    return Calibration(scene.cluster, rows, chosen, said, scene.notes)


def trial_rows(
    cluster: Cluster,
    jobs: Workload,
    policy: Any,
    *,
    slots: int | None = None,
    horizon: int | None = None,
    pace: str = SEEN,
    replayed: Callable[[int], None] | None = None,
) -> list[Row]:
    """Every price a policy tried on history, in the order tried. A bid price's level multiplies its LP's duals.

    `replayed` is told the number of each replay as it starts; how many there will be is not known before.
    """
    run = Execution(cluster, jobs, slots, horizon, pace=pace)
    found = policy.prices.trials(run, policy if replayed is None else _counted(policy, replayed))
    best = max(range(len(found)), key=lambda k: found[k].utility) if found else -1
    rows = []
    for k, trial in enumerate(found):
        prices = trial.prices
        scaled = hasattr(prices, "scale")
        rows.append(
            {
                "policy": policy.label,
                "kind": "bid" if scaled else "replay",
                "level": float(prices.scale if scaled else prices.level),
                "ratio": math.exp(prices.growth) if scaled else float(prices.ratio),
                "lead": 0.0 if scaled else float(prices.lead),
                "utility": float(trial.utility),
                "completed": int(trial.completed),
                "chosen": k == best,
            }
        )
    return rows


def _counted(policy: Any, replayed: Callable[[int], None]) -> Any:
    """The same policy, which says so whenever it starts anew."""
    count = 0

    class Counted(type(policy)):  # type: ignore[misc]
        def start(self, run: Execution, seed: int) -> Any:
            nonlocal count
            count += 1
            replayed(count)
            return super().start(run, seed)

    return Counted(**{given.name: getattr(policy, given.name) for given in fields(policy)})


def write_prices(path: Path, trial: Trial, cluster: Cluster, said: Mapping[str, Plain]) -> None:
    """YAML that `--prices FILE` reads; `said` is what it was calibrated with."""
    import yaml

    chosen = trial.prices
    if isinstance(chosen, Scaled):
        values: dict[str, Plain] = {
            "kind": "bid",
            "scale": float(chosen.scale),
            "growth": float(chosen.growth),
            "resources": list(cluster.resources),
            "base": np.asarray(chosen.base, dtype=float).tolist(),
        }
    else:
        assert isinstance(chosen, Level)
        values = {"kind": "level", **{name: float(getattr(chosen, name)) for name in ("level", "ratio", "lead")}}
        if chosen.follow is not None:  # prices that follow the load start from the history's own
            past = path.with_name(f"{path.stem}-history.json")
            write_jobs(chosen.follow[1], past)
            values |= {"clearing": float(chosen.follow[0]), "history": past.name}
    try:
        path.write_text(yaml.safe_dump(values | {"calibrated": dict(said)}, sort_keys=False))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose another with --out") from None


def read_prices(path: Path, cluster: Cluster) -> Prices:
    """Prices that `place calibrate` wrote, for the cluster they were made for."""
    values = read_yaml(path)
    kind = values.get("kind")
    if kind not in ("level", "bid"):
        raise InputError(f"{path}: kind is {kind!r}; expected level or bid, as `place calibrate` writes")
    if kind == "level":
        follow = None
        if values.get("history") is not None:
            follow = _number(path, values, "clearing"), read_jobs(path.with_name(str(values["history"])), cluster)
        level, ratio, lead = (_number(path, values, name) for name in ("level", "ratio", "lead"))
        return Level(level, ratio, lead, follow)
    try:
        base = np.array(values["base"], dtype=float)
    except (KeyError, TypeError, ValueError):
        base = np.empty(0)
    if base.ndim != 2 or not base.size or not np.isfinite(base).all() or (base < 0).any():
        raise InputError(f"{path}: base is no table of prices; expected a row per slot, as `place calibrate` writes")
    if values.get("resources") != list(cluster.resources) or base.shape[1] != len(cluster.resources):
        raise InputError(
            f"{path}: its prices are for {values.get('resources')}; this cluster has {list(cluster.resources)}"
        )
    return Scaled(base, _number(path, values, "scale"), _number(path, values, "growth"))


def _number(path: Path, values: Mapping[str, object], name: str) -> float:
    value, least = values.get(name), 1.0 if name == "ratio" else 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
        raise InputError(f"{path}: {name} is {value!r}; expected a number of {least:g} or more")
    return float(value)
