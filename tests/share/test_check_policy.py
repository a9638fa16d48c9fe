"""check_policy finds what is wrong with a policy, says it in one line, and raises nothing."""

from __future__ import annotations

import inspect
import time

import numpy as np
import pytest

from equipoise.share import Decision, View, Workload, check_policy, equal, greedy, policies

PRESETS = pytest.mark.parametrize("workload", [Workload.described(), Workload.authors()], ids=["described", "authors"])


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
@PRESETS
def test_sound_policies_pass(policy, workload):
    """A user's own, and all that ship."""
    found = check_policy(policy, workload)
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
@PRESETS
def test_unsound_ones_fail_by_name(policy, check, words, workload):
    """The check that fails is the right one, its words say what is wrong, and the rest does not pass by default."""
    found = check_policy(policy, workload)
    assert not found.passed
    assert found[check].passed is False
    assert words in found[check].meaning
    if check == "decisions":
        assert found["capacity"].passed is None


def hidden_tasks():
    """The tasks of the run that is going on, found through the stack."""
    frame = inspect.currentframe()
    while frame is not None and "batch" not in frame.f_locals:
        frame = frame.f_back
    assert frame is not None
    return frame.f_locals["batch"]


FUTURE = ["data", "deadline", "target", "work", "delay"]


@pytest.mark.parametrize(
    ("workload", "what"),
    [
        *((Workload.described(), what) for what in FUTURE),
        *(
            (Workload.authors(), what) for what in FUTURE[:-1]
        ),  # before a delay is over there is nothing to decide there
    ],
)
def test_one_that_peeks_at_the_future_is_caught(what, workload):
    """It looks for what it was not told, and lets that change what it sends."""

    class Peeking(ShortestFirst):
        def decide(self, view: View) -> Decision:
            secret = float(np.asarray(getattr(hidden_tasks(), what), dtype=float).sum()) * 0.618
            honest = super().decide(view)
            return honest._replace(bandwidth=honest.bandwidth * (0.5 + (secret % 1.0) / 2))

    assert check_policy(Peeking(), workload)["hindsight"].passed is False


@PRESETS
def test_a_blind_policy_that_looks_is_caught(workload):
    """It says that it never reads errors, and sorts by them."""

    class Squinting(ShortestFirst):
        blind = True

        def decide(self, view: View) -> Decision:
            key = np.where(view.observations > 0, view.error, 0.0)
            return super().decide(view)._replace(compute=greedy(key, view.computing, view.task_cap, view.capacity))

    assert check_policy(Squinting(), workload)["blind"].passed is False


@PRESETS
def test_blindness_is_not_inherited(workload):
    """A subclass of a blind policy that looks at errors is shown them, so that it passes."""

    class Near(policies.Uniform):
        def decide(self, view: View) -> Decision:
            return (
                super()
                .decide(view)
                ._replace(compute=greedy(view.error / view.target, view.computing, view.task_cap, view.capacity))
            )

    assert check_policy(Near(), workload).passed


@pytest.mark.parametrize(
    ("base", "instead"),
    [
        (policies.DescribedUARA, "start(scene)"),
        (policies.Hybrid, "start(scene)"),
        (policies.SRTF, "given(view, estimate)"),
    ],
)
def test_a_decide_that_would_never_be_called_is_refused(base, instead):
    """Ours run through start(scene): overriding decide alone changes nothing, and one line says what to override."""

    class Mine(base):
        def decide(self, view: View) -> Decision:
            return Decision(np.zeros(view.state.shape), np.zeros(view.state.shape))

    found = check_policy(Mine())
    assert found["decisions"].passed is False
    assert "overrides decide(view)" in found["decisions"].meaning
    assert found["decisions"].meaning.endswith(f"override {instead}")


def test_a_learner_that_does_not_decide_is_refused():
    """A subclass of Learning without `given`: one line names what to define."""

    class Silent(policies.Learning):
        pass

    assert "define given(view, estimate)" in check_policy(Silent())["decisions"].meaning


def test_a_policy_that_leaves_the_program_fails():
    """sys.exit(0) inside decide is a failure, not a pass."""

    class Leaving(ShortestFirst):
        def decide(self, view: View) -> Decision:
            raise SystemExit(0)

    assert check_policy(Leaving())["decisions"].passed is False


def test_one_refused_only_on_a_crowded_uplink_is_found():
    """It cannot handle data above 100 samples."""

    class Small(ShortestFirst):
        def decide(self, view: View) -> Decision:
            assert view.data.max() < 100, "too large"
            return super().decide(view)

    assert "too large" in check_policy(Small())["loads"].meaning


def test_a_policy_that_sleeps_is_slow(monkeypatch):
    """The limit on speed is lowered, so that the test need not wait for one that is really that slow."""

    class Sleepy(ShortestFirst):
        def decide(self, view: View) -> Decision:
            time.sleep(0.002)
            return super().decide(view)

    monkeypatch.setattr("equipoise.share.check.SLOW", 50.0)
    assert check_policy(Sleepy())["speed"].passed is False
