"""check_policy finds what is wrong with a policy, says it in one line, and raises nothing."""

from __future__ import annotations

import inspect
import time

import numpy as np
import pytest

from equipoise.share import Decision, View, check_policy, equal, greedy, policies


class ShortestFirst:
    """Sound: smallest data first, least computed first."""

    def decide(self, view: View) -> Decision:
        return Decision(
            bandwidth=greedy(view.data_left, view.sending, view.data_left, view.bandwidth),
            compute=greedy(view.samples, view.computing, view.task_cap, view.capacity),
        )


class Greedy30(ShortestFirst):
    """Over-allocates: everyone gets the cap."""

    def decide(self, view: View) -> Decision:
        return super().decide(view)._replace(compute=np.where(view.computing, view.task_cap, 0.0))


class NotANumber(ShortestFirst):
    def decide(self, view: View) -> Decision:
        return super().decide(view)._replace(compute=np.where(view.computing, np.nan, 0.0))


class Early(ShortestFirst):
    """Computes while still sending."""

    def decide(self, view: View) -> Decision:
        return super().decide(view)._replace(compute=np.where(view.sending, 1.0, 0.0))


class WrongShape(ShortestFirst):
    def decide(self, view: View) -> Decision:
        return super().decide(view)._replace(compute=np.zeros(3))


class Raises(ShortestFirst):
    def decide(self, view: View) -> Decision:
        raise KeyError("weights")


class Dice(ShortestFirst):
    """Another order every time."""

    def decide(self, view: View) -> Decision:
        key = np.random.default_rng().random(view.state.shape)
        return super().decide(view)._replace(compute=greedy(key, view.computing, view.task_cap, view.capacity))


class Herd(ShortestFirst):
    """Lets the seeds of a batch look at one another."""

    def decide(self, view: View) -> Decision:
        share = equal(view.computing, view.task_cap, view.capacity)
        return super().decide(view)._replace(compute=share / view.state.shape[0])


class Lonely(ShortestFirst):
    """Breaks with a single task."""

    def decide(self, view: View) -> Decision:
        assert view.state.shape[1] > 1, "I need company"
        return super().decide(view)


@pytest.mark.parametrize(
    "policy", [ShortestFirst(), *(kind() for kind in policies.ALL)], ids=lambda p: type(p).__name__
)
def test_sound_policies_pass(policy):
    """A user's own, and all that ship."""
    found = check_policy(policy)
    assert found.passed, [check for check in found if not check.passed]


@pytest.mark.parametrize(
    ("policy", "check", "words"),
    [
        (Greedy30(), "decisions", "Greedy30, step"),
        (NotANumber(), "decisions", "compute is nan"),
        (Early(), "decisions", "sending"),
        (WrongShape(), "decisions", "shape (3,)"),
        (Raises(), "decisions", "KeyError"),
        (object(), "decisions", "no method decide"),
        (Dice(), "determinism", "repeated"),
        (Herd(), "batch", "alone"),
        (Lonely(), "loads", "company"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
def test_unsound_ones_fail_by_name(policy, check, words):
    """The check that fails is the right one, its words say what is wrong, and the rest does not pass by default."""
    found = check_policy(policy)
    assert not found.passed
    assert found[check].passed is False
    assert words in found[check].meaning
    if check == "decisions":
        assert found["capacity"].passed is None


def test_one_that_peeks_at_the_future_is_caught():
    """It looks through the stack for tasks that have not arrived, and lets them change what it gives."""

    class Peeking(ShortestFirst):
        """Reads the caller's tasks."""

        def decide(self, view: View) -> Decision:
            frame = inspect.currentframe()
            while frame is not None and "batch" not in frame.f_locals:
                frame = frame.f_back
            assert frame is not None
            future = float(frame.f_locals["batch"].data.sum())
            honest = super().decide(view)
            return honest._replace(compute=honest.compute * (0.5 + (future % 1.0) / 2))

    assert check_policy(Peeking())["hindsight"].passed is False


def test_a_policy_that_sleeps_is_slow(monkeypatch):
    """The limit on speed is lowered, so that the test need not wait for one that is really that slow."""

    class Sleepy(ShortestFirst):
        def decide(self, view: View) -> Decision:
            time.sleep(0.002)
            return super().decide(view)

    monkeypatch.setattr("equipoise.share.check.SLOW", 50.0)
    assert check_policy(Sleepy())["speed"].passed is False
