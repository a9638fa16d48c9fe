"""The policies that plan nothing ahead, and OASiS: tiny cases worked by hand, and laws recomputed from the schedule."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from equipoise.place import placers, prices
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Job, Linear, Workload
from equipoise.place.placers.dorm import ADJUSTED
from equipoise.place.simulate import Placer, Result, simulate
from equipoise.place.traces import regime
from refusals import refused

SLOTWISE = (placers.FIFO(), placers.DRF(), placers.Dorm(), placers.SRTF(), placers.LAS())
CHEAP = prices.Level(1.0, 100.0)
EVERY = (*SLOTWISE, placers.OASiS(prices=CHEAP), placers.PDORS(prices=CHEAP))


def job(name: str, work: float, width: int, *, arrival: int = 0, most: int | None = None, **more: object) -> Job:
    """An all-reduce job without gradients: so many workers do so many samples in a slot. A worker takes a GPU."""
    given: dict[str, object] = {"worker": {"gpu": 1}, "utility": Linear(100.0, 1000.0)} | more
    return Job(
        id=name,
        arrival=arrival,
        work=work,
        batch=most or width,
        time_per_sample=1.0,
        requested=width,
        **given,  # type: ignore[arg-type]
    )


def gpus(*machines: int) -> Cluster:
    return Cluster(tuple(Machine({"gpu": n}, name=f"m{k}") for k, n in enumerate(machines)))


def run(cluster: Cluster, jobs: list[Job] | Workload, policy: Placer, slots: int = 40, pace: str = "seen") -> Result:
    return simulate(cluster, jobs, policy, slots=slots, pace=pace)


def widths(result: Result, slot: int) -> dict[int, int]:
    """Workers of each job in a slot."""
    out: dict[int, int] = defaultdict(int)
    for j, t, _, w, _ in result.schedule.tolist():
        if t == slot:
            out[j] += w
    return dict(out)


def seats(result: Result) -> dict[int, dict[int, frozenset[tuple[int, int, int]]]]:
    """Slot -> job -> its (machine, workers, servers)."""
    out: dict[int, dict[int, set[tuple[int, int, int]]]] = defaultdict(lambda: defaultdict(set))
    for j, t, h, w, s in result.schedule.tolist():
        out[t][j].add((h, w, s))
    return {t: {j: frozenset(cells) for j, cells in by.items()} for t, by in out.items()}


# FIFO


def test_the_head_of_the_line_blocks():
    """Four GPUs; two are free while the second job wants four, yet the third, which wants one, may not overtake it."""
    jobs = [job("a", 4, 2), job("b", 4, 4), job("c", 1, 1)]
    result = run(gpus(4), jobs, placers.FIFO())
    assert result.finish.tolist() == [1, 2, 3]
    assert result.states == ("lent",) * 3  # it promises nothing


def test_fifo_stays_where_it_started_though_a_better_place_frees():
    """Two holes of one: the last job starts apart, 1 sample a slot instead of 2, and never gathers when a machine frees."""
    last = job("c", 4, 2, gradient=1.0, between=1.0)  # apart 2 / (1 + g/b) a slot
    jobs = [job("a", 3, 3), job("b", 9, 3), last]
    result = run(gpus(4, 4), jobs, placers.FIFO())
    assert result.finish.tolist() == [0, 2, 3]
    assert [by[2] for by in seats(result).values()] == [frozenset({(0, 1, 0), (1, 1, 0)})] * 4


def test_moving_is_free_without_a_restart_time_so_a_spread_job_gathers():
    """Twice three beside it, both due first: apart in slot 0 (1 sample), together from slot 1 on (2 a slot)."""
    slow = job("c", 7, 2, gradient=1.0, between=1.0)
    jobs = [job("a", 3, 3), job("b", 9, 3), slow]
    assert run(gpus(4, 4), jobs, placers.SRTF()).finish.tolist() == [0, 2, 3]
    stays = run(gpus(4, 4), [*jobs[:2], slow.but(restart=0.001)], placers.SRTF())
    assert [by[2] for by in seats(stays).values()] == [frozenset({(0, 1, 0), (1, 1, 0)})] * 8


# SRTF


def test_srtf_beats_fifo_in_mean_completion():
    """The case above by shortest first: b and c need one slot, a two. By hand (2, 0, 1): mean 2 slots against 3."""
    jobs = [job("a", 4, 2), job("b", 4, 4), job("c", 1, 1)]
    srtf, fifo = run(gpus(4), jobs, placers.SRTF()), run(gpus(4), jobs, placers.FIFO())
    assert srtf.finish.tolist() == [2, 0, 1]
    assert (srtf.completion.mean(), fifo.completion.mean()) == (pytest.approx(2.0), pytest.approx(3.0))


def test_srtf_preempts():
    """Ten slots of all GPUs, and after three a job of one slot: it runs at once, the long one ends a slot later."""
    jobs = [job("long", 40, 4), job("short", 4, 4, arrival=3)]
    result = run(gpus(4), jobs, placers.SRTF())
    assert result.finish.tolist() == [10, 3]
    assert result.states == ("lent", "lent")


def test_srtf_believes_what_is_stated():
    """One that says 4 and is 12 goes first against one that says and is 8, and stays first when it should be done."""
    jobs = [job("liar", 4, 4, actual=3.0), job("honest", 8, 4)]
    assert run(gpus(4), jobs, placers.SRTF()).finish.tolist() == [2, 4]


def test_a_job_with_a_restart_time_is_not_moved_by_one_that_goes_before_it():
    """A shorter job comes to a half-full cluster: it takes the other machine. 3 workers lose half a slot once: 1.5 + 3k."""
    jobs = [job("a", 10.5, 3, restart=0.5), job("b", 2, 2, arrival=1)]
    result = run(gpus(4, 4), jobs, placers.SRTF())
    assert result.finish.tolist() == [3, 1]
    assert {by[0] for by in seats(result).values()} == {frozenset({(0, 3, 0)})}


def test_the_tightest_machine_that_holds_a_job_is_taken():
    """Machines of 8, 3 and 4 free: three workers go to the one of 3."""
    result = run(gpus(8, 3, 4), [job("a", 3, 3)], placers.SRTF())
    assert result.schedule.tolist() == [[0, 0, 1, 3, 0]]


def test_a_job_too_wide_for_any_machine_spreads_over_the_fewest():
    """Six workers on machines of 1, 4, 3, 1: the machines of 4 and 3."""
    result = run(gpus(1, 4, 3, 1), [job("a", 6, 6)], placers.SRTF())
    assert result.schedule.tolist() == [[0, 0, 1, 4, 0], [0, 0, 2, 2, 0]]


def test_servers_go_where_workers_do_not_fit():
    """One machine has GPUs and no CPU, the other CPUs and no GPU: both workers on the first, their server on the second."""
    cluster = Cluster((Machine({"gpu": 2, "cpu": 0}), Machine({"gpu": 0, "cpu": 1})))
    one = job("a", 2, 2, worker={"gpu": 1}, server={"cpu": 1}, workers_per_server=2)
    for policy in SLOTWISE:
        result = run(cluster, [one], policy)
        assert result.schedule.tolist() == [[0, 0, 0, 2, 0], [0, 0, 1, 0, 1]], policy.label


# LAS


def test_equal_jobs_take_turns_under_las():
    """Two jobs of two slots each on all GPUs: slots 0 and 2 are the first's, 1 and 3 the second's."""
    jobs = [job("a", 8, 4), job("b", 8, 4)]
    assert run(gpus(4), jobs, placers.LAS()).finish.tolist() == [2, 3]


def test_each_turn_costs_a_restart():
    """The same with half a slot lost at every turn: four turns each."""
    jobs = [job("a", 8, 4, restart=0.5), job("b", 8, 4, restart=0.5)]
    assert run(gpus(4), jobs, placers.LAS()).finish.tolist() == [6, 7]


def test_a_newcomer_goes_before_one_that_has_had_much():
    """Durations do not matter to LAS: a long newcomer catches up first, 5 slots, then they take turns."""
    jobs = [job("old", 40, 4), job("new", 24, 4, arrival=5)]
    owner = [next(iter(widths(run(gpus(4), jobs, placers.LAS()), t))) for t in range(13)]
    assert owner == [0] * 5 + [1] * 5 + [0, 1, 0]


# DRF


def test_drf_gives_what_its_authors_work_out():
    """Ghodsi et al. 2011: 9 CPUs and 18 GB; tasks of (1 CPU, 4 GB) and (3 CPUs, 1 GB): three and two of them."""
    cluster = Cluster((Machine({"cpu": 9, "memory": 18}),))
    jobs = [job("a", 100, 50, worker={"cpu": 1, "memory": 4}), job("b", 100, 50, worker={"cpu": 3, "memory": 1})]
    assert widths(run(cluster, jobs, placers.DRF()), 0) == {0: 3, 1: 2}


def test_identical_jobs_have_equal_dominant_shares_within_one_worker():
    """Seven equal jobs, 50 GPUs on unequal machines: seven or eight each, and none is left over."""
    jobs = [job(f"j{k}", 1000, 20, most=50) for k in range(7)]
    got = widths(run(gpus(8, 8, 16, 1, 17), jobs, placers.DRF()), 0)
    assert set(got.values()) == {7, 8}
    assert sum(got.values()) == 50


def test_drf_seats_together_what_it_can():
    """Two jobs, two machines of four: four workers each, on a machine each, not two and two."""
    result = run(gpus(4, 4), [job("a", 40, 8), job("b", 40, 8)], placers.DRF())
    assert seats(result)[0] == {0: frozenset({(0, 4, 0)}), 1: frozenset({(1, 4, 0)})}


def test_drf_gathers_what_filling_scattered():
    """Filled in turns, the widest of three would sit two and two on both machines; seated first it has one to itself."""
    jobs = [job("a", 40, 4), job("b", 40, 2), job("c", 40, 2)]
    got = seats(run(gpus(4, 4), jobs, placers.DRF()))[0]
    assert got == {0: frozenset({(0, 4, 0)}), 1: frozenset({(1, 2, 0)}), 2: frozenset({(1, 2, 0)})}


def test_drf_sits_where_filling_put_it_when_the_wide_first_leave_no_room():
    """Best fit would put the wide job on the only machine with what the other needs: both CPUs beside a GPU."""
    cluster = Cluster((Machine({"gpu": 1, "cpu": 2}), Machine({"gpu": 0, "cpu": 9}), Machine({"gpu": 99, "cpu": 0})))
    jobs = [job("narrow", 9, 1, worker={"gpu": 1, "cpu": 2}), job("wide", 18, 2, worker={"cpu": 1})]
    got = seats(run(cluster, jobs, placers.DRF()))[0]
    assert got == {0: frozenset({(0, 1, 0)}), 1: frozenset({(1, 2, 0)})}


def test_drf_counts_a_server_when_one_is_due():
    """Six CPUs, one each for workers and servers, two workers a server: four workers and two servers fit, not five."""
    cluster = Cluster((Machine({"cpu": 6}),))
    one = job("a", 40, 6, worker={"cpu": 1}, server={"cpu": 1}, workers_per_server=2)
    assert seats(run(cluster, [one], placers.DRF()))[0] == {0: frozenset({(0, 4, 2)})}


def test_drf_leaves_the_scarce_machine_to_the_worker():
    """The one machine with a GPU has the most CPUs free too, but not enough for both: the server goes to the other."""
    cluster = Cluster((Machine({"gpu": 1, "cpu": 3}), Machine({"gpu": 0, "cpu": 2})))
    one = job("a", 4, 1, worker={"gpu": 1, "cpu": 2}, server={"cpu": 2}, workers_per_server=4)
    assert seats(run(cluster, [one], placers.DRF()))[0] == {0: frozenset({(0, 1, 0), (1, 0, 1)})}


# Dorm-style


def test_a_running_job_shrinks_for_a_newcomer_and_grows_back():
    """Alone a has 4 GPUs; b comes, 2 and 2; b goes, 4 again. By hand a: 4 + 2 + 2 + 4 = 12 in slot 3, b: 2 + 2 in slot 2."""
    jobs = [job("a", 12, 4), job("b", 4, 4, arrival=1)]
    result = run(gpus(4), jobs, placers.Dorm())
    assert [widths(result, t) for t in range(4)] == [{0: 4}, {0: 2, 1: 2}, {0: 2, 1: 2}, {0: 4}]
    assert result.finish.tolist() == [3, 2]


@pytest.mark.parametrize("name", ["20x40", "20x100-small"])
def test_few_running_jobs_are_resized_at_a_time_and_none_is_stopped(name: str):
    """From the schedule: who ran and was not done runs on, and all but one in five (or one) sit exactly as before."""
    cluster, jobs, slots = regime(name, 500)
    result = run(cluster, jobs, placers.Dorm(), slots)
    by_slot = seats(result)
    resized = 0
    for t in range(1, slots):
        before = {j: cells for j, cells in by_slot.get(t - 1, {}).items() if not 0 <= result.finish[j] < t}
        assert before.keys() <= by_slot.get(t, {}).keys()
        changed = sum(by_slot[t][j] != cells for j, cells in before.items())
        assert changed <= max(1, math.floor(ADJUSTED * len(before)))
        resized += changed
    assert resized > 0


# OASiS


def test_oasis_plans_as_if_apart_and_is_done_early_if_together():
    """16 samples, 4 workers, 4 a slot together and 2 apart, one machine: it plans to finish in slot 7, and does in 3."""
    cluster = Cluster((Machine({"gpu": 4, "cpu": 1}),))
    one = job("a", 16, 4, server={"cpu": 1}, workers_per_server=4, gradient=1.0, between=2.0)  # sigma_e = 1 + 2g/b
    oasis = run(cluster, [one], placers.OASiS(prices=prices.Fixed()))
    pdors = run(cluster, [one], placers.PDORS(prices=prices.Fixed()))
    assert (oasis.decisions[0][0].worth, pdors.decisions[0][0].worth) == (pytest.approx(99.3), pytest.approx(99.7))
    assert (oasis.finish.tolist(), pdors.finish.tolist()) == ([3], [3])
    assert len(oasis.schedule) == 4  # and holds nothing afterwards


def test_oasis_plans_all_reduce_jobs_as_pdors_does():
    """They have no servers to be kept apart from: the same schedule to the last cell."""
    cluster, jobs, slots = regime("20x100-small", 500)
    plain = Workload(tuple(one.but(server=None) for one in jobs))
    oasis, pdors = (
        run(cluster, plain, p, slots)
        for p in (placers.OASiS(prices=CHEAP), placers.PDORS(prices=CHEAP, backfill=False))
    )
    assert len(oasis.schedule) and np.array_equal(oasis.schedule, pdors.schedule)


# All of them


def variant(kind: str) -> tuple[Cluster, Workload, int]:
    """The small regime; with restart times; with work misstated by half; without servers."""
    cluster, jobs, slots = regime("20x100-small" if kind != "wide" else "20x40", 501)
    off = np.random.default_rng(1).uniform(0.5, 1.5, len(jobs))
    change = {
        "wide": lambda k, one: one,
        "small": lambda k, one: one,
        "restart": lambda k, one: one.but(restart=0.1 + 0.02 * (k % 20)),
        "misstated": lambda k, one: one.but(actual=float(off[k]), restart=0.2 * (k % 2)),
        "all-reduce": lambda k, one: one.but(server=None, restart=0.1 * (k % 3), requested=None if k % 2 else 7),
    }[kind]
    return cluster, Workload(tuple(change(k, one) for k, one in enumerate(jobs))), slots


@pytest.mark.parametrize("kind", ["wide", "small", "restart", "misstated", "all-reduce"])
@pytest.mark.parametrize("policy", EVERY, ids=lambda p: p.label)
def test_schedules_keep_the_law(policy: Placer, kind: str):
    """Capacity, width, servers, arrival, and the slot of finish, recomputed in plain Python from the schedule alone."""
    cluster, jobs, slots = variant(kind)
    result = run(cluster, jobs, policy, slots)
    room = [m.capacity for m in cluster.machines for _ in range(m.count)]
    used: dict[tuple[int, int, str], int] = defaultdict(int)
    for j, t, h, w, s in result.schedule.tolist():
        assert w >= 0 and s >= 0 and w + s > 0
        for r in cluster.resources:
            used[t, h, r] += w * jobs[j].worker.get(r, 0) + s * (jobs[j].server or {}).get(r, 0)
    assert all(amount <= room[h].get(r, 0) for (_, h, r), amount in used.items())
    by_slot = seats(result)
    for j, one in enumerate(jobs):
        todo, finish = one.work * one.actual, -1
        for t in sorted(t for t in by_slot if j in by_slot[t]):
            cells = by_slot[t][j]
            w, s = sum(c[1] for c in cells), sum(c[2] for c in cells)
            assert 0 < w <= one.widest
            assert s == (0 if one.server is None else math.ceil(w / one.workers_per_server))
            assert one.arrival <= t < slots and finish < 0
            moved = by_slot.get(t - 1, {}).get(j) != cells
            todo -= one.rate(w, together=len(cells) == 1) * (1.0 - one.restart * moved)
            if todo <= 1e-7 * one.work:
                finish = t
        assert finish == result.finish[j]


@pytest.mark.parametrize("policy", SLOTWISE, ids=lambda p: p.label)
def test_two_runs_are_equal_to_the_last_bit(policy: Placer):
    """Nothing depends on the clock, the order of a set or chance."""
    cluster, jobs, slots = variant("misstated")
    one, other = (run(cluster, jobs, policy, slots) for _ in range(2))
    assert len(one.schedule)
    assert one.schedule.tobytes() == other.schedule.tobytes()
    assert one.decisions == other.decisions


@pytest.mark.parametrize("pace", ["seen", "unseen"])
@pytest.mark.parametrize("policy", SLOTWISE, ids=lambda p: p.label)
def test_nobody_knows_the_true_work_beforehand(policy: Placer, pace: str):
    """Jobs that turn out three times as long: the same schedule to the end of the slot in which it first shows."""
    cluster, jobs, slots = variant("small")
    longer = Workload(tuple(one.but(actual=3.0) for one in jobs))
    one, other = (run(cluster, some, policy, slots, pace) for some in (jobs, longer))
    shows = int(one.finish[one.finish >= 0].min()) if pace == "unseen" else int(one.schedule[:, 1].min())
    before = [r.schedule[r.schedule[:, 1] <= shows] for r in (one, other)]
    assert len(before[0]) and np.array_equal(*before)
    assert not np.array_equal(one.finish, other.finish)


@pytest.mark.parametrize("policy", SLOTWISE, ids=lambda p: p.label)
def test_what_can_never_run_is_refused_and_blocks_nobody(policy: Placer):
    """A worker of nine GPUs on machines of eight; a job of a thousand slots in forty; and one that waits for ever."""
    jobs = [
        job("big", 9, 1, worker={"gpu": 9}),
        job("long", 8000, 8),
        job("fine", 8, 8),
        job("slow", 160, 4, most=8),  # could be done in 20 slots at its widest, from slot 0
        job("late", 160, 8, arrival=20),
    ]
    result = run(gpus(8), jobs, policy)
    assert [result.decisions[j][-1].reason for j in (0, 1)] == ["infeasible_alone", "beyond_horizon"]
    assert result.states[:2] == ("refused", "refused")
    assert result.finish[2] >= 0
    assert result.decisions[3][0].reason == "waiting"


@pytest.mark.parametrize("policy", SLOTWISE, ids=lambda p: p.label)
def test_a_job_whose_server_leaves_no_room_for_a_worker_is_refused(policy: Placer):
    """One CPU: a worker fits it, a server fits it, the two do not. The job behind runs."""
    cluster = Cluster((Machine({"cpu": 1}),))
    pair = job("pair", 1, 1, worker={"cpu": 1}, server={"cpu": 1})
    result = run(cluster, [pair, job("one", 1, 1, worker={"cpu": 1})], policy)
    assert result.decisions[0][-1].reason == "infeasible_alone"
    assert result.finish.tolist() == [-1, 0]


def test_a_width_the_cluster_cannot_hold_is_cut_to_what_it_can():
    """Ten workers want a server each; six CPUs hold three pairs. FIFO runs it three wide rather than wait for ever."""
    cluster = Cluster((Machine({"cpu": 2}, 3),))
    one = job("a", 9, 10, worker={"cpu": 1}, server={"cpu": 1}, workers_per_server=1)
    result = run(cluster, [one], placers.FIFO())
    assert widths(result, 0) == {0: 3}
    assert result.finish.tolist() == [2]


def test_without_a_requested_width_a_job_has_what_one_machine_holds():
    """At most eight workers, machines of three: three. With machines of three and eight: eight."""
    one = job("a", 6, 8).but(requested=None)
    assert widths(run(gpus(3, 3, 3), [one], placers.FIFO()), 0) == {0: 3}
    assert widths(run(gpus(3, 8), [one], placers.FIFO()), 0) == {0: 8}


@pytest.mark.parametrize("name", ["FIFO", "fifo", "Dorm-style", "dorm", "srtf", "LAS", "drf", "pdors"])
def test_named_finds_a_policy_by_label_or_class(name: str):
    """Upper and lower case are the same."""
    found = placers.named(name)
    assert name.lower() in (found.label.lower(), type(found).__name__.lower())


def test_oasis_has_recalled_prices_unless_told():
    pytest.importorskip("equipoise.place.prices.recalled")
    assert placers.named("oasis").prices.name == "recalled"  # type: ignore[attr-defined]


def test_an_unknown_name_is_refused_with_the_nearest():
    with refused("unknown", "'SRFT'", "'SRTF'"):
        placers.named("SRFT")


@pytest.mark.parametrize("stated", [{}, {"utility": Linear(100.0, 1000.0)}])
def test_dated_counts_priority_and_what_users_have_had(stated: dict[str, Any]):
    """One GPU, slots of an hour. Alice runs all week; then two equal jobs come, hers first. Without `fair` hers runs first;
    with it Bob's does, who has had nothing. Of two of hers with priorities 1 and 2 the second runs first either way."""
    one = {"batch": 1, "time_per_sample": 1.0, "worker": {"gpu": 1}, **stated}
    week = [Job(f"w{k}", 24 * k, 24.0, user="alice", **one) for k in range(7)]
    equal = [Job(name, 167, 8.0, user=name.rstrip("2"), **one) for name in ("alice2", "bob2")]
    for fair, order in ((False, [176 - 1, 184 - 1]), (True, [184 - 1, 176 - 1])):
        result = simulate(gpus(1), [*week, *equal], placers.Dated(fair=fair, dates=False), horizon=500)
        assert result.finish[-2:].tolist() == order
        both = [job.but(user="alice", priority=k) for k, job in enumerate(equal, 1)]
        result = simulate(gpus(1), [*week, *both], placers.Dated(fair=fair, dates=False), horizon=500)
        assert result.finish[-2:].tolist() == [184 - 1, 176 - 1]


def test_every_policy_has_its_own_name_and_colour():
    assert len({p.label for p in placers.ALL}) == len({p.colour for p in placers.ALL}) == len(placers.ALL) == 11
