"""Who may send to whom in a round, as numbered links, seen from senders and from receivers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from equipoise.train.arcs import Arcs
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.links import Pairs


@dataclass(frozen=True, eq=False)
class Traffic:
    """One round's links, sorted by (sender, receiver); entries first[i]..first[i+1] leave node i."""

    n: int
    senders: Ints
    receivers: Ints
    link: Ints  # 2p or 2p + 1 of pair p: link ^ 1 is the way back
    first: Ints
    into: Ints  # the same entries sorted by receiver ...
    into_first: Ints  # ... those of node i being into_first[i]..into_first[i+1]
    degree: Ints  # links that leave a node

    @cached_property
    def by_link(self) -> tuple[Ints, Ints, Ints, Ints]:
        """The order of entries by link, and their links, senders and receivers in it: memory is read from end to end."""
        order = np.argsort(self.link, kind="stable")
        return order, self.link[order], self.senders[order], self.receivers[order]

    @property
    def in_degree(self) -> Ints:
        return np.diff(self.into_first)

    def balanced(self) -> Floats:
        """1 / (1 + max(d_i, d_j)) per entry, for links that carry both ways."""
        return 1.0 / (1.0 + np.maximum(self.degree[self.senders], self.degree[self.receivers]))


class Roads:
    """Numbers the links of all rounds and keeps the traffic of those that come again."""

    def __init__(self, period: int | None, arcs: Callable[[int], Arcs], pairs: Pairs) -> None:
        self._period, self._arcs, self.pairs = period, arcs, pairs
        self._kept: dict[int, Traffic] = {}

    @property
    def links(self) -> int:
        """Directed links so far, both ways of every pair."""
        return 2 * len(self.pairs)

    def traffic(self, number: int) -> Traffic:
        """The links of one round; new pairs are numbered on the way."""
        key = number if self._period is None else number % self._period
        if key in self._kept:
            return self._kept[key]
        made = lay_out(self._arcs(number), self.pairs)
        if self._period is None:
            self._kept.clear()
        self._kept[key] = made
        return made

    def meet_all(self) -> None:
        """Number every link of a network that repeats, so that nothing grows during a run."""
        for k in range(self._period or 0):
            self.traffic(k)

    def restore(self, memory: dict[str, Ints]) -> None:
        """Take up the numbering of a checkpoint."""
        self.pairs.restore(memory)
        self._kept.clear()


def lay_out(arcs: Arcs, pairs: Pairs) -> Traffic:
    """Entries by sender, and the same by receiver."""
    n, senders, receivers = arcs.n, arcs.senders, arcs.receivers
    low, high = np.minimum(senders, receivers), np.maximum(senders, receivers)
    keys, place = np.unique(low * n + high, return_inverse=True)
    link = 2 * pairs.number(keys)[place] + (senders > receivers)
    into = np.argsort(receivers * n + senders, kind="stable")
    return Traffic(
        n,
        senders,
        receivers,
        link.astype(np.int64),
        _starts(senders, n),
        into,
        _starts(receivers[into], n),
        np.bincount(senders, minlength=n).astype(np.int64),
    )


def _starts(sorted_nodes: Ints, n: int) -> Ints:
    return np.concatenate([[0], np.cumsum(np.bincount(sorted_nodes, minlength=n))]).astype(np.int64)


def widened(array: AnyArray, links: int) -> AnyArray:
    """The same with room for more links: along the first axis, or the second where the first is the packets' window."""
    axis = 0 if array.ndim == 1 else 1
    shape = list(array.shape)
    shape[axis] = links
    wider = np.zeros(shape, dtype=array.dtype)
    wider[(slice(None),) * axis + (slice(array.shape[axis]),)] = array
    return wider
