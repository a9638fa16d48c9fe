"""Everything theory says of one problem on one network, in plain numbers and without a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, cast

import numpy as np

from equipoise.document import Document, Plain, plain
from equipoise.errors import InputError
from equipoise.kernels import Floats
from equipoise.parallel import one_thread
from equipoise.result import Result
from equipoise.train.baselines._track import Recorder
from equipoise.train.choose import choose
from equipoise.train.costs.quadratic import Quadratic
from equipoise.train.dynamics.prices import Prices
from equipoise.train.dynamics.summed import Summed
from equipoise.train.method import Method
from equipoise.train.models._base import Model
from equipoise.train.network import Network
from equipoise.train.problem import Market, Problem
from equipoise.train.recount import Sent
from equipoise.train.run import message_of
from equipoise.train.spec import TrainSpec
from equipoise.train.state import State
from equipoise.train.steps import Steps, choose_steps, known_smoothness
from equipoise.train.theory.bounds import (
    alpha_limit,
    delay_limit,
    graphs_looked_at,
    node_residual,
    paper_alpha,
    sector,
    smallest_connectivity,
    top_eigenvalue,
)
from equipoise.train.theory.closed_loop import FLAT, ClosedLoop, bend_at, convex_crossing, hessians, mixing
from equipoise.train.theory.predict import (
    DENSE_MODEL,
    DENSE_STATE,
    predict_cpu,
    predict_learning,
    predict_link_models,
    predict_link_prices,
    rounds_to,
    total_curvature,
)
from equipoise.train.truth import optimal_model

Notes = dict[str, str]  # by field: where its number comes from, or why there is none

DIAMETER_NODES = 2000
SPARSE_STATE = 20_000  # n m up to which the crossing is sought by Lanczos
CROSSING_TOLERANCE = 1e-6  # relative
DELAYS = (1, 2, 5)  # rounds
SWEPT = (0.01, 1.5)  # of the crossing: where a sweep of alpha begins and ends
TOO_LARGE = "not computed: too large"
NO_THEORY = "no theory of {}: they are for graphs that never repeat"
ALONE = "a node alone has nobody to negotiate with"
NO_ALPHA = "there is no alpha over links: they are stable whatever their weights are"


@dataclass(frozen=True, repr=False)
class Analysis(Result):
    """None where a half is absent, or where `notes` says why there is no number. Rounds are to `target`.

    `cpu` and `learning` name the dynamics that would be played. Over links there is no alpha and nothing to tune: `theta`s
    are how hard neighbours pull, beside a node's own curvature. Markets and averages have their steps, and no theory: they
    are for graphs that never repeat. `alpha`, `alpha_limit` and `crossing_alpha` are of the method's own rounds;
    `tracking_limit` and `tracking_crossing` are of the paper's gradient tracking along edges at `step`, and the same where
    that is the method.
    """

    nodes: int
    graphs: int | None  # taken in turn; None where each round has a fresh one
    edges: float  # mean over the graphs looked at
    smallest_degree: int
    largest_degree: int
    diameter: int | None
    target: float
    rho: float
    sector_low: float
    sector_high: float
    bits_a_number: int
    bits_a_round: float
    step: float
    cpu: str | None = None  # links, markets or flows
    learning: str | None = None  # links, averages or mixing
    link_gap: float | None = None  # over links: 1 - the second eigenvalue of the normalised adjacency of all graphs
    cpu_theta: float | None = None  # over links: sum of a node's link weights, in its elasticities
    cpu_relax: float | None = None
    model_theta: float | None = None  # over links: the same of models, in L
    model_relax: float | None = None
    local_steps: int | None = None  # over links: of a node's own gradient in a round
    inertia: float | None = None  # theta of the markets
    cpu_top: float | None = None
    cpu_step_limit: float | None = None
    delay_limits: dict[int, float] = field(default_factory=dict)
    cpu_rounds: float | None = None
    parameters: int | None = None
    mixing_second: float | None = None
    mixing_top: float | None = None
    smoothness: float | None = None
    convexity: float | None = None
    conditioning: float | None = None
    alpha: float | None = None
    alpha_limit: float | None = None
    momentum: float | None = None  # beta of the averages
    paper_alpha: float | None = None
    crossing_alpha: float | None = None
    tracking_limit: float | None = None
    tracking_crossing: float | None = None
    crossing_alpha_in_time: float | None = None
    learning_rounds: float | None = None
    notes: dict[str, str] = field(default_factory=dict)
    description: str = field(default="", kw_only=True)  # of the network
    node_residual: float | None = field(default=None, kw_only=True)  # nan: there is one, but no formula for it
    swept: list[dict[str, float]] | None = field(default=None, kw_only=True)  # rows of `sweep`
    spec: TrainSpec | None = field(default=None, kw_only=True)  # what it was built from

    def __repr__(self) -> str:
        rounds = {"CPU": self.cpu_rounds, "learning": self.learning_rounds}
        told = ", ".join(f"{half} in {value:.0f} rounds" for half, value in rounds.items() if value is not None)
        return f"<Analysis of {self.nodes} nodes: {told or 'no rounds predicted'}>"

    def document(self, *, certify: bool = True) -> Document:
        """Plain values. Nothing was run, so there is no certificate."""
        return Document("train analyse", self.as_dict(), config=self.settings())

    def as_dict(self) -> dict[str, Plain]:
        """Plain values fit for JSON; a number that is not finite becomes None."""
        own = {field.name: getattr(self, field.name) for field in fields(self) if not field.kw_only}
        found: dict[str, object] = own | {"node_residual": self.node_residual}
        return cast("dict[str, Plain]", plain(found if self.swept is None else found | {"sweep": self.swept}))


def analyse(problem: Problem, network: Network, method: Method | None = None, *, target: float = 1e-4) -> Analysis:
    """Spectra, limits, chosen steps, bits and predicted rounds. Seconds, up to 1e5 nodes."""
    method = Method() if method is None else method
    if not 0 < target < 1:
        raise InputError(
            f"target must be between 0 and 1, a part of the gap at the start, not {target!r}", code="target.range"
        )
    with one_thread():
        return _analyse(problem, network, method, target)


def _analyse(problem: Problem, network: Network, method: Method, target: float) -> Analysis:
    method = choose(method, problem, network)
    market, model = problem.market(problem.sized(network.n)), problem.model
    state = State(problem, network, method) if "links" in (method.cpu, method.learning) else None
    smoothness = None if model is None else known_smoothness(model)
    steps = choose_steps(market, model, smoothness, network, method)
    notes: Notes = {}
    found = _network(network, notes) | _messages(problem, network, method, market)
    found |= {} if state is None else {"link_gap": state.gap}
    if market is not None:
        found |= _cpu(market, network, method, steps, state, target, notes)
    if model is not None and smoothness is not None:
        found |= _learning(model, smoothness, network, method, steps, state, target, notes)
    return Analysis(target=target, step=steps.step, notes=notes, **found)


def sweep(problem: Problem, network: Network, method: Method, points: int = 12) -> list[dict[str, float]]:
    """Rows of alpha, the spectral radius of a round, and the largest real part in continuous time, to past the crossing.

    Alpha is that of gradient tracking along edges: the method's own, or beside it the paper's. On the graph that crosses
    first. Needs nodes x parameters of at most DENSE_STATE.
    """
    model = problem.model
    if model is None:
        raise InputError("a sweep of alpha needs a model: this problem has only CPU costs", code="problem.model")
    if network.n * model.size > DENSE_STATE:
        raise InputError(
            f"a sweep of alpha needs nodes x parameters of at most {DENSE_STATE}, not {network.n} x {model.size}: "
            "take fewer nodes or a smaller model",
            code="sweep.size",
        )
    with one_thread():
        return _sweep(problem, model, network, choose(method, problem, network), points)


def _sweep(problem: Problem, model: Model, network: Network, method: Method, points: int) -> list[dict[str, float]]:
    step = choose_steps(problem.market(network.n), model, known_smoothness(model), network, method).step
    loops = _loops(model, network, method)
    crossings = _tracking_crossings(loops, model, network, method, step)
    first = int(np.argmin(crossings))
    crossing, loop = crossings[first], loops[first]
    if not 0 < crossing < math.inf:
        raise InputError(f"no alpha is stable at step {step:g}: lower it or use step auto")
    alphas = np.unique(np.append(crossing * np.geomspace(*SWEPT, points), crossing)).tolist()
    return [{"alpha": a, "radius": loop.radius(a, step), "abscissa": loop.abscissa(a)} for a in alphas]


def _network(network: Network, notes: Notes) -> dict[str, Any]:
    graphs, diameter = graphs_looked_at(network), None
    if network.n <= DIAMETER_NODES and network.period is not None:
        diameter = max(graph.diameter for graph in graphs)
    else:
        notes["diameter"] = TOO_LARGE if network.n > DIAMETER_NODES else "not computed: every round has another graph"
    return {
        "nodes": network.n,
        "graphs": network.period,
        "edges": float(np.mean([g.edges for g in graphs])),
        "smallest_degree": int(min(g.degree.min() for g in graphs)),
        "largest_degree": int(max(g.degree.max() for g in graphs)),
        "diameter": diameter,
    }


def _messages(problem: Problem, network: Network, method: Method, market: Market | None) -> dict[str, Any]:
    """On every directed link a price, a model, and what a market or meeting answers, or a tracker; the rest comes on top.

    The more neighbours a node can have, the more bits an answer has. Over links nobody answers, and a price comes with one
    flag, or with two where there are boxes.
    """
    quantizer, costs = method.quantizer, market is not None
    low, high = sector(quantizer.rho, getattr(quantizer, "rounding", "nearest")) if quantizer.rho else (1.0, 1.0)
    graphs = graphs_looked_at(network)
    links = 2.0 * float(np.mean([graph.edges for graph in graphs]))
    size = 0 if problem.model is None else problem.model.size
    boxed = market is not None and market.boxed
    a_round = links * Sent(network, method, costs, boxed, size, 0).steady
    return {
        "rho": quantizer.rho,
        "sector_low": low,
        "sector_high": high,
        "bits_a_number": message_of(method, network, problem)["bits"],
        "bits_a_round": a_round,
    }


def _cpu(
    market: Market, network: Network, method: Method, steps: Steps, state: State | None, target: float, notes: Notes
) -> dict[str, Any]:
    found: dict[str, Any] = {"cpu": method.cpu, "inertia": steps.inertia}
    predicted, missing = None, TOO_LARGE if network.n > 1 else ALONE
    if state is not None and isinstance(state.allocation, Prices):
        rule = state.allocation.rule
        found |= {"cpu_theta": rule.theta, "cpu_relax": rule.relax}
        predicted = predict_link_prices(state, state.allocation)
    elif method.by_markets:
        missing = NO_THEORY.format("markets") if network.n > 1 else ALONE
    else:
        top = top_eigenvalue(network, method.cpu_weights, market.curvature * method.curvature_factor)
        found |= {"cpu_top": top, "cpu_step_limit": steps.cpu_limit}
        found["delay_limits"] = {delay: delay_limit(delay, top) for delay in DELAYS}
        predicted = predict_cpu(market, network, method, steps)
    notes["cpu_rounds"] = missing if predicted is None else predicted.how
    return found | {"cpu_rounds": None if predicted is None else rounds_to(target, predicted.radius)}


def _learning(
    model: Model,
    smoothness: Floats,
    network: Network,
    method: Method,
    steps: Steps,
    state: State | None,
    target: float,
    notes: Notes,
) -> dict[str, Any]:
    L, top = float(smoothness.max()), top_eigenvalue(network, method.model_weights)
    second, total = smallest_connectivity(network, method.model_weights), total_curvature(model)
    found: dict[str, Any] = {
        "parameters": model.size,
        "learning": method.learning,
        "mixing_second": second,
        "mixing_top": top,
        "smoothness": L,
        "convexity": total[0] if total is not None else model.convexity or None,
        "conditioning": total[1] / total[0] if total is not None and total[0] > 0 else None,
        "tracking_limit": alpha_limit(steps.step, top, L),
        "paper_alpha": paper_alpha(second, L),
    }
    if total is None:
        notes["convexity"] = "the ridge's, a lower bound" if found["convexity"] else TOO_LARGE
        notes["conditioning"] = TOO_LARGE
    elif found["conditioning"] is None:
        notes["conditioning"] = "not finite: the sum of losses is flat in some direction"
    found |= _crossings(model, network, method, steps.step, notes)
    predicted, missing = None, TOO_LARGE
    if state is not None and isinstance(state.learning, Summed):
        half, notes["crossing_alpha"] = state.learning, NO_ALPHA
        found |= {"model_theta": half.theta, "model_relax": half.pulls.relax, "local_steps": half.local_steps}
        predicted = predict_link_models(state, half, smoothness)
    else:
        found |= {"alpha": steps.alpha, "alpha_limit": steps.alpha_limit}
        if method.by_meetings:
            found["momentum"] = steps.momentum
            missing = notes["crossing_alpha"] = NO_THEORY.format("averages") if network.n > 1 else ALONE
        else:
            found["crossing_alpha"] = found["tracking_crossing"]
            predicted = predict_learning(model, network, method, steps, smoothness)
    notes["learning_rounds"] = missing if predicted is None else predicted.how
    return found | {"learning_rounds": None if predicted is None else rounds_to(target, predicted.radius)}


def _crossings(model: Model, network: Network, method: Method, step: float, notes: Notes) -> dict[str, float | None]:
    """The alpha at which gradient tracking, in rounds and in continuous time, becomes unstable: on the first such graph."""
    size = network.n * model.size
    if size > SPARSE_STATE:
        notes["crossing_alpha"] = notes["tracking_crossing"] = notes["crossing_alpha_in_time"] = TOO_LARGE
        return {"tracking_crossing": None, "crossing_alpha_in_time": None}
    loops = _loops(model, network, method) if size <= DENSE_STATE else []
    in_time = math.inf
    if not loops:
        place = "the optimum" if model.size <= DENSE_MODEL else "y = 0"
        notes["crossing_alpha"] = f"taking every loss to be convex and as curved as at {place}"
        notes["crossing_alpha_in_time"] = "if every loss is convex, every alpha is stable in continuous time"
    elif _convex(loops):
        notes["crossing_alpha_in_time"] = "every loss is convex, so every alpha is stable in continuous time"
    else:
        in_time = min(loop.crossing() for loop in loops)
    tracking = min(_tracking_crossings(loops, model, network, method, step))
    return {"tracking_crossing": tracking, "crossing_alpha_in_time": in_time}


def _convex(loops: list[ClosedLoop]) -> bool:
    """Also where there are no loops, for they were too many to look at."""
    bent = loops[0].hessians if loops else np.ones((1, 1, 1))
    return bool(np.linalg.eigvalsh(bent).min() >= -FLAT * np.abs(bent).max())


def _tracking_crossings(
    loops: list[ClosedLoop], model: Model, network: Network, method: Method, step: float
) -> list[float]:
    if not _convex(loops):
        return [loop.crossing(step) for loop in loops]
    bend = bend_at(model, optimal_model(model).parameters if model.size <= DENSE_MODEL else np.zeros(model.size))
    parts, rounds = (network, method.model_weights, bend, model.size, step), range(len(graphs_looked_at(network)))
    return [convex_crossing(*parts, round=k, tolerance=CROSSING_TOLERANCE) for k in rounds]


def _loops(model: Model, network: Network, method: Method) -> list[ClosedLoop]:
    bent, rounds = hessians(model, optimal_model(model).parameters), range(len(graphs_looked_at(network)))
    return [ClosedLoop(mixing(network, method.model_weights, k), bent) for k in rounds]


def relative_residual(problem: Problem, network: Network, method: Method) -> float | None:
    """The largest gap at which node-wise log codes stand still, as a part of that at the start; None if not node-wise.

    Not a number where there is no formula: costs that are not quadratic, or a share at its bound.
    """
    quantizer, market = method.quantizer, problem.market(problem.sized(network.n))
    if market is None or quantizer.mode != "node" or not quantizer.rho:
        return None
    book = Recorder("residual", problem, network)
    best, start = book.optimum.shares, float(book.track().gap[0])
    if not isinstance(market.cost, Quadratic) or not ((book.lo < best) & (best < book.hi)).all() or start <= 0:
        return math.nan
    a = np.broadcast_to(market.cost.a, network.n)
    return node_residual(quantizer.rho, book.optimum.price, a) / start
