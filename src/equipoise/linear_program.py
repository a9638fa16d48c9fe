"""HiGHS as every program here uses it: one thread, silent, imported late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import highspy
    from scipy import sparse

    from equipoise.kernels import Bools, Floats


def model_of(
    cost: Floats, most: Floats, rows: sparse.csc_matrix, low: Floats | float, high: Floats, whole: Bools | None = None
) -> Any:
    """Minimise cost @ x for 0 <= x <= most and low <= rows @ x <= high; `whole` says which of x are whole numbers."""
    import highspy

    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = rows.shape
    model.col_cost_, model.col_lower_, model.col_upper_ = cost, np.zeros(len(cost)), most
    model.row_lower_, model.row_upper_ = np.broadcast_to(low, high.shape), high
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = rows.indptr, rows.indices, rows.data
    if whole is not None:
        kinds = highspy.HighsVarType
        model.integrality_ = [kinds.kInteger if one else kinds.kContinuous for one in whole]
    return model


def solver_of(model: highspy.HighsLp, **options: float | str) -> highspy.Highs:
    """HiGHS on one thread, without a word."""
    import highspy

    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.silent()
    for name, value in ({"threads": 1} | options).items():
        solver.setOptionValue(name, value)
    solver.passModel(model)
    return solver


def run(solver: highspy.Highs) -> None:
    """Solve; if this thread's HiGHS was started with more workers by someone else, on as many as it has."""
    import highspy

    if solver.run() == highspy.HighsStatus.kError:
        solver.setOptionValue("threads", 0)
        if solver.run() == highspy.HighsStatus.kError:
            raise RuntimeError(f"HiGHS could not solve the program: {solver.getModelStatus()}")
