"""What a certificate must not pass: nothing optimised, outputs that were changed, what is no number; and what it must."""

import dataclasses
import json
import math
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from equipoise.cli import main
from equipoise.errors import InputError
from equipoise.train import (
    Faults,
    Latency,
    LeastSquares,
    LogQuantizer,
    Method,
    Network,
    Problem,
    Quadratic,
    TrainSpec,
    check_cost,
    solve,
)
from equipoise.train.hostile.state import HostileState
from equipoise.train.state import State

NODES = 12
NETWORK = Network.erdos_renyi(NODES, 0.4, seed=0)


def costs(kind, box):
    """Quadratic or latency costs of nodes that differ by a factor of ten, with these bounds of every share."""
    rng = np.random.default_rng(1)
    lo, hi = box
    if kind == "quadratic":
        return Quadratic(rng.uniform(0.5, 3, NODES), rng.uniform(10, 60, NODES), lo=lo, hi=hi)
    return Latency(np.geomspace(100, 1000, NODES), lo=lo, hi=hi)


def shards(seed=0):
    """Rows and answers of least squares for every node."""
    rng = np.random.default_rng(seed)
    return [(X, X @ [1.0, -2.0] + 0.1 * rng.standard_normal(9)) for X in rng.standard_normal((NODES, 9, 2))]


@pytest.fixture
def frozen(monkeypatch):
    """A broken optimiser: rounds go by, and nothing moves."""
    for kind in (State, HostileState):
        monkeypatch.setattr(kind, "advance", lambda self, round, number: None)
    for kind in (State,):
        monkeypatch.setattr(kind, "swift", False)


# nothing was optimised


@pytest.mark.parametrize("faults", [None, Faults(loss=0.1)], ids=["calm", "faults"])
@pytest.mark.parametrize("box", [(1e-4, 100.0), (0.001, 100.0), (0.1, 60.0), (15.0, 25.0)], ids=str)
@pytest.mark.parametrize("kind", ["quadratic", "latency"])
def test_shares_that_never_move_are_caught(frozen, kind, box, faults):
    """Gap and kkt both fail where shares stay as they were, however wide the boxes are and whatever f'' is at their ends."""
    run = solve(Problem(costs(kind, box), 240.0), NETWORK, faults=faults, rounds=20, target=1e-4)
    assert run.status == "finished"
    assert run.relative_gap == pytest.approx(1.0)
    certificate = run.certificate()
    assert certificate["gap"].passed is False
    assert certificate["kkt"].passed is False


@pytest.mark.parametrize("lo", [1e-6, 1e-3, 1.0, 10.0])
def test_a_gap_does_not_depend_on_a_bound_that_nobody_is_at(frozen, lo):
    """The same shares and the same optimum: the gap is 1 and kkt's limit is the same, whatever lo is."""
    run = solve(Problem(costs("latency", (lo, 60.0)), 240.0), NETWORK, rounds=2)
    other = solve(Problem(costs("latency", (5.0, 60.0)), 240.0), NETWORK, rounds=2)
    assert run.relative_gap == other.relative_gap == 1.0
    assert run.certificate()["kkt"].limit == pytest.approx(other.certificate()["kkt"].limit, rel=1e-6)


def test_the_certificate_passes_exactly_when_the_cost_is_that_of_the_optimum():
    """Wide boxes, played for real: a pass means a cost within a millionth of the start's distance, by the cost itself."""
    for lo in (1e-4, 0.1, 5.0):
        cost = costs("latency", (lo, 100.0))
        run = solve(Problem(cost, 240.0), NETWORK, rounds=300)
        best = float(cost.value(run.cpu_optimum.shares).sum())
        first = float(cost.value(np.full(NODES, 20.0)).sum()) - best
        away = float(cost.value(run.shares).sum()) - best
        assert run.certificate()["gap"].passed == (away <= 1e-6 * first), lo


def test_a_gap_that_is_large_beside_the_optimum_is_told():
    """One steep node makes the start so bad that a hundred-thousandth of its gap is most of the optimum: it is said."""
    cost = Quadratic([1e6] + [1.0] * (NODES - 1), np.linspace(0, 40, NODES), lo=0.0, hi=60.0)
    told = solve(Problem(cost, 240.0), NETWORK, rounds=2000, target=1e-5).certificate()["gap"]
    beside = float(told.meaning.split("relative to the optimum itself it is ")[1])
    assert told.passed
    assert beside > 100 * told.value
    calm = solve(Problem(costs("quadratic", (0.0, 60.0)), 240.0), NETWORK, rounds=500).certificate()["gap"]
    assert calm.meaning.endswith("relative to the start")


def test_the_command_says_that_nothing_was_optimised(frozen, tmp_path, monkeypatch):
    """--lo 0.001 with a broken optimiser: exit code 1 and a certificate that failed, not "target reached in round 1"."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["equipoise", "train", "--data", "none", "--lo", "0.001", "--rounds", "5"])
    with pytest.raises(SystemExit) as leaving:
        main()
    assert leaving.value.code == 1
    (kept,) = tmp_path.glob("runs/*/result.json")
    failed = {c["name"] for c in json.loads(kept.read_text())["certificate"]["checks"] if not c["passed"]}
    assert {"gap", "kkt"} <= failed


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.01, 1.0, 30.0]), st.sampled_from([30, 400]), st.booleans())
def test_a_pass_is_always_deserved(seed, width, rounds, latency):
    """Boxes side by side on a path, narrow or wide, arrived or not: a gap that passed is one by the costs themselves."""
    rng = np.random.default_rng(seed)
    lo = rng.uniform(1, 20, NODES)
    hi = lo + width * rng.uniform(0.1, 1, NODES)
    a = rng.uniform(50, 500, NODES)
    cost = Latency(a, lo=lo, hi=hi) if latency else Quadratic(a, rng.uniform(0, 60, NODES), lo=lo, hi=hi)
    budget = float(lo.sum() + rng.uniform(0.1, 0.9) * (hi - lo).sum())
    run = solve(Problem(cost, budget), Network.path(NODES), rounds=rounds)
    best, first = run.cpu_optimum.shares, run.market.grid.floats(run.market.start())
    start, end = (math.fsum(cost.value(x) - cost.value(best)) for x in (first, run.shares))
    if run.certificate()["gap"].passed:
        assert end <= 1.01e-6 * start + 1e-12 * float(np.abs(cost.value(best)).sum())


# a start that is already optimal


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.sampled_from(["quadratic", "latency", "full"]))
def test_an_optimal_start_has_converged_before_the_first_round(seed, nodes, kind):
    """Nodes that are alike, or boxes that are full: equal shares are best; no round is needed, and none makes it worse."""
    rng = np.random.default_rng(seed)
    scale, hi = 10.0 ** rng.uniform(-6, 6), rng.uniform(5, 50)
    if kind == "latency":
        cost = Latency(np.full(nodes, scale), lo=rng.uniform(1e-3, 1), hi=hi)
    else:
        cost = Quadratic(np.full(nodes, scale), np.full(nodes, rng.uniform(-50, 50)), lo=0.0, hi=hi)
    budget = nodes * hi if kind == "full" else nodes * hi * rng.uniform(0.3, 0.9)
    network = Network.ring(nodes) if nodes > 2 else Network.path(nodes)
    run = solve(Problem(cost, float(budget)), network, rounds=50, target=1e-6)
    assert (run.status, run.rounds) == ("converged", 0)
    assert run.certificate().passed
    played = solve(Problem(cost, float(budget)), network, rounds=50)
    assert played.status == "finished"
    assert played.certificate().passed


@pytest.mark.parametrize("noise", [0.0, 0.1], ids=["no loss left", "some loss left"])
@pytest.mark.parametrize("faults", [None, Faults(loss=0.1)], ids=["calm", "faults"])
def test_models_that_start_at_their_optimum_have_converged(noise, faults):
    """Also where the least loss is 0, of which rounding is no small part."""
    rng = np.random.default_rng(5)
    rows = [(X, X @ [1.0, 2.0] + noise * rng.standard_normal(8)) for X in rng.standard_normal((NODES, 8, 2))]
    model = LeastSquares(rows)
    run = solve(Problem(model=model), NETWORK, rounds=50, target=1e-6, start=model.optimum(), faults=faults)
    assert (run.status, run.rounds) == ("converged", 0)
    assert run.certificate().passed


def test_an_optimal_start_waits_for_a_change_of_budget():
    """The start is best for the first budget, but a later one is still to come: the run goes on."""
    problem = Problem(Quadratic(1.0, [5.0] * 3 + [9.0] * 3, lo=0.0, hi=[6.0] * 3 + [20.0] * 3), 6 * 6.0)
    run = solve(problem, Network.ring(6), rounds=400, target=1e-6, budgets={10: 50.0})
    assert run.rounds > 10


# outputs, history and optimum that were changed afterwards


@pytest.fixture(scope="module")
def good():
    """A run of both halves whose certificate passes."""
    problem = Problem(costs("quadratic", (0.0, 40.0)), 240.0, LeastSquares(shards()))
    run = solve(problem, NETWORK, rounds=3000, target=1e-8)
    assert run.certificate().passed
    return run


@pytest.fixture(scope="module")
def survivors():
    """The same with losses and a centre that crashed."""
    problem = Problem(costs("quadratic", (0.0, 40.0)), 240.0, LeastSquares(shards()))
    run = solve(problem, NETWORK, faults=Faults(loss=0.1, crash={3: 40}), rounds=3000, target=1e-6)
    assert run.certificate().passed
    return run


def changed(array, by):
    """A copy with the first two rows moved apart, so that the sum stays."""
    other = np.array(array, copy=True)
    other[0], other[1] = other[0] + by, other[1] - by
    return other


@pytest.mark.parametrize("which", ["good", "survivors"])
def test_other_shares_or_models_than_those_of_the_run_fail_the_gap(which, request):
    """The gap is that of the shares and models in the run, not what its history says."""
    run = request.getfixturevalue(which)
    all_off = run.models + 0.01  # they agree, on something else
    for doctored in (
        dataclasses.replace(run, shares=changed(run.shares, 2.0**-7)),
        dataclasses.replace(run, models=all_off),
    ):
        check = doctored.certificate()["gap"]
        assert check.passed is False
        assert "history" in check.meaning
        assert check.value > run.certificate()["gap"].value


@pytest.mark.parametrize("which", ["good", "survivors"])
def test_an_optimum_that_is_none_fails_the_gap(which, request):
    """Shares and best shares replaced by the same nonsense have no gap: the best ones are checked for being best."""
    run = request.getfixturevalue(which)
    best, least = run.cpu_optimum, run.model_optimum
    off, away = changed(best.shares, 0.25), least.parameters + 0.01
    loss = run.problem.model.total(away)[0]
    cases = {
        "not optimal": {"shares": off, "cpu_optimum": dataclasses.replace(best, shares=off)},
        "add up": {"cpu_optimum": dataclasses.replace(best, shares=best.shares * 1.001)},
        "at their price": {"cpu_optimum": dataclasses.replace(best, price=best.price + 0.1)},
        "gradient": {
            "models": np.tile(away, (NODES, 1)),
            "model_optimum": dataclasses.replace(least, parameters=away, loss=loss),
        },
        "loss of the best": {"model_optimum": dataclasses.replace(least, loss=least.loss * 1.01)},
    }
    for words, changes in cases.items():
        check = dataclasses.replace(run, **changes).certificate()["gap"]
        assert check.passed is False
        assert words in check.meaning


def test_a_start_that_is_made_to_look_worse_fails_the_gap(good):
    """Gaps are a part of the one at the start, which is computed anew from the problem."""
    doctored = dataclasses.replace(good, scales={half: 1e6 * gap for half, gap in good.scales.items()})
    assert doctored.certificate()["gap"].passed is False
    last = good.history["relative_gap"].copy()
    last[-1] /= 1e6
    both = dataclasses.replace(doctored, history=good.history | {"relative_gap": last})
    assert "start" in both.certificate()["gap"].meaning
    assert both.certificate()["gap"].passed is False


def test_a_history_that_ends_elsewhere_fails_the_gap(good):
    """The last row must be what the outputs say, also where it flatters."""
    for factor in (0.5, 2.0):
        told = good.history["relative_gap"].copy()
        told[-1] *= factor
        doctored = dataclasses.replace(good, history=good.history | {"relative_gap": told})
        assert doctored.certificate()["gap"].passed is False


def test_shares_outside_their_boxes_are_seen_in_the_shares_themselves(good):
    """Also where the run's own audit says that none ever was."""
    shares = good.shares.copy()
    shares[0], shares[1] = -1.0, shares[1] + shares[0] + 1.0
    check = dataclasses.replace(good, shares=shares).certificate()["box"]
    assert check.passed is False
    assert check.value >= 1.0


# what is not a number


@pytest.mark.parametrize("which", ["good", "survivors"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_a_number_fails_by_name(which, value, request):
    """One share or one parameter of one model: budget, kkt and gap fail, or consensus and gap."""
    run = request.getfixturevalue(which)
    shares, models = run.shares.copy(), run.models.copy()
    shares[1], models[5, 0] = value, value
    for names, changes in ((("budget", "kkt", "gap"), {"shares": shares}), (("consensus", "gap"), {"models": models})):
        with np.errstate(all="ignore"):
            certificate = dataclasses.replace(run, **changes).certificate()
        for name in names:
            assert certificate[name].passed is False, name


class Failing(LeastSquares):
    """Least squares whose gradients are no numbers from some call on, at one node."""

    calls = 0

    def gradients(self, Y):
        self.calls += 1
        found = super().gradients(Y)
        if self.calls > 20:
            found[3] = np.nan
        return found


@pytest.mark.parametrize("faults", [None, Faults(loss=0.1)], ids=["calm", "faults"])
def test_a_gradient_that_is_no_number_never_passes(faults):
    """A shard that goes bad on the way: the run has diverged and says so, whatever the CPU half does."""
    problem = Problem(costs("quadratic", (0.0, 40.0)), 240.0, Failing(shards()))
    with np.errstate(all="ignore"):
        run = solve(problem, NETWORK, faults=faults, rounds=200, target=1e-9, every=1)  # not reached in 20 gradients
        certificate = run.certificate()
    assert run.status == "diverged"
    assert not certificate.passed
    assert certificate["divergence"].passed is False


# the callback


def test_the_callback_sees_the_round_that_ends_the_run():
    """Converged or without progress: the last round is shown like any other."""
    problem = Problem(costs("quadratic", (0.0, 40.0)), 240.0)
    for options in ({"target": 1e-6}, {"target": 1e-30, "patience": 30}):
        seen = []
        run = solve(
            problem, NETWORK, rounds=5000, every=1, callback=lambda m, seen=seen: seen.append(m.number), **options
        )
        assert run.status in ("converged", "stagnated")
        assert seen == list(range(1, run.rounds + 1))


# costs in any units


class Own:
    """A user's cost: v (exp(w x / u) - 3 w x / u), x in units of u and f in units of v; `wrong` spoils its derivative."""

    def __init__(self, w, u, v, lo, hi, wrong=1.0):
        self.w, self.u, self.v, self.lo, self.hi, self.wrong, self.nodes = w, u, v, lo, hi, wrong, len(w)

    def value(self, x):
        return self.v * (np.exp(self.w * x / self.u) - 3 * self.w * x / self.u)

    def derivative(self, x):
        return self.wrong * self.v / self.u * self.w * (np.exp(self.w * x / self.u) - 3)


class Wave(Own):
    """Not convex."""

    def value(self, x):
        return self.v * np.sin(self.w * x / self.u)

    def derivative(self, x):
        return self.v / self.u * self.w * np.cos(self.w * x / self.u)


class WrongQuadratic(Quadratic):
    """Its derivative is a thousandth too large."""

    def derivative(self, x):
        return 1.001 * super().derivative(x)


class WrongLatency(Latency):
    """Its derivative is a thousandth too large."""

    def derivative(self, x):
        return 1.001 * super().derivative(x)


@settings(max_examples=60, deadline=None)
@given(st.floats(-9, 9), st.floats(-9, 9), st.integers(0, 10**6))
def test_costs_are_judged_alike_in_all_units(of_x, of_f, seed):
    """Shares and costs in units from 1e-9 to 1e9: right derivatives are accepted, wrong ones and bent costs refused."""
    u, v, rng = 10.0**of_x, 10.0**of_f, np.random.default_rng(seed)
    a, c, w = rng.uniform(0.5, 3, 5), rng.uniform(10, 60, 5), rng.uniform(50, 500, 5)
    curved, low, high = a * v / u**2, np.full(5, 3.0 * u), np.full(5, 20 * u)
    right = [
        Quadratic(curved, c * u, lo=0.0, hi=40 * u),
        Quadratic(curved, c * u),
        Latency(w * u * v, 1.0, 1e-4 * v / u**3, lo=0.1 * u, hi=60 * u),
        Latency(w * u * v, lo=1e-4 * u, hi=100 * u),
        Own(a, u, v, 0 * low, high),
        Own(a, u, v, low, low * 1.001),
    ]
    for cost in right:
        check_cost(cost, 5)
    wrong = [
        WrongQuadratic(curved, c * u, lo=0.0, hi=40 * u),
        WrongQuadratic(curved, c * u),
        WrongLatency(w * u * v, lo=1e-4 * u, hi=100 * u),
        Own(a, u, v, 0 * low, high, wrong=1.001),
        Own(a, u, v, 0 * low, high, wrong=0.0),
        Wave(a, u, v, 0 * low, high),
    ]
    for cost in wrong:
        with pytest.raises(InputError, match="derivative"):
            check_cost(cost, 5)


def test_a_run_that_reached_its_target_agrees_to_its_root():
    """No sample has a third column, so that no loss shows in which models differ: a run goes on until they agree."""
    rng = np.random.default_rng(0)
    shards = [
        (np.column_stack([rng.standard_normal((12, 2)), np.zeros(12)]), rng.standard_normal(12)) for _ in range(8)
    ]
    problem = Problem(model=LeastSquares(shards))
    best = solve(problem, Network.ring(8), rounds=1).model_optimum.parameters
    apart = np.tile(best, (8, 1))
    apart[:, 2] = np.arange(8.0)
    run = solve(problem, Network.ring(8), rounds=400, target=1e-4, start=apart)
    assert run.status == "converged" and run.rounds > 0
    assert run.certificate()["consensus"].passed


def test_a_node_that_should_be_at_its_bound_may_be_a_little_off():
    """The gap allows a price of curvature x distance there, with the curvature of the box and not of where it stands."""
    draws = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "train" / "family.py"))
    rng = np.random.default_rng([474, 5])
    network = draws["draw_network"](rng, 474)
    rho = float(np.exp(rng.uniform(np.log(0.05), 0.0)))
    problem = draws["draw_cpu"](rng, network.n, "latency")
    run = solve(problem, network, Method(quantizer=LogQuantizer(rho=rho)), rounds=2000, target=1e-6, every=1)
    assert run.status == "converged" and run.certificate()["kkt"].passed


def test_prices_after_a_crash_are_held_against_the_gap_alone():
    """Gaps are a part of what equal shares would have from then on, whose prices no round has shown."""
    cost = TrainSpec(data="none").build().problem
    run = solve(cost, TrainSpec(data="none").build().network, rounds=300, target=1e-4, faults=Faults(crash={3: 50}))
    assert run.status == "converged" and run.certificate().passed
