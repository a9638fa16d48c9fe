"""Models over links that return: everybody's pooled optimum, to the bit the same in one process or in as many as nodes."""

import math

import numpy as np
import pytest

from equipoise.train import Exact, LeastSquares, LogQuantizer, Method, Network, Problem, SmoothSVM, Softmax, solve
from equipoise.train.dynamics._layout import Layout
from equipoise.train.dynamics._sum_kernels import hear_rows
from equipoise.train.dynamics.summed import Summed
from equipoise.train.models._base import Model
from equipoise.train.sampler import Sampler
from equipoise.train.state import State

SHAPES = {
    "path": Network.path,
    "ring": Network.ring,
    "grid": Network.grid,
    "star": Network.star,
    "complete": Network.complete,
    "er": lambda n, **more: Network.erdos_renyi(n, 0.3, **more),
    "geometric": lambda n, **more: Network.geometric(n, **more),
}


def shards(nodes, size=3, rows=8, seed=0):
    """Rows of different scale at every node, one law and noise."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(size)
    scale = np.exp(0.5 * rng.standard_normal(nodes))
    return [
        (s * X, s * X @ truth + rng.standard_normal(rows))
        for s, X in zip(scale, rng.standard_normal((nodes, rows, size)), strict=True)
    ]


def pooled(parts):
    """numpy's lstsq on all rows."""
    X, y = np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    return np.linalg.lstsq(X, y, rcond=None)[0]


class Curved(Model):
    """A user's model by its gradient alone: sum of log cosh(x'y - t) over the rows, of which nothing else is told."""

    def __init__(self, parts, nodes=None):
        self.parts, self.chosen = parts, np.arange(len(parts)) if nodes is None else nodes
        self.nodes, self.size = len(self.chosen), parts[0][0].shape[1]

    def loss(self, node, y):
        X, t = self.parts[self.chosen[node]]
        return float(np.log(np.cosh(X @ y - t)).sum() + 0.05 * y @ y)

    def gradient(self, node, y):
        X, t = self.parts[self.chosen[node]]
        return X.T @ np.tanh(X @ y - t) + 0.1 * y

    def smoothness(self):
        return np.array([np.linalg.norm(self.parts[i][0], 2) ** 2 + 0.1 for i in self.chosen])

    def part(self, nodes):
        return Curved(self.parts, nodes)


def newton(model):
    """The optimum of Curved by Newton's method on the pooled rows."""
    y = np.zeros(model.size)
    for _ in range(100):
        slope, bend = np.zeros(model.size), np.zeros((model.size, model.size))
        for X, t in model.parts:
            away = X @ y - t
            slope += X.T @ np.tanh(away) + 0.1 * y
            bend += X.T @ (X / np.cosh(away)[:, None] ** 2) + 0.1 * np.eye(model.size)
        y = y - np.linalg.solve(bend, slope)
    return y


def all_agree_on(expected, model, network, method=None, rounds=3000, start="auto"):
    """A run that has converged, where every node's own model is the expected one."""
    run = solve(Problem(model=model), network, method, rounds=rounds, target=1e-12, start=start)
    assert run.method.learning == "links"
    assert run.status == "converged"
    assert run.models == pytest.approx(np.tile(expected, (network.n, 1)), abs=1e-5)
    return run


@pytest.mark.parametrize("kind", ["least squares", "gradient alone"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_node_ends_at_the_pooled_optimum(shape, kind):
    """Sixteen nodes, by numpy's lstsq or by Newton, on a graph that stays and on three in turn."""
    parts = shards(16, seed=1)
    model = LeastSquares(parts) if kind == "least squares" else Curved(parts)
    expected = pooled(parts) if kind == "least squares" else newton(model)
    seeded = {"seed": 2} if shape in ("er", "geometric") else {}
    all_agree_on(expected, model, SHAPES[shape](16, **seeded))
    if shape != "complete":
        all_agree_on(expected, model, SHAPES[shape](16, switching=3, seed=2))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", ["path", "ring", "grid", "star", "er"])
def test_two_graphs_in_turn(shape, seed):
    """Each with the complete graph, and random pairs, from a random start."""
    parts = shards(16, seed=seed)
    other = Network.erdos_renyi(16, 0.15, seed=seed) if shape == "er" else Network.complete(16)
    network = Network.sequence([SHAPES[shape](16), other])
    all_agree_on(pooled(parts), LeastSquares(parts), network, start="random")


@pytest.mark.parametrize("rho", [0.05, 0.125, 0.3, 0.6, 1.0])
@pytest.mark.parametrize(
    "network", [Network.ring(12), Network.erdos_renyi(12, 0.3, switching=4)], ids=["ring", "er in turn"]
)
def test_every_precision_of_codes_converges(network, rho):
    """From 12 bits a number to 7."""
    parts = shards(12)
    all_agree_on(pooled(parts), LeastSquares(parts), network, Method(quantizer=LogQuantizer(rho=rho)))


@pytest.mark.parametrize("reg", [1e-3, 0.1])
def test_other_convex_models_converge(reg):
    """A support vector machine and softmax with a ridge: the certificate has their optimum from SciPy."""
    rng = np.random.default_rng(1)
    parts = [(rng.standard_normal((9, 2)), np.arange(9) % 3) for _ in range(8)]
    signs = [(X, np.where(t > 0, 1, -1)) for X, t in parts]
    for model in (Softmax(parts, reg=reg), SmoothSVM(signs, reg=reg)):
        run = solve(Problem(model=model), Network.erdos_renyi(8, 0.4), rounds=6000, target=1e-8)
        assert run.method.learning == "links"
        assert run.status == "converged"
        assert run.certificate().passed


# what is said


def test_bits_by_hand():
    """Ring of 6, 3 parameters, 10 rounds. On each link 3 floats at first contact and 9 rounds of 3 codes; the largest L is
    flooded over 3 hops."""
    problem = Problem(model=LeastSquares(shards(6)))
    for quantizer, code in (
        (LogQuantizer(), 10),
        (LogQuantizer(rho=0.05), 12),
        (LogQuantizer(rho=1.0), 7),
        (Exact(), 64),
    ):
        run = solve(problem, Network.ring(6), Method(quantizer=quantizer), rounds=10)
        assert run.bit_parts["models"] == 12 * 3 * (64 + 9 * code)
        assert run.bit_parts["overhead"] <= 12 * 3 * 64
        assert run.link_bits.bits.tolist() == [3 * (64 + 9 * code) + run.bit_parts["overhead"] // 12] * 12


@pytest.mark.parametrize(("rho", "digits"), [(0.125, 4), (0.05, 6), (1.0, 1)])
def test_what_is_heard_moves_by_numbers_of_few_digits(rho, digits):
    """was + (a number of that many binary digits) is to the bit what neighbours hold now, for every parameter."""
    state = State(Problem(model=LeastSquares(shards(8))), Network.grid(8), Method(quantizer=LogQuantizer(rho=rho)))
    before, moved = None, 0
    for number in range(80):
        state.advance(state.meet(number), number)
        heard = state.learning.table.said[0].ravel().copy()
        if number > 0:
            for now, was in zip(heard.tolist(), before.tolist(), strict=True):
                part, exponent = math.frexp(now - was)
                step = math.ldexp(round(math.ldexp(part, digits)), exponent - digits)
                assert was + step == now
                moved += step != 0
        before = heard
    assert moved > 500


# nodes alone


def alone(state, node, first):
    """The half of one node, with its own loss."""
    whole, model, one = state.learning, state.learning.model, np.array([node])
    L = float(model.smoothness().max())  # flooded
    theta = state.steps.links["model_theta"]
    part = Layout(state.table, one), Sampler(model.part(one)), state.method.quantizer
    return Summed(*part, L, theta, first[one], pace=whole.pace)


@pytest.mark.parametrize("kind", ["least squares", "gradient alone"])
@pytest.mark.parametrize(
    "network", [Network.grid(9), Network.erdos_renyi(9, 0.3, switching=3)], ids=["grid", "er in turn"]
)
def test_nodes_alone_do_what_the_whole_does(network, kind):
    """Each node with its own memory and its neighbours' rows only: the same models, to the bit, and as many bits sent."""
    model = LeastSquares(shards(9)) if kind == "least squares" else Curved(shards(9))
    first = np.random.default_rng(0).standard_normal((9, 3))
    state = State(Problem(model=model), network, Method(), start=first)
    whole, graphs = state.learning, state.layout.graphs
    halves = [alone(state, i, first) for i in range(9)]
    for number in range(60):
        t = number % graphs
        whole.say(number)
        for half in halves:
            half.say(number)
        for half in halves:
            for ghost in range(1, half.layout.rows):  # all are neighbours in some graph; what is not heard is not read
                other = halves[int(half.layout.nodes[ghost])].table
                if number < graphs:
                    half.table.said[t, ghost] = other.said[t, 0]
                    half.set_first_floors(t, [ghost])
                else:
                    hear_rows(other.codes.astype(np.int64), np.array([ghost]), half.table, t)
        for half in (whole, *halves):
            assert half.hear(number)
        assert np.array_equal(np.concatenate([half.models for half in halves]), whole.models)
    bits = np.zeros(len(state.table), dtype=np.int64)
    for half in halves:
        bits[half.layout.links] += half.link_bits()
    assert np.array_equal(bits, whole.link_bits())


@pytest.mark.parametrize("kind", ["least squares", "gradient alone"])
@pytest.mark.parametrize("graphs", [0, 3])
def test_a_run_resumes_from_memory(kind, graphs):
    """Another state that takes up what a checkpoint holds in round 25: the same bits after."""
    model = LeastSquares(shards(9)) if kind == "least squares" else Curved(shards(9))
    states = [State(Problem(model=model), Network.ring(9, switching=graphs), Method()) for _ in range(2)]
    for number in range(50):
        if number == 25:
            states[1].restore({name: np.array(value, copy=True) for name, value in states[0].memory().items()})
        for state in states if number >= 25 else states[:1]:
            state.advance(state.meet(number), number)
    for name, value in states[0].memory().items():
        assert np.array_equal(value, states[1].memory()[name]), name


@pytest.mark.parametrize("size", [1, 3, 16, 17])
@pytest.mark.parametrize("graphs", [0, 2])
def test_many_rounds_at_once_are_the_same_rounds(size, graphs):
    """solve plays bursts, written out up to 16 columns and in loops beyond; round by round gives the same models."""
    problem, network = Problem(model=LeastSquares(shards(6, size, rows=20))), Network.ring(6, switching=graphs)
    run, state = solve(problem, network, rounds=40), State(problem, network, Method())
    for number in range(40):
        state.advance(state.meet(number), number)
    assert np.array_equal(run.models, state.models)
    assert run.bit_parts == state.bit_parts()
