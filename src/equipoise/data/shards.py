"""Anybody's data as one shard a centre: what scikit-learn's loaders give, arrays, our own data sets, pandas frames."""

from typing import Any

import numpy as np

from equipoise.data.dataset import Dataset, standardised
from equipoise.data.split import Floats, Targets, split
from equipoise.errors import InputError
from equipoise.frames import need_columns

Shards = list[tuple[Floats, Targets]]


def shards(
    dataset: Any,
    centres: int | None = None,
    how: str = "even",
    *,
    label: str | None = None,
    by: str | None = None,
    concentration: float = 1.0,
    seed: int = 0,
    standardise: bool = False,
    signs: bool = False,
) -> Shards:
    """One (X, y) a centre, as models take them.

    dataset      a Bunch or (X, y) of scikit-learn, a Dataset of ours (its training part), or a frame with a `label` column
    centres      how many (20 unless told); they are dealt samples as `split` does: "even", "label" or "dirichlet"
    by           of a frame: the column that names each row's centre; centres come in sorted order
    standardise  every feature gets mean 0 and deviation 1 over all centres
    signs        two classes as -1 and +1, as SmoothSVM wants them, instead of 0 and 1

    Labels that are whole numbers or text become classes 0, 1, ... in sorted order; floats are regression targets.
    """
    X, y, place = _read(dataset, label, by)
    if signs:
        if y.dtype.kind == "f" or len(np.unique(y)) != 2:
            raise InputError(
                "shards: signs=True needs exactly two classes; leave it out, or keep two of them", code="shards.classes"
            )
        y = 2 * y - 1
    if standardise:
        X, _ = standardised(X, X[:0])
    if place is None:
        return split(X, y, 20 if centres is None else centres, how, concentration, seed)
    names = np.unique(place)
    if centres not in (None, len(names)):
        raise InputError(
            f"shards: centres={centres} but column {by!r} names {len(names)} of them; leave centres out",
            code="shards.centres",
        )
    return [(X[place == name], y[place == name]) for name in names]


def _read(given: Any, label: str | None, by: str | None) -> tuple[Floats, Targets, Any]:
    """Features, targets, and of a frame with `by` the centre of every row."""
    if isinstance(given, Dataset):
        given = (given.X, given.y)
    if hasattr(given, "data") and hasattr(given, "target"):  # a Bunch
        given = (given.data, given.target)
    elif hasattr(given, "columns"):
        return _framed(given, label, by)
    if label is not None or by is not None:
        raise InputError(
            "shards: label and by name columns of a frame, and this is none; leave them out", code="shards.columns"
        )
    try:
        X, y = given
    except (TypeError, ValueError):
        raise InputError(
            f"shards: the data is {type(given).__name__}; expected a Bunch or (X, y) of scikit-learn, a Dataset, or a frame",
            code="shards.type",
        ) from None
    features, targets = _features(X), _targets(y)
    if len(features) != len(targets):
        raise InputError(
            f"shards: X has {len(features)} rows and y has {len(targets)}; give one target for each row",
            code="split.rows",
        )
    return features, targets, None


def _framed(frame: Any, label: str | None, by: str | None) -> tuple[Floats, Targets, Any]:
    if label is None:
        raise InputError("shards: which column of the frame is the label? Say label=...", code="shards.label")
    need_columns(frame, [name for name in (label, by) if name is not None], "shards")
    if label == by:
        raise InputError(f"shards: label and by are both {label!r}; the label cannot name the centre", code="shards.by")
    features = frame.drop(columns=[name for name in (label, by) if name is not None])
    place = None if by is None else frame[by].to_numpy()
    if by is not None and frame[by].isna().any():
        raise InputError(f"shards: column {by!r} has an empty cell; every row needs a centre", code="shards.empty")
    return _features(features), _targets(frame[label]), place


def _features(given: Any) -> Floats:
    if hasattr(given, "toarray"):
        given = given.toarray()  # a sparse matrix; models hold dense ones
    try:
        X = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"shards: features must be numbers ({error}); encode or drop what is not", code="shards.numbers"
        ) from None
    if X.ndim != 2 or not np.isfinite(X).all():
        problem = f"X has shape {X.shape}" if X.ndim != 2 else "X holds a value that is not finite"
        raise InputError(f"shards: {problem}; expected finite numbers [samples, features]", code="shards.finite")
    return X


def _targets(given: Any) -> Targets:
    y = np.asarray(given)
    if y.ndim != 1:
        raise InputError(f"shards: y has shape {y.shape}; expected one target for each row")
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise InputError("shards: y holds a value that is not finite; drop those rows")
        return y.astype(np.float64)
    labels = y.astype(str) if y.dtype.kind == "O" else y
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
