"""Test a model that a user wrote, and say what is wrong with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.train.models.model import Model, UserModel

GRADIENT_TOLERANCE = 1e-4


def adopt(model: Any) -> Model:
    """Any object with nodes, size, loss and gradient as a Model; names what is missing."""
    if isinstance(model, Model):
        needed = [name for name in ("nodes", "size") if not hasattr(model, name)]
    else:
        needed = [name for name in ("nodes", "size", "loss", "gradient") if not hasattr(model, name)]
    if needed:
        raise InputError(
            f"{type(model).__name__} lacks {', '.join(needed)}: a model needs nodes, size, loss(node, y) "
            "and gradient(node, y)"
        )
    return model if isinstance(model, Model) else UserModel(model)


def check_model(model: Any, *, points: int = 3, seed: int = 0) -> None:
    """Raise InputError when a gradient does not match its loss by finite differences, or a value is not finite."""
    name, model = type(model).__name__, adopt(model)
    rng = np.random.default_rng(seed)
    for node in range(model.nodes):
        for _ in range(points):
            y, direction = rng.standard_normal(model.size), rng.standard_normal(model.size)
            direction /= np.linalg.norm(direction)
            gradient = np.asarray(model.gradient(node, y))
            if gradient.shape != (model.size,):
                raise InputError(f"{name}.gradient at node {node} has shape {gradient.shape}, expected ({model.size},)")
            step = 1e-5
            above, below = float(model.loss(node, y + step * direction)), float(model.loss(node, y - step * direction))
            if not (np.isfinite(gradient).all() and np.isfinite(above) and np.isfinite(below)):
                raise InputError(f"{name} is not finite at node {node}: check its loss and gradient at random points")
            found, told = (above - below) / (2 * step), float(gradient @ direction)
            if abs(found - told) > GRADIENT_TOLERANCE * max(abs(found), abs(told)) + 1e-7:
                raise InputError(
                    f"{name}.gradient does not match {name}.loss at node {node}: along a random direction it says "
                    f"{told:g}, finite differences say {found:g}"
                )
    rows = rng.standard_normal((model.nodes, model.size))
    each = np.stack([model.gradient(i, rows[i]) for i in range(model.nodes)])
    if not np.allclose(model.gradients(rows), each, rtol=1e-9, atol=1e-12):
        raise InputError(f"{name}.gradients(Y) differs from gradient(node, Y[node]) row by row")
