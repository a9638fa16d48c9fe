"""Who gets which samples: the training part against the held-out part, and one shard for each node."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from equipoise.errors import InputError, unknown_name

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Targets = Integers | Floats  # class labels (integers) or regression targets (floats)

SPLITS = ("even", "label", "dirichlet")


def split(
    X: Any, y: Targets, n: int, how: str = "even", concentration: float = 1.0, seed: int = 0
) -> list[tuple[Any, Targets]]:
    """Deal the samples to n nodes, each sample once and no node empty; the shards are views of one reordered copy.

    "even" shuffles; "label" sorts by label, so a node sees few classes; "dirichlet" draws the nodes' proportions of
    each class from Dirichlet(concentration): the smaller, the more skewed. A SciPy sparse X is dealt out in CSR.
    """
    samples = len(y)
    rows = X.shape[0] if issparse(X) else len(X)
    if rows != samples:
        raise InputError(f"X has {rows} rows and y has {samples}; give one target for each row", code="split.rows")
    if not 1 <= n <= samples:
        raise InputError(
            f"cannot split {samples} samples over {n} nodes; give between 1 and {samples} nodes", code="split.nodes"
        )
    if how == "even":
        order, bounds = np.random.default_rng(seed).permutation(samples), _near_equal(samples, n)
    elif how == "label":
        order, bounds = np.argsort(y, kind="stable"), _near_equal(samples, n)
    elif how == "dirichlet":
        order, bounds = _skewed(y, n, concentration, np.random.default_rng(seed))
    else:
        raise unknown_name("split", how, SPLITS)
    X, y = X.tocsr()[order] if issparse(X) else np.take(X, order, axis=0), y[order]
    return [(X[a:b], y[a:b]) for a, b in pairwise(bounds)]


def hold_out(y: Targets, fraction: float, seed: int) -> tuple[Integers, Integers]:
    """Row numbers of the training part and of the held-out part, in the proportions of the classes."""
    if not 0 <= fraction < 1:
        raise InputError(
            f"test_fraction={fraction:g} leaves nothing to train on; give 0 <= test_fraction < 1", code="split.held_out"
        )
    train = stratified(y, max(1, len(y) - round(fraction * len(y))), seed)
    return train, np.setdiff1d(np.arange(len(y)), train, assume_unique=True)


def stratified(y: Targets, samples: int, seed: int) -> Integers:
    """Row numbers, ascending, of a random pick in the proportions of the classes, none left out if there is room.

    Float targets have no classes: every row is as likely as any other.
    """
    rng = np.random.default_rng(seed)
    groups = _classes(y)
    quotas = _proportional(np.array([len(group) for group in groups]), samples)
    picks = [rng.permutation(group)[:quota] for group, quota in zip(groups, quotas, strict=True)]
    return np.sort(np.concatenate(picks))


def _classes(y: Targets) -> list[Integers]:
    """The row numbers of each class; a regression target is one class."""
    if y.dtype.kind == "f":
        return [np.arange(len(y))]
    return [np.flatnonzero(y == label) for label in np.unique(y)]


def _proportional(counts: Integers, total: int) -> Integers:
    """Whole quotas that add up to total, in proportion to counts (largest remainders), none zero if total allows."""
    quotas, remainders = np.divmod(total * counts, counts.sum())
    left = total - int(quotas.sum())
    quotas[np.argsort(-remainders, kind="stable")[:left]] += 1
    if total >= len(counts):
        for empty in np.flatnonzero(quotas == 0):
            quotas[np.argmax(quotas)] -= 1
            quotas[empty] = 1
    return quotas


def _near_equal(samples: int, n: int) -> Integers:
    """Where to cut so that sizes differ by at most one."""
    return np.arange(n + 1) * samples // n


def _skewed(y: Targets, n: int, concentration: float, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """An order of the rows and the cuts between nodes, with Dirichlet proportions in each class."""
    if not (math.isfinite(concentration) and concentration > 0):
        raise InputError(
            f"concentration={concentration:g} is no Dirichlet parameter; give a finite number above 0",
            code="split.concentration",
        )
    owner = np.empty(len(y), dtype=np.int64)
    for rows in _classes(y):
        until = np.cumsum(rng.dirichlet(np.full(n, concentration)))[:-1]
        # A row at quantile q of its class goes to the first node whose cumulative proportion exceeds q.
        owner[rng.permutation(rows)] = np.searchsorted(until, (np.arange(len(rows)) + 0.5) / len(rows), side="right")
    sizes = np.bincount(owner, minlength=n)
    for empty in np.flatnonzero(sizes == 0):
        largest = np.argmax(sizes)
        owner[rng.choice(np.flatnonzero(owner == largest))] = empty
        sizes[largest] -= 1
        sizes[empty] += 1
    shuffled = rng.permutation(len(y))  # so that a shard is not sorted by class
    return shuffled[np.argsort(owner[shuffled], kind="stable")], np.concatenate([[0], np.cumsum(sizes)])
