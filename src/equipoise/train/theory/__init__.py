"""What theory says before a run: bounds, eigenvalues, predictions. Functions of numbers, so that tests drive both sides.

Here are the pieces that choosing steps needs. `averages`, `closed_loop`, `predict` and `analysis` look at
whole problems and are imported by name (docs/train-theory.md).
"""

from equipoise.train.theory.bounds import (
    alpha_limit,
    delay_limit,
    innovation_limit,
    meeting_limit,
    node_residual,
    paper_alpha,
    sector,
    step_limit,
)
from equipoise.train.theory.momentum import best_beta, momentum_limit, two_step_radius
from equipoise.train.theory.network import TOPOLOGIES_LOOKED_AT, smallest_connectivity, top_eigenvalue

__all__ = [
    "TOPOLOGIES_LOOKED_AT",
    "alpha_limit",
    "best_beta",
    "delay_limit",
    "innovation_limit",
    "meeting_limit",
    "momentum_limit",
    "node_residual",
    "paper_alpha",
    "sector",
    "smallest_connectivity",
    "step_limit",
    "top_eigenvalue",
    "two_step_radius",
]
