"""Nets over centres that each know few labels: gradient tracking against plain ways to train the same net."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from equipoise import data
from equipoise.train import Method, Network
from equipoise.train.steps import choose_steps

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'equipoise[torch]'")

from equipoise.train import TorchModel  # noqa: E402
from equipoise.train.deep import (  # noqa: E402
    Plan,
    centralised,
    cnn,
    decentralised,
    local_averaging,
    mlp,
    tracking,
)
from equipoise.train.deep.rivals import MOMENTUM, tracking_method  # noqa: E402
from refusals import refused  # noqa: E402

BENCH = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/train/deep.py"))

CENTRES = 5


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def digits():
    return data.load("digits")


@pytest.fixture(scope="module")
def model(digits):
    """Two labels a centre."""
    return TorchModel(mlp(64, 10, hidden=16), data.split(digits.X, digits.y, CENTRES, "label"))


def test_tracking_on_sorted_labels_ends_clearly_above_plain_decentralised_sgd(digits):
    """Digits, one label a centre, on a ring: the worst centre nears the centralised net, and leaves plain SGD far behind."""
    sorted_by_label = TorchModel(mlp(64, 10, hidden=16), data.split(digits.X, digits.y, 10, "label"))
    rounds = BENCH["rounds_of"](sorted_by_label, 6, 4)
    ours, centre, plain = (
        BENCH["played"](way, sorted_by_label, Network.ring(10), digits, Plan(rounds, 4, rate))
        for way, rate in (("tracking", 0.4), ("centralised", 0.4), ("decentralised", 0.2))
    )
    assert ours.worst > centre.worst - 0.04
    assert ours.worst > plain.worst + 0.2 and ours.loss < 0.5 * plain.loss
    assert ours.certified is True and centre.certified is None and centre.megabytes == 0


def test_centralised_is_sgd_written_out(model):
    """Two steps by hand on the summed gradients, at a rate that fades."""
    plan = Plan(2, 1000, 0.3, fade=2.0)
    y = model.start()
    for rate in (0.3, 0.2):  # 0.3 / (1 + 1/2)
        y = y - rate * model.total(y)[1]
    np.testing.assert_allclose(centralised(model, Network.ring(CENTRES), plan).models[3], y, atol=1e-6)


def test_with_whole_shards_one_local_round_is_an_average_of_own_steps(model):
    """Five steps on one's own data, then the mean; every parameter goes up and down once in float32."""
    found = local_averaging(model, Network.ring(CENTRES), Plan(5, 1000, 0.05, rise=None))
    Y = np.tile(model.start(), (CENTRES, 1))
    for _ in range(5):
        Y = Y - 0.05 * CENTRES * model.gradients(Y)
    np.testing.assert_allclose(found.models, np.tile(Y.mean(axis=0), (CENTRES, 1)), atol=1e-6)
    assert found.bits == 2 * 32 * CENTRES * model.size


def test_decentralised_first_steps_are_those_of_its_formula(model):
    """From a common start the first round has nothing to mix; the second mixes what was told, floats at first contact."""
    network = Network.complete(CENTRES)
    first = decentralised(model, network, Plan(1, 1000, 0.05, rise=None))
    start = np.tile(model.start(), (CENTRES, 1))
    Y = start - 0.05 * CENTRES * model.gradients(start)
    np.testing.assert_allclose(first.models, Y, atol=1e-7)
    assert first.bits == 64 * model.size * CENTRES * (CENTRES - 1)
    again = decentralised(model, network, Plan(2, 1000, 0.05, rise=None))
    mixing = np.exp(-0.125 / 2) / CENTRES  # Metropolis weight of a complete graph, below what codes may overshoot
    mixed = Y + mixing * CENTRES * (Y.mean(axis=0) - Y)
    expected = mixed - 0.05 * CENTRES * model.gradients(Y)
    np.testing.assert_allclose(again.models, expected, atol=0.1 * np.abs(Y - start).max())  # codes are right to 6%


def test_trackings_rate_is_that_of_the_plan(model):
    """alpha / (n (1 - cap)) is the highest rate; a fading one goes along edges, where step alpha / n is."""
    network = Network.ring(CENTRES)
    run = tracking(model, network, Plan(3, 8, 0.5)).run
    assert run.steps.alpha / (CENTRES * (1 - run.steps.momentum)) == pytest.approx(0.5)
    faded = tracking_method(model, network, Plan(3, 8, 0.5, fade=10.0))
    assert faded.step * faded.alpha / CENTRES == pytest.approx(0.5) and not faded.by_meetings


def test_a_rate_rises_and_falls_alike_for_all(model):
    """Up over the first fifth, down to a fiftieth; without `rise` it stays, and one round of ours is then a plain step."""
    plan = Plan(10, 1000, 0.5)
    np.testing.assert_allclose([plan.rate_at(k) for k in (0, 1, 2, 6, 9)], [0.25, 0.5, 0.5, 0.25, 0.0625])
    assert Plan(1000, 8, 0.5).rate_at(999) == pytest.approx(0.01)
    method = tracking_method(model, Network.ring(CENTRES), plan)
    assert [method.faded(k) for k in range(10)] == pytest.approx([plan.rate_at(k) / 0.5 for k in range(10)])
    assert Plan(10, 1000, 0.5, rise=None).rate_at(3) == 0.5
    first = replace(plan, rounds=1, rise=None)
    moved = tracking(model, Network.ring(CENTRES), first).models.mean(axis=0) - model.start()
    np.testing.assert_allclose(moved, -0.5 * (1 - MOMENTUM) * model.total(model.start())[1], atol=1e-6)
    with refused("rise.range", 1.5):
        Plan(10, 8, 0.5, rise=1.5)


def test_descent_and_ramp_say_what_they_take(model):
    """descent goes with an automatic alpha and multiplies it; a ramp is two numbers of rounds, without fade."""
    ring = Network.ring(CENTRES)
    usual = choose_steps(None, model, model.smoothness(), ring, Method()).alpha
    assert choose_steps(None, model, model.smoothness(), ring, Method(descent=3.0)).alpha == pytest.approx(3 * usual)
    for wrong in ({"descent": 0.0}, {"descent": 2.0, "alpha": 0.1}):
        with refused("descent.range"):
            Method(**wrong)
    for wrong in ({"ramp": (5.0, 5.0)}, {"ramp": (0.0, 5.0)}, {"ramp": (1.0, 5.0), "fade": 3.0}):
        with refused("ramp.range"):
            Method(**wrong)


def test_samples_are_counted_in_passes(model):
    """A pass draws as many samples as there are."""
    assert BENCH["rounds_of"](model, 2.0, 7) == round(2 * model.samples / (7 * CENTRES))


def test_a_cnn_learns_mnist_by_label(shared_data):
    """A taste of the real thing: 2000 images, 5 centres with two digits each; chance is 10%."""
    mnist = data.load("mnist", folder=shared_data / "mnist")
    few = TorchModel(cnn(10), data.split(mnist.X[:2000], mnist.y[:2000], CENTRES, "label"))
    outcome = tracking(few, Network.ring(CENTRES), Plan(200, 8, 0.3))
    assert min(few.accuracy(y, mnist.X_test[:1000], mnist.y_test[:1000]) for y in outcome.models) > 0.5
