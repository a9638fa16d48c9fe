"""Policies on the real clock: real processes, real errors, and the books of the simulator. Times are never asserted."""

import itertools
import os
import sys
from dataclasses import replace
from typing import ClassVar

import numpy as np
import psutil
import pytest
from threadpoolctl import threadpool_limits

from equipoise.engine import fork_server
from equipoise.engine.real_clock import RealScene, audit, certify, compare
from equipoise.engine.real_clock.execute import step_cost
from equipoise.engine.real_clock.task_processes import KINDS, Work, open_processes, preload
from equipoise.errors import Failure
from equipoise.share import Decision, Server, Site, equal, policies
from equipoise.share.policies import Uniform
from equipoise.share.step import rules
from equipoise.share.task import COMPUTING, DONE, SENDING
from refusals import refused

QUICK = RealScene(
    cpus=0.8, step=0.15, arrival=(0.0, 3.0), deadline=(12.0, 14.0), work=(20.0, 100.0), trial=0.1, patience=5.0
)


class Watching(Uniform):
    """Uniform, and a copy of every view it was shown: simulated, executed, and simulated at the run's speed."""

    label = "Watching"
    runs: ClassVar[list] = []

    def start(self, scene):
        Watching.runs.append([])
        return self

    def decide(self, view):
        arrays = {name: value.copy() for name, value in view._asdict().items() if hasattr(value, "copy")}
        Watching.runs[-1].append(view._replace(**arrays))
        return Uniform().decide(view)


def servers() -> set[int]:
    """Fork servers below this process; a child that is dead and not yet waited for runs nothing."""
    alive = [p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
    return {p.pid for p in alive if "fork_server" in " ".join(p.cmdline())}


@pytest.fixture(scope="module")
def earlier():
    """Servers of other tests of this process, which may keep one for the next run of theirs."""
    return servers()


@pytest.fixture(scope="module")
def short(earlier):
    """Seven tasks, two policies, a few seconds: the form of the benchmark that is quick enough for every day."""
    return compare([Watching(), policies.Hybrid()], QUICK, kinds=["sgd", "mlp", "nb"], tasks=7, seeds=[3])


def test_the_certificate_holds(short):
    """Capacity, states, outcomes, curves, energy, shares, processes: recomputed from what was decided and done."""
    found = certify(short)
    assert found.passed, [check for check in found if not check.passed]
    assert {"capacity", "states", "outcomes", "curves", "shares", "processes", "tasks"} <= {c.name for c in found}


def test_errors_are_those_of_real_training(short):
    """The same training in this process, unit by unit: the same errors, to the last bit."""
    with threadpool_limits(1):
        for pair in short.pairs:
            for work, errors in zip(pair.plan.works, pair.executed.errors, strict=True):
                again = list(itertools.islice(work.open(), len(errors)))
                assert again == errors.tolist()
    assert sum(len(errors) for errors in short.pairs[0].executed.errors) > 20


def test_the_policy_sees_what_processes_showed(short):
    """Every observed error is one that the process had at that count of samples; nothing of the future is in the view."""
    pair, seen = (
        short.pairs[0],
        Watching.runs[2],
    )  # simulated twice before: to know its usual share, and at the speed it has
    per_unit = pair.plan.samples
    for view, after in itertools.pairwise(seen):
        for k in np.flatnonzero(after.observed[0]):
            units = round(after.samples[0, k] / per_unit[k])
            assert after.error[0, k] == pair.executed.errors[k][units - 1]
            assert view.state[0, k] == COMPUTING and after.samples[0, k] > view.samples[0, k]
        waiting = ~np.isin(after.state[0], (COMPUTING, DONE)) & (after.observations[0] == 0)
        assert (after.error[0, waiting] == 1.0).all()
    assert (seen[0].target[0, seen[0].state[0] == 0] == 1.0).all()
    assert any(view.observed.any() for view in seen)


def test_decisions_are_kept_and_bandwidth_is_paced(short):
    """The trace has what was decided: data goes first, then the delay, then compute."""
    for pair in short.pairs:
        trace, batch = pair.executed.run.trace, pair.plan.batch
        assert (trace.compute.sum(axis=2) <= pair.plan.scene.site.capacity + 1e-6).all()
        for k in range(batch.shape[1]):
            sent = np.flatnonzero(trace.bandwidth[:, 0, k] > 0)
            ran = np.flatnonzero(trace.compute[:, 0, k] > 0)
            assert trace.bandwidth[:, 0, k].sum() >= batch.data[0, k] - 1e-9
            assert ran[0] >= sent[-1] + 1 + batch.delay[0, k]
            assert set(trace.state[sent, 0, k]) == {SENDING}


def test_done_means_the_target_was_reached_and_not_before(short):
    """By hand from the errors: the last one reaches the target, none before does."""
    for pair in short.pairs:
        for k, errors in enumerate(pair.executed.errors):
            done = pair.executed.run.state[0, k] == DONE
            assert (len(errors) > 0 and errors[-1] <= pair.plan.targets[k]) == done
            assert (errors[:-1] > pair.plan.targets[k]).all()


def test_the_twin_is_of_the_same_tasks(short):
    """Its work is the recorded count of units; where the machine gave what was asked, success is near."""
    for pair in short.pairs:
        for k, trained in enumerate(pair.plan.recorded):
            units = int(np.flatnonzero(trained.errors <= pair.plan.targets[k])[0]) + 1
            assert pair.plan.batch.work[0, k] == pytest.approx(units * pair.plan.samples[k])
        if pair.executed.shortfall < 0.02 and pair.speed > 0.97:
            assert abs(pair.row()["success_apart"]) <= 3 * 100 / 7


def test_rows_are_means_of_runs(short):
    """A table's cells come from its runs, and completion times from tasks that both finished."""
    for row, pair in zip(short.rows, short.pairs, strict=True):
        assert row["success_executed"] == pytest.approx(100 * (pair.executed.run.state[0] == DONE).mean())
        tasks = list(pair.task_rows())
        both = [t for t in tasks if t["done_simulated"] is not None and t["done_executed"] is not None]
        apart = [abs(t["done_executed"] - t["done_simulated"]) for t in both]
        assert row["completion_apart"] == (pytest.approx(np.mean(apart)) if apart else None)


def test_a_certificate_tells_a_broken_run(short):
    """Someone computed beyond the site, or reported an end that its errors do not show: the checks fail by name."""
    pair = short.pairs[0]
    run = pair.executed.run
    trace = replace(run.trace, compute=run.trace.compute * 3.0, ran=run.trace.ran * 3.0)
    broken = replace(pair, executed=replace(pair.executed, run=replace(run, trace=trace)))
    assert not certify(replace(short, pairs=(broken,)))["capacity"].passed
    untrue = tuple(errors + 1.0 for errors in pair.executed.errors)
    broken = replace(pair, executed=replace(pair.executed, errors=untrue))
    found = certify(replace(short, pairs=(broken,)))
    assert not found["curves"].passed and not found["outcomes"].passed


def test_nothing_is_left(short, earlier):
    """No server and no task of the comparison is below this process."""
    assert servers() <= earlier


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_deterministic_and_learns(kind):
    """Two generators of one seed yield the same errors, another seed others; later errors are lower."""
    if kind == "torch" and not os.environ.get("CI"):
        pytest.importorskip("torch", reason="torch is not installed")
    with threadpool_limits(1):
        one, two, other = (list(itertools.islice(Work(kind, seed).open(), 60)) for seed in (4, 4, 5))
    assert one == two and one != other
    assert np.mean(one[-10:]) < 0.9 * one[0]


def test_a_kind_whose_library_is_missing_says_what_to_install(monkeypatch):
    monkeypatch.setitem(KINDS, "torch", replace(KINDS["torch"], needs="no_such_library"))
    with refused("library.missing", "no_such_library"):
        preload(["torch"])


class Greedy:
    """Wants more than there is."""

    def decide(self, view):
        return Decision(equal(view.sending, view.data_left, view.bandwidth), np.where(view.computing, 1e6, 0.0))


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"policies": []}, ("policies.none",)),
        ({"tasks": 0}, ("tasks.range", 0, 500)),
        ({"kinds": ["sdg"]}, ("unknown", "'sgd'")),
        ({"kinds": ["/nowhere/my.py:train"]}, ("file.read", "/nowhere/my.py")),
        ({"seeds": [1, 1]}, ("seeds.range", [1, 1])),
        ({"limit": "magic"}, ("unknown", "'magic'")),
        ({"scene": RealScene(cpus=1000.0)}, ("cpus.range", 1000)),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_line(change, refusal):
    """Before anything is started, but for a file of the user's, which the server reads."""
    settings = {"policies": [Uniform()], "scene": QUICK, "tasks": 2} | change
    with refused(*refusal):
        compare(settings.pop("policies"), settings.pop("scene"), **settings)


@pytest.mark.parametrize("change", [{"cpus": 0.0}, {"step": 0.001}, {"patience": float("nan")}, {"work": (0.0, 5.0)}])
def test_a_scene_that_cannot_be_is_refused(change):
    with refused(f"{next(iter(change))}.range"):
        RealScene(**change)


def test_a_policy_that_wants_too_much_is_refused_by_name():
    """As in the simulator, before a process is given anything."""
    with refused("decision.task", "Greedy, step ", 30):
        compare([Greedy()], replace(QUICK, work=(5.0, 10.0), trial=0.02), kinds=["nb"], tasks=2)


def test_a_server_that_cannot_be_started_says_what_was_tried(monkeypatch):
    """No such interpreter; and one that ends at once, with its last words."""
    with (
        pytest.raises(Failure, match=r"task processes cannot be started: /no/python"),
        open_processes(1, ["nb"], "/no/python"),
    ):
        pass
    monkeypatch.setattr(fork_server, "COMMAND", "raise SystemExit('no room here')")
    with pytest.raises(Failure, match=r"is gone \(exit 1\): no room here"), open_processes(1, ["nb"], sys.executable):
        pass


@pytest.mark.parametrize("law", ["pooled", "per_node", "linear"])
def test_the_audit_computes_energy_by_itself_and_alike(law):
    """Two programs of one law: the loop's compiled one and the audit's, on steps with idle, few, fast and too many tasks."""
    site, rng = Site(servers=(Server(30.0), Server(30.0), Server(20.0)), power=law), np.random.default_rng(1)
    for tasks in (0, 1, 2, 3, 9):
        for _ in range(20):
            took = rng.choice([0.0, 1.0], tasks) * rng.uniform(0.0, 40.0, tasks)
            assert audit._step_energy(took, site) == pytest.approx(step_cost(took.copy(), rules(site)), rel=1e-12)


def test_a_certificate_tells_energy_that_was_not_used(short):
    pair = short.pairs[0]
    run = replace(pair.executed.run, energy=pair.executed.run.energy * 0.9)
    assert not certify(replace(short, pairs=(replace(pair, executed=replace(pair.executed, run=run)),)))[
        "energy"
    ].passed
