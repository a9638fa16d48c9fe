"""How useful models are: on rows that nobody trained on, beside always giving the same answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.certificate import Check
from equipoise.data.schema import Features
from equipoise.document import Row
from equipoise.kernels import Ints
from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.prediction import probabilities

CERTAIN = 2.0  # standard errors by which a model must be better than the same answer always
NAME = "baseline"


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that nobody trained on, and what is right there; `constant` is the answer that knows nothing of a row: the most
    frequent class, or the mean.

    `classes` is 0 for regression; class labels may be -1 and +1.
    """

    X: Features
    truth: AnyArray
    constant: float
    classes: int

    @classmethod
    def of(cls, X: Features, truth: AnyArray, trained_on: Sequence[AnyArray], classes: int) -> HeldOut:
        """The constant answer comes from what centres trained on."""
        known = np.concatenate(trained_on)
        if not classes:
            return cls(X, truth, float(known.mean()), 0)
        labels, counts = np.unique(known, return_counts=True)
        return cls(X, truth, float(labels[counts.argmax()]), classes)

    def table(self, scores: Sequence[Floats], centralised: Floats | None, names: Sequence[object] = ()) -> list[Row]:
        """The best, the median and the worst centre, what one central solver finds, and the constant answer: a row for each.

        Parameters
        ----------
        scores
            Of each centre's model.
        centralised
            Of the model that one solver finds with all data, if it is known.
        names
            What the classes are called, if not by their labels.
        """
        names = names or self._all_labels()
        known = [self.score(each) for each in scores]
        key = "balanced_accuracy" if self.classes else "r2"
        order = sorted(known, key=lambda row: -(row[key] if row[key] is not None else -math.inf))
        rows = [("best centre", order[0]), ("median centre", order[len(order) // 2]), ("worst centre", order[-1])]
        rows += [] if centralised is None else [("centralised", self.score(centralised))]
        constant = f"{self.constant:g}" if not self.classes else names[self._all_labels().index(int(self.constant))]
        rows.append((f"always {constant}", self.baseline()))
        found = []
        for who, row in rows:
            told = dict(row)  # one centre can be two of these
            recalls = told.pop("recall", [])
            found.append({"model": who} | told | {f"recall of {n}": r for n, r in zip(names, recalls, strict=True)})
        return found

    def score(self, scores: Floats) -> Row:
        """Of scores [samples, classes], margins [samples] of two classes, or numbers [samples]."""
        return self._regression(scores) if not self.classes else self._classification(scores)

    def baseline(self) -> Row:
        """Of the constant answer."""
        if not self.classes:
            return self._regression(np.full(len(self.truth), self.constant))
        return self._recalls(np.full(len(self.truth), self.constant)) | {"auc": 0.5}

    def check(self, scores: Sequence[Floats]) -> Check:
        """Whether the worst of these models is better than the constant answer, by more than chance."""
        if len(np.unique(self.truth)) < 2:
            return Check.not_made(NAME, f"all {len(self.truth)} held-out rows have the same answer: hold out more rows")
        if not self._limit(self.truth) > 0:
            few = f"{len(self.truth)} held-out rows are too few: a model that is always right would not pass either"
            return Check.not_made(NAME, f"{few}; hold out more rows")
        known = [self._error(each) for each in scores]
        value, limit = max(known, key=lambda pair: pair[0] - pair[1] if math.isfinite(pair[0]) else math.inf)
        what, always = ("balanced error", "the majority") if self.classes else ("mean square error", "the mean")
        part = " and one row of the rarest class" if self.classes else ", as a part of the latter's own"
        meaning = (
            f"{what} of the worst centre's model on {len(self.truth):,} rows that no centre trained on; must be below that "
            f"of always saying {always}, by {CERTAIN:g} standard errors{part}"
        )
        if not math.isfinite(value) or not math.isfinite(limit):
            return Check(NAME, None, None, False, f"{meaning} (a score is not finite)")
        return Check(NAME, value, limit, value < limit, meaning)

    def _labels(self, scores: Floats) -> AnyArray:
        if scores.ndim == 2:
            return np.asarray(scores.argmax(axis=1))
        low, high = (-1, 1) if (self.truth < 0).any() or self.constant < 0 else (0, 1)
        return np.where(scores >= 0, high, low)

    def _error(self, scores: Floats) -> tuple[float, float]:
        """An error, and below what it must be."""
        if not np.isfinite(scores).all():
            return math.nan, math.nan
        if not self.classes:
            always = (self.constant - self.truth) ** 2
            return float(((scores - self.truth) ** 2).mean()) / float(always.mean()), self._limit(scores)
        said = self._labels(scores)
        recalls = [float((said[self.truth == label] == label).mean()) for label in np.unique(self.truth)]
        return 1.0 - float(np.mean(recalls)), self._limit(said)

    def _limit(self, said: AnyArray) -> float:
        """Below what the error of who gives these answers must be."""
        if not self.classes:
            miss, always = (said - self.truth) ** 2, (self.constant - self.truth) ** 2
            spread = float((always - miss).std()) / math.sqrt(len(miss))
            return 1.0 - CERTAIN * spread / float(always.mean())
        labels, counts = np.unique(self.truth, return_counts=True)
        rates = np.array([float((said == label).mean()) for label in labels])  # the recalls, were they chance
        spread = math.sqrt(float((rates * (1.0 - rates) / counts).sum())) / len(labels)
        lucky = 1.0 / float(counts.min()) / len(labels)  # one hit more among the rarest shows nothing
        return 1.0 - 1.0 / len(labels) - CERTAIN * spread - lucky

    def _regression(self, numbers: Floats) -> Row:
        miss = numbers - self.truth
        spread = float(((self.truth - self.truth.mean()) ** 2).sum())
        r2 = 1.0 - float(miss @ miss) / spread if spread > 0 else None
        return {
            "r2": r2,
            "mean_absolute_error": float(np.abs(miss).mean()),
            "root_mean_square_error": float(np.sqrt(np.mean(miss**2))),
        }

    def _classification(self, scores: Floats) -> Row:
        return self._recalls(self._labels(scores)) | {"auc": self._auc(scores)}

    def _recalls(self, said: AnyArray) -> Row:
        from sklearn.metrics import recall_score

        labels = np.unique(self.truth)
        recalls = recall_score(self.truth, said, labels=labels, average=None, zero_division=0.0)
        by_class = {int(label): float(recall) for label, recall in zip(labels, recalls, strict=True)}
        return {
            "accuracy": float(np.mean(said == self.truth)),
            "balanced_accuracy": float(np.mean(recalls)),
            "recall": [by_class.get(label) for label in self._all_labels()],
        }

    def _all_labels(self) -> list[int]:
        two = self.classes == 2 and ((self.truth < 0).any() or self.constant < 0)
        return [-1, 1] if two else list(range(self.classes))

    def _auc(self, scores: Floats) -> float | None:
        """Area under the curve; with more classes, the mean of each against the rest."""
        from sklearn.metrics import roc_auc_score

        labels: Ints = np.unique(self.truth)
        if len(labels) < 2 or not np.isfinite(scores).all():
            return None
        if scores.ndim == 1:
            return float(roc_auc_score(self.truth == labels[-1], scores))
        if scores.shape[1] == 2:
            return float(roc_auc_score(self.truth == 1, scores[:, 1] - scores[:, 0]))
        chances = probabilities(scores)
        return float(np.mean([roc_auc_score(self.truth == label, chances[:, label]) for label in labels]))
