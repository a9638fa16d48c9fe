"""From settings to policies: ours with prices from history, the user's own from her file, and prices as a file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.cli.place_config import PLAIN, PRICES, PlaceConfig, Priced
from equipoise.cli.place_scene import Ready
from equipoise.cli.policy_file import load_policy
from equipoise.errors import InputError, unknown_name
from equipoise.place import placers, prices
from equipoise.place.cluster import Cluster
from equipoise.place.prices._posted import Prices, Trial
from equipoise.place.prices.bid import Scaled
from equipoise.place.read import jobs as read_jobs
from equipoise.place.read import write_jobs

FREE = ("fixed",)  # kinds of prices that need no history
OWN_COLOURS = ("#9333ea", "#be185d", "#0f766e", "#a16207")


def kinds(config: PlaceConfig) -> list[str]:
    """The kinds of prices that its policies use, in order: pdors:bid is bid, oasis recalled."""
    found = []
    for name in config.policy:
        plain, _, kind = name.partition(":")
        if plain == "pdors":
            found.append(kind if kind in PRICES else config.prices)
        elif plain == "oasis":
            found.append("recalled")
    return found


def needs_history(config: PlaceConfig) -> bool:
    """Whether any of its policies has prices that come from past jobs."""
    return any(kind in PRICES and kind not in FREE for kind in kinds(config))


def players(config: PlaceConfig, scene: Ready) -> list[Any]:
    """The policies, in the order given."""
    found: list[Any] = []
    for name in config.policy:
        plain, _, kind = name.partition(":")
        if ".py" in name:
            found.append(_own(name, OWN_COLOURS[len(found) % len(OWN_COLOURS)]))
        elif plain == "pdors":
            found.append(pdors(config, scene, kind))
        elif plain == "oasis":
            found.append(placers.OASiS(prices=prices.Recalled(scene.pasts), packing=config.placer))
        else:
            found.append(placers.named(plain))
    labels = [policy.label for policy in found]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise InputError(f"two policies are called {twice[0]!r}; give yours another label")
    return found


def pdors(config: Priced, scene: Ready, kind: str = "") -> Any:
    """PDORS as the settings say; `kind` is one of prices, or plain: no re-planning, no lending."""
    asked = kind if kind in PRICES else config.prices
    label = f"PDORS {kind}" if kind else "PDORS"
    if kind == PLAIN:
        return placers.PDORS(price(config, scene, asked), config.placer, backfill=False, label=label)
    return placers.PDORS(
        price(config, scene, asked), config.placer, config.replan, config.backfill, label, caution=config.caution
    )


def price(config: Priced, scene: Ready, kind: str) -> Prices:
    """Prices of a kind from the scene's history, as given, or from a file."""
    if kind == "fixed":
        if config.fixed_prices is None:
            raise InputError("--prices fixed: no prices are given; say --fixed-prices gpu=2,cpu=.1")
        return prices.Fixed(config.fixed_prices, config.fixed_ratio)
    if config.fixed_prices is not None:
        raise InputError(f"--fixed-prices has no effect: prices are {kind}; say --prices fixed")
    if kind not in PRICES:
        return read_prices(Path(kind), scene.cluster)
    made: dict[str, Any] = {
        "best": prices.Best,
        "replay": prices.Replay,
        "bid": prices.Bid,
        "recalled": prices.Recalled,
    }
    found: Prices = made[kind](scene.pasts)
    return found


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
