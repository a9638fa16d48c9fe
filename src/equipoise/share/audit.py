"""The certificate of share: recomputed from the tasks and the recorded decisions alone, without the loop's own books.

This file plays nothing: it imports no loop and no policy. Who asks for a certificate hands in traced runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equipoise._moved import old_names
from equipoise.certificate import Certificate, Check
from equipoise.kernels import Floats
from equipoise.share.task import DONE

if TYPE_CHECKING:
    from equipoise.share.simulate import Run

__getattr__ = old_names(__name__)

AUDITED = 5  # seeds of every policy and load that are played again and recomputed
LIMIT = 1e-6  # samples per step, by which a sum may round
NOTHING = 1e-9  # samples that count as none
MEANINGS = {  # of each check: the part of an Audit, and what its value is
    "capacity": ("capacity", "samples per step given above the site's compute or one task's cap, at worst, {many}"),
    "bandwidth": ("bandwidth", "samples per step sent above the uplink, at worst, {many}"),
    "states": (
        "misplaced",
        "task-steps served before arrival, before all data and the delay, after the end or the deadline",
    ),
    "outcomes": (
        "outcomes",
        "tasks whose reported end, or measures of a seed, are not those recomputed from the decisions",
    ),
    "servers": ("servers", "samples per step run above a server's speed, or on two at once, or not as given, at worst"),
    "energy": ("energy", "reported over recomputed energy, minus 1, at worst"),
    "idle-while-work": (
        "idle",
        "reported minus recomputed idle compute while a task was ready, percent of capacity, at worst",
    ),
}


@dataclass(frozen=True)
class Audit:
    """The worst that was found in one traced run."""

    capacity: float  # samples per step above the site's, or a task's, or 0
    bandwidth: float  # samples per step above the uplink's, or 0
    misplaced: int  # task-steps served in a state that cannot be served
    outcomes: int  # tasks whose reported end is not the recomputed one
    servers: float  # samples per step that servers ran above their speeds, or more or less than was given
    energy: float  # reported over recomputed, minus 1
    idle: float  # reported minus recomputed, percent of capacity


def audit(run: Run) -> Audit:
    """Follow every task through its own decisions, in plain arithmetic."""
    x, y, batch, site = run.kept.compute, run.kept.bandwidth, run.batch, run.site
    over = max(float((x.sum(axis=2) - site.capacity).max()), float((x - site.most_per_task).max()), 0.0)
    misplaced = outcomes = 0
    ready_steps = np.zeros(x.shape[:2], dtype=bool)
    for seed in range(batch.shape[0]):
        for task in range(batch.shape[1]):
            wrong, end, ready = _follow(run, seed, task)
            misplaced += wrong
            outcomes += (run.state[seed, task] == DONE) != (end >= 0) or run.done_at[seed, task] != end
            ready_steps[:, seed] |= ready
    idle = np.where(ready_steps, site.capacity - x.sum(axis=2), 0.0).sum(axis=0) / (site.capacity * batch.horizon)
    return Audit(
        capacity=over,
        bandwidth=max(float((y.sum(axis=2) - site.bandwidth).max()), 0.0),
        misplaced=misplaced,
        outcomes=outcomes,
        servers=_servers(run),
        energy=_energy(run),
        idle=float(np.abs(100.0 * idle - run.idle_while_work).max()),
    )


def _servers(run: Run) -> float:
    """The worst of: a server beyond its speed, a task for longer than the step, rates that nobody ran."""
    ran, speeds = run.kept.ran, run.site.speeds
    beyond = (ran.sum(axis=2) - speeds).max()
    longer = ((ran / speeds).sum(axis=3) - 1.0).max() * speeds.max()
    apart = np.abs(ran.sum(axis=3) - run.kept.compute).max()
    return max(float(beyond), float(longer), float(apart), 0.0)


def _energy(run: Run) -> float:
    """Every step of every server by the site's law, summed again."""
    site, ran = run.site, run.kept.ran
    if site.power == "per_node":
        power = site.idle_power + site.busy_power * (ran.sum(axis=2) / site.capacities) ** 3
        energy = power.sum(axis=(0, 2))
    else:
        use = run.kept.compute.sum(axis=2) / site.capacities.sum()
        power = site.idle_power + site.busy_power * (use if site.power == "linear" else use**3)
        energy = len(site.servers) * power.sum(axis=0)
    return float(np.abs(run.energy / np.maximum(energy, 1e-12) - 1.0).max()) if site.idle_power > 0 else 0.0


def _follow(run: Run, seed: int, task: int) -> tuple[int, int, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """One task: steps served out of turn, the step it was done by (-1: never), and the steps it could compute in."""
    batch = run.batch
    x, y = run.kept.compute[:, seed, task], run.kept.bandwidth[:, seed, task]
    arrival, deadline = int(batch.arrival[seed, task]), int(batch.deadline[seed, task])
    data, delay, work = batch.data[seed, task], int(batch.delay[seed, task]), batch.work[seed, task]
    steps = np.arange(batch.horizon)
    sent_by = np.flatnonzero(np.cumsum(y) >= data - NOTHING)
    begin = arrival + delay if data <= NOTHING else (int(sent_by[0]) + 1 + delay if len(sent_by) else batch.horizon)
    may_send = (steps >= arrival) & (steps < deadline) & (steps <= (sent_by[0] if len(sent_by) else batch.horizon))
    reached = np.flatnonzero(np.cumsum(x) >= work - NOTHING)
    end = int(reached[0]) + 1 if len(reached) else -1
    may_compute = (steps >= begin) & (steps < deadline) & ((end < 0) | (steps < end))
    wrong = int(((y > 0) & ~may_send).sum() + ((x > 0) & ~may_compute).sum())
    return wrong, end, may_compute


def recompute(
    runs: Iterable[Run], measured: Mapping[tuple[str, int], Mapping[str, Floats]], bounds: Mapping[int, Floats]
) -> Certificate:
    """Recompute what was reported of every policy and load.

    Parameters
    ----------
    runs
        Traced runs of the first seeds, at least one of every policy and load.
    measured
        What was reported: (policy, load) to measure to a value per seed.
    bounds
        Tasks that the oracle could finish, by load, a value per seed; nan where it was not asked.
    """
    found: list[Audit] = []
    differing = seeds = 0
    for run in runs:
        seeds, load = run.batch.shape
        found.append(audit(run))
        for measure, told in measured[run.policy, load].items():
            again = np.asarray(getattr(run, measure), dtype=float)
            differing += int((~np.isclose(told[:seeds], again, rtol=1e-9, equal_nan=True)).sum())
    many = f"over {seeds} seed{'s' if seeds > 1 else ''} of every policy and load"
    return Certificate((*checks_of(found, [*MEANINGS], many, differing), *_against_oracle(measured, bounds)))


def checks_of(found: Sequence[Audit], names: Sequence[str], many: str, differing: int = 0) -> list[Check]:
    """The worst over runs of what was found: of amounts the largest, of tasks and task-steps the sum.

    `differing`: measures of a seed that were not reported as recomputed; they count as outcomes.
    """
    made = []
    for name in names:
        part, meaning = MEANINGS[name]
        values = [getattr(one, part) for one in found]
        worst, limit = (sum(values), 0.0) if part in ("misplaced", "outcomes") else (max(values), LIMIT)
        if part == "outcomes":
            worst += differing
        made.append(Check.at_most(name, worst, limit, meaning.format(many=many)))
    return made


def _against_oracle(
    measured: Mapping[tuple[str, int], Mapping[str, Floats]], bounds: Mapping[int, Floats]
) -> list[Check]:
    """Nobody may finish more than could be finished; no check where no bound was computed."""
    asked = {load: bound for load, bound in bounds.items() if np.isfinite(bound).any()}
    if not asked:
        return []
    above = max(
        float(np.nanmax(cell["successes"] - asked[load])) for (_, load), cell in measured.items() if load in asked
    )
    instances = sum(int(np.isfinite(bound).sum()) for bound in asked.values())
    meaning = f"tasks finished above the oracle's bound, at worst, over {instances} instances"
    return [Check.at_most("oracle", above, 0, meaning)]
