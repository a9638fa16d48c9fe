"""How fast a job really is: measured between its reports on a real clock, in slots of an hour on machines of one GPU."""

import pytest
from test_plan import Desk


def test_a_job_on_time_stays_so_however_often_it_reports():
    """One GPU, 8 slots. A quarter, a half, three quarters of every slot are told, one of them twice: pace 1 throughout."""
    desk = Desk(1, clock="real", horizon=20)
    job = desk.submit(1, 8)
    for slot in range(1, 8):
        desk.ask.tick(slot)
        for part in (0.25, 0.5, 0.5, 0.75):
            held = desk.ask.progress(job, slot - 1 + part, part)
            assert held.pace == pytest.approx(1.0) and held.reason == ""
    assert desk.slots(job) == [7, 8]


def test_work_done_elsewhere_is_no_pace():
    """4 of 8 hours are reported a thousandth of a slot in: it came from a checkpoint, and has 4 hours to go."""
    desk = Desk(1, clock="real", horizon=20)
    job = desk.submit(1, 8)
    desk.ask.tick(1)
    assert desk.ask.progress(job, 4.0, 0.001).pace == 1.0
    desk.ask.tick(2)
    assert desk.what(job) == ("admitted", "")


def test_a_job_that_still_loads_its_data_is_not_given_up():
    """Nothing done 0.05 of a slot in says nothing; nothing done 0.2 in says a little: by hand, 1 + 0.2 (0 - 1) = 0.8."""
    desk = Desk(1, clock="real", horizon=20)
    job = desk.submit(1, 4)
    desk.ask.tick(1)
    assert desk.ask.progress(job, 0.0, 0.05).pace == 1.0
    assert desk.ask.progress(job, 0.0, 0.2).pace == pytest.approx(0.8)


def test_a_job_that_stands_still_is_late():
    """The same sample is told again for a whole slot: its pace falls to what is measured, and it is planned again."""
    desk = Desk(1, clock="real", horizon=20)
    job = desk.submit(1, 4)
    desk.ask.tick(2)
    for part in (0.2, 0.4, 0.6, 0.8):
        held = desk.ask.progress(job, 1.0, part)
    assert held.pace < 0.5 and held.reason == "late"


def test_half_as_fast_over_a_slot_is_half_the_pace():
    """One of two slots' work after two slots: pace 0.5, and the 2 slots' work left take 4, the one that runs included."""
    desk = Desk(1, clock="real", horizon=20)
    job = desk.submit(1, 3)
    desk.ask.tick(3)
    held = desk.ask.progress(job, 1.0, 0.0)
    assert held.pace == pytest.approx(0.5)
    assert desk.slots(job) == [3, 4, 5, 6]
