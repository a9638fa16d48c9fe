"""To and from other libraries: networkx graphs of networks, scikit-learn estimators of trained models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.errors import InputError
from equipoise.train.arrays import Floats
from equipoise.train.models.least_squares import LeastSquares
from equipoise.train.models.smooth_svm import SmoothSVM
from equipoise.train.models.softmax import Softmax
from equipoise.train.topology import Arcs, Topology

if TYPE_CHECKING:
    from equipoise.train.run import Run

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


def to_sklearn(run: Run, centre: int | None, classes: Any) -> Any:
    """See `Run.to_sklearn`."""
    model = run.problem.model
    if model is None or run.models is None:
        raise InputError("to_sklearn: this run trained no model; give its Problem one", code="run.model")
    if not isinstance(model, Softmax | SmoothSVM | LeastSquares):
        raise InputError(
            f"to_sklearn: scikit-learn has no estimator that is exactly a {type(model).__name__}; there is one for "
            "Softmax, SmoothSVM and LeastSquares. The parameters are in run.models",
            code="estimator.none",
        )
    there = np.asarray(getattr(run, "present", np.empty(0)), dtype=bool)
    y = _parameters(run.models, there if there.size else np.ones(len(run.models), dtype=bool), centre)
    if isinstance(model, LeastSquares):
        from sklearn.linear_model import LinearRegression

        if classes is not None:
            raise InputError("to_sklearn: LeastSquares has no classes; leave them out", code="estimator.classes")
        return _fitted(LinearRegression(fit_intercept=False), coef_=y.copy(), intercept_=0.0, n_features_in_=len(y))
    if isinstance(model, SmoothSVM):
        from sklearn.svm import LinearSVC

        names = _names(classes, np.array([-1, 1]))
        return _fitted(
            LinearSVC(C=1.0 / model.reg),
            classes_=names,
            coef_=y[None, :-1].copy(),
            intercept_=np.array([-y[-1]]),
            n_features_in_=len(y) - 1,
        )
    from sklearn.linear_model import LogisticRegression

    W = y.reshape(model.features + 1, model.classes)
    if model.classes == 2:  # scikit-learn has one row for two classes: the second against the first
        W = W[:, 1:] - W[:, :1]
    return _fitted(
        LogisticRegression(C=1.0 / model.reg),
        classes_=_names(classes, np.arange(model.classes)),
        coef_=np.ascontiguousarray(W[:-1].T),
        intercept_=W[-1].copy(),
        n_features_in_=model.features,
        n_iter_=np.array([run.rounds]),
    )


def _parameters(models: Floats, there: Any, centre: int | None) -> Floats:
    """The model of one centre, or the average of those that are there at the end."""
    if centre is None:
        return np.asarray(models[there].mean(axis=0))
    if isinstance(centre, bool) or not isinstance(centre, int | np.integer) or not 0 <= centre < len(models):
        raise InputError(
            f"to_sklearn: centre is {centre!r}; expected one of 0 to {len(models) - 1}, or none", code="run.centre"
        )
    if not there[centre]:
        raise InputError(f"to_sklearn: centre {centre} is gone at the end of this run; choose one that is there")
    return np.asarray(models[centre])


def _names(given: Any, labels: Any) -> Any:
    if given is None:
        return labels
    names = np.asarray(given)
    if names.shape != labels.shape or len(set(names.tolist())) < len(names):
        raise InputError(f"to_sklearn: classes are {given!r}; expected {len(labels)} different names")
    return names


def _fitted(estimator: Any, **learned: Any) -> Any:
    for name, value in learned.items():
        setattr(estimator, name, value)
    return estimator
