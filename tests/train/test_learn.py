"""The learning half, over links, by averages or as in the paper: the pooled optimum is reached, if started right."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from equipoise.train import Exact, LeastSquares, LogQuantizer, Method, Network, Problem, solve
from equipoise.train.theory import alpha_limit, top_eigenvalue


def regression_shards(nodes=20, size=4, rows=30, seed=0, scale=1.0):
    """Each centre sees the same law through its own features and noise."""
    rng = np.random.default_rng(seed)
    truth = scale * rng.standard_normal(size)
    shards = []
    for _ in range(nodes):
        X = rng.standard_normal((rows, size)) * rng.uniform(0.5, 2, size)
        shards.append((X, X @ truth + scale * rng.standard_normal(rows)))
    return shards


@pytest.mark.parametrize("switching", [0, 5, "fresh"])
@pytest.mark.parametrize("quantizer", [LogQuantizer(), Exact()], ids=["log", "exact"])
def test_every_node_finds_the_pooled_least_squares_solution(switching, quantizer):
    """Random start, label-free regression: each node's own model is that of numpy's lstsq on all rows."""
    shards = regression_shards()
    run = solve(
        Problem(model=LeastSquares(shards)),
        Network.erdos_renyi(20, 0.3, switching=switching, seed=1),
        Method(quantizer=quantizer),
        rounds=800,
        start="random",
    )
    X, y = np.concatenate([X for X, _ in shards]), np.concatenate([y for _, y in shards])
    expected = np.linalg.lstsq(X, y, rcond=None)[0]
    assert_allclose(run.models, np.tile(expected, (20, 1)), atol=1e-6)
    assert run.worst.tracker < 1e-13
    assert run.certificate()["consensus"].passed


def test_data_that_every_node_fits_exactly_passes():
    """All gradients vanish at the optimum: the tracker is judged against the gradients of the whole run, not against 0."""
    rng = np.random.default_rng(0)
    shards = [(X, X @ [1.0, 2.0]) for X in rng.standard_normal((20, 5, 2))]
    run = solve(Problem(model=LeastSquares(shards)), Network.erdos_renyi(20, 0.3, switching=5), rounds=600)
    assert run.certificate().passed


def test_trackers_must_start_at_the_gradient():
    """z(0) = grad g reaches 1e-12; z(0) = 0 converges to the wrong model, more than 1 away: the test of the test."""
    problem = Problem(model=LeastSquares(regression_shards(scale=5.0)))
    network = Network.erdos_renyi(20, 0.3, seed=0)
    start = 10 * np.random.default_rng(4).standard_normal((20, 4))
    right, wrong = (
        solve(
            problem, network, Method(quantizer=Exact(), learning="averages", tracker_start=z), rounds=1500, start=start
        )
        for z in ("gradient", "zero")
    )
    assert abs(right.gap) < 1e-12
    assert wrong.gap > 1
    assert right.certificate()["tracker"].passed
    assert not wrong.certificate()["tracker"].passed


@pytest.mark.parametrize("step", [0.05, 0.15])
def test_the_euler_threshold_is_sharp(step):
    """Equal Hessians h: at 0.99 of (2 - step lambda_max)^2 / (2 step h) the run contracts, at 1.01 it blows up."""
    nodes, h = 4, 3.0
    X = np.sqrt(h * nodes) * np.eye(1)
    shards = [(X, np.array([float(i)])) for i in range(nodes)]
    problem = Problem(model=LeastSquares(shards))
    network = Network.ring(nodes)
    assert problem.model.smoothness() == pytest.approx(h)
    limit = alpha_limit(step, top_eigenvalue(network, "laplacian"), h)
    assert limit == pytest.approx((2 - step * 4) ** 2 / (2 * step * h))  # lambda_max of an even ring is 4

    def size_after(alpha, rounds):
        sizes = []
        solve(
            problem,
            network,
            Method.paper(quantizer=Exact(), step=step, alpha=alpha),
            rounds=rounds,
            every=rounds,
            start="random",
            callback=lambda m: sizes.append(float(np.abs(m.models - m.models.mean(axis=0)).max())),
        )
        return sizes

    calm = size_after(0.99 * limit, 4000)
    with pytest.warns(UserWarning, match="alpha .* is past its limit"):
        wild = size_after(1.01 * limit, 4000)
    assert calm[-1] < 1e-3 * calm[0]
    assert wild[-1] > 1e3 * wild[0]


def test_divergence_is_named_and_leaves_no_nan():
    """alpha ten times its limit: the run stops, says what diverged and why, and every number in it is finite."""
    problem = Problem(model=LeastSquares(regression_shards()))
    with pytest.warns(UserWarning, match="past its limit"):
        run = solve(problem, Network.ring(20), Method(alpha=1000.0), rounds=5000)
    assert run.status == "diverged"
    assert "models diverged in round" in run.reason
    assert "limit" in run.reason
    assert np.isfinite(run.models).all()
    assert all(np.isfinite(column).all() for column in run.history.values())
    assert not run.certificate().passed


def test_innovation_codes_reach_what_node_codes_cannot():
    """9-bit node-wise codes of y leave a residual; innovation codes of the same width do not."""
    problem = Problem(model=LeastSquares(regression_shards(scale=10.0)))
    network = Network.erdos_renyi(20, 0.3, seed=2)
    node = solve(problem, network, Method(quantizer=LogQuantizer(mode="node"), momentum=False), rounds=1500)
    innovation = solve(problem, network, Method(), rounds=1500)
    assert node.history["relative_gap"][-20:].min() > 1e-7
    assert abs(innovation.relative_gap) < 1e-12


def test_learning_bits_by_hand():
    """Ring of 6, 3 parameters, 10 rounds. On each link, by averages: models and means, each 3 floats at first contact and
    9 rounds of 3 ten-bit codes; 8 bits of degree, and the largest L, flooded over 3 hops."""
    problem = Problem(model=LeastSquares(regression_shards(nodes=6, size=3)))
    run = solve(problem, Network.ring(6), Method(learning="averages"), rounds=10)
    assert run.link_bits.bits.tolist() == [2 * (3 * 64 + 9 * 3 * 10) + 8 + 3 * 64] * 12
    assert run.bit_parts == {"models": 12 * (2 * (3 * 64 + 9 * 3 * 10) + 8), "overhead": 12 * 3 * 64}


def test_means_of_many_are_told_finer():
    """By averages a mean is right to a part in degree + 1: 4 bits of mantissa around a star of 20, and one at least at
    rho 1, whose models have none."""
    problem = Problem(model=LeastSquares(regression_shards(size=3)))
    for network, rho, bits in ((Network.star(20), 0.125, 10 + 11), (Network.ring(20), 1.0, 7 + 8)):
        runs = [
            solve(problem, network, Method(quantizer=LogQuantizer(rho=rho), learning="averages"), rounds=rounds)
            for rounds in (9, 10)
        ]
        assert (runs[1].link_bits.bits - runs[0].link_bits.bits == 3 * bits).all()


def test_learning_bits_of_the_paper_by_hand():
    """The same ring as in the paper: models and trackers together, 6 nine-bit codes a round, no floats."""
    problem = Problem(model=LeastSquares(regression_shards(nodes=6, size=3)))
    run = solve(problem, Network.ring(6), Method.paper(alpha=1e-3), rounds=10)
    assert run.link_bits.bits.tolist() == [10 * 6 * 9] * 12


def test_a_given_step_selects_gradient_tracking():
    """A step, an alpha, or no momentum: models and trackers mix along edges, and still find the pooled optimum."""
    problem = Problem(model=LeastSquares(regression_shards()))
    network = Network.erdos_renyi(20, 0.3, switching=5, seed=1)
    steps = solve(problem, network, Method(momentum=False), rounds=1).steps
    for method in (Method(step=steps.step), Method(alpha=steps.alpha), Method(momentum=False)):
        run = solve(problem, network, method, rounds=2000, target=1e-8)
        assert run.status == "converged"
        assert set(run.tallies) == {"models"}
        assert run.worst.tracker < 1e-12
    assert solve(problem, Network.ring(20), rounds=1).tallies == {}  # over links: minifloats, whose range moves


def test_a_model_may_hand_out_one_buffer_again_and_again():
    """Gradients written into the same array each round: trackers keep account in a copy, and steps over links read it at
    once."""

    class Plain(LeastSquares):
        """Known by its gradients alone, like the other."""

    class Thrifty(LeastSquares):
        buffer = None

        def gradients(self, Y):
            found = super().gradients(Y)
            self.buffer = found if self.buffer is None else self.buffer
            self.buffer[:] = found
            return self.buffer

    shards = regression_shards(nodes=6, size=3)
    for method in (Method(), Method(learning="averages"), Method(momentum=False)):
        thrifty = solve(Problem(model=Thrifty(shards)), Network.ring(6), method, rounds=20)
        usual = solve(Problem(model=Plain(shards)), Network.ring(6), method, rounds=20)
        assert np.array_equal(thrifty.models, usual.models)
