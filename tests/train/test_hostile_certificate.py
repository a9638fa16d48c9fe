"""What a certificate on a hostile network must not pass, and what its books must never do."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from equipoise.train import (
    Bursts,
    Faults,
    LeastSquares,
    LogQuantizer,
    Method,
    Network,
    Partition,
    Problem,
    Quadratic,
    solve,
)
from refusals import refused


def shards_with_a_loud_one(seed=1):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=3)
    shards = []
    for i in range(5):
        X = rng.normal(size=(12, 3))
        shards.append((X, X @ (w * (i + 1)) + 0.1 * rng.normal(size=12)))
    shards[4] = (3 * shards[4][0], 1e5 * rng.normal(size=12))
    return shards


def test_a_loud_centre_that_left_does_not_hide_the_survivors_gap():
    """Gaps are a part of what the survivors themselves had to go, not of one with a centre that is gone."""
    problem = Problem(model=LeastSquares(shards_with_a_loud_one()))
    rows = np.concatenate([X for X, _ in shards_with_a_loud_one()[:4]])
    answers = np.concatenate([y for _, y in shards_with_a_loud_one()[:4]])
    best, zero = np.linalg.lstsq(rows, answers, rcond=None)[0], np.zeros(3)
    for rounds, arrived in ((25, False), (1500, True)):
        run = solve(problem, Network.complete(5), faults=Faults(loss=0.2, leave={4: 3}), rounds=rounds)
        ours, least, first = (np.sum((rows @ y - answers) ** 2) for y in (run.models[0], best, zero))
        assert (ours - least <= 1e-5 * (first - least)) == arrived
        assert run.certificate().passed == arrived


def test_a_steep_centre_that_left_does_not_end_the_run():
    cost = Quadratic([1, 1, 1, 1, 1e5], [0, 10, 20, 30, 200], lo=0.0, hi=500.0)
    run = solve(Problem(cost, 100.0), Network.ring(5), faults=Faults(leave={4: 5}), rounds=2000, target=1e-6)
    np.testing.assert_allclose(run.shares[:4], [10, 20, 30, 40], atol=0.1)
    assert run.certificate().passed


def test_a_debt_never_breaks_a_box():
    """A centre below zero dies: what it owed is paid from what is above lo."""
    cost = Quadratic(1.0, [10, 12, 14, -40], lo=[5, 5, 5, -50], hi=50.0)
    for faults in (Faults(loss=0.1, crash={3: 60}), Faults(loss=0.1, leave={3: 60})):
        run = solve(Problem(cost, 16.0), Network.complete(4), faults=faults, rounds=400)
        assert run.worst.box == 0.0
        assert run.worst.budget == 0.0


@pytest.mark.parametrize("nodes", [{0}, {0, 1, 2}])
def test_a_leave_in_a_split_moves_nothing_across(nodes):
    cost = Quadratic([1.0, 2.0, 1.0, 3.0, 1.0, 2.0], [5, 10, 15, 20, 25, 30], lo=0.0, hi=60.0)
    sides = {}

    def look(moment):
        if 53 <= moment.number < 200:
            inside = sum(moment.state.allocation.shares[[n for n in range(6) if n not in nodes]])
            inside += sum(moment.state.allocation.escrow[[n for n in range(6) if n not in nodes]])
            sides[moment.number] = int(inside)

    faults = Faults(leave={0: 100}, partition=Partition(nodes, 50, 200), notice=3)
    run = solve(Problem(cost, 90.0), Network.complete(6), faults=faults, rounds=800, callback=look)
    assert len(set(sides.values())) == 1  # no CPU reached the other side while it was cut off
    assert run.certificate().passed
    assert run.shares[0] == 0.0


def test_senders_build_only_on_packets_that_arrived():
    """What a sender takes for acknowledged is among the packets its receiver has held, whatever was lost."""
    held = {}

    def look(moment):
        exchange = moment.state.exchange
        for slot, link in enumerate(exchange.table.back):  # what a slot's owner hears comes over the link back
            if exchange.region.fresh[slot]:
                held.setdefault(link, set()).add(int(exchange.newest[slot]))
        for link, acked in enumerate(exchange.region.acked.tolist()):
            assert acked == -1 or acked in held.get(link, set())

    rng = np.random.default_rng(0)
    problem = Problem(Quadratic(rng.uniform(1, 3, 6), rng.uniform(5, 30, 6), lo=0.0, hi=40.0), 90.0)
    faults = Faults(loss=0.4, delay=3)
    run = solve(
        problem, Network.ring(6), Method(quantizer=LogQuantizer(rho=0.5)), faults=faults, rounds=300, callback=look
    )
    assert run.certificate().passed


def test_a_net_is_refused_from_zeros_here_too():
    from equipoise.train.models.torch_model import TorchModel, mlp

    rng = np.random.default_rng(0)
    shards = [(rng.normal(size=(8, 4)), rng.integers(0, 2, 8)) for _ in range(4)]
    model = TorchModel(mlp(4, 2, 3), shards)
    with refused("start.zeros", "start=model.start"):
        solve(Problem(model=model), Network.ring(4), start="zeros", batch=4, faults=Faults(loss=0.1), rounds=3)


def test_samples_are_those_of_the_living():
    """20 at the start, 20 a round until round 10, then 4 a round of the one who is left."""
    rng = np.random.default_rng(0)
    model = LeastSquares([(rng.normal(size=(12, 2)), rng.normal(size=12)) for _ in range(5)], reg=0.1)
    faults = Faults(crash=[(node, 10) for node in range(4)])
    run = solve(Problem(model=model), Network.complete(5), faults=faults, rounds=100, batch=4)
    assert run.history["samples"][-1] == 20 + 10 * 20 + 90 * 4


@pytest.mark.parametrize("stop", [80, 110])
def test_resume_in_a_split_with_somebody_waiting(tmp_path, stop):
    """Cut noticed at 65, a crash inside it that nobody can claim, a rejoin that waits: all of it is kept."""
    rng = np.random.default_rng(2)
    problem = Problem(Quadratic(rng.uniform(1, 3, 6), rng.uniform(5, 30, 6), lo=0.0, hi=40.0), 90.0)
    faults = Faults(loss=0.1, crash={1: 70}, join={1: 100}, partition=Partition({0, 5}, 60, 140))
    network, kept = Network.ring(6), tmp_path / "checkpoint.npz"
    whole = solve(problem, network, faults=faults, rounds=200)
    solve(
        problem,
        network,
        faults=faults,
        rounds=200,
        checkpoint=kept,
        checkpoint_every=10,
        callback=lambda moment: moment.number == stop,
    )
    again = solve(problem, network, faults=faults, rounds=200, resume=kept)
    assert_array_equal(whole.shares, again.shares)
    assert whole.bits == again.bits
    assert whole.present[1]


def test_resume_of_the_push_form(tmp_path):
    rng = np.random.default_rng(3)
    problem = Problem(Quadratic(rng.uniform(1, 3, 8), rng.uniform(5, 30, 8)), 120.0)
    network, kept = Network.erdos_renyi(8, 0.4, directed=True, switching=2), tmp_path / "checkpoint.npz"
    whole = solve(problem, network, rounds=60)
    solve(
        problem, network, rounds=60, checkpoint=kept, checkpoint_every=10, callback=lambda moment: moment.number == 20
    )
    again = solve(problem, network, rounds=60, resume=kept)
    assert_array_equal(whole.shares, again.shares)


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda: Faults(seed=2**63), ("seed.range", "seed=9223372036854775808")),
        (lambda: Faults(straggle=[1, 2]), ("straggle.form",)),
        (lambda: Faults(straggle={1.5: 2}), ("straggle.node", 1.5)),
        (lambda: Faults(straggle={1: 2**70}), ("straggle.range",)),
        (lambda: Faults(delay=True), ("delay.range", "True")),
        (lambda: Faults(notice=True), ("notice.range", "True")),
        (lambda: Faults(jitter="no"), ("jitter.type", "'no'")),
        (lambda: Faults(partition=3), ("partition.type", "Partition")),
        (lambda: Partition("01", 3), ("partition.nodes", "'01'")),
        (lambda: Partition([0.5], 3), ("partition.nodes",)),
        (lambda: Bursts(0, 1, 1, 1), ("loss.total",)),
        (
            lambda: solve(Problem(Quadratic(1.0, [1, 2]), 3.0), Network.ring(2), faults={"loss": 0.1}),
            ("faults.type", "Faults"),
        ),
    ],
)
def test_odd_input_is_refused_in_one_line(make, refusal):
    with refused(*refusal):
        make()
