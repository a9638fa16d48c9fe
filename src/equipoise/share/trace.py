"""Every step of a run, kept: the raw material of timelines and of the audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from equipoise.document import Row
from equipoise.share.step import Now
from equipoise.share.task import COMPUTING, DONE, STATES
from equipoise.share.view import View
from equipoise.share.workload import Batch

if TYPE_CHECKING:
    from equipoise.share.simulate import Run

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Trace:
    """Arrays [steps, seeds, tasks]: the state the policy saw, what it gave, and where the task stood afterwards."""

    state: NDArray[np.int8]
    bandwidth: Floats
    compute: Floats
    samples: Floats
    error: Floats
    server: NDArray[np.int64]  # where it began the step; -1: did not compute
    ran: Floats  # [steps, seeds, tasks, servers]: samples it computed on each

    @classmethod
    def empty(cls, batch: Batch, servers: int) -> Trace:
        shape = (batch.horizon, *batch.shape)
        return cls(
            np.zeros(shape, np.int8),
            np.zeros(shape),
            np.zeros(shape),
            np.zeros(shape),
            np.zeros(shape),
            np.full(shape, -1, np.int64),
            np.zeros((*shape, servers)),
        )

    def before(self, step: int, state: NDArray[np.int8]) -> None:
        self.state[step] = state

    def after(self, step: int, bandwidth: Floats, compute: Floats, now: Now, view: View) -> None:
        self.bandwidth[step], self.compute[step], self.samples[step] = bandwidth, compute, now.curve["samples"]
        self.error[step] = np.where(view.observed, view.error, self.error[step - 1] if step else 1.0)
        self.server[step] = np.where(compute > 0, now.server, -1)

    def spans(self, seeds: NDArray[np.int64]) -> list[Row]:
        """How long each task was in which state: first and last step of every stretch."""
        found = []
        for k, seed in enumerate(seeds.tolist()):
            for task, states in enumerate(self.state[:, k].T):
                cuts = np.flatnonzero(np.diff(states)) + 1
                for first, after in zip([0, *cuts.tolist()], [*cuts.tolist(), len(states)], strict=True):
                    state = STATES[int(states[first])]
                    found.append({"seed": seed, "task": task, "state": state, "first": first, "last": after - 1})
        return found


STARVER = "UARA+LARA"  # the published policy whose starvation is to be seen


def telling_task(lives: Mapping[str, Run]) -> int:
    """The task that UARA+LARA starves most while another policy finishes it; without one, where outcomes split most.

    `lives` has a traced run of one seed per policy. Starving is compute that stood idle while the task was ready for it.
    """
    runs = list(lives.values())
    done = np.array([run.state[0] == DONE for run in runs])
    starved = np.array([idle_beside(run) for run in runs]) * ~done
    if STARVER in lives:
        row = list(lives).index(STARVER)
        score = np.where(done.any(axis=0), starved[row], 0.0)
        if score.max() > 0.0:
            return int(score.argmax())
    split = np.minimum(done.sum(axis=0), (~done).sum(axis=0)).astype(float)
    return int((split + starved.sum(axis=0) / (1.0 + starved.sum())).argmax())


def idle_beside(run: Run) -> NDArray[np.float64]:
    """Samples that the site did not compute while each task of the first seed was ready to compute."""
    if run.trace is None:
        raise ValueError("telling_task needs traced runs: simulate(..., trace=True)")
    idle = run.site.capacity - run.trace.compute[:, 0].sum(axis=1)
    return np.asarray(np.where(run.trace.state[:, 0] == COMPUTING, idle[:, None], 0.0).sum(axis=0))
