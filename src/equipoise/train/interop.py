"""To and from networkx: graphs of networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.errors import InputError
from equipoise.train.topology import Arcs, Topology

Labels = tuple[Any, ...]  # what the nodes 0..n-1 were called


def to_networkx(graph: Topology | Arcs, labels: Labels | None) -> Any:
    """A networkx Graph, or DiGraph of one-way links, with every node, its label and each link's weight."""
    try:
        import networkx
    except ImportError:
        raise InputError("networkx is not installed: pip install 'equipoise[plots]'") from None
    directed = isinstance(graph, Arcs)
    found = networkx.DiGraph() if directed else networkx.Graph()
    names = labels or tuple(range(graph.n))
    found.add_nodes_from(names)
    ends = (graph.senders, graph.receivers) if isinstance(graph, Arcs) else (graph.tails, graph.heads)
    pairs = zip(*(end.tolist() for end in ends), graph.weights.tolist(), strict=True)
    found.add_weighted_edges_from((names[i], names[j], w) for i, j, w in pairs)
    return found


def from_networkx(given: Any, weight: str, directed: bool | None) -> tuple[list[Topology | Arcs], Labels | None]:
    """One graph of a network for each networkx graph, and what its nodes are called if not 0..n-1 in this order.

    The first graph's order numbers the nodes of all. Undirected unless a link has no way back of equal weight somewhere.
    """
    graphs = [given] if hasattr(given, "edges") else list(given) if hasattr(given, "__iter__") else []
    if not graphs or not all(hasattr(g, "edges") and hasattr(g, "is_directed") for g in graphs):
        raise InputError(
            f"from_networkx takes a networkx graph, or several of them, not {_kind(given)}", code="networkx.type"
        )
    names = list(graphs[0].nodes())
    number = {name: k for k, name in enumerate(names)}
    links: list[list[tuple[int, int, Any]]] = []
    for k, graph in enumerate(graphs):
        strangers = [name for name in graph.nodes() if name not in number]
        if strangers or graph.number_of_nodes() != len(names):
            missing = [name for name in names if name not in graph]
            odd, where = (strangers[0], "the first graph has not") if strangers else (missing[0], "the first graph has")
            raise InputError(
                f"from_networkx: graph {k} {'has' if strangers else 'lacks'} the node {odd!r}, which {where}; "
                "give every graph the same nodes",
                code="networkx.nodes",
            )
        links.append([(number[i], number[j], w) for i, j, w in graph.edges(data=weight, default=1.0)])
    one_way = [g.is_directed() and _one_way(pairs) for g, pairs in zip(graphs, links, strict=True)]
    as_arcs = any(one_way) if directed is None else directed
    found: list[Topology | Arcs] = []
    for k, (graph, pairs) in enumerate(zip(graphs, links, strict=True)):
        source = "networkx graph (nodes numbered in graph order)" if len(graphs) == 1 else f"networkx graph {k}"
        both = pairs if graph.is_directed() or not as_arcs else [*pairs, *((j, i, w) for i, j, w in pairs)]
        ends, weights = [(i, j) for i, j, _ in both], [w for *_, w in both]
        build = Arcs.from_edges if as_arcs else Topology.from_edges
        found.append(build(len(names), ends, weights, source))
    return found, None if names == list(range(len(names))) else tuple(names)


def _one_way(links: Sequence[tuple[int, int, Any]]) -> bool:
    known = {(i, j): w for i, j, w in links}
    return any(known.get((j, i)) != w for i, j, w in links)


def _kind(given: Any) -> str:
    return "none" if isinstance(given, list | tuple) and not given else type(given).__name__
