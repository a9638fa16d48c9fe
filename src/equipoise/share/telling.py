"""Which task's life to show: the one that tells most about how policies differ."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from equipoise.share.simulate import Run
from equipoise.share.task import COMPUTING, DONE

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
