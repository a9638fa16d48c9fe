"""From a spec to the rows that each centre trains on, and those that nobody does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import hstack

from equipoise import data
from equipoise.data.own_files import OwnFiles
from equipoise.data.schema import Features
from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.exchange.delivery import InMemoryDelivery, tree
from equipoise.train.own_data import OwnData
from equipoise.train.scores import HeldOut
from equipoise.train.spec import MODELS, TrainSpec

if TYPE_CHECKING:
    from equipoise.train.network import Network

Shards = Sequence[tuple[Features, AnyArray]]


@dataclass(frozen=True, eq=False)
class Rows:
    """Shards and held-out rows in the labels of `model`, a name; `classes` is 0 for regression."""

    model: str
    shards: Shards
    held_out: HeldOut | None
    classes: int
    own: OwnData | None = None

    @property
    def class_weights(self) -> Floats | None:
        """Of each class, so that all weigh the same in sum and a sample weighs 1 on average."""
        if not self.classes:
            return None
        counts = np.unique(np.concatenate([y for _, y in self.shards]), return_counts=True)[1]
        if len(counts) < self.classes:
            raise InputError(
                "--class-weight balanced needs samples of every class to train on", code="class_weight.none"
            )
        return np.asarray(counts.sum() / (len(counts) * counts))


def own_files(spec: TrainSpec) -> OwnFiles | None:
    """The user's files, read; None for other data."""
    if spec.data != "csv" or spec.model == "none":
        return None
    files = spec.files or ([spec.data_file] if spec.data_file else [])
    if not files:
        raise InputError(
            "--data csv reads your own files; name them: equipoise train a.csv b.csv", code="dataset.place"
        )
    return OwnFiles.read(
        files,
        label=spec.label,
        drop=spec.drop,
        text=spec.text,
        task="regression" if spec.model == "least_squares" else "auto",
        min_count=spec.min_count,
        numbers_only=spec.numbers_only,
        held_out=spec.held_out,
        samples=spec.samples,
        seed=spec.seed,
    )


def rows_of(spec: TrainSpec, network: Network, own: OwnFiles | None) -> Rows | None:
    """What each node of the network trains on; of own files, once their centres have agreed what columns mean."""
    if spec.data == "none" or spec.model == "none":
        return None
    if own is not None:
        return _of_files(spec, network, own)
    given = {"folder": spec.data_dir, "path": spec.data_file, "label": spec.label}
    dataset = data.load(spec.data, seed=spec.seed, **{k: v for k, v in given.items() if v is not None})
    if spec.samples is not None:
        dataset = dataset.limited(spec.samples, spec.seed)
    name = _model_for(spec, dataset.classes)
    answers, test_answers = (_labelled(name, y) for y in (dataset.y, dataset.y_test))
    X, X_test = (_as_taken(name, X) for X in (dataset.X, dataset.X_test))
    shards = data.split(X, answers, network.n, spec.split, concentration=spec.concentration, seed=spec.seed)
    return Rows(name, shards, _held_out(X_test, test_answers, shards, dataset.classes), dataset.classes)


def _of_files(spec: TrainSpec, network: Network, own: OwnFiles) -> Rows:
    if own.centres == 1 and network.n > 1:
        own = own.dealt_to(network.n, spec.split, spec.concentration, spec.seed)
    if own.centres != network.n:
        raise InputError(
            f"{own.centres} files are {own.centres} centres, but the network has {network.n} nodes; give one file per node",
            code="problem.nodes",
        )
    delivery = InMemoryDelivery()
    agreed = own.agreed(tree(network), delivery)
    classes = len(agreed.schema.classes)
    name = _model_for(spec, classes)
    told = OwnData.of(agreed, delivery.bits)
    ones = MODELS.find(name).facts["task"] == "numbers"  # already there, they need no copy of all features
    taken, (X, y) = agreed.taken(ones=ones)
    shards = [(X if ones else _as_taken(name, X), _labelled(name, y)) for X, y in taken]
    held_out = _held_out(X if ones else _as_taken(name, X), _labelled(name, y), shards, classes)
    return Rows(name, shards, held_out, classes, told)


def _held_out(X: Features, truth: AnyArray, shards: Shards, classes: int) -> HeldOut | None:
    return HeldOut.of(X, truth, [y for _, y in shards], classes) if len(truth) else None


def _model_for(spec: TrainSpec, classes: int) -> str:
    """The name of the model, which must take such answers."""
    name = spec.model
    if name == "auto":
        name = "softmax" if classes else "least_squares"
    task = MODELS.find(name).facts["task"]
    if task == "two classes" and classes != 2:
        raise InputError(f"{name} needs two classes; {spec.data} has {classes or 'a number to predict'}: use softmax")
    if task == "numbers" and classes:
        raise InputError(f"{name} needs a number to predict; {spec.data} has classes: use softmax")
    if task == "classes" and not classes:
        raise InputError(
            f"{name} needs classes; {spec.data} has a number to predict: use least_squares{_as_classes(spec)}"
        )
    return name


def _as_classes(spec: TrainSpec) -> str:
    """How many different numbers can still be classes, in own files."""
    return f", or --text {spec.label or 'LABEL'} if its numbers are names" if spec.data == "csv" else ""


def _labelled(name: str, answers: Any) -> AnyArray:
    """Answers as the model of this name wants them."""
    task = MODELS.find(name).facts["task"]
    if task == "numbers":
        return np.asarray(answers, dtype=np.float64)
    return np.asarray(2 * answers - 1) if task == "two classes" else np.asarray(answers)


def _as_taken(name: str, X: Features) -> Features:
    """Features as the model of this name wants them: a number to predict needs a last column of ones, the intercept, and a
    net arrays."""
    facts = MODELS.find(name).facts
    if facts.get("deep") and not isinstance(X, np.ndarray):
        return X.toarray()
    if facts["task"] != "numbers":
        return X
    ones = np.ones((X.shape[0], 1))
    return np.hstack([X, ones]) if isinstance(X, np.ndarray) else hstack([X, ones], format="csr")
