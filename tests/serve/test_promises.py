from test_plan import Desk

from equipoise.serve.certify import certify
from equipoise.serve.plan.events import Event


def test_an_old_failure_excuses_no_later_promise():
    """A machine failed under it, it was promised anew, and that promise was dropped for no reason: broken all the same."""
    desk = Desk(1, horizon=12)
    job = desk.submit(1, 3)
    desk.ask.set_machine("m0", "down")
    assert desk.what(job)[0] == "pending"
    desk.ask.set_machine("m0", "up")
    assert desk.what(job) == ("admitted", "")
    log = desk.ask.taken()
    assert certify(log)[0]["promise"].passed
    data = {"state": "pending", "reason": "no_capacity", "worth": 0.0, "cost": 0.0, "cells": [], "name": ""}
    dropped = Event(log[-1].seq + 1, 0, 0.0, "decided", job, "", data)
    assert not certify([*log, dropped])[0]["promise"].passed
