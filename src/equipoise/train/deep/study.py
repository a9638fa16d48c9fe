"""One net, one network, several ways to train it with the same samples: how good is the worst centre's model?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.book import worst_loss
from equipoise.train.deep.rivals import RISE, WAYS, Outcome, Plan, way
from equipoise.train.models.torch_model import TorchModel
from equipoise.train.network import Network

GRID = (0.0125, 0.05, 0.2, 0.4, 0.8, 1.2, 1.6)  # rates to tune over
# The most accurate rates tried on seed 100, `python benchmarks/train/deep.py [--model cnn] --tune WAY --rates R --seeds 100`
# (MNIST by label, 20 centres, 4 passes, batches of 8, Network.erdos_renyi(20, 0.3, seed=0), rates that rise and fall; mlp
# of 32 ReLUs). mlp: tracking 1.2 alone (0.8 with 64 ReLUs); centralised 0.8, 1.2, 1.6; local 0.4, 1.2; decentralised 0.05,
# 0.2, so its best may lie above. cnn: tracking and centralised 0.4, 0.8, as may theirs; the others' are not tuned.
RATES: dict[str, dict[str, float]] = {
    "mlp": {"tracking": 1.2, "decentralised": 0.2, "local": 0.4, "centralised": 1.2},
    "cnn": {"tracking": 0.8, "decentralised": 0.2, "local": 0.4, "centralised": 0.8},
}


@dataclass(frozen=True)
class Row:
    """How one way of training ended."""

    way: str
    rate: float
    seed: int
    worst: float  # test accuracy of the worst centre's model
    mean: float  # over the centres
    loss: float  # the worst centre's, on all training data
    megabytes: float  # sent over all links
    seconds: float
    certified: bool | None  # of ours; rivals have no certificate


def rounds_of(model: TorchModel, passes: float, batch: int) -> int:
    """Rounds in which `passes` times as many samples are drawn as there are."""
    if not (passes > 0 and batch >= 1):
        raise InputError(f"passes and batch must be positive; given {passes} and {batch}", code="batch.range")
    return max(1, round(passes * model.samples / (model.nodes * batch)))


def compare_deep(
    model: TorchModel,
    network: Network,
    X_test: Floats,
    y_test: AnyArray,
    *,
    rates: Mapping[str, float],
    passes: float = 4.0,
    batch: int = 8,
    seed: int = 0,
    rise: float | None = RISE,
    ways: Sequence[str] = tuple(WAYS),
) -> list[Row]:
    """Every way from the same start, on the same batches, over the same network, for as many passes over the data."""
    rounds, rows = rounds_of(model, passes, batch), []
    for name in ways:
        if name not in rates:
            raise InputError(f"no rate for {name!r}: rates has {', '.join(rates)}", code="study.rate")
        outcome = way(name)(model, network, Plan(rounds, batch, rates[name], seed=seed, rise=rise))
        rows.append(_row(name, rates[name], seed, model, outcome, X_test, y_test))
    return rows


def tune_rate(
    name: str,
    model: TorchModel,
    network: Network,
    X_test: Floats,
    y_test: AnyArray,
    *,
    passes: float = 4.0,
    batch: int = 8,
    seed: int = 100,
    rise: float | None = RISE,
    grid: Sequence[float] = GRID,
) -> list[Row]:
    """One way at every rate of a grid; the best is that with the most accurate centres on average."""
    rounds = rounds_of(model, passes, batch)
    plans = [Plan(rounds, batch, rate, seed=seed, rise=rise) for rate in grid]
    return [_row(name, p.rate, seed, model, way(name)(model, network, p), X_test, y_test) for p in plans]


def _row(
    name: str, rate: float, seed: int, model: TorchModel, outcome: Outcome, X_test: Floats, y_test: AnyArray
) -> Row:
    Y = outcome.models
    if np.isfinite(Y).all():
        alike = not np.ptp(Y, axis=0).any()  # one model for all: scored once
        scores = [float(model.accuracy(y, X_test, y_test) or 0.0) for y in (Y[:1] if alike else Y)]
        recorded = None if outcome.run is None else outcome.run.history["loss"]
        loss = worst_loss(model, Y[:1] if alike else Y) if recorded is None else float(recorded[-1])
    else:
        scores, loss = [0.0], math.inf
    return Row(
        way=name,
        rate=rate,
        seed=seed,
        worst=min(scores),
        mean=float(np.mean(scores)),
        loss=loss,
        megabytes=outcome.bits / 8e6,
        seconds=outcome.seconds,
        certified=None if outcome.run is None else outcome.run.certificate().passed,
    )
