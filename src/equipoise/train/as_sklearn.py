"""Trained models as fitted scikit-learn estimators; of own files, as the whole pipeline from a frame to labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.data.pipeline import to_columns
from equipoise.errors import InputError
from equipoise.train.prediction import KINDS, LEAST, MLP, SVM, Trained, kind_of, layers, parameters_of

if TYPE_CHECKING:
    from equipoise.train.run import Run


def to_sklearn(run: Run, centre: int | None, classes: Any) -> Any:
    """See `Run.to_sklearn`."""
    model = run.problem.model
    if model is None or run.models is None:
        raise InputError("to_sklearn: this run trained no model; give its Problem one", code="run.model")
    kind = kind_of(model)
    if kind not in KINDS:
        raise InputError(
            f"to_sklearn: scikit-learn has no estimator that is exactly a {kind}; there is one for "
            "Softmax, SmoothSVM, LeastSquares and mlp. The parameters are in run.models",
            code="estimator.none",
        )
    there = np.asarray(getattr(run, "present", np.empty(0)), dtype=bool)
    y = parameters_of(run.models, np.flatnonzero(there).tolist() if there.size else None, centre)
    reg, schema = float(getattr(model, "reg", 0.0)), None if run.own is None else run.own.schema
    samples = int(np.sum(0 if model.sizes is None else model.sizes))
    return estimator(Trained(kind, y, reg, samples, getattr(model, "classes", 0), schema), classes)


def estimator(trained: Trained, classes: Any = None) -> Any:
    """The fitted scikit-learn estimator that predicts as this model does; of own files, with all that goes before it.

    Parameters
    ----------
    trained
        The model.
    classes
        What to call classes, if not as in the files, or 0, 1, ... (-1 and +1).
    """
    if classes is None and trained.schema is not None and trained.schema.classes:
        classes = trained.schema.classes
    found = _estimator(trained, classes)
    if trained.schema is None:
        return found
    from sklearn.pipeline import Pipeline

    return Pipeline([("columns", to_columns(trained.schema)), ("model", found)])


def _estimator(trained: Trained, classes: Any) -> Any:
    y, labels = trained.parameters, trained.classes
    # Scikit-learn adds losses up, ours is their mean.
    C = 1.0 / (trained.reg * max(trained.samples, 1)) if trained.reg else 1.0
    if trained.kind == LEAST:
        from sklearn.linear_model import LinearRegression

        if classes is not None:
            raise InputError("to_sklearn: LeastSquares has no classes; leave them out", code="estimator.classes")
        own = trained.schema is not None  # then the last column is one of ones
        coefficients, intercept = (y[:-1], float(y[-1])) if own else (y, 0.0)
        made = LinearRegression(fit_intercept=own)
        return _fitted(made, coef_=coefficients.copy(), intercept_=intercept, n_features_in_=len(coefficients))
    if trained.kind == SVM:
        from sklearn.svm import LinearSVC

        return _fitted(
            LinearSVC(C=C),
            classes_=_names(classes, np.array([-1, 1])),
            coef_=y[None, :-1].copy(),
            intercept_=np.array([-y[-1]]),
            n_features_in_=len(y) - 1,
            n_iter_=0,
        )
    if trained.kind == MLP:
        if trained.schema is None:
            raise InputError(
                "to_sklearn: a net of a run on own files becomes an MLPClassifier; of others, it stays in run.models",
                code="estimator.none",
            )
        return _net(trained, _names(classes, np.arange(labels)))
    from sklearn.linear_model import LogisticRegression

    W = y.reshape(-1, labels)
    if labels == 2:  # scikit-learn has one row for two classes, the second against the first; ours are half of it each
        W, C = W[:, 1:] - W[:, :1], 2.0 * C
    return _fitted(
        LogisticRegression(C=C),
        classes_=_names(classes, np.arange(labels)),
        coef_=np.ascontiguousarray(W[:-1].T),
        intercept_=W[-1].copy(),
        n_features_in_=len(W) - 1,
        n_iter_=np.array([0]),
    )


def _net(trained: Trained, names: Any) -> Any:
    """scikit-learn's net of the same layers; of two classes it has one output, the second against the first."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import LabelBinarizer

    assert trained.schema is not None
    features = trained.schema.width
    (W, b), (V, c) = layers(trained.parameters, features, trained.classes)
    two = trained.classes == 2
    if two:
        V, c = V[:, 1:] - V[:, :1], c[1:] - c[:1]
    return _fitted(
        MLPClassifier(hidden_layer_sizes=(len(b),), alpha=trained.reg),
        classes_=names,
        coefs_=[W.copy(), V.copy()],
        intercepts_=[b.copy(), c.copy()],
        n_features_in_=features,
        n_layers_=3,
        n_outputs_=len(c),
        out_activation_="logistic" if two else "softmax",
        _label_binarizer=LabelBinarizer().fit(names),
    )


def _names(given: Any, labels: Any) -> Any:
    if given is None:
        return labels
    names = np.asarray(given)
    if names.shape != labels.shape or len(set(names.tolist())) < len(names):
        raise InputError(f"to_sklearn: classes are {given!r}; expected {len(labels)} different names")
    return names


def _fitted(made: Any, **learned: Any) -> Any:
    for name, value in learned.items():
        setattr(made, name, value)
    return made
