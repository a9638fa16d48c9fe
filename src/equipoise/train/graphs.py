"""Where edges come from: generators, files and networkx graphs.

Generators return (tails, heads) with tails < heads, sorted, each edge once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from equipoise.errors import InputError
from equipoise.train.arrays import Floats, Ints
from equipoise.train.topology import canonical

Edges = tuple[Ints, Ints]


def erdos_renyi(n: int, p: float, rng: np.random.Generator) -> Edges:
    """Every pair is an edge with probability p; jumps from edge to edge, so the cost is the number of edges."""
    pairs = n * (n - 1) // 2
    found, last = [np.empty(0, np.int64)], -1
    while last < pairs - 1:
        left = (pairs - 1 - last) * p
        jumps = rng.geometric(p, size=int(left + 4.0 * math.sqrt(left)) + 8)
        reached = last + np.cumsum(np.minimum(jumps, pairs + 1))  # a jump past the end is a jump past the end
        found.append(reached[reached < pairs])
        last = int(reached[-1])
    return _unrank(n, np.concatenate(found))


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


def ring(n: int) -> Edges:
    """0 - 1 - ... - (n-1) - 0; two nodes share one edge."""
    if n < 3:
        return path(n)
    node = np.arange(n)
    return canonical(n, node, (node + 1) % n)


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


def relabelled(n: int, edges: Edges, rng: np.random.Generator) -> Edges:
    """The same graph with its nodes in a random order."""
    name = rng.permutation(n)
    return canonical(n, name[edges[0]], name[edges[1]])


def grid_rows(n: int, rows: int | None) -> int:
    """Rows of a grid with n nodes: those asked for if they divide n, else as square as n allows."""
    if rows is None:
        if n > 3 and _near_square(n) == 1:
            near = ", ".join(str(k) for k in range(max(4, n - 3), n + 4) if _near_square(k) > 1)
            raise InputError(f"n={n} is prime, so a grid of it is a path; n={near} work, or pass rows=1")
        return _near_square(n)
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise InputError(f"rows={rows!r}: a grid needs a whole number of rows, at least 1")
    if n % rows:
        near = " or ".join(str(k) for k in (n - n % rows, n - n % rows + rows) if k > 0)
        raise InputError(f"rows={rows} does not divide n={n}; n={near} would, or leave rows out")
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
            raise InputError(f"edge {edge!r}: expected (i, j) or (i, j, weight)")
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
        raise InputError(f"{file}: cannot read this edge list: {reason}; expected lines `i j [weight]`") from None
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
            raise InputError(f"{file}:{number}: {content!r}: expected `i j [weight]`, nodes counted from 0") from None
        pairs.append(pair)
        weights.append(weight)
        lines.append(number)
    if not pairs:
        raise InputError(f"{file}: no edges in this file; expected lines `i j [weight]`")
    return pairs, weights, lines


def read_networkx(graph: Any, weight: str) -> tuple[int, list[tuple[int, int]], list[Any]]:
    """Number of nodes, pairs and weights of a networkx graph; a directed one needs every link both ways."""
    number = {node: k for k, node in enumerate(graph.nodes())}
    links = [(i, j, w) for i, j, w in graph.edges(data=weight, default=1.0)]
    if graph.is_directed():
        known = {(i, j) for i, j, _ in links}
        one_way = next(((i, j) for i, j, _ in links if (j, i) not in known), None)
        if one_way is not None:
            i, j = one_way
            raise InputError(
                f"networkx graph: one-way link {i} -> {j} ({j} -> {i} is missing); directed networks are not supported "
                "yet by Network.from_networkx: add the missing link, or pass graph.to_undirected()"
            )
    return len(number), [(number[i], number[j]) for i, j, _ in links], [w for *_, w in links]
