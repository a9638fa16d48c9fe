"""The loop around the rounds: stopping, callbacks, checkpoints, changing budgets, and the certificate at the end."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from equipoise.train import (
    Exact,
    LeastSquares,
    LogQuantizer,
    Method,
    Network,
    Problem,
    Quadratic,
    StepWarning,
    UniformQuantizer,
    solve,
)
from equipoise.train.spec import CompareSpec, TrainSpec
from equipoise.train.state import State
from refusals import refused


def both_halves(nodes=12, seed=0, budget=240.0):
    """A CPU half with active boxes and a regression."""
    rng = np.random.default_rng(seed)
    cost = Quadratic(rng.uniform(0.5, 3, nodes), rng.uniform(0, 40, nodes), lo=4.0, hi=30.0)
    shards = []
    for _ in range(nodes):
        X = rng.standard_normal((10, 3))
        shards.append((X, X @ [1.0, -2.0, 3.0] + rng.standard_normal(10)))
    return Problem(cost, budget, LeastSquares(shards))


NETWORKS = {
    "static": Network.erdos_renyi(12, 0.4, seed=1),
    "periodic": Network.erdos_renyi(12, 0.4, switching=3, seed=1),
    "fresh": Network.erdos_renyi(12, 0.4, switching="fresh", seed=1),
}


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("method", [Method(), Method.paper()], ids=["ours", "paper"])
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(tmp_path, kind, method):
    """Stop in the middle, go on from the file: shares, models, history and bits are the same bits."""
    problem, network, file = both_halves(), NETWORKS[kind], tmp_path / "run.npz"
    options = {"rounds": 120, "every": 7, "budgets": {20: 200.0, 90: 260.0}}
    whole = solve(problem, network, method, **options)
    first = solve(problem, network, method, **options, checkpoint=file, callback=lambda m: m.number == 47)
    assert (first.status, first.rounds) == ("stopped", 47)
    second = solve(problem, network, method, **options, resume=file)
    assert_array_equal(second.shares, whole.shares)
    assert_array_equal(second.models, whole.models)
    assert_array_equal(second.link_bits.bits, whole.link_bits.bits)
    assert second.bits == whole.bits
    assert second.tallies == whole.tallies
    for name, column in whole.history.items():
        assert_array_equal(second.history[name], column)
    assert_array_equal(second.share_history, whole.share_history)
    assert second.certificate() == whole.certificate()


def test_periodic_checkpoints_survive_a_crash(tmp_path):
    """An exception in round 61 leaves the checkpoint of round 60 (of every 20); resuming gives the same result."""
    problem, network, file = both_halves(), NETWORKS["fresh"], tmp_path / "deep" / "run.npz"
    whole = solve(problem, network, rounds=100)

    def burst(moment):
        if moment.number == 61:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        solve(problem, network, rounds=100, checkpoint=file, checkpoint_every=20, callback=burst)
    resumed = solve(problem, network, rounds=100, resume=file)
    assert_array_equal(resumed.models, whole.models)
    assert_array_equal(resumed.history["gap"], whole.history["gap"])


MARKETS = Method(cpu="markets", learning="averages")


@pytest.mark.parametrize(
    ("kind", "method"), [*((kind, MARKETS) for kind in NETWORKS), ("static", None), ("periodic", None)]
)
def test_a_run_resumes_with_all_it_remembers(tmp_path, kind, method):
    """Stopped in round 9, while plans lie outside boxes and averages carry on: a run that forgot them would differ."""
    problem, network, file = both_halves(), NETWORKS[kind], tmp_path / "run.npz"
    whole = solve(problem, network, method, rounds=40)
    memory = {}

    def stop(moment):
        memory.update(moment.state.memory())
        return moment.number == 9

    solve(problem, network, method, rounds=40, checkpoint=file, callback=stop)
    if method is None:
        assert np.abs(memory["cpu/node/plan"] - memory["cpu/node/shares"]).max() > 0
        assert np.abs(memory["model/node/flow"]).max() > 0
    else:
        assert np.abs(memory["model/node/average"] - memory["model/node/yz"][:, :3]).max() > 0
    if method is not None and kind == "static":
        assert np.abs(memory["cpu/node/excess"]).max() > 0
    resumed = solve(problem, network, method, rounds=40, resume=file)
    assert_array_equal(resumed.shares, whole.shares)
    assert_array_equal(resumed.models, whole.models)
    assert_array_equal(resumed.link_bits.bits, whole.link_bits.bits)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    """Another budget, network or method: one line, nothing run."""
    file = tmp_path / "run.npz"
    solve(both_halves(), NETWORKS["static"], rounds=5, checkpoint=file, checkpoint_every=5)
    with refused("checkpoint.other"):
        solve(both_halves(budget=250.0), NETWORKS["static"], rounds=9, resume=file)
    with refused("checkpoint.other"):
        solve(both_halves(), NETWORKS["periodic"], rounds=9, resume=file)
    other = both_halves()
    moved = Problem(Quadratic(other.cost.a, other.cost.c, lo=4.0, hi=29.0), 240.0, other.model)
    with refused("checkpoint.other"):
        solve(moved, NETWORKS["static"], rounds=9, resume=file)
    with refused("checkpoint.other"):
        solve(Problem(other.cost, 240.0, both_halves(seed=1).model), NETWORKS["static"], rounds=9, resume=file)
    with refused("checkpoint.missing"):
        solve(both_halves(), NETWORKS["static"], rounds=9, resume=tmp_path / "none.npz")
    file.write_bytes(file.read_bytes()[:100])
    with refused("checkpoint.damaged"):
        solve(both_halves(), NETWORKS["static"], rounds=9, resume=file)


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_budget_raised_and_lowered_holds_exactly_throughout(kind):
    """240, then 300 from round 50, then 150 from round 150: the exact sum in each round, boxes kept, optimum found."""
    sums, outside = [], 0.0

    def look(moment):
        nonlocal outside
        sums.append(sum(map(Fraction, moment.shares.tolist())))
        outside = max(outside, float(np.maximum(4.0 - moment.shares, moment.shares - 30.0).max()))

    run = solve(both_halves(), NETWORKS[kind], rounds=900, budgets={50: 300.0, 150: 150.0}, every=10, callback=look)
    assert sums == [240] * 50 + [300] * 100 + [150] * 750
    assert outside <= 0
    assert run.budget == 150
    assert run.certificate()["budget"].value == 0
    assert run.certificate()["box"].value == 0
    assert abs(run.relative_gap) < 1e-6
    assert set(run.history["budget"]) == {240.0, 300.0, 150.0}


def test_target_patience_and_callback_stop_a_run():
    """Each way to stop has its status and its reason."""
    problem, network = both_halves(), NETWORKS["static"]
    converged = solve(problem, network, rounds=5000, target=1e-6, every=1)
    assert converged.status == "converged"
    assert converged.history["relative_gap"][-1] <= 1e-6 < converged.history["relative_gap"][-2]
    uniform = Method(quantizer=UniformQuantizer(bits=6))
    stagnated = solve(problem, network, uniform, rounds=5000, target=1e-12, patience=200, every=5)
    assert stagnated.status == "stagnated"
    assert stagnated.rounds < 5000
    assert not stagnated.certificate().passed
    stopped = solve(problem, network, rounds=100, callback=lambda m: np.bool_(m.number == 3))
    assert (stopped.status, stopped.rounds) == ("stopped", 3)


def test_a_step_past_its_limit_is_warned_about_and_its_divergence_named():
    """No boxes, ten times the limit: a warning with the limit's value, then status diverged and finite shares."""
    problem = Problem(Quadratic([1.0, 2.0, 3.0, 1.0], [0.0, 5.0, 10.0, 40.0]), 50.0)
    with pytest.warns(StepWarning, match=r"step 10 is past its limit 0\.\d+"):
        run = solve(problem, Network.ring(4), Method(step=10.0, momentum=False, cpu_weights="laplacian"), rounds=1000)
    assert run.status == "diverged"
    assert "shares diverged in round" in run.reason
    assert run.shares.sum() == 50.0
    assert np.isfinite(run.history["gap"]).all()
    certificate = run.certificate()
    assert not certificate.passed
    assert not certificate["divergence"].passed
    assert not certificate["steps"].passed


def test_the_cpu_step_limit_is_sharp():
    """Quadratic costs, plain flows, ideal codes: 0.98 of 2/lambda_max(L H) settles, 1.02 does not."""
    from equipoise.train.theory import step_limit, top_eigenvalue

    rng = np.random.default_rng(0)
    problem = Problem(Quadratic(rng.uniform(0.5, 3, 8), rng.uniform(0, 40, 8)), 100.0)
    network = Network.erdos_renyi(8, 0.5, seed=0)
    limit = step_limit(top_eigenvalue(network, "laplacian", problem.cost.a))
    calm = solve(problem, network, Method.paper(quantizer=Exact(), box="price", step=0.98 * limit), rounds=3000)
    with pytest.warns(StepWarning):
        wild = solve(problem, network, Method.paper(quantizer=Exact(), box="price", step=1.02 * limit), rounds=3000)
    assert abs(calm.relative_gap) < 1e-9
    assert wild.status == "diverged" or wild.relative_gap > 1e3


def test_the_certificate_names_every_check_and_fails_on_a_short_run():
    """Both halves: over links a gradient, by averages a tracker and steps that have a limit; ten rounds are too few for the
    gap."""
    by_links = ["budget", "box", "kkt", "gradient", "consensus", "gap", "bits"]
    by_markets = ["budget", "box", "kkt", "tracker", "consensus", "gap", "steps", "bits"]
    for method, expected in ((None, by_links), (MARKETS, by_markets)):
        long = solve(both_halves(), NETWORKS["periodic"], method, rounds=3000, target=1e-8)
        assert [check.name for check in long.certificate()] == expected
        assert long.certificate().passed
        short = solve(both_halves(), NETWORKS["periodic"], method, rounds=10)
        assert not short.certificate().passed
        assert not short.certificate()["gap"].passed
        assert short.certificate()["budget"].passed


def test_both_halves_reach_1e_9_on_graphs_that_never_repeat():
    """A new graph each round, nodes hearing only their current neighbours: both halves to 1e-9, the sum exact."""
    run = solve(both_halves(), NETWORKS["fresh"], rounds=4000, target=1e-9)
    assert run.status == "converged"
    assert run.history["cpu_gap"][-1] <= 1e-9 * run.history["cpu_gap"][0]
    assert run.history["model_gap"][-1] <= 1e-9 * run.history["model_gap"][0]
    assert run.worst.budget == 0
    assert run.certificate().passed


def test_a_start_that_is_already_optimal_passes():
    """Nothing to gain: rounding is not mistaken for a gap, of either sign."""
    for scale in (1e-6, 1.0, 1e6):
        cost = Quadratic(scale * np.array([1.0, 2.0, 3.0]), [10.1, 10.1, 10.1])
        run = solve(Problem(cost, 30.6), Network.ring(3), rounds=100)
        assert run.certificate().passed, scale


def doctored(run, **changes):
    """The same run with something changed afterwards."""
    return dataclasses.replace(run, **changes)


def test_a_certificate_sees_through_a_doctored_run():
    """Move one share, one model, one bit, or the worst that was seen: the right check fails, by name."""
    run, tracked = (solve(both_halves(), NETWORKS["periodic"], m, rounds=3000, target=1e-8) for m in (None, MARKETS))
    assert run.certificate().passed and tracked.certificate().passed
    shares, models = run.shares.copy(), run.models.copy()
    shares[3] += run.market.grid.unit
    models[5] += 0.01  # one node off; the average hardly moves
    low, high = run._recount()
    worst = run.worst
    cases = {
        "budget": doctored(run, shares=shares),
        "consensus": doctored(run, models=models),
        "box": doctored(run, worst=dataclasses.replace(worst, box=1e-15)),
        "gradient": doctored(run, models=run.models + 0.01),  # they agree, on something else
        "tracker": doctored(tracked, worst=dataclasses.replace(tracked.worst, tracker=1e-6)),
        "steps": doctored(tracked, steps=dataclasses.replace(tracked.steps, alpha=10.0)),
        "bits": doctored(run, link_bits=dataclasses.replace(run.link_bits, bits=run.link_bits.bits // 2)),
    }
    swapped = run.shares.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    cases["kkt"] = doctored(run, shares=swapped)
    history = dict(run.history, relative_gap=run.history["relative_gap"] + 2e-8)
    cases["gap"] = doctored(run, history=history)
    assert low <= run.bits <= high
    for name, case in cases.items():
        assert not case.certificate()[name].passed, name


def test_the_gap_is_that_of_the_worst_node_not_of_the_average():
    """Nodes spread evenly around the optimum: the average is right, and still the gap is large."""
    problem = both_halves()
    best = solve(Problem(model=problem.model), NETWORKS["static"], rounds=1000).model_optimum.parameters
    spread = np.outer(np.where(np.arange(12) % 2, 1.0, -1.0), np.ones(3))
    run = solve(Problem(model=problem.model), NETWORKS["static"], rounds=1, start=best + spread)
    by_hand = max(problem.model.total(best + sign)[0] for sign in (1.0, -1.0)) - problem.model.total(best)[0]
    assert run.history["model_gap"][0] == pytest.approx(by_hand, rel=1e-9)


def test_a_share_that_left_its_box_for_one_round_is_remembered():
    """A callback pushes two shares out and back again: budget kept, but the box check has seen it."""

    def meddle(moment):
        shares = moment.state.allocation.units
        amount = 2**50 if moment.number == 5 else -(2**50) if moment.number == 6 else 0
        shares[0] += amount
        shares[1] -= amount

    method = Method(box="price", momentum=False)
    run = solve(Problem(both_halves().cost, 240.0), NETWORKS["static"], method, rounds=400, callback=meddle)
    assert run.certificate()["budget"].value == 0
    assert run.certificate()["box"].value > 1


@pytest.mark.parametrize(("first", "then"), [(20.0, 700.0), (1e-3, 700.0), (700.0, 20.0)])
def test_a_budget_may_grow_manyfold(first, then):
    """The grid is made for the largest budget of the run: exact sums before and after."""
    rng = np.random.default_rng(0)
    problem = Problem(Quadratic(rng.uniform(0.5, 3, 20), rng.uniform(0, 40, 20), lo=0.0, hi=40.0), first)
    run = solve(problem, Network.ring(20), rounds=2000, budgets={50: then})
    assert run.certificate().passed
    assert run.shares.sum() == then


def test_an_infeasible_half_is_not_hidden_by_the_other():
    """A box penalty makes the CPU half's gap negative while the model's is positive: the gap check fails."""
    problem = both_halves()
    tight = Problem(Quadratic(problem.cost.a, problem.cost.c, lo=14.0, hi=26.0), 240.0, problem.model)
    run = solve(tight, NETWORKS["static"], Method(box="penalty"), rounds=800)
    assert run.history["cpu_gap"][-1] < 0
    assert not run.certificate()["gap"].passed
    assert not run.certificate()["box"].passed


def test_a_small_scale_is_as_good_as_any():
    """Targets a billionth of the usual: the same rounds within a tenth, for units follow the first messages."""
    counts = []
    for scale in (1e-9, 1.0, 1e9):
        rng = np.random.default_rng(0)
        shards = [(X, scale * (X @ [1.0, 2.0] + rng.standard_normal(8))) for X in rng.standard_normal((12, 8, 2))]
        run = solve(Problem(model=LeastSquares(shards)), NETWORKS["periodic"], rounds=3000, target=1e-8, every=1)
        counts.append(run.rounds)
    assert max(counts) < 3000
    assert max(counts) <= 1.1 * min(counts)


def test_models_that_agree_on_zero_pass():
    """The optimum is 0 and the start is not: consensus is judged against the size the models had."""
    shards = [(X, np.zeros(8)) for X in np.random.default_rng(0).standard_normal((12, 8, 2))]
    run = solve(Problem(model=LeastSquares(shards)), NETWORKS["static"], rounds=600, start="random")
    assert run.certificate().passed


def test_either_half_may_be_absent():
    """CPU only: no models, no tracker check. Model only: no shares, no budget check."""
    whole = both_halves()
    cpu = solve(Problem(whole.cost, 240.0), NETWORKS["static"], rounds=500)
    assert cpu.models is None
    assert "tracker" not in cpu.certificate()
    assert cpu.certificate().passed
    model = solve(Problem(model=whole.model), NETWORKS["static"], rounds=1000)
    assert model.shares is None
    assert "budget" not in model.certificate()
    assert model.certificate().passed


def test_the_halves_do_not_disturb_each_other():
    """In this formulation they meet nowhere: shares and models are those of the halves run alone."""
    whole = both_halves()
    together = solve(whole, NETWORKS["periodic"], rounds=60)
    assert_array_equal(together.shares, solve(Problem(whole.cost, 240.0), NETWORKS["periodic"], rounds=60).shares)
    assert_array_equal(together.models, solve(Problem(model=whole.model), NETWORKS["periodic"], rounds=60).models)


def unboxed(problem):
    """The same problem with open boxes."""
    return Problem(Quadratic(problem.cost.a, problem.cost.c), problem.budget, problem.model)


METHODS = {
    "default": Method(),
    "exact": Method(quantizer=Exact()),
    "fine": Method(quantizer=LogQuantizer(rho=0.02)),
    "coarse": Method(quantizer=LogQuantizer(rho=1.0)),
    "flows": Method(momentum=False),
    "paper": Method.paper(),
    "uniform": Method(quantizer=UniformQuantizer()),
}
MORE_NETWORKS = NETWORKS | {"star": Network.star(12), "moving star": Network.star(12, switching=12, seed=1)}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("network", MORE_NETWORKS.values(), ids=MORE_NETWORKS)
def test_a_recount_from_the_graphs_allows_what_was_sent(network, method):
    """Both halves or one, boxed or not, few rounds or many: bits that were counted where they were sent lie between the
    recount's fewest and most."""
    whole = both_halves()
    cpu, model = Problem(whole.cost, 240.0), Problem(model=whole.model)
    for problem in (whole, unboxed(whole), cpu, unboxed(cpu), model):
        for rounds in (1, 3, 40):
            run = solve(problem, network, method, rounds=rounds)
            assert run.certificate()["bits"].passed, (problem.cost, problem.model, rounds)


@pytest.mark.parametrize("method", [METHODS[name] for name in ("default", "exact", "coarse", "flows", "paper")])
def test_the_recount_is_exact_where_nothing_varies(method):
    """Static network: all that may vary without boxes is a changed elasticity (16 bits per link and round), or the flooding
    of the largest L; a bit a link and round too many or too few is seen."""
    for network in (NETWORKS["static"], Network.star(12)):
        links = 2 * network.topology(0).edges
        cpu = solve(unboxed(Problem(both_halves().cost, 240.0)), network, method, rounds=30)
        least, most = cpu._recount()
        assert cpu.bits == least  # curvatures of quadratic costs do not change
        assert most - least == (16 * 30 * links if method.by_markets else 0)
        model = solve(Problem(model=both_halves().model), network, method, rounds=30)
        least, most = model._recount()
        assert least <= model.bits <= most
        assert most - least <= 2 * 64 * 4 * links  # flooding takes 1 to 4 hops, and is of two numbers


def test_a_run_that_diverged_passes_its_recount():
    """The last round had messages that nobody audited: the recount allows them."""
    problem = Problem(Quadratic([1.0, 2.0, 3.0, 1.0], [0.0, 5.0, 10.0, 40.0]), 50.0)
    for network in (Network.ring(4), Network.erdos_renyi(4, 0.8, switching="fresh")):
        with pytest.warns(StepWarning):
            run = solve(problem, network, Method(step=10.0, momentum=False, cpu_weights="laplacian"), rounds=1000)
        assert run.status == "diverged"
        assert run.certificate()["bits"].passed


def test_scalar_costs_take_the_network_size():
    """Scalars broadcast over nodes."""
    run = solve(Problem(Quadratic(1.0, 5.0, lo=0.0, hi=9.0), 10.0), Network.ring(5), rounds=50)
    assert run.shares.tolist() == [2.0] * 5
    assert run.certificate().passed


def test_history_is_written_and_reads_back(tmp_path):
    """history.csv: the same numbers, to the last bit."""
    run = solve(both_halves(), NETWORKS["static"], rounds=30, every=3)
    run.save_history(tmp_path / "history.csv")
    table = np.genfromtxt(tmp_path / "history.csv", delimiter=",", names=True)
    assert_array_equal(table["relative_gap"], run.history["relative_gap"])
    assert_array_equal(table["share_7"], run.share_history[:, 7])


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"rounds": 0}, ("rounds.range", 0)),
        ({"target": 0.0}, ("target.range", 0.0)),
        ({"patience": 0}, ("patience.range", 0)),
        ({"rounds": float("nan")}, ("rounds.range", "nan")),
        ({"target": float("inf")}, ("target.range", "inf")),
        ({"budgets": {5: float("nan")}}, ("budget.number", "nan")),
        ({"budgets": {5: 1e9}}, ("budget.high",)),
        ({"budgets": {5: 1.0}}, ("budget.low",)),
        ({"budgets": {500: 200.0}, "rounds": 100}, ("budget.round", "0..99")),
        ({"start": "rndom"}, ("start.kind", "'rndom'")),
        ({"start": np.zeros(7)}, ("start.shape", "(7,)")),
    ],
)
def test_bad_options_are_refused(options, refusal):
    """One line that names the value and what was expected."""
    with refused(*refusal):
        solve(both_halves(), NETWORKS["static"], **options)


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda: Method(step=0.0), ("step.range", 0.0)),
        (lambda: Method(alpha="fast"), ("alpha.range", "'fast'")),
        (lambda: Method(box="prise"), ("unknown", "'price'")),
        (lambda: Method(cpu_weights="metropolitan"), ("unknown", "'metropolis'")),
        (lambda: Method(model_weights="curvature"), ("weights.model", 'model_weights="curvature')),
        (lambda: Method(cap=1.0), ("cap.range", 1.0)),
        (lambda: Method(quantizer="log"), ("quantizer.type", "'log'")),
        (lambda: solve(both_halves(), "ring"), ("solve.type", "str")),
        (lambda: Problem(Quadratic(1.0, [1.0, 2.0]), "5"), ("budget.number", "'5'")),
        (lambda: solve(both_halves(), Network.ring(5)), ("problem.nodes", 12, 5)),
        (lambda: Problem(Quadratic([1.0, 2.0], 0.0), 1.0, both_halves().model), ("problem.nodes", 2, 12)),
    ],
)
def test_mismatches_are_refused(make, refusal):
    """At construction, not in round one."""
    with refused(*refusal):
        make()


def test_large_rho_still_converges():
    """Innovation codes contract for rho up to 1 (7 bits)."""
    for rho in (0.05, 0.5, 1.0):
        method = Method(quantizer=LogQuantizer(rho=rho))
        run = solve(both_halves(), NETWORKS["periodic"], method, rounds=4000, target=1e-9)
        assert run.status == "converged", rho


def test_rounds_are_played_on_one_blas_thread():
    """Whatever the machine allows: two threads would add up in another order. Afterwards all is as before."""
    seen = []
    solve(both_halves(), NETWORKS["static"], rounds=1)  # loads whatever it loads

    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        assert 2 in before
        solve(both_halves(), NETWORKS["static"], rounds=3, callback=lambda _: seen.extend(threads()))
        assert threads() == before
    assert set(seen) == {1}


def test_an_engine_of_ones_own_needs_no_report():
    """A run that is finished is not lost for the want of it."""

    class Here:
        def ordinary(self, *parts, **options):
            return State(*parts, **options)

    found = TrainSpec(nodes=4, rounds=3, samples=40).build().run(engine=Here())
    assert found.rounds == 3
    assert "engine" not in found.beside


def test_a_number_past_its_largest_is_refused_as_one_below_its_least():
    with refused("rounds.range", "at most"):
        CompareSpec(rounds=10**18)
    with refused("rounds.range", "or more"):
        CompareSpec(rounds=0)
