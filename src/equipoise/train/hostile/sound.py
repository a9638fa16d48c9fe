"""Which combinations have a sound form on a hostile network; the others are refused by name."""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.errors import InputError
from equipoise.train.hostile.faults import Faults
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import Exact


def is_hostile(network: Network, method: Method, faults: Faults | None) -> bool:
    """Whether a run needs ledgers; the paper's flows bear one fault without: that all prices are equally old."""
    if network.directed:
        return True
    if faults is None or faults.none:
        return False
    return not (faults.only_delayed and method.flows)


def refuse_unsound(
    problem: Problem, network: Network, method: Method, faults: Faults, budgets: Mapping[int, float] | None
) -> None:
    """Say why what was asked for cannot keep its promises here, and what can."""
    where = "one-way links" if network.directed else "a network with faults"
    if method.quantizer.mode == "edge":
        raise InputError(
            f"edge codes have no sound form on {where}: both ends would have to know the exact difference of their "
            'values; use LogQuantizer(mode="innovation")',
            code="unsound.quantizer",
        )
    if method.flows and network.directed and problem.cost is not None:
        raise InputError(
            "the paper's flows have no sound form on one-way links: each node pulls by its own row of weights, columns do "
            "not sum to zero, and the budget is lost; use the default method, which pushes",
            code="unsound.flows",
        )
    if method.flows:
        raise InputError(
            f"the paper's flows have no sound form on {where}: a lost or late packet leaves its two ends with different "
            "flows, and the budget is lost; use the default method (no step, momentum or box), which keeps ledgers",
            code="unsound.flows",
        )
    if method.quantizer.mode != "innovation" and not isinstance(method.quantizer, Exact):
        raise InputError(
            f"{method.quantizer!r} has no sound form on {where}: messages there are codes of changes since one that has "
            "arrived, with a relative precision; use LogQuantizer(rho) or Exact()",
            code="unsound.quantizer",
        )
    if network.directed and problem.cost is not None and network.period is None:
        raise InputError(
            "a new one-way graph every round has no sound form for CPU: no weights can be learnt and no way back is "
            'known; use a number of graphs instead of switching="fresh", or cost=None',
            code="unsound.fresh",
        )
    if budgets:
        raise InputError(
            "a budget that changes is not built together with faults or one-way links: drop one of the two",
            code="unsound.budget",
        )


def refuse_delayed_learning(problem: Problem) -> None:
    """The paper's flows of CPU bear prices that are all equally old; its learning has no such form here."""
    if problem.model is not None:
        raise InputError(
            "models along edges have no sound form with a delay: use the default method (no step, momentum or box), "
            "which keeps ledgers, or model=None"
        )
