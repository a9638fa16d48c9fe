"""The main loop: negotiate shares and train, round by round (docs/train.md, 2)."""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from equipoise.document import Row
from equipoise.errors import Failure, InputError
from equipoise.parallel import on_one_thread
from equipoise.train.arrays import Floats
from equipoise.train.audit import WITNESSES
from equipoise.train.book import Book
from equipoise.train.checkpoint import load_checkpoint, save_checkpoint
from equipoise.train.hostile.book import HostileBook
from equipoise.train.hostile.faults import Faults
from equipoise.train.hostile.loss import CentresLost
from equipoise.train.hostile.run import HostileRun
from equipoise.train.hostile.sound import is_hostile, refuse_delayed_learning, refuse_unsound
from equipoise.train.hostile.state import HostileState
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.run import Run, Status
from equipoise.train.state import State, fingerprint


@dataclass(frozen=True, eq=False)
class Moment:
    """What a callback sees after a round: its number (1 is the first), the last recorded gap, and the state itself."""

    number: int
    rounds: int
    relative_gap: float
    state: Any  # State, or HostileState where there are faults

    @property
    def shares(self) -> Floats | None:
        shares: Floats | None = self.state.shares
        return shares

    @property
    def models(self) -> Floats | None:
        models: Floats | None = self.state.models
        return None if models is None else models.copy()


Callback = Callable[[Moment], object]


class Engine(Protocol):
    """Plays rounds somewhere else: makes states that look like State and HostileState."""

    def ordinary(self, problem: Problem, network: Network, method: Method, **options: Any) -> State: ...

    def hostile(
        self, problem: Problem, network: Network, method: Method, faults: Faults, **options: Any
    ) -> HostileState: ...

    def rescued(
        self, problem: Problem, network: Network, method: Method, faults: Faults, **options: Any
    ) -> HostileState: ...

    def report(self) -> Row:
        """Where rounds were played and what that took, as plain values."""


@on_one_thread
def solve(
    problem: Problem,
    network: Network,
    method: Method | None = None,
    *,
    rounds: int = 2000,
    seed: int = 0,
    target: float | None = None,
    patience: int | None = None,
    every: int | None = None,
    start: str | ArrayLike = "auto",
    batch: ArrayLike | None = None,
    faults: Faults | None = None,
    budgets: Mapping[int, float] | None = None,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 200,
    resume: str | Path | None = None,
    engine: Engine | None = None,
) -> Run:
    """Run `rounds` rounds, or fewer.

    target     stop once the gap is this part of the gap at the start (worse half of the two)
    patience   stop when the gap has not improved by 1% in this many rounds
    every      record history each so many rounds (default: as often as costs little beside the rounds themselves)
    start      y(0): "zeros", "random" (by seed), or an array; "auto" is model.start(seed) where a net has it, else zeros
    batch      samples a node draws each round for its gradient (a number, or one per node); None: all it has
    faults     what goes wrong on the network: losses, delays, crashes, joins, splits
    budgets    {round: CPUs}: before that round the budget becomes this; it enters or leaves inside the boxes
    callback   called after each round with a Moment; return True to stop
    checkpoint, resume   a file that keeps the run each `checkpoint_every` rounds and when stopped; go on from it
    engine     where rounds are played: equipoise.engine's workers; None: in this process
    """
    began = time.perf_counter()
    method = Method() if method is None else method
    if not isinstance(problem, Problem) or not isinstance(network, Network) or not isinstance(method, Method):
        given = ", ".join(type(part).__name__ for part in (problem, network, method))
        raise InputError(f"solve takes a Problem, a Network and a Method, not {given}", code="solve.type")
    _check(rounds, target, patience, every, checkpoint_every)
    if engine is not None and not (hasattr(engine, "ordinary") or hasattr(engine, "hostile")):
        raise InputError(f"engine takes equipoise.engine.Workers(count, on=...), not {engine!r}", code="engine.type")
    if faults is not None and not isinstance(faults, Faults):
        raise InputError(f"faults takes Faults(loss=..., crash=...), not {faults!r}", code="faults.type")
    state: Any  # both kinds have the same names
    book: Any
    if is_hostile(network, method, faults):
        faults = Faults() if faults is None else faults
        refuse_unsound(problem, network, method, faults, budgets)
        make: Any = HostileState if engine is None else engine.hostile
        state = make(problem, network, method, faults, rounds=rounds, seed=seed, start=start, batch=batch)
        book = HostileBook(problem, state)
        budgets = {}
    else:
        delay = 0 if faults is None else int(faults.delay)
        if delay:
            refuse_delayed_learning(problem)
        make = State if engine is None else engine.ordinary
        state = make(problem, network, method, seed=seed, start=start, budgets=budgets, batch=batch, delay=delay)
        budgets = _check_budgets(budgets, state, rounds)
        book = Book(problem, state)
    name = fingerprint(problem, state, seed, budgets, faults)
    every = every or _how_often(problem, rounds)
    number, relative, epoch = 0, np.inf, 0
    rescued: dict[int, int] = {}  # centres that were lost, and the round, where the run has gone on by ledgers since
    if resume is not None:
        memory = load_checkpoint(resume, name)
        number = int(memory["round"])
        if "rescued" in memory:  # it lost centres on its way, and went on in the other form
            rescued = dict(memory["rescued"].tolist())
            make = HostileState if engine is None else engine.hostile
            state = make(
                problem, network, method, Faults(crash=rescued), rounds=rounds, seed=seed, start=start, batch=batch
            )
            book = HostileBook(problem, state)
        state.restore(memory)
        epoch = state.epoch
        book.reprice(state)
        book.restore(memory)
        relative = book.rows[-1]["relative_gap"] if book.rows else np.inf
    else:
        book.watch(state)
        relative = book.write(state, 0)
    start_seconds = time.perf_counter() - began

    def keep() -> None:
        if checkpoint is not None:
            kept = state.memory() | book.memory() | {"round": np.array(number)}
            if rescued:
                kept["rescued"] = np.array(sorted(rescued.items()))
            save_checkpoint(checkpoint, kept, name)

    status: Status = "finished"
    reason = f"all {rounds} rounds played"
    while number < rounds:
        try:
            round = state.meet(number)
            if state.epoch != epoch:
                epoch = state.epoch
                book.reprice(state)
            if number in budgets:
                state.rebudget(budgets[number], round)
                book.reprice(state)
                book.watch(state)
            if callback is None and state.swift:
                due = _next_pause(
                    number, rounds, every, budgets, checkpoint_every if checkpoint is not None else rounds
                )
                played, diverged = state.hurry(round, number, due - number, book.auditor)
                number += played
                if played <= 0:  # centres were lost, and some rounds are played again without them
                    book.go_back(number)
            else:
                diverged = state.advance(round, number)
                number += 1
                if not diverged:
                    book.watch(state, round)
            if diverged:
                status, reason = "diverged", f"the {diverged} diverged in round {number}: {_advice(state)}"
                break
            if number % every == 0 or number == rounds:
                relative = book.write(state, number)
                if book.runaway():
                    status, reason = (
                        "diverged",
                        f"the {_measure(problem)} is {relative:.1e} times that at the start in round {number}: "
                        f"{_advice(state)}",
                    )
                    break
                waiting = any(later >= number for later in budgets) or state.last_event >= number
                if target is not None and abs(relative) <= target and not waiting:
                    status = "converged"
                    reason = f"the target {_measure(problem)} {target:g} was reached in round {number}"
                    break
                if patience is not None and number - book.best_round >= patience and not waiting:
                    status, reason = "stagnated", f"no progress in the last {patience} rounds"
                    break
            if checkpoint is not None and number % checkpoint_every == 0:
                keep()
            if callback is not None and _said_stop(callback(Moment(number, rounds, relative, state))):
                keep()
                if book.rows[-1]["round"] != number:
                    book.write(state, number)
                status, reason = "stopped", f"the callback stopped the run in round {number}"
                break
        except CentresLost as loss:
            number = loss.round
            book.go_back(number)
            if not loss.known:  # the survivors go on, by ledgers
                assert engine is not None
                rescued = dict.fromkeys(loss.nodes, loss.round)
                faults = Faults(crash=rescued)
                _refuse_loss(loss, problem, network, method, faults, budgets)
                start = "auto" if loss.models is None else loss.models
                state = engine.rescued(
                    problem, network, method, faults, rounds=rounds, seed=seed, start=start, batch=batch, after=loss
                )
                before, book = book, HostileBook(problem, state)
                book.go_on_from(before, network.n)
    if status != "diverged" and (not book.rows or book.rows[-1]["round"] != number):
        book.write(state, number)
    kind = Run if isinstance(state, State) else _hostile_run(state, book)
    return kind(
        problem=problem,
        network=network,
        method=method,
        seed=seed,
        status=status,
        reason=reason,
        rounds=number,
        target=target,
        budget=None if state.market is None else state.budget * state.market.grid.unit,
        asked=_asked(problem, budgets, number),
        shares=state.shares,
        models=None if state.models is None else state.models.copy(),
        cpu_optimum=book.cpu_optimum,
        model_optimum=book.model_optimum,
        history=book.history(),
        share_history=book.share_history(),
        link_bits=state.link_bits(),
        bit_parts=state.bit_parts(),
        tallies=state.tallies(),
        steps=state.steps,
        worst=book.auditor.worst,
        market=state.market,
        seconds=time.perf_counter() - began,
        start_seconds=start_seconds,
    )


def _refuse_loss(
    loss: CentresLost, problem: Problem, network: Network, method: Method, faults: Faults, budgets: Mapping[int, float]
) -> None:
    """Not every method can do without centres it has counted on."""
    try:
        refuse_unsound(problem, network, method, faults, budgets)
    except InputError as error:
        raise Failure(f"{loss}, and the run cannot go on without them: {error}") from None


def _hostile_run(state: HostileState, book: HostileBook) -> Callable[..., Run]:
    """With what happened, and what is still in flight."""
    unit = 0.0 if state.market is None else state.market.grid.unit
    return partial(
        HostileRun,
        model_scale=book.first.get("model", 1.0),
        faults=state.faults,
        events=tuple(state.happened),
        present=state.members.alive.copy(),
        in_flight=state.in_flight * unit,
        trouble=tuple(state.trouble),
        packets=state.packets,
        lost=state.lost,
        links_passed=state.links_passed,
    )


def _asked(problem: Problem, budgets: Mapping[int, float], number: int) -> float | None:
    """The budget the user asked for in the last round."""
    due = [at for at in budgets if at < number]
    return budgets[max(due)] if due else problem.budget


def _next_pause(number: int, rounds: int, every: int, budgets: Mapping[int, float], keep_every: int) -> int:
    """The next round after which something else is due: a row of history, a checkpoint, a new budget, the end."""
    regular = [(number // step + 1) * step for step in (every, keep_every)]
    return min([rounds, *regular, *(at for at in budgets if at > number)])


def _said_stop(answer: object) -> bool:
    """True or numpy's True; anything else a callback happens to return means go on."""
    return isinstance(answer, (bool, np.bool_)) and bool(answer)


def _how_often(problem: Problem, rounds: int) -> int:
    """Scoring every node's model on all data costs about as many gradients as there are nodes: do it that rarely."""
    if problem.model is None:
        return max(1, rounds // 2000)
    if not problem.model.convex:  # nobody knows its optimum, and a loss of all models on all data is many passes
        return max(1, rounds // 50)
    return max(1, rounds // 200, 1 if problem.model.quick_totals else min(problem.model.nodes, WITNESSES))


def _measure(problem: Problem) -> str:
    """What a target is a part of: a net has no gap, for nobody knows its optimum."""
    return "loss" if problem.model is not None and not problem.model.convex else "gap"


def _check(rounds: int, target: float | None, patience: int | None, every: int | None, checkpoint_every: int) -> None:
    whole = {"rounds": rounds, "checkpoint_every": checkpoint_every, "patience": patience, "every": every}
    for name, value in whole.items():
        if value is not None and not (isinstance(value, numbers.Integral) and value >= 1):
            raise InputError(f"{name} must be a whole number of at least 1, not {value!r}", code=f"{name}.range")
    if target is not None and not (isinstance(target, numbers.Real) and 0 < target < 1):
        raise InputError(
            f"target must be between 0 and 1, a part of the gap at the start, not {target!r}", code="target.range"
        )


def _check_budgets(budgets: Mapping[int, float] | None, state: State, rounds: int) -> dict[int, float]:
    """Changes of budget, each feasible."""
    if not budgets:
        return {}
    if state.market is None:
        raise InputError("budgets change a CPU budget, but the problem has no cost")
    for number, budget in budgets.items():
        if not (isinstance(number, numbers.Integral) and 0 <= number < rounds):
            raise InputError(f"budget change at round {number!r} is outside 0..{rounds - 1}", code="budget.round")
        state.market.snapped(budget)
    return dict(budgets)


def _advice(state: Any) -> str:
    steps = state.steps
    if steps.cpu_limit is not None and steps.step >= steps.cpu_limit:
        return f"step {steps.step:g} is past its limit {steps.cpu_limit:.4g}; lower it or use step='auto'"
    if steps.alpha is not None and steps.alpha_limit is not None and steps.alpha >= steps.alpha_limit:
        remedy = (
            "lower it or use alpha='auto'"
            if state.method.descent == 1.0
            else f"lower descent {state.method.descent:.3g}"
        )
        return f"alpha {steps.alpha:g} is past its limit {steps.alpha_limit:.4g}; {remedy}"
    if state.method.by_markets or state.method.by_meetings:
        return "lower rho, or cap"
    return "lower step, alpha or rho"
