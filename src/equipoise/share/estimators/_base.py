"""What an estimator is: it watches errors and says how much work a task still is, and how sure that is."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from equipoise.kernels import Bools, Floats
from equipoise.share.view import Scene, View

SURE = 1e-3  # a spread that is as good as none
PARTS = 8  # quantiles of an outlook: (k + 1/2) / PARTS


class Estimate(NamedTuple):
    """For every task of every seed; nan where nothing is known yet."""

    left: Floats  # samples still to compute, at least 0
    log_work: Floats  # ln of the samples in all, the middle of the belief
    spread: Floats  # standard deviation of log_work; infinite where nothing is known

    @property
    def known(self) -> Bools:
        return np.isfinite(self.log_work)

    @classmethod
    def nothing(cls, shape: tuple[int, ...]) -> Estimate:
        return cls(np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.inf))


class Fit(Protocol):
    """An estimator at work on one run."""

    def learn(self, view: View) -> None:
        """Take in the errors that the last step brought."""

    def estimate(self, view: View) -> Estimate:
        """Where every active task stands."""


class Estimator(Protocol):
    """Its settings; `start` gives a fresh fit. One that `needs_truth` makes its policy clairvoyant."""

    @property
    def needs_truth(self) -> bool: ...

    def start(self, scene: Scene) -> Fit: ...
