"""Which steps a run takes, automatic or given, and the limits they are held against (docs/train.md, 3.6 and 3.7)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field

import numpy as np

from equipoise.errors import InputError
from equipoise.train import theory
from equipoise.train.arrays import Floats
from equipoise.train.dynamics.own import is_own
from equipoise.train.method import AUTO_DESCENT, AUTO_STEP, Method
from equipoise.train.models._base import Model
from equipoise.train.network import Network
from equipoise.train.problem import Market
from equipoise.train.spectrum import market_gap

DESCENT = 2.2  # of the averages: 1 / alpha in units of L; above 2 they are stable on any graph (docs/train.md, 3.6)
SLOW_NETWORK = 0.3  # a network's slowest mode is damped as if curvatures were this part of L
USUAL_MOMENTUM, SLOW_MOMENTUM = 0.7, 0.5
LARGEST_CAP = 0.98


class StepWarning(UserWarning):
    """A step was set past the limit of its theory."""


@dataclass(frozen=True)
class Steps:
    """The steps a run took and the limits they are held against."""

    step: float
    cpu_limit: float | None  # 2 e^(-rho/2) / lambda_max(L H)
    alpha: float | None
    alpha_limit: float | None  # 1 / (2 L) of averages; (2 - step lambda_max)^2 / (2 step L) along edges
    momentum: float = 0.0  # beta of the averages
    inertia: float | None = None  # theta of the markets: stable whatever it is
    links: dict[str, float] = field(default_factory=dict)  # of prices and models over links: stable whatever they are

    def used(self, method: Method) -> dict[str, float]:
        """Those that this method plays by, by name."""
        along_edges = (self.cpu_limit is not None) or (self.alpha is not None and not method.by_meetings)
        parts = {"step": self.step if along_edges else None, "alpha": self.alpha}
        parts |= {"momentum": self.momentum if method.by_meetings and self.alpha is not None else None}
        used = {name: value for name, value in (parts | {"inertia": self.inertia}).items() if value is not None}
        return used | self.links

    def worst(self) -> float:
        """The largest of the steps, each as a fraction of its limit."""
        parts = [0.0]
        if self.cpu_limit is not None:
            parts.append(self.step / self.cpu_limit)
        if self.alpha is not None and self.alpha_limit is not None:
            parts.append(self.alpha / self.alpha_limit if self.alpha_limit > 0 else np.inf)
        return float(max(parts))


def known_smoothness(model: Model) -> Floats:
    smoothness = model.smoothness()
    if not (np.isfinite(smoothness).all() and (smoothness >= 0).all() and smoothness.max() > 0):
        raise InputError(
            f"{type(model).__name__}.smoothness() must be finite and positive; the largest is {smoothness.max()}"
        )
    return smoothness


def choose_steps(
    market: Market | None,
    model: Model | None,
    smoothness: Floats | None,
    network: Network,
    method: Method,
    delay: int = 0,
) -> Steps:
    """The steps, automatic or given, with their limits; a given one past its limit is warned about by name."""
    rho = method.quantizer.rho
    cpu_limit = mixing = inertia = None
    gap = slowest_gap(network) if method.by_markets or method.by_meetings else 1.0
    if method.cpu == "links":
        market = None
    if method.learning == "links" or is_own(method.learning):
        model = smoothness = None
    if market is not None and method.by_markets:
        inertia = market_inertia(gap)
    elif market is not None:
        curvature = market.curvature * method.curvature_factor
        top = theory.top_eigenvalue(network, method.cpu_weights, curvature)
        cpu_limit = min(theory.step_limit(top, rho), theory.delay_limit(delay, top) / method.sector)
    if smoothness is not None and not method.by_meetings:
        mixing = theory.top_eigenvalue(network, method.model_weights)
    step = _auto_step(cpu_limit, mixing, method, delay) if method.step == "auto" else float(method.step)
    alpha = alpha_limit = None
    momentum = 0.0
    if model is not None and smoothness is not None and method.by_meetings:
        L = float(smoothness.max())
        alpha_limit = theory.meeting_limit(L)
        alpha, momentum = meeting_steps(gap, L, method.sector, model, method.cap)
        alpha *= method.descent
    if smoothness is not None and mixing is not None:
        L = float(smoothness.max())
        alpha_limit = theory.alpha_limit(step, mixing, L)
        if method.alpha != "auto":
            alpha = float(method.alpha)
        elif method.name == "paper":
            alpha = 0.5 * theory.paper_alpha(theory.smallest_connectivity(network, method.model_weights), L)
            alpha *= method.descent
        else:
            alpha = method.descent * AUTO_DESCENT / method.sector / (step * L)
    if cpu_limit is not None and step >= cpu_limit:
        _warn(f"step {step:g} is past its limit {cpu_limit:.4g} for these costs and this network: CPU may diverge")
    holds = method.descent == 1.0 or model is None or model.convex  # a net's is an estimate, and was passed on purpose
    if alpha is not None and alpha_limit is not None and alpha >= alpha_limit and holds:
        _warn(f"alpha {alpha:g} is past its limit {alpha_limit:.4g} at step {step:g}: the models may diverge")
    return Steps(step, cpu_limit, alpha, alpha_limit, momentum, inertia)


def _warn(text: str) -> None:
    warnings.warn(text, StepWarning, stacklevel=5)


def slowest_gap(network: Network) -> float:
    """1 - tau of a static network; where neighbours change no mode lasts, and a half stands for fast."""
    fixed = network.static and not network.directed
    return min(0.5, market_gap(network.topology(0))) if fixed else 0.5


def market_inertia(gap: float) -> float:
    """theta = 1 / (2 sqrt(tau (1 - tau))): critical damping of the slowest mode of prices (docs/train.md, 3.7)."""
    return 1.0 / (2.0 * math.sqrt((1.0 - gap) * max(gap, 1e-12)))


def meeting_steps(gap: float, L: float, sector: float, model: Model, cap: float | str) -> tuple[float, float]:
    """alpha and beta of the averages (docs/train.md, 3.7): below 1 / (2 L), smaller where the network is slow; momentum for
    the conditioning k that a ridge guarantees, 1 - 2 / sqrt(k), else a usual one."""
    steepness = L * max(DESCENT * sector, SLOW_NETWORK / (2.0 * math.sqrt(gap)))
    usual = USUAL_MOMENTUM if steepness <= DESCENT * sector * L else SLOW_MOMENTUM
    if cap != "auto":
        return 1.0 / steepness, float(cap)
    conditioning = model.nodes * steepness / model.convexity if model.convexity > 0 else 0.0
    return 1.0 / steepness, max(usual, min(LARGEST_CAP, 1.0 - 2.0 / math.sqrt(max(conditioning, 4.0))))


def _auto_step(cpu_limit: float | None, mixing: float | None, method: Method, delay: int) -> float:
    """0.6 e^(-rho/2) on curvature and Metropolis weights, from local information; else the same part of the limit."""
    choices = []
    if cpu_limit is not None:
        choices.append(1.0 / method.sector if method.cpu_weights == "curvature" and not delay else cpu_limit)
    if mixing is not None:
        choices.append(1.0 / method.sector if method.model_weights == "metropolis" else 1.0 / (mixing * method.sector))
    return AUTO_STEP * min(c for c in choices if math.isfinite(c)) if any(map(math.isfinite, choices)) else AUTO_STEP
