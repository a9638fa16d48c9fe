"""Check a policy that a user wrote, as a site would meet it; every finding names what is wrong and where."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equipoise.certificate import Certificate, Check
from equipoise.document import Row
from equipoise.share.audit import LIMIT, LIVE, STARVED, Audit, audit
from equipoise.share.oracle import bound_of
from equipoise.share.simulate import PolicyError, Run, play
from equipoise.share.site import Site
from equipoise.share.task import COMPUTING, SENDING, Curve, Task
from equipoise.share.view import is_frugal
from equipoise.share.workload import Batch, Workload

SEEDS, TASKS = 6, 25
SLOW = 20_000.0  # nanoseconds per task and step; 200 seeds at 60 tasks would take 20 seconds for a single load

ALONE = {
    "a usual power law": Task(0, 60, 20.0, 0.2, Curve(1.0, 0.36)),
    "a steep and short one": Task(0, 25, 20.0, 0.05, Curve(1.0, 0.7)),
    "an S-shaped curve": Task(0, 60, 20.0, 0.15, Curve.recorded((1, 40, 80, 160, 320), (0.9, 0.8, 0.5, 0.2, 0.1))),
    "a sudden drop": Task(0, 60, 20.0, 0.15, Curve.recorded((1, 150, 152, 600), (0.9, 0.9, 0.05, 0.05))),
}


def check_policy(policy: Any, workload: Workload | None = None, site: Site | None = None) -> Certificate:
    """Capacity, bandwidth, states, numbers, determinism, memory, hindsight, liveness, speed. Nothing is raised.

    A check that could not be made, because the policy was refused before, does not pass.

    Parameters
    ----------
    policy
        The policy, not its class.
    workload
        What arrives; the authors' preset if None.
    site
        The servers and the uplink; the workload's own if None.
    """
    workload = workload or Workload.authors()
    site = site or workload.site
    trial = _Trial(policy, site, workload, workload.draw(TASKS, SEEDS, site))
    run, refusal = trial.play()
    if run is None:
        names = "capacity bandwidth states determinism batch hindsight blind loads liveness speed"
        unmade = (Check.not_made(name, "the policy was refused before") for name in names.split())
        return Certificate((Check("decisions", 1.0, 0.0, False, refusal), *unmade))
    found = audit(run)
    began = time.perf_counter()
    untraced, _ = trial.play(trace=False)  # compiled by the run before
    spent = time.perf_counter() - began
    cells = SEEDS * trial.batch.shape[1] * trial.batch.horizon
    meaning = "refused decisions that are not numbers, of the right shape, and allowed in every step"
    above = "samples per step above the site's compute or one task's cap"
    return Certificate(
        (
            Check.at_most("decisions", 0, 0, meaning),
            Check.at_most("capacity", found.capacity, LIMIT, above),
            Check.at_most("bandwidth", found.bandwidth, LIMIT, "samples per step above the uplink"),
            Check.at_most("states", found.misplaced, 0, "task-steps served in a state that cannot be served"),
            _repeated(run, trial),
            _alone(run, trial),
            _hindsight(run, trial),
            _blindness(run, untraced),
            _other_loads(trial),
            _liveness(trial, found),
            Check.at_most("speed", 1e9 * spent / cells, SLOW, f"nanoseconds per task and step, {cells:,} of them"),
        )
    )


@dataclass(frozen=True)
class _Trial:
    """A policy, and the tasks it is tried on."""

    policy: Any
    site: Site
    workload: Workload
    batch: Batch

    def play(self, batch: Batch | None = None, *, trace: bool = True) -> tuple[Run | None, str]:
        """The run of these tasks, or why there is none, in one line."""
        try:
            return play(self.policy, batch or self.batch, self.site, self.workload.prior, trace=trace), ""
        except PolicyError as error:
            return None, str(error)
        except (Exception, SystemExit) as error:
            return None, f"decide raised {type(error).__name__}: {' '.join(str(error).split())}"


def _repeated(run: Run, trial: _Trial) -> Check:
    again, refusal = trial.play()
    if again is None:
        return Check("determinism", 1.0, 0.0, False, f"the second run was refused: {refusal}")
    same = (run.kept.compute == again.kept.compute) & (run.kept.bandwidth == again.kept.bandwidth)
    differing = int((~same.all(axis=(0, 2))).sum())
    return Check.at_most("determinism", differing, 0, "seeds that differ when the same run is repeated")


def _alone(run: Run, trial: _Trial) -> Check:
    """A seed must not notice which others share its batch."""
    last = trial.batch.shape[0] - 1
    alone, refusal = trial.play(trial.batch.rows(last, last + 1))
    if alone is None:
        return Check("batch", 1.0, 0.0, False, f"a batch of one seed was refused: {refusal}")
    apart = np.abs(run.kept.compute[:, last] - alone.kept.compute[:, 0]).max()
    meaning = "samples per step by which a seed alone differs from it in a batch"
    return Check.at_most("batch", float(apart), 1e-9, meaning)


def _hindsight(run: Run, trial: _Trial) -> Check:
    """Change what a policy cannot know yet, and see that it decides the same until it can.

    First everything about tasks that arrive later; then how fast all learn, which nobody has met when the first task is to
    compute; then their delays, which where the uplink divides itself are over before the first byte.
    """
    batch = trial.batch
    if getattr(trial.policy, "clairvoyant", False):
        return Check.at_most("hindsight", 0, 0, "clairvoyant by its own word: not asked")
    cut = int(np.median(batch.arrival))
    later = batch.arrival >= cut
    other: Row = {"data": batch.data * 0.5, "target": batch.target * 1.1, "a": batch.a * 0.9, "work": batch.work * 0.5}
    other["deadline"] = batch.deadline + 3
    future = replace(batch, **{name: np.where(later, new, getattr(batch, name)) for name, new in other.items()})
    first, over = (_first(run, state) for state in (COMPUTING, SENDING if trial.site.uplink == "equal" else COMPUTING))
    unmet, longer = replace(batch, work=batch.work * 0.5, b=batch.b * 1.1), replace(batch, delay=batch.delay + 2)
    if cut == 0 or first == 0 or over == 0:
        return Check.not_made("hindsight", "all tasks are there from the first step: nothing is left to foresee")
    differing = 0
    for changed, until in ((future, cut), (unmet, first + 1), (longer, over)):
        again, refusal = trial.play(changed)
        if again is None:
            return Check("hindsight", 1.0, 0.0, False, f"refused on changed tasks: {refusal}")
        one, two = run.kept, again.kept
        apart = (one.compute[:until] != two.compute[:until]) | (one.bandwidth[:until] != two.bandwidth[:until])
        differing += int(apart.any(axis=(1, 2)).sum())
    meaning = "steps decided differently because of tasks to come, or of work and delays that nobody had met"
    return Check.at_most("hindsight", differing, 0, meaning)


def _first(run: Run, state: int) -> int:
    """The first step in which some task is in this state; the horizon if none ever is."""
    met = np.flatnonzero((run.kept.state == state).any(axis=(1, 2)))
    return int(met[0]) if len(met) else run.batch.horizon


def _blindness(run: Run, untraced: Run | None) -> Check:
    """A policy that says `blind = True` is shown no errors, except in traced runs: it must not notice."""
    if untraced is None:
        return Check("blind", 1.0, 0.0, False, "a run without a trace was refused")
    differing = int((run.state != untraced.state).any(axis=1).sum())
    return Check.at_most("blind", differing, 0, "seeds that end differently without a trace: is it `blind`, yet looks?")


def _other_loads(trial: _Trial) -> Check:
    """One task, a crowd, a crowded uplink: refusals hide in corners."""
    refused = []
    for tasks, load in ((trial.workload, 1), (trial.workload, 120), (Workload.network_heavy(), 40)):
        other = replace(trial, workload=tasks, batch=tasks.draw(load, 2, trial.site))
        run, refusal = other.play(trace=False)
        if run is None:
            refused.append(refusal)
    meaning = refused[0] if refused else "refusals with one task, with 120, and on a crowded uplink"
    return Check.at_most("loads", len(refused), 0, meaning)


def _liveness(trial: _Trial, found: Audit) -> Check:
    """Tasks of the trial, and tasks alone on an idle site, that fail though what stood idle would have finished them.

    One that says that it is frugal must give something to every task that is alone.
    """
    frugal, percent, left = is_frugal(trial.policy), 100.0 * found.starved / trial.batch.arrival.size, []
    for name, task in ALONE.items():
        batch = Workload.of([task]).draw(1, 1, trial.site)
        if bound_of(batch, 0, trial.site) < 1:
            continue
        run, refusal = replace(trial, batch=batch).play()
        if run is None or run.samples[0, 0] <= 0.0 or (not frugal and audit(run).starved):
            left.append(refusal or name)
    if left:
        return Check("liveness", 100.0, LIVE, False, f"alone on an idle site it leaves: {', '.join(left)}")
    percent, meaning = (0.0, f"{STARVED}; frugal by design") if frugal else (percent, STARVED)
    return Check.at_most("liveness", percent, LIVE, meaning)
