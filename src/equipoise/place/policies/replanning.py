"""Large-neighbourhood search over what is promised and what waits (spec, section 3).

A promise is never dropped, what was carried out stays, and a waiting job must still pay the price. A given number of tries
a slot, so that a run repeats.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from equipoise.place.desk import Int32s
from equipoise.place.planner import Plan
from equipoise.place.planner.seat import toll
from equipoise.place.policies.lending import densest

if TYPE_CHECKING:
    from equipoise.place.policies.pdors import Session

MOVED = 4  # promised schedules given up and planned again in one try, at most
BETTER = 1e-9  # utility
EAGER = 2.0  # how much rather a dense waiting job is tried than another; 1: no rather
LEVEL = 0.5  # how used a machine is thought to be when the room on it is valued


def search(session: Session, tries: int) -> None:
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


def _try(session: Session, moved: list[int], joins: list[int]) -> None:
    """Give up `moved`, plan all again in a random order; keep it when it is worth more."""
    planner, shapes = session.planner, session.desk.shapes
    old: dict[int, Int32s] = {job: session.ahead(job) for job in moved}
    for job in moved:
        planner.release(shapes[job], old[job])
    order = joins + moved
    if len(moved) > 1 or session.random.random() < 0.5:
        order = [order[k] for k in session.random.permutation(len(order))]
    new: dict[int, Plan] = {}
    gain = -sum(session.promised[job].worth - _toll(session, job, old[job]) for job in moved)
    for job in order:
        _, plan = session.best(job, floor=0.0 if job in joins else -math.inf)
        if plan is not None:
            planner.take(shapes[job], plan.cells)
            new[job] = plan
            gain += plan.worth - _toll(session, job, plan.cells)
        elif job not in joins:
            gain = -math.inf
            break
    if gain > BETTER:
        for job, plan in new.items():
            session.settle(job, plan)
        return
    for job, plan in new.items():
        planner.release(shapes[job], plan.cells)
    for job in moved:
        planner.take(shapes[job], old[job])


def _toll(session: Session, job: int, cells: Int32s) -> float:
    """What the room a schedule takes is worth to those who may come."""
    return float(toll(session.planner.book, session.desk.shapes[job], cells, LEVEL))
