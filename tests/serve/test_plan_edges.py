"""More of who runs where and when: each of these is the only test that notices its line being wrong."""

from __future__ import annotations

import pytest
from test_plan import Desk


def test_on_a_real_clock_the_horizon_is_as_long():
    """Horizon 4, a GPU for 4 slots from slot 0: planned in slots 1 to 4, all of its horizon; 4.5 slots are too long."""
    desk = Desk(1, clock="real", horizon=4)
    assert desk.slots(desk.submit(1, 4)) == [1, 2, 3, 4]
    assert desk.what(desk.submit(1, 4.5)) == ("refused", "beyond_horizon")


def test_overtime_is_a_tenth_of_the_stated_work():
    """Ten slots of work done by its plan and not reported: one more slot is kept for it, as overdue, then another."""
    desk = Desk(1, finish="reported", horizon=20)
    job = desk.submit(1, 10)
    desk.ask.tick(10)
    assert desk.what(job) == ("admitted", "overdue") and desk.slots(job) == [10]
    desk.ask.tick(11)
    assert desk.slots(job) == [11]


def test_who_gives_way_is_lent_what_is_idle_elsewhere():
    """Nothing pays. A loan on m0 gives way to a promise that fits only there, and goes on at once on m1, which is back."""
    desk = Desk(3, 2)
    desk.ask.set_prices({"gpu": 100.0}, 1.0)
    desk.ask.set_machine("m1", "draining")
    lent = desk.submit(2, 3, value=1.0)
    assert desk.held(lent) == [(0, "m0", 2)]
    desk.ask.set_machine("m1", "up")
    desk.ask.submit({"worker": {"gpu": 3}, "workers": 1, "duration": "1h", "value": 1e6}, "")
    assert desk.what(lent) == ("lent", "priced_out") and desk.held(lent) == [(0, "m1", 2)]


def test_a_loan_that_becomes_a_promise_pushes_nobody_out():
    """Two loans fill a machine; one begins to pay: it stands where it stood, and nothing is decided about the other."""
    desk = Desk(2)
    desk.ask.set_prices({"gpu": 100.0}, 1.0)
    dear, cheap = desk.submit(1, 3, value=50.0), desk.submit(1, 3, value=1.0)
    desk.ask.taken()
    desk.ask.set_prices({"gpu": 1.0}, 1.0)
    assert desk.what(dear) == ("admitted", "") and desk.what(cheap)[0] == "lent"
    assert {event.job for event in desk.ask.taken()} == {"", dear}


def test_machines_that_come_save_a_job_from_expiring():
    """20 GPU-slots, 9 slots left: too much for 2 GPUs, not for 2 and 4, though all of them are shut for the moment."""
    desk = Desk(2, horizon=12)
    desk.ask.set_prices({"gpu": 100.0}, 1.0)
    desk.ask.set_machine("m0", "down")
    job = desk.submit(4, 5, value=1.0)
    desk.ask.tick(1)  # looked at with 2 GPUs
    desk.ask.add_machines({"name": "new", "capacity": {"gpu": 4}, "count": 1})
    desk.ask.set_machine("new", "draining")
    desk.ask.tick(3)
    assert desk.what(job)[0] in ("pending", "lent")


def test_a_late_job_goes_on_in_the_slot_that_has_begun():
    """Real clock, slot 2 under way: planned again at half the pace, it keeps slot 2, which nobody else could use."""
    desk = Desk(1, clock="real", horizon=20)
    job = desk.submit(1, 4)
    desk.ask.tick(2)
    desk.ask.progress(job, 0.5, 0.0)
    assert desk.what(job) == ("admitted", "late")
    assert desk.held(job)[0] == (2, "m0", 1) and desk.state.audit() == ""


def test_a_late_job_that_fits_nowhere_keeps_its_cells_and_says_so():
    """At a tenth of the pace 4 samples do not fit a horizon of 5: it keeps what it was promised, with the reason."""
    desk = Desk(1, horizon=5)
    job = desk.submit(1, 4)
    desk.ask.tick(1)
    desk.ask.progress(job, 0.1, 0.0)
    assert desk.what(job) == ("admitted", "late") and desk.slots(job) == [1, 2, 3]


def test_begun_jobs_are_offered_a_promise_before_denser_ones():
    """One GPU comes free. A job half done is offered it before a denser one that never ran."""
    desk = Desk(1, horizon=12)
    desk.ask.set_prices({"gpu": 100.0}, 1.0)
    begun = desk.submit(1, 6, value=1.0)  # runs on what is idle
    desk.ask.tick(3)
    full = desk.submit(1, 9, value=1e5)
    assert desk.what(full)[0] == "admitted"
    fresh = desk.submit(1, 6, value=500.0)
    desk.ask.set_prices({"gpu": 0.0}, 1.0)
    assert desk.what(begun)[0] != "admitted" and desk.what(fresh)[0] != "admitted"
    desk.ask.cancel(full)
    assert desk.slots(begun)[0] == 3 and desk.what(begun)[0] == "admitted"


def test_slots_that_were_slept_through_are_lent_to_nobody():
    """Real clock, asleep from slot 0 to 5: what nobody was told of, nobody ran on. Only slot 5 is lent."""
    desk = Desk(1, clock="real", horizon=20)
    desk.ask.set_prices({"gpu": 100.0}, 1.0)
    job = desk.submit(1, 8, value=1.0)
    desk.ask.tick(5)
    assert desk.state.jobs[job].done == 0.0 and desk.held(job) == [(5, "m0", 1)]


def test_a_slow_job_expires_when_its_own_pace_no_longer_suffices():
    """At half its speed, 4 samples need 8 of the 10 slots: with 7 left it is refused, at full speed it would not be."""
    desk = Desk(1, horizon=10)
    desk.ask.set_prices({"gpu": 100.0}, 1.0)
    job = desk.submit(1, 5, value=1.0)
    desk.ask.tick(2)
    desk.ask.progress(job, 1.0, 0.0)  # lent slots 0 and 1, half done: pace 0.5, 4 to go
    assert desk.state.jobs[job].pace == pytest.approx(0.5)
    desk.ask.set_machine("m0", "down")
    desk.ask.tick(3)
    assert desk.what(job) == ("refused", "expired")


def test_a_complete_job_without_room_for_overtime_waits_as_overdue():
    """Done by its plan, not reported, and the machine promised to another: it waits, and is told why."""
    desk = Desk(1, finish="reported", horizon=10)
    job = desk.submit(1, 2)
    desk.submit(1, 8)
    desk.ask.tick(2)
    assert desk.what(job) == ("pending", "overdue")


def test_a_failed_machine_makes_no_promise_that_does_not_pay():
    """What was only lent m0 when it failed is not promised m1 at a price above its worth: it is lent m1."""
    desk = Desk(1, 1)
    desk.ask.set_prices({"gpu": 100.0}, 1.0)
    lent = desk.submit(1, 3, value=1.0)
    desk.ask.set_machine(desk.held(lent)[0][1], "down")
    assert desk.what(lent)[0] == "lent"


def test_where_reports_are_waited_for_a_silent_job_has_saved_nothing():
    """finish=reported: two slots ran, nothing was ever reported, the machine fails: it begins anew."""
    desk = Desk(1, 1, finish="reported")
    job = desk.submit(1, 4)
    desk.ask.tick(2)
    assert desk.state.jobs[job].done == 2.0
    desk.ask.set_machine(desk.held(job)[0][1], "down")
    assert desk.state.jobs[job].done == 0.0 and len(desk.slots(job)) == 4


def test_the_least_dense_loan_gives_way():
    """Two loans of a GPU on a machine of two; a promise needs one: the one worth less goes."""
    desk = Desk(2)
    desk.ask.set_prices({"gpu": 100.0}, 1.0)
    dear, cheap = desk.submit(1, 3, value=9.0), desk.submit(1, 3, value=1.0)
    assert desk.what(dear)[0] == desk.what(cheap)[0] == "lent"
    desk.submit(1, 1, value=1e6)
    assert desk.what(dear)[0] == "lent" and desk.what(cheap)[0] == "pending"


def test_a_late_job_on_a_draining_machine_leaves_the_book_right():
    """Its cells are put aside to plan it anew and, since it fits nowhere else, taken again: the machine stays full."""
    desk = Desk(2, horizon=8)
    job = desk.submit(1, 4)
    desk.ask.tick(1)
    desk.ask.set_machine("m0", "draining")
    desk.ask.progress(job, 0.1, 0.0)
    assert desk.what(job) == ("admitted", "late") and desk.slots(job) == [1, 2, 3]
    assert desk.state.audit() == ""


def test_a_quota_counts_the_servers_too():
    """A worker and the server of three are 3 GPUs: with a quota of 2 it is refused, with 3 promised, one worker wide."""
    need = {"worker": {"gpu": 1}, "server": {"gpu": 2}, "workers_per_server": 3}
    body = need | {"workers": 3, "duration": "2h", "value": 10}
    for limit, state in ((2000, "refused"), (3000, "admitted")):
        desk = Desk(8, quota={"a": {"gpu": limit}})
        assert desk.what(desk.ask.submit(body, "a").id)[0] == state


def test_a_machine_that_is_down_stays_so_while_idle_time_passes():
    """Nobody there: the clock jumps over 7 slots, and over 70, more than the book shows. Nothing is planned on it."""
    for far in (7, 70):
        desk = Desk(1, 1, horizon=10)
        desk.ask.set_machine("m0", "down")
        desk.ask.tick(far)
        assert desk.state.audit() == ""
        assert {machine for _, machine, _ in desk.held(desk.submit(1, 4))} == {"m1"}


def test_a_late_job_leaves_a_draining_machine_when_its_slot_is_over():
    """Real clock: it goes on in the slot under way where it is, then on the other machine; the draining one stays full."""
    desk = Desk(1, 1, clock="real", horizon=20)
    job = desk.submit(1, 4)
    desk.ask.tick(2)
    first = desk.held(job)[0][1]
    desk.ask.set_machine(first, "draining")
    desk.ask.progress(job, 0.5, 0.0)
    assert desk.what(job) == ("admitted", "late") and desk.held(job)[0] == (2, first, 1)
    assert first not in {machine for _, machine, _ in desk.held(job)[1:]}
    assert desk.state.audit() == ""


def test_a_quota_narrows_a_job_beside_another():
    """Quota of 4 GPUs, 3 of them held throughout: 4 workers for 2 hours become 1 worker for 8 slots."""
    desk = Desk(8, horizon=10, quota={"a": {"gpu": 4000}})
    desk.submit(3, 10, tenant="a")
    job = desk.submit(4, 2, tenant="a")
    assert desk.what(job) == ("admitted", "") and {workers for _, _, workers in desk.held(job)} == {1}


def test_a_deadline_that_cannot_be_met_is_refused_at_once():
    """2 hours of work and an hour to do it: refused even on an empty machine, and not left to wait."""
    desk = Desk(1)
    assert desk.what(desk.submit(1, 2, deadline="1h")) == ("admitted", "")  # slots 0 and 1: done one slot after arrival
    assert desk.what(desk.submit(1, 3, deadline="1h")) == ("refused", "too_late")


def test_a_job_is_planned_behind_what_fills_its_tenants_quota():
    """Two machines, a quota of 1 GPU: the first job takes it in slots 0-2, the second is promised slots 3-4."""
    desk = Desk(1, 1, quota={"blue": {"gpu": 1000}})
    first, second = desk.submit(1, 3, tenant="blue"), desk.submit(1, 2, tenant="blue")
    assert desk.slots(first) == [0, 1, 2]
    assert desk.what(second) == ("admitted", "") and desk.slots(second) == [3, 4]


def test_a_job_that_alone_is_more_than_the_quota_is_refused():
    desk = Desk(4, quota={"blue": {"gpu": 1000}})
    held = desk.ask.submit({"worker": {"gpu": 2}, "workers": 1, "duration": "1h"}, "blue")
    assert (held.state, held.reason) == ("refused", "beyond_quota")
