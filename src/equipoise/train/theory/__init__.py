"""What theory says before a run: bounds, eigenvalues, predictions. Functions of numbers, so that tests drive both sides."""

from typing import TYPE_CHECKING

from equipoise._lazy import lazy

if TYPE_CHECKING:
    from equipoise.train.theory.analysis import Analysis as Analysis, analyse as analyse
    from equipoise.train.theory.bounds import (
        TOPOLOGIES_LOOKED_AT as TOPOLOGIES_LOOKED_AT,
        alpha_limit as alpha_limit,
        best_beta as best_beta,
        delay_limit as delay_limit,
        innovation_limit as innovation_limit,
        meeting_limit as meeting_limit,
        momentum_limit as momentum_limit,
        node_residual as node_residual,
        paper_alpha as paper_alpha,
        sector as sector,
        smallest_connectivity as smallest_connectivity,
        step_limit as step_limit,
        top_eigenvalue as top_eigenvalue,
        two_step_radius as two_step_radius,
    )
    from equipoise.train.theory.closed_loop import ClosedLoop as ClosedLoop, mixing as mixing
else:
    lazy(__name__)
