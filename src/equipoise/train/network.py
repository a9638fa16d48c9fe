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
from equipoise.train import graphs, interop
from equipoise.train.graphs import Edges
from equipoise.train.topology import Arcs, Topology, check_nodes

Graph = Topology | Arcs
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
    directed: bool = False

    def graph(self, round: int, taken: Collection[bytes] = frozenset()) -> Graph:
        """The first draw that is connected (strongly, if directed) and not taken already (by fingerprint)."""
        connected = False
        for attempt in range(ATTEMPTS):
            rng = np.random.default_rng([self.seed, round, attempt])
            graph = _unweighted(self.n, self.edges(rng), self.directed)
            if graph.strongly_connected if isinstance(graph, Arcs) else graph.connected:
                connected = True
                if not taken or _fingerprint(graph) not in taken:
                    return graph
        if connected:
            raise InputError(
                f"switching asks for more than {len(taken)} different graphs, but {ATTEMPTS} draws for n={self.n} gave "
                f'no other; use switching={len(taken)} or less, or switching="fresh"',
                code="switching.draws",
            )
        raise InputError(self.advice, code="network.draws")


class Network:
    """A graph for every round, connected, and strongly so if directed; build one with the constructors below."""

    def __init__(self, n: int, description: str, graphs: Sequence[Graph] | Draw) -> None:
        self.n = int(n)
        self.description = description
        self.period = None if isinstance(graphs, Draw) else len(graphs)  # None: it never repeats
        self.static = self.period == 1
        self._graphs = graphs if isinstance(graphs, Draw) else tuple(graphs)
        self._latest = (0, self._graphs.graph(0) if isinstance(self._graphs, Draw) else self._graphs[0])
        self.directed = isinstance(self._latest[1], Arcs)
        self.labels: tuple[Any, ...] | None = None  # what nodes 0..n-1 are called elsewhere, if anything else
        self._both_ways: dict[Topology, Arcs] = {}

    def __repr__(self) -> str:
        return f"<Network: {self.description}>"

    def topology(self, round: int) -> Topology:
        """The undirected graph of this round, 0 being the first."""
        graph = self.graph(round)
        if isinstance(graph, Arcs):
            raise InputError(
                "this network is directed: markets, rivals and theory need links that carry both ways, which "
                f"{self.description!r} does not promise; build it undirected, without directed=True",
                code="network.directed",
            )
        return graph

    def arcs(self, round: int) -> Arcs:
        """Who can send to whom in this round; both ways along every link if the network is undirected."""
        graph = self.graph(round)
        if isinstance(graph, Arcs):
            return graph
        if graph not in self._both_ways:
            if self.period is None:
                self._both_ways.clear()  # none but the latest
            self._both_ways[graph] = Arcs.from_topology(graph)
        return self._both_ways[graph]

    def graph(self, round: int) -> Graph:
        """The graph of this round, of either kind."""
        if not isinstance(self._graphs, Draw):
            return self._graphs[round % len(self._graphs)]
        number, latest = self._latest
        if number != round:
            latest = self._graphs.graph(round)
            self._latest = (round, latest)
        return latest

    @classmethod
    def erdos_renyi(
        cls, n: int, p: float = 0.3, *, switching: Switching = 0, seed: int = 0, directed: bool = False
    ) -> Network:
        """Every pair is linked with probability p; if directed, either way by itself."""
        check_nodes(n)
        if not 0.0 < p <= 1.0:
            raise InputError(f"p={p!r}: the probability of a link must be above 0 and at most 1", code="network.p")
        enough = min(1.0, math.log(n) / n) if n > 1 else 1.0
        advice = (
            f"p={p:g} is too small for n={n}: no {_connected(directed)} graph in {ATTEMPTS} draws; "
            f"ln(n)/n = {enough:.3g} is about the threshold, p={min(1.0, 1.5 * enough):.2g} would do"
        )
        edges = partial(graphs.erdos_renyi_arcs if directed else graphs.erdos_renyi, n, p)
        return cls._random(f"Erdős–Rényi, p={p:g}", n, edges, advice, switching, seed, directed)

    @classmethod
    def geometric(
        cls, n: int, radius: float | None = None, *, switching: Switching = 0, seed: int = 0, directed: bool = False
    ) -> Network:
        """Random points in the unit square, linked when at most `radius` apart (default: just enough to connect).

        If directed, every node has its own reach, 0.7 to 1.3 times the radius, and sends to those within.
        """
        check_nodes(n)
        enough = 1.2 * math.sqrt(2.0 * math.log(max(n, 2)) / (math.pi * n))
        reach = enough if radius is None else radius
        if not 0.0 < reach < math.inf:
            raise InputError(
                f"radius={radius!r}: must be positive and finite; leave it out for one that connects",
                code="network.radius",
            )
        advice = (
            f"radius={reach:g} is too small for n={n}: no {_connected(directed)} graph in {ATTEMPTS} draws; "
            f"sqrt(ln(n)/(pi n)) = {enough / 1.2 / math.sqrt(2.0):.3g} is about the threshold, {enough:.2g} would do"
        )
        edges = partial(graphs.geometric_arcs if directed else graphs.geometric, n, reach)
        return cls._random(f"random geometric, radius={reach:.4g}", n, edges, advice, switching, seed, directed)

    @classmethod
    def ring(cls, n: int, *, switching: Switching = 0, seed: int = 0, directed: bool = False) -> Network:
        """0 - 1 - ... - (n-1) - 0; if directed, that way round only."""
        check_nodes(n)
        return cls._shape("ring", n, graphs.ring_arcs(n) if directed else graphs.ring(n), switching, seed, directed)

    @classmethod
    def path(cls, n: int, *, switching: Switching = 0, seed: int = 0, directed: bool = False) -> Network:
        """0 - 1 - ... - (n-1); never directed."""
        check_nodes(n)
        _refuse_directed("path", directed)
        return cls._shape("path", n, graphs.path(n), switching, seed)

    @classmethod
    def star(cls, n: int, *, switching: Switching = 0, seed: int = 0, directed: bool = False) -> Network:
        """Node 0 in the middle; never directed."""
        check_nodes(n)
        _refuse_directed("star", directed)
        return cls._shape("star", n, graphs.star(n), switching, seed)

    @classmethod
    def grid(
        cls, n: int, rows: int | None = None, *, switching: Switching = 0, seed: int = 0, directed: bool = False
    ) -> Network:
        """n nodes in a rectangle, as square as n allows unless `rows` is given.

        If directed, a random half of the links carries one way, save those that are the only way back.
        """
        check_nodes(n)
        rows = graphs.grid_rows(n, rows)
        cols = n // rows
        name, edges = f"grid {rows} x {cols}", graphs.grid(rows, cols)
        if not directed:
            return cls._shape(name, n, edges, switching, seed)
        _refuse_directed(f"{name}, which is a path,", n > 1 and 1 in (rows, cols))
        return cls._half_one_way(name, n, edges, switching, seed)

    @classmethod
    def complete(cls, n: int, *, seed: int = 0, directed: bool = False) -> Network:
        """Everyone hears everyone; if directed, a random half of the links carries one way."""
        check_nodes(n)
        if directed:
            return cls._half_one_way("complete", n, graphs.complete(n), 0, seed)
        return cls(n, f"complete, {n} nodes, static", [Topology.unweighted(n, *graphs.complete(n))])

    @classmethod
    def from_edges(
        cls, edges: Iterable[Any], n: int | None = None, weights: ArrayLike | None = None, *, directed: bool = False
    ) -> Network:
        """Links (i, j) or (i, j, weight), from i to j if directed; n is the largest node plus one unless given."""
        pairs, own = graphs.split_edges(edges)
        if own is not None and weights is not None:
            raise InputError(
                "weights are given twice: in the edges (i, j, weight) and in weights=; drop one", code="weights.twice"
            )
        return cls._given("edges", pairs, own if weights is None else weights, n, directed=directed)

    @classmethod
    def from_networkx(cls, graph: Any, weight: str = "weight", *, directed: bool | None = None) -> Network:
        """A networkx graph, or several of the same nodes that take turns; `weight` names the links' weights.

        Nodes become 0..n-1 in (the first) graph's order; `labels` keeps what they were called. A DiGraph is directed unless
        it is symmetric, or as `directed` says.
        """
        turns, labels = interop.from_networkx(graph, weight, directed)
        source = "networkx graph (nodes numbered in graph order)" if len(turns) == 1 else "networkx graphs"
        links = turns[0].edges if isinstance(turns[0], Topology) else len(turns[0].senders)
        kind = f"{links} {'' if isinstance(turns[0], Topology) else 'directed '}links, " if len(turns) == 1 else ""
        network = cls(turns[0].n, f"{source}, {turns[0].n} nodes, {kind}{_manner(len(turns))}", turns)
        network.labels = labels
        return network

    def to_networkx(self, round: int = 0) -> Any:
        """The graph of this round as a networkx Graph, or a DiGraph if directed: nodes by label, links with weight."""
        return interop.to_networkx(self.graph(round), self.labels)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, directed: bool = False) -> Network:
        """A text file with a link `i j [weight]` on each line, from i to j if directed."""
        pairs, weights, lines = graphs.read_edge_list(Path(path))
        return cls._given(os.fspath(path), pairs, weights, None, lines, directed)

    @classmethod
    def sequence(cls, networks: Iterable[Network | Graph]) -> Network:
        """Round robin through the given graphs, all of them directed or none."""
        turns: list[Graph] = []
        for k, item in enumerate(networks):
            if isinstance(item, Network) and not item.static:
                raise InputError(
                    f"sequence: network {k} ({item.description}) switches itself; give static ones",
                    code="sequence.switching",
                )
            graph = item.graph(0) if isinstance(item, Network) else item
            turns.append(graph)
            if type(graph) is not type(turns[0]):
                kinds = ("directed", "undirected") if isinstance(graph, Arcs) else ("undirected", "directed")
                raise InputError(
                    f"sequence: network {k} is {kinds[0]} but the first is {kinds[1]}; make all directed or none",
                    code="sequence.directed",
                )
            if turns[-1].n != turns[0].n:
                raise InputError(
                    f"sequence: network {k} has {turns[-1].n} nodes but the first has {turns[0].n}",
                    code="sequence.nodes",
                )
            if isinstance(graph, Arcs):
                graph.require_strongly_connected(f"sequence: network {k}")
            else:
                graph.require_connected(f"sequence: network {k}")
        if not turns:
            raise InputError("sequence: no networks given; give at least one", code="sequence.empty")
        name = "given directed graphs" if isinstance(turns[0], Arcs) else "given graphs"
        return cls(turns[0].n, f"{name}, {turns[0].n} nodes, {_manner(len(turns))}", turns)

    @classmethod
    def by_name(cls, kind: str, n: int, **options: Any) -> Network:
        """A network from its kind's name, as the command line gives it; an option that is None counts as not given."""
        name = kind.replace("-", "_")
        if name not in KINDS:
            raise unknown_name("network", kind, KINDS)
        build = getattr(cls, name)
        given = {option: value for option, value in options.items() if value is not None}
        if name == "complete" and given.pop("switching", 0) not in (0, 1):
            raise InputError(
                "network 'complete' cannot switch: it has one graph only; drop switching", code="switching.graphs"
            )
        known = [option for option in inspect.signature(build).parameters if option != "n"]
        for option in given:
            if option not in known:
                raise InputError(
                    f"network {kind!r} has no option {option!r} (it takes: {', '.join(known) or 'none'})",
                    code="network.option",
                )
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
        directed: bool,
    ) -> Network:
        """A graph drawn once, a few times, or every round."""
        count = _checked_switching(switching)
        draw = Draw(n, _checked_seed(seed), edges, advice, bool(directed))
        text = f"{'directed ' if directed else ''}{name}, {n} nodes, {_manner(count)}, seed {seed}"
        if count is None:
            return cls(n, text, draw)
        turns: list[Graph] = []
        taken: set[bytes] = set()
        for round in range(count):
            turns.append(draw.graph(round, taken))
            taken.add(_fingerprint(turns[-1]))
        return cls(n, text, turns)

    @classmethod
    def _shape(
        cls, name: str, n: int, edges: Edges, switching: Switching, seed: int, directed: bool = False
    ) -> Network:
        """A fixed shape; when it switches, the nodes change places."""
        if _checked_switching(switching) == 1:
            text = f"{'directed ' if directed else ''}{name}, {n} nodes, static"
            return cls(n, text, [_unweighted(n, edges, directed)])
        relabelled = partial(graphs.relabelled, n, edges, directed)
        return cls._random(name, n, relabelled, "", switching, seed, directed)

    @classmethod
    def _half_one_way(cls, name: str, n: int, edges: Edges, switching: Switching, seed: int) -> Network:
        """A fixed shape in which the seed chooses the links that carry one way."""
        rng = np.random.default_rng([_checked_seed(seed), 0, ATTEMPTS])  # no attempt of a Draw has this number
        network = cls._shape(name, n, graphs.half_one_way(n, edges, rng), switching, seed, directed=True)
        if network.static:
            network.description += f", seed {seed}"
        return network

    @classmethod
    def _given(
        cls,
        source: str,
        pairs: ArrayLike,
        weights: ArrayLike | None,
        n: int | None,
        lines: Sequence[int] | None = None,
        directed: bool = False,
    ) -> Network:
        """One static graph out of what the user gave."""
        n = _count_nodes(pairs, source) if n is None else n
        if directed:
            arcs = Arcs.from_edges(n, pairs, weights, source, lines)
            return cls(n, f"{source}, {n} nodes, {len(arcs.senders)} directed links, static", [arcs])
        topology = Topology.from_edges(n, pairs, weights, source, lines)
        return cls(n, f"{source}, {n} nodes, {topology.edges} links, static", [topology])


def _checked_switching(switching: Switching) -> int | None:
    """How many graphs take turns; None for a new one every round."""
    if isinstance(switching, str) and switching == "fresh":
        return None
    if isinstance(switching, bool) or not isinstance(switching, int | np.integer) or switching < 0:
        raise InputError(
            f'switching={switching!r}: expected 0 (static), a number of graphs to cycle, or "fresh"',
            code="switching.range",
        )
    return max(1, int(switching))


def _checked_seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed={seed!r}: must be a whole number, 0 or more", code="seed.range")
    return int(seed)


def _refuse_directed(shape: str, directed: bool) -> None:
    if directed:
        raise InputError(
            f"directed=True: every link of a {shape} is the only way back, so none can carry one way; "
            "use ring, grid, complete, erdos_renyi or geometric, or leave directed out",
            code="network.one_way",
        )


def _connected(directed: bool) -> str:
    return "strongly connected" if directed else "connected"


def _unweighted(n: int, edges: Edges, directed: bool) -> Graph:
    return Arcs.unweighted(n, *edges) if directed else Topology.unweighted(n, *edges)


def _manner(count: int | None) -> str:
    if count is None:
        return "a new graph every round"
    return "static" if count == 1 else f"{count} graphs in turn"


def _count_nodes(pairs: ArrayLike, source: str) -> int:
    if np.size(pairs) == 0:
        raise InputError(
            f"{source}: no edges given, so n is unknown; give edges, or n=1 for a single node", code="edge.none"
        )
    try:
        return int(np.max(np.asarray(pairs, dtype=np.float64))) + 1
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{source}: every edge must be a pair of whole numbers (i, j)", code="edge.form") from None


def _fingerprint(graph: Graph) -> bytes:
    ends = (graph.senders, graph.receivers) if isinstance(graph, Arcs) else (graph.tails, graph.heads)
    return hashlib.blake2b(ends[0].tobytes() + ends[1].tobytes(), digest_size=16).digest()
