"""Policies as a user writes them who knows NumPy and nothing of us."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from equipoise.share import Decision, View

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def in_order(key: Floats, who: Bools, most: Floats, total: float) -> Floats:
    """Ascending key, each up to its most, until the total is spent."""
    order = np.argsort(np.where(who, key, np.inf), axis=1, kind="stable")
    want = np.take_along_axis(np.where(who, most, 0.0), order, axis=1)
    part: Floats = np.clip(total - (np.cumsum(want, axis=1) - want), 0.0, want)
    given = np.empty_like(part)
    np.put_along_axis(given, order, part, axis=1)
    return given


def fairly(who: Bools, most: Floats, total: float) -> Floats:
    """Max-min fair: the smallest are served in full, the rest get the same."""
    wanted = np.sort(np.where(who, most, np.inf), axis=1)
    small = np.where(np.isfinite(wanted), wanted, 0.0)
    over = np.maximum(who.sum(axis=1, keepdims=True) - np.arange(who.shape[1]), 1)
    level = (total - (np.cumsum(small, axis=1) - small)) / over
    short = np.isfinite(wanted) & (wanted > level)
    shared = np.take_along_axis(level, np.argmax(short, axis=1)[:, None], axis=1)
    return np.where(who, np.minimum(most, np.where(short.any(axis=1, keepdims=True), shared, np.inf)), 0.0)


@dataclass(frozen=True)
class UniformInNumPy:
    """DescribedUniform."""

    blind: ClassVar[bool] = True

    def decide(self, view: View) -> Decision:
        part = np.minimum(view.capacity / np.maximum(view.active.sum(axis=1, keepdims=True), 1), view.task_cap)
        return Decision(
            bandwidth=fairly(view.sending, view.data_left, view.bandwidth), compute=np.where(view.computing, part, 0.0)
        )


@dataclass(frozen=True)
class SDFInNumPy:
    """The published SDF."""

    blind: ClassVar[bool] = True

    def decide(self, view: View) -> Decision:
        return Decision(
            bandwidth=in_order(view.deadline, view.sending, view.data_left, view.bandwidth),
            compute=in_order(view.deadline, view.computing, view.task_cap, view.capacity),
        )
