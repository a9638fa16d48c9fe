"""One-way networks as tables of links: every link has a way back, over which nothing is ever sent where there is none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.errors import InputError
from equipoise.kernels import Bools, Ints
from equipoise.train.network import Network
from equipoise.train.region import LinkTable

MOST_NODES = 300  # where graphs never repeat, every pair of nodes has a link


def one_way_table(network: Network) -> LinkTable:
    """All links of a directed network and their ways back."""
    if network.period is None:
        return _all_pairs(network)
    n = network.n
    keys = [network.arcs(phase).key for phase in range(network.period)]
    union = np.unique(np.concatenate([np.concatenate([key, (key % n) * n + key // n]) for key in keys]))
    turns = tuple(np.isin(union, key) for key in keys)
    return LinkTable(n, *_ends(n, union), turns)


def _ends(n: int, keys: Ints) -> tuple[Ints, Ints, Ints]:
    senders, receivers = keys // n, keys % n
    return senders, receivers, np.searchsorted(keys, receivers * n + senders)


def _all_pairs(network: Network) -> LinkTable:
    n = network.n
    if n > MOST_NODES:
        raise InputError(
            f"one-way graphs that never repeat need a running sum for every pair of centres: at most {MOST_NODES} centres, "
            f'not {n}; use switching=COUNT instead of "fresh"',
            code="need.repeating",
        )
    keys = np.arange(n * n)
    keys = keys[keys // n != keys % n]
    return AnyPair(n, *_ends(n, keys), (), keys, network)


@dataclass(frozen=True, eq=False)
class AnyPair(LinkTable):
    """All links that may ever be: which are there is known when the round comes."""

    keys: Ints
    network: Network

    def turn(self, number: int) -> Bools:
        return np.isin(self.keys, self.network.arcs(number).key, assume_unique=True)
