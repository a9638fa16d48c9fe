"""The certificate of an executed comparison: from decisions, errors as processes showed them, and measured CPU alone.

It imports neither the simulator nor the loop on the real clock, and has its own arithmetic of energy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equipoise.certificate import Certificate, Check
from equipoise.kernels import Floats
from equipoise.registry import is_reference
from equipoise.share.audit import LIMIT, Audit, audit, checks_of
from equipoise.share.task import DONE

if TYPE_CHECKING:
    from equipoise.engine.real_clock.comparison import Pair, RealComparison
    from equipoise.share.site import Site

ABOVE = 0.03  # of a core: how far above its share the mean of a process may be
EDGE = 0.05  # seconds of CPU: what a process may get before its limiter, or a new share, takes hold


def certify(result: RealComparison) -> Certificate:
    """Every check over all pairs, the worst value of each."""
    pairs = result.pairs
    found = [_decisions(pair) for pair in pairs]
    checks = [
        *checks_of(found, ("capacity", "bandwidth", "states"), "over every step of every executed run"),
        Check.at_most(
            "outcomes",
            sum(map(_outcomes, pairs)),
            0,
            "tasks whose reported end is not what their own errors, target and deadline say",
        ),
        Check.at_most(
            "energy",
            max(map(_energy, pairs)),
            LIMIT,
            "reported energy over that of the measured CPU by the site's law, minus 1, at worst",
        ),
        _shares(result),
        Check.at_most("processes", sum(pair.left for pair in pairs), 0, "task processes left after their run"),
        Check.at_most(
            "tasks",
            sum(len(pair.executed.faults) for pair in pairs),
            0,
            "tasks whose process raised, hung, died or ended before its target: the page tells which and why",
        ),
    ]
    if any(not is_reference(work.kind) for pair in pairs for work in pair.plan.works):
        checks.insert(
            4,
            Check.at_most(
                "curves",
                sum(map(_strayed, pairs)),
                0,
                "errors that are not those of the same training recorded alone, by which the task was simulated",
            ),
        )
    return Certificate(tuple(checks))


def _decisions(pair: Pair) -> Audit:
    """Share's own audit of what was decided, with each task's end where its process put it."""
    run = pair.executed.run
    given = np.cumsum(run.kept.compute[:, 0], axis=0)
    work = np.full(run.batch.shape, np.inf)
    for k in np.flatnonzero(run.state[0] == DONE):
        work[0, k] = given[run.done_at[0, k] - 1, k]
    return audit(replace(run, batch=replace(run.batch, work=work)))


def _outcomes(pair: Pair) -> int:
    """Follow the errors: done if and only if one reached the target, the last one, and before the deadline."""
    wrong, run, late = 0, pair.executed.run, 1.0 + float(pair.executed.late.max()) / pair.plan.scene.step
    for k, errors in enumerate(pair.executed.errors):
        if pair.executed.units[k] > len(errors):
            continue  # more than are kept
        reached = np.flatnonzero(errors <= pair.plan.targets[k]).tolist()
        if run.state[0, k] != DONE:
            wrong += len(reached) > 0
            continue
        at, end = float(pair.executed.finished[k]), int(run.done_at[0, k])
        in_time = end <= run.batch.deadline[0, k] and end - late <= at <= end + late
        wrong += not (in_time and reached == [len(errors) - 1])
    return wrong


def _strayed(pair: Pair) -> int:
    """Errors of our own kinds that differ from the recorded ones, as far as both go."""
    count = 0
    for work, recorded, errors in zip(pair.plan.works, pair.plan.recorded, pair.executed.errors, strict=True):
        if not is_reference(work.kind):
            most = min(len(errors), len(recorded.errors))
            count += int((errors[:most] != recorded.errors[:most]).sum())
    return count


def _energy(pair: Pair) -> float:
    """Reported energy over that of the CPU that processes really took, minus 1."""
    again = sum(_step_energy(took, pair.plan.scene.site) for took in pair.executed.took)
    return abs(float(pair.executed.run.energy[0]) / again - 1.0) if again > 0 else 0.0


def _step_energy(took: Floats, site: Site) -> float:
    """Energy of one step by the site's law (docs/share.md, 1), from the CPU of each task in samples."""
    servers, idle, busy = len(site.servers), site.idle_power, site.busy_power
    if site.power == "per_node":
        use = _cheapest_loads(np.minimum(took[took > 0], site.most_per_task), servers) / site.capacities
        return float((idle + busy * use**3).sum())
    total = min(float(took.sum()), site.capacity) / float(site.capacities.sum())
    return servers * (idle + busy * (total if site.power == "linear" else total**3))


def _cheapest_loads(rates: Floats, servers: int) -> Floats:
    """Loads of the servers at the least sum of cubes: a task faster than the mean of the rest has a server to itself."""
    falling = np.sort(rates)[::-1]
    for alone in range(servers):
        mean = float(falling[alone:].sum()) / (servers - alone)
        if alone == servers - 1 or alone == len(falling) or falling[alone] <= mean:
            break
    return np.concatenate([falling[:alone], np.full(servers - alone, mean)])


def _shares(result: RealComparison) -> Check:
    """Nobody above its share: CPU beyond the shares it was held to, as a mean over the time it was inside, in cores."""
    if result.limiter == "none":
        return Check.not_made("shares", "with --limiter none processes are measured and not held")
    late = [
        np.maximum(pair.executed.above - EDGE, 0.0) / np.maximum(pair.executed.inside, EDGE) for pair in result.pairs
    ]
    worst = max(float(each.max()) for each in late)
    return Check.at_most(
        "shares", worst, ABOVE, "cores that a process got above its shares, mean over its time inside, at worst"
    )
