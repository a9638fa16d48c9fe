"""The main loop: negotiate shares and train, round by round (docs/train.md, 2)."""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from equipoise.document import Row
from equipoise.errors import InputError
from equipoise.parallel import on_one_thread
from equipoise.train.arrays import Floats
from equipoise.train.audit import WITNESSES
from equipoise.train.book import Book, HostileBook, counted
from equipoise.train.checkpoint import load_checkpoint, save_checkpoint
from equipoise.train.choose import choose, is_hostile, refuse_delayed_learning, refuse_unsound
from equipoise.train.hostile.faults import Faults
from equipoise.train.hostile.run import HostileRun
from equipoise.train.hostile.state import HostileState
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Market, Problem
from equipoise.train.run import Run, Status
from equipoise.train.state import State, fingerprint

WATCHED = 16  # first rounds, whose every word is held against its code and its link ...
MOST_WATCHED = 10_000  # ... on networks of up to so many nodes: beyond, looking would take longer than the rounds
MOST_KEPT = 10_000_000  # nodes x rounds up to which the shares of every round are kept


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

    def report(self) -> Row:
        """Where rounds were played and what that took, as plain values."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """How a run begins, is watched, stopped and kept.

    every      record history each so many rounds (default: as often as costs little beside the rounds themselves)
    patience   stop when the gap has not improved by 1% in this many rounds
    callback   called after each round with a Moment; return True to stop
    checkpoint, resume   a file that keeps the run each `checkpoint_every` rounds and when stopped; go on from it
    start      y(0): "zeros", "random" (by seed), or an array; "auto" is model.start(seed) where a net has it, else zeros
    batch      samples a node draws each round for its gradient (a number, or one per node); None: all it has
    budgets    {round: CPUs}: before that round the budget becomes this; it enters or leaves inside the boxes
    engine     where rounds are played: equipoise.engine's workers; None: in this process
    """

    every: int | None = None
    patience: int | None = None
    callback: Callback | None = None
    checkpoint: str | Path | None = None
    checkpoint_every: int = 200
    resume: str | Path | None = None
    start: str | ArrayLike = "auto"
    batch: ArrayLike | None = None
    budgets: Mapping[int, float] | None = None
    engine: Engine | None = None

    def __post_init__(self) -> None:
        for name in ("every", "patience", "checkpoint_every"):
            refuse_uncountable(name, getattr(self, name))
        if self.engine is not None and not hasattr(self.engine, "ordinary"):
            raise InputError(
                f"engine takes equipoise.engine.Workers(count, on=...), not {self.engine!r}", code="engine.type"
            )


@on_one_thread
def solve(
    problem: Problem,
    network: Network,
    method: Method | None = None,
    *,
    rounds: int = 2000,
    target: float | None = None,
    seed: int = 0,
    faults: Faults | None = None,
    control: Control | None = None,
    **settings: Any,
) -> Run:
    """Run `rounds` rounds, or fewer.

    target     stop once the gap is this part of the gap at the start (worse half of the two)
    faults     what goes wrong on the network: losses, delays, crashes, joins, splits
    control    how the run begins, is watched, stopped and kept; its fields are also taken by name, as `settings`
    """
    loop = Loop(problem, network, method or Method(), rounds, target, seed, faults, controlled(control, settings))
    loop.begin()
    while loop.number < rounds and loop.status is None:
        loop.play()  # a round, or as many as nobody looks at
        loop.judge()  # history and the rules to stop
        loop.look_in()  # checkpoint and callback
    return loop.result()


def controlled(control: Control | None, settings: dict[str, Any]) -> Control:
    """Control with these fields changed; a name that it does not have is refused."""
    known = [field.name for field in fields(Control)]
    for name in settings:
        if name not in known:
            raise InputError(f"solve has no setting {name!r}; Control takes {', '.join(known)}", code="solve.setting")
    return replace(control or Control(), **settings)


class Loop:
    """A run on its way: its state, its history, and whether it is over."""

    def __init__(
        self,
        problem: Problem,
        network: Network,
        method: Method,
        rounds: int,
        target: float | None,
        seed: int,
        faults: Faults | None,
        control: Control,
    ) -> None:
        self.began = time.perf_counter()
        refuse_wrong_types(problem, network, method, faults)
        refuse_uncountable("rounds", rounds)
        if target is not None and not (isinstance(target, numbers.Real) and 0 < target < 1):
            raise InputError(
                f"target must be between 0 and 1, a part of the gap at the start, not {target!r}", code="target.range"
            )
        self.problem, self.network, self.rounds, self.target, self.seed = problem, network, rounds, target, seed
        self.control, self.number, self.relative, self.epoch = control, 0, np.inf, 0
        self.status: Status | None = None
        self.reason = f"all {rounds} rounds played"
        self.method = choose(method, problem, network, faults, control.batch)
        self.budgets: dict[int, float] = {}
        self.state: Any  # all kinds have the same names
        self.book: Any
        if is_hostile(network, self.method, faults):
            self._prepare_hostile(faults or Faults())
        else:
            self._prepare(0 if faults is None else int(faults.delay))
        self.book.auditor.keeps = problem.cost is not None and network.n * rounds <= MOST_KEPT
        self.name = fingerprint(problem, self.state, seed, self.budgets, faults)
        self.every = control.every or how_often(problem, rounds)

    def _prepare(self, delay: int) -> None:
        problem, network, control = self.problem, self.network, self.control
        if delay:
            refuse_delayed_learning(problem)
        options: dict[str, Any] = {"seed": self.seed, "start": control.start, "budgets": control.budgets}
        options |= {"batch": control.batch, "delay": delay}
        make: Any = State if control.engine is None else control.engine.ordinary
        self.state = make(problem, network, self.method, **options)
        self.budgets = checked_budgets(control.budgets, self.state, self.rounds)
        self.book = Book(problem, self.state)

    def _prepare_hostile(self, faults: Faults) -> None:
        control = self.control
        refuse_unsound(self.problem, self.network, self.method, faults, control.budgets)
        make: Any = HostileState if control.engine is None else control.engine.hostile
        options = {"rounds": self.rounds, "seed": self.seed, "start": control.start, "batch": control.batch}
        self.state = make(self.problem, self.network, self.method, faults, **options)
        self.book = HostileBook(self.problem, self.state)

    def begin(self) -> None:
        """The first row, or the last one of a checkpoint."""
        if self.control.resume is not None:
            memory = load_checkpoint(self.control.resume, self.name)
            self.number = int(memory["round"])
            self.state.restore(memory)
            self.epoch = self.state.epoch
            self.book.reprice(self.state)
            self.book.restore(memory)
            self.relative = self.book.rows[-1]["relative_gap"] if self.book.rows else np.inf
        else:
            self.book.watch(self.state)
            self.relative = self.book.write(self.state, 0)
            if self._arrived():  # a start that is already optimal needs no rounds
                self._end("converged", f"the target {self._measure} {self.target:g} was reached at the start")
        self.start_seconds = time.perf_counter() - self.began

    def play(self) -> None:
        """One round, or all until something else is due."""
        state, number = self.state, self.number
        graph = state.meet(number)
        if state.epoch != self.epoch:
            self.epoch = state.epoch
            self.book.reprice(state)
        if number in self.budgets:
            state.rebudget(self.budgets[number], graph)
            self.book.reprice(state)
            self.book.watch(state)
        words = state.words(number) if number < WATCHED and self.network.n <= MOST_WATCHED else []
        if self.control.callback is None and state.swift:
            count = 1 if words else self._next_pause() - number
            played, diverged = state.hurry(graph, number, count, self.book.auditor)
            self.number += played
        else:
            diverged = state.advance(graph, number)
            self.number += 1
            if not diverged:
                self.book.watch(state, graph)
        if words and not diverged:
            self.book.auditor.watch_words(words, state.words(number), state.links_met(number), graph)
        if diverged:
            self._end("diverged", f"the {diverged} diverged in round {self.number}: {advice(state)}")

    def judge(self) -> None:
        """A row of history where one is due, and whether the run is over."""
        if self.status is not None or not (self.number % self.every == 0 or self.number == self.rounds):
            return
        self.relative = self.book.write(self.state, self.number)
        patience = self.control.patience
        if self.book.runaway():
            times = f"the {self._measure} is {self.relative:.1e} times that at the start in round {self.number}"
            self._end("diverged", f"{times}: {advice(self.state)}")
        elif self._arrived():
            self._end("converged", f"the target {self._measure} {self.target:g} was reached in round {self.number}")
        elif patience is not None and self.number - self.book.best_round >= patience and not self._waiting():
            self._end("stagnated", f"no progress in the last {patience} rounds")

    def look_in(self) -> None:
        """A checkpoint where one is due, and the user's own look."""
        control = self.control
        if self.status == "diverged":
            return
        if self.number % control.checkpoint_every == 0 and self.status is None:
            self._keep()
        if control.callback is not None:
            answer = control.callback(Moment(self.number, self.rounds, self.relative, self.state))
            # True or numpy's True; anything else a callback happens to return means go on.
            if isinstance(answer, (bool, np.bool_)) and answer and self.status is None:
                self._keep()
                self._end("stopped", f"the callback stopped the run in round {self.number}")

    def result(self) -> Run:
        """What the run leaves behind."""
        state, book = self.state, self.book
        if self.status != "diverged" and (not book.rows or book.rows[-1]["round"] != self.number):
            book.write(state, self.number)
        kind: Any = Run if isinstance(state, State) else hostile_run(state, book)
        run: Run = kind(
            problem=self.problem,
            network=self.network,
            method=self.method,
            seed=self.seed,
            status=self.status or "finished",
            reason=self.reason,
            rounds=self.number,
            target=self.target,
            budget=None if state.market is None else state.budget * state.market.grid.unit,
            asked=self._asked(),
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
            units=np.concatenate(book.auditor.kept) if book.auditor.kept else None,
            unit_budgets=np.array(book.auditor.kept_budgets, dtype=np.int64),
            market=as_at_the_end(state.market),
            scales={half: gap for half, gap in book.first.items() if half != "loss"},
            seconds=time.perf_counter() - self.began,
            start_seconds=self.start_seconds,
        )
        return run

    def _end(self, status: Status, reason: str) -> None:
        self.status, self.reason = status, reason

    def _arrived(self) -> bool:
        return self.target is not None and abs(self.relative) <= self.target and not self._waiting()

    def _waiting(self) -> bool:
        """Whether something is still to happen that a run must not stop before."""
        return any(later >= self.number for later in self.budgets) or self.state.last_event >= self.number

    def _keep(self) -> None:
        if self.control.checkpoint is not None:
            kept = self.state.memory() | self.book.memory() | {"round": np.array(self.number)}
            save_checkpoint(self.control.checkpoint, kept, self.name)

    def _next_pause(self) -> int:
        """The next round after which something else is due: a row of history, a checkpoint, a new budget, the end."""
        number = self.number
        steps = [self.every] + ([self.control.checkpoint_every] if self.control.checkpoint is not None else [])
        regular = [(number // step + 1) * step for step in steps]
        return min([self.rounds, *regular, *(at for at in self.budgets if at > number)])

    def _asked(self) -> float | None:
        """The budget the user asked for in the last round."""
        due = [at for at in self.budgets if at < self.number]
        return self.budgets[max(due)] if due else self.problem.budget

    @property
    def _measure(self) -> str:
        """What a target is a part of: a net has no gap, for nobody knows its optimum."""
        return "loss" if self.problem.model is not None and not self.problem.model.convex else "gap"


def hostile_run(state: HostileState, book: HostileBook) -> Callable[..., Run]:
    """With what happened, and what is still in flight."""
    unit = 0.0 if state.market is None else state.market.grid.unit
    return partial(
        HostileRun,
        model_scale=book.first.get("model", 1.0),
        faults=state.faults,
        events=tuple(state.happened),
        present=state.members.alive.copy(),
        known=state.members.known.copy(),
        counted=counted(state),
        in_flight=state.in_flight * unit,
        trouble=tuple(state.trouble),
        packets=state.packets,
        lost=state.lost,
        links_passed=state.links_passed,
    )


def as_at_the_end(market: Market | None) -> Market | None:
    """A cost that moves goes on moving when its problem is solved again: a run keeps what it was at the end."""
    moves = market is not None and getattr(market.cost, "moves", False)
    return replace(market, cost=copy(market.cost)) if market is not None and moves else market


def how_often(problem: Problem, rounds: int) -> int:
    """Scoring every node's model on all data costs about as many gradients as there are nodes: do it that rarely."""
    if problem.model is None:
        return max(1, rounds // 2000)
    if not problem.model.convex:  # nobody knows its optimum, and a loss of all models on all data is many passes
        return max(1, rounds // 50)
    return max(1, rounds // 200, 1 if problem.model.quick_totals else min(problem.model.nodes, WITNESSES))


def refuse_wrong_types(problem: object, network: object, method: object, faults: object) -> None:
    if not isinstance(problem, Problem) or not isinstance(network, Network) or not isinstance(method, Method):
        given = ", ".join(type(part).__name__ for part in (problem, network, method))
        raise InputError(f"solve takes a Problem, a Network and a Method, not {given}", code="solve.type")
    if faults is not None and not isinstance(faults, Faults):
        raise InputError(f"faults takes Faults(loss=..., crash=...), not {faults!r}", code="faults.type")


def refuse_uncountable(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, numbers.Integral) and int(value) >= 1):
        raise InputError(f"{name} must be a whole number of at least 1, not {value!r}", code=f"{name}.range")


def checked_budgets(budgets: Mapping[int, float] | None, state: State, rounds: int) -> dict[int, float]:
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


def advice(state: Any) -> str:
    """What to change where a run diverged."""
    steps = state.steps
    if steps.cpu_limit is not None and steps.step >= steps.cpu_limit:
        return f"step {steps.step:g} is past its limit {steps.cpu_limit:.4g}; lower it or use step='auto'"
    if steps.alpha is not None and steps.alpha_limit is not None and steps.alpha >= steps.alpha_limit:
        descent = state.method.descent
        remedy = "lower it or use alpha='auto'" if descent == 1.0 else f"lower descent {descent:.3g}"
        return f"alpha {steps.alpha:g} is past its limit {steps.alpha_limit:.4g}; {remedy}"
    if isinstance(state.method.learning, type):
        return f"shorten the steps of {state.method.learning.__name__}; are all numbers of the problem finite?"
    if "links" in (state.method.cpu, state.method.learning):
        return "lower rho; are all numbers of the problem finite?"
    if state.method.by_markets or state.method.by_meetings:
        return "lower rho, or cap"
    return "lower step, alpha or rho"
