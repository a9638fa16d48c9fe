"""Nets as models: gradients against plain autograd and finite differences, batches, refusals, and what a run certifies."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from equipoise.train import Exact, Method, Network, Problem, Quadratic, Softmax, solve

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'equipoise[torch]'")
from torch import nn  # noqa: E402

from equipoise.train import TorchModel  # noqa: E402
from equipoise.train.deep import cnn, mlp, net  # noqa: E402
from equipoise.train.models.mlp import mlp as net_of  # noqa: E402
from equipoise.train.prediction import decisions  # noqa: E402
from equipoise.train.sampler import Sampler  # noqa: E402
from equipoise.train.state import first_models  # noqa: E402
from refusals import refused  # noqa: E402

SIZES = (5, 9, 13)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def shards(features=6, classes=3, sizes=SIZES, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal((size, features)), rng.integers(0, classes, size)) for size in sizes]


def small(reg=0.1, dtype=torch.float64, sizes=SIZES, **options):
    return TorchModel(mlp(6, 3, hidden=4), shards(sizes=sizes), reg=reg, dtype=dtype, **options)


def rows_for(model, seed=1, scale=0.5):
    return scale * np.random.default_rng(seed).standard_normal((model.nodes, model.size))


def plain(model, net_, node_shard, y, samples, reg):
    """g_i and its gradient by a fresh module and loss.backward(), nothing shared with the adapter."""
    X, labels = node_shard
    module = net_().double()
    nn.utils.vector_to_parameters(torch.from_numpy(y.copy()), module.parameters())
    out = module(torch.from_numpy(np.asarray(X, dtype=np.float64)))
    flat = nn.utils.parameters_to_vector(module.parameters())
    loss = nn.functional.cross_entropy(out, torch.from_numpy(labels), reduction="sum") / samples
    loss = loss + reg / (2 * model.nodes) * (flat @ flat)
    loss.backward()
    return loss.item(), torch.cat([p.grad.flatten() for p in module.parameters()]).numpy()


def test_losses_and_gradients_are_those_of_plain_autograd():
    """Node by node, shards of unequal size: the same as a module trained on its own."""
    model, make, data = small(), mlp(6, 3, hidden=4), shards()
    Y = rows_for(model)
    expected = [plain(model, make, shard, y, sum(SIZES), 0.1) for shard, y in zip(data, Y, strict=True)]
    for i, (loss, gradient) in enumerate(expected):
        assert model.loss(i, Y[i]) == pytest.approx(loss, rel=1e-12)
        np.testing.assert_allclose(model.gradient(i, Y[i]), gradient, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(model.gradients(Y), [g for _, g in expected], rtol=1e-10, atol=1e-14)


def test_gradients_match_finite_differences_and_totals_add_up():
    """Along a random direction; and the pooled loss is the sum over nodes."""
    model = small()
    Y, direction = rows_for(model), np.random.default_rng(2).standard_normal(model.size)
    for i, y in enumerate(Y):
        rise = (model.loss(i, y + 1e-6 * direction) - model.loss(i, y - 1e-6 * direction)) / 2e-6
        assert model.gradient(i, y) @ direction == pytest.approx(rise, rel=1e-6)
    sums = [sum(model.loss(i, y) for i in range(model.nodes)) for y in Y]
    np.testing.assert_allclose(model.totals(Y), sums, rtol=1e-12)
    loss, gradient = model.total(Y[0])
    assert loss == pytest.approx(sums[0], rel=1e-12)
    np.testing.assert_allclose(gradient, sum(model.gradient(i, Y[0]) for i in range(model.nodes)), rtol=1e-10)


def test_a_linear_net_is_softmax_regression():
    """One linear layer has Softmax's loss, gradient and mini-batch gradient, with parameters in another order."""
    data = shards()
    ours, known = (
        TorchModel(lambda: nn.Linear(6, 3), data, reg=0.2, dtype=torch.float64),
        Softmax(data, classes=3, reg=0.2),
    )
    W = np.random.default_rng(3).standard_normal((7, 3))
    y, other = np.concatenate([W[:-1].T.ravel(), W[-1]]), W.ravel()
    assert ours.total(y)[0] == pytest.approx(known.total(other)[0], rel=1e-12)
    rows = [np.array([0, 2, 4]), np.array([1, 3]), np.array([5, 6, 7, 8])]
    found, _ = ours.sampled(np.tile(y, (3, 1)), rows)
    expected, _ = known.sampled(np.tile(other, (3, 1)), rows)
    for mine, theirs in zip(found, expected, strict=True):
        back = np.vstack([mine[:18].reshape(3, 6).T, mine[18:]])
        np.testing.assert_allclose(back.ravel(), theirs, rtol=1e-10, atol=1e-14)


def test_batches_of_unequal_size_are_each_centres_own():
    """Padding counts for nothing: every node's batch by itself, through plain autograd, gives the same."""
    model, make, data = small(), mlp(6, 3, hidden=4), shards()
    Y, rows = rows_for(model), [np.array([3]), np.array([0, 1, 2, 8]), np.arange(13)]
    found, spread = model.sampled(Y, rows)
    for i, (X, labels) in enumerate(data):
        picked = rows[i]
        _, bare = plain(model, make, (X[picked], labels[picked]), Y[i], 1.0, 0.0)
        expected = bare / len(picked) * SIZES[i] / sum(SIZES) + 0.1 / 3 * Y[i]
        np.testing.assert_allclose(found[i], expected, rtol=1e-10, atol=1e-14)
    assert np.isnan(spread[0]) and np.isfinite(spread[1:]).all()  # one sample shows no variance
    np.testing.assert_allclose(model.sampled(Y, [np.arange(s) for s in SIZES])[0], model.gradients(Y), rtol=1e-10)
    same = np.tile(Y[0], (3, 1))
    np.testing.assert_allclose(model.pooled(Y[0], rows), model.sampled(same, rows)[0].sum(axis=0), rtol=1e-10)


def test_sampled_gradients_and_variances_are_right_on_average():
    """Over many draws the mean gradient is the shard's, and the mean sigma^2 that of per-sample gradients."""
    model, make, data = small(reg=0.0), mlp(6, 3, hidden=4), shards()
    Y, sampler, draws = rows_for(model), Sampler(model, [2, 3, 6], seed=0), 400
    gradients, spreads = np.zeros_like(Y), np.zeros((draws, 3))
    for k in range(draws):
        gradients += sampler.at(Y, k) / draws
        spreads[k] = sampler.spread
    for i, (X, labels) in enumerate(data):
        each = np.array(
            [plain(model, make, (X[k : k + 1], labels[k : k + 1]), Y[i], 1.0, 0.0)[1] for k in range(len(X))]
        )
        sigma = float(each.var(axis=0, ddof=1).sum())
        noise = spreads[:, i].std() / np.sqrt(draws)
        assert abs(spreads[:, i].mean() - sigma) < 5 * noise
        error = np.linalg.norm(gradients[i] - model.gradients(Y)[i]) * sum(SIZES) / SIZES[i]
        assert error < 3 * np.sqrt(sigma / draws)


def test_the_cnn_has_plain_autograds_gradients_too():
    """Convolutions under the vectorised call: in float32, to its rounding."""
    rng = np.random.default_rng(0)
    data = [(rng.random((4, 784)), rng.integers(0, 10, 4)) for _ in range(2)]
    model = TorchModel(cnn(10, channels=(2, 3)), data)
    y = model.start()
    found = model.sampled(np.tile(y, (2, 1)), [np.arange(4), np.arange(3)])[0]
    _, expected = plain(model, cnn(10, channels=(2, 3)), data[0], y, 8.0, 0.0)
    np.testing.assert_allclose(found[0], expected, atol=2e-6)
    assert model.accuracy(y, *data[0]) in (0.0, 0.25, 0.5, 0.75, 1.0)


def test_the_start_is_drawn_by_seed_and_the_curvature_there_is_no_less_than_along_a_line():
    """The same seed gives the same net; a random direction shows no more curvature than smoothness() says."""
    model = small(reg=0.0)
    assert (model.start() == model.start(0)).all() and (model.start(0) != model.start(1)).any()
    assert (small(seed=1).start() == model.start(1)).all()
    L, y, rng = model.smoothness(), model.start(), np.random.default_rng(5)
    assert np.isfinite(L).all() and (L > 0).all()
    for _ in range(20):
        v = rng.standard_normal(model.size)
        v *= 1e-4 / np.linalg.norm(v)
        for i in range(model.nodes):
            assert np.linalg.norm(model.gradient(i, y + v) - model.gradient(i, y)) <= 1e-4 * L[i]


def test_squared_losses_fit_numbers():
    """Regression: half the squared error, no accuracy; a loss of one's own does the same."""
    rng = np.random.default_rng(0)
    data = [(rng.standard_normal((6, 2)), rng.standard_normal(6)) for _ in range(2)]
    own = TorchModel(lambda: nn.Linear(2, 1), data, loss=lambda out, y: (out[:, 0] - y) ** 2 / 2, dtype=torch.float64)
    model = TorchModel(lambda: nn.Linear(2, 1), data, loss="squared", dtype=torch.float64)
    y = np.array([0.5, -1.0, 0.25])
    expected = sum(0.5 * ((X @ y[:2] + y[2] - t) ** 2).sum() for X, t in data) / 12
    assert model.total(y)[0] == pytest.approx(expected) and own.total(y)[0] == pytest.approx(expected)
    assert model.accuracy(y, *data[0]) is None


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)), ("module.layer", "BatchNorm1d")),
        (lambda: nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 3)), ("module.layer", "Dropout")),
        (lambda: nn.Linear(5, 3), ("model.features", 6)),
        (lambda: nn.Linear(6, 2), ("model.labels", "0..2")),
        (nn.ReLU, ("module.parameters",)),
        (lambda: 3, ("module.type", "int")),
    ],
)
def test_nets_that_cannot_be_trained_together_are_refused_by_name(make, refusal):
    """Other samples, chance, wrong shapes: one line that says which."""
    with refused(*refusal):
        TorchModel(make, shards())


def test_other_wrong_settings_are_explained():
    """A loss nobody knows, a negative ridge, a cnn for other images, a net that cannot be drawn anew, a start at zero."""
    with refused("unknown", "'hinge'"):
        TorchModel(mlp(6, 3), shards(), loss="hinge")
    with refused("model.reg", -1.0):
        TorchModel(mlp(6, 3), shards(), reg=-1.0)
    with refused("model.features", "28 x 28"):
        net("cnn", 64, 10)
    with refused("unknown", "'vgg'"):
        net("vgg", 64, 10)
    given = TorchModel(nn.Linear(6, 3), shards())
    with refused("model.start"):
        given.start(7)
    with refused("start.zeros", "start=model.start"):
        solve(Problem(model=small()), Network.ring(3), rounds=1, start="zeros")


def test_by_default_a_net_begins_where_it_was_drawn():
    """By the run's seed where a function makes the net, else as it was given."""
    drawn, fixed = small(), TorchModel(nn.Linear(6, 3), shards())
    for model, expected in ((drawn, drawn.start(5)), (fixed, fixed.start())):
        np.testing.assert_array_equal(first_models(model, "auto", 5), np.tile(expected, (model.nodes, 1)))
        assert not first_models(model, "zeros", 5).any()


def test_torch_is_loaded_only_when_asked_for():
    """Importing train leaves torch alone; without torch, asking for TorchModel says what to install."""
    script = "import sys, equipoise.train, equipoise.train.models; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
    script = (
        "import sys; sys.modules['torch'] = None\nfrom equipoise.errors import InputError\nimport equipoise.train\n"
        "try: equipoise.train.TorchModel\nexcept InputError as e: print(e)"
    )
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert said.strip() == "TorchModel needs torch: pip install 'equipoise[torch]'"


def played(model, rounds=60, **options):
    options = {"batch": 4, "start": model.start(), "every": 20} | options
    return solve(Problem(model=model), Network.complete(3), options.pop("method", Method()), rounds=rounds, **options)


def test_a_run_of_a_net_certifies_its_loss_and_no_gap():
    """No optimum is looked for: history has the worst centre's loss, the certificate holds it against the start."""
    model = small(reg=0.01, dtype=torch.float32)
    run = played(model)
    assert run.model_optimum is None and np.isnan(run.gap)
    assert run.history["loss"][0] == pytest.approx(model.total(model.start())[0], rel=1e-5)
    assert run.history["loss"][-1] == pytest.approx(model.totals(run.models).max(), rel=1e-6)
    certificate = run.certificate()
    assert {check.name for check in certificate} == {"tracker", "consensus", "loss", "bits"}
    assert certificate["loss"].value == pytest.approx(run.history["loss"][-1] / run.history["loss"][0])
    assert certificate["loss"].passed and certificate["tracker"].passed and certificate["bits"].passed
    assert run.summary()["loss"] == run.history["loss"][-1] and "loss" in repr(run)


def test_a_loss_that_rose_or_missed_its_target_fails():
    """The loss check is a real one: an absurd step fails it, and so does a target that was not reached."""
    model = small(reg=0.0)
    with pytest.warns(UserWarning, match="alpha"):
        wild = played(model, method=Method(alpha=3e4, quantizer=Exact()))
    assert not wild.certificate()["loss"].passed
    assert not played(model, target=1e-3).certificate()["loss"].passed
    run = played(model, rounds=2000, target=0.95)
    assert run.status == "converged" and run.certificate()["loss"].passed


def test_a_net_and_a_market_in_one_run():
    """CPU keeps its own gap and checks beside the net's loss."""
    problem = Problem(cost=Quadratic([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], lo=0.0, hi=10.0), budget=6.0, model=small())
    run = solve(problem, Network.complete(3), rounds=120, start=problem.model.start(), batch=4)
    certificate = run.certificate()
    assert {"budget", "box", "kkt", "gap", "loss", "consensus", "tracker", "bits"} <= {c.name for c in certificate}
    assert certificate["gap"].passed and certificate["budget"].value == 0.0 and certificate["loss"].passed


def test_a_net_resumes_bit_for_bit(tmp_path):
    """Stopped half-way and taken up again, it ends where the whole run does."""
    model, path = small(dtype=torch.float32), tmp_path / "half.npz"
    whole = played(model, rounds=40)
    played(model, rounds=40, checkpoint=path, checkpoint_every=20, callback=lambda moment: moment.number == 20)
    rest = played(model, rounds=40, resume=path)
    np.testing.assert_array_equal(rest.models, whole.models)
    np.testing.assert_array_equal(rest.history["loss"], whole.history["loss"])
    assert rest.bits == whole.bits and rest.certificate()["tracker"].passed


def noisy_problem():
    rng = np.random.default_rng(0)
    W, data = 3 * rng.standard_normal((4, 3)), []
    for _ in range(3):
        X = rng.standard_normal((60, 4))
        data.append((X, (X @ W + rng.gumbel(size=(60, 3))).argmax(axis=1)))
    return Problem(model=Softmax(data, classes=3, reg=0.05)), Network.complete(3)


def test_mini_batches_of_a_convex_model_are_held_to_their_noise():
    """Without a target the limit is 2 gamma tr C of the start's gap, from variances measured here, and the text says so."""
    problem, network = noisy_problem()
    run = solve(problem, network, Method(cap=0.2), rounds=400, batch=30)
    check = run.certificate()["gap"]
    assert check.passed and "noise" in check.meaning
    all_but_one = Sampler(problem.model, 59)  # nearly all samples show the variance itself
    all_but_one.at(run.models, 0)
    gamma = run.steps.alpha / 3 / (1 - 0.2)
    expected = 2 * gamma * float((all_but_one.spread / 9 * (1 / 30 - 1 / 60)).sum()) / run.history["model_gap"][0]
    assert check.limit == pytest.approx(expected, rel=0.5)


def test_a_noisy_gap_is_never_passed_by_default():
    """A given target stays; one sample shows no noise, and too much of it allows anything: both leave the gap unmade."""
    problem, network = noisy_problem()
    exact = solve(problem, network, rounds=800).certificate()["gap"]
    assert exact.limit == 1e-6 and exact.passed
    asked = solve(problem, network, rounds=30, batch=8, target=1e-8).certificate()["gap"]
    assert asked.limit == 1e-8 and not asked.passed
    single = solve(problem, network, rounds=30, batch=1).certificate()["gap"]
    assert single.passed is None and "one sample" in single.meaning
    wild = solve(problem, network, Method(cap=0.97), rounds=30, batch=2).certificate()["gap"]
    assert wild.passed is None and "noise" in wild.meaning


def test_class_weights_are_repeated_rows():
    """A weight of 2 for class 1 is each of its rows twice, up to the number of samples that the mean is over."""
    rng = np.random.default_rng(0)
    shards = [(rng.standard_normal((20, 3)), rng.integers(0, 2, 20)) for _ in range(2)]
    twice = [(np.vstack([X, X[y == 1]]), np.concatenate([y, y[y == 1]])) for X, y in shards]
    weighted = net_of(shards, classes=2, reg=0.0, class_weight=[1.0, 2.0])
    repeated = net_of(twice, classes=2, reg=0.0)
    Y = np.stack([weighted.start(0)] * 2)
    part = repeated.samples / weighted.samples
    assert_allclose(weighted.gradients(Y), part * repeated.gradients(Y), atol=1e-6)
    assert_allclose(weighted.totals(Y), part * repeated.totals(Y), rtol=1e-5)


def test_a_net_answers_without_torch_as_torch_does():
    """The layers, read from the parameters, give torch's own scores."""
    rng = np.random.default_rng(1)
    model = net_of([(rng.standard_normal((30, 4)), rng.integers(0, 3, 30))], classes=3)
    X, y = rng.standard_normal((10, 4)), model.start(0) + 0.1
    assert_allclose(decisions("mlp", y, X, 3), model.scores(y, X), atol=1e-5)
