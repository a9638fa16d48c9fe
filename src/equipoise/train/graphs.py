"""Where edges come from: generators, files and networkx graphs.

Generators return (tails, heads) with tails < heads, sorted, each edge once; those of directed graphs return (senders,
receivers), sorted, each arc once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from equipoise.errors import InputError
from equipoise.kernels import kernel
from equipoise.train.arrays import Floats, Ints
from equipoise.train.topology import Arcs, Topology, canonical

Edges = tuple[Ints, Ints]
Bools = NDArray[np.bool_]
REACH = (0.7, 1.3)  # of a node in a directed geometric graph, in radii


def erdos_renyi(n: int, p: float, rng: np.random.Generator) -> Edges:
    """Every pair is an edge with probability p."""
    return _unrank(n, _chosen(n * (n - 1) // 2, p, rng))


def erdos_renyi_arcs(n: int, p: float, rng: np.random.Generator) -> Edges:
    """Every ordered pair is an arc with probability p."""
    rank = _chosen(n * (n - 1), p, rng)  # in the list (0,1), (0,2), ..., (1,0), (1,2), ..., (n-1,n-2)
    senders, place = np.divmod(rank, max(1, n - 1))
    return senders, place + (place >= senders)


def _chosen(pairs: int, p: float, rng: np.random.Generator) -> Ints:
    """Each of 0..pairs-1 with probability p; jumps from one to the next, so the cost is the number chosen."""
    found, last = [np.empty(0, np.int64)], -1
    while last < pairs - 1:
        left = (pairs - 1 - last) * p
        jumps = rng.geometric(p, size=int(left + 4.0 * math.sqrt(left)) + 8)
        reached = last + np.cumsum(np.minimum(jumps, pairs + 1))  # a jump past the end is a jump past the end
        found.append(reached[reached < pairs])
        last = int(reached[-1])
    return np.concatenate(found)


def complete(n: int) -> Edges:
    """Every pair is an edge."""
    return _unrank(n, np.arange(n * (n - 1) // 2))


def _unrank(n: int, rank: Ints) -> Edges:
    """Sorted positions in the list (0,1), (0,2), ..., (n-2,n-1) to pairs."""
    node = np.arange(n)
    start = node * (2 * n - node - 1) // 2  # of the pairs whose smaller end is this node
    tails = np.repeat(node, np.diff(np.searchsorted(rank, start), append=len(rank)))
    return tails, rank - start[tails] + tails + 1


def geometric(n: int, radius: float, rng: np.random.Generator) -> Edges:
    """Uniform points in the unit square, linked when at most `radius` apart."""
    pairs = cKDTree(rng.random((n, 2))).query_pairs(radius, output_type="ndarray").astype(np.int64)
    return canonical(n, pairs[:, 0], pairs[:, 1])


def geometric_arcs(n: int, radius: float, rng: np.random.Generator) -> Edges:
    """Uniform points in the unit square, each with its own reach around `radius`: it sends to all within."""
    points, reach = rng.random((n, 2)), radius * rng.uniform(*REACH, n)
    pairs = cKDTree(points).query_pairs(reach.max(), output_type="ndarray").astype(np.int64)
    senders, receivers = np.concatenate([pairs, pairs[:, ::-1]]).T
    within = np.linalg.norm(points[senders] - points[receivers], axis=1) <= reach[senders]
    return sorted_arcs(n, senders[within], receivers[within])


def ring(n: int) -> Edges:
    """0 - 1 - ... - (n-1) - 0; two nodes share one edge."""
    if n < 3:
        return path(n)
    node = np.arange(n)
    return canonical(n, node, (node + 1) % n)


def ring_arcs(n: int) -> Edges:
    """0 -> 1 -> ... -> (n-1) -> 0."""
    node = np.arange(n if n > 1 else 0)
    return node, (node + 1) % n


def path(n: int) -> Edges:
    """0 - 1 - ... - (n-1)."""
    return np.arange(n - 1), np.arange(1, n)


def star(n: int) -> Edges:
    """Node 0 in the middle."""
    return np.zeros(n - 1, np.int64), np.arange(1, n)


def grid(rows: int, cols: int) -> Edges:
    """Four neighbours each; node r * cols + c is in row r and column c."""
    node = np.arange(rows * cols).reshape(rows, cols)
    tails = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    heads = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    return canonical(rows * cols, tails, heads)


def relabelled(n: int, edges: Edges, directed: bool, rng: np.random.Generator) -> Edges:
    """The same graph with its nodes in a random order."""
    name = rng.permutation(n)
    return (sorted_arcs if directed else canonical)(n, name[edges[0]], name[edges[1]])


def sorted_arcs(n: int, senders: Ints, receivers: Ints) -> Edges:
    """Distinct arcs sorted by (sender, receiver)."""
    key = np.sort(senders * n + receivers)
    return key // n, key % n


def half_one_way(n: int, edges: Edges, rng: np.random.Generator) -> Edges:
    """A random half of the links loses a random direction, one after the other, unless that leaves no way around."""
    both = Arcs.from_topology(Topology.unweighted(n, *edges))
    back = np.searchsorted(both.key, both.receivers * n + both.senders)
    links = np.flatnonzero(both.senders < both.receivers)
    drop = rng.permutation(links)[: len(links) // 2]
    drop = np.where(rng.random(len(drop)) < 0.5, drop, back[drop])
    start = np.concatenate([[0], np.cumsum(both.out_degree)])
    kept = _dropped(start, both.receivers, back, drop)
    return both.senders[kept], both.receivers[kept]


@kernel
def _dropped(start: Ints, receivers: Ints, back: Ints, drop: Ints) -> Bools:
    """Which arcs are left when those of `drop` go in turn, each only if its sender still reaches its receiver."""
    n = len(start) - 1
    kept = np.ones(len(receivers), dtype=np.bool_)
    seen = np.zeros(n, dtype=np.int64)
    queues = np.empty((2, n), dtype=np.int64)
    for k in range(len(drop)):
        arc = drop[k]
        kept[arc] = False
        kept[arc] = not _reaches(
            receivers[back[arc]], receivers[arc], start, receivers, back, kept, seen, queues, k + 1
        )
    return kept


@kernel
def _reaches(
    i: int, j: int, start: Ints, receivers: Ints, back: Ints, kept: Bools, seen: Ints, queues: Ints, mark: int
) -> bool:
    """Whether kept arcs lead from i to j: forwards from i (mark) and backwards from j (-mark), a node each in turn."""
    seen[i], seen[j] = mark, -mark
    queues[0, 0], queues[1, 0] = i, j
    ahead, behind, step = 1, 1, 0
    while step < ahead and step < behind:
        node = queues[0, step]
        for a in range(start[node], start[node + 1]):
            other = receivers[a]
            if kept[a] and seen[other] != mark:
                if seen[other] == -mark:
                    return True
                seen[other] = mark
                queues[0, ahead] = other
                ahead += 1
        node = queues[1, step]
        for a in range(start[node], start[node + 1]):
            other = receivers[a]
            if kept[back[a]] and seen[other] != -mark:
                if seen[other] == mark:
                    return True
                seen[other] = -mark
                queues[1, behind] = other
                behind += 1
        step += 1
    return False


def grid_rows(n: int, rows: int | None) -> int:
    """Rows of a grid with n nodes: those asked for if they divide n, else as square as n allows."""
    if rows is None:
        if n > 3 and _near_square(n) == 1:
            near = ", ".join(str(k) for k in range(max(4, n - 3), n + 4) if _near_square(k) > 1)
            raise InputError(
                f"n={n} is prime, so a grid of it is a path; n={near} work, or pass rows=1", code="grid.rows"
            )
        return _near_square(n)
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise InputError(f"rows={rows!r}: a grid needs a whole number of rows, at least 1", code="grid.rows")
    if n % rows:
        near = " or ".join(str(k) for k in (n - n % rows, n - n % rows + rows) if k > 0)
        raise InputError(f"rows={rows} does not divide n={n}; n={near} would, or leave rows out", code="grid.rows")
    return int(rows)


def _near_square(n: int) -> int:
    """The most rows, at most sqrt(n), that divide n; 1 for a prime."""
    return next(rows for rows in range(math.isqrt(n), 0, -1) if n % rows == 0)


def split_edges(edges: Iterable[Any]) -> tuple[list[Any] | Floats, list[Any] | Floats | None]:
    """Edges (i, j) or (i, j, w), mixed freely, as pairs and weights (None when no edge has one)."""
    if isinstance(edges, np.ndarray) and edges.ndim == 2 and edges.shape[1] in (2, 3):
        return edges[:, :2], edges[:, 2] if edges.shape[1] == 3 else None
    listed = list(edges)
    for edge in listed:
        if not hasattr(edge, "__len__") or isinstance(edge, str) or len(edge) not in (2, 3):
            raise InputError(f"edge {edge!r}: expected (i, j) or (i, j, weight)", code="edge.form")
    pairs = [(edge[0], edge[1]) for edge in listed]
    if all(len(edge) == 2 for edge in listed):
        return pairs, None
    return pairs, [edge[2] if len(edge) == 3 else 1.0 for edge in listed]


def read_edge_list(file: Path) -> tuple[list[tuple[int, int]], list[float], list[int]]:
    """Pairs, weights and line numbers of a text file with `i j [weight]` on each line; `#` starts a comment."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as trouble:
        reason = trouble.strerror if isinstance(trouble, OSError) else "it is not UTF-8 text"
        raise InputError(
            f"{file}: cannot read this edge list: {reason}; expected lines `i j [weight]`", code="file.read"
        ) from None
    pairs: list[tuple[int, int]] = []
    weights: list[float] = []
    lines: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.split("#", 1)[0].strip()
        if not content:
            continue
        fields = re.split(r"\s*,\s*|\s+", content)
        try:
            if len(fields) not in (2, 3):
                raise ValueError
            pair, weight = (int(fields[0]), int(fields[1])), float(fields[2]) if len(fields) == 3 else 1.0
        except ValueError:
            raise InputError(
                f"{file}:{number}: {content!r}: expected `i j [weight]`, nodes counted from 0", code="edge.form"
            ) from None
        pairs.append(pair)
        weights.append(weight)
        lines.append(number)
    if not pairs:
        raise InputError(f"{file}: no edges in this file; expected lines `i j [weight]`", code="edge.none")
    return pairs, weights, lines
