"""Hostile networks: what is lost, late, dead or cut off never costs budget, and the survivors find their own optimum."""

import cvxpy
import numpy as np
import pytest
from fault_cases import Case, CpuTruth, ModelTruth, Watch, best_shares, draw_shards
from numpy.testing import assert_allclose, assert_array_equal

from equipoise.train import (
    Bursts,
    Exact,
    Faults,
    Latency,
    LeastSquares,
    LogQuantizer,
    Method,
    Network,
    Partition,
    Problem,
    Quadratic,
    solve,
)
from equipoise.train.dynamics.links import Links
from equipoise.train.theory import top_eigenvalue
from refusals import refused


def centres(n=20, seed=0, hi=60.0, method=None, network=None, faults=None, halves="both", m=3):
    """A CPU half with active boxes and a regression, on a random network."""
    rng = np.random.default_rng(seed)
    cost = Quadratic(rng.uniform(0.5, 3.0, n), rng.uniform(0, 40, n), lo=2.0, hi=hi)
    shards = draw_shards(rng, n, m)
    problem = Problem(
        cost if halves != "model" else None,
        12.0 * n if halves != "model" else None,
        LeastSquares(shards) if halves != "cpu" else None,
    )
    network = Network.erdos_renyi(n, 0.3, seed=seed) if network is None else network
    return Case(problem, network, method or Method(), faults or Faults(), shards if halves != "cpu" else None, ())


def played(case, rounds, watch=None, **options):
    """The run, and the watch that looked at every round of it."""
    watch = Watch(case) if watch is None else watch
    run = solve(
        case.problem,
        case.network,
        case.method,
        faults=case.faults,
        rounds=rounds,
        callback=lambda moment: watch(moment) and False,
        **options,
    )
    assert not watch.violations
    return run, watch


# losses, crashes, joins


def test_a_crash_under_losses_costs_no_unit():
    """30% loss, a crash at round 137: shares + in flight are the budget, to the unit, in every round."""
    run, watch = played(centres(faults=Faults(loss=0.3, crash={7: 137})), 500)
    assert watch.worst_model < 1e-12
    assert (run.worst.budget, run.worst.over, run.worst.box) == (0.0, 0.0, 0.0)
    assert not run.present[7] and run.shares[7] == 0.0
    assert [event.kind for event in run.events] == ["crash", "noticed"]


def test_survivors_find_their_own_optimum():
    """30% loss, delays up to 3, one crash and one join among 20: both halves within 1e-8 of what an outsider computes."""
    case = centres(faults=Faults(loss=0.3, delay=3, crash={4: 90}, join={11: 60}))
    run, watch = played(case, 2500)
    assert watch.gaps["cpu"] < 1e-8
    assert watch.gaps["model"] < 1e-8
    assert run.certificate().passed
    assert run.trouble == ()


def test_at_ninety_percent_loss_the_invariant_holds():
    """Nine packets of ten are lost, and centres come and go: not a unit is."""
    case = centres(10, faults=Faults(loss=0.9, delay=2, crash={4: 40}, join={5: 30}, leave={6: 60}))
    run, watch = played(case, 600)
    assert watch.worst_model < 1e-12
    assert run.lost > 0.85 * run.packets


def test_a_guardian_that_crashes_next_loses_nothing():
    """Centre 0 inherits from 1 and dies a round later; centre 2 inherits from both."""
    network = Network.complete(6)
    case = centres(6, network=network, faults=Faults(loss=0.2, notice=4, crash={1: 50, 0: 55, 2: 60}))
    run, watch = played(case, 1500)
    assert watch.gaps["cpu"] < 1e-8
    assert np.flatnonzero(run.present).tolist() == [3, 4, 5]
    assert run.in_flight < 1e-6


def test_one_that_leaves_beside_one_that_has_just_died():
    """Books between a leaver and a dead centre are nobody else's: neither budget nor trackers suffer."""
    case = centres(6, network=Network.complete(6), faults=Faults(loss=0.3, crash={1: 20}, leave={2: 22}))
    _, watch = played(case, 1200)
    assert watch.gaps["cpu"] < 1e-8


def test_boxes_that_are_too_small_are_reported_by_name():
    """Survivors who cannot hold the budget fill up; the rest stays in escrow, and the run says so."""
    cost = Quadratic(1.0, np.linspace(5, 30, 5), lo=0.0, hi=20.0)
    case = Case(Problem(cost, 70.0), Network.complete(5), Method(), Faults(loss=0.2, crash={1: 30, 3: 60}), None, ())
    run, _ = played(case, 600)
    assert_allclose(run.shares[run.present], 20.0, atol=1e-9)
    assert_allclose(run.in_flight, 10.0, atol=1e-8)
    assert "infeasible since round" in run.trouble[0] and "10 stay in escrow" in run.trouble[0]
    failed = {check.name for check in run.certificate().checks if not check.passed}
    assert "reach" in failed and "budget" not in failed


def test_centres_that_come_later_leave_a_start_that_is_too_small():
    """What those who are there first cannot hold waits in escrow, and finds its place when others join."""
    cost = Quadratic(np.arange(1.0, 5.0), np.linspace(5, 30, 4), lo=0.0, hi=40.0)
    case = Case(Problem(cost, 130.0), Network.complete(4), Method(), Faults(loss=0.1, join={3: 20}), None, ())
    run, watch = played(case, 1500)
    assert run.status == "finished" and run.trouble == ()
    assert watch.gaps["cpu"] < 1e-8


def test_a_crash_that_nobody_has_noticed_yet_is_said():
    """A run that ends between a crash and its notice does not pass off the old optimum as the survivors'."""
    case = centres(6, halves="model", network=Network.ring(6), faults=Faults(loss=0.1, crash={3: 998}))
    run, _ = played(case, 1000)
    assert run.trouble and not run.certificate().passed


def test_a_quiet_event_after_convergence_does_not_make_a_crash_a_divergence():
    """Gaps are relative to a start that counts: a split that heals unnoticed, then a crash, is no divergence."""
    faults = Faults(loss=0.1, partition=Partition({0, 1}, 400, 405), notice=3, crash={1: 900})
    run, watch = played(centres(6, halves="cpu", network=Network.ring(6), faults=faults), 2000)
    assert run.status == "finished"
    assert watch.gaps["cpu"] < 1e-8


def test_a_newcomer_with_lo_above_nothing_collects_first():
    """Latency needs lo > 0: the newcomer has no share until it holds its lo, and then the optimum is found."""
    rng = np.random.default_rng(3)
    cost = Latency(rng.uniform(1, 4, 6), lo=1.0, hi=30.0)
    case = Case(Problem(cost, 40.0), Network.ring(6), Method(), Faults(loss=0.2, join={2: 40}), None, ())
    watch, seen = Watch(case), []

    def look(moment):
        watch(moment)
        seen.append(moment.shares[2])

    run = solve(case.problem, case.network, faults=case.faults, rounds=1500, callback=look)
    assert not watch.violations
    first = next(k for k, x in enumerate(seen) if x > 0)
    assert first >= 40 and min(seen[first:]) >= 1.0
    assert watch.gaps["cpu"] < 1e-8
    assert run.certificate().passed


# partitions


def test_each_side_of_a_split_finds_its_own_model_and_both_agree_after_it():
    """Cut links leave the sums of both ends while the cut lasts: no side is biased."""
    gaps = split_gaps()
    assert max(gaps["sides"]) < 1e-8
    assert gaps["healed"] < 1e-8


def test_with_cut_links_in_its_sums_a_side_is_biased(monkeypatch):
    """The same split when both ends still count on the links it cut: sides end elsewhere. A test of the test above."""
    monkeypatch.setattr(Links, "shut", lambda *_: None)
    assert max(split_gaps(watched=False)["sides"]) > 1e-4


def split_gaps(watched=True):
    """Gaps of both sides, each to its own optimum, at the end of a split, and of all after it."""
    left = np.arange(10) < 4
    network = Network.erdos_renyi(10, 0.7, seed=2)
    faults = Faults(loss=0.2, delay=1, partition=Partition(np.flatnonzero(left), 60, 1500))
    case = centres(10, network=network, faults=faults, halves="model")
    sides = [ModelTruth(case.shards, side) for side in (left, ~left)]
    watch, found = Watch(case), {}

    def look(moment):
        watch(moment)
        if moment.number == 1500:
            found["sides"] = [side.relative(moment.models) for side in sides]

    solve(case.problem, case.network, faults=faults, rounds=3500, callback=look)
    assert not (watched and watch.violations)
    return found | {"healed": watch.gaps["model"]}


def test_a_split_never_costs_budget_and_never_mixes_sides():
    """In a noticed split the CPU of each side stays on it, in every round."""
    side = np.arange(8) < 4
    faults = Faults(loss=0.2, delay=2, partition=Partition({0, 1, 2, 3}, 50, 300), notice=4)
    case = centres(8, halves="cpu", network=Network.complete(8), faults=faults)
    watch, held = Watch(case), []

    def look(moment):
        watch(moment)
        if 54 < moment.number <= 300:
            books, state = moment.state.allocation, moment.state
            links = state.cpu_exchange.table
            within = side[links.senders] & side[links.receivers]
            flying = sum((books.sent - books.received)[within].tolist())
            held.append(sum(books.shares[side].tolist()) + sum(books.escrow[side].tolist()) + flying)

    solve(case.problem, case.network, faults=faults, rounds=1000, callback=look)
    assert not watch.violations
    assert len(set(held)) == 1
    assert watch.gaps["cpu"] < 1e-8


# the paper's flow with old prices


@pytest.mark.parametrize(("part", "converges"), [(0.95, True), (1.05, False)])
def test_equally_old_prices_are_stable_up_to_the_limit(part, converges):
    """Delay 5: 2 cos(5 pi / 11) / lambda_max(L H) is where flows stop to converge; L H is built here by hand."""
    n, rng = 12, np.random.default_rng(1)
    a, c = rng.uniform(0.5, 3.0, n), rng.uniform(0, 40, n)
    network = Network.erdos_renyi(n, 0.4, seed=3)
    arcs = network.arcs(0)
    degree = np.bincount(arcs.senders, minlength=n)
    L = np.zeros((n, n))
    for i, j in zip(arcs.senders, arcs.receivers, strict=True):
        L[i, j] = -1.0 / max(degree[i] * a[i], degree[j] * a[j])
    L -= np.diag(L.sum(axis=1))
    top = float(np.linalg.eigvals(L @ np.diag(a)).real.max())
    assert_allclose(top_eigenvalue(network, "curvature", a), top, rtol=1e-6)
    step = part * 2 * np.cos(5 * np.pi / 11) / top
    method = Method(step=step, momentum=False, quantizer=Exact())
    problem = Problem(Quadratic(a, c), 240.0)
    run = solve(problem, network, method, faults=Faults(delay=5, jitter=False), rounds=6000)
    if converges:
        assert CpuTruth(problem.cost, 240.0, np.ones(n, bool)).relative(run.shares) < 1e-8
        assert float(np.sum(run.shares)) == run.budget
    else:
        assert run.status == "diverged" or run.relative_gap > 1.0


# draws


def arrivals(case, rounds):
    """Whether the packet of each round arrived, per directed link of a static network without delays."""
    rows = []
    solve(
        case.problem,
        case.network,
        case.method,
        faults=case.faults,
        rounds=rounds,
        callback=lambda moment: (
            rows.append(moment.state.exchange.region.fresh[moment.state.exchange.table.back]) and None
        ),
    )
    return np.array(rows)


def test_losses_depend_on_seed_round_and_link_alone():
    """Other costs, no model, a crash elsewhere: every link that has both its ends loses the same packets."""
    network = Network.ring(8)
    plain = arrivals(centres(8, network=network, faults=Faults(loss=0.4, seed=5)), 80)
    assert_array_equal(
        plain, arrivals(centres(8, 9, network=network, faults=Faults(loss=0.4, seed=5), halves="cpu"), 80)
    )
    crashed = arrivals(centres(8, network=network, faults=Faults(loss=0.4, seed=5, crash={3: 20})), 80)
    links = sorted((i, (i + way) % 8) for i in range(8) for way in (1, 7))
    columns = [k for k, link in enumerate(links) if 3 not in link]
    assert_array_equal(plain[:, columns], crashed[:, columns])
    assert (plain != arrivals(centres(8, network=network, faults=Faults(loss=0.4, seed=6)), 80)).any()
    assert 0.55 < plain.mean() < 0.65


def test_bursts_are_as_long_and_as_frequent_as_gilbert_and_elliott_say():
    """Lost: enter / (enter + leave) of all packets; in runs of 1 / leave on average."""
    bursts = Bursts(enter=0.05, leave=0.25)
    assert_allclose(bursts.mean, 1 / 6)
    case = centres(20, network=Network.ring(20), faults=Faults(loss=bursts), halves="cpu")
    lost = ~arrivals(case, 3000)
    assert_allclose(lost.mean(), 1 / 6, atol=0.01)
    lengths = []
    for column in lost.T:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], column.astype(int), [0]])))
        lengths += (edges[1::2] - edges[::2]).tolist()
    assert_allclose(np.mean(lengths), 4.0, atol=0.2)
    links = sorted((i, (i + way) % 20) for i in range(20) for way in (1, 19))
    both = (lost & lost[:, [links.index(link[::-1]) for link in links]]).mean()
    assert_allclose(both, 1 / 36, atol=0.005)  # each direction has weather of its own


# bookkeeping


@pytest.mark.parametrize("stop", [47, 66, 73, 95])
def test_a_resumed_schedule_repeats_bit_for_bit(tmp_path, stop):
    """Stopped before a crash, before its notice, in a split, after it healed: the rest is the same bits."""
    faults = Faults(
        loss=Bursts(0.1, 0.4),
        delay=3,
        crash={4: 64},
        join={5: 50},
        leave={7: 80},
        straggle={2: 3},
        partition=Partition({0, 1, 2}, 70, 90),
        notice=5,
    )
    case, file = (
        centres(10, network=Network.erdos_renyi(10, 0.4, switching=3, seed=1), faults=faults),
        tmp_path / "k.npz",
    )
    options = {"rounds": 200, "every": 7, "faults": faults}
    whole = solve(case.problem, case.network, **options)
    solve(case.problem, case.network, **options, checkpoint=file, callback=lambda m: m.number == stop)
    rest = solve(case.problem, case.network, **options, resume=file)
    assert_array_equal(rest.shares, whole.shares)
    assert_array_equal(rest.models, whole.models)
    assert_array_equal(rest.link_bits.bits, whole.link_bits.bits)
    assert (rest.packets, rest.lost, rest.in_flight) == (whole.packets, whole.lost, whole.in_flight)
    assert (rest.trouble, rest.events) == (whole.trouble, whole.events)
    for name, column in whole.history.items():
        assert_array_equal(rest.history[name], column)


def test_a_resume_with_other_faults_is_refused(tmp_path):
    """A checkpoint belongs to one schedule."""
    case, file = centres(6, faults=Faults(loss=0.2)), tmp_path / "k.npz"
    options = {"rounds": 40, "network": case.network}
    solve(case.problem, faults=case.faults, checkpoint=file, callback=lambda m: m.number == 20, **options)
    with refused("checkpoint.other"):
        solve(case.problem, faults=Faults(loss=0.3), resume=file, **options)


def test_bits_are_those_of_every_packet():
    """A packet has 48 bits of numbers, 64 of ledger, 1 or 17 of scale, and 64 a float; the dead send none."""
    faults = Faults(loss=0.3, crash={3: 20}, notice=6, straggle={5: 4})
    case = centres(8, network=Network.ring(8), method=Method(quantizer=Exact()), faults=faults, m=2)
    run, _ = played(case, 50)
    packets = 0
    for number in range(50):
        for i in range(8):
            for j in ((i + 1) % 8, (i - 1) % 8):
                dead = (i == 3 and number >= 20) or (j == 3 and number >= 26)  # nobody writes to the known dead
                packets += not dead and not (i == 5 and number % 4)
    assert run.packets == packets
    scales = run.bits - packets * (48 + 64 + 64 + 2 * 64)
    assert packets < scales < 17 * packets and (scales - packets) % 16 == 0
    assert sum(run.bit_parts.values()) == run.bits
    assert run.certificate().checks[-1].passed
    coded, _ = played(centres(8, network=Network.ring(8), faults=faults, m=2), 50)
    assert coded.packets == packets
    assert 113 * packets < coded.bits < run.bits
    assert next(check for check in coded.certificate().checks if check.name == "bits").passed


def test_the_same_schedule_gives_the_same_bits_twice():
    """Nothing depends on anything but the arguments."""
    case = centres(10, faults=Faults(loss=0.3, delay=2, crash={1: 20}))
    one, two = (solve(case.problem, case.network, faults=case.faults, rounds=120) for _ in range(2))
    assert one.summary() == two.summary()


@pytest.mark.parametrize("kind", ["quadratic", "latency"])
def test_the_truth_used_here_agrees_with_a_convex_solver(kind):
    """Shares by bisection are those of CVXPY."""
    rng, who = np.random.default_rng(2), np.array([True] * 5 + [False])
    a, c = rng.uniform(0.5, 3, 6), rng.uniform(5, 30, 6)
    x = cvxpy.Variable(5)
    if kind == "quadratic":
        cost = Quadratic(a, c, lo=2.0, hi=18.0)
        goal = cvxpy.sum(cvxpy.multiply(a[:5] / 2, cvxpy.square(x - c[:5])))
    else:
        cost = Latency(a, lo=2.0, hi=18.0)
        goal = cvxpy.sum(cvxpy.multiply(a[:5], cvxpy.inv_pos(x)))
    problem = cvxpy.Problem(cvxpy.Minimize(goal), [cvxpy.sum(x) == 50, x >= 2, x <= 18])
    problem.solve(solver=cvxpy.CLARABEL)
    assert_allclose(best_shares(cost, 50.0, who)[0], x.value, atol=1e-3)


# refusals


def not_solved(refusal, faults=None, method=None, network=None, rounds=100, **options):
    case = centres(6, network=Network.ring(6) if network is None else network)
    with refused(*refusal):
        solve(case.problem, case.network, method, faults=faults, rounds=rounds, **options)


@pytest.mark.parametrize(
    ("refusal", "faults"),
    [
        (("schedule.empty",), {"crash": {k: 10 + k for k in range(6)}}),
        (("schedule.empty", "round 0"), {"join": dict.fromkeys(range(6), 10)}),
        (("schedule.node", "centre 6"), {"join": {6: 10}}),
        (("schedule.node", "centre -1"), {"crash": {-1: 10}}),
        (("schedule.node", "centre 9"), {"straggle": {9: 2}}),
        (("schedule.round", "centre 2", "round 100", "0..99"), {"crash": {2: 100}}),
        (("schedule.round", "centre 1", "round 120"), {"partition": Partition({1}, 120, 130)}),
        (("partition.nodes", 6), {"partition": Partition(range(6), 10, 20)}),
        (("schedule.node", "centre 8"), {"partition": Partition({8}, 10, 20)}),
        (("schedule.absent", "centre 1"), {"crash": [(1, 10), (1, 30)]}),
        (("schedule.absent", "centre 1"), {"crash": {1: 10}, "leave": {1: 30}}),
        (("schedule.notice", "round 10"), {"crash": {1: 10}, "join": {1: 12}}),
        (("schedule.absent", "centre 2"), {"crash": {2: 10}, "leave": {2: 10}}),
    ],
)
def test_schedules_that_cannot_be_are_refused(refusal, faults):
    """By round and centre, before the first round is played."""
    not_solved(refusal, Faults(**faults))


@pytest.mark.parametrize(
    ("refusal", "build"),
    [
        (("partition.overlap",), lambda: Faults(partition=[Partition({1}, 10, 30), Partition({2}, 20, 40)])),
        (("partition.overlap",), lambda: Faults(partition=[Partition({1}, 10), Partition({2}, 20, 40)])),
        (("partition.order",), lambda: Partition({1}, 10, 10)),
        (("partition.nodes",), lambda: Partition((), 10, 20)),
        (("loss.total", 1), lambda: Faults(loss=1.0)),
        (("loss.range", 1.2), lambda: Faults(loss=1.2)),
        (("loss.range", "nan"), lambda: Faults(loss=float("nan"))),
        (("bursts.leave",), lambda: Bursts(0.1, 0.0)),
        (("bursts.enter", -0.1), lambda: Bursts(-0.1, 0.5)),
        (("bursts.leave", 1.5), lambda: Bursts(0.1, 1.5)),
        (("delay.range",), lambda: Faults(delay=-1)),
        (("delay.range",), lambda: Faults(delay=1.5)),
        (("notice.range", -1), lambda: Faults(notice=-1)),
        (("seed.range", "seed=-1"), lambda: Faults(seed=-1)),
        (("crash.form",), lambda: Faults(crash=[3])),
        (("crash.node", "'a'"), lambda: Faults(crash={"a": 3})),
        (("crash.round", -3), lambda: Faults(crash={1: -3})),
        (("leave.round", -3), lambda: Faults(leave={1: -3})),
        (("join.form",), lambda: Faults(join=[3])),
        (("partition.round", -1), lambda: Partition({1}, -1)),
        (("straggle.range",), lambda: Faults(straggle={1: 0})),
        (("partition.type", "Partition"), lambda: Faults(partition=[{1, 2}])),
    ],
)
def test_faults_that_make_no_sense_are_refused(refusal, build):
    """When they are written down, with the value."""
    with refused(*refusal):
        build()


@pytest.mark.parametrize(
    ("refusal", "method"),
    [
        (("unsound.quantizer",), Method(quantizer=LogQuantizer(mode="edge"))),
        (("unsound.quantizer", "Exact()"), Method(quantizer=LogQuantizer(mode="node"))),
        (("unsound.flows",), Method.paper()),
        (("unsound.flows",), Method(momentum=False)),
        (("unsound.flows",), Method(step=0.1)),
        (("unsound.flows",), Method(box="limit")),
    ],
)
def test_methods_without_a_sound_form_are_refused(refusal, method):
    """By name, and with the way out."""
    not_solved(refusal, Faults(loss=0.1), method)


def test_newcomers_who_need_more_than_the_budget_are_refused():
    """A join that makes the sum of lo exceed the budget cannot be carried out."""
    cost = Quadratic(1.0, [5.0, 6.0, -20.0], lo=[2.0, 2.0, -30.0], hi=[40.0, 40.0, 40.0])
    with refused("budget.low"):
        solve(Problem(cost, -10.0), Network.complete(3), faults=Faults(loss=0.1, leave={2: 30}), rounds=80)


def test_a_budget_that_changes_under_faults_is_refused():
    """Not built, and said so."""
    not_solved(("unsound.budget",), Faults(loss=0.1), budgets={20: 60.0})
