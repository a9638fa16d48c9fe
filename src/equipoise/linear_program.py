"""HiGHS as every program here uses it: one thread, silent, imported late."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import highspy


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
