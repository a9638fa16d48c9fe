"""What trained parameters answer: of a run in memory, or of a run folder, which needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.data.schema import ClassName, Features, Schema
from equipoise.data.table import Table, read_tables
from equipoise.document import Document
from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.own_data import SCHEMA

if TYPE_CHECKING:
    from equipoise.train.models import Model

SOFTMAX, SVM, LEAST, MLP = "Softmax", "SmoothSVM", "LeastSquares", "mlp"
KINDS = (SOFTMAX, SVM, LEAST, MLP)


def kind_of(model: Model) -> str:
    """What its parameters are: one of KINDS, or another that only the model itself can use."""
    own = getattr(model, "wrapped", model)  # a user's own model comes wrapped
    return getattr(own, "kind", "") or type(own).__name__


def decisions(kind: str, y: Floats, X: Features, classes: int) -> Floats:
    """Scores [samples, classes] of Softmax and of a net, margins of an SVM or numbers [samples].

    X may lack the last column of ones that LeastSquares is trained with.
    """
    if kind == MLP:
        (W, b), (V, c) = layers(y, X.shape[1], classes)
        return np.asarray(np.maximum(X @ W + b, 0.0) @ V + c)
    if kind == SVM:
        return np.asarray(X @ y[:-1] - y[-1])
    if kind == LEAST:
        return np.asarray(X @ y if X.shape[1] == len(y) else X @ y[:-1] + y[-1])
    W = y.reshape(X.shape[1] + 1, -1)
    return np.asarray(X @ W[:-1] + W[-1])


def scores_of(model: Model, y: Floats, X: Features) -> Floats | None:
    """The same of a model with its data, nets included; None of a model that cannot tell."""
    kind = kind_of(model)
    if kind in KINDS:
        return decisions(kind, y, X, model.classes)
    scores = getattr(getattr(model, "wrapped", model), "scores", None)
    return None if scores is None else np.asarray(scores(y, X))


def layers(y: Floats, features: int, classes: int) -> list[tuple[Floats, Floats]]:
    """Weights [inputs, outputs] and biases of both layers of a net with one hidden layer, as torch lays them out."""
    hidden = (len(y) - classes) // (features + 1 + classes)
    found, first = [], 0
    for inputs, outputs in ((features, hidden), (hidden, classes)):
        W = y[first : first + inputs * outputs].reshape(outputs, inputs).T
        first += inputs * outputs
        found.append((W, y[first : first + outputs]))
        first += outputs
    return found


def probabilities(scores: Floats) -> Floats:
    """From scores [samples, classes]."""
    found = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Trained:
    """A model as it was trained: its kind, its parameters, its ridge, on how many samples, how many classes it knows
    (0 for regression), and, of own files, the schema."""

    kind: str
    parameters: Floats
    reg: float
    samples: int
    classes: int
    schema: Schema | None

    @classmethod
    def load(cls, run: Document, centre: int | None = None) -> Trained:
        """From a run folder: the model of one centre, or the average over those that are there at the end."""
        if run.verb != "train" or "models" not in run.arrays:
            what = f"a result of {run.verb or 'no verb'}" if run.verb != "train" else "a run that trained no model"
            raise InputError(f"{what} cannot predict; name a folder of equipoise train", code="predict.run")
        model = run.result.get("model", {})
        if model.get("kind") not in KINDS:
            what = (
                f"its model is {model.get('words', 'not known')}" if "kind" in model else "an earlier version wrote it"
            )
            again = (
                "repeat the run with --config"
                if "kind" not in model
                else "train softmax, smooth_svm, least_squares or mlp"
            )
            raise InputError(f"this run cannot predict: {what}; {again}", code="predict.model")
        there = run.result.get("present")
        y = parameters_of(run.arrays["models"].astype(float), there, centre)
        schema = run.files.get(SCHEMA)
        numbers = model["reg"], model["samples"], model["classes"]
        return cls(model["kind"], y, *numbers, None if schema is None else Schema.from_text(schema))

    def predict(self, path: Any) -> Predictions:
        """Answers for every row of a file; the columns may stand in any order, and others are of no account."""
        schema = self.schema
        if schema is None:
            raise InputError(
                "this run was not on own files, so nobody knows what columns mean; to_sklearn() gives its model",
                code="predict.schema",
            )
        table = read_tables([path], kinds=schema.kinds)[0]
        with np.errstate(all="ignore"):
            scores = decisions(self.kind, self.parameters, schema.encode(table), self.classes)
        self._check_finite(scores, table)
        if not schema.classes:
            return Predictions(table, schema, scores, scores)
        if self.kind == SVM:
            return Predictions(table, schema, np.array(schema.classes)[(scores > 0).astype(int)], scores)
        return Predictions(table, schema, np.array(schema.classes)[scores.argmax(axis=1)], probabilities(scores))

    def _check_finite(self, scores: Floats, table: Table) -> None:
        """Refuse rows that no label can be told of, such as 1e308 where training had 0 to 1."""
        finite = np.isfinite(scores)
        wrong = np.flatnonzero(~(finite.all(axis=1) if scores.ndim > 1 else finite))
        if len(wrong):
            at = table.line(int(wrong[0]))
            what = (
                "the model"
                if not np.isfinite(self.parameters).all()
                else "a number that is far beyond those of training"
            )
            raise InputError(
                f"{table.path}:{at}: the score of this row is not finite ({what}); correct the cells, or take another run",
                code="predict.finite",
            )


@dataclass(frozen=True, eq=False)
class Predictions:
    """An answer for each row of a table: labels or numbers; and probabilities by class, or the margin of an SVM."""

    table: Table
    schema: Schema
    answers: AnyArray
    certainty: Floats

    @property
    def columns(self) -> dict[str, list[ClassName]]:
        """By name, as they are written: the label, then how sure the model is."""
        found: dict[str, list[ClassName]] = {self.schema.label: self.answers.tolist()}
        if self.certainty.ndim == 2:
            for name, column in zip(self.schema.classes, self.certainty.T, strict=True):
                found[f"probability of {name}"] = column.tolist()
        elif self.schema.classes:
            found[f"margin of {self.schema.classes[-1]}"] = self.certainty.tolist()
        return found

    @property
    def notes(self) -> list[str]:
        """What the model had not met in training, and how it was taken."""
        grouped = {column.name: column.other > 0 for column in self.schema.texts}
        unseen = [
            f"{_counted(count)} a value in {name!r} that training did not name; "
            + ("counted as other" if grouped[name] else "it adds nothing to the score")
            for name, count in self.schema.unseen(self.table).items()
        ]
        return [*self.table.notes, *unseen]


def _counted(rows: int) -> str:
    """Rows with their verb."""
    return f"{rows:,} rows have" if rows != 1 else "1 row has"


def parameters_of(models: Floats, there: Any, centre: int | None) -> Floats:
    """The model of one centre, or the average of those that are there at the end: `there`, None for all."""
    known = list(range(len(models))) if there is None else list(there)
    if centre is None:
        return np.asarray(models[known].mean(axis=0))
    if isinstance(centre, bool) or not isinstance(centre, int | np.integer) or not 0 <= centre < len(models):
        raise InputError(f"centre is {centre!r}; expected one of 0 to {len(models) - 1}, or none", code="run.centre")
    if centre not in known:
        raise InputError(f"centre {centre} is gone at the end of this run; choose one that is there", code="run.gone")
    return np.asarray(models[centre])
