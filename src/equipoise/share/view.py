"""What a policy sees and what it answers. Nothing here tells a task's true curve, its work, or a delay not yet over."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError, refuse_negative
from equipoise.kernels import Bools, Floats, Ints
from equipoise.share.divide import equal, greedy
from equipoise.share.site import Site
from equipoise.share.task import COMPUTING, DELAYED, SENDING

if TYPE_CHECKING:
    from equipoise.share.recording import Recording


class View(NamedTuple):
    """One step, for many seeds at once: every array has the shape (n_seeds, n_tasks).

    A task that has not arrived shows zeros (target 1). `error` is what was last observed, 1 before that.
    The arrays are a copy, in which every step writes only what changed: keep what you need with .copy(), and write on
    them only to mislead yourself. The engine never reads them.
    """

    step: int
    state: NDArray[np.int8]
    arrival: Ints
    deadline: Ints
    data: Floats
    data_left: Floats
    target: Floats
    samples: Floats  # computed so far
    error: Floats  # observed after the last step it computed in, with noise
    observations: Ints  # how many errors were observed
    observed: Bools  # whether the last step brought one
    first_error: Floats  # observed when it became able to compute, where the site looks then; else 1
    ready: Ints  # step from which it could compute; -1 before
    task_cap: Floats  # samples per step that the task may get: the least of the site's limit and its own
    capacity: float  # samples per step, whole site
    bandwidth: float  # samples per step; what a policy decides of it counts where the site says so
    servers: int
    part: float  # of the site that one task may get at most, whatever its own limit
    delay: float  # mean steps of the network's delay

    @property
    def sending(self) -> Bools:
        return np.asarray(self.state == SENDING)

    @property
    def delayed(self) -> Bools:
        return np.asarray(self.state == DELAYED)

    @property
    def computing(self) -> Bools:
        return np.asarray(self.state == COMPUTING)

    @property
    def active(self) -> Bools:
        """Sending, delayed or computing: in the site, though it may not be able to compute."""
        return (self.state >= SENDING) & (self.state <= COMPUTING)

    @property
    def time_left(self) -> Ints:
        """Steps in which a task may still compute, this one included; at least 1."""
        return np.maximum(self.deadline - self.step, 1)


class Decision(NamedTuple):
    """Bandwidth and compute for this step, samples per step, in the view's shape; and, if it matters, which server."""

    bandwidth: Floats
    compute: Floats
    server: Ints | None = None  # a home for each computing task; -1 lets the engine choose
    order: Ints | None = None  # ranks, in which tasks are run: matters only where one generator draws all noise


def served(view: View, compute: Floats) -> Decision:
    """This compute, and equal parts of the uplink."""
    return Decision(equal(view.sending, view.data_left, view.bandwidth), compute)


def in_turn(view: View, sends: Floats | Ints, computes: Floats | Ints, who: Bools | None = None) -> Decision:
    """All that each can use, the smallest keys first; `who` of the computing tasks, all if None."""
    who = view.computing if who is None else who
    uplink = greedy(sends, view.sending, view.data_left, view.bandwidth)
    return Decision(uplink, greedy(computes, who, view.task_cap, view.capacity))


@dataclass(frozen=True)
class Prior:
    """What is believed of a curve before it is seen: mean and covariance of (ln a, b), and how often that was wrong.

    `surprise` is the mean squared move of an early estimate, in its own standard deviations (1 if the law is right).
    """

    mean: tuple[float, float] = (0.0, 0.36)
    variance: tuple[float, float, float] = (0.02, 0.0, 0.005)  # of ln a, covariance, of b
    surprise: float = 1.0
    curves: Recording | None = None  # curves seen before, if there are any

    def __post_init__(self) -> None:
        log_a, both, b = self.variance
        if not all(map(math.isfinite, (*self.mean, *self.variance))) or min(log_a, b, log_a * b - both * both) <= 0:
            wanted = "finite numbers, variance as (of ln a, covariance, of b), positive definite"
            why = f"Prior: mean {self.mean} and variance {self.variance} of (ln a, b); expected {wanted}"
            raise InputError(why, code="prior.form")
        refuse_negative("Prior", surprise=self.surprise)


@dataclass(frozen=True)
class Truth:
    """The work of every task, for clairvoyant twins only."""

    work: Floats


@dataclass(frozen=True)
class Scene:
    """What a policy that keeps a memory is told before the first step. `truth` is None unless it is clairvoyant."""

    site: Site
    prior: Prior
    seeds: int
    tasks: int
    steps: int
    truth: Truth | None = None


@runtime_checkable
class Policy(Protocol):
    """One method. A policy with a memory also has `start(scene)`, which returns a fresh one for each run.

    One that never looks at `view.error` may say `blind = True`: its errors stay 1, and no noise need be drawn.
    """

    def decide(self, view: View) -> Decision: ...


def is_blind(policy: Any) -> bool:
    """Whether its own class says that it never looks at errors; what a parent says does not count."""
    return bool(vars(type(policy)).get("blind", False))


def is_frugal(policy: Any) -> bool:
    """Whether its own class says that it leaves compute idle by design; what a parent says does not count."""
    return bool(vars(type(policy)).get("frugal", False))


def name_of(policy: object) -> str:
    """How a policy is called in tables: what it was `called`, its label, or its class; a clairvoyant twin says so.

    A class made from a policy that learns has no label unless it states one: it is not its parent.
    """
    learns = hasattr(policy, "estimator")
    label = vars(type(policy)).get("label") if learns else getattr(policy, "label", None)
    name = getattr(policy, "called", "") or label or type(policy).__name__
    return f"{name}{' (clairvoyant)' if learns and getattr(policy, 'clairvoyant', False) else ''}"
