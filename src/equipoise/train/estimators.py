"""Estimators of scikit-learn that several centres fit together: one linear model, and CPU shares from the same rounds.

What runs is `solve`: a simulation of the centres and their messages in this process, which is given all rows.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, hstack, issparse, vstack
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from equipoise.errors import InputError, refuse_negative, whole_number
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.costs import Latency
from equipoise.train.method import Method
from equipoise.train.models.least_squares import LeastSquares
from equipoise.train.models.softmax import Softmax
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.rescaled import Rescaled
from equipoise.train.run import Run
from equipoise.train.solve import solve

LEAST_CPUS, MOST_CPUS, MEAN_CPUS = (
    10.0,
    40.0,
    25.0,
)  # of a centre, where no cost is given: as `equipoise train` has them


@dataclass(frozen=True, eq=False)
class Rows:
    """All rows, and whose each is: `place[k]` is the number of the centre of row k, `names` what centres are called."""

    X: Any  # an array [rows, features], or a csr_array
    y: AnyArray
    place: Ints
    names: AnyArray

    def shards(self, X: Any, y: AnyArray) -> list[tuple[Any, AnyArray]]:
        """One (X, y) per centre, of values that stand in the order of all rows."""
        order = np.argsort(self.place, kind="stable")
        ends = np.cumsum(np.bincount(self.place, minlength=len(self.names)))[:-1]
        return [(X[rows], y[rows]) for rows in np.split(order, ends)]


class _Decentralised(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators share: rows by centre, the run, and what it leaves behind."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Without the run, which holds the rows of all centres: whoever is sent a fitted model is not sent those."""
        return {name: value for name, value in super().__getstate__().items() if name != "run_"}

    def _rows(self, X: Any, y: Any, centres: Any, rng: np.random.RandomState, **checks: Any) -> Rows:
        """What was given to `fit`, checked."""
        checks |= {"accept_sparse": "csr", "dtype": np.float64}
        if y is None and _are_shards(X):
            if centres is not None:
                raise InputError(
                    "centres is given, but fit was given one (X, y) per centre already: leave centres out",
                    code="centres.twice",
                )
            return self._stacked(X, checks)
        X, y = validate_data(self, X, y, **checks)
        count = X.shape[0]
        if centres is not None:
            return Rows(X, y, *_named(centres, count))
        n = min(whole_number(self.n_centres, "n_centres", code="centres.range"), count)
        return Rows(X, y, rng.permutation(count) % n, np.arange(n))

    def _stacked(self, shards: Sequence[Any], checks: dict[str, Any]) -> Rows:
        """One (X, y) per centre, all rows one below the other; every shard must have the columns of the first."""
        parts = []
        for k, (X, y) in enumerate(shards):
            try:
                parts.append(validate_data(self, X, y, reset=k == 0, **checks))
            except ValueError as error:
                raise InputError(" ".join(str(error).split()), code="shards.form", about=f"shard {k}") from None
        kinds = {"text" if y.dtype.kind in "OUST" else "numbers" for _, y in parts}
        if len(kinds) > 1:
            raise InputError(
                "some shards have labels that are text and others numbers: give all of them the same kind",
                code="shards.labels",
            )
        matrices = [X for X, _ in parts]
        sparse = any(map(issparse, matrices))
        X = vstack([csr_array(X) for X in matrices], format="csr") if sparse else np.concatenate(matrices)
        place = np.repeat(np.arange(len(parts)), [len(y) for _, y in parts])
        return Rows(X, np.concatenate([y for _, y in parts]), place, np.arange(len(parts)))

    def _train(self, model: Rescaled, rows: Rows, rng: np.random.RandomState) -> Floats:
        """The parameters that the centres agree on: the average of their models."""
        n, seed = len(rows.names), int(rng.randint(2**31 - 1))
        network = self.network if isinstance(self.network, Network) else _network(self.network, n, seed)
        if network.n != n:
            raise InputError(
                f"network has {network.n} nodes but there are {n} centres: give one node per centre, or a name such as "
                "'complete'",
                code="problem.nodes",
            )
        cost, budget = self.cost, self.budget
        if cost is None:
            sizes = np.bincount(rows.place, minlength=n).astype(np.float64)
            settings = Latency.drawn(np.random.default_rng([seed, 1]), n, sizes)
            cost = Latency(**settings, lo=LEAST_CPUS, hi=MOST_CPUS)
            budget = MEAN_CPUS * n if budget is None else budget
        most = whole_number(self.max_iter, "max_iter", code="rounds.range")
        run = solve(
            Problem(cost, budget, model), network, self.method or Method(), rounds=most, target=self.tol, seed=seed
        )
        if run.status != "converged":
            warnings.warn(
                f"{type(self).__name__} stopped before tol={self.tol:g} was reached ({run.reason}); its gap is "
                f"{run.relative_gap:.2g} of the one at the start: raise max_iter={most} or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        self._keep(run, rows)
        assert run.models is not None
        return np.asarray(run.models.mean(axis=0))

    def _keep(self, run: Run, rows: Rows) -> None:
        self.run_, self.certificate_, self.n_iter_ = run, run.certificate(), run.rounds
        self.shares_, self.centres_ = run.shares, rows.names

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_.T + self.intercept_)


class DecentralisedClassifier(ClassifierMixin, _Decentralised):  # type: ignore[misc]
    """Logistic regression (multinomial for three classes or more) that centres fit together, as a scikit-learn classifier.

    It minimises what `LogisticRegression(C=C)` does on the pooled rows: C times the sum of losses, plus half the squared
    coefficients. The intercept is not penalised. Columns are rescaled inside, with their penalties, so that the optimum
    stays the same. All centres are simulated in this process.

    Parameters
    ----------
    C
        Inverse of the penalty's strength, above 0.
    class_weight
        None, "balanced" (over the rows of all centres), or {class: weight}.
    fit_intercept
        Whether to learn an intercept.
    n_centres
        How many centres rows are dealt to where `fit` is not told whose they are; fewer if there are fewer rows.
    network
        Who talks to whom: a Network, or its kind by name ("complete", "ring", "star", "erdos_renyi", ...).
    method
        How rounds are played; None: `Method()`.
    cost
        What CPU costs each centre; None: `Latency` costs drawn by seed, 10 to 40 CPUs a centre.
    budget
        CPUs of all centres together; None: 25 a centre, where no cost is given.
    tol
        When to stop: once the gap to the optimum is this part of the gap at the start.
    max_iter
        Rounds at most; a ConvergenceWarning says where they were not enough.
    random_state
        Deals rows and draws costs and random networks.

    Attributes
    ----------
    classes_
        Labels of all centres, sorted.
    coef_, intercept_
        As `LogisticRegression` has them: one row for two classes, else one per class.
    n_features_in_, feature_names_in_
        Columns of X, and what they are called in a frame.
    n_iter_
        Rounds that were played.
    centres_
        What centres are called, in the order of `shares_`.
    shares_
        CPUs of each centre.
    certificate_
        The run's `Certificate`.
    run_
        The `Run`; pickles and copies leave it out, for it holds all rows. Its models are of rescaled columns: use `coef_`.
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        class_weight: Any = None,
        fit_intercept: bool = True,
        n_centres: int = 5,
        network: Any = "complete",
        method: Method | None = None,
        cost: Any = None,
        budget: float | None = None,
        tol: float = 1e-4,
        max_iter: int = 3000,
        random_state: Any = None,
    ) -> None:
        self.C, self.class_weight, self.fit_intercept = C, class_weight, fit_intercept
        self.n_centres, self.network, self.method = n_centres, network, method
        self.cost, self.budget, self.tol = cost, budget, tol
        self.max_iter, self.random_state = max_iter, random_state

    def fit(self, X: Any, y: Any = None, centres: Any = None) -> Self:
        """Train over the centres.

        Parameters
        ----------
        X
            Rows, dense, sparse or a frame, of shape (n_samples, n_features); or a list of (X, y), one per centre.
        y
            Labels, text or numbers, of shape (n_samples,); None with a list of (X, y).
        centres
            The name of each row's centre, of shape (n_samples,); None: rows are shuffled and dealt evenly. Name it in
            `params` of `cross_val_score` and the like, which slice it.
        """
        rng = check_random_state(self.random_state)
        rows = self._rows(X, y, centres, rng)
        check_classification_targets(rows.y)
        refuse_negative(type(self).__name__, zero=False, C=self.C)
        self.classes_, labels = np.unique(rows.y, return_inverse=True)
        count, samples = len(self.classes_), len(labels)
        if count < 2:
            raise InputError(
                f"{type(self).__name__} needs two classes or more; y has only one class: {self.classes_[0]!r}",
                code="data.one_class",
            )
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=rows.y).astype(np.float64)
        # Two classes have two opposite rows of weights here and one, twice as long, in scikit-learn.
        reg = (2.0 if count == 2 else 1.0) / (self.C * samples)
        bend = (count - 1) / count**2  # of each loss, by a score, where all classes are as likely
        columns = Columns.of(rows.X, weights[labels], reg / bend, self.fit_intercept)
        shards = rows.shards(columns.apply(rows.X), labels)
        inner = Softmax(shards, classes=count, reg=reg, class_weight=None if (weights == 1).all() else weights)
        biases = np.repeat(np.arange(rows.X.shape[1] + 1) == rows.X.shape[1], count)
        ridge = np.append(np.repeat(reg / columns.scale**2, count), np.zeros(count))
        y = self._train(Rescaled(inner, ridge, None if self.fit_intercept else biases), rows, rng)
        W = y.reshape(-1, count)
        W = W[:, 1:] - W[:, :1] if count == 2 else W - W.mean(axis=1, keepdims=True)
        self.coef_ = np.ascontiguousarray((W[:-1] / columns.scale[:, None]).T)
        self.intercept_ = W[-1] - self.coef_ @ columns.mean if self.fit_intercept else np.zeros(len(self.coef_))
        return self

    def decision_function(self, X: Any) -> Floats:
        """Scores of rows: (n_samples,) for two classes, where above 0 is the second; else (n_samples, n_classes)."""
        scores = self._scores(X)
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> AnyArray:
        """The likeliest class of each row."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any) -> Floats:
        """How likely each class is, (n_samples, n_classes), in the order of `classes_`."""
        scores = self.decision_function(X)
        return np.asarray(
            softmax(np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores, axis=1)
        )


class DecentralisedRegressor(RegressorMixin, _Decentralised):  # type: ignore[misc]
    """Ridge regression that centres fit together, as a scikit-learn regressor.

    It minimises what `Ridge(alpha=alpha)` does on the pooled rows: the sum of squared errors plus alpha times the squared
    coefficients. The intercept is not penalised. Columns are rescaled inside, with their penalties, so that the optimum
    stays the same. All centres are simulated in this process.

    Parameters
    ----------
    alpha
        Strength of the penalty, 0 or more.
    fit_intercept
        Whether to learn an intercept.
    n_centres
        How many centres rows are dealt to where `fit` is not told whose they are; fewer if there are fewer rows.
    network
        Who talks to whom: a Network, or its kind by name ("complete", "ring", "star", "erdos_renyi", ...).
    method
        How rounds are played; None: `Method()`.
    cost
        What CPU costs each centre; None: `Latency` costs drawn by seed, 10 to 40 CPUs a centre.
    budget
        CPUs of all centres together; None: 25 a centre, where no cost is given.
    tol
        When to stop: once the gap to the optimum is this part of the gap at the start.
    max_iter
        Rounds at most; a ConvergenceWarning says where they were not enough.
    random_state
        Deals rows and draws costs and random networks.

    Attributes
    ----------
    coef_, intercept_
        Of shape (n_features,), and a number.
    n_features_in_, feature_names_in_
        Columns of X, and what they are called in a frame.
    n_iter_
        Rounds that were played.
    centres_
        What centres are called, in the order of `shares_`.
    shares_
        CPUs of each centre.
    certificate_
        The run's `Certificate`.
    run_
        The `Run`; pickles and copies leave it out, for it holds all rows. Its models are of rescaled columns: use `coef_`.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        n_centres: int = 5,
        network: Any = "complete",
        method: Method | None = None,
        cost: Any = None,
        budget: float | None = None,
        tol: float = 1e-4,
        max_iter: int = 3000,
        random_state: Any = None,
    ) -> None:
        self.alpha, self.fit_intercept = alpha, fit_intercept
        self.n_centres, self.network, self.method = n_centres, network, method
        self.cost, self.budget, self.tol = cost, budget, tol
        self.max_iter, self.random_state = max_iter, random_state

    def fit(self, X: Any, y: Any = None, centres: Any = None) -> Self:
        """Train over the centres.

        Parameters
        ----------
        X
            Rows, dense, sparse or a frame, of shape (n_samples, n_features); or a list of (X, y), one per centre.
        y
            Numbers to predict, of shape (n_samples,); None with a list of (X, y).
        centres
            The name of each row's centre, of shape (n_samples,); None: rows are shuffled and dealt evenly. Name it in
            `params` of `cross_val_score` and the like, which slice it.
        """
        rng = check_random_state(self.random_state)
        rows = self._rows(X, y, centres, rng, y_numeric=True)
        refuse_negative(type(self).__name__, alpha=self.alpha)
        samples, features = rows.X.shape
        reg = float(self.alpha) / samples
        columns = Columns.of(rows.X, np.ones(samples), reg, self.fit_intercept)
        middle = float(rows.y.mean()) if self.fit_intercept else 0.0
        Z, ridge = columns.apply(rows.X), reg / columns.scale**2
        ridge[columns.still & (ridge == 0)] = 1.0  # they say nothing of y: 0 is as good as any coefficient
        if self.fit_intercept and issparse(Z):  # columns keep their means there, and a column of ones makes up for it
            Z, ridge = hstack([Z, np.ones((samples, 1))], format="csr"), np.append(ridge, 0.0)
        inner = LeastSquares(rows.shards(Z, rows.y - middle), reg=reg)
        found = self._train(Rescaled(inner, ridge), rows, rng)
        self.coef_ = found[:features] / columns.scale
        self.intercept_ = middle + float(found[features:].sum() - self.coef_ @ columns.mean)
        return self

    def predict(self, X: Any) -> Floats:
        """The number that is expected for each row."""
        return self._scores(X)


@dataclass(frozen=True, eq=False)
class Columns:
    """What columns are shifted and divided by inside: neither changes the optimum, and both save rounds."""

    mean: Floats  # 0 where nothing is shifted: without an intercept, and where it would fill a sparse matrix
    scale: Floats
    still: AnyArray  # columns that are 0 once shifted, to rounding

    @classmethod
    def of(cls, X: Any, weights: Floats, floor: float, intercept: bool) -> Columns:
        """By the weights of rows. A column's scale is the root of its mean square plus `floor`, its penalty as a part of the
        curvature of a loss: then no parameter is steeper than any other, whether rows or the penalty hold it."""
        part = weights / weights.sum()
        mean = part @ X if intercept and not issparse(X) else np.zeros(X.shape[1])
        square = np.asarray(part @ (X.multiply(X) if issparse(X) else (X - mean) ** 2)).ravel()
        still = square <= (len(part) * np.finfo(np.float64).eps * mean) ** 2  # what rounding leaves of equal values
        scale = np.sqrt(np.where(still, 0.0, square) + floor)
        return cls(np.asarray(mean), np.where(scale > 0, scale, 1.0), still)

    def apply(self, X: Any) -> Any:
        """The columns that the centres train on."""
        if issparse(X):
            return csr_array(X.multiply(1.0 / self.scale))
        return np.where(self.still, 0.0, (X - self.mean) / self.scale)


def _are_shards(given: Any) -> bool:
    """Whether this is a list of (X, y), one per centre."""
    return isinstance(given, list | tuple) and all(
        isinstance(part, list | tuple) and len(part) == 2 and len(getattr(part[0], "shape", np.shape(part[0]))) == 2
        for part in given
    )


def _named(centres: Any, count: int) -> tuple[Ints, AnyArray]:
    """The number of each row's centre, and the names in sorted order."""
    given = np.asarray(centres)
    if given.shape != (count,):
        raise InputError(
            f"centres has shape {given.shape} but X has {count} rows: give one name for each row", code="centres.shape"
        )
    empty = (name is None or type(name).__name__ == "NAType" or _is_nan(name) for name in given.tolist())
    if any(empty):  # NAType: of pandas, which need not be there
        raise InputError("centres has an empty value: every row needs a centre", code="centres.empty")
    try:
        names, place = np.unique(given, return_inverse=True)
    except TypeError:
        raise InputError("centres mixes text and numbers: give names of one kind", code="centres.mixed") from None
    return place, names


def _is_nan(name: Any) -> bool:
    return isinstance(name, numbers.Real) and math.isnan(name)


def _network(name: Any, n: int, seed: int) -> Network:
    if not isinstance(name, str):
        raise InputError(
            f"network is {name!r}; expected a Network, or its kind by name, such as 'complete'", code="network.type"
        )
    options = {"seed": seed} if name.replace("-", "_") in ("erdos_renyi", "geometric") else {}
    return Network.by_name(name, n, **options)
