"""What jobs may not have: every kind of window by hand, cells that machines take with them, and who breaks a promise."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from equipoise.document import read_table
from equipoise.errors import InputError
from equipoise.place import (
    Cluster,
    Deadline,
    Job,
    Linear,
    Machine,
    PlaceSpec,
    Workload,
    compare,
    explain,
    placers,
    prices,
    read_calendar,
    simulate,
    verify_schedule,
    write_cluster,
    write_jobs,
)
from equipoise.place.calendar import Calendar, Window
from equipoise.place.execution import Execution
from equipoise.place.files import calendar_text
from equipoise.place.simulate import Placer, Result
from refusals import refused

ONE = Cluster((Machine({"gpu": 1}),))
TWO = Cluster((Machine({"gpu": 1}, 2, "node"),))  # node-0, node-1
MIXED = Cluster((Machine({"gpu": 4, "cpu": 8}, 2, "small"), Machine({"gpu": 8, "cpu": 8}, 1, "large")))
ALL: tuple[Placer, ...] = (
    *(one() for one in (placers.FIFO, placers.EASY, placers.SRTF, placers.LAS, placers.DRF, placers.Dorm, placers.Sia)),
    placers.PDORS(),
    placers.Dated(),
    placers.OASiS(prices=prices.Fixed()),
)


def job(id: str, arrival: int = 0, work: float = 2.0, utility: Deadline | Linear | None = None, **given: object) -> Job:
    """One gpu, a sample a slot."""
    return Job(id, arrival, work, 1, 1.0, {"gpu": 1}, utility or Linear(9.0, 99), **given)


def play(policy: Placer, jobs: list[Job], *windows: Window, cluster: Cluster = ONE, slots: int = 12) -> Result:
    return simulate(cluster, jobs, policy, slots=slots, calendar=Calendar(windows))


def usable(cluster: Cluster, *windows: Window, now: int = 0, slots: int = 10) -> list[list[list[int]]]:
    """[slot][machine][resource] in units, as known in slot `now`."""
    run = Execution(cluster, Workload((job("one"),)), slots, None, Calendar(windows))
    for run.now in range(1, now + 1):
        run.begin()
    return [(run.capacity(t) // 1000).tolist() for t in range(slots)]


def test_without_a_calendar_all_is_there():
    run = Execution(TWO, Workload((job("one"),)), 5, None)
    assert run.capacity(0) is run.capacity(4) and run.capacity(2).tolist() == [[1000], [1000]]


def test_a_reservation_takes_its_amount_in_its_slots():
    """Three GPUs of large in slots 2 and 3; then five GPUs of any: four of large are left there, then one of small-1."""
    left = usable(
        MIXED, Window("", 3, 5, {"gpu": 6}), Window("large", 2, 4, {"gpu": 3}), Window("small", 3, 4, {"cpu": 9})
    )
    assert left[1] == [[4, 8], [4, 8], [8, 8]]
    assert left[2] == [[4, 8], [4, 8], [5, 8]]
    assert left[3] == [[4, 7], [3, 0], [0, 8]]  # the nine cpus of small: eight of small-1, one of small-0
    assert left[4] == [[4, 8], [3, 8], [3, 8]]  # the same machines as in slot 3


def test_a_window_may_name_a_type():
    """Three GPUs of a100 in slot 2: both of the last such machine, and one of the first."""
    cluster = Cluster((Machine({"gpu": 2}, 2, "new", type="a100"), Machine({"gpu": 2}, 1, "old", type="v100")))
    assert usable(cluster, Window("a100", 2, 3, {"gpu": 3}))[2] == [[1], [0], [2]]


def test_windows_that_take_more_than_there_is_take_all():
    left = usable(ONE, Window("machine", 1, 4, kind="maintenance"), Window("machine", 2, 9, {"gpu": 1}))
    assert [here[0][0] for here in left] == [1] + 8 * [0] + [1]


@pytest.mark.parametrize(
    ("kind", "notice", "known"),
    [("maintenance", 0, 0), ("failure", 0, 4), ("spot", 0, 4), ("spot", 3, 1), ("spot", 9, 0)],
)
def test_when_a_window_is_known(kind: str, notice: int, known: int):
    """Slots 4 to 6 of machine 0: a failure as it begins, the end of a spot machine with notice, the rest from the start."""
    for now in range(6):
        left = usable(TWO, Window("node-0", 4, 7, kind=kind, notice=notice), now=now)
        down = [t for t in range(10) if left[t][0] == [0]]
        assert down == ([4, 5, 6] if now >= known else [])
        assert all(here[1] == [1] for here in left)


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.label)
@pytest.mark.parametrize("kind", ["reservation", "maintenance", "spot", "failure"])
def test_every_policy_waits_for_the_machine(policy: Placer, kind: str):
    """The only machine is away in slots 1 to 3: two slots of work end in slot 4, wherever the first one was."""
    result = play(policy, [job("one")], Window("machine", 1, 4, kind=kind))
    slots = result.schedule[:, 1].tolist()
    assert len(slots) == 2 and not {1, 2, 3} & set(slots)
    assert result.finish.tolist() == [4] if kind == "failure" else result.finish[0] in (4, 5)
    assert result.certificate().passed, result.certificate()


def test_a_failure_takes_whole_job_slots_and_nobody_elses():
    """Both on two machines in slots 0 to 2; machine 0 fails in slot 1 for a slot: of the wide job the slot is lost on both
    machines, of the other, on machine 1 alone, nothing."""
    run = Execution(
        Cluster((Machine({"gpu": 2}, 2, "node"),)),
        Workload((job("wide"), job("other"))),
        9,
        None,
        Calendar((Window("node-0", 1, 2, kind="failure"),)),
    )
    wide = [[t, h, 1, 0] for t in range(3) for h in range(2)]
    run.assign(0, np.array(wide, dtype=np.int32))
    run.assign(1, np.array([[t, 1, 1, 0] for t in range(3)], dtype=np.int32))
    run.now = 1
    assert run.begin() == [0]
    assert run.taken[0].tolist() == [[1, 0, 1, 0], [1, 1, 1, 0]]
    assert run.cells[0].tolist() == [[2, 0, 1, 0], [2, 1, 1, 0]] and len(run.before(0)) == 2
    assert [row for rows in run.lost for row in rows.tolist()] == [[0, 1, 0, 1, 0]]
    assert len(run.cells[1]) + len(run.before(1)) == 3


def test_a_session_without_the_method_loses_its_cells():
    """It gave all three slots at once; the second is gone, and with two of three samples done its cells run out."""

    class Once:
        def __init__(self, run: Execution) -> None:
            self.run, self.heard = run, []

        def arrive(self, job: int) -> None:
            self.run.assign(job, np.array([[t, 0, 1, 0] for t in range(3)], dtype=np.int32))

        def slot(self) -> None: ...
        def finished(self, job: int) -> None: ...
        def unfinished(self, job: int) -> None:
            self.heard.append((self.run.now, job))

    class Policy:
        label, colour = "Once", "#000000"

        def start(self, run: Execution, seed: int) -> Once:
            self.session = Once(run)
            return self.session

    policy = Policy()
    result = play(policy, [job("one", work=3.0)], Window("machine", 1, 2, kind="failure"))
    assert result.schedule[:, 1].tolist() == [0, 2] and policy.session.heard == [(3, 0)]
    assert result.lost.tolist() == [[0, 1, 0, 1, 0]]


def test_who_lost_cells_is_planned_on_and_others_keep_their_dates():
    """Both machines are promised to the end of slot 3; machine 0 fails in slots 1 and 2. Who sat there goes on in slot 4,
    after its date; the other, and the one that comes in slot 2, have theirs."""
    jobs = [
        job("a", work=4.0, utility=Deadline(9.0, 3)),
        job("b", work=4.0, utility=Deadline(9.0, 3)),
        job("c", 2, 1.0),
    ]
    result = play(placers.PDORS(replan=5), jobs, Window("node-0", 1, 3, kind="failure"), cluster=TWO)
    hit, other = (0, 1) if result.lost[0, 0] == 0 else (1, 0)
    assert result.finish[other] == 3 and result.finish[hit] > 3
    assert {tuple(row) for row in result.lost[:, [0, 2]].tolist()} == {(hit, 0)}
    assert result.finish[2] <= result.due(2)


REFUSED = [
    (Window("node-9", 1, 2), "unknown", "unknown machine 'node-9'"),
    (Window("node-0", 12, 13), "window.horizon", "it begins in slot 12; the run ends at slot 12"),
    (Window("node-0", 1, 2, {"gpu": 2}), "window.amount", "amount: 2 gpu is more than node-0 has then"),
    (Window("", 1, 2, {"gpu": 3}), "window.amount", "amount: 3 gpu is more than the cluster has then"),
    (Window("node", 1, 2), "window.amount", "'node' is a type of machines; say the amount"),
    (Window("node-0", 1, 2, {"tpu": 1}), "unknown", "unknown resource 'tpu'"),
]


@pytest.mark.parametrize(("window", "code", "words"), REFUSED, ids=lambda given: str(given)[:30])
def test_what_no_cluster_has_is_refused(window: Window, code: str, words: str):
    with pytest.raises(InputError, match=words) as error:
        play(placers.FIFO(), [job("one")], window, cluster=TWO)
    assert error.value.code == code


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"machine": "a", "first": 3, "last": 3}, "window.slots"),
        ({"machine": "a", "first": -1, "last": 3}, "window.slots"),
        ({"machine": "", "first": 1, "last": 3}, "window.machine"),
        ({"machine": "", "first": 1, "last": 3, "kind": "failure"}, "window.machine"),
        ({"machine": "a", "first": 1, "last": 3, "kind": "spot", "amount": {"gpu": 1}}, "window.machine"),
        ({"machine": "a", "first": 1, "last": 3, "notice": 2}, "window.notice"),
        ({"machine": "a", "first": 1, "last": 3, "kind": "holiday"}, "unknown"),
    ],
)
def test_a_window_that_cannot_be_is_refused(given: dict[str, object], code: str):
    with pytest.raises(InputError) as error:
        Window(**given)
    assert error.value.code == code


def test_usage_decays_by_half_in_a_week_and_is_a_share_of_all():
    """Slots of a day on four GPUs. Ann has one GPU for two days, then Bob two for a day; asked a week later: each day of
    Ann's counts 1/4, halved by its age in weeks, Bob's 1/2."""
    cluster = Cluster((Machine({"gpu": 4}),))
    load = Workload((job("a", user="ann"), job("b", user="bob", work=9.0), job("c", user="eve")), slot=86400.0)
    run = Execution(cluster, load, 30, None)
    assert run.usage("ann") == 0.0
    run.assign(0, np.array([[0, 0, 1, 0], [1, 0, 1, 0]], dtype=np.int32))
    run.assign(1, np.array([[2, 0, 2, 0]], dtype=np.int32))
    run.now = 2
    assert run.usage("ann") == 1.0
    run.now = 9
    ann, bob = 0.25 * (2 ** (-8 / 7) + 2 ** (-7 / 7)), 0.5 * 2 ** (-6 / 7)
    assert run.usage("ann") == pytest.approx(ann / (ann + bob))
    assert (run.usage("bob"), run.usage("eve")) == (pytest.approx(bob / (ann + bob)), 0.0)


# Whose fault a late job is.


def hit(**given: object) -> Result:
    """Two slots of work on the only machine, promised for slot 1, in which it fails for three slots: done in slot 4."""
    due = Deadline(9.0, 1)
    return play(placers.PDORS(), [job("one", utility=due, **given)], Window("machine", 1, 4, kind="failure"))


def test_a_promise_broken_by_a_machine_is_told_apart():
    """Kept where the machine comes back in time, broken by it where not; by the job if it was longer than it said."""
    late = hit()
    assert (late.finish.tolist(), late.due(0), late.lost.tolist()) == ([4], 1, [[0, 1, 0, 1, 0]])
    check = late.certificate()["promise"]
    assert (
        check.passed and "1 promise: 0 kept, 0 broken by the job's own wrong statement, 1 by a machine" in check.meaning
    )
    assert late.outcome(0)["broken"] == "machine"
    longer = hit(actual=1.5)
    assert longer.certificate().passed and longer.outcome(0)["broken"] == "statement"
    kept = play(placers.PDORS(), [job("one", utility=Deadline(9.0, 4))], Window("machine", 1, 4, kind="failure"))
    assert (kept.finish.tolist(), kept.outcome(0)["broken"], len(kept.lost)) == ([4], None, 1)


def test_only_a_failure_after_the_promise_excuses():
    """Without the lost row, with one of another slot or machine, or with a promise given as it failed: broken by us."""
    late, row = hit(), [0, 1, 0, 1, 0]
    promised = late.decisions[0][0]
    for lost, since, fails in (
        ([row], 0, set()),
        ([], 0, {"promise"}),
        ([[0, 5, 0, 1, 0]], 0, {"lost", "promise"}),
        ([row], 1, {"promise"}),
    ):
        log = (replace(promised, slot=since), *late.decisions[0][1:])
        rows = np.array(lost, dtype=np.int32).reshape(-1, 5)
        changed = replace(late, lost=rows, decisions=(log,))
        assert {check.name for check in changed.certificate() if not check.passed} == fails
        assert changed.outcome(0)["broken"] == ("us" if fails else "machine")


def test_the_certificate_counts_the_calendar():
    """A schedule made without the calendar holds a machine in a slot in which it was reserved."""
    free = play(placers.PDORS(), [job("one")])
    busy = replace(free, calendar=Calendar((Window("machine", 1, 2, {"gpu": "500m"}),)))
    assert free.certificate().passed
    check = busy.certificate()["capacity"]
    assert (check.passed, check.value) == (False, 0.5) and "gpu of machine in slot 1" in check.meaning


def test_parts_of_devices_have_what_the_calendar_leaves():
    """Two jobs of 0.6 on the 1.5 GPUs that are left in slot 0: enough in sum, but half a device holds none of them."""
    two, taken = Cluster((Machine({"gpu": 2}),)), Window("machine", 0, 1, {"gpu": "500m"})
    alike = [replace(job(id, work=1.0), worker={"gpu": 0.6}) for id in ("one", "two")]
    assert play(placers.FIFO(), alike, taken, cluster=two).finish.tolist() == [0, 1]
    busy = replace(play(placers.FIFO(), alike, cluster=two), calendar=Calendar((taken,)))
    assert {check.name for check in busy.certificate() if not check.passed} == {"devices"}


def test_explain_knows_when_the_calendar_left_room():
    """The only machine is reserved in slots 0 to 2."""
    assert explain(play(placers.FIFO(), [job("one")], Window("machine", 0, 3)), "one").earliest_start == 3


# Files.

CSV = """machine,first,last,kind,notice,gpu
large,2,4,reservation,,3
,3,2h,,,1
small-0,5,,spot,2 slots,
"""
YAML = """windows:
  - {machine: large, first: "2026-11-18 02:00", last: 4, amount: {gpu: 3}}
  - {first: 3, last: 2h, amount: {gpu: 1}}
  - {machine: small-0, first: 2.5h, kind: spot, notice: 1h}
"""
LOAD = Workload((job("one"),), slot=1800.0, start="2026-11-18 01:00")


@pytest.mark.parametrize(("name", "text"), [("c.csv", CSV), ("c.yaml", YAML)])
def test_a_calendar_is_read_and_written(tmp_path: Path, name: str, text: str):
    """Slots of half an hour from one o'clock: two o'clock and 2 are slot 2, 2h is slot 4; no last: the end."""
    path = tmp_path / name
    path.write_text(text)
    found, over = read_calendar(path, LOAD, end=9)
    given = (
        Window("large", 2, 4, {"gpu": 3}),
        Window("", 3, 4, {"gpu": 1}),
        Window("small-0", 5, 9, kind="spot", notice=2),
    )
    assert (found.windows, over) == (given, 0)
    again = tmp_path / "again.yaml"
    again.write_text(calendar_text(found))
    assert read_calendar(again, LOAD)[0] == found


def test_windows_of_slots_that_are_not_scored(tmp_path: Path):
    """Slot 3 of the file is slot 0: of 2 to 4 a slot is left, 0 to 3 is over."""
    path = tmp_path / "c.csv"
    path.write_text("machine,first,last\nlarge,2,4\nlarge,0,3\n")
    found, over = read_calendar(path, LOAD, moved=3)
    assert (found.windows, over) == ((Window("large", 0, 1),), 1)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("large,12,14,,,", "it begins in slot 12; the run ends at slot 10"),
        ("huge,2,4,,,", "unknown machine 'huge'"),
        ("large,4,2,,,", "last is slot 2, first is slot 4"),
        ("large,2,4,,,9", "amount: 9 gpu is more than large has then"),
        ("large,2,4,holiday,,", "unknown kind of window 'holiday'"),
        ("large,soon,4,,,", "first is 'soon'"),
        ("large,2.5,4,,,", "first is '2.5'; expected a slot, a whole number"),
        ("large,2026-13-01,4,,,", "a date, and slot 0 is 2026-11-18 01:00"),
        ("large,2,,,,,", "7 cells under 6 columns"),
        (",2,4,,,", "reservation of no machine; expected a machine, or an amount of it or of any"),
    ],
)
def test_a_bad_window_is_named_with_file_and_line(tmp_path: Path, row: str, words: str):
    path = tmp_path / "c.csv"
    path.write_text(f"machine,first,last,kind,notice,gpu\nlarge,2,4,,,\n{row}\n")
    with pytest.raises(InputError, match=re.escape(words)) as error:
        read_calendar(path, LOAD, end=10)[0].on(MIXED, 10)
    assert str(error.value).startswith(f"{path}, line 3: ") and str(error.value).count("c.csv") == 1


def test_a_run_folder_holds_its_calendar_and_is_verified_by_it(tmp_path: Path):
    """The promise that the machine broke is excused by lost.csv and calendar.yaml; without either it is broken by us."""
    windows = Calendar((Window("machine", 1, 4, kind="failure"),))
    jobs = [job("one", utility=Deadline(9.0, 1), user="ann", priority=2.0)]
    compare(ONE, jobs, [placers.PDORS()], slots=12, bound=False, calendar=windows).save(tmp_path / "run")
    schedule = next((tmp_path / "run").glob("allocations*.csv"))
    row = read_table(tmp_path / "run" / "outcomes.csv")[0]
    assert (row["broken"], row["user"], row["priority"]) == ("machine", "ann", 2)
    assert verify_schedule(schedule).certificate.passed
    (tmp_path / "run" / "lost.csv").rename(tmp_path / "lost.csv")
    assert [check.name for check in verify_schedule(schedule).certificate if not check.passed] == ["promise"]


def spec_of(folder: Path, **given: object) -> PlaceSpec:
    """Twelve jobs of a slot, one a slot, of which the first three are history; a file of windows on its machine."""
    write_jobs(Workload(tuple(job(f"j{k}", k, 1.0, Deadline(5.0, 3)) for k in range(12))), folder / "jobs.json")
    write_cluster(ONE, folder / "cluster.yaml")
    (folder / "windows.csv").write_text("machine,first,last\nmachine,1,2\nmachine,5,6\n")
    chosen = {name: str(folder / file) for name, file in (("jobs", "jobs.json"), ("cluster", "cluster.yaml"))}
    return PlaceSpec(**{**chosen, "policy": "pdors", "prices": "replay", "horizon": 6, "bound": False, **given})


def test_the_calendar_follows_the_slots_that_are_scored(tmp_path: Path):
    """Slot 3 of the file is slot 0: the window of slot 5 takes slot 2, that of slot 1 is over, and a note says so."""
    scene = spec_of(tmp_path, calendar=str(tmp_path / "windows.csv")).build()
    assert scene.calendar == Calendar((Window("machine", 2, 3),))
    assert "calendar: 1 more window over before slot 3, where the scored jobs begin" in scene.notes
    result = scene.compare().results[0]
    assert 2 not in result.schedule[:, 1] and {1, 3} <= set(result.schedule[:, 1].tolist())
    assert "Job j8" in explain(result, "j8").text()  # the run is played again with the same windows


def test_a_config_of_before_keeps_its_pace(tmp_path: Path):
    """One without a version is of 0.1.0, in which nobody saw the pace of a job; later ones have it as they say."""
    for text, pace in (("", "unseen"), ("pace: seen\n", "seen"), ("version: 0.2.0\n", "seen")):
        (tmp_path / "config.yaml").write_text(f"horizon: 4\n{text}")
        assert PlaceSpec.from_yaml(tmp_path / "config.yaml").pace == pace
    with pytest.raises(InputError, match="unknown pace 'slow'"):
        spec_of(tmp_path, pace="slow")


def test_elasticflow_refuses_a_calendar():
    """It plans one pool of equal machines."""
    with pytest.raises(InputError) as error:
        play(placers.ElasticFlow(), [job("one")], Window("machine", 1, 2))
    assert error.value.code == "elasticflow.calendar"


def test_who_loses_a_machine_is_seated_elsewhere_and_others_stay():
    """Two jobs a machine each, a third machine free: the one whose machine fails in slot 1 goes on there at once."""
    three = Cluster((Machine({"gpu": 1}, 3, "node"),))
    for policy in (placers.EASY(), placers.Dorm(), placers.FIFO()):
        result = play(
            policy, [job("a", work=3.0), job("b", work=3.0)], Window("node-0", 1, 9, kind="failure"), cluster=three
        )
        seats = {(j, t): h for j, t, h, _, _ in result.schedule.tolist()}
        hit = next(j for j in (0, 1) if seats[j, 0] == 0)
        assert seats[hit, 1] == seats[hit, 2] == 3 - seats[1 - hit, 0]
        assert seats[1 - hit, 0] == seats[1 - hit, 1] == seats[1 - hit, 2]
        assert result.finish.tolist() == [2, 2]


class Excuse:
    """Promises job 0 slot 3 and does nothing for it; then blames a machine, in one way or another."""

    label, colour = "Excuse", "#000000"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def start(self, run: Execution, seed: int) -> Excuse:
        self.run = run
        return self

    def arrive(self, job: int) -> None:
        self.run.decide(job, "admitted", worth=1.0, due=3)
        if self.kind == "cells after the date":
            self.run.assign(job, np.array([[20, 1, 1, 0]], np.int32))

    def slot(self) -> None:
        if self.kind == "word after the date" and self.run.now == 20:
            self.run.decide(0, "pending", "machine_lost")
        if self.kind == "a machine of no use" and self.run.now == 2:
            self.run.decide(0, "pending", "machine_lost")

    def finished(self, job: int) -> None: ...

    def unfinished(self, job: int) -> None: ...


@pytest.mark.parametrize("kind", ["nothing", "cells after the date", "word after the date", "a machine of no use"])
def test_no_excuse_counts_that_has_nothing_to_do_with_the_job(kind: str) -> None:
    """A machine that goes away in slot 20 breaks no promise of slot 3, nor one without a GPU that of a job that wants one;
    nor is a job that is longer by a rounding error at fault itself."""
    cluster = Cluster((Machine({"gpu": 2}, 1, "g"), Machine({"gpu": 2}, 1, "m"), Machine({"cpu": 2}, 1, "c")))
    job = Job("a", 0, 5.0, 4, 1.0, {"gpu": 1}, Deadline(1, 30), actual=1.0 + 1e-12)
    windows = (Window("m", 20, 21, kind="failure"), Window("c", 2, 3, kind="failure"))
    result = simulate(cluster, [job], Excuse(kind), horizon=40, calendar=Calendar(windows))
    assert result.broken == {0: "us"}
    assert not result.certificate()["promise"].passed


def test_a_calendar_is_one() -> None:
    """A list of windows is none."""
    cluster = Cluster((Machine({"gpu": 2}, 1, "g"),))
    job = Job("a", 0, 5.0, 4, 1.0, {"gpu": 1}, Deadline(1, 30))
    with refused("calendar.windows"):
        simulate(cluster, [job], placers.FIFO(), horizon=40, calendar=[Window("g", 1, 2)])  # type: ignore[arg-type]
    with refused("calendar.windows"):
        Calendar((1,))  # type: ignore[arg-type]
