"""The certificate of share: recomputed from the tasks and the recorded decisions alone, without the loop's own books.

Recorded decisions are followed by `plain`, which is not the loop that is audited: it draws the luck of every task again,
and says who could compute, who succeeded, and what it cost. Nothing here imports the compiled loop or a policy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from equipoise._moved import old_names
from equipoise.certificate import Certificate, Check
from equipoise.kernels import Floats
from equipoise.share._arithmetic import keys_of
from equipoise.share.plain import Keyed, Plain
from equipoise.share.task import COMPUTING, DONE, PENDING, SENDING

if TYPE_CHECKING:
    from equipoise.share.simulate import Run

__getattr__ = old_names(__name__)

AUDITED = 5  # seeds of every policy and load that are played again and recomputed
LIMIT = 1e-6  # samples per step, by which a sum may round
NOTHING = 1e-9  # samples that count as none
MEANINGS = {  # what the value of each check is
    "capacity": "samples per step given above the site's compute or one task's cap, at worst, {many}",
    "bandwidth": "samples per step sent above the uplink, at worst, {many}",
    "states": "task-steps served before arrival, before all data and the delay, after the end or the deadline",
    "outcomes": "tasks whose reported end, or measures of a seed, are not those recomputed from the decisions",
    "servers": "samples per step run above a server's speed, or on two at once, or not as given, at worst",
    "energy": "reported over recomputed energy, minus 1, at worst",
    "idle-while-work": "reported minus recomputed idle compute while a task was ready, percent of capacity, at worst",
}
PARTS = {"states": "misplaced", "idle-while-work": "idle"}  # of an Audit, where a check is called otherwise
STARVED = "percent of tasks that failed though what stood idle while they could compute would have finished them"
LIVE = 10.0  # percent of tasks that a policy may lose to idle compute before it counts as starving them


@dataclass(frozen=True)
class Audit:
    """The worst that was found in one traced run, and its measures as recomputed, a value per seed."""

    capacity: float  # samples per step above the site's, or a task's, or 0
    bandwidth: float  # samples per step above the uplink's, or 0
    misplaced: int  # task-steps served in a state that cannot be served
    outcomes: int  # tasks whose reported state at the end, or step of success, is not the recomputed one
    servers: float  # samples per step that servers ran above their speeds, or more or less than was given
    energy: float  # reported over recomputed, minus 1
    idle: float  # reported minus recomputed, percent of capacity
    starved: int  # tasks that failed though what stood idle beside them would have finished them
    measures: Mapping[str, Floats]


def audit(run: Run) -> Audit:
    """Follow every task of every seed through the recorded decisions, in plain arithmetic."""
    x, y, batch, site = run.kept.compute, run.kept.bandwidth, run.batch, run.site
    cap = np.minimum(batch.speed, site.most_per_task)
    over = max(float((x.sum(axis=2) - site.capacity).max()), float((x - cap).max()), 0.0)
    seeds = batch.shape[0]
    idle, ready = site.capacity - x.sum(axis=2), np.zeros(x.shape, bool)
    energy, sent, done_at, state = np.zeros(seeds), np.zeros(seeds), np.full(batch.shape, -1), np.zeros(batch.shape)
    # Where servers cannot follow every decision, or switches cost, only what was not even asked for stood idle by decision.
    fluid = site.alike and site.migration == "within" and not site.switch_cost
    spare = idle if fluid else site.capacity - np.maximum(run.kept.asked, x.sum(axis=2))
    misplaced = starved = 0
    for seed in range(seeds):
        plain, wrong = follow(run, seed, ready[:, seed])
        misplaced += wrong
        done_at[seed], energy[seed], sent[seed] = plain.played.done_at, plain.played.energy, plain.played.sent
        state[seed] = plain.state
        failed = (state[seed] != DONE) & (state[seed] != PENDING)  # or not done when the horizon ended
        starved += _starved(batch.work[seed], cap[seed], failed, x[:, seed], ready[:, seed], spare[:, seed].copy())
    energy = energy if site.power == "per_sample" else _energy(run)
    waited = 100.0 * np.where(ready.any(axis=2), idle, 0.0).sum(axis=0) / (site.capacity * batch.horizon)
    done = done_at >= 0
    spent = np.where(done, done_at - 1 - batch.arrival, 0).sum(axis=1)
    return Audit(
        capacity=over,
        bandwidth=max(float((y.sum(axis=2) - site.bandwidth).max()), 0.0) if site.uplink == "decided" else 0.0,
        misplaced=misplaced,
        outcomes=int(((run.done_at != done_at) | (run.state != state)).sum()),
        servers=_servers(run),
        energy=float(np.abs(run.energy - energy).max() / max(float(energy.max()), 1e-12)),
        idle=float(np.abs(waited - run.idle_while_work).max()),
        starved=starved,
        measures={
            "successes": done.sum(axis=1),
            "success": 100.0 * done.mean(axis=1),
            "energy": energy,
            "latency": np.where(done.any(axis=1), spent / np.maximum(done.sum(axis=1), 1), np.nan),
            "network": 100.0 * sent / (site.bandwidth * batch.horizon),
            "idle_while_work": waited,
        }
        | ({"switches": _switches(x)} if len(site.servers) == 1 and not site.switch_cost else {}),
    )


def _switches(x: Floats) -> Floats:
    """How often another task takes the only server over; those served in a step hold it in the order of their numbers."""
    turns = [np.nonzero(x[:, seed] > 0.0)[1] for seed in range(x.shape[1])]
    return np.array([float((np.diff(held) != 0).sum()) for held in turns])


def follow(run: Run, seed: int, ready: NDArray[np.bool_]) -> tuple[Plain, int]:
    """One seed at its end, and task-steps that were served out of turn; `ready` [steps, tasks] gets who could compute."""
    batch, sends = run.batch, run.site.uplink == "decided"
    plain = Plain(batch, seed, run.site, Keyed(keys_of(batch.seeds[seed : seed + 1], batch.shape[1])[0]))
    x, y, over = run.kept.compute[:, seed], run.kept.bandwidth[:, seed], int(batch.deadline[seed].max()) + 1
    state, given, sent = np.zeros(x.shape, np.int8), x.tolist(), y.tolist()
    for step in range(batch.horizon if y[over - 1 :].any() else min(over, batch.horizon)):
        plain.open(step, watched=False)
        state[step] = plain.state
        served = [0.0 if s != COMPUTING and z > 0.0 else z for s, z in zip(plain.state, given[step], strict=True)]
        plain.close(step, served, sent[step], plain.tasks)
    state[step + 1 :] = plain.state  # the last deadline is over
    ready[:] = state == COMPUTING
    wrong = int(((x > 0.0) & ~ready).sum()) + (int(((y > 0.0) & (state != SENDING)).sum()) if sends else 0)
    return plain, wrong


def _starved(work: Floats, cap: Floats, failed: Floats, x: Floats, ready: Floats, idle: Floats) -> int:
    """Failed tasks that idle compute would have finished; what one takes is not there for the next, the shortest first."""
    count = 0
    for i in sorted(np.flatnonzero(failed).tolist(), key=lambda i: float(work[i])):
        room = np.where(ready[:, i], np.minimum(np.maximum(idle, 0.0), cap[i] - x[:, i]), 0.0)
        short = work[i] - x[:, i].sum()
        if room.sum() >= short - NOTHING:
            taken = np.minimum(np.cumsum(room), short)
            idle -= np.diff(taken, prepend=0.0)
            count += 1
    return count


def _servers(run: Run) -> float:
    """The worst of: a server beyond its speed, a task for longer than the step, rates that nobody ran."""
    some = run.kept.ran.any(axis=(1, 2, 3)) | run.kept.compute.any(axis=(1, 2))  # steps in which anything ran
    ran, speeds = run.kept.ran[some], run.site.speeds
    beyond = (ran.sum(axis=2) - speeds).max(initial=0.0)
    longer = ((ran / speeds).sum(axis=3) - 1.0).max(initial=0.0) * speeds.max()
    apart = np.abs(ran.sum(axis=3) - run.kept.compute[some]).max(initial=0.0)
    return max(float(beyond), float(longer), float(apart))


def _energy(run: Run) -> Floats:
    """Every step of every server by the site's law, summed again, for each seed."""
    site, ran = run.site, run.kept.ran
    if site.power == "per_node":
        power = site.idle_power + site.busy_power * (ran.sum(axis=2) / site.capacities) ** 3
        return np.asarray(power.sum(axis=(0, 2)))
    use = run.kept.compute.sum(axis=2) / site.capacities.sum()
    power = site.idle_power + site.busy_power * (use if site.power == "linear" else use**3)
    return np.asarray(len(site.servers) * power.sum(axis=0))


def recompute(
    runs: Iterable[Run],
    measured: Mapping[tuple[str, int], Mapping[str, Floats]],
    bounds: Mapping[int, Floats],
    frugal: Collection[str] = (),
) -> Certificate:
    """Recompute what was reported of every policy and load, from traced runs of the first seeds of each.

    `measured` has a value per seed of every measure, `bounds` the tasks that the oracle could finish, nan where it was not
    asked. Of `frugal` policies, which leave compute idle by design and say so, starving is told and does not fail.
    """
    found: list[Audit] = []
    differing = seeds = 0
    starved: dict[tuple[str, int], float] = {}  # percent of tasks, by policy and load
    for run in runs:
        seeds, load = run.batch.shape
        found.append(audit(run))
        for measure, again in found[-1].measures.items():
            told = measured[run.policy, load][measure]
            differing += int((~np.isclose(told[:seeds], again, rtol=1e-6, atol=1e-9, equal_nan=True)).sum())
        starved[run.policy, load] = 100.0 * found[-1].starved / (seeds * load)
    many = f"over {seeds} seed{'s' if seeds > 1 else ''} of every policy and load"
    checks = checks_of(found, [*MEANINGS], many, differing)
    return Certificate((*checks, _liveness(starved, frugal), *_against_oracle(measured, bounds)))


def _liveness(starved: Mapping[tuple[str, int], float], frugal: Collection[str]) -> Check:
    """The worst policy and load of those that do not say that they hold compute back."""
    judged = {where: percent for where, percent in starved.items() if where[0] not in frugal}
    worst = max(judged, key=lambda where: judged[where], default=None)
    said = {name: max(starved[w] for w in starved if w[0] == name) for name, _ in starved if name in frugal}
    told = f"worst: {worst[0]} at {worst[1]} tasks" if worst else "nobody judged"
    told += f"; frugal by design: {', '.join(f'{name} {value:.1f}' for name, value in said.items())}" if said else ""
    return Check.at_most("liveness", judged[worst] if worst else 0.0, LIVE, f"{STARVED}; {told}")


def checks_of(found: Sequence[Audit], names: Sequence[str], many: str, differing: int = 0) -> list[Check]:
    """The worst over runs of what was found: of amounts the largest, of tasks and task-steps the sum.

    `differing`: measures of a seed that were not reported as recomputed; they count as outcomes.
    """
    made = []
    for name in names:
        values = [getattr(one, PARTS.get(name, name)) for one in found]
        worst, limit = (sum(values), 0.0) if name in ("states", "outcomes") else (max(values), LIMIT)
        if name == "outcomes":
            worst += differing
        made.append(Check.at_most(name, worst, limit, MEANINGS[name].format(many=many)))
    return made


def _against_oracle(
    measured: Mapping[tuple[str, int], Mapping[str, Floats]], bounds: Mapping[int, Floats]
) -> list[Check]:
    """Nobody may finish more than could be finished; no check where no bound was computed."""
    asked = {load: bound for load, bound in bounds.items() if np.isfinite(bound).any()}
    if not asked:
        return []
    cells = [(cell["successes"], asked[load]) for (_, load), cell in measured.items() if load in asked]
    above = max(float(np.nanmax(found - bound)) for found, bound in cells)
    instances = sum(int(np.isfinite(bound).sum()) for bound in asked.values())
    meaning = f"tasks finished above the oracle's bound, at worst, over {instances} instances"
    return [Check.at_most("oracle", above, 0, meaning)]
