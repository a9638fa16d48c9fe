"""Which dynamics a run plays: each declares what it needs, and the first whose needs are met is taken, with the reason.

What has no sound form on a network with faults or one-way links is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from equipoise.errors import InputError
from equipoise.train.costs._base import box
from equipoise.train.costs.coupled import Coupled
from equipoise.train.hostile.faults import Faults
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import Exact

ROOM = 0.05  # of a mean share: what must lie between lo and hi for CPU to pass on over links in a reasonable time
FEW = 6  # graphs in turn: prices over links need rounds in proportion to them, markets do not
WAYS_OUT = {
    "symmetric": "links that carry both ways: make the network undirected",
    "repeating": 'links that return: use switching=COUNT instead of "fresh"',
    "few": f"at most {FEW} graphs in turn: use a smaller switching",
    "reliable": "links that lose nothing: leave faults out",
    "roomy": f"boxes with room, {ROOM:.0%} of a mean share or more between lo and hi: widen them",
    "exact": "exact gradients of a convex model: leave batch, Coupled, ramp and descent out",
    "own": "settings that it understands: leave step, alpha, momentum, box, weights, cap, fade and node or edge codes alone",
}


class Form(NamedTuple):
    """A dynamics by name: what it needs, and in a few words what it is."""

    name: str
    needs: frozenset[str]
    words: str


CPU_FORMS = (
    Form(
        "links",
        frozenset({"symmetric", "repeating", "few", "reliable", "own", "exact", "roomy"}),
        "prices over links that return",
    ),
    Form("markets", frozenset({"symmetric", "reliable", "own"}), "a market around every node"),
    Form("flows", frozenset({"symmetric"}), "the paper's flows along edges"),
)
LEARNING_FORMS = (
    Form("links", frozenset({"symmetric", "repeating", "reliable", "own", "exact"}), "models over links that return"),
    Form("averages", frozenset({"symmetric", "reliable", "own"}), "averages over neighbourhoods"),
    Form("mixing", frozenset({"symmetric"}), "the paper's gradient tracking along edges"),
)


def choose(
    method: Method, problem: Problem, network: Network, faults: Faults | None = None, batch: object = None
) -> Method:
    """The method with both dynamics named; an impossible one is refused with the need that is missing."""
    if is_hostile(network, method, faults):
        for option, asked in (("cpu", method.cpu), ("learning", method.learning)):
            missing = "symmetric" if network.directed else "reliable"
            if isinstance(asked, type):
                _own(
                    asked,
                    method,
                    {"symmetric": not network.directed, "reliable": False, "repeating": network.period is not None},
                )
            elif asked != "auto" and (network.directed or asked != "links"):
                raise InputError(
                    f"{option}={asked!r} needs {WAYS_OUT[missing]}; or leave {option} out", code=f"need.{missing}"
                )
        return method
    model = problem.model
    noisy = batch is not None or (isinstance(problem.cost, Coupled) and model is not None)
    plain = method.descent == 1.0 and method.ramp is None and method.cap == "auto" and not noisy
    plain = plain and method.tracker_start == "gradient"  # there are no trackers to start
    given = {
        "symmetric": not network.directed,
        "repeating": network.period is not None and network.n > 1,
        "few": network.period is None or network.period <= FEW,
        "reliable": faults is None or faults.none,
        "roomy": _roomy(problem, network.n),
        "exact": plain and (model is None or model.convex),
    }

    cpu, why_cpu = _first(CPU_FORMS, method.cpu, given | {"own": method.own_prices}, "cpu")
    if isinstance(method.learning, type):
        learning: str | type = method.learning
        why_learning = _own(method.learning, method, given)
    else:
        learning, why_learning = _first(LEARNING_FORMS, method.learning, given | {"own": method.own_models}, "learning")
    said = [f"CPU by {why_cpu}"] if problem.cost is not None else []
    said += [f"models by {why_learning}"] if model is not None else []
    return replace(method, cpu=cpu, learning=learning, why="; ".join(said))


def _own(kind: Any, method: Method, given: dict[str, bool]) -> str:
    """A user's dynamics, in words, or which of its needs is missing."""
    if not (method.own_models and method.cap == "auto" and method.descent == 1.0 and method.ramp is None):
        raise InputError(
            f"learning={kind.__name__} has steps of its own: leave step, alpha, momentum, fade, cap, descent, ramp, weights "
            "and node or edge codes of Method alone, and set them in the class",
            code="need.own",
        )
    for need in sorted(kind.needs):
        if not given.get(need, True):
            raise InputError(f"learning={kind.__name__} needs {WAYS_OUT[need]}", code=f"need.{need}")
    return f"{kind.__name__} (a dynamics of one's own)"


def _roomy(problem: Problem, nodes: int) -> bool:
    """Whether every centre can hold something of what passes through it: pinned and narrow ones would hold it up."""
    if problem.cost is None or problem.budget is None:
        return True
    lo, hi = box(problem.cost, problem.sized(nodes))
    return bool((hi - lo >= ROOM * abs(problem.budget) / nodes).all())


def _first(forms: tuple[Form, ...], asked: str, given: dict[str, bool], option: str) -> tuple[str, str]:
    """The form that was asked for, or the first that can be had; and why not an earlier one."""
    passed: list[str] = []
    for form in forms:
        missing = [need for need in sorted(form.needs) if not given[need]]
        if asked == form.name and missing:
            raise InputError(
                f"{option}={asked!r} needs {WAYS_OUT[missing[0]]}; or leave {option} out", code=f"need.{missing[0]}"
            )
        if asked == form.name or (asked == "auto" and not missing):
            return form.name, f"{form.name} ({form.words}{'; '.join(['', *passed])})"
        if missing:
            passed.append(f"{form.name} would need {WAYS_OUT[missing[0]].split(':')[0]}")
    raise InputError(f"no dynamics for {option} on this network: it is directed", code="need.symmetric")


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
