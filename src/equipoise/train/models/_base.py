"""What a model is: a loss g_i(y) and its gradient on each node's own shard; checks of a user's own model and of shards."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse

from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray, Floats, Ints

Shard = tuple[Any, ArrayLike]  # X is an array, or a SciPy sparse matrix where the model takes one
Features = Any  # an array of floats [samples, features], or a csr_array
GRADIENT_TOLERANCE = 1e-4


class Model:
    """A model trained together: subclass it with `nodes`, `size`, `loss(node, y)` and `gradient(node, y)`.

    The rest has defaults built from those four; override what can be done faster for all nodes at once.
    """

    words: str = ""  # what it is called in a sentence; the name of its class unless given
    kind: str = ""  # what its parameters are, for whoever predicts from them; the name of its class unless given
    classes: int = 0  # that it knows; 0 where it does not classify, or does not say
    task: str = ""  # answers it takes: "classes" (0, 1, ...), "two classes" (-1, +1) or "numbers"
    nodes: int
    size: int
    convexity: float = 0.0  # a curvature that the sum of losses is known to have everywhere (a ridge)
    flattest: float = 0.0  # where no such bound is known: a guess at it, which steps may follow and no proof may use
    quadratic: bool = False  # whether `hessian` [nodes, size, size] and `slope` [nodes, size] are all there is to it
    quick_totals: bool = False  # whether totals() costs little beside gradients()
    convex: bool = True  # False: no centralised optimum to hold a run against
    sizes: Ints | None = None  # samples of each node, where sampled() is offered

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.nodes} nodes, {self.size} parameters>"

    def loss(self, node: int, y: Floats) -> float:
        """g_node(y): the loss of one parameter vector on one node's shard."""
        raise TypeError(f"{type(self).__name__} must define loss(node, y)")

    def gradient(self, node: int, y: Floats) -> Floats:
        """The gradient of g_node at y."""
        raise TypeError(f"{type(self).__name__} must define gradient(node, y)")

    def gradients(self, Y: Floats) -> Floats:
        """Every node's gradient at its own parameters: row i is grad g_i(Y[i])."""
        return np.stack([self.gradient(i, Y[i]) for i in range(self.nodes)])

    def sampled(self, Y: Floats, rows: Sequence[Ints]) -> tuple[Floats, Floats]:
        """Every node's gradient from these rows of its own shard, scaled so that its mean is grad g_i(Y[i]); and sigma_i^2,
        the variance of one sample's gradient (of the unscaled loss, summed over parameters) as these rows show it."""
        raise TypeError(f"{type(self).__name__} cannot be sampled: define sampled(Y, rows) and sizes")

    def total(self, y: Floats) -> tuple[float, Floats]:
        """sum_i g_i(y) and its gradient: the pooled problem that a centralised solver would see."""
        loss = sum(self.loss(i, y) for i in range(self.nodes))
        gradient = np.sum([self.gradient(i, y) for i in range(self.nodes)], axis=0)
        return float(loss), np.asarray(gradient)

    def totals(self, Y: Floats) -> Floats:
        """sum_i g_i at each row of Y: how good each node's own model is on everybody's data."""
        return np.array([sum(self.loss(i, y) for i in range(self.nodes)) for y in Y])

    def smoothness(self) -> Floats:
        """L_i: a bound on the curvature of each g_i. Estimated from gradient differences unless overridden."""
        return np.array([_probe_smoothness(self, i) for i in range(self.nodes)])

    def optimum(self) -> Floats | None:
        """The centralised optimum in closed form, where there is one."""
        return None

    def accuracy(self, y: Floats, X: Features, answers: AnyArray) -> float | None:
        """The share of right answers on given data; None where the model does not classify."""
        return None


class ShardModel(Model):
    """A model whose losses are means over the samples of shards, with a ridge dealt out to nodes: it can be sampled, and
    divided. Subclasses set `reg`, `_data` and `_answers`, and define `_drawn`."""

    reg: float
    _data: Shards
    _answers: Sequence[AnyArray]  # of each node

    def _drawn(self, X: Features, answers: AnyArray, y: Floats) -> tuple[Floats, float]:
        """The mean gradient over these samples, without the ridge, and the sum of their squared gradients."""
        raise TypeError(f"{type(self).__name__} must define _drawn(X, answers, y)")

    def _ridge(self, y: Floats) -> Floats:
        """The gradient of a node's part of the ridge."""
        return self.reg / self._data.all_nodes * y

    def sampled(self, Y: Floats, rows: Sequence[Ints]) -> tuple[Floats, Floats]:
        gradients, spread = np.empty((self.nodes, self.size)), np.empty(self.nodes)
        for node, (picked, y) in enumerate(zip(rows, Y, strict=True)):
            mean, squares = self._drawn(self._data.X[node][picked], self._answers[node][picked], y)
            spread[node] = variance(float(squares), mean, len(picked))
            gradients[node] = len(self._answers[node]) / self._data.samples * mean + self._ridge(y)
        return gradients, spread

    def part(self, nodes: Ints) -> Self:
        """The losses of these nodes, each as it was, with nobody else's data."""
        mine = copy(self)
        mine._data, mine._answers = self._data.part(nodes), [self._answers[i] for i in nodes]
        mine.nodes, mine.sizes = mine._data.nodes, mine._data.sizes
        mine.convexity = self.convexity * mine.nodes / self.nodes
        return mine


class UserModel(Model):
    """Gives the defaults to any object that has nodes, size, loss and gradient."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped, self.nodes, self.size = wrapped, int(wrapped.nodes), int(wrapped.size)
        self.convexity = float(getattr(wrapped, "convexity", 0.0))
        for name in ("gradients", "sampled", "total", "totals", "smoothness", "optimum", "accuracy"):
            if callable(getattr(wrapped, name, None)):
                setattr(self, name, getattr(wrapped, name))
        self.convex = bool(getattr(wrapped, "convex", True))
        self.sizes = getattr(wrapped, "sizes", None)

    def loss(self, node: int, y: Floats) -> float:
        value: float = self.wrapped.loss(node, y)
        return value

    def gradient(self, node: int, y: Floats) -> Floats:
        return np.asarray(self.wrapped.gradient(node, y), dtype=np.float64)


def _probe_smoothness(model: Model, node: int, probes: int = 20) -> float:
    """Largest |grad(y + d) - grad(y)| / |d| found by power-like steps from 0, with half again as margin."""
    rng = np.random.default_rng(node)
    origin = np.zeros(model.size)
    at_origin = model.gradient(node, origin)
    direction = rng.standard_normal(model.size)
    found = 0.0
    for _ in range(probes):
        direction /= np.linalg.norm(direction) or 1.0
        change = model.gradient(node, origin + direction) - at_origin
        found = max(found, float(np.linalg.norm(change)))
        if not np.any(change):
            break
        direction = change
    return 1.5 * found


# Is a model that a user wrote what it must be?


def adopt(model: Any) -> Model:
    """Any object with nodes, size, loss and gradient as a Model; names what is missing."""
    if isinstance(model, type):
        raise InputError(f"{model.__name__} is a class: pass an instance, {model.__name__}(...)")
    if isinstance(model, Model):
        needed = [name for name in ("nodes", "size") if not hasattr(model, name)]
    else:
        needed = [name for name in ("nodes", "size", "loss", "gradient") if not hasattr(model, name)]
    if needed:
        raise InputError(
            f"{type(model).__name__} lacks {', '.join(needed)}: a model needs nodes, size, loss(node, y) "
            "and gradient(node, y)",
            code="model.method",
        )
    return model if isinstance(model, Model) else UserModel(model)


def check_model(model: Any, *, points: int = 3, seed: int = 0, nodes: int | None = None) -> None:
    """Raise InputError when a gradient does not match its loss, a value is not finite, or the total is not convex.

    Looks at `nodes` of the nodes (all unless given), at `points` random points each.
    """
    name, model = type(model).__name__, adopt(model)
    rng = np.random.default_rng(seed)
    looked_at = range(model.nodes) if nodes is None else rng.choice(model.nodes, min(nodes, model.nodes), replace=False)
    for node in map(int, looked_at):
        for _ in range(points):
            _check_gradient(name, model, node, rng)
    if nodes is None:
        rows = rng.standard_normal((model.nodes, model.size))
        each = np.stack([model.gradient(i, rows[i]) for i in range(model.nodes)])
        if not np.allclose(model.gradients(rows), each, rtol=1e-9, atol=1e-12):
            raise InputError(
                f"{name}.gradients(Y) differs from gradient(node, Y[node]) row by row", code="model.gradients"
            )
    for _ in range(points):
        _check_convex(name, model, rng)


def _check_gradient(name: str, model: Model, node: int, rng: np.random.Generator) -> None:
    y, direction = rng.standard_normal(model.size), rng.standard_normal(model.size)
    direction /= np.linalg.norm(direction)
    gradient = np.asarray(model.gradient(node, y))
    if gradient.shape != (model.size,):
        raise InputError(f"{name}.gradient at node {node} has shape {gradient.shape}, expected ({model.size},)")
    step = 1e-5
    losses = [np.asarray(model.loss(node, y + sign * step * direction)) for sign in (1, -1)]
    if any(loss.shape != () for loss in losses):
        raise InputError(f"{name}.loss at node {node} has shape {losses[0].shape}: return one number")
    above, below = map(float, losses)
    if not (np.isfinite(gradient).all() and np.isfinite(above) and np.isfinite(below)):
        raise InputError(f"{name} is not finite at node {node}: check its loss and gradient at random points")
    found, told = (above - below) / (2 * step), float(gradient @ direction)
    noise = 1e-14 * (abs(above) + abs(below)) / step
    if abs(found - told) > GRADIENT_TOLERANCE * max(abs(found), abs(told)) + noise + 1e-7:
        raise InputError(
            f"{name}.gradient does not match {name}.loss at node {node}: along a random direction it says "
            f"{told:g}, finite differences say {found:g}",
            code="model.gradient",
        )


def _check_convex(name: str, model: Model, rng: np.random.Generator) -> None:
    """Along a random segment the gradient of the total must not turn back."""
    here, there = rng.standard_normal((2, model.size)) * 2.0
    rise = (model.total(there)[1] - model.total(here)[1]) @ (there - here)
    if rise < -1e-9 * (1.0 + abs(rise)):
        raise InputError(
            f"{name} is not convex: its total gradient falls along a segment, so no gap can be certified",
            code="model.convex",
        )


# Data shards: one (X, y) pair per node, checked once at the door.


@dataclass(frozen=True, eq=False)
class Shards:
    """What each node holds: features X_i [samples, features] and answers y_i [samples]. All X are arrays, or all csr."""

    X: tuple[Features, ...]
    y: tuple[AnyArray, ...]
    whole: tuple[int, int] | None = None  # nodes and samples of all, where these are some nodes of more

    @property
    def nodes(self) -> int:
        return len(self.X)

    @property
    def all_nodes(self) -> int:
        """Nodes of the whole, which a ridge is dealt out to."""
        return self.nodes if self.whole is None else self.whole[0]

    @property
    def features(self) -> int:
        return int(self.X[0].shape[1])

    @property
    def sparse(self) -> bool:
        return bool(issparse(self.X[0]))

    @property
    def sizes(self) -> AnyArray:
        """Samples of each node."""
        return np.array([len(y) for y in self.y])

    @cached_property
    def samples(self) -> int:
        """Samples of all nodes together, of the whole."""
        return int(self.sizes.sum()) if self.whole is None else self.whole[1]

    def part(self, nodes: Ints) -> Shards:
        """What these nodes hold, and nobody else's data."""
        X, y = tuple(self.X[i] for i in nodes), tuple(self.y[i] for i in nodes)
        return Shards(X, y, (self.all_nodes, self.samples))


def read_shards(shards: Sequence[Shard], *, sparse: bool = False) -> Shards:
    """Check a list of (X, y) arrays: not empty, same features everywhere, as many answers as rows, all finite.

    With `sparse` any X may be a SciPy sparse matrix of any format; if one is, all become csr_array of float64.
    """
    if len(shards) == 0:
        raise InputError("no shards: give a list of (X, y) arrays, one per node", code="shards.none")
    all_x: list[Features] = []
    all_y: list[AnyArray] = []
    for node, shard in enumerate(shards):
        try:
            x_given, y_given = shard
            X = _as_rows(x_given) if issparse(x_given) else np.asarray(x_given, dtype=np.float64)
            y = np.asarray(y_given)
        except (TypeError, ValueError):
            raise InputError(f"shard {node} is not a pair (X, y) of numeric arrays") from None
        if issparse(X) and not sparse:
            raise InputError(
                f"shard {node}: X is sparse, which this model does not take: pass X.toarray(), or use LeastSquares, "
                "Softmax or SmoothSVM",
                code="shards.sparse",
            )
        if X.ndim != 2:
            raise InputError(
                f"shard {node}: X must be [samples, features]; its shape is {X.shape}", code="shards.shape"
            )
        rows = X.shape[0]
        if rows == 0:
            raise InputError(
                f"shard {node} is empty: give every node at least one sample, or fewer nodes", code="shards.empty"
            )
        if y.shape != (rows,):
            raise InputError(
                f"shard {node}: X has {rows} rows but y has shape {y.shape}: one answer per row", code="split.rows"
            )
        if all_x and X.shape[1] != all_x[0].shape[1]:
            raise InputError(
                f"shard {node} has {X.shape[1]} features but shard 0 has {all_x[0].shape[1]}", code="shards.features"
            )
        if not np.isfinite(X.data if issparse(X) else X).all():
            raise InputError(f"shard {node}: X holds a value that is not finite; drop or fill it", code="shards.finite")
        if y.dtype.kind not in "fiub" or not np.isfinite(y.astype(np.float64)).all():
            raise InputError(f"shard {node}: y must hold finite numbers; its type is {y.dtype}")
        all_x.append(X)
        all_y.append(y)
    if any(map(issparse, all_x)):
        all_x = [X if issparse(X) else csr_array(X) for X in all_x]
    return Shards(tuple(all_x), tuple(all_y))


def _as_rows(X: Any) -> Any:
    """A sparse matrix as csr_array of float64, with one entry for each place; the one that was given stays as it is."""
    rows = csr_array(X, dtype=np.float64)
    if rows.ndim == 2 and not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()  # squares of entries are asked for
    return rows


def class_weights(given: ArrayLike | None, classes: Sequence[str]) -> Floats | None:
    """One weight for each of these classes; None where none are given."""
    if given is None:
        return None
    try:
        weights = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        weights = np.empty(0)
    if weights.shape != (len(classes),) or not (np.isfinite(weights) & (weights > 0)).all():
        named = ", ".join(classes) if len(classes) <= 4 else f"{classes[0]}, ..., {classes[-1]}"
        raise InputError(
            f"class_weight must be {len(classes)} finite numbers > 0, one for each class ({named}), not {given!r}",
            code="model.class_weight",
        )
    return weights


def squared_rows(X: Features) -> Floats:
    """|x|^2 of each sample."""
    return np.asarray((X**2).sum(axis=1))


def largest_eigenvalue(X: Features, intercept: bool, weights: Floats | None = None, rounds: int = 60) -> float:
    """Largest eigenvalue of [X 1]' W [X 1] (or X'WX), by power iteration; 5% above what was found, as a safe bound.

    W has a weight for each sample: all 1 unless given.
    """
    rng = np.random.default_rng(0)
    v: Floats = np.asarray(1.0 + 0.1 * rng.standard_normal(X.shape[1]))
    b = 1.0 if intercept else 0.0
    found = 0.0
    for _ in range(rounds):
        score = X @ v + b
        if weights is not None:
            score *= weights
        v = X.T @ score
        b = float(score.sum()) if intercept else 0.0
        size = float(np.sqrt(v @ v + b * b))
        if size == 0.0:
            return 0.0
        v, b = v / size, b / size
        if abs(size - found) <= 1e-4 * size:
            found = size
            break
        found = size
    return 1.05 * found


def variance(squares: float, mean: Floats, count: int) -> float:
    """sigma^2 of one sample's gradient from the sum of squared gradients and their mean; not a number from one sample."""
    return max(0.0, (squares - count * float(mean @ mean)) / (count - 1)) if count > 1 else float("nan")
