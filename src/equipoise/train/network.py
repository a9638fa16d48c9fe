"""Who talks to whom, round by round: static, periodic, or a new graph every round."""

from __future__ import annotations

import hashlib
import inspect
import math
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError, unknown_name
from equipoise.train import graphs
from equipoise.train.graphs import Edges
from equipoise.train.topology import Topology, check_nodes

Switching = int | Literal["fresh"]
ATTEMPTS = 200  # draws before a random graph is declared too sparse to connect
KINDS = ("complete", "erdos_renyi", "geometric", "grid", "path", "ring", "star")


@dataclass(frozen=True)
class Draw:
    """The graph of any round from (seed, round) alone, so that the order of asking does not matter."""

    n: int
    seed: int
    edges: Callable[[np.random.Generator], Edges]
    advice: str  # what to change when no draw connects

    def topology(self, round: int, taken: Collection[bytes] = frozenset()) -> Topology:
        """The first draw that is connected and not taken already (by fingerprint)."""
        connected = False
        for attempt in range(ATTEMPTS):
            rng = np.random.default_rng([self.seed, round, attempt])
            topology = Topology.unweighted(self.n, *self.edges(rng))
            if topology.connected:
                connected = True
                if not taken or _fingerprint(topology) not in taken:
                    return topology
        if connected:
            raise InputError(
                f"switching asks for more than {len(taken)} different graphs, but {ATTEMPTS} draws for n={self.n} gave "
                f'no other; use switching={len(taken)} or less, or switching="fresh"'
            )
        raise InputError(self.advice)


class Network:
    """A graph for every round. Every graph is undirected and connected; build one with the constructors below."""

    def __init__(self, n: int, description: str, graphs: Sequence[Topology] | Draw) -> None:
        self.n = int(n)
        self.description = description
        self.period = None if isinstance(graphs, Draw) else len(graphs)  # None: it never repeats
        self.static = self.period == 1
        self._graphs = graphs if isinstance(graphs, Draw) else tuple(graphs)
        self._latest = (0, self._graphs.topology(0) if isinstance(self._graphs, Draw) else self._graphs[0])

    def __repr__(self) -> str:
        return f"<Network: {self.description}>"

    def topology(self, round: int) -> Topology:
        """The graph of this round, 0 being the first."""
        if not isinstance(self._graphs, Draw):
            return self._graphs[round % len(self._graphs)]
        number, latest = self._latest
        if number != round:
            latest = self._graphs.topology(round)
            self._latest = (round, latest)
        return latest

    @classmethod
    def erdos_renyi(cls, n: int, p: float = 0.3, *, switching: Switching = 0, seed: int = 0) -> Network:
        """Every pair is linked with probability p."""
        check_nodes(n)
        if not 0.0 < p <= 1.0:
            raise InputError(f"p={p!r}: the probability of a link must be above 0 and at most 1")
        enough = min(1.0, math.log(n) / n) if n > 1 else 1.0
        advice = (
            f"p={p:g} is too small for n={n}: no connected graph in {ATTEMPTS} draws; "
            f"ln(n)/n = {enough:.3g} is about the threshold, p={min(1.0, 1.5 * enough):.2g} would do"
        )
        return cls._random(f"Erdős–Rényi, p={p:g}", n, partial(graphs.erdos_renyi, n, p), advice, switching, seed)

    @classmethod
    def geometric(cls, n: int, radius: float | None = None, *, switching: Switching = 0, seed: int = 0) -> Network:
        """Random points in the unit square, linked when at most `radius` apart (default: just enough to connect)."""
        check_nodes(n)
        enough = 1.2 * math.sqrt(2.0 * math.log(max(n, 2)) / (math.pi * n))
        reach = enough if radius is None else radius
        if not 0.0 < reach < math.inf:
            raise InputError(f"radius={radius!r}: must be positive and finite; leave it out for one that connects")
        advice = (
            f"radius={reach:g} is too small for n={n}: no connected graph in {ATTEMPTS} draws; "
            f"sqrt(ln(n)/(pi n)) = {enough / 1.2 / math.sqrt(2.0):.3g} is about the threshold, {enough:.2g} would do"
        )
        edges = partial(graphs.geometric, n, reach)
        return cls._random(f"random geometric, radius={reach:.4g}", n, edges, advice, switching, seed)

    @classmethod
    def ring(cls, n: int, *, switching: Switching = 0, seed: int = 0) -> Network:
        """0 - 1 - ... - (n-1) - 0."""
        check_nodes(n)
        return cls._shape("ring", n, graphs.ring(n), switching, seed)

    @classmethod
    def path(cls, n: int, *, switching: Switching = 0, seed: int = 0) -> Network:
        """0 - 1 - ... - (n-1)."""
        check_nodes(n)
        return cls._shape("path", n, graphs.path(n), switching, seed)

    @classmethod
    def star(cls, n: int, *, switching: Switching = 0, seed: int = 0) -> Network:
        """Node 0 in the middle."""
        check_nodes(n)
        return cls._shape("star", n, graphs.star(n), switching, seed)

    @classmethod
    def grid(cls, n: int, rows: int | None = None, *, switching: Switching = 0, seed: int = 0) -> Network:
        """n nodes in a rectangle, as square as n allows unless `rows` is given."""
        check_nodes(n)
        rows = graphs.grid_rows(n, rows)
        return cls._shape(f"grid {rows} x {n // rows}", n, graphs.grid(rows, n // rows), switching, seed)

    @classmethod
    def complete(cls, n: int) -> Network:
        """Everyone hears everyone."""
        check_nodes(n)
        return cls(n, f"complete, {n} nodes, static", [Topology.unweighted(n, *graphs.complete(n))])

    @classmethod
    def from_edges(cls, edges: Iterable[Any], n: int | None = None, weights: ArrayLike | None = None) -> Network:
        """Links (i, j) or (i, j, weight); n is the largest node plus one unless given."""
        pairs, own = graphs.split_edges(edges)
        if own is not None and weights is not None:
            raise InputError("weights are given twice: in the edges (i, j, weight) and in weights=; drop one")
        return cls._given("edges", pairs, own if weights is None else weights, n)

    @classmethod
    def from_networkx(cls, graph: Any, weight: str = "weight") -> Network:
        """A networkx graph; its nodes become 0..n-1 in graph order."""
        n, pairs, weights = graphs.read_networkx(graph, weight)
        return cls._given("networkx graph (nodes numbered in graph order)", pairs, weights, n)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Network:
        """A text file with a link `i j [weight]` on each line."""
        pairs, weights, lines = graphs.read_edge_list(Path(path))
        return cls._given(os.fspath(path), pairs, weights, None, lines)

    @classmethod
    def sequence(cls, networks: Iterable[Network | Topology]) -> Network:
        """Round robin through the given graphs."""
        turns: list[Topology] = []
        for k, item in enumerate(networks):
            if isinstance(item, Network) and not item.static:
                raise InputError(f"sequence: network {k} ({item.description}) switches itself; give static ones")
            turns.append(item.topology(0) if isinstance(item, Network) else item)
            if turns[-1].n != turns[0].n:
                raise InputError(f"sequence: network {k} has {turns[-1].n} nodes but the first has {turns[0].n}")
            turns[-1].require_connected(f"sequence: network {k}")
        if not turns:
            raise InputError("sequence: no networks given; give at least one")
        return cls(turns[0].n, f"given graphs, {turns[0].n} nodes, {_manner(len(turns))}", turns)

    @classmethod
    def by_name(cls, kind: str, n: int, **options: Any) -> Network:
        """A network from its kind's name, as the command line gives it; an option that is None counts as not given."""
        name = kind.replace("-", "_")
        if name not in KINDS:
            raise unknown_name("network", kind, KINDS)
        build = getattr(cls, name)
        given = {option: value for option, value in options.items() if value is not None}
        if name == "complete":
            given.pop("seed", None)  # nothing is drawn
            if given.pop("switching", 0) not in (0, 1):
                raise InputError("network 'complete' cannot switch: it has one graph only; drop switching")
        known = [option for option in inspect.signature(build).parameters if option != "n"]
        for option in given:
            if option not in known:
                raise InputError(f"network {kind!r} has no option {option!r} (it takes: {', '.join(known) or 'none'})")
        network: Network = build(n, **given)
        return network

    @classmethod
    def _random(
        cls,
        name: str,
        n: int,
        edges: Callable[[np.random.Generator], Edges],
        advice: str,
        switching: Switching,
        seed: int,
    ) -> Network:
        """A graph drawn once, a few times, or every round."""
        count = _checked_switching(switching)
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise InputError(f"seed={seed!r}: must be a whole number, 0 or more")
        draw = Draw(n, int(seed), edges, advice)
        text = f"{name}, {n} nodes, {_manner(count)}, seed {seed}"
        if count is None:
            return cls(n, text, draw)
        turns: list[Topology] = []
        taken: set[bytes] = set()
        for round in range(count):
            turns.append(draw.topology(round, taken))
            taken.add(_fingerprint(turns[-1]))
        return cls(n, text, turns)

    @classmethod
    def _shape(cls, name: str, n: int, edges: Edges, switching: Switching, seed: int) -> Network:
        """A fixed shape; when it switches, the nodes change places."""
        if _checked_switching(switching) == 1:
            return cls(n, f"{name}, {n} nodes, static", [Topology.unweighted(n, *edges)])
        return cls._random(name, n, partial(graphs.relabelled, n, edges), "", switching, seed)

    @classmethod
    def _given(
        cls,
        source: str,
        pairs: ArrayLike,
        weights: ArrayLike | None,
        n: int | None,
        lines: Sequence[int] | None = None,
    ) -> Network:
        """One static graph out of what the user gave."""
        n = _count_nodes(pairs, source) if n is None else n
        topology = Topology.from_edges(n, pairs, weights, source, lines)
        return cls(n, f"{source}, {n} nodes, {topology.edges} links, static", [topology])


def _checked_switching(switching: Switching) -> int | None:
    """How many graphs take turns; None for a new one every round."""
    if isinstance(switching, str) and switching == "fresh":
        return None
    if isinstance(switching, bool) or not isinstance(switching, int | np.integer) or switching < 0:
        raise InputError(f'switching={switching!r}: expected 0 (static), a number of graphs to cycle, or "fresh"')
    return max(1, int(switching))


def _manner(count: int | None) -> str:
    if count is None:
        return "a new graph every round"
    return "static" if count == 1 else f"{count} graphs in turn"


def _count_nodes(pairs: ArrayLike, source: str) -> int:
    if np.size(pairs) == 0:
        raise InputError(f"{source}: no edges given, so n is unknown; give edges, or n=1 for a single node")
    try:
        return int(np.max(np.asarray(pairs, dtype=np.float64))) + 1
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{source}: every edge must be a pair of whole numbers (i, j)") from None


def _fingerprint(topology: Topology) -> bytes:
    return hashlib.blake2b(topology.tails.tobytes() + topology.heads.tobytes(), digest_size=16).digest()
