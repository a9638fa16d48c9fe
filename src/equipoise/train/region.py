"""Regions: the nodes that live in one process - all, some, or one - and the directed links that leave them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from equipoise.errors import InputError
from equipoise.kernels import Bools, Ints
from equipoise.train.network import Network

MOST_NODES = 300  # where one-way graphs never repeat, every pair of nodes has a link


@dataclass(frozen=True, eq=False)
class LinkTable:
    """All directed links of a network that repeats, numbered by (sender, receiver) for good.

    A link that is not there in a round is a packet that was lost: dynamics keep the state of every link of the union.
    """

    n: int
    senders: Ints
    receivers: Ints
    back: Ints  # number of the opposite link
    turns: tuple[Bools, ...]  # which links are there, one mask per graph

    @classmethod
    def of(cls, network: Network) -> LinkTable:
        """The union of all graphs of a network whose links carry both ways and return."""
        if network.period is None:
            raise InputError(
                f"no link of this network is sure to return ({network.description}), and what a link keeps would never be "
                'used again: use switching=COUNT instead of "fresh", or a method for networks that never repeat',
                code="need.repeating",
            )
        n = network.n
        graphs = [network.topology(k) for k in range(network.period)]
        keys = [np.sort(np.concatenate([g.tails * n + g.heads, g.heads * n + g.tails])) for g in graphs]
        union = keys[0] if len(keys) == 1 else np.unique(np.concatenate(keys))
        turns = tuple(_mask(len(union), np.searchsorted(union, key)) for key in keys)
        return cls(n, *_ends(n, union), turns)

    @staticmethod
    def one_way(network: Network) -> LinkTable:
        """All links of a directed network and their ways back, over which nothing is ever sent where there is none."""
        n = network.n
        if network.period is None:
            if n > MOST_NODES:
                raise InputError(
                    f"one-way graphs that never repeat need a running sum for every pair of centres: at most {MOST_NODES} "
                    f'centres, not {n}; use switching=COUNT instead of "fresh"',
                    code="need.repeating",
                )
            pairs = np.flatnonzero(~np.eye(n, dtype=np.bool_))
            return AnyPair(n, *_ends(n, pairs), (), pairs, network)
        keys = [network.arcs(phase).key for phase in range(network.period)]
        union = np.unique(np.concatenate([np.concatenate([key, (key % n) * n + key // n]) for key in keys]))
        return LinkTable(n, *_ends(n, union), tuple(np.isin(union, key) for key in keys))

    def __len__(self) -> int:
        return len(self.senders)

    def turn(self, number: int) -> Bools:
        """Which links are there in this round."""
        return self.turns[number % len(self.turns)]

    @property
    def static(self) -> bool:
        return len(self.turns) == 1

    @cached_property
    def degree(self) -> Ints:
        """Links that leave each node, over all graphs."""
        return np.bincount(self.senders, minlength=self.n)


@dataclass(frozen=True, eq=False)
class AnyPair(LinkTable):
    """All links that may ever be: which are there is known when the round comes."""

    keys: Ints
    network: Network

    def turn(self, number: int) -> Bools:
        return np.isin(self.keys, self.network.arcs(number).key, assume_unique=True)


def _ends(n: int, keys: Ints) -> tuple[Ints, Ints, Ints]:
    senders, receivers = keys // n, keys % n
    return senders, receivers, np.searchsorted(keys, receivers * n + senders)


def _mask(size: int, chosen: Ints) -> Bools:
    mask = np.zeros(size, dtype=np.bool_)
    mask[chosen] = True
    return mask


@dataclass(eq=False)
class Region:
    """Rows of the nodes `ids`; slots first[i]..first[i+1] are the links that leave row i, in the order of their receivers.

    What a half says goes into rows of its message table. The exchange sets, one entry per slot:
      base    row that a message builds on; -1: nothing is known to both ends, numbers are sent as they are
      target  row that it writes; -1: this link is not there in this round
      where   row that holds the newest message on the way back; -1: nothing yet
      fresh   whether that arrived in this round
      acked   newest round whose message the other end is known to hold; -1: none
    """

    ids: Ints
    first: Ints
    link: Ints  # the slot's number in the link table
    peer: Ints  # the other end, a node's number
    outside: Ints  # slots whose other end lives elsewhere
    rows: int  # of every message table
    base: Ints
    target: Ints
    where: Ints
    fresh: Bools
    acked: Ints
    bits: dict[str, Ints] = field(default_factory=dict)  # sent per slot, by half; counted where numbers are encoded

    @classmethod
    def cut(cls, table: LinkTable, ids: Ints, window: int = 1) -> Region:
        """The part of a network that these nodes are, with a message table of `window` rows per slot."""
        mine = _mask(table.n, ids)
        link = np.flatnonzero(mine[table.senders])
        slots = len(link)
        row = np.full(table.n, -1)
        row[ids] = np.arange(len(ids))
        counts = np.bincount(row[table.senders[link]], minlength=len(ids))
        outside = np.flatnonzero(~mine[table.receivers[link]])
        slot = np.full(len(table), -1)
        slot[link] = np.arange(slots)
        where = slot[table.back[link]].copy()  # where both ends live here they read one table
        where[outside] = slots * window + np.arange(len(outside))
        return cls(
            ids=ids,
            first=np.concatenate([[0], np.cumsum(counts)]),
            link=link,
            peer=table.receivers[link],
            outside=outside,
            rows=slots * window + len(outside),
            base=np.full(slots, -1),
            target=np.arange(slots),
            where=where,
            fresh=np.ones(slots, dtype=np.bool_),
            acked=np.full(slots, -1),
        )

    def count(self, half: str) -> Ints:
        """Bits that a half has sent, per slot."""
        return self.bits.setdefault(half, np.zeros(len(self.link), dtype=np.int64))
