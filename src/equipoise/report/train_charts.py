"""The charts of a training run, each from the run alone. One that has nothing to draw is None."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.present.echarts import (
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
from equipoise.present.text import count, number, percent
from equipoise.report.train_faults import event_marks, present, words_on_gaps, words_on_marks
from equipoise.train.hostile.run import HostileRun
from equipoise.train.run import Run

ROWS_DRAWN = 1000  # of the history; a page stays small whatever the run's length
SHARE_ROWS_DRAWN = 300
BANDS, LARGEST = 40, 20  # with more nodes than bands, the largest are drawn one by one and the rest as one
BARS, DOTS = 60, 500  # nodes up to which each has a bar, and how many dots are drawn at most
NARROW = 30  # nodes up to which a chart of all of them fits half a row


@dataclass(frozen=True)
class Curve:
    """A column of the history as a line."""

    column: str
    name: str
    colour: str
    stroke: Option
    meaning: str


TRACKER = Curve("tracker", "tracker", "@grey", {}, "error of the tracked gradient, mere rounding if all is well")
CURVES = (
    Curve("relative_gap", "relative gap", "@blue", {"width": 2.5}, "distance from what one central solver would reach"),
    Curve("consensus", "consensus", "@teal", {}, "how far the nodes' models differ"),
    Curve("loss_part", "loss", "@violet", {"width": 2.5}, "the worst node's loss, as a part of the one at the start"),
    Curve("kkt", "kkt", "@amber", {"type": "dashed"}, "how far the nodes' prices of a CPU differ"),
    TRACKER,
)


def convergence(run: Run, target: float | None) -> Chart | None:
    """Gap, consensus and kkt against rounds on a log axis; the tracker, many decades lower, in a strip below."""
    history = run.history
    if len(history.get("loss", np.empty(0))):
        history = history | {"loss_part": history["loss"] / max(float(history["loss"][0]), 1e-300)}
    rounds = history["round"]
    rows = thinned(len(rounds), ROWS_DRAWN)
    drawn = [(c, log_points(rounds, history[c.column], rows)) for c in CURVES if c.column in history]
    drawn = [(curve, points) for curve, points in drawn if any(y is not None for _, y in points)]
    if not drawn:
        return None
    series = [line(curve.name, points, curve.colour, stroke=curve.stroke) for curve, points in drawn]
    upper = [y for curve, points in drawn if curve is not TRACKER for _, y in points]
    lower = [y for curve, points in drawn if curve is TRACKER for _, y in points]
    if target is not None and target > 0 and drawn[0][0] is not TRACKER:
        series[0]["markLine"] = mark_at("yAxis", target, f"gap asked for: {number(target)}", "@soft")
        upper.append(target)
        if isinstance(run, HostileRun):  # events have their names on the left, as a rule
            series[0]["markLine"]["label"]["position"] = "insideEndTop"
    main = y_axis("relative (kkt: price)" if "kkt" in run.history else "relative", "log", **_powers(upper))
    panels: Option = {"grid": grid(legend=True), "xAxis": _round_axis(), "yAxis": main}
    if lower:
        series[-1] |= {"xAxisIndex": 1, "yAxisIndex": 1}
        panels = _with_strip(main, y_axis("tracker, relative", "log", **_powers(lower, labels=2)))
    marks = event_marks(run)
    if marks is not None:
        series.append(marks)
    said = "; ".join(f"{curve.name}: {curve.meaning}" for curve, _ in drawn)
    zeros = any(y is None for y in upper + lower)
    return Chart(
        "convergence",
        "Progress over the rounds",
        f"Line chart: {', '.join(curve.name for curve, _ in drawn)} against rounds, on a logarithmic axis"
        + (", with events as upright marks" if marks is not None else ""),
        f"Lower is better ({said})."
        + words_on_gaps(run)
        + (" Zeros and negative values are left out: a logarithmic axis has no place for them." if zeros else "")
        + _thinning(rows, len(rounds)),
        frame(
            **panels,
            legend=legend(icon="inherit", itemWidth=26, data=[curve.name for curve, _ in drawn]),
            tooltip=tooltip("axis", valueFormatter="@short"),
            series=series,
        ),
        tall=True,
    )


def _with_strip(main: Option, strip: Option) -> Option:
    """Two panels over one axis of rounds: a tall one, and a strip below it."""
    sides = {"left": 52, "right": 16, "outerBoundsMode": "none"}
    silent = {"axisLabel": {"show": False}, "axisTick": {"show": False}, "name": ""}
    return {
        "grid": [{**sides, "top": 30, "bottom": 152}, {**sides, "height": 40, "bottom": 78}],
        "xAxis": [_round_axis() | silent, _round_axis() | {"gridIndex": 1}],
        "yAxis": [main, strip | {"gridIndex": 1}],
        "axisPointer": {"link": [{"xAxisIndex": "all"}]},
    }


def bits_spent(run: Run) -> Chart | None:
    """Relative gap against bits sent, both on log axes."""
    sent, gap = run.history["bits"], run.history["relative_gap"]
    rows = thinned(len(sent), ROWS_DRAWN)
    rows = rows[(sent[rows] > 0) & (gap[rows] > 0) & np.isfinite(gap[rows])]
    if len(rows) < 2:
        return None
    points = log_points(sent, gap, rows)
    across = log_range(sent[rows].tolist(), 4) | {"axisLabel": _label("@bits")}
    return Chart(
        "bits",
        "What the progress cost in messages",
        "Line chart: relative gap against bits sent over all links, both axes logarithmic",
        f"Each number sent takes {count(run.method.quantizer.bits, 'bit')} where a recent one was heard, 64 where not; "
        "the curve shows how many bits "
        "over all links bought how small a gap.",
        frame(
            grid=grid(),
            tooltip=tooltip("axis", valueFormatter="@short"),
            xAxis=x_axis("bits sent over all links", "log", pointer="@bitsPointer", **across),
            yAxis=y_axis("relative gap", "log", **_powers([y for _, y in points])),
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
    largest = np.arange(nodes)
    if nodes > BANDS:
        largest = np.sort(np.argsort(-shares[-1], kind="stable")[:LARGEST])
    series = [
        _band(f"node {i}", _points(rounds, shares[:, i]), colour, stacked=not negative)
        for i, colour in zip(largest.tolist(), hues(len(largest)), strict=True)
    ]
    top_of_bands: Option = {}
    if negative:
        meaning = "Some shares are negative, so each node has a line; in every round they sum to the budget."
    else:
        meaning = (
            "Each band is a node's share. CPUs move between nodes, but the bands end at the budget in every round."
        )
        if len(largest) < nodes:
            rest = np.setdiff1d(np.arange(nodes), largest)
            others = _points(rounds, shares[:, rest].sum(axis=1))
            series.append(_band(f"{len(rest):,} others", others, "@edge", stacked=True))
        if isinstance(run, HostileRun):
            top_of_bands = {"max": float(run.history["budget"].max())}  # else rounding may ask for a tick above it
            flying = _points(rounds, run.history["in_flight"][rows])
            series.append(_band("in flight", flying, "@grey", stacked=True))
            meaning = (
                "Each band is a node's share, and the grey one is in flight, in nobody's share. Shares alone never exceed "
                "the budget, and with what is in flight they are the budget in every round."
            )
        budget, dashes = _points(rounds, run.history["budget"][rows]), {"type": "dashed", "width": 1.5}
        series.append(line("budget", budget, "@ink", step="end", stroke=dashes))
    names = [entry["name"] for entry in series]
    marks = event_marks(run)
    if marks is not None:
        series.append(marks)
        meaning += words_on_marks(run)
    if len(largest) < nodes:
        meaning += f" Of {nodes:,} nodes the {LARGEST} largest are drawn one by one."
    shape, top = ("Lines", "") if negative else ("Stacked areas", ", with the budget as a dashed line")
    return Chart(
        "shares",
        "How the CPUs were shared",
        f"{shape}: CPU share of each node against rounds{top}",
        meaning + _thinning(rows, len(history)),
        frame(
            grid=grid(legend=True),
            legend=legend(data=names),
            tooltip=tooltip("axis", formatter="@bands"),
            xAxis=_round_axis(),
            yAxis=y_axis("CPUs", **top_of_bands),
            series=series,
        ),
        tall=True,
    )


def _band(name: str, points: list[Any], colour: str, *, stacked: bool) -> Option:
    drawn = line(name, points, colour, stroke={"width": 1.5})
    if stacked:
        drawn |= {"stack": "shares", "areaStyle": {"color": colour, "opacity": 0.85}}
        drawn["lineStyle"] = {"color": "@paper", "width": 0.75}
    return drawn


def final_shares(run: Run) -> Chart | None:
    """What each node ended with, beside what a central planner would have given it."""
    if run.shares is None or run.cpu_optimum is None or not np.isfinite(run.shares).all():
        return None
    best, there = run.cpu_optimum.shares, np.flatnonzero(present(run))
    nodes = len(there)
    few = nodes <= BARS
    shown = there if few else there[np.argsort(best[there], kind="stable")[thinned(nodes, DOTS)]]
    blue, ink = {"color": "@blue", "opacity": 0.75}, {"color": "@ink", "opacity": 1}
    final: Option = {"name": "final share", "data": run.shares[shown].tolist(), "itemStyle": blue}
    optimal: Option = {"name": "optimal share", "data": best[shown].tolist(), "itemStyle": ink}
    if few:
        final |= {"type": "bar", "barMaxWidth": 18}
        optimal |= {
            "type": "scatter",
            "symbol": "rect",
            "symbolSize": [16 if nodes <= 12 else 12 if nodes <= 24 else 9, 3],
        }
        label = "Bars of each node's final CPU share with a mark at the optimal one"
        meaning = "Where a bar ends at its mark, the node got what a central planner would have given it."
    else:
        final |= {"type": "scatter", "symbolSize": 5}
        optimal |= {"type": "line", "showSymbol": False, "lineStyle": {"color": "@ink", "width": 1}, "z": 3}
        label = "Dots of final CPU shares and a line of the optimal ones"
        amount = f"{len(shown)} of {nodes:,} nodes" if len(shown) < nodes else "Nodes"
        meaning = (
            f"{amount}, sorted; where dots lie on the line, nodes got what a central planner would have given them."
        )
    off = float(np.abs(run.shares - best)[there].max())
    if nodes < len(best):
        meaning += " Those who are gone have no bar." if few else " Those who are gone are left out."
    return Chart(
        "final",
        "Final shares against the optimum",
        label,
        f"{meaning} The farthest is {number(off, 3)} CPUs away.",
        frame(
            grid=grid(legend=True),
            legend=legend(),
            tooltip=tooltip("axis", valueFormatter="@short"),
            xAxis=_node_axis("node" if few else "node, by optimal share", shown),
            yAxis=y_axis("CPUs", scale=not few),
            series=[final, optimal],
        ),
        wide=nodes > NARROW,
    )


def node_accuracy(accuracy: dict[str, Any]) -> Chart | None:
    """Test accuracy of each node's own model, with the centralised one's as a line."""
    nodes = np.array([math.nan if a is None else a for a in accuracy["nodes"]], dtype=float)  # None: it is gone
    there = np.flatnonzero(np.isfinite(nodes))
    if not len(there) or any(a is not None and not math.isfinite(a) for a in accuracy["nodes"]):
        return None
    central = accuracy.get("centralised")
    few = len(there) <= DOTS
    shown = there if few else there[np.argsort(nodes[there], kind="stable")[thinned(len(there), DOTS)]]
    drawn = [*nodes[there].tolist(), *([] if central is None else [float(central)])]
    low, high = min(drawn), max(drawn)
    margin = max(0.01, 0.25 * (high - low))
    bottom, top = max(0.0, math.floor(100 * (low - margin)) / 100), min(1.0, math.ceil(100 * (high + margin)) / 100)
    dots: Option = {
        "type": "scatter",
        "name": "own model",
        "data": nodes[shown].tolist(),
        "symbolSize": 9 if len(shown) <= BARS else 5,
        "itemStyle": {"color": "@teal", "opacity": 0.9},
    }
    if central is not None:
        dots["markLine"] = mark_at("yAxis", central, f"centralised {percent(central)}")
    return Chart(
        "accuracy",
        "Test accuracy of each node's own model",
        "Dots: test accuracy of each node"
        + (", with the centralised model's as a dashed line" if central is not None else ""),
        "Each dot is one node's own model on data that nobody trained on"
        + (
            "; at the dashed line it is as good as a model trained on all data in one place."
            if central is not None
            else "."
        )
        + ("" if len(there) == len(nodes) else " Those who are gone have no dot.")
        + (" The axis does not begin at zero." if bottom > 0 else "")
        + ("" if few else f" {len(shown)} of {len(there):,} nodes are drawn, worst first."),
        frame(
            grid=grid(),
            tooltip=tooltip("axis", valueFormatter="@percent"),
            xAxis=_node_axis("node" if few else "node, by accuracy", shown),
            yAxis=y_axis("right answers", min=bottom, max=top, axisLabel=_label("@percent")),
            series=[dots],
        ),
        wide=len(shown) > NARROW,
    )


def _round_axis() -> Option:
    return x_axis("round", pointer="round {value}", max="dataMax", minInterval=1)


def _node_axis(name: str, nodes: Ints) -> Option:
    return x_axis(name, "category", pointer="node {value}", data=[str(i) for i in nodes.tolist()])


def _points(x: Floats, y: Floats) -> list[list[float]]:
    return [[float(a), float(b)] for a, b in zip(x, y, strict=True)]


def _label(formatter: str) -> Option:
    return {"color": "@soft", "hideOverlap": True, "formatter": formatter}


def _powers(values: Sequence[float | None], labels: int = 7) -> Option:
    return log_range(values, labels) | {"axisLabel": _label("@power")}


def _thinning(rows: Ints, recorded: int) -> str:
    return f" {len(rows)} of {recorded:,} recorded rows are drawn." if len(rows) < recorded else ""
