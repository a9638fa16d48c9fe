"""Which shard each node belongs to: equal parts with few links between them."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from equipoise.errors import InputError
from equipoise.train.arcs import Arcs
from equipoise.train.arrays import Ints
from equipoise.train.network import Network


def partition(network: Network, shards: int) -> Ints:
    """The shard of every node. Nodes are lined up so that neighbours are near each other, and the line is cut evenly:
    as they are numbered, or by Cuthill and McKee, whichever lets fewer links cross."""
    n = network.n
    if not 1 <= shards <= n:
        raise InputError(
            f"{shards} workers for {n} centres: give at least 1 and at most one for each centre", code="workers.range"
        )
    cuts = np.arange(n, dtype=np.int64) * shards // n
    if shards == 1 or network.period is None:
        return cuts
    one, other = _links(network)
    crossing = int((cuts[one] != cuts[other]).sum())
    ones = np.ones(len(one), dtype=np.int8)
    graph = coo_array((ones, (one, other)), shape=(n, n)).tocsr()
    line = reverse_cuthill_mckee((graph + graph.T).tocsr(), symmetric_mode=True)
    better = np.empty(n, dtype=np.int64)
    better[line] = cuts
    return better if int((better[one] != better[other]).sum()) < crossing else cuts


def _links(network: Network) -> tuple[Ints, Ints]:
    """The links of all graphs."""
    graphs = [network.graph(k) for k in range(network.period or 0)]
    ends = [(g.senders, g.receivers) if isinstance(g, Arcs) else (g.tails, g.heads) for g in graphs]
    return np.concatenate([a for a, _ in ends]), np.concatenate([b for _, b in ends])
