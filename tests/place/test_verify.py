"""The certificate of a placement: right runs pass; every way to be wrong is caught by the check that names it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from equipoise.certificate import Certificate
from equipoise.place import (
    Cluster,
    Deadline,
    Job,
    Linear,
    Machine,
    Result,
    Sigmoid,
    Unstated,
    Workload,
    bound,
    placers,
    prices,
    simulate,
)
from equipoise.place.schedule import read_schedule, verify_files, write_schedule
from equipoise.place.traces.synthetic import regime
from equipoise.place.verify import verify
from refusals import refused

approx = pytest.approx
JOB, SLOT, MACHINE, WORKERS, SERVERS = range(5)
PLAIN = placers.PDORS(prices=prices.Level(3.0, 10.0))
FULL = placers.PDORS(prices=prices.Level(3.0, 10.0), replan=5, backfill=True)


@dataclass(frozen=True)
class Promising:
    """A policy in name only, that keeps what it promises."""

    label: str = "promising"
    colour: str = "#000000"
    promises: bool = True


def failed(certificate: Certificate) -> set[str]:
    return {check.name for check in certificate if not check.passed}


def all_reduce(jobs: Workload, *, actual: bool) -> Workload:
    """The same jobs without servers, slow to restart, and as long as stated or from half to half as long again."""
    changes = [0.5 + k % 11 / 10 if actual else 1.0 for k in range(len(jobs))]
    return Workload(
        tuple(
            one.but(server=None, restart=0.2, actual=a, batch=one.batch * 10_000, most=one.batch)
            for one, a in zip(jobs, changes, strict=True)
        )
    )


@pytest.fixture(scope="module")
def right() -> Result:
    cluster, jobs, slots = regime("20x40", 1)
    return simulate(cluster, jobs, PLAIN, slots=slots)


@pytest.fixture(scope="module")
def restarting() -> Result:
    cluster, jobs, slots = regime("20x40", 1)
    return simulate(cluster, all_reduce(jobs, actual=True), PLAIN, slots=slots)


# Right runs.


@pytest.mark.parametrize("policy", [PLAIN, FULL], ids=["plain", "full"])
@pytest.mark.parametrize("times", [{"slots": 20}, {"horizon": 12}], ids=["fixed", "rolling"])
@pytest.mark.parametrize("kind", ["servers", "all-reduce", "all-reduce, estimates wrong"])
def test_a_right_run_passes(policy: Any, times: dict[str, int], kind: str) -> None:
    cluster, jobs, _ = regime("20x40", 1)
    if kind != "servers":
        jobs = all_reduce(jobs, actual="wrong" in kind)
    result = simulate(cluster, jobs, policy, **times, seed=1)
    certificate = verify(replace(result, policy=Promising()), bound=bound(cluster, jobs, slots=result.end))
    assert result.completed > 3
    assert failed(certificate) == set()
    wanted = {"capacity", "ratio", "work", "arrival", "locality", "utility", "promise", "bound"}
    assert wanted <= {c.name for c in certificate}


def test_the_order_of_the_rows_does_not_matter(restarting: Result) -> None:
    rng = np.random.default_rng(0)
    mixed = replace(restarting, schedule=restarting.schedule[rng.permutation(len(restarting.schedule))])
    assert verify(mixed) == verify(restarting)


def test_a_check_that_does_not_apply_is_left_out(right: Result) -> None:
    """No bound computed, nobody told it is admitted: neither is in the certificate, and neither passes by default."""
    untold = replace(right, decisions=tuple(() for _ in right.jobs))
    certificate = verify(untold)
    assert "bound" not in certificate and "promise" not in certificate
    assert "bound" in verify(replace(right, detail={"bound": 1e9}))


def test_any_policy_that_says_admitted_is_held_to_it() -> None:
    """One that admits everybody and does nothing fails by its own word."""

    class Talker:
        label, colour = "Talker", "#000000"

        def start(self, run, seed):  # type: ignore[no-untyped-def]
            self.run = run
            return self

        def arrive(self, job: int) -> None:
            self.run.decide(job, "admitted")

        def slot(self) -> None: ...
        def finished(self, job: int) -> None: ...
        def unfinished(self, job: int) -> None: ...

    cluster, jobs, _ = regime("20x40", 1)
    certificate = verify(simulate(cluster, jobs[:3], Talker(), slots=20))
    assert failed(certificate) == {"promise"} and certificate["promise"].value == 3


def test_an_empty_schedule_passes() -> None:
    cluster, jobs, _ = regime("20x40", 1)
    nothing = simulate(cluster, jobs[:1], placers.PDORS(prices=prices.Level(1e9, 10.0), backfill=False), slots=20)
    assert len(nothing.schedule) == 0
    assert verify(nothing).passed


# Wrong in one way.


def job_slots(result: Result, *, together: bool) -> list[tuple[int, int, np.ndarray]]:
    """Job, slot and row numbers of finished jobs' slots, on one machine or on several."""
    table = result.schedule
    out = []
    for j, t in np.unique(table[:, :2], axis=0):
        rows = np.flatnonzero((table[:, JOB] == j) & (table[:, SLOT] == t))
        if result.finish[j] >= 0 and (len(rows) == 1) == together:
            out.append((int(j), int(t), rows))
    return out


def with_rows(result: Result, rows: np.ndarray, **changes: Any) -> Result:
    return replace(result, schedule=rows.astype(np.int32), **changes)


def roomier(result: Result, times: int) -> Result:
    """The same run on machines so many times as large."""
    (machine,) = result.cluster.machines
    large = {r: f"{amount * times}m" for r, amount in machine.capacity.items()}
    return replace(result, cluster=Cluster((Machine(large, machine.count, machine.name),)))


def test_one_thousandth_less_capacity_than_is_used_is_seen(right: Result) -> None:
    """Exact integers: the most loaded machine with one milli-unit of memory less than it holds."""
    worker = np.array([one.worker["memory"] for one in right.jobs])
    server = np.array([(one.server or {})["memory"] for one in right.jobs])
    table = right.schedule.astype(np.int64)
    held = np.zeros((right.end, right.cluster.size), np.int64)
    amount = worker[table[:, JOB]] * table[:, WORKERS] + server[table[:, JOB]] * table[:, SERVERS]
    np.add.at(held, (table[:, SLOT], table[:, MACHINE]), amount)
    (machine,) = right.cluster.machines
    for less, wrong in ((0, set()), (1, {"capacity"})):
        capacity = {r: f"{a}m" for r, a in (machine.capacity | {"memory": int(held.max()) - less}).items()}
        certificate = verify(replace(right, cluster=Cluster((Machine(capacity, machine.count),))))
        assert failed(certificate) == wrong
        assert certificate["capacity"].value == less / 1000


def test_a_job_on_a_machine_that_is_full_breaks_only_capacity(right: Result) -> None:
    """Every job-slot that is on one machine, moved to the busiest other machine of its slot: same rates, no room."""
    seen = 0
    for j, t, rows in job_slots(right, together=True):
        others = right.schedule[(right.schedule[:, SLOT] == t) & (right.schedule[:, JOB] != j)]
        if not len(others):
            continue
        table = right.schedule.copy()
        table[rows, MACHINE] = others[others[:, WORKERS].argmax(), MACHINE]
        wrong = failed(verify(with_rows(right, table)))
        assert wrong <= {"capacity"}
        seen += wrong == {"capacity"}
    assert seen > 0


def test_one_worker_more_than_fits_breaks_capacity(right: Result) -> None:
    table = right.schedule.copy()
    table[0, WORKERS] += 100
    assert "capacity" in failed(verify(with_rows(right, table)))


def test_amounts_past_64_bits_are_still_counted(right: Result) -> None:
    """2^31 - 1 workers of 2^50 each do not wrap round to a negative use."""
    jobs = tuple(one.but(worker={"gpu": 0, "cpu": 2**40, "memory": 0, "disk": 0}) for one in right.jobs)
    table = right.schedule.copy()
    table[:, WORKERS] = 2**31 - 1
    certificate = verify(with_rows(right, table, jobs=replace(right.jobs, jobs=jobs)))
    assert certificate["capacity"].value > 2**70


def test_a_server_taken_away_breaks_only_the_ratio(right: Result) -> None:
    table = right.schedule.copy()
    k = int(np.flatnonzero((table[:, SERVERS] > 0) & (table[:, WORKERS] > 0))[0])
    table[k, SERVERS] -= 1
    certificate = verify(with_rows(right, table))
    assert failed(certificate) == {"ratio"}
    assert certificate["ratio"].value == 1
    assert right.jobs[int(table[k, JOB])].id in certificate["ratio"].meaning


def test_a_server_in_an_all_reduce_job_breaks_the_ratio(restarting: Result) -> None:
    """In every cell, so that no placement changes from slot to slot more than it did."""
    table = restarting.schedule.copy()
    table[:, SERVERS] = 1
    assert failed(verify(with_rows(restarting, table))) == {"ratio"}


def test_more_workers_than_the_job_may_have_break_the_ratio(right: Result) -> None:
    """The job says it may have one worker fewer than it was given."""
    j, _, rows = job_slots(right, together=True)[0]
    most = int(right.schedule[rows, WORKERS].sum()) - 1
    jobs = tuple(one.but(most=max(1, most)) if k == j else one for k, one in enumerate(right.jobs))
    assert failed(verify(replace(right, jobs=replace(right.jobs, jobs=jobs)))) == {"ratio"}


def test_servers_without_workers_break_the_ratio(right: Result) -> None:
    free = roomier(right, 100)
    j = int(np.flatnonzero(right.finish < 0)[0])
    lone = [[j, right.jobs[j].arrival, 0, 0, 1]]
    assert failed(verify(with_rows(free, np.concatenate((free.schedule, lone))))) == {"ratio"}


def test_a_server_moved_to_another_machine_slows_the_job(right: Result) -> None:
    """A job's slots on one machine, each with a server put next door: the work is no longer done in time."""
    free = roomier(right, 100)
    caught = 0
    for j in np.flatnonzero(right.finish >= 0):
        table = free.schedule.copy()
        mine = (table[:, JOB] == j) & (table[:, SERVERS] > 0) & (table[:, WORKERS] > 0)
        alone = np.array([(table[:, :2] == row[:2]).all(axis=1).sum() == 1 for row in table]) & mine
        moved = table[alone].copy()
        if not len(moved):
            continue
        table[alone, SERVERS] -= 1
        moved[:, MACHINE] = (moved[:, MACHINE] + 1) % free.cluster.size
        moved[:, WORKERS], moved[:, SERVERS] = 0, 1
        wrong = failed(verify(with_rows(free, np.concatenate((table, moved)))))
        assert wrong <= {"work", "locality", "utility", "promise"}
        caught += {"work", "locality"} <= wrong
    assert caught > 0


def test_a_spread_slot_said_to_be_on_one_machine_is_faster(right: Result) -> None:
    """All cells of a job's spread slots merged on one machine: it would have finished sooner than it did."""
    free = roomier(right, 100)
    caught = 0
    for j in {j for j, _, _ in job_slots(right, together=False)}:
        table = free.schedule.astype(np.int64)
        mine = table[:, JOB] == j
        merged = [
            [j, t, 0, *table[mine & (table[:, SLOT] == t)][:, [WORKERS, SERVERS]].sum(axis=0)]
            for t in np.unique(table[mine, SLOT])
        ]
        wrong = failed(verify(with_rows(free, np.concatenate((table[~mine], merged)))))
        assert wrong <= {"work", "locality", "utility", "promise"}
        caught += "locality" in wrong
    assert caught > 0


def extra(result: Result, row: list[int]) -> Result:
    return with_rows(result, np.concatenate((result.schedule, [row])))


def test_a_cell_before_arrival_breaks_only_arrival(right: Result) -> None:
    """What is done before arrival does not count as work either."""
    free = roomier(right, 100)
    for j in np.flatnonzero([one.arrival > 0 for one in right.jobs]):
        one = right.jobs[int(j)]
        row = [int(j), one.arrival - 1, 0, one.widest, one.servers(one.widest)]
        certificate = verify(extra(free, row))
        assert failed(certificate) == {"arrival"}
        assert certificate["arrival"].value == 1


def test_cells_at_or_after_the_end_break_arrival(right: Result) -> None:
    j = int(np.flatnonzero(right.finish < 0)[0])
    one = right.jobs[j]
    row = [j, right.end, 0, 1, one.servers(1)]
    assert failed(verify(extra(right, row))) == {"arrival"}


@pytest.mark.parametrize(
    "row",
    [[0, 19, 20, 1, 1], [0, 19, -1, 1, 1], [99, 19, 0, 1, 1], [-1, 19, 0, 1, 1], [0, 19, 0, 0, 0], [0, -5, 0, 1, 1]],
)
def test_rows_that_name_nothing_break_only_arrival(right: Result, row: list[int]) -> None:
    """No such machine or job, an empty cell, a negative slot."""
    assert failed(verify(extra(right, row))) == {"arrival"}


def test_negative_workers_cannot_make_room(right: Result) -> None:
    j = int(np.flatnonzero(right.finish < 0)[0])
    assert failed(verify(extra(right, [j, right.end - 1, 0, -1, 1]))) == {"arrival"}


def test_the_same_cell_twice_is_seen(right: Result) -> None:
    assert "arrival" in failed(verify(extra(roomier(right, 100), right.schedule[0].tolist())))


@pytest.mark.parametrize("which", ["right", "restarting"])
def test_work_that_was_not_done_is_missed(which: str, request: pytest.FixtureRequest) -> None:
    """The last slot of any finished job left out: the job is short, and cannot have finished."""
    result: Result = request.getfixturevalue(which)
    for j in np.flatnonzero(result.finish >= 0):
        table = result.schedule
        kept = table[(table[:, JOB] != j) | (table[:, SLOT] != result.finish[j])]
        certificate = verify(with_rows(result, kept))
        assert {"work", "locality"} <= failed(certificate) <= {"work", "locality", "utility", "promise"}
        assert result.jobs[int(j)].id in certificate["work"].meaning


def claimed(result: Result, j: int, finish: int) -> Result:
    changed = result.finish.copy()
    changed[j] = finish
    return replace(result, finish=changed)


@pytest.mark.parametrize("which", ["right", "restarting"])
def test_a_finish_claimed_early_is_seen(which: str, request: pytest.FixtureRequest) -> None:
    result: Result = request.getfixturevalue(which)
    for j in np.flatnonzero(result.finish > 0):
        wrong = failed(verify(claimed(result, int(j), int(result.finish[j]) - 1)))
        assert {"work", "locality"} <= wrong <= {"work", "locality", "utility", "promise"}


def test_a_finish_claimed_late_is_seen(right: Result) -> None:
    """The work was done before: nothing is missing, but the slot is another, and so is what it is worth."""
    for j in np.flatnonzero((right.finish >= 0) & (right.finish < right.end - 1)):
        wrong = failed(verify(claimed(right, int(j), int(right.finish[j]) + 1)))
        assert {"locality"} <= wrong <= {"locality", "utility"}


def test_a_finish_not_claimed_at_all_is_seen(right: Result) -> None:
    j = int(np.flatnonzero(right.finish >= 0)[0])
    certificate = verify(claimed(right, j, -1))
    assert {"work", "locality", "utility"} == failed(certificate)
    assert certificate["work"].value == 1.0


def test_cells_held_after_the_finish_break_only_work(right: Result) -> None:
    free = roomier(right, 100)
    seen = 0
    for j in np.flatnonzero((right.finish >= 0) & (right.finish < right.end - 1)):
        last = free.schedule[(free.schedule[:, JOB] == j) & (free.schedule[:, SLOT] == right.finish[j])].copy()
        last[:, SLOT] += 1
        assert failed(verify(with_rows(free, np.concatenate((free.schedule, last))))) == {"work"}
        seen += 1
    assert seen > 0


def test_a_restart_that_was_not_counted_is_missed(restarting: Result) -> None:
    """The same schedule of jobs twice as slow to restart: some did not finish when they say they did."""
    jobs = tuple(one.but(restart=0.9) for one in restarting.jobs)
    wrong = failed(verify(replace(restarting, jobs=replace(restarting.jobs, jobs=jobs))))
    assert {"work", "locality"} <= wrong <= {"work", "locality", "utility", "promise"}


def test_a_utility_that_was_not_earned_is_seen(right: Result) -> None:
    tampered = replace(right)
    tampered.__dict__["utilities"] = right.utilities * (1 + 1e-8)
    assert failed(verify(tampered)) == {"utility"}


def test_a_broken_promise_is_seen(right: Result) -> None:
    """An admitted job whose cells are all gone and that does not claim to have finished."""
    admitted = [k for k, log in enumerate(right.decisions) if any(d.state == "admitted" for d in log)]
    j = admitted[0]
    without = with_rows(claimed(right, j, -1), right.schedule[right.schedule[:, JOB] != j], policy=Promising())
    certificate = verify(without)
    assert failed(certificate) == {"promise"}
    assert certificate["promise"].value == 1


def test_more_than_the_bound_is_seen(right: Result) -> None:
    assert failed(verify(right, bound=right.utility * (1 - 1e-5))) == {"bound"}
    assert failed(verify(right, bound=right.utility * (1 - 1e-7))) == set()


# The finish found, against exact arithmetic.


@st.composite
def loose(draw: st.DrawFn) -> tuple[Job, list[tuple[str, int, str, int, int]]]:
    """A job with binary fractions for numbers, and any cells at all for it."""
    serves = draw(st.booleans())
    one = Job(
        "a",
        draw(st.integers(0, 2)),
        draw(st.integers(1, 24)) / 2,
        8,
        0.5,
        {"gpu": 1},
        Linear(10.0, 50.0),
        server={"gpu": 1} if serves else None,
        workers_per_server=2,
        gradient=1.0,
        inside=4.0,
        between=draw(st.sampled_from([0.5, 1.0, 2.0])),
        restart=draw(st.sampled_from([0.0, 0.25, 0.5, 2.0])),
    )
    cells = draw(
        st.dictionaries(
            st.tuples(st.integers(0, 8), st.sampled_from(["m-0", "m-1"])),
            st.tuples(st.integers(1, 2), st.integers(0, 1) if serves else st.just(0)),
        )
    )
    return one, [("a", t, h, w, s) for (t, h), (w, s) in cells.items()]


@settings(max_examples=150)
@given(loose())
def test_the_finish_found_is_that_of_exact_arithmetic(given_: tuple[Job, list[tuple[str, int, str, int, int]]]) -> None:
    """The rate law of spec section 1 in fractions, slot by slot in the plainest way."""
    one, rows = given_
    end = 8
    left, before, finish = Fraction(one.work), None, None
    for t in range(one.arrival, end):
        here = sorted((h, w, s) for _, slot, h, w, s in rows if slot == t)
        width = sum(w for _, w, _ in here)
        if width:
            b = Fraction(one.inside if len(here) == 1 else one.between)
            tau, batch, g = Fraction(one.time_per_sample), one.batch, Fraction(one.gradient)
            if one.server is not None:
                rate = width / (tau + Fraction(one.workers_per_server, batch) * 2 * g / b)
            else:
                rate = batch / (tau * batch / width + Fraction(2 * (width - 1), width) * g / b)
            lost = Fraction(0) if here == before else min(Fraction(1), Fraction(one.restart))
            left -= rate * (1 - lost)
        before = here
        if left <= 0 and finish is None:
            finish = t
    found = verify_files(Cluster((Machine({"gpu": 8}, 2, "m"),)), [one], rows, end=end)
    assert found.finish == {"a": finish}
    assert found.utility == approx(0.0 if finish is None else 10.0 * (1 - (finish - one.arrival) / 50))


@pytest.mark.parametrize(
    "utility", [Sigmoid(80.0, 0.5, 6.0), Sigmoid(80.0, 900.0, 1.0), Deadline(7.0, 3.0), Linear(9.0, 4.0), Unstated()]
)
def test_worth_is_that_of_the_utility_itself(utility: Any) -> None:
    for late in (0, 3, 4, 8):
        one = Job("a", 1, 1.0, 1, 1.0, {"gpu": 1}, utility)
        found = verify_files(Cluster((Machine({"gpu": 1}, 1, "m"),)), [one], [("a", 1 + late, "m", 1, 0)], end=20)
        assert found.finish == {"a": 1 + late}
        assert found.utility == approx(utility(late), abs=1e-300)


# Files.


def test_a_schedule_comes_back_from_its_file(right: Result, tmp_path: Path) -> None:
    """Written by names and read again, it finishes the same jobs in the same slots, for the same worth."""
    path = tmp_path / "schedule.csv"
    write_schedule(right, path)
    claims = {one.id: None if f < 0 else int(f) for one, f in zip(right.jobs, right.finish, strict=True)}
    found = verify_files(right.cluster, right.jobs, read_schedule(path), end=right.end, finish=claims)
    assert found.certificate.passed
    assert [check.name for check in found.certificate] == ["capacity", "ratio", "work", "arrival", "locality"]
    assert found.finish == claims
    assert found.completed == right.completed
    assert found.utility == approx(right.utility, rel=1e-12)
    assert np.array_equal(found.schedule, right.schedule)
    alone = verify_files(right.cluster, right.jobs, read_schedule(path), end=right.end)
    assert [check.name for check in alone.certificate] == ["capacity", "ratio", "arrival"]
    assert alone.finish == claims


HEADER = "job,slot,machine,workers,servers\n"
SMALL = Cluster((Machine({"gpu": 2}, 2, "m"),))
ONE = Job("a", 0, 4.0, 2, 1.0, {"gpu": 1}, Linear(10.0, 100.0))


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("job,slot\n", ("schedule.row", "line 1:", "'job,slot'", "job,slot,machine,workers,servers")),
        ("", ("schedule.row", "line 1:", "''")),
        (HEADER + "a,0,m-0,1,0\nb,1,m-0,1,0\n", ("unknown", "line 3:", "'b'")),
        (HEADER + "\na,0,m-7,1,0\n", ("unknown", "line 3:", "'m-7'")),
        (HEADER + "a,0,m-0,-1,0\n", ("schedule.row", "line 2:", "'-1'")),
        (HEADER + "a,-2,m-0,1,0\n", ("schedule.row", "line 2:", "'-2'")),
        (HEADER + "a,0,m-0,1,1.5\n", ("schedule.row", "line 2:", "'1.5'")),
        (HEADER + "a,0,m-0,99999999999,0\n", ("schedule.row", "line 2:", "'99999999999'")),
        (HEADER + "a,0,m-0,,0\n", ("schedule.row", "line 2:", "''")),
        (HEADER + "a,0,m-0,0,0\n", ("schedule.row", "line 2:")),
        (HEADER + "a,0,m-0,1\n", ("schedule.row", "line 2:", "4 cells")),
        (HEADER + "a,0,m-0,1,0\na,1,m-0,1,0\na,0,m-0,2,0\n", ("schedule.twice", "line 4:", "line 2")),
        (HEADER + 'a,0,"m-0,1,0\n', ("schedule.row",)),
    ],
)
def test_a_bad_row_is_refused_with_its_line(text: str, refusal: tuple[object, ...], tmp_path: Path) -> None:
    path = tmp_path / "schedule.csv"
    path.write_text(text)
    with refused(*refusal, path):
        verify_files(SMALL, [ONE], read_schedule(path), end=5)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with refused("file.missing", "none.csv"):
        read_schedule(tmp_path / "none.csv")
    with refused("file.read", tmp_path, "a CSV file"):
        read_schedule(tmp_path)
    (tmp_path / "bytes.csv").write_bytes(HEADER.encode() + b"\xff,0,m-0,1,0\n")
    with refused("file.read", "bytes.csv"):
        read_schedule(tmp_path / "bytes.csv")


def test_a_claim_about_an_unknown_job_is_refused() -> None:
    with refused("unknown", "'z'"):
        verify_files(SMALL, [ONE], [], end=5, finish={"z": 1})


def test_a_schedule_by_hand_is_measured() -> None:
    """Two workers on one machine of two gpus and one more elsewhere: too wide by one; four samples in two slots."""
    rows = [("a", 0, "m-0", 2, 0), ("a", 0, "m-1", 1, 0), ("a", 1, "m-0", 3, 0)]
    found = verify_files(SMALL, [ONE], rows, end=5, finish={"a": 2})
    assert found.finish == {"a": 1}
    assert found.utility == approx(9.9)
    assert found.certificate["capacity"].value == 1.0
    assert "gpu of m-0 in slot 1" in found.certificate["capacity"].meaning
    assert found.certificate["ratio"].value == 2
    assert found.certificate["locality"].value == 1


def test_an_exported_schedule_is_read_whatever_else_it_has(tmp_path):
    """Columns are found by their names: in another order and beside others the rows are the same."""
    plain, rich = tmp_path / "plain.csv", tmp_path / "rich.csv"
    plain.write_text("job,slot,machine,workers,servers\na,3,m0,2,1\n")
    rich.write_text("slot,start_hours,job,machine,servers,workers\n3,0.5,a,m0,1,2\n")
    one, other = read_schedule(plain), read_schedule(rich)
    assert (one.table == other.table).all() and (one.jobs, one.machines) == (other.jobs, other.machines)
    rich.write_text("slot,job,machine,servers,workers\n3,a,m0,1\n")
    with refused("schedule.row", "line 2", 4, 5):
        read_schedule(rich)
