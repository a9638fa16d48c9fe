"""From settings to policies: ours with prices from history, the user's own from her file, and prices as a file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.cli.place_config import PLACERS, PLAIN, PRICE_KINDS, PRICES, PlaceConfig, Priced, settings_of
from equipoise.cli.place_scene import Ready
from equipoise.cli.policy_file import load_policy
from equipoise.errors import InputError, unknown_name
from equipoise.place import placers, prices
from equipoise.place.cluster import Cluster
from equipoise.place.prices._posted import Prices, Trial
from equipoise.place.prices.bid import Scaled
from equipoise.place.read import jobs as read_jobs
from equipoise.place.read import write_jobs
from equipoise.place.simulate import Placer
from equipoise.registry import Choice, is_reference

OWN_COLOURS = ("#9333ea", "#be185d", "#0f766e", "#a16207")


def kinds(config: PlaceConfig) -> list[str]:
    """The kinds of prices that its policies use, in order: pdors:bid is bid, oasis recalled."""
    found = []
    for name in config.policy:
        plain, _, kind = name.partition(":")
        if not is_reference(name) and "prices" in settings_of(PLACERS.find(plain)):
            found.append(kind_of(config, PLACERS.find(plain), kind))
    return found


def kind_of(config: Priced, choice: Choice, kind: str) -> str:
    """The prices a policy posts: its own, those asked for with its name, or those of the settings."""
    return str(choice.facts.get("kind") or (kind if kind in PRICES else config.prices))


def needs_history(config: PlaceConfig) -> bool:
    """Whether any of its policies has prices that come from past jobs."""
    return any(kind in PRICES and _from_history(kind) for kind in kinds(config))


def _from_history(kind: str) -> bool:
    return bool(PRICE_KINDS.find(kind).facts.get("needs_history", True))


def players(config: PlaceConfig, scene: Ready) -> list[Placer]:
    """The policies, in the order given."""
    found: list[Placer] = []
    for name in config.policy:
        plain, _, kind = name.partition(":")
        if is_reference(name):
            found.append(_own(name, OWN_COLOURS[len(found) % len(OWN_COLOURS)]))
        else:
            found.append(placer(config, scene, plain, kind))
    labels = [policy.label for policy in found]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise InputError(f"two policies are called {twice[0]!r}; give yours another label")
    return found


def placer(config: Priced, scene: Ready, name: str, kind: str = "") -> Placer:
    """A policy of ours as the settings say; `kind` is one of prices, or plain: no re-planning, no lending."""
    choice = PLACERS.find(name)
    takes, settings = settings_of(choice), dict[str, object]()
    if "kind" in choice.facts:
        settings["prices"] = _made(str(choice.facts["kind"]), scene)
    elif "prices" in takes:
        settings["prices"] = price(config, scene, kind_of(config, choice, kind))
    if "packing" in takes:
        settings["packing"] = config.placer
    if kind == PLAIN:
        settings["backfill"] = False
    else:
        settings |= {field: getattr(config, field) for field in ("replan", "backfill", "caution") if field in takes}
    return placers.PLACERS.make(choice.stem, **settings, **({"label": f"{choice.name} {kind}"} if kind else {}))


def price(config: Priced, scene: Ready, kind: str) -> Prices:
    """Prices of a kind from the scene's history, as given, or from a file."""
    if kind == "fixed":
        if config.fixed_prices is None:
            raise InputError("--prices fixed: no prices are given; say --fixed-prices gpu=2,cpu=.1")
        return prices.Fixed(config.fixed_prices, config.fixed_ratio)
    if config.fixed_prices is not None:
        raise InputError(f"--fixed-prices has no effect: prices are {kind}; say --prices fixed")
    return _made(kind, scene) if kind in PRICES else read_prices(Path(kind), scene.cluster)


def _made(kind: str, scene: Ready) -> Prices:
    return prices.PRICES.load(kind)(*([scene.pasts] if _from_history(kind) else []))


def baseline_of(config: PlaceConfig, labels: list[str]) -> str:
    """The label of the policy that gains are told against: as asked, FIFO, or the first."""
    if config.baseline is None:
        return "FIFO" if "FIFO" in labels else labels[0]
    asked = config.baseline.lower().replace(":", " ")
    for label in labels:
        if asked in (label.lower(), label.lower().removesuffix("-style")):
            return label
    raise InputError(f"--baseline: {unknown_name('policy', config.baseline, labels)}")


def _own(reference: str, colour: str) -> Any:
    """A user's policy; without a label it has the name of its class."""
    policy = load_policy(reference)
    path, _, name = reference.rpartition(":")
    if not callable(getattr(policy, "start", None)):
        raise InputError(f"{Path(path).name}: {name} is not a policy of place: it has no method start(run, seed)")
    for field, value in (("label", name), ("colour", colour)):
        if not isinstance(getattr(policy, field, None), str):
            try:
                object.__setattr__(policy, field, value)
            except AttributeError:
                raise InputError(f"{Path(path).name}: {name} has no {field}; give it one, as {value!r}") from None
    return policy


# Calibrated prices as a file.


def write_prices(path: Path, trial: Trial, cluster: Cluster, said: dict[str, Any]) -> None:
    """YAML that `--prices FILE` reads; `said` is what it was calibrated with."""
    import yaml

    chosen: Any = trial.prices
    if isinstance(chosen, Scaled):
        values: dict[str, Any] = {
            "kind": "bid",
            "scale": float(chosen.scale),
            "growth": float(chosen.growth),
            "resources": list(cluster.resources),
            "base": np.asarray(chosen.base, dtype=float).tolist(),
        }
    else:
        values = {"kind": "level", **{name: float(getattr(chosen, name)) for name in ("level", "ratio", "lead")}}
        if chosen.follow is not None:  # prices that follow the load start from the history's own
            past = path.with_name(f"{path.stem}-history.json")
            write_jobs(chosen.follow[1], past)
            values |= {"clearing": float(chosen.follow[0]), "history": past.name}
    try:
        path.write_text(yaml.safe_dump(values | {"calibrated": said}, sort_keys=False))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose another with --out") from None


def read_prices(path: Path, cluster: Cluster) -> Prices:
    """Prices that `place calibrate` wrote, for the cluster they were made for."""
    from equipoise.cli.options import _read_yaml

    values = _read_yaml(path)
    kind = values.get("kind")
    if kind not in ("level", "bid"):
        raise InputError(f"{path}: kind is {kind!r}; expected level or bid, as `place calibrate` writes")
    if kind == "level":
        follow = None
        if values.get("history") is not None:
            follow = _number(path, values, "clearing"), read_jobs(path.with_name(str(values["history"])), cluster)
        level, ratio, lead = (_number(path, values, name) for name in ("level", "ratio", "lead"))
        return prices.Level(level, ratio, lead, follow)
    try:
        base = np.array(values["base"], dtype=float)
    except (KeyError, TypeError, ValueError):
        base = np.empty(0)
    if base.ndim != 2 or not base.size or not np.isfinite(base).all() or (base < 0).any():
        raise InputError(f"{path}: base is no table of prices; expected a row a slot, as `place calibrate` writes")
    if values.get("resources") != list(cluster.resources) or base.shape[1] != len(cluster.resources):
        raise InputError(
            f"{path}: its prices are for {values.get('resources')}; this cluster has {list(cluster.resources)}"
        )
    return Scaled(base, _number(path, values, "scale"), _number(path, values, "growth"))


def _number(path: Path, values: dict[str, Any], name: str) -> float:
    value, least = values.get(name), 1.0 if name == "ratio" else 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
        raise InputError(f"{path}: {name} is {value!r}; expected a number of {least:g} or more")
    return float(value)
