"""Types of machines, speeds and devices: cases by hand, and what a review of another hand would recompute."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from equipoise.place import (
    Cluster,
    Deadline,
    Job,
    Linear,
    Machine,
    Result,
    Workload,
    bound,
    explain,
    files,
    placers,
    simulate,
)
from equipoise.place.execution import Execution
from equipoise.place.job_spec import job_from, plain_job
from equipoise.place.placers import named
from equipoise.place.planner.job_arrays import arrays_of
from equipoise.place.verify import on_devices, verify
from refusals import refused

approx = pytest.approx
FAST_AND_SLOW = Cluster((Machine({"gpu": 2}, 1, "slow", "v100"), Machine({"gpu": 2}, 1, "fast", "a100")))
POLICIES = ("pdors", "dated", "srtf", "las", "drf", "dorm", "fifo", "easy", "sia")


def job(id: str = "a", arrival: int = 0, **changes: Any) -> Job:
    """Six samples, a sample per worker and slot at factor 1, at most two workers; worth 10 less 1 a slot."""
    plain: dict[str, Any] = {"work": 6.0, "batch": 2, "time_per_sample": 1.0, "worker": {"gpu": 1}}
    return Job(id, arrival, **(plain | {"utility": Linear(10.0, 10.0)} | changes))


def run(cluster: Cluster, jobs: list[Job], policy: str = "pdors", slots: int = 10, **settings: Any) -> Result:
    result = simulate(cluster, Workload(tuple(jobs)), named(policy), slots=slots, **settings)
    certificate = verify(result, bound=bound(cluster, result.jobs, slots=slots))
    assert certificate.passed, certificate
    return result


def machines_of(result: Result, j: int) -> set[str]:
    rows = result.schedule
    return {result.cluster.names[h] for h in rows[rows[:, 0] == j, 2]}


# By hand.


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_takes_the_type_on_which_it_is_fastest(policy):
    """2 workers at factor 3 do 6 samples in a slot, at factor 1 in three: it is done in slot 0, on the fast machine."""
    result = run(FAST_AND_SLOW, [job(speeds={"v100": 1.0, "a100": 3.0})], policy)
    assert result.finish.tolist() == [0] and machines_of(result, 0) == {"fast"}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_type_that_is_not_named_is_not_taken(policy):
    """Both take the slow type only: its two GPUs do 2 samples a slot, the 12 samples take six slots, the fast stand idle."""
    result = run(FAST_AND_SLOW, [job("a", speeds={"v100": 1.0}), job("b", speeds={"v100": 1.0})], policy)
    assert machines_of(result, 0) | machines_of(result, 1) == {"slow"} and max(result.finish) == 5


@pytest.mark.parametrize(("policy", "last"), [("pdors", 6), ("srtf", 6), ("fifo", 11)])
def test_the_second_job_takes_the_slower_type_while_the_fast_is_taken(policy, last):
    """24 samples each: one does 6 a slot on the fast GPUs, to slot 3. The other does 8 on the slow ones by then, and the
    other 16 in three slots on the fast ones; FIFO moves nobody, and 24 at 2 a slot end in slot 11."""
    pair = [job(name, work=24.0, speeds={"v100": 1.0, "a100": 3.0}) for name in "ab"]
    result = run(FAST_AND_SLOW, pair, policy, slots=12)
    assert sorted(result.finish.tolist()) == [3, last]
    assert {frozenset(machines_of(result, j)) for j in range(2)} == {
        frozenset({"fast"}),
        frozenset({"slow"} if policy == "fifo" else {"slow", "fast"}),
    }


def test_a_table_of_rates_says_what_each_width_does():
    """4 GPUs: the table says 1, 1.5, 1.5 samples per slot: a third worker gains nothing, and 6 samples need 4 slots. Spread,
    2 workers lose what the rate loses: of 4 samples a step takes 2 slots and 1 for the exchange, 1.5 x 2 / 3, 6 slots."""
    table = job(batch=4, speeds={"": [1.0, 1.5, 1.5]}, gradient=4.0, between=4.0)
    assert (table.widest, table.rate(2, together=True, type=""), table.rate(3, together=True)) == (3, 1.5, 1.5)
    assert table.rate(2, together=False) == approx(1.5 * (4 / (2 + 4.0 / 4.0)) / 2)
    for machines in (Machine({"gpu": 4}), Machine({"gpu": 1}, 4)):
        assert run(Cluster((machines,)), [table]).finish.tolist() == [3 if machines.count == 1 else 5]
    arrays = arrays_of(table, Cluster((Machine({"gpu": 1}, 4),)))
    for width, near in itertools.product(range(4), (True, False)):
        told = (arrays.together if near else arrays.apart)[0, width]
        assert told == approx(table.rate(width, together=near, type=""))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_never_sits_on_two_types_at_once(policy):
    """Four workers, two GPUs of each type at factor 1: two workers at a time, 12 samples in six slots, not in three."""
    result = run(FAST_AND_SLOW, [job(work=12.0, batch=4, requested=4)], policy)
    assert result.finish.tolist() == [5]
    without = Cluster(tuple(replace(m, type="") for m in FAST_AND_SLOW.machines))
    assert run(without, [job(work=12.0, batch=4, requested=4)], policy).finish.tolist() == [2]


def test_parts_of_a_gpu_sit_on_one_each():
    """Three jobs of 0.6 on two GPUs: in sum 1.8, but one has to wait; three of 0.5 and a 0.4 run at once."""
    two = Cluster((Machine({"gpu": 2}),))
    alike = [job(str(k), work=1.0, batch=1, worker={"gpu": 0.6}) for k in range(3)]
    assert sorted(run(two, alike, "fifo").finish.tolist()) == [0, 0, 1]
    fits = [job(str(k), work=1.0, batch=1, worker={"gpu": part}) for k, part in enumerate((0.5, 0.5, 0.5, 0.4))]
    assert run(two, fits, "fifo").finish.tolist() == [0, 0, 0, 0]
    forged = run(two, alike, "fifo")
    rows = forged.schedule.copy()
    rows[:, 1] = 0
    forged = replace(forged, schedule=rows, finish=np.zeros(3, dtype=np.int64))
    assert {check.name for check in verify(forged) if not check.passed} >= {"devices"}
    assert next(c for c in verify(forged) if c.name == "capacity").passed


# What holds whatever the case.


def devices_by_force(room: int, asked: tuple[int, ...]) -> bool:
    """Every way to give each part a device."""
    for seats in itertools.product(range(room), repeat=len(asked)):
        held = [sum(part for part, seat in zip(asked, seats, strict=True) if seat == d) for d in range(room)]
        if max(held) <= 1000:
            return True
    return not asked


def test_devices_are_packed_exactly():
    """Against every way there is, on 300 random machines; whole devices are taken first."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        room, asked = int(rng.integers(1, 4)), tuple(rng.integers(100, 900, rng.integers(0, 6)).tolist())
        assert on_devices(1000 * room, sorted(asked, reverse=True)) == devices_by_force(room, asked)
    assert not on_devices(2000, (1500, 500)) and on_devices(3000, (1500, 500))  # 1.5 is two whole ones
    assert on_devices(
        2000, (440, 380, 320, 300, 300, 260)
    )  # 440 + 380 leaves no room for the last; 440 + 300 + 260 does


def test_what_is_planned_for_parts_always_packs():
    """Rounded up, any parts that fit in sum fit device by device: 500 random sets."""
    rng, cluster = np.random.default_rng(4), Cluster((Machine({"gpu": 8, "cpu": 1}),))
    for _ in range(500):
        free, asked = 3000, []
        for part in rng.integers(1, 2200, 40).tolist():
            planned = int(cluster.packed(np.array([part, 0]))[0])
            if planned <= free:
                free, asked = free - planned, [*asked, part]
        assert on_devices(3000, sorted(asked, reverse=True))
    assert cluster.packed(np.array([1500, 700])).tolist() == [2000, 700]


def brute(cluster: Cluster, jobs: list[Job], slots: int) -> float:
    """The best worth over every way to give, slot by slot, each job some workers on one machine."""
    ways = []
    for one in jobs:
        options = [(-1, 0, 0.0)]
        for h in range(cluster.size):
            name = cluster.machines[cluster.type_of[h]].type
            most = min(one.widest, int(cluster.capacity[cluster.type_of[h], 0]) // one.worker["gpu"])
            rates = [one.rate(w, together=True, type=name) for w in range(most + 1)]
            options += [(h, w * one.worker["gpu"], rates[w]) for w in range(1, most + 1) if rates[w] > 0]
        ways.append(options)
    here = [
        [rate for _, _, rate in seats]
        for seats in itertools.product(*ways)
        if all(
            sum(need for at, need, _ in seats if at == h) <= cluster.capacity[cluster.type_of[h], 0]
            for h in range(cluster.size)
        )
    ]
    states = {tuple(one.work for one in jobs): 0.0}
    for t in range(slots):
        after: dict[tuple[float, ...], float] = {}
        for left, worth in states.items():
            for rates in here:
                now = tuple(
                    max(0.0, need - rate) if t >= one.arrival else need
                    for need, rate, one in zip(left, rates, jobs, strict=True)
                )
                now = tuple(0.0 if need < 1e-9 else need for need in now)
                earned = worth + sum(
                    one.utility(t - one.arrival)
                    for need, was, one in zip(now, left, jobs, strict=True)
                    if was > 0.0 == need
                )
                after[now] = max(after.get(now, 0.0), earned)
        states = after
    return max(states.values())


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_is_over_the_best_of_all_schedules(seed):
    """Two types of one machine, three random jobs, four slots: brute force, the exact program (equal) and the bound."""
    rng = np.random.default_rng(seed)
    speeds = [{"v100": 1.0, "a100": 2.0}, {"v100": 1.5}, {"a100": 1.0}, None]
    jobs = [
        job(str(k), int(rng.integers(0, 2)), work=float(rng.integers(2, 9)), speeds=speeds[rng.integers(4)])
        for k in range(3)
    ]
    best = brute(FAST_AND_SLOW, jobs, 4)
    assert bound(FAST_AND_SLOW, jobs, slots=4, exact=True).utility == approx(best)
    assert bound(FAST_AND_SLOW, jobs, slots=4).utility >= best - 1e-6


def three() -> tuple[Cluster, Workload]:
    """Three types, 40 jobs: factors, tables, all types or one, parts of a gpu, servers, restarts."""
    kinds = ("a100", 4, 2), ("v100", 4, 2), ("k80", 8, 1)
    cluster = Cluster(tuple(Machine({"gpu": gpus}, count, name, name) for name, gpus, count in kinds))
    rng = np.random.default_rng(1)
    table = {"a100": [1.0, 1.9, 2.5, 2.7], "k80": 0.5}
    speeds = ({"a100": 3.0, "v100": 2.0, "k80": 1.0}, {"v100": 2.0}, None, table, {"k80": [1, 2, 3]})
    jobs = [
        job(
            str(k),
            int(rng.integers(0, 20)),
            work=float(rng.integers(2, 40)),
            batch=int(rng.integers(1, 7)),
            worker={"gpu": float(rng.choice([1, 1, 0.3, 0.6, 2]))},
            utility=Deadline(float(rng.integers(1, 9)), float(rng.integers(4, 20))),
            restart=float(rng.choice([0.0, 0.1])),
            speeds=speeds[k % 5],
            gradient=float(k % 3),
            inside=10.0,
            between=2.0,
            server={"gpu": 0.2} if k % 7 == 3 else None,
        )
        for k in range(40)
    ]
    return cluster, Workload(tuple(jobs))


@pytest.mark.parametrize("policy", [*POLICIES, "dynamic", "rounding", "replanned"])
def test_three_types_pass_verify_under_the_bound(policy):
    """All policies and all ways to plan: certificate and bound hold, and each job sits on types it takes, one at a time."""
    cluster, jobs = three()
    more = {"dynamic": {"method": "dynamic"}, "rounding": {"packing": "rounding"}, "replanned": {"replan": 5}}
    chosen = placers.PDORS(**more[policy]) if policy in more else named(policy)
    result = simulate(cluster, jobs, chosen, slots=40)
    assert verify(result, bound=bound(cluster, jobs, slots=40)).passed and (result.finish >= 0).sum() > 20
    types = cluster.machine_types[result.schedule[:, 2]]
    sits: dict[tuple[int, int], set[int]] = {}
    for (j, t, *_), on in zip(result.schedule.tolist(), types.tolist(), strict=True):
        sits.setdefault((j, t), set()).add(on)
        assert jobs[j].takes(cluster.types[on])
    assert all(len(found) == 1 for found in sits.values())


def test_explain_speaks_of_the_types_a_job_takes():
    """By hand: three GPUs per worker fit no v100, though an a100 has them; it may only be on v100."""
    cluster = Cluster((Machine({"gpu": 4}, 1, "big", "a100"), Machine({"gpu": 2}, 1, "small", "v100")))
    result = run(cluster, [job(worker={"gpu": 3}, speeds={"v100": 1.0}), job("b", worker={"gpu": 3})])
    told = explain(result, "a")
    assert [(m.machine, m.resource, m.needs, m.has) for m in told.missing] == [("small", "gpu", 3, 2)]
    assert explain(result, "b").missing == () and result.finish[1] >= 0


def test_a_seat_on_another_type_is_refused_and_does_no_work():
    """A placer that seats a job on a type it does not take, or on two at once, is told so; a schedule gains nothing."""
    only = job(speeds={"v100": 3.0})
    at_work = Execution(FAST_AND_SLOW, Workload((only, job("b"))), 10, None)
    with refused("cells.types", "a100"):
        at_work.assign(0, np.array([[0, 1, 2, 0]], np.int32))
    with refused("cells.types", "slot 0"):
        at_work.assign(1, np.array([[0, 0, 1, 0], [0, 1, 1, 0]], np.int32))
    right = run(FAST_AND_SLOW, [only])
    assert right.finish.tolist() == [0]
    for rows in ([[0, 0, 1, 2, 0]], [[0, 0, 0, 1, 0], [0, 0, 1, 1, 0]]):
        wrong = verify(replace(right, schedule=np.array(rows, np.int32)))
        assert {check.name for check in wrong if not check.passed} >= {"work", "locality"}


# Files and requests.


@pytest.mark.parametrize("ending", ["yaml", "json", "csv"])
def test_types_and_speeds_come_back_equal(tmp_path, ending):
    cluster = Cluster((Machine({"gpu": 4}, 2, "big", "a100"), Machine({"gpu": 1}, name="old", type="k80")))
    jobs = Workload((job(speeds={"a100": 2.5, "k80": [0.1, 1 / 3]}), job("b", speeds={"a100": 1.0})))
    files.write_cluster(cluster, tmp_path / f"cluster.{ending}")
    files.write_jobs(jobs, tmp_path / f"jobs.{ending}")
    there = files.read_cluster(tmp_path / f"cluster.{ending}")
    assert there == cluster
    assert files.read_jobs(tmp_path / f"jobs.{ending}", there).jobs == jobs.jobs


def test_speeds_as_people_write_them(tmp_path):
    """A number is a factor; several are samples per second: 10 a second are 36,000 in a slot of an hour."""
    path = tmp_path / "jobs.yaml"
    head = "jobs:\n- {id: a, arrival: 0, workers: 2, duration: 2h, worker: {gpu: 1}, value: 1, deadline: 9h, speeds: "
    for said in ("{a100: [10, 15], v100: 2}", '{a100: "10 15", v100: "2"}'):
        path.write_text(f"{head}{said}}}\n")
        found = files.read_jobs(path, FAST_AND_SLOW)[0]
        assert found.speeds == {"a100": (36000.0, 54000.0), "v100": 2.0}
    assert job_from(json.loads(json.dumps(plain_job(found))), FAST_AND_SLOW, 3600.0) == found


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ("{h100: 2}", "unknown", ("h100", "a100", "v100")),
        ("{a100: 0}", "job.speed", ("a100", "0")),
        ("{a100: -1}", "job.speed", ("a100", "-1")),
        ("{a100: [10, 12, 11]}", "job.speeds_fall", ("a100", "3 workers")),
        ("{}", "job.speeds", ("speeds",)),
        ("{a100: fast}", "input", ("speeds: a100", "fast")),
    ],
)
def test_bad_speeds_are_named_with_file_and_line(tmp_path, said, code, words):
    path = tmp_path / "jobs.yaml"
    path.write_text(
        f"jobs:\n- {{id: a, arrival: 0, workers: 2, duration: 2h, worker: {{gpu: 1}}, deadline: 9h, speeds: {said}}}\n"
    )
    with refused(code, "jobs.yaml", "line 2", *words):
        files.read_jobs(path, FAST_AND_SLOW).between(0, 1)


# Racks.


TWO_RACKS = Cluster((Machine({"gpu": 2}, 2, "a", rack="1"), Machine({"gpu": 2}, 2, "b", rack="2")), across=1.0)


def exchanging(id: str = "a", **changes: Any) -> Job:
    """Four samples take four workers 1 slot, and 1.5 more to exchange over 1: slow across racks, quick in one."""
    return job(id, work=11.9, batch=4, requested=4, gradient=1.0, inside=1e9, between=1e9, across=1.0, **changes)


def test_a_rack_is_between_a_machine_and_the_rest():
    """By hand: 4 samples in 1 slot inside a rack, in 1 + 2 x 3/4 = 2.5 across; where racks do not count, as between."""
    one = exchanging()
    assert one.rate(4, together=False) == approx(4.0)
    assert one.rate(4, together=False, across=True) == approx(1.6)
    right = simulate(TWO_RACKS, [one], placers.PDORS(), slots=10)
    assert right.finish.tolist() == [2] and len(machines_of(right, 0)) == 2
    rows = right.schedule.copy()
    rows[1::2, 2] = np.where(rows[::2, 2] < 2, 2, 0)  # one of its two machines is in the other rack
    wrong = verify(replace(right, schedule=rows))
    assert {check.name for check in wrong if not check.passed} >= {"work", "locality"}
    assert verify(replace(right, schedule=rows, cluster=replace(TWO_RACKS, across=None))).passed


@pytest.mark.parametrize("policy", POLICIES[:-1])  # Sia chooses widths as if all that is spread were across racks
def test_jobs_keep_to_a_rack_where_they_can(policy):
    """Two of four workers, two racks of four GPUs: a rack each, three slots, not the eight that both would take across."""
    result = run(TWO_RACKS, [exchanging("a"), exchanging("b")], policy)
    assert result.finish.tolist() == [2, 2]
    assert {len({name[0] for name in machines_of(result, j)}) for j in range(2)} == {1}


def test_wider_than_a_rack_goes_across():
    """Six workers fit no rack: 11 samples, 6 in 1 slot and 2 x 5/6 of exchange over 100, take two slots, not three."""
    wide = job(work=11.0, batch=6, requested=6, gradient=1.0, inside=1e9, between=1e9, across=100.0)
    for policy in ("pdors", "fifo"):
        result = run(TWO_RACKS, [wide], policy)
        assert result.finish.tolist() == [1] and len({name[0] for name in machines_of(result, 0)}) == 2


def test_racks_come_back_equal_and_give_jobs_their_bandwidth(tmp_path):
    """1 Gbps are 1.25e8 bytes a second, 4.5e11 in an hour; a job that is slower between machines is no faster across."""
    cluster = replace(TWO_RACKS, across="1Gbps")
    for ending in ("yaml", "json", "csv"):
        files.write_cluster(cluster, tmp_path / f"cluster.{ending}")
        assert files.read_cluster(tmp_path / f"cluster.{ending}") == cluster
    path = tmp_path / "jobs.yaml"
    text = "{arrival: 0, workers: 2, duration: 2h, worker: {gpu: 1}, deadline: 9h, between: "
    path.write_text(f"jobs:\n- {{id: a, {text[1:]}10Gbps}}\n- {{id: b, {text[1:]}8bps}}\n")
    assert [one.across for one in files.read_jobs(path, cluster)] == [4.5e11, 3600.0]
    with refused("number.range", "across"):
        job(between=1.0, across=2.0)


@pytest.mark.parametrize(
    "changes",
    [{"speeds": {"a100": [1.0, 2.0]}}, {"worker": {"gpu": 0.5}}, {"across": 1.0, "between": 2.0}],
    ids=["table", "part", "racks"],
)
def test_the_exact_bound_refuses_what_it_does_not_model(changes):
    with refused("bound.exact", "'a'"):
        bound(FAST_AND_SLOW, [job(**changes)], slots=4, exact=True)


def test_elasticflow_plans_one_type_only():
    """Its pool is one of equal machines: of two types it says so, and does not plan as if they were one."""
    with refused("elasticflow.machines", "slow", "fast"):
        simulate(FAST_AND_SLOW, Workload((job(),)), named("elasticflow"), slots=4)
    typed = Cluster((Machine({"gpu": 2}, 2, "fast", "a100"),))
    assert run(typed, [job(speeds={"a100": 3.0})], "elasticflow").finish.tolist() == [0]
