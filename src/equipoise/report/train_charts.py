"""The charts of a training run, each from the run alone. One that has nothing to draw is None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.report.charts import (
    Chart,
    Floats,
    Ints,
    Option,
    frame,
    grid,
    hues,
    legend,
    line,
    log_points,
    log_range,
    mark_at,
    thinned,
    tooltip,
    x_axis,
    y_axis,
)
from equipoise.report.words import count, number, percent
from equipoise.train.run import Run

ROWS_DRAWN = 1000  # of the history; a page stays small whatever the run's length
SHARE_ROWS_DRAWN = 300
BANDS, LARGEST = 40, 20  # with more nodes than bands, the largest are drawn one by one and the rest as one
CIRCLE, DRAWABLE = 60, 400  # nodes up to which the network is a circle, and up to which it is drawn at all
BARS, DOTS = 60, 500  # nodes up to which each has a bar, and how many dots are drawn at most
BINS = 30

# Column of the history, its name, its colour and stroke, and what it says.
CURVES = (
    ("relative_gap", "relative gap", "@blue", {"width": 2.5}, "how far the result is from what one central solver with all "
     "data and all CPUs would reach, as a part of the distance at the start"),
    ("consensus", "consensus", "@teal", {}, "how far the nodes' models still differ"),
    ("kkt", "kkt", "@amber", {"type": "dashed"}, "how far the nodes' prices of a CPU still differ"),
    ("tracker", "tracker", "@grey", {"type": "dotted"}, "the error of the tracked gradient, which is rounding when all is well"),
)  # fmt: skip


def convergence(run: Run, target: float | None) -> Chart | None:
    """Gap, consensus, kkt and tracker against rounds, on a log axis."""
    rows = thinned(len(run.history["round"]), ROWS_DRAWN)
    drawn = [
        (curve, log_points(run.history["round"], run.history[curve[0]], rows))
        for curve in CURVES
        if curve[0] in run.history
    ]
    drawn = [(curve, points) for curve, points in drawn if any(y is not None for _, y in points)]
    if not drawn:
        return None
    series = [line(name, points, colour, stroke=stroke) for (_, name, colour, stroke, _), points in drawn]
    values = [y for _, points in drawn for _, y in points]
    if target is not None and target > 0:
        series[0]["markLine"] = mark_at("yAxis", target, f"target {number(target)}", "@soft")
        values.append(target)
    zeros = any(y is None for _, points in drawn for _, y in points)
    said = "; ".join(f"{name} is {meaning}" for (_, name, _, _, meaning), _ in drawn)
    return Chart(
        "convergence",
        "How fast it converged",
        f"Line chart: {', '.join(curve[1] for curve, _ in drawn)} against rounds, on a logarithmic axis",
        f"Lower is better: {said}."
        + (" Values of zero have no place on a logarithmic axis and are left out." if zeros else "")
        + _thinning(rows, len(run.history["round"])),
        frame(
            grid=grid(legend=True),
            legend=legend(icon="inherit", itemWidth=26, itemHeight=10),
            tooltip=tooltip("axis", valueFormatter="@short"),
            xAxis=x_axis("round", max="dataMax"),
            yAxis=y_axis("relative to the start or size; kkt in price", "log", **_powers(log_range(values))),
            series=series,
        ),
    )


def bits_spent(run: Run) -> Chart | None:
    """Relative gap against bits sent, both on log axes."""
    sent, gap = run.history["bits"], run.history["relative_gap"]
    rows = thinned(len(sent), ROWS_DRAWN)
    rows = rows[(sent[rows] > 0) & (gap[rows] > 0) & np.isfinite(gap[rows])]
    if len(rows) < 2:
        return None
    points = log_points(sent, gap, rows)
    return Chart(
        "bits",
        "What the progress cost in messages",
        "Line chart: relative gap against bits sent over all links, both axes logarithmic",
        f"Each number sent takes {count(run.method.quantizer.bits, 'bit')}; the curve shows how many bits over all links bought which accuracy.",
        frame(
            grid=grid(),
            tooltip=tooltip("axis", valueFormatter="@short"),
            xAxis=x_axis(
                "bits sent over all links", "log", **log_range(sent[rows].tolist()), axisLabel=_label("@bits")
            ),
            yAxis=y_axis("relative gap", "log", **_powers(log_range(y for _, y in points))),
            series=[line("relative gap", points, "@blue", stroke={"width": 2.5})],
        ),
    )


def shares_over_time(run: Run) -> Chart | None:
    """Stacked areas that fill the budget; plain lines where a share is negative, since those cannot be stacked."""
    history = run.share_history
    if history is None or not np.isfinite(history).all():
        return None
    rows = thinned(len(history), SHARE_ROWS_DRAWN)
    rounds, shares = run.history["round"][rows], history[rows]
    nodes, negative = shares.shape[1], bool((shares < 0).any())
    bands = [(f"node {i}", shares[:, i]) for i in range(nodes)]
    if nodes > BANDS:
        largest = np.sort(np.argsort(-shares[-1], kind="stable")[:LARGEST])
        rest = np.setdiff1d(np.arange(nodes), largest)
        bands = [bands[i] for i in largest]
        if not negative:
            bands.append((f"{len(rest)} others", shares[:, rest].sum(axis=1)))
    series = [
        _band(name, _points(rounds, share), colour, stacked=not negative)
        for (name, share), colour in zip(bands, hues(len(bands)), strict=True)
    ]
    if nodes > BANDS and not negative:
        series[-1]["itemStyle"]["color"] = "@grey"
    budget = line(
        "budget",
        _points(rounds, run.history["budget"][rows]),
        "@ink",
        step="end",
        stroke={"type": "dashed", "width": 1.5},
    )
    meaning = (
        "Some shares are negative, so each node is a line of its own; together they are the budget in every round."
        if negative
        else "The bands are the nodes' shares; together they fill the budget in every round, while CPUs move from who needs them less to who needs them more."
    )  # fmt: skip
    if nodes > BANDS:
        meaning += f" Of {nodes:,} nodes the {LARGEST} largest are drawn one by one."
    return Chart(
        "shares",
        "How the CPUs were shared",
        f"{'Lines' if negative else 'Stacked areas'}: CPU share of each node against rounds, with the budget as a dashed line",
        meaning + _thinning(rows, len(history)),
        frame(
            grid=grid(legend=True),
            legend=legend(),
            tooltip=tooltip("axis", formatter="@bands"),
            xAxis=x_axis("round", max="dataMax"),
            yAxis=y_axis("CPUs"),
            series=series if negative else [*series, budget],
        ),
    )


def _band(name: str, points: list[Any], colour: str, *, stacked: bool) -> Option:
    drawn = line(name, points, colour, stroke={"width": 1.5})
    if stacked:
        drawn |= {"stack": "shares", "areaStyle": {"color": colour, "opacity": 0.85}}
        drawn["lineStyle"] = {"color": "@paper", "width": 0.75}
    return drawn


def network(run: Run, accuracy: Sequence[float] | None) -> Chart:
    """The graph of the last round, its nodes coloured by share, or else by accuracy."""
    nodes, title = run.network.n, "The network"
    kind = _repetition(run)
    if nodes > DRAWABLE:
        note = f"{nodes:,} nodes are too many to draw as a graph. It is {run.network.description}: {kind}."
        if run.shares is None or not np.isfinite(run.shares).all():
            return Chart("network", title, "", note, None)
        return Chart("network", "The network's shares", "Histogram: number of nodes by final CPU share",
                     f"{note} Shown is how many nodes ended with how many CPUs.", _histogram(run.shares))  # fmt: skip
    topology = run.network.topology(max(run.rounds - 1, 0))
    values, texts, scale = _node_values(run, accuracy)
    circle = nodes <= CIRCLE
    spread = np.zeros(nodes) if values is None or np.ptp(values) == 0 else (values - values.min()) / np.ptp(values)
    smallest, growth = (13, 11) if circle else (7, 7)
    graph: Option = {
        "type": "graph",
        "layout": "circular" if circle else "force",
        "left": "center",
        "top": 30,
        "bottom": 70,
        "data": [
            {
                "name": str(i),
                "value": None if values is None else float(values[i]),
                "symbolSize": round(float(smallest + growth * spread[i]), 1),
                "tooltip": {"formatter": texts[i]},
            }
            for i in range(nodes)
        ],
        "links": [
            {"source": int(i), "target": int(j), "tooltip": {"formatter": f"link between {i} and {j}"}}
            for i, j in zip(topology.tails, topology.heads, strict=True)
        ],
        "itemStyle": {"color": "@blue", "borderColor": "@paper", "borderWidth": 1},
        "lineStyle": {"color": "@edge", "width": 1, "opacity": 0.8 if len(topology.tails) < 400 else 0.4},
        "label": {"show": circle, "color": "@soft", "fontSize": 11, "position": "right"},
        "circular": {"rotateLabel": True},
        "force": {
            "initLayout": "circular",
            "layoutAnimation": False,
            "repulsion": 30,
            "edgeLength": 20,
            "gravity": 0.15,
        },
    }
    links = count(len(topology.tails), "link")
    return Chart(
        "network",
        title,
        f"Graph of {count(nodes, 'node')} and {links}" + (f", coloured by {scale}" if scale else ""),
        f"{run.network.description[:1].upper()}{run.network.description[1:]}: {kind}. "
        f"Drawn {'is' if run.network.static else 'is the last round, with'} {links}; nodes talk only along them, "
        "and no coordinator exists.",
        frame(tooltip=tooltip("item"), series=[graph], **_colour_scale(values, scale)),
        tall=True,
    )


def _repetition(run: Run) -> str:
    if run.network.static:
        return "static, the same links in every round"
    if run.network.period is None:
        return "never repeating, new links in every round"
    return f"periodic, {run.network.period} sets of links in turn"


def _node_values(run: Run, accuracy: Sequence[float] | None) -> tuple[Floats | None, list[str], str]:
    """A number for each node, its tooltip, and what the number is."""
    if run.shares is not None and np.isfinite(run.shares).all():
        best = None if run.cpu_optimum is None else run.cpu_optimum.shares
        texts = [f"node {i}: {number(x)} CPUs" for i, x in enumerate(run.shares.tolist())]
        if best is not None:
            texts = [f"{text} (optimum {number(x)})" for text, x in zip(texts, best.tolist(), strict=True)]
        return run.shares, texts, "CPU share"
    if accuracy is not None:
        return np.array(accuracy), [f"node {i}: {percent(a)} right" for i, a in enumerate(accuracy)], "test accuracy"
    return None, [f"node {i}" for i in range(run.network.n)], ""


def _colour_scale(values: Floats | None, scale: str) -> Option:
    if values is None or np.ptp(values) == 0:
        return {}
    show = percent if scale == "test accuracy" else number
    low, high = float(values.min()), float(values.max())
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
            "text": [f"{show(high)}{' CPUs' if scale == 'CPU share' else ''}", show(low)],
            "textStyle": {"color": "@soft"},
            "inRange": {"color": ["@low", "@high"]},
            "hoverLink": False,
        }
    }


def _histogram(values: Floats) -> Option:
    counts, edges = np.histogram(values, bins=BINS)
    return frame(
        grid=grid(),
        xAxis=x_axis("CPUs", "category", data=[number(e, 3) for e in edges[:-1].tolist()]),
        yAxis=y_axis("nodes", minInterval=1),
        series=[{"type": "bar", "name": "nodes", "data": counts.tolist(), "barCategoryGap": "8%", "itemStyle": {"color": "@blue"}}],
    )  # fmt: skip


def final_shares(run: Run) -> Chart | None:
    """What each node ended with, beside what a central planner would have given it."""
    if run.shares is None or run.cpu_optimum is None or not np.isfinite(run.shares).all():
        return None
    nodes, best = len(run.shares), run.cpu_optimum.shares
    few = nodes <= BARS
    shown = np.arange(nodes) if few else np.argsort(best, kind="stable")[thinned(nodes, DOTS)]
    ended, planned = run.shares[shown].tolist(), best[shown].tolist()
    if few:
        width = 14 if nodes <= 24 else 8
        series: list[Option] = [
            {"type": "bar", "name": "final share", "data": ended, "barMaxWidth": 18, "itemStyle": {"color": "@blue", "opacity": 0.75}},
            {"type": "scatter", "name": "optimal share", "data": planned, "symbol": "rect", "symbolSize": [width, 3], "itemStyle": {"color": "@ink", "opacity": 1}},
        ]  # fmt: skip
    else:
        series = [
            {"type": "line", "name": "optimal share", "data": planned, "showSymbol": False, "step": "middle", "itemStyle": {"color": "@ink"}, "lineStyle": {"color": "@ink", "width": 1.5}},
            {"type": "scatter", "name": "final share", "data": ended, "symbolSize": 5, "itemStyle": {"color": "@blue", "opacity": 0.9}},
        ]  # fmt: skip
    if few:
        sign = "Where a bar ends at its mark, the node got what a central planner would have given it."
    elif nodes <= DOTS:
        sign = "Nodes from the least to the most CPUs; where dots lie on the line, nodes got what a central planner would have given them."
    else:
        sign = (f"{len(shown)} of {nodes:,} nodes, from the least to the most CPUs; where dots lie on the line, nodes got what a "
                "central planner would have given them.")  # fmt: skip
    off = float(np.abs(run.shares - best).max())
    return Chart(
        "final",
        "Final shares against the optimum",
        "Bars of each node's final CPU share with a mark at the optimal one" if few else "Dots of final CPU shares over a line of the optimal ones",
        f"{sign} The farthest is {number(off, 3)} CPUs away.",
        frame(
            grid=grid(legend=True),
            legend=legend(),
            tooltip=tooltip("axis", valueFormatter="@short"),
            xAxis=x_axis("node", "category", data=[str(i) for i in shown.tolist()]),
            yAxis=y_axis("CPUs", **({} if few else {"scale": True})),
            series=series,
        ),
        wide=nodes > 30,
    )  # fmt: skip


def node_accuracy(accuracy: dict[str, Any]) -> Chart | None:
    """Test accuracy of each node's own model, with the centralised one's as a line."""
    nodes, central = np.array(accuracy["nodes"], dtype=float), float(accuracy["centralised"])
    if not len(nodes) or not np.isfinite(nodes).all():
        return None
    shown: Ints = (
        np.arange(len(nodes)) if len(nodes) <= DOTS else np.argsort(nodes, kind="stable")[thinned(len(nodes), DOTS)]
    )
    low, high = min(float(nodes.min()), central), max(float(nodes.max()), central)
    margin = max(0.01, 0.25 * (high - low))
    dots = {
        "type": "scatter",
        "name": "own model",
        "data": nodes[shown].tolist(),
        "symbolSize": 9 if len(shown) <= BARS else 5,
        "itemStyle": {"color": "@teal", "opacity": 0.9},
        "markLine": mark_at("yAxis", central, f"centralised {percent(central)}"),
    }
    sampled = f" {len(shown)} of {len(nodes):,} nodes are drawn, worst first." if len(shown) < len(nodes) else ""
    return Chart(
        "accuracy",
        "Test accuracy of each node's own model",
        "Dots: test accuracy of each node, with the centralised model's as a dashed line",
        "Each dot is one node's own model on data that nobody trained on; at the dashed line it answers as well as a model "
        f"trained on all data in one place. The axis does not begin at zero.{sampled}",
        frame(
            grid=grid(),
            tooltip=tooltip("axis", valueFormatter="@percent"),
            xAxis=x_axis("node", "category", data=[str(i) for i in shown.tolist()]),
            yAxis=y_axis(
                "right answers",
                min=max(0.0, np.floor(100 * (low - margin)) / 100),
                max=min(1.0, np.ceil(100 * (high + margin)) / 100),
                axisLabel=_label("@percent"),
            ),
            series=[dots],
        ),
        wide=len(shown) > 30,
    )


def _points(x: Floats, y: Floats) -> list[list[float]]:
    return np.column_stack([x, y]).tolist()  # type: ignore[no-any-return]


def _label(formatter: str) -> Option:
    return {"color": "@soft", "hideOverlap": True, "formatter": formatter}


def _powers(limits: Option) -> Option:
    return limits | {"axisLabel": _label("@power")}


def _thinning(rows: Ints, recorded: int) -> str:
    return (
        f" {len(rows)} of {recorded:,} recorded rows are drawn; history.csv has them all."
        if len(rows) < recorded
        else ""
    )
