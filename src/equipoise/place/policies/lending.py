"""Lend what is idle in this slot to waiting jobs, without promise (spec, section 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from equipoise.kernels import kernel
from equipoise.place.desk import LENT
from equipoise.place.utility import worth

if TYPE_CHECKING:
    from equipoise.place.policies.pdors import Session

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
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


def densest(session: Session) -> list[int]:
    """Waiting jobs, those first that are worth most for the part of the cluster and the slots they still need."""
    desk = session.desk
    jobs = np.fromiter(session.waiting, dtype=np.int64, count=len(session.waiting))
    left = np.maximum(desk.work[jobs] - desk.done[jobs], 0.0)
    worths = densities(jobs, desk.now, desk.arrival, desk.worth_kind, desk.worth_parameters, left, session.speed)
    return [int(job) for job in jobs[np.argsort(-worths / session.share[jobs], kind="stable")]]


def lend(session: Session) -> None:
    """The densest waiting jobs first: a promise to those begun, if one pays by now; then idle machines to all."""
    desk, order = session.desk, densest(session)
    for job in [job for job in order if desk.done[job] > 0.0][:OFFERS]:
        session.offer(job)
    rest = np.array([job for job in order if job in session.waiting], dtype=np.int64)
    while len(rest):
        free = session.planner.roomiest(desk.now)
        fits = np.flatnonzero(np.all(session.demand[rest] <= free, axis=1))
        taken = next((k for k in fits if _lend_to(session, int(rest[k]))), None)
        if taken is None:
            return
        rest = rest[taken + 1 :]


def _lend_to(session: Session, job: int) -> bool:
    """Give the job this slot at the width it asked for, if idle machines hold it."""
    desk, planner = session.desk, session.planner
    cells = planner.seat_now(desk.shapes[job], int(session.width[job]), desk.now, desk.before(job))
    if not len(cells):
        return False
    planner.take(desk.shapes[job], cells)
    desk.assign(job, cells)
    desk.decide(job, LENT)
    return True
