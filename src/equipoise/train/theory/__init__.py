"""What theory says before a run: bounds, eigenvalues, predictions. Functions of numbers, so that tests drive both sides.

Here are the pieces that choosing steps needs. `averages`, `closed_loop`, `predict` and `analysis` look at
whole problems and are imported by name (docs/train-theory.md).
"""

from equipoise.train.theory.bounds import (
    TOPOLOGIES_LOOKED_AT,
    alpha_limit,
    best_beta,
    delay_limit,
    innovation_limit,
    meeting_limit,
    momentum_limit,
    node_residual,
    paper_alpha,
    sector,
    smallest_connectivity,
    step_limit,
    top_eigenvalue,
    two_step_radius,
)

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
