"""How long jobs took against what they need alone: in time, slowdown, finish-time fairness. Worth plays no part in it.

A job's own duration is the work that it truly was, at the width it asked for. Hopeless jobs, which could not finish even
alone, are left out; a job that is not finished counts to the end of the run, and at least its own duration.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.kernels import Bools, Floats, Ints
from equipoise.place.execution import BEYOND_HORIZON, Execution
from equipoise.place.job import DEADLINE, UNSTATED, Job
from equipoise.place.placers._slotwise import Slotwise

IN_TIME = 2.5  # times its own duration, at least a slot: in time, for a job that states no deadline
NOTHING, DEADLINES, WORTH = "nothing", "deadlines", "worth"
OBJECTIVES = {
    NOTHING: "nothing is stated: the least slowdown, summed over jobs",
    DEADLINES: "stated deadlines: the most worth of jobs done within them",
    WORTH: "stated worth: the most utility of the jobs done",
}


def stated(jobs: Iterable[Job]) -> str:
    """What the jobs state, which is what a run is judged by: "nothing", "deadlines" or "worth"."""
    kinds = {job.utility.kind for job in jobs} - {UNSTATED}
    return NOTHING if not kinds else DEADLINES if kinds == {DEADLINE} else WORTH


def hopeless(run: Execution) -> list[str]:
    """Why each job cannot finish even alone from its arrival on; "" where it can."""
    found = []
    for j, arrival in enumerate(run.arrival.tolist()):
        run.now = arrival
        found.append(BEYOND_HORIZON if arrival >= run.end else run.hopeless(j))
    return found


@dataclass(frozen=True, eq=False)
class Alone:
    """What each job needs by itself, the same under every policy."""

    slots: Floats  # [job] its own duration, at least a slot
    share: Floats  # [job, r] of the whole cluster that it holds meanwhile
    hopeful: Bools  # [job] whether it can finish at all

    @classmethod
    def of(cls, run: Execution) -> Alone:
        """Of an execution in which nothing runs yet."""
        session = Slotwise(run)
        held = [arrays.held(width) for arrays, width in zip(run.arrays, session.width.tolist(), strict=True)]
        share = np.array(held).reshape(-1, len(run.cluster.resources)) / np.maximum(run.cluster.total, 1.0)
        true = np.array([job.work * job.actual for job in run.jobs])
        slots = np.maximum(true / session.speed, 1.0)
        return cls(slots, share, np.array([not why for why in hopeless(run)], dtype=bool))


@dataclass(frozen=True, eq=False)
class Waits:
    """How a run treated its jobs; nan, or False, where a job is hopeless."""

    slowdown: Floats  # [job] slots from arrival to finish over its own duration
    in_time: Bools
    unfairness: Floats  # [job] rho, slowdown over mean contention: above 1 it fared worse than by equal shares

    @classmethod
    def of(cls, jobs: Iterable[Job], finish: Ints, end: int, alone: Alone) -> Waits:
        """From the slots of finish (-1: not finished) of a run that ended before slot `end`."""
        arrival = np.array([job.arrival for job in jobs], dtype=np.int64)
        due = np.array([job.utility.parameters[2] if job.utility.kind == DEADLINE else np.nan for job in jobs])
        done, hopeful = finish >= 0, alone.hopeful
        last = np.where(done, finish, np.maximum(end - 1, arrival))
        slots = last - arrival + 1
        limit = np.where(np.isnan(due), np.ceil(IN_TIME * alone.slots), due + 1)
        # Contention: what the jobs that are here ask of the scarcest resource, in clusters; 1 where all find room.
        change = np.zeros((end + 1, alone.share.shape[1]))
        np.add.at(change, arrival[hopeful], alone.share[hopeful])
        np.add.at(change, last[hopeful] + 1, -alone.share[hopeful])
        crowd = np.maximum(np.cumsum(change, axis=0).max(axis=1, initial=0.0), 1.0)
        total = np.append(0.0, np.cumsum(crowd))
        slowdown = np.full(len(slots), np.nan)
        unfair = slowdown.copy()
        took = np.where(done, slots, np.maximum(slots, alone.slots))
        slowdown[hopeful] = took[hopeful] / alone.slots[hopeful]
        mean = (total[last[hopeful] + 1] - total[arrival[hopeful]]) / slots[hopeful]
        unfair[hopeful] = slowdown[hopeful] / mean
        return cls(slowdown, done & hopeful & (slots <= limit), unfair)

    def row(self, which: Any = slice(None)) -> dict[str, Any]:
        """Plain numbers over all jobs, or those chosen; None where all are hopeless."""
        slow, rho = (values[which][~np.isnan(values[which])] for values in (self.slowdown, self.unfairness))
        some = len(slow) > 0
        return {
            "in_time": int(self.in_time[which].sum()),
            "mean_slowdown": float(slow.mean()) if some else None,
            "p95_slowdown": float(np.percentile(slow, 95)) if some else None,
            "worst_unfairness": float(rho.max()) if some else None,
            "unfair": float((rho > 1.0 + 1e-9).mean()) if some else None,
        }
