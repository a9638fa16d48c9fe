"""Rounds that a run will need, before it is made: a gap is the square of an error, so radius^(2 rounds) = target.

Assumed: the ideal channel, boxes that are not at work (a node at its bound counts with the stiffness of its price), losses
as curved as at the optimum; over links, exact answers. Graphs taken in turn are multiplied together; the first few fresh
ones stand for all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.sparse import diags_array
from scipy.sparse.linalg import eigsh

from equipoise.kernels import Bools, Floats, Ints
from equipoise.train.costs._kernels import steepness
from equipoise.train.dynamics._price_kernels import FULL, PER_OCTAVE
from equipoise.train.dynamics.prices import Prices
from equipoise.train.dynamics.summed import Summed
from equipoise.train.method import Method
from equipoise.train.models._base import Model
from equipoise.train.network import Network
from equipoise.train.problem import Market
from equipoise.train.region import LinkTable
from equipoise.train.spectrum import lambda_2, lambda_max
from equipoise.train.state import State
from equipoise.train.steps import Steps
from equipoise.train.theory.bounds import graphs_looked_at
from equipoise.train.theory.closed_loop import ClosedLoop, hessians, mixing
from equipoise.train.topology import Topology, edge_weights
from equipoise.train.truth import optimal_model, optimal_shares

LARGEST_SPECTRUM = 1500  # nodes up to which L is factorised, however many links it has
SHIFT = 1e-9  # of the largest diagonal entry of L H
DENSE_STATE = 300  # n m up to which all eigenvalues of the closed loop are; over links (1 + graphs) n m
DENSE_MODEL = 100  # parameters up to which the total Hessian is differenced
FEW_MODES = 8  # curvatures looked at over links, which the slow ones hardly depend on
REACH = 1e-6  # half the distance of a finite difference of prices, relative to the share
FASTEST = 2.0  # the largest eigenvalue of a normalised Laplacian
MODES = 60  # of the network, between the slowest and the fastest
MANY_GRAPHS = 64  # graphs of a mode: more take turns hardly slower


class Prediction(NamedTuple):
    """How an error shrinks per round, and where the number comes from."""

    radius: float
    how: str


def rounds_to(target: float, radius: float) -> float:
    """ln(target) / (2 ln radius): rounds until the gap is this part of the gap at the start."""
    if radius >= 1.0:
        return math.inf
    return max(1.0, math.log(target) / (2.0 * math.log(radius))) if radius > 0.0 else 1.0


def slowest_of(smallest: float, largest: float) -> float:
    """From the smallest and largest rate (step times eigenvalue) of a symmetric iteration."""
    return max(abs(1.0 - smallest), abs(1.0 - largest))


def period_radius(maps: list[Floats], inside: Floats) -> float:
    """How errors of a subspace shrink a round, on average over rounds played in turn: by the product's spectral radius."""
    product = np.eye(inside.shape[1])
    for one in maps:
        product = inside.T @ one @ inside @ product
    return float(np.abs(np.linalg.eigvals(product)).max() ** (1.0 / len(maps)))


# along edges


def predict_cpu(market: Market, network: Network, method: Method, steps: Steps) -> Prediction | None:
    """For CPU flows; None where the network is too large."""
    n, step = network.n, steps.step
    if not 2 <= n <= (LARGEST_SPECTRUM if network.static else DENSE_STATE):
        return None
    bent = curvature_at_optimum(market)
    graphs = graphs_looked_at(network)
    weights = [edge_weights(method.cpu_weights, graph, market.curvature * method.curvature_factor) for graph in graphs]
    if network.static:
        smallest, largest = cpu_spectrum(graphs[0], weights[0], bent)
        return Prediction(slowest_of(step * smallest, step * largest), "eigenvalues of L H")
    mixings = [graph.laplacian(w).toarray() for graph, w in zip(graphs, weights, strict=True)]
    radius = period_radius([np.eye(n) - step * L * bent for L in mixings], kept_sum(n, 1, 0))
    return Prediction(radius, f"product of {len(graphs)} graphs")


def curvature_at_optimum(market: Market) -> Floats:
    """f'' at the optimal shares; where a share is at its bound, the stiffness of the price that holds it there."""
    best, inside = best_shares(market)
    reach = REACH * np.maximum(1.0, np.abs(best))
    left, right = np.maximum(best - reach, market.lo), np.minimum(best + reach, market.hi)
    with np.errstate(all="ignore"):
        slope = (market.cost.derivative(right) - market.cost.derivative(left)) / (right - left)
    return np.asarray(np.where(inside & (slope > 0), slope, market.stiffness))


def best_shares(market: Market) -> tuple[Floats, Floats]:
    """The best shares, and which of them are inside their boxes."""
    best = optimal_shares(market.cost, market.budget * market.grid.unit, market.lo, market.hi).shares
    return best, np.asarray((best > market.lo) & (best < market.hi))


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


def predict_learning(
    model: Model, network: Network, method: Method, steps: Steps, smoothness: Floats
) -> Prediction | None:
    """For gradient tracking: by the closed loop where it is small, else by the mixing estimate.

    None where the model is large and no ridge tells how flat the sum of losses may be.
    """
    alpha, step, n = steps.alpha, steps.step, network.n
    if alpha is None:
        return None
    graphs = graphs_looked_at(network)
    if n * model.size <= DENSE_STATE:
        bent = hessians(model, optimal_model(model).parameters)
        loops = [ClosedLoop(mixing(network, method.model_weights, k), bent) for k in range(len(graphs))]
        radius = period_radius([loop.round_map(alpha, step) for loop in loops], loops[0].consistent)
        return Prediction(radius, "eigenvalues of the closed loop")
    flattest, _, how = bends(model, smoothness)
    if flattest is None:
        return None
    slowest = alpha * flattest
    if n > 1:
        together = Topology(  # the average of the graphs: what quick changes amount to
            n,
            np.concatenate([graph.tails for graph in graphs]),
            np.concatenate([graph.heads for graph in graphs]),
            np.concatenate([edge_weights(method.model_weights, graph) / len(graphs) for graph in graphs]),
        )
        slowest = min(slowest, slow_mixing(lambda_2(together), alpha * float(smoothness.mean())))
    return Prediction(slowest_of(step * slowest, 1.0), f"mixing estimate, {how}")


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


def bends(model: Model, smoothness: Floats) -> tuple[float | None, float, str]:
    """The smallest and largest curvature of the mean loss: at the optimum where that is quick to find, else bounds."""
    if total := total_curvature(model):
        return total[0] / model.nodes, total[1] / model.nodes, "curvature at the optimum"
    flattest = model.convexity / model.nodes if model.convexity > 0 else None
    return flattest, float(smoothness.mean()), "curvature from the ridge alone"


# Over links that return, both halves are relaxed ADMM in summed form. With R_t the Laplacian of graph t with the weights rho
# of its links, D_t its diagonal, D their sum, r the relaxation, v what moves along links (the plan, or a flow of gradients)
# and s_t what a node keeps of each graph, a round in graph t is, linearised at the optimum and on the ideal channel,
#
#     p = (E + D)^-1 (v + sum s)      v+ = v - r R_t p      s_t+ = (1 - 2 r) s_t + 2 r (D_t - R_t / 2) p
#
# E is what a node gives way by itself: its elasticity 1/f'' for prices (0 at a bound), its Hessian for models. A round keeps
# the sum of v. Equal E = e and a graph whose R has the eigenvalue D u, u in [0, 2], make a mode of 1 + graphs numbers.


def elasticity_weights(table: LinkTable, told: Ints, theta: float, lean: int, pinned: Bools) -> list[Floats]:
    """rho of the links of each graph, from elasticities as they are said: eighths of an octave per contact."""
    one, other = told[table.senders], told[table.receivers]
    octaves = (lean * np.maximum(one, other) + (10 - lean) * np.minimum(one, other)) / 80.0
    stuck = pinned[table.senders] & pinned[table.receivers]
    rho = np.where(stuck, 0.0, theta * 2.0**octaves)
    return [np.where(turn, rho, 0.0) for turn in table.turns]


def product_weights(table: LinkTable, pull: float) -> list[Floats]:
    """rho = w_i w_j of the links of each graph, w^2 = pull / contacts: models."""
    contacts = np.bincount(table.senders, np.sum(table.turns, axis=0), table.n)
    w = np.sqrt(pull / np.maximum(contacts, 1.0))
    return [np.where(turn, w[table.senders] * w[table.receivers], 0.0) for turn in table.turns]


def laplacians(table: LinkTable, weights: list[Floats]) -> list[Floats]:
    """R_t of every graph, dense."""
    found = []
    for rho in weights:
        R = np.zeros((table.n, table.n))
        np.add.at(R, (table.senders, table.receivers), -rho)
        np.fill_diagonal(R, -R.sum(axis=1))
        found.append(R)
    return found


def round_maps(R: list[Floats], bent: Floats, relax: float) -> list[Floats]:
    """A round of errors (v, s_1, .. s_T) in each graph; `bent` is E, (n,) for prices or (n, m, m) for models."""
    graphs, n = len(R), len(bent)
    m = 1 if bent.ndim == 1 else bent.shape[1]
    E = np.diag(bent) if bent.ndim == 1 else np.asarray(block_diag(*bent))
    spread = [np.asarray(np.kron(one, np.eye(m)), dtype=np.float64) for one in R]
    D = sum(np.diag(np.diag(one)) for one in spread)
    answer = np.hstack([np.linalg.inv(E + D)] * (1 + graphs))  # p, from the state
    maps = []
    for t, one in enumerate(spread):
        M = np.eye((1 + graphs) * n * m)
        own = slice((1 + t) * n * m, (2 + t) * n * m)
        M[: n * m] -= relax * one @ answer
        M[own] = (1.0 - 2.0 * relax) * M[own] + 2.0 * relax * (np.diag(np.diag(one)) - 0.5 * one) @ answer
        maps.append(M)
    return maps


def kept_sum(n: int, m: int, graphs: int) -> Floats:
    """Columns: an orthonormal basis of the states whose v sums to 0 over nodes, which a round does not leave."""
    inside = np.linalg.qr(np.ones((n, 1)), mode="complete")[0][:, 1:]
    return np.asarray(block_diag(np.kron(inside, np.eye(m)), np.eye(graphs * n * m)))


def link_radius(u: float, bent: float, weight: float, relax: float, graphs: int = 1) -> float:
    """How the error of a mode shrinks a round: R_t = D_t u, D_t = weight / graphs; u = 0 is common to all nodes."""
    graphs = min(graphs, MANY_GRAPHS)
    each, product = weight / graphs, np.eye(1 + graphs)
    answer = np.full(1 + graphs, 1.0 / (bent + weight))
    for t in range(graphs):
        M = np.eye(1 + graphs)
        M[0] -= relax * each * u * answer
        M[1 + t] = (1.0 - 2.0 * relax) * M[1 + t] + 2.0 * relax * each * (1.0 - 0.5 * u) * answer
        product = M @ product
    if u == 0.0:
        product = product[1:, 1:]  # v of all together does not change
    return float(np.abs(np.linalg.eigvals(product)).max() ** (1.0 / graphs))


def slowest_radius(gap: float, bends: Floats, weight: float, relax: float, graphs: int, common: bool) -> float:
    """The largest radius over the modes of a network with this gap, and over these e; `common` adds u = 0."""
    modes = [0.0] * common + np.geomspace(max(gap, 1e-12), FASTEST, MODES).tolist()
    return max(link_radius(u, float(e), weight, relax, graphs) for u in modes for e in bends)


def predict_link_prices(state: State, half: Prices) -> Prediction:
    """For CPU over links: all eigenvalues of a period where they are few, else the slowest mode for equal curvatures."""
    market, rule, table = half.market, half.rule, state.table
    graphs = len(table.turns)
    if (1 + graphs) * table.n > DENSE_STATE:
        radius = slowest_radius(state.gap, np.ones(1), rule.theta, rule.relax, graphs, common=False)
        return Prediction(radius, "slowest mode over links, equal curvatures")
    best, inside = best_shares(market)
    elasticity = 1.0 / steepness(market.cost, half.whole, best)
    contacts = half.layout.keep(half.layout.contacts)
    told = np.round(PER_OCTAVE * np.log2(np.where(inside, 1.0, FULL) * elasticity / contacts)).astype(np.int64)
    R = laplacians(table, elasticity_weights(table, told, rule.theta, rule.lean, market.low == market.high))
    radius = period_radius(round_maps(R, inside * elasticity, rule.relax), kept_sum(table.n, 1, graphs))
    return Prediction(radius, "eigenvalues of prices over links")


def predict_link_models(state: State, half: Summed, smoothness: Floats) -> Prediction | None:
    """For models over links: all eigenvalues of a period where they are few, else mode by mode, as if Hessians were equal.

    None where the model is large and no ridge tells how flat the sum of losses may be.
    """
    model, table, relax, pull = half.model, state.table, half.pulls.relax, half.theta * half.L
    graphs, n = len(table.turns), table.n
    if (1 + graphs) * n * model.size <= DENSE_STATE:
        bent = hessians(model, optimal_model(model).parameters)
        maps = round_maps(laplacians(table, product_weights(table, pull)), bent, relax)
        return Prediction(period_radius(maps, kept_sum(n, model.size, graphs)), "eigenvalues of models over links")
    flattest, steepest, how = bends(model, smoothness)
    if flattest is None:
        return None
    looked_at = np.geomspace(max(flattest, 1e-12 * steepest), steepest, FEW_MODES)
    radius = slowest_radius(state.gap, looked_at, pull, relax, graphs, common=True)
    return Prediction(radius, f"modes over links, {how}")
