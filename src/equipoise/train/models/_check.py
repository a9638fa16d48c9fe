"""Test a model that a user wrote, and say what is wrong with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.train.models._base import Model, UserModel

GRADIENT_TOLERANCE = 1e-4


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
