"""What jobs may not have: every kind of window by hand, cells that machines take with them, and who breaks a promise."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.errors import InputError
from equipoise.place import Cluster, Deadline, Job, Linear, Machine, Workload, placers, prices, simulate
from equipoise.place.calendar import Calendar, Window
from equipoise.place.execution import Execution
from equipoise.place.simulate import Placer, Result

ONE = Cluster((Machine({"gpu": 1}),))
TWO = Cluster((Machine({"gpu": 1}, 2, "node"),))  # node-0, node-1
MIXED = Cluster((Machine({"gpu": 4, "cpu": 8}, 2, "small"), Machine({"gpu": 8, "cpu": 8}, 1, "large")))
ALL = (
    placers.FIFO(),
    placers.SRTF(),
    placers.LAS(),
    placers.DRF(),
    placers.Dorm(),
    placers.PDORS(),
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
