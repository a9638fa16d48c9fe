"""Nets on the command line: how one is made and stepped, how its centres score, and what rivals make of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.cli.train_build import Job
from equipoise.cli.train_config import TrainConfig
from equipoise.errors import InputError

REG = 1e-4
WORDS = {
    "tracking": "gradient tracking (ours)",
    "decentralised": "decentralised SGD",
    "local": "local steps and a server",
    "centralised": "centralised SGD",
}


def net_model(config: TrainConfig, shards: Any, classes: int) -> Any:
    """The net of this name over these shards; one line where torch is not installed."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise InputError(f"--model {config.model} needs torch: pip install 'equipoise[torch]'") from None
    from equipoise.train.deep.nets import net
    from equipoise.train.models.torch_model import TorchModel

    made = net(config.model, int(np.shape(shards[0][0])[1]), classes)
    return TorchModel(made, shards, reg=REG if config.reg is None else config.reg, seed=config.seed)


def deep_job(job: Job, config: TrainConfig) -> Job:
    """From the net's own first parameters, at a rate that nets bear unless alpha is given."""
    from equipoise.train.deep.rivals import tracking_method

    method = job.method
    if config.alpha == "auto" and config.step == "auto" and config.cap == "auto":
        method = tracking_method(job.problem.model, job.network, _plan(job, config, "tracking"), method)
    return replace(job, method=method, start=job.problem.model.start(config.seed))


def _plan(job: Job, config: TrainConfig, way: str) -> Any:
    """As long and with as many samples as the run, at the rate that suits this way to train best."""
    from equipoise.train.deep.rivals import Plan
    from equipoise.train.deep.study import RATES

    assert config.batch is not None
    return Plan(job.rounds, config.batch, RATES[config.model][way], config.fade, config.seed)


def scores(models: Any, job: Job) -> dict[str, Any]:
    """Each centre's own net: its loss on everybody's data and its accuracy on held-out data."""
    model = job.problem.model
    losses = model.totals(np.ascontiguousarray(models)).tolist()
    found: dict[str, Any] = {"losses": {"nodes": losses, "worst": max(losses)}}
    if job.test is not None:
        right = [model.accuracy(y, *job.test) for y in models]
        found["accuracy"] = {"nodes": right, "worst": min(right)}
    return found


def rivals(ours: Any, bits: int, job: Job, config: TrainConfig, *, quiet: bool) -> list[dict[str, Any]]:
    """A row for every way to train the same net on the same batches, ours first; each at a rate tuned for it."""
    from equipoise.train.deep.rivals import WAYS

    rows = [_row("tracking", ours, bits, job)]
    for name, way in WAYS.items():
        if name == "tracking":
            continue
        if not quiet:
            print(f"training the same net by {WORDS.get(name, name)}", file=sys.stderr, flush=True)
        outcome = way(job.problem.model, job.network, _plan(job, config, name))
        rows.append(_row(name, outcome.models, outcome.bits, job))
    return rows


def _row(name: str, models: Any, bits: int, job: Job) -> dict[str, Any]:
    found = scores(models, job)
    row = {"way": name, "label": WORDS.get(name, name), "worst_loss": found["losses"]["worst"], "bits": bits}
    if "accuracy" in found:
        row["accuracy"] = float(np.mean(found["accuracy"]["nodes"]))
        row["worst_accuracy"] = found["accuracy"]["worst"]
    return row
