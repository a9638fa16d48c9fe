"""Large-neighbourhood search over what is promised and what waits (spec, section 3).

A promise is never dropped, what was carried out stays, and a waiting job must still pay the price. A given number of tries
a slot, so that a run repeats.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from equipoise.kernels import Floats, Int32s, Ints, kernel
from equipoise.place.execution import LENT
from equipoise.place.job import worth
from equipoise.place.planner import Plan
from equipoise.place.planner.packing import room_value

if TYPE_CHECKING:
    from equipoise.place.placers.pdors import PDORSSession

MOVED = 4  # promised schedules given up and planned again in one try, at most
BETTER = 1e-9  # utility
EAGER = 2.0  # how much rather a dense waiting job is tried than another; 1: no rather
LEVEL = 0.5  # how used a machine is thought to be when the room on it is valued


def search(session: PDORSSession, tries: int) -> None:
    """Try to plan a few promised jobs, and a waiting one before or among them, better than they are now."""
    waiting = [job for job in densest(session) if session.worth_trying(job)]
    for _ in range(tries):
        promised = list(session.promised)
        waiting = [job for job in waiting if job in session.waiting]
        if not promised and not waiting:
            return
        count = min(len(promised), int(session.random.integers(1, MOVED + 1)))
        moved = [promised[k] for k in session.random.choice(len(promised), count, replace=False)] if promised else []
        joins = [waiting[int(len(waiting) * session.random.random() ** EAGER)]] if waiting else []
        if len(moved) + len(joins) > 1 or joins:
            _try(session, moved, joins)


def _try(session: PDORSSession, moved: list[int], joins: list[int]) -> None:
    """Give up `moved`, plan all again in a random order; keep it when it is worth more."""
    planner, arrays = session.planner, session.run.arrays
    old: dict[int, Int32s] = {job: session.ahead(job) for job in moved}
    for job in moved:
        planner.release(arrays[job], old[job])
    order = joins + moved
    if len(moved) > 1 or session.random.random() < 0.5:
        order = [order[k] for k in session.random.permutation(len(order))]
    new: dict[int, Plan] = {}
    gain = -sum(session.promised[job].worth - _room_value(session, job, old[job]) for job in moved)
    for job in order:
        _, plan = session.best(job, floor=0.0 if job in joins else -math.inf)
        if plan is not None:
            planner.take(arrays[job], plan.cells)
            new[job] = plan
            gain += plan.worth - _room_value(session, job, plan.cells)
        elif job not in joins:
            gain = -math.inf
            break
    if gain > BETTER:
        for job, plan in new.items():
            session.settle(job, plan)
        return
    for job, plan in new.items():
        planner.release(arrays[job], plan.cells)
    for job in moved:
        planner.take(arrays[job], old[job])


def _room_value(session: PDORSSession, job: int, cells: Int32s) -> float:
    """What the room a schedule takes is worth to those who may come."""
    return float(room_value(session.planner.occupancy, session.run.arrays[job], cells, LEVEL))


OFFERS = 8  # jobs already begun on lent slots that are offered a promise on what they have left, each slot


@kernel
def densities(
    jobs: Ints, now: int, arrival: Ints, kind: Ints, parameters: Floats, left: Floats, speed: Floats
) -> Floats:
    """Worth per slot of finishing what is left at the requested width from now on."""
    out = np.empty(jobs.shape[0])
    for k in range(jobs.shape[0]):
        j = jobs[k]
        slots = max(1.0, np.ceil(left[k] / speed[j]))
        a, b, c = parameters[j]
        out[k] = worth(kind[j], a, b, c, now + slots - 1.0 - arrival[j]) / slots
    return out


def densest(session: PDORSSession) -> list[int]:
    """Waiting jobs, those first that are worth most for the part of the cluster and the slots they still need."""
    run = session.run
    jobs = np.fromiter(session.waiting, dtype=np.int64, count=len(session.waiting))
    left = np.maximum(run.work[jobs] - run.done[jobs], 0.0)
    worths = densities(jobs, run.now, run.arrival, run.worth_kind, run.worth_parameters, left, session.speed)
    return [int(job) for job in jobs[np.argsort(-worths / session.share[jobs], kind="stable")]]


def lend(session: PDORSSession) -> None:
    """The densest waiting jobs first: a promise to those begun, if one pays by now; then idle machines to all."""
    run, order = session.run, densest(session)
    for job in [job for job in order if run.done[job] > 0.0][:OFFERS]:
        session.offer(job)
    rest = np.array([job for job in order if job in session.waiting], dtype=np.int64)
    while len(rest):
        free = session.planner.roomiest(run.now)
        fits = np.flatnonzero(np.all(session.demand[rest] <= free, axis=1))
        taken = next((k for k in fits if _lend_to(session, int(rest[k]))), None)
        if taken is None:
            return
        rest = rest[taken + 1 :]


def _lend_to(session: PDORSSession, job: int) -> bool:
    """Give the job this slot at the width it asked for, if idle machines hold it."""
    run, planner = session.run, session.planner
    cells = planner.pack_now(run.arrays[job], int(session.width[job]), run.now, run.before(job))
    if not len(cells):
        return False
    planner.take(run.arrays[job], cells)
    run.assign(job, cells)
    run.decide(job, LENT)
    return True
