"""How long jobs really take over what they state, learnt from history user by user, and what is planned for them then.

A policy that promises plans the 90 % quantile, and never less than a job states: who keeps to his statement is done by the
date he was promised, whatever he did before. The certificate measures by the statement, never by what was learnt. A policy
without promises only orders by it: it plans the median, also where that is less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equipoise.kernels import Floats

if TYPE_CHECKING:
    from equipoise.place.job import Workload

FEW = 8.0  # jobs of a user whose own figures weigh as much as those of all jobs
QUANTILES = (0.5, 0.9)


@dataclass(frozen=True)
class Durations:
    """What jobs took over what they stated, median and 90 % quantile: of all jobs, and by user."""

    overall: tuple[float, float]
    users: Mapping[str, tuple[float, float]]
    jobs: int  # that this was learnt from

    def planned(self, jobs: Workload, *, promises: bool) -> Floats:
        """Of each job, what is planned over what it states."""
        found = np.array([self.users.get(job.user, self.overall)[int(promises)] for job in jobs])
        return np.maximum(found, 1.0) if promises else found


def learn_durations(history: Iterable[Workload]) -> Durations | None:
    """Median and quantile of `actual`. A user's n jobs weigh n, all jobs FEW, in the geometric mean of both: a user with few
    jobs is taken for anybody. None without jobs.

    Parameters
    ----------
    history
        Past jobs, with the `user` and the `actual` of each.
    """
    own: dict[str, list[float]] = {}
    for job in (job for past in history for job in past):
        own.setdefault(job.user, []).append(job.actual)
    took = [actual for each in own.values() for actual in each]
    if not took:
        return None
    overall = np.quantile(took, QUANTILES)
    users = {}
    for user, each in own.items():
        part = len(each) / (len(each) + FEW) if user else 0.0  # jobs of no user are anybody's
        median, most = (float(q) for q in np.quantile(each, QUANTILES) ** part * overall ** (1.0 - part))
        users[user] = median, most
    return Durations((float(overall[0]), float(overall[1])), users, len(took))
