"""Who runs where and when: small cases of the service's planner, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from equipoise.place import Cluster, Machine
from equipoise.place.job_spec import plain_job
from equipoise.serve.plan.decide import Conflict, NotFound, Scheduler, opening
from equipoise.serve.plan.machines import Machines
from equipoise.serve.plan.state import State
from refusals import refused

HOUR = 3600.0


class Desk:
    """A planner on machines of so many GPUs each, slots of an hour, nothing costs anything unless said."""

    def __init__(
        self, *gpus: int, clock: str = "virtual", finish: str = "assumed", horizon: int = 10, quota: Any = None
    ) -> None:
        cluster = Cluster(tuple(Machine({"gpu": g}, 1, f"m{k}") for k, g in enumerate(gpus)))
        machines = Machines(cluster, horizon + 1, np.zeros(1), np.zeros(1))
        self.state = State()
        self.ask = Scheduler(self.state, lambda: 0.0, lambda tenant: (quota or {}).get(tenant, {}), finish=finish)
        self.ask.record("opened", **opening(machines, slot_seconds=HOUR, horizon=horizon, start=0.0, clock=clock))

    def submit(self, workers: int, hours: float, *, value: float = 10.0, tenant: str = "", **more: Any) -> str:
        """`workers` GPUs for `hours`, and never more at once."""
        body = {"worker": {"gpu": 1}, "workers": workers, "duration": f"{hours}h", "value": value, **more}
        return self.ask.submit(body, tenant).id

    def held(self, id: str) -> list[tuple[int, str, int]]:
        """(slot, machine, workers) of what a job still has."""
        job = self.state.jobs.get(id) or self.state.over[id]
        return [(t, self.state.machines.names[h], w) for t, h, w, _ in job.cells.tolist()]

    def what(self, id: str) -> tuple[str, str]:
        job = self.state.jobs.get(id) or self.state.over[id]
        return job.state, job.reason

    def slots(self, id: str) -> list[int]:
        return sorted({slot for slot, _, _ in self.held(id)})


def test_three_jobs_on_two_machines():
    """Two machines of 2 GPUs. a and b take one each in slots 0-1; c finds room from slot 2 on: it is promised that."""
    desk = Desk(2, 2)
    a, b, c = (desk.submit(2, 2) for _ in range(3))
    assert desk.held(a) == [(0, "m0", 2), (1, "m0", 2)]
    assert desk.held(b) == [(0, "m1", 2), (1, "m1", 2)]
    assert desk.slots(c) == [2, 3] and desk.what(c) == ("admitted", "")
    desk.ask.tick(2)
    assert desk.what(a) == desk.what(b) == ("finished", "") and desk.state.over[a].finish == 1
    desk.ask.tick(4)
    assert desk.what(c) == ("finished", "") and desk.state.over[c].finish == 3
    assert desk.state.jobs == {}


def test_who_submits_and_how_much_it_counts_is_kept():
    """In the job, and in the log it is restored from; a job that says nothing counts once, of nobody."""
    plan = Desk(1)
    told, silent = plan.submit(1, 1.0, user="ann", priority=2.5), plan.submit(1, 1.0)
    assert [(plan.state.jobs[id].job.user, plan.state.jobs[id].job.priority) for id in (told, silent)] == [
        ("ann", 2.5),
        ("", 1.0),
    ]
    written = plain_job(plan.state.jobs[told].job)
    assert (written["user"], written["priority"]) == ("ann", 2.5)


def test_on_a_real_clock_a_job_starts_with_the_next_slot():
    """The slot under way has begun for everyone else: nothing is planned in it."""
    desk = Desk(2, clock="real")
    assert desk.slots(desk.submit(2, 2)) == [1, 2]
    desk.ask.tick(1)
    assert desk.slots(desk.submit(2, 1)) == [3]


def test_work_that_does_not_fill_its_last_slot_takes_it_all_the_same():
    """2 workers for an hour and a half are 3 worker-hours: slot 0 does 2, slot 1 the rest."""
    desk = Desk(2)
    assert desk.slots(desk.submit(2, 1.5)) == [0, 1]


def test_what_cannot_be_is_refused_with_its_reason():
    """A worker larger than any machine; 3 GPUs for 20 hours in a horizon of 10; more workers than GPUs is only slower."""
    desk = Desk(2, horizon=10)
    big = desk.ask.submit({"worker": {"gpu": 3}, "workers": 1, "duration": "1h"}, "").id
    assert desk.what(big) == ("refused", "infeasible_alone")
    assert desk.what(desk.submit(3, 20)) == ("refused", "beyond_horizon")
    assert desk.slots(desk.submit(4, 2)) == [0, 1, 2, 3]  # 8 worker-hours on 2 GPUs


def test_prices_turn_away_what_is_worth_less_than_it_costs():
    """A GPU-slot costs 1: four of them cost 4. A job worth 3 waits as priced_out, one worth 5 is promised."""
    desk = Desk(2)
    desk.ask.set_prices({"gpu": 1.0}, 1.0)
    poor = desk.submit(2, 2, deadline="9h", value=3)
    rich = desk.submit(2, 2, deadline="9h", value=5)
    assert desk.what(rich) == ("admitted", "") and desk.state.jobs[rich].cost == pytest.approx(4.0)
    assert desk.what(poor)[1] == "priced_out" and desk.what(poor)[0] in ("lent", "pending")
    desk.ask.set_prices({"gpu": 0.5}, 1.0)
    assert desk.what(poor) == ("admitted", "")


def test_a_failure_takes_nothing_from_those_on_other_machines():
    """Two jobs, one machine each for the whole horizon. m1 fails: who was on it waits, however much it is worth, since the
    other was promised m0. When m1 is back it is promised a place again."""
    desk = Desk(2, 2, horizon=4)
    poor, rich = desk.submit(2, 4, value=10), desk.submit(2, 4, value=50)
    assert desk.held(poor)[0][1] == "m0" and desk.held(rich)[0][1] == "m1"
    assert desk.ask.set_machine("m1", "down") == ([], [(rich, "no_capacity")])
    assert desk.what(rich) == ("pending", "no_capacity") and desk.what(poor) == ("admitted", "")
    desk.ask.set_machine("m1", "up")
    assert desk.what(rich) == ("admitted", "")


def test_two_jobs_of_a_failed_machine_are_planned_by_density():
    """Both were on m0 (4 GPUs); m1 has room for one of them within the horizon: the denser one gets it."""
    desk = Desk(4, 2, horizon=3)
    poor, rich = desk.submit(2, 3, value=10), desk.submit(2, 3, value=50)
    assert {desk.held(poor)[0][1], desk.held(rich)[0][1]} == {"m0"}
    kept, lost = desk.ask.set_machine("m0", "down")
    assert (kept, lost) == ([rich], [(poor, "no_capacity")])
    assert desk.held(rich) == [(0, "m1", 2), (1, "m1", 2), (2, "m1", 2)]
    assert desk.what(rich) == ("admitted", "machine_down")


def test_a_failure_takes_back_what_was_not_saved():
    """A job that reports has saved what it reported: after 3 slots with 2 samples of 8 reported, 6 are to do again."""
    desk = Desk(2, 2)
    job = desk.submit(2, 4)
    desk.ask.tick(1)
    desk.ask.progress(job, 2.0, 0.0)
    desk.ask.tick(3)
    assert desk.state.jobs[job].done == pytest.approx(6.0)
    desk.ask.set_machine("m0", "down")
    assert desk.state.jobs[job].done == pytest.approx(2.0)
    assert desk.held(job) == [(t, "m1", 2) for t in (3, 4, 5)]


def test_a_late_job_gets_the_slots_its_pace_needs_beginning_with_its_own():
    """One GPU, 4 slots. After two slots it reports 1 sample of 4 (half the pace): 3 samples at 0.5 a slot are 6 slots."""
    desk = Desk(1)
    job = desk.submit(1, 4)
    desk.ask.tick(2)
    desk.ask.progress(job, 1.0, 0.0)
    assert desk.state.jobs[job].pace == pytest.approx(0.5)
    assert desk.slots(job) == [2, 3, 4, 5, 6, 7] and desk.what(job) == ("admitted", "late")
    desk.ask.tick(8)
    assert desk.what(job)[0] == "finished" and desk.state.over[job].finish == 7


def test_a_late_job_behind_others_goes_on_after_them():
    """The slots after its own are promised to another: it keeps its own two and adds four behind the other's."""
    desk = Desk(1, horizon=12)
    job, other = desk.submit(1, 4), desk.submit(1, 3)
    assert desk.slots(other) == [4, 5, 6]
    desk.ask.tick(2)
    desk.ask.progress(job, 1.0, 0.0)
    assert desk.slots(job) == [2, 3, 7, 8, 9, 10] and desk.slots(other) == [4, 5, 6]


def test_on_time_nothing_is_planned_anew():
    desk = Desk(1)
    job = desk.submit(1, 4)
    desk.ask.tick(2)
    seq = desk.state.seq
    desk.ask.progress(job, 2.0, 0.0)
    assert desk.state.seq == seq + 1 and desk.slots(job) == [2, 3] and desk.what(job) == ("admitted", "")


def test_half_a_slot_counts_half():
    """On a real clock a report in the middle of slot 1 speaks of half that slot: 0.5 samples done is the stated pace."""
    desk = Desk(1, clock="real")
    job = desk.submit(1, 2)
    desk.ask.tick(1)
    desk.ask.progress(job, 0.5, 0.5)
    assert desk.state.jobs[job].pace == pytest.approx(1.0) and desk.state.jobs[job].done == pytest.approx(0.0)
    desk.ask.progress(job, 0.25, 0.5)
    assert desk.state.jobs[job].reported == 0.25


@pytest.mark.parametrize("done", [0.0, 0.05])
def test_a_report_at_the_very_beginning_of_a_slot_says_little_about_the_pace(done):
    """A thousandth into the first of 4 slots a job has loaded data and done nothing, or was launched a little early: no
    reason to plan it for a hundred times its work, nor to call it finished one slot later."""
    desk = Desk(1, clock="real")
    job = desk.submit(1, 4)
    desk.ask.tick(1)
    desk.ask.progress(job, done, 0.001)
    assert desk.what(job) == ("admitted", "") and desk.slots(job) == [1, 2, 3, 4]
    desk.ask.tick(2)
    assert desk.what(job) == ("admitted", "") and desk.slots(job) == [2, 3, 4]


def test_a_cancelled_job_makes_room_for_one_that_waits():
    """Two jobs fill the horizon: the third waits. When the first is cancelled, the third is promised its cells."""
    desk = Desk(2, 2, horizon=4)
    a, b, c = (desk.submit(2, 4) for _ in range(3))
    assert desk.what(c) == ("pending", "no_capacity")
    desk.ask.cancel(a)
    assert desk.what(a) == ("cancelled", "") and desk.what(b) == ("admitted", "")
    assert desk.held(c) == [(t, "m0", 2) for t in range(4)] and desk.what(c) == ("admitted", "")


def test_an_early_finish_makes_room_too():
    desk = Desk(2, horizon=4)
    a, b = desk.submit(2, 4), desk.submit(2, 3)
    assert desk.what(b)[0] == "pending"
    desk.ask.tick(1)
    desk.ask.finished(a)
    assert desk.what(a) == ("finished", "early") and desk.what(b) == ("admitted", "") and desk.slots(b) == [1, 2, 3]


def test_a_draining_machine_keeps_its_jobs_and_takes_no_new_ones():
    """m0 drains with a job on it: that job stays to its end; the next goes to m1, one more waits for m1, not for m0."""
    desk = Desk(2, 2, horizon=4)
    stays = desk.submit(2, 3)
    assert desk.ask.set_machine("m0", "draining") == ([], [])
    assert desk.held(stays) == [(t, "m0", 2) for t in range(3)]
    other = desk.submit(2, 4)
    assert {machine for _, machine, _ in desk.held(other)} == {"m1"}
    assert desk.what(desk.submit(2, 1)) == ("pending", "no_capacity")
    desk.ask.tick(3)
    assert desk.what(stays) == ("finished", "")
    assert desk.what("j3")[0] != "admitted"
    desk.ask.set_machine("m0", "up")
    assert desk.what("j3") == ("admitted", "") and {machine for _, machine, _ in desk.held("j3")} == {"m0"}


def test_what_is_lent_gives_way_to_a_promise_and_no_promise_is_broken():
    """A job too poor for the prices runs on idle GPUs; the rich one takes them, and the poor one was never promised any."""
    desk = Desk(2)
    desk.ask.set_prices({"gpu": 1.0}, 1.0)
    poor = desk.submit(2, 3, value=0.5, deadline="9h")
    assert desk.what(poor) == ("lent", "priced_out") and desk.slots(poor) == [0]
    desk.ask.tick(1)
    assert desk.slots(poor) == [1] and desk.state.jobs[poor].done == pytest.approx(2.0)
    rich = desk.submit(2, 3, value=50, deadline="9h")
    assert desk.slots(rich) == [1, 2, 3] and desk.what(rich) == ("admitted", "")
    assert desk.held(poor) == [] and desk.what(poor)[0] in ("pending", "lent")
    desk.ask.tick(4)
    assert desk.what(rich) == ("finished", "") and desk.slots(poor) == [4]
    desk.ask.tick(5)
    desk.ask.tick(6)
    assert desk.what(poor) == ("finished", "")


def test_a_waiting_job_expires_when_it_can_no_longer_finish():
    """5 slots of work in a horizon of 6 behind a job of 6: in slot 2 only 4 slots are left."""
    desk = Desk(1, horizon=6)
    desk.submit(1, 6)
    waits = desk.submit(1, 5)
    desk.ask.tick(1)
    assert desk.what(waits) == ("pending", "no_capacity")
    desk.ask.tick(2)
    assert desk.what(waits) == ("refused", "expired")


def test_a_quota_holds_in_every_slot():
    """Blue may hold 1 GPU: its job of 2 workers runs with 1, twice as long; red's has both of the other machine."""
    desk = Desk(2, 2, quota={"blue": {"gpu": 1000}})
    blue, red = desk.submit(2, 2, tenant="blue"), desk.submit(2, 2, tenant="red")
    assert [w for _, _, w in desk.held(blue)] == [1, 1, 1, 1] and [w for _, _, w in desk.held(red)] == [2, 2]
    more = desk.submit(1, 1, tenant="blue")
    assert desk.what(more)[0] != "lent" and not set(desk.slots(more)) & set(desk.slots(blue))


def test_a_quota_of_jobs_counts_those_not_over():
    desk = Desk(4, quota={"blue": {"jobs": 2}})
    a, b, c = (desk.submit(1, 1, tenant="blue") for _ in range(3))
    assert [desk.what(id)[0] for id in (a, b, c)] == ["admitted", "admitted", "refused"]
    assert desk.what(c)[1] == "over_jobs"
    desk.ask.tick(1)
    assert desk.what(desk.submit(1, 1, tenant="blue")) == ("admitted", "")


def test_parameter_servers_stand_beside_their_workers():
    """One server for two workers, each of 1 GPU: 4 workers need 2 servers, 6 GPUs in all, which one machine of 6 has."""
    desk = Desk(6)
    form = {"worker": {"gpu": 1}, "server": {"gpu": 1}, "workers_per_server": 2, "batch": 4}
    id = desk.ask.submit(form | {"work": 8, "time_per_sample": "1h", "value": 5}, "").id
    assert desk.state.jobs[id].cells.tolist() == [[0, 0, 4, 2], [1, 0, 4, 2]]


def test_a_restart_is_paid_once_where_the_placement_stays():
    """Half a slot to start: 2 workers for 2 slots are 4 samples; 1 + 2 + 2 in three slots is the least that covers them."""
    desk = Desk(2)
    id = desk.submit(2, 2, restart="30m")
    assert desk.held(id) == [(t, "m0", 2) for t in range(3)]
    desk.ask.tick(1)
    assert desk.state.jobs[id].done == pytest.approx(1.0)
    desk.ask.tick(3)
    assert desk.what(id) == ("finished", "")


def test_reported_jobs_end_when_they_say_so():
    """Where ends are reported, a job past its plan is given overtime and counted late until it reports."""
    desk = Desk(1, finish="reported")
    job = desk.submit(1, 2)
    desk.ask.tick(2)
    assert desk.what(job) == ("admitted", "overdue") and desk.slots(job) == [2]
    desk.ask.finished(job)
    assert desk.what(job)[0] == "finished" and desk.state.jobs == {}


def test_a_complete_job_that_never_reports_does_not_keep_machines_for_ever():
    """Its horizon of 4 is over in slot 4: from then on it holds nothing and counts for nothing."""
    desk = Desk(1, finish="reported", horizon=4)
    desk.submit(1, 2)
    desk.ask.tick(6)
    assert desk.state.jobs == {}


def test_machines_that_come_bring_room_and_new_resources():
    desk = Desk(1, horizon=2)
    desk.submit(1, 2)
    waits = desk.submit(1, 2)
    assert desk.what(waits) == ("pending", "no_capacity")
    assert desk.ask.add_machines({"name": "new", "capacity": {"gpu": 1, "tpu": 4}, "count": 2}) == ["new-0", "new-1"]
    assert desk.what(waits) == ("admitted", "") and desk.held(waits)[0][1] == "new-0"
    assert desk.state.cluster.resources == ("gpu", "tpu") and desk.state.audit() == ""
    for taken in ("new", "new-0", "m0"):
        with refused("machine.twice", repr(taken)):
            desk.ask.add_machines({"name": taken, "capacity": {"gpu": 1}})


def test_what_is_not_there_is_not_found_and_time_does_not_go_back():
    desk = Desk(1)
    for ask in (
        lambda: desk.ask.cancel("j9"),
        lambda: desk.ask.finished("j9"),
        lambda: desk.ask.set_machine("m9", "down"),
    ):
        with pytest.raises(NotFound):
            ask()
    desk.ask.tick(3)
    with pytest.raises(Conflict):
        desk.ask.tick(3)
    assert desk.ask.set_machine("m0", "up") == ([], [])


def test_who_waits_behind_a_crowd_that_does_not_fit_is_asked_too():
    """Two machines of 4 GPUs, one of them taken. Forty jobs worth much want 8 GPUs at once and cannot run; one that is worth
    little needs 3 on one machine for longer than is lent. When the small one on its machine ends, its turn comes."""
    desk = Desk(4, 4, horizon=20)
    here, there = desk.submit(4, 20, value=5), desk.submit(4, 20, value=5)
    crowd = [desk.submit(8, 15, value=1000) for _ in range(40)]
    modest = desk.submit(3, 10, value=1)
    assert {desk.what(job)[0] for job in (*crowd, modest)} == {"pending"}
    desk.ask.cancel(here)
    for _ in range(6):
        desk.ask.room_again()
    assert desk.what(modest)[0] == "admitted"
    assert desk.what(there)[0] == "admitted"


def test_a_job_is_planned_on_the_type_that_it_is_fastest_on():
    """Four worker-hours at factor 2 on two new GPUs last one slot. Before the type is there, it is a slip of the pen; the
    service that is started again from its snapshot knows types and speeds."""
    desk = Desk(2)
    with refused("unknown", "a100"):
        desk.submit(2, 2, speeds={"a100": 2})
    desk.ask.add_machines({"name": "new", "type": "a100", "capacity": {"gpu": 2}})
    fast, table = (desk.submit(2, 2, speeds=speeds) for speeds in ({"a100": 2}, {"a100": [1 / HOUR, 2 / HOUR]}))
    assert desk.held(fast) == [(0, "new", 2)] and desk.held(table) == [(1, "new", 2), (2, "new", 2)]
    again = Machines.restored(desk.state.machines.plain(), 0)
    assert again.cluster.types == ("", "a100") and desk.state.jobs[fast].job.speeds == {"a100": 2.0}
