"""The network of a training run: who could talk to whom in the last round, who ended with how much, and what went wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from equipoise.document import Document, Row
from equipoise.present.echarts import Floats, Ints, Option, frame, tooltip
from equipoise.present.figures import Axis, Drawing, Figure, Mark, Series
from equipoise.present.text import count, number, percent

CIRCLE = 60  # nodes up to which the network is a circle
CROWDED = 400  # links from which on they are drawn fainter
BINS = 30
SPRING_STEPS = 60
RADIUS = 1000.0  # of the drawing; ECharts rounds level and upright links to whole units, which must be small ones
LABELLED = 14  # marks; with more of them only the lines are drawn
CLOSE = 1 / 30  # of all rounds: events nearer than this share a label
LATE = 0.93  # of all rounds: there a name would leave the chart on the right
NAMED = 3  # centres in a label
COLOURS = {"crash": "@bad", "split": "@bad", "leave": "@amber", "join": "@good", "heal": "@good"}
AFTERMATH = ("noticed", "cut")  # drawn fainter and without a name: they follow from what came before
REPEATS = {"static": "Static", "never": "Never repeating", "periodic": "Periodic"}


def about_network(document: Document) -> Row:
    """How many nodes, its description, whether links repeat; what 0.1.0 wrote has it in the settings only."""
    result, config = document.result, document.config
    each = result.get("shares") or (result.get("accuracy") or result.get("losses") or {}).get("nodes")
    old = {"nodes": len(each) if each else config.get("nodes", 0), "description": config.get("network", "")}
    found: Row = result.get("network", old)
    return found


def network(document: Document) -> Drawing | Figure | None:
    """The graph of the last round, its nodes coloured by share or accuracy; for many nodes a histogram."""
    about, there = about_network(document), present(document)
    if "repeats" not in about:
        return None
    nodes, kind = len(there), f"{REPEATS[about['repeats']]} network ({about['description']})"
    values, texts, scale = _node_values(document, there)
    edges = document.arrays.get("edges")
    if edges is None:
        note = f"{kind}. {nodes:,} nodes are too many to draw as a graph."
        return _histogram(None if values is None or scale != "CPU share" else values[there], note)
    tails, heads, one_way = edges[:, 0].astype(np.int64), edges[:, 1].astype(np.int64), bool(about["directed"])
    links = count(len(tails), "one-way link" if one_way else "link")
    graph: Option = {
        "type": "graph",
        "layout": "none",  # the places are ours: they repeat, and ECharts fits them into the chart
        "preserveAspect": "contain",
        **{"left": 34, "right": 34, "top": 34, "bottom": 34 if values is None else 70},
        "data": _nodes(values, texts, circle(nodes) if nodes <= CIRCLE else springs(nodes, tails, heads), there),
        "links": [_link(*ends, one_way, there) for ends in zip(tails.tolist(), heads.tolist(), strict=True)],
        **({"edgeSymbol": ["none", "arrow"], "edgeSymbolSize": 7} if one_way else {}),
        "itemStyle": {"color": "@blue", "borderColor": "@paper", "borderWidth": 1},
        "lineStyle": {"color": "@edge", "width": 1, "opacity": 0.8 if len(tails) < CROWDED else 0.4},
        "label": {"show": nodes <= CIRCLE, "color": "@soft", "fontSize": 11},
        "emphasis": {"disabled": True},
    }
    words = f"Graph of {count(nodes, 'node')} and {links}" + (f", coloured by {scale}" if scale else "")
    caption = (
        f"{kind}. Drawn {'are its' if about['repeats'] == 'static' else 'is the last round:'} {links}. Nodes talk only "
        f"along links{', in the direction of their arrows' if one_way else ''}; there is no coordinator."
        + ("" if all(there) else " Grey ones, with dashed links, are gone.")
    )
    option = frame(tooltip=tooltip("item"), series=[graph], **_colour_scale(values, scale))
    return Drawing("network", "The network", words, caption, option, tall=True)


def _link(i: int, j: int, one_way: bool, there: Sequence[bool]) -> Option:
    text = f"link from {i} to {j}" if one_way else f"link between {i} and {j}"
    gone = {} if there[i] and there[j] else {"lineStyle": {"type": "dashed", "opacity": 0.35}}
    return {"source": i, "target": j, "tooltip": {"formatter": text}, **gone}


def _node_values(document: Document, there: Sequence[bool]) -> tuple[Floats | None, list[str], str]:
    """A number for each node (not a number for those who are gone), its tooltip, and what the number is."""
    result, values, said, scale = document.result, None, [""] * len(there), ""
    if result.get("shares") is not None and None not in result["shares"]:
        values, scale = result["shares"], "CPU share"
        said = [f": {number(share)} CPUs" for share in values]
        if "optimal_shares" in result:
            said = [f"{own} (optimum {number(x)})" for own, x in zip(said, result["optimal_shares"], strict=True)]
    elif result.get("accuracy") is not None:
        values, scale = result["accuracy"]["nodes"], "test accuracy"
        said = [f": {percent(right)} right" for right in values]
    texts = [f"node {i}{said[i]}" if here else gone_since(document, i) for i, here in enumerate(there)]
    return None if values is None else np.where(there, np.array(values, dtype=float), np.nan), texts, scale


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
    spread, circled = np.zeros(len(texts)), len(texts) <= CIRCLE
    if values is not None and (ends := _ends(values)):
        spread = np.nan_to_num((values - ends[0]) / (ends[1] - ends[0]))
    smallest, growth = (13, 11) if circled else (7, 7)
    found: list[Option] = []
    for i, text in enumerate(texts):
        size = float(smallest + growth * spread[i])
        x, y = (RADIUS * places[i]).round(1).tolist()
        node: Option = {"name": str(i), "x": x, "y": y, "symbolSize": round(size, 1), "tooltip": {"formatter": text}}
        if not there[i]:
            grey = {"color": "@edge", "borderColor": "@grey", "borderType": "dashed"}
            node |= {"visualMap": False, "itemStyle": grey}
        elif values is not None:
            node["value"] = float(values[i])
        if circled:
            away = (size / 2 + 9) * places[i]
            node["label"] = {"position": "inside", "offset": away.round(1).tolist()}
        found.append(node)
    return found


def _ends(values: Floats) -> tuple[float, float] | None:
    """The smallest and the largest; None where all are alike."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return (low, high) if high > low else None


def _colour_scale(values: Floats | None, scale: str) -> Option:
    """A legend of the colours, unless all nodes are alike."""
    ends = None if values is None else _ends(values)
    if ends is None:
        return {}
    low, high = ends
    said = [percent(high), percent(low)] if scale == "test accuracy" else [f"{number(high)} CPUs", number(low)]
    place = {"orient": "horizontal", "left": "center", "bottom": 0, "itemWidth": 12, "itemHeight": 140}
    look = {"text": said, "textStyle": {"color": "@soft"}, "inRange": {"color": ["@low", "@high"]}, "hoverLink": False}
    return {"visualMap": {"type": "continuous", "min": low, "max": high, **place, **look}}


def _histogram(values: Floats | None, note: str) -> Figure:
    """How many nodes have how many CPUs; without values, the words alone."""
    if values is None:
        return Figure("The network", Axis(), Axis(), caption=note, key="network")
    counts, edges = np.histogram(values, bins=BINS)
    x = Axis("CPUs", groups=[number(e, 3) for e in edges[:-1].tolist()], point="from {value} CPUs")
    series = [Series("nodes", np.arange(len(counts)), counts, "bars", colour="@blue")]
    note += " Instead: how many ended with how many CPUs."
    label = "Histogram: number of nodes by final CPU share"
    return Figure("The network", x, Axis("nodes", whole=True), series, caption=note, key="network", label=label)


# Events.


def hostile(document: Document) -> bool:
    """Whether the run was on a network with faults."""
    return "packets_lost" in document.result


def events_of(document: Document) -> list[Row]:
    """What happened, in order; empty where nothing did."""
    return document.result.get("events") or []


def present(document: Document) -> list[bool]:
    """Who is there at the end."""
    nodes = int(about_network(document)["nodes"])
    if not hostile(document):
        return [True] * nodes
    there = set(document.result["present"])
    return [i in there for i in range(nodes)]


def gone_since(document: Document, node: int) -> str:
    """node 7: crashed in round 137."""
    words = {"crash": "crashed", "leave": "left"}
    last = [event for event in events_of(document) if event["kind"] in words and node in event["nodes"]]
    if not last:
        return f"node {node}: never came"
    return f"node {node}: {words[last[-1]['kind']]} in round {last[-1]['round']}"


def event_marks(document: Document) -> list[Mark]:
    """An upright mark for every event; events that are close together share a name."""
    events, rounds = events_of(document), max(document.result["rounds"], 1)
    found = []
    for event, text in zip(events, _labels(events, rounds), strict=True):
        follows, late = event["kind"] in AFTERMATH, event["round"] > LATE * rounds
        colour, width = COLOURS.get(event["kind"], "@soft"), 1 if follows else 1.5
        found.append(Mark("x", event["round"], text, colour, "dotted" if follows else "solid", late, width))
    return found


def _labels(events: Sequence[Row], rounds: int) -> list[str]:
    """One name for events that are close together, at the first of them."""
    groups: list[list[int]] = []
    for k, event in enumerate(events):
        if event["kind"] in AFTERMATH:
            continue
        if groups and event["round"] - events[groups[-1][0]]["round"] < CLOSE * rounds:
            groups[-1].append(k)
        else:
            groups.append([k])
    texts = [""] * len(events)
    if len(groups) <= LABELLED:
        for group in groups:
            texts[group[0]] = _together([events[k] for k in group])
    return texts


def _together(events: Sequence[Row]) -> str:
    """crash 3, 7; join 9."""
    parts: list[str] = []
    for kind in dict.fromkeys(event["kind"] for event in events):
        nodes = sorted({node for event in events if event["kind"] == kind for node in event["nodes"]})
        many = ", ".join(map(str, nodes[:NAMED])) + (", …" if len(nodes) > NAMED else "")
        parts.append(kind if kind in ("split", "heal") else f"{kind} {many}")
    return "; ".join(parts)


def words_on_marks(document: Document) -> str:
    """What the marks of a chart mean."""
    return " Upright marks are events; dotted ones, when neighbours notice." if events_of(document) else ""


def words_on_gaps(document: Document) -> str:
    """Why the curve jumps."""
    if not hostile(document):
        return ""
    found = " The gap is against what those who are there could reach, as a part of the"
    if not events_of(document):
        return found + " gap at the start."
    return (
        f"{found} gap at the last event, or of equal shares and first models: each event sets a new optimum, so the curve "
        f"jumps there and falls anew.{words_on_marks(document)}"
    )
