"""Random schedules of faults: no round of any loses a unit of budget, and no run ends away from the optimum unsaid.

benchmarks/train/fault_schedules.py plays a thousand of the same kind.
"""

import dataclasses

import pytest
from fault_cases import Case, Drawn, Seeded, Watch, draw_case, play
from hypothesis import HealthCheck, given, settings, strategies as st

from equipoise.train import Faults, Network, Partition, Problem, Quadratic, solve
from equipoise.train.dynamics.gifts import Gifts
from equipoise.train.dynamics.links import Links

FOUND = {
    10: "a crash in a split, and a join before it healed",
    19: "a leaver beside one that has just died",
    112: "a fixed delay and a straggler on a complete network",
    162: "a start that is optimal",
    163: "a share outside its box after a crash and a join",
    208: "a fixed delay and a split",
    273: "a straggler who is never there when its link is",
    111: "one that would come back crashes before it is let in",
    298: "those who are there first cannot hold the budget",
}


@st.composite
def schedules(draw) -> Case:
    return draw_case(Drawn(draw))


@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(schedules())
def test_any_schedule_keeps_its_promises(case):
    """Budget, escrow, boxes, running sums and models in every round; at the end the optimum, or the reason why not."""
    outcome = play(case, quiet=800)
    assert outcome.verdict in ("converged", "slow", "reported", "refused"), outcome.notes


@pytest.mark.parametrize("seed", FOUND)
def test_schedules_that_once_went_wrong(seed):
    """Each of these broke a promise while the books were being written."""
    outcome = play(draw_case(Seeded(seed)), quiet=500)
    assert outcome.verdict in ("converged", "slow", "reported", "refused"), outcome.notes


# tests of the watch itself


def broken(monkeypatch, owner, name, wrong, **faults):
    """What the watch says of a schedule when one method is wrong."""
    case = draw_case(Seeded(3), n=6, halves="both", cost="quadratic", loss=0.3, delay=1)
    case = dataclasses.replace(case, network=Network.complete(6), faults=Faults(loss=0.3, notice=3, **faults))
    monkeypatch.setattr(owner, name, wrong(getattr(owner, name)))
    watch = Watch(case)
    solve(case.problem, case.network, faults=case.faults, rounds=120, callback=watch)
    return " ".join(watch.violations)


def test_the_watch_sees_a_unit_that_is_lost(monkeypatch):
    """One unit less when a dead centre's books are closed."""

    def wrong(close):
        def closed(self, *args):
            close(self, *args)
            self.shares[self.shares.argmax()] -= 1

        return closed

    assert "budget off by -1 units" in broken(monkeypatch, Gifts, "close", wrong, crash={2: 20})


def test_the_watch_sees_links_that_stay_in_the_sums(monkeypatch):
    """A cut whose links both ends still count on."""
    said = broken(monkeypatch, Links, "shut", lambda _: lambda *_: None, partition=Partition({0, 1}, 20, 60))
    assert "still in the sums" in said and "models off" in said


def test_the_watch_knows_a_schedule_that_cannot_end_well():
    """Boxes too small, a network in pieces, and a straggler who is never there when its link is."""
    cost = Quadratic(1.0, [5.0, 10.0, 15.0], lo=0.0, hi=10.0)
    small = Case(Problem(cost, 25.0), Network.path(3), draw_case(Seeded(0)).method, Faults(crash={1: 5}), None, ())
    assert Watch(small).why_not() == ["infeasible", "pieces"]
    turns = Network.sequence([Network.from_edges([(0, 1), (1, 2)]), Network.from_edges([(0, 2), (1, 2)])])
    late = dataclasses.replace(small, network=turns, faults=Faults(leave={0: 5}, straggle={1: 2}))
    assert "pieces" not in Watch(late).why_not()  # the link 1 - 2 is there in rounds 0, 2, ... as well
    never = Network.sequence([Network.from_edges([(0, 1), (0, 2)]), Network.from_edges([(0, 2), (1, 2)])])
    assert "pieces" in Watch(dataclasses.replace(late, network=never)).why_not()
