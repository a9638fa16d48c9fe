"""The network of a training run as a chart: who could talk to whom in the last round, and who ended with how much."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from equipoise.present.echarts import Chart, Floats, Ints, Option, frame, grid, tooltip, x_axis, y_axis
from equipoise.present.text import count, number, percent
from equipoise.report.train_faults import gone_since, present
from equipoise.train.run import Run

CIRCLE, DRAWABLE = 60, 400  # nodes up to which the network is a circle, and up to which it is drawn at all
CROWDED = 400  # links from which on they are drawn fainter
BINS = 30
SPRING_STEPS = 60
RADIUS = 1000.0  # of the drawing; ECharts rounds level and upright links to whole units, which must be small ones


def network(run: Run, accuracy: Sequence[float | None] | None) -> Chart:
    """The graph of the last round, its nodes coloured by share or accuracy; for many nodes a histogram."""
    nodes, title, there = run.network.n, "The network", present(run)
    kind = f"{_repetition(run)} network ({run.network.description})"
    values, texts, scale = _node_values(run, accuracy)
    if nodes > DRAWABLE:
        note = f"{kind}. {nodes:,} nodes are too many to draw as a graph."
        if values is None or scale != "CPU share":
            return Chart("network", title, "", note, None)
        label = "Histogram: number of nodes by final CPU share"
        return Chart(
            "network", title, label, f"{note} Instead: how many ended with how many CPUs.", _histogram(values[there])
        )
    tails, heads, one_way = _links(run)
    links = count(len(tails), "one-way link" if one_way else "link")
    graph: Option = {
        "type": "graph",
        "layout": "none",  # the places are ours: they repeat, and ECharts fits them into the chart
        "preserveAspect": "contain",
        "left": 34,
        "right": 34,
        "top": 34,
        "bottom": 34 if values is None else 70,
        "data": _nodes(values, texts, circle(nodes) if nodes <= CIRCLE else springs(nodes, tails, heads), there),
        "links": [
            _link(i, j, one_way, there[i] and there[j]) for i, j in zip(tails.tolist(), heads.tolist(), strict=True)
        ],
        **({"edgeSymbol": ["none", "arrow"], "edgeSymbolSize": 7} if one_way else {}),
        "itemStyle": {"color": "@blue", "borderColor": "@paper", "borderWidth": 1},
        "lineStyle": {"color": "@edge", "width": 1, "opacity": 0.8 if len(tails) < CROWDED else 0.4},
        "label": {"show": nodes <= CIRCLE, "color": "@soft", "fontSize": 11},
        "emphasis": {"disabled": True},
    }
    return Chart(
        "network",
        title,
        f"Graph of {count(nodes, 'node')} and {links}" + (f", coloured by {scale}" if scale else ""),
        f"{kind}. Drawn {'are its' if run.network.static else 'is the last round:'} {links}. "
        "Nodes talk only along links"
        + (", in the direction of their arrows" if one_way else "")
        + "; there is no coordinator."
        + ("" if all(there) else " Grey ones, with dashed links, are gone."),
        frame(tooltip=tooltip("item"), series=[graph], **_colour_scale(values, scale)),
        tall=True,
    )


def _links(run: Run) -> tuple[Ints, Ints, bool]:
    """Ends of the links of the last round, and whether they carry one way only."""
    last = max(run.rounds - 1, 0)
    if run.network.directed:
        arcs = run.network.arcs(last)
        return arcs.senders, arcs.receivers, True
    topology = run.network.topology(last)
    return topology.tails, topology.heads, False


def _link(i: int, j: int, one_way: bool, open_: bool) -> Option:
    text = f"link from {i} to {j}" if one_way else f"link between {i} and {j}"
    link: Option = {"source": i, "target": j, "tooltip": {"formatter": text}}
    return link if open_ else link | {"lineStyle": {"type": "dashed", "opacity": 0.35}}


def _repetition(run: Run) -> str:
    if run.network.static:
        return "Static"
    return "Never repeating" if run.network.period is None else "Periodic"


def _node_values(run: Run, accuracy: Sequence[float | None] | None) -> tuple[Floats | None, list[str], str]:
    """A number for each node (not a number for those who are gone), its tooltip, and what the number is."""
    there = present(run)
    if run.shares is not None and np.isfinite(run.shares).all():
        texts = [f"node {i}: {number(x)} CPUs" for i, x in enumerate(run.shares.tolist())]
        if run.cpu_optimum is not None:
            best = run.cpu_optimum.shares.tolist()
            texts = [f"{text} (optimum {number(x)})" for text, x in zip(texts, best, strict=True)]
        return np.where(there, run.shares, np.nan), _without(run, texts), "CPU share"
    if accuracy is not None:
        values = np.array([np.nan if a is None else a for a in accuracy])
        texts = [f"node {i}: {percent(a)} right" for i, a in enumerate(accuracy)]
        return np.where(there, values, np.nan), _without(run, texts), "test accuracy"
    return None, _without(run, [f"node {i}" for i in range(run.network.n)]), ""


def _without(run: Run, texts: Sequence[str]) -> list[str]:
    """Those who are gone say since when."""
    return [
        text if here else gone_since(run, i) for i, (text, here) in enumerate(zip(texts, present(run), strict=True))
    ]


def circle(nodes: int) -> Floats:
    """Clockwise from the top; y points down, as on screens."""
    angle = 2 * np.pi * np.arange(nodes) / nodes
    return np.column_stack([np.sin(angle), -np.cos(angle)])


def springs(n: int, tails: Ints, heads: Ints) -> Floats:
    """Places as far apart as nodes are in hops, nearly: classical scaling, then majorised stress (SMACOF)."""
    links = csr_array((np.ones(len(tails)), (tails, heads)), shape=(n, n))
    hops = shortest_path(links, directed=False, unweighted=True)
    hops[~np.isfinite(hops)] = n
    centred = hops**2 - (hops**2).mean(axis=0)
    sizes, vectors = np.linalg.eigh(-0.5 * (centred - centred.mean(axis=1, keepdims=True)))
    longest = slice(-1, -3, -1)  # the longer of the two across
    places: Floats = vectors[:, longest] * np.sqrt(np.maximum(sizes[longest], 0.0))
    places += 0.1 * circle(n)  # parts nodes that are alike
    for _ in range(SPRING_STEPS):
        apart = np.linalg.norm(places[:, None] - places[None], axis=2)
        pull = -hops / np.maximum(apart, 1e-9)
        np.fill_diagonal(pull, 0.0)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        places = pull @ places / n
    return np.asarray(places / np.abs(places).max())


def _nodes(values: Floats | None, texts: Sequence[str], places: Floats, there: Sequence[bool]) -> list[Option]:
    """Place, size and tooltip of each; on a circle a label just outside it. Those who are gone are grey."""
    amount = len(texts)
    spread = np.zeros(amount)
    if values is not None and _varied(values):
        spread = np.nan_to_num((values - np.nanmin(values)) / (np.nanmax(values) - np.nanmin(values)))
    smallest, growth = (13, 11) if amount <= CIRCLE else (7, 7)
    found: list[Option] = []
    for i, text in enumerate(texts):
        size = float(smallest + growth * spread[i])
        x, y = (RADIUS * places[i]).round(1).tolist()
        node: Option = {"name": str(i), "x": x, "y": y, "symbolSize": round(size, 1), "tooltip": {"formatter": text}}
        if not there[i]:
            node |= {
                "visualMap": False,
                "itemStyle": {"color": "@edge", "borderColor": "@grey", "borderType": "dashed"},
            }
        elif values is not None:
            node["value"] = float(values[i])
        if amount <= CIRCLE:
            away = (size / 2 + 9) * places[i]
            node["label"] = {"position": "inside", "offset": away.round(1).tolist()}
        found.append(node)
    return found


def _varied(values: Floats) -> bool:
    return bool(np.nanmax(values) > np.nanmin(values))


def _colour_scale(values: Floats | None, scale: str) -> Option:
    """A legend of the colours, unless all nodes are alike."""
    if values is None or not _varied(values):
        return {}
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    ends = [percent(high), percent(low)] if scale == "test accuracy" else [f"{number(high)} CPUs", number(low)]
    return {
        "visualMap": {
            "type": "continuous",
            "min": low,
            "max": high,
            "orient": "horizontal",
            "left": "center",
            "bottom": 0,
            "itemWidth": 12,
            "itemHeight": 140,
            "text": ends,
            "textStyle": {"color": "@soft"},
            "inRange": {"color": ["@low", "@high"]},
            "hoverLink": False,
        }
    }


def _histogram(values: Floats) -> Option:
    counts, edges = np.histogram(values, bins=BINS)
    bars = {"type": "bar", "name": "nodes", "data": counts.tolist(), "barCategoryGap": "8%"}
    starts = [number(e, 3) for e in edges[:-1].tolist()]
    return frame(
        grid=grid(),
        xAxis=x_axis("CPUs", "category", pointer="from {value} CPUs", data=starts),
        yAxis=y_axis("nodes", minInterval=1),
        series=[bars | {"itemStyle": {"color": "@blue"}}],
    )
