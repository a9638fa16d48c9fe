"""Rounds that a run will need, before it is made: a gap is the square of an error, so radius^(2 rounds) = target.

Assumed: the ideal channel, boxes that are not at work (a node at its bound counts with the stiffness of its price), losses
as curved as at the optimum; over links, exact answers. Momentum along edges counts as the best constant one, which the
automatic rule comes near without knowing the spectrum; on a network that changes every round it never builds up and counts
as none. Graphs taken in turn are multiplied together; the first few fresh ones stand for all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import diags_array
from scipy.sparse.linalg import eigsh

from equipoise.train.arrays import Floats
from equipoise.train.costs._kernels import steepness
from equipoise.train.dynamics._price_kernels import FULL, PER_OCTAVE
from equipoise.train.dynamics.markets import FULL_NODE
from equipoise.train.dynamics.prices import Prices
from equipoise.train.dynamics.summed import Summed
from equipoise.train.method import Method
from equipoise.train.models._base import Model
from equipoise.train.network import Network
from equipoise.train.problem import Market
from equipoise.train.spectrum import lambda_2, lambda_max, market_gap
from equipoise.train.state import State
from equipoise.train.steps import Steps
from equipoise.train.theory.averages import averages_loop, averages_radius, slowest_delta
from equipoise.train.theory.bounds import (
    TOPOLOGIES_LOOKED_AT,
    best_beta,
    budgeted,
    market_map,
    mode_radius,
    two_step_radius,
)
from equipoise.train.theory.closed_loop import ClosedLoop, hessians, mixing
from equipoise.train.theory.links import (
    elasticity_weights,
    kept_sum,
    laplacians,
    product_weights,
    round_maps,
    slowest_radius,
)
from equipoise.train.topology import Topology
from equipoise.train.truth import optimal_model, optimal_shares
from equipoise.train.weights import edge_weights

LARGEST_SPECTRUM = 1500  # nodes up to which L is factorised, however many links it has
SHIFT = 1e-9  # of the largest diagonal entry of L H
DENSE_STATE = 300  # n m up to which all eigenvalues of the closed loop are; over links (1 + graphs) n m
DENSE_MODEL = 100  # parameters up to which the total Hessian is differenced
FEW_MODES = 8  # curvatures looked at over links, which the slow ones hardly depend on
MODES = 40  # deltas, and curvatures, of the averages looked at between the slowest and the fastest
REACH = 1e-6  # half the distance of a finite difference of prices, relative to the share


@dataclass(frozen=True)
class Prediction:
    """How an error shrinks per round, the rounds to the target, and where the number comes from."""

    radius: float
    rounds: float  # infinite where it does not shrink
    how: str


def rounds_to(target: float, radius: float) -> float:
    """ln(target) / (2 ln radius): rounds until the gap is this part of the gap at the start."""
    if radius >= 1.0:
        return math.inf
    return max(1.0, math.log(target) / (2.0 * math.log(radius))) if radius > 0.0 else 1.0


def two_step_prediction(smallest: float, largest: float, target: float, momentum: bool, how: str) -> Prediction:
    """From the smallest and largest rate (step times eigenvalue) of a symmetric iteration."""
    beta = best_beta(smallest, largest) if momentum else 0.0
    radius = max(two_step_radius(smallest, beta), two_step_radius(largest, beta))
    return Prediction(radius, rounds_to(target, radius), how)


def cpu_spectrum(topology: Topology, weights: Floats, curvature: Floats) -> tuple[float, float]:
    """lambda_2 and lambda_max of L H: two numbers, for up to LARGEST_SPECTRUM nodes."""
    laplacian = topology.laplacian(weights)
    if topology.n <= DENSE_STATE:
        root = np.sqrt(curvature)
        values = np.linalg.eigvalsh(root[:, None] * laplacian.toarray() * root)
        return float(values[1]), float(values[-1])
    # L v = lambda H^-1 v, by Lanczos on the inverse, shifted off the eigenvalue 0 of constant prices.
    shift = -SHIFT * float((laplacian.diagonal() * curvature).max())
    start = np.random.default_rng(0).standard_normal(topology.n)
    values = eigsh(
        laplacian.tocsc(), k=2, M=diags_array(1.0 / curvature).tocsc(), sigma=shift, v0=start, return_eigenvectors=False
    )
    return float(values.max()), lambda_max(topology, weights, scale=curvature)


def curvature_at_optimum(market: Market) -> Floats:
    """f'' at the optimal shares; where a share is at its bound, the stiffness of the price that holds it there."""
    best = optimal_shares(market.cost, market.budget * market.grid.unit, market.lo, market.hi).shares
    reach = REACH * np.maximum(1.0, np.abs(best))
    left, right = np.maximum(best - reach, market.lo), np.minimum(best + reach, market.hi)
    inside = (best > market.lo) & (best < market.hi)
    with np.errstate(all="ignore"):
        slope = (market.cost.derivative(right) - market.cost.derivative(left)) / (right - left)
    return np.asarray(np.where(inside & (slope > 0), slope, market.stiffness))


def predict_markets(market: Market, network: Network, inertia: float, target: float) -> Prediction | None:
    """For the CPU half by markets: all modes where the network is small, else the slowest for equal curvatures."""
    n = network.n
    if n < 2 or (n > DENSE_STATE and not network.static):
        return None
    if n > DENSE_STATE:
        slowest = 1.0 - market_gap(network.topology(0))
        radius = max(mode_radius(slowest, inertia), mode_radius(1.0, inertia))
        return Prediction(radius, rounds_to(target, radius), "slowest mode of markets, equal curvatures")
    best = optimal_shares(market.cost, market.budget * market.grid.unit, market.lo, market.hi).shares
    inside = (best > market.lo) & (best < market.hi)
    elasticity = np.where(inside, 1.0, FULL_NODE) / curvature_at_optimum(market)
    graphs = [network.topology(k) for k in rounds_looked_at(network)]
    kept = budgeted(n)
    radius = period_radius([kept.T @ market_map(g, elasticity, inside * elasticity, inertia) @ kept for g in graphs])
    return Prediction(radius, rounds_to(target, radius), "eigenvalues of the markets")


def predict_cpu(market: Market, network: Network, method: Method, steps: Steps, target: float) -> Prediction | None:
    """For the CPU half; None where the network is too large."""
    if method.by_markets and steps.inertia is not None:
        return predict_markets(market, network, steps.inertia, target)
    n, step = network.n, steps.step
    if not 2 <= n <= (LARGEST_SPECTRUM if network.static else DENSE_STATE):
        return None
    bent = curvature_at_optimum(market)
    steepest = market.curvature * method.curvature_factor
    graphs = [network.topology(k) for k in rounds_looked_at(network)]
    weights = [edge_weights(method.cpu_weights, graph, steepest) for graph in graphs]
    if network.static:
        smallest, largest = cpu_spectrum(graphs[0], weights[0], bent)
        return two_step_prediction(step * smallest, step * largest, target, method.momentum, "eigenvalues of L H")
    budget = np.linalg.qr(np.ones((n, 1)), mode="complete")[0][:, 1:]  # columns: errors that sum to 0
    mixings = [graph.laplacian(w).toarray() for graph, w in zip(graphs, weights, strict=True)]
    radius = period_radius([budget.T @ (np.eye(n) - step * L * bent) @ budget for L in mixings])
    return Prediction(radius, rounds_to(target, radius), f"product of {len(graphs)} graphs")


def predict_learning(
    model: Model, network: Network, method: Method, steps: Steps, target: float, smoothness: Floats
) -> Prediction | None:
    """For the learning half: averages, or along edges, by the closed loop where it is small, else by the mixing estimate.

    None where the model is large and no ridge tells how flat the sum of losses may be.
    """
    if steps.alpha is None:
        return None
    if method.by_meetings:
        return predict_averages(model, network, steps.alpha, steps.momentum, target, smoothness)
    alpha, step, n = steps.alpha, steps.step, network.n
    if n * model.size <= DENSE_STATE and not method.momentum:
        bent = hessians(model, optimal_model(model).parameters)
        loops = [ClosedLoop(mixing(network, method.model_weights, k), bent) for k in rounds_looked_at(network)]
        inside = loops[0].consistent  # the same for every graph
        radius = period_radius([inside.T @ loop.round_map(alpha, step) @ inside for loop in loops])
        return Prediction(radius, rounds_to(target, radius), "eigenvalues of the closed loop")
    flattest, how = flattest_mode(model)
    if flattest is None:
        return None
    slowest = alpha * flattest / n
    if n > 1:
        slowest = min(slowest, slow_mixing(_connectivity(network, method), alpha * float(smoothness.mean())))
    return two_step_prediction(step * slowest, 1.0, target, method.momentum, f"mixing estimate, {how}")


def predict_averages(
    model: Model, network: Network, alpha: float, beta: float, target: float, smoothness: Floats
) -> Prediction | None:
    """For models averaged over neighbourhoods: all eigenvalues where they are few, else mode by mode.

    A mode is a delta of the network with a curvature of the mean loss, as if Hessians were equal: slow modes are smooth
    over the network, so their curvature is nearly the mean.
    """
    n = network.n
    graphs = [network.topology(k) for k in rounds_looked_at(network)]
    if n * model.size <= DENSE_STATE:
        bent = hessians(model, optimal_model(model).parameters)
        loops = [averages_loop(graph, bent, beta) for graph in graphs]
        inside = loops[0].consistent  # the same for every graph
        radius = period_radius([inside.T @ loop.round_map(alpha) @ inside for loop in loops])
        return Prediction(radius, rounds_to(target, radius), "eigenvalues of the averages")
    flattest, how = flattest_mode(model)
    if flattest is None:
        return None
    total = total_curvature(model)
    steepest = total[1] / n if total is not None else float(smoothness.mean())
    bends = np.geomspace(max(flattest / n, 1e-12 * steepest), steepest, MODES)
    deltas = [0.0] if n == 1 else [0.0, *np.geomspace(max(slowest_delta(graphs), 1e-15), 1.0, MODES)]
    radius = float(averages_radius(np.array(deltas)[:, None], alpha * bends, beta).max())
    return Prediction(radius, rounds_to(target, radius), f"modes of the averages, {how}")


def predict_link_prices(state: State, half: Prices, target: float) -> Prediction | None:
    """For CPU over links: all eigenvalues of a period where they are few, else the slowest mode for equal curvatures."""
    market, rule, table = half.market, half.rule, state.table
    graphs = len(table.turns)
    if (1 + graphs) * table.n > DENSE_STATE:
        radius = slowest_radius(state.gap, np.ones(1), rule.theta, rule.relax, graphs, common=False)
        return Prediction(radius, rounds_to(target, radius), "slowest mode over links, equal curvatures")
    best = optimal_shares(market.cost, market.budget * market.grid.unit, market.lo, market.hi).shares
    elasticity = 1.0 / steepness(market.cost, half.whole, best)
    inside = (best > market.lo) & (best < market.hi)
    contacts = half.layout.keep(half.layout.contacts)
    told = np.round(PER_OCTAVE * np.log2(np.where(inside, 1.0, FULL) * elasticity / contacts)).astype(np.int64)
    pinned = market.low == market.high
    R = laplacians(table, elasticity_weights(table, told, rule.theta, rule.lean, pinned))
    kept, maps = kept_sum(table.n, 1, graphs), round_maps(R, inside * elasticity, rule.relax)
    radius = period_radius([kept.T @ one @ kept for one in maps])
    return Prediction(radius, rounds_to(target, radius), "eigenvalues of prices over links")


def predict_link_models(state: State, half: Summed, target: float, smoothness: Floats) -> Prediction | None:
    """For models over links: all eigenvalues of a period where they are few, else mode by mode, as if Hessians were equal.

    None where the model is large and no ridge tells how flat the sum of losses may be.
    """
    model, table = half.model, state.table
    graphs, n, relax = len(table.turns), table.n, half.pulls.relax
    pull = half.theta * half.L
    if (1 + graphs) * n * model.size <= DENSE_STATE:
        bent = hessians(model, optimal_model(model).parameters)
        maps = round_maps(laplacians(table, product_weights(table, pull)), bent, relax)
        kept = kept_sum(n, model.size, graphs)
        radius = period_radius([kept.T @ one @ kept for one in maps])
        return Prediction(radius, rounds_to(target, radius), "eigenvalues of models over links")
    flattest, how = flattest_mode(model)
    if flattest is None:
        return None
    total = total_curvature(model)
    steepest = total[1] / n if total is not None else float(smoothness.mean())
    bends = np.geomspace(max(flattest / n, 1e-12 * steepest), steepest, FEW_MODES)
    radius = slowest_radius(state.gap, bends, pull, relax, graphs, common=True)
    return Prediction(radius, rounds_to(target, radius), f"modes over links, {how}")


def period_radius(maps: list[Floats]) -> float:
    """How errors shrink a round, on average over rounds played in turn: the root of the product's spectral radius."""
    product = np.eye(len(maps[0]))
    for one in maps:
        product = one @ product
    return float(np.abs(np.linalg.eigvals(product)).max() ** (1.0 / len(maps)))


def _connectivity(network: Network, method: Method) -> float:
    """lambda_2 of the graph, or of the average of the graphs looked at: what quick changes amount to."""
    graphs = [network.topology(k) for k in rounds_looked_at(network)]
    together = Topology(
        network.n,
        np.concatenate([graph.tails for graph in graphs]),
        np.concatenate([graph.heads for graph in graphs]),
        np.concatenate([edge_weights(method.model_weights, graph) / len(graphs) for graph in graphs]),
    )
    return lambda_2(together)


def slow_mixing(second: float, pull: float) -> float:
    """The slower root of u^2 - (2 lambda_2 + pull) u + lambda_2^2: how fast differences die under a pull alpha h.

    Exact for equal Hessians h. A pull far above lambda_2 slows agreement down to lambda_2^2 / pull.
    """
    middle = (2.0 * second + pull) / 2.0
    return second**2 / (middle + math.sqrt(max(middle**2 - second**2, 0.0))) if second > 0 else 0.0


def total_curvature(model: Model) -> tuple[float, float] | None:
    """The smallest and largest curvature of the sum of losses at the optimum; None above DENSE_MODEL parameters."""
    if model.size > DENSE_MODEL:
        return None
    values = np.linalg.eigvalsh(hessians(model, optimal_model(model).parameters).sum(axis=0))
    return max(float(values[0]), 0.0), float(values[-1])


def flattest_mode(model: Model) -> tuple[float | None, str]:
    """The smallest curvature of the sum of losses: at the optimum where that is quick to find, else the ridge's bound."""
    total = total_curvature(model)
    if total is not None:
        return total[0], "curvature at the optimum"
    return (model.convexity, "curvature from the ridge alone") if model.convexity > 0 else (None, "")


def rounds_looked_at(network: Network) -> range:
    """The rounds whose graphs stand for all."""
    return range(min(network.period or TOPOLOGIES_LOOKED_AT, TOPOLOGIES_LOOKED_AT))
