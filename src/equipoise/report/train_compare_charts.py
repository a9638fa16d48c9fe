"""The charts of a comparison of methods: what bits and rounds buy, what it does to the budget, and the trade-offs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.present.echarts import (
    Chart,
    Floats,
    Option,
    frame,
    grid,
    line,
    log_range,
    mark_at,
    symbol,
    thinned,
    tooltip,
    x_axis,
    y_axis,
)
from equipoise.report.share_charts import Look
from equipoise.train.comparison import MethodComparison
from equipoise.train.studies import ALPHA_ROUNDS, Study

PLACES = 140  # along the axis of bits
ROWS_DRAWN = 250  # along the axis of rounds
FLOOR, CEILING = 1e-12, 1e3  # what lies beyond is drawn at the border: rounding, or a divergence
SAID = {"distance": "relative distance", "relative_gap": "relative gap"}
Bands = dict[str, dict[str, list[list[float]]]]  # chart, entrant: the outline of a band


def charts_of(result: MethodComparison, looks: dict[str, Look]) -> tuple[list[Chart], Bands]:
    """THE picture first: distance against bits."""
    bands: Bands = {}
    wanted = (("distance", "bits"), ("distance", "rounds"), ("relative_gap", "bits"), ("relative_gap", "rounds"))
    first, second, third, fourth = (_progress(result, looks, measure, axis, bands) for measure, axis in wanted)
    return [first, second, _violations(result, looks, bands), third, fourth], bands


def _progress(result: MethodComparison, looks: dict[str, Look], measure: str, axis: str, bands: Bands) -> Chart:
    key = f"{measure}-{axis}"
    series, outlines = [], {}
    for name, look in looks.items():
        places = _places(result, name, axis)
        low, middle, high = np.clip(result.band(name, axis, places, measure), FLOOR, CEILING)
        points = [[float(x), float(y)] for x, y in zip(places, middle, strict=True)]
        series.append(_line(look, points, bold=name == result.reference))
        if len(result.seeds) > 1:
            upper = [[float(x), float(y)] for x, y in zip(places, high, strict=True)]
            lower = [[float(x), float(y)] for x, y in zip(places, low, strict=True)]
            outlines[look.name] = upper + lower[::-1]
    bands[key] = outlines
    seen = [point[1] for one in series for point in one["data"]]
    across: Option
    if axis == "bits":
        sent = [point[0] for one in series for point in one["data"]]
        across = x_axis(
            "bits sent over all links", "log", pointer="@bitsPointer", **log_range(sent, 5), axisLabel=_label("@bits")
        )
    else:
        across = x_axis("round", pointer="round {value}", max=result.rounds, minInterval=1)
    band = " The line is the median over seeds, the band the middle half of them." if len(result.seeds) > 1 else ""
    if measure == "distance":
        meaning = (
            "Distance of the shares from the optimal ones, as a part of that at the start: nobody can cheat it by "
        )
        meaning += "breaking the budget. Lower and further left is better; lines end where the rounds do." + band
    else:
        meaning = (
            "|F - F*| as a part of that at the start. Methods that break the budget can pass through 0 on the way "
        )
        meaning += "and look better here than they are." + band
    what = "How near the optimum" if measure == "distance" else "The cost's gap"
    return Chart(
        key,
        f"{what}, for how many {axis}",
        f"Lines: median {SAID[measure]} against {axis}, one per entrant, with bands over seeds",
        meaning,
        frame(
            grid=grid(),
            legend={"show": False},
            tooltip=tooltip("axis", valueFormatter="@short"),
            xAxis=across,
            yAxis=y_axis(SAID[measure], "log", **log_range(seen), axisLabel=_label("@power")),
            series=series,
        ),
        wide=key == "distance-bits",
        tall=key == "distance-bits",
    )


def _places(result: MethodComparison, name: str, axis: str) -> Floats:
    """Rounds as they were recorded; bits in even steps of their logarithm, from the first message to the last."""
    tracks = result.tracks[name]
    if axis == "rounds":
        rounds = max((track.round for track in tracks), key=len)
        return np.asarray(rounds[thinned(len(rounds), ROWS_DRAWN)])
    first = float(np.median([track.bits[min(1, len(track.bits) - 1)] for track in tracks]))
    last = float(np.median([track.bits[-1] for track in tracks]))
    return np.geomspace(max(first, 1.0), max(last, first, 1.0), PLACES)


def _violations(result: MethodComparison, looks: dict[str, Look], bands: Bands) -> Chart:
    """|sum x - b| over the rounds; those that never break it have no line, and are named."""
    series, outlines, exact = [], {}, []
    for name, look in looks.items():
        places = _places(result, name, "rounds")
        low, middle, high = result.band(name, "rounds", places, "violation")
        if not (high > 0).any():
            exact.append(look.name)
            continue
        drawn = [[float(x), float(y) if y > FLOOR else None] for x, y in zip(places, middle, strict=True)]
        series.append(_line(look, drawn, bold=False))
        there = (low > FLOOR) & np.isfinite(high)
        outlines[look.name] = [
            *([float(x), float(y)] for x, y in zip(places[there], high[there], strict=True)),
            *([float(x), float(y)] for x, y in zip(places[there][::-1], low[there][::-1], strict=True)),
        ]
    bands["violation"] = outlines if len(result.seeds) > 1 else {}
    seen = [point[1] for one in series for point in one["data"]]
    named = f" Exactly 0 in every round, so without a line: {', '.join(exact)}." if exact else ""
    return Chart(
        "violation",
        "How far the budget was broken on the way",
        "Lines: |sum of shares - budget| in CPUs against rounds, one per entrant that breaks it",
        "CPUs given away that are not there, or left unused, in each round." + named,
        frame(
            grid=grid(),
            legend={"show": False},
            tooltip=tooltip("axis", valueFormatter="@short"),
            xAxis=x_axis("round", pointer="round {value}", max=result.rounds, minInterval=1),
            yAxis=y_axis("CPUs", "log", **log_range(seen), axisLabel=_label("@power")),
            series=series,
        )
        if series
        else None,
    )


def study_charts(study: Study, looks: dict[str, Look]) -> list[Chart]:
    """A panel per measure over the knob."""
    if study.name == "alpha":
        return [_alpha_chart(study)]
    knob = {"rho": ("rho", "rho: coarseness of the code"), "density": ("degree", "mean number of neighbours")}[
        study.name
    ]
    columns = ("round", "bits", "distance") if study.name == "rho" else ("round", "bits", "messages")
    return [_knob_panel(study, looks, *knob, column) for column in columns]


def _knob_panel(study: Study, looks: dict[str, Look], knob: str, said: str, column: str) -> Chart:
    series, never = [], []
    for name, look in looks.items():
        rows = [row for row in study.rows if row["entrant"] == name]
        points = [[row[knob], row[column]] for row in rows]
        if all(point[1] is None for point in points):
            never.append(look.name)
        else:
            series.append(_line(look, points, bold=name == "Ours") | {"showSymbol": True, **symbol(look, 8)})
    seen = [point[1] for one in series for point in one["data"]]
    at = sorted({row[knob] for row in study.rows})
    what = {"round": "Rounds", "bits": "Bits", "messages": "Messages", "distance": "Distance"}[column]
    label = _label("@bits" if column == "bits" else "@power")
    missing = f" Never there within the rounds played: {', '.join(never)}." if never else ""
    flat = study.name == "rho" and column != "distance"
    upright = y_axis(what.lower(), min=0, axisLabel=_label("@bits" if column == "bits" else "@short"))
    if not flat:
        upright = y_axis(what.lower(), "log", **log_range(seen), axisLabel=label)
    ticks = {"customValues": at, "lineStyle": {"color": "@line"}}
    across = x_axis(said, "log", pointer=f"{knob} {{value}}", min=at[0] / 1.2, max=at[-1] * 1.2, axisTick=ticks)
    across["axisLabel"] = _label("@short") | {"customValues": at}
    return Chart(
        column,
        "Relative distance at the end" if column == "distance" else f"{what} to a relative distance of 1e-6",
        f"Lines: {what.lower()} against {said}",
        "Medians over seeds: what a residual is left."
        if column == "distance"
        else f"Medians over seeds; a gap where most seeds do not arrive.{missing}",
        frame(
            grid=grid(),
            legend={"show": False},
            tooltip=tooltip("axis", valueFormatter="@short"),
            xAxis=across,
            yAxis=upright,
            series=series,
        )
        if series
        else None,
    )


def _alpha_chart(study: Study) -> Chart:
    """Rounds over alpha in units of the paper's bound, the bound and the limit marked, divergences as crosses above."""
    points = [[row["part"], row["round"]] for row in study.rows]
    rounds = line("converged", points, "@blue", stroke={"width": 2.5}) | {"showSymbol": True, "symbolSize": 8}
    limit = study.rows[0]["limit_part"]
    marks = mark_at("xAxis", 1.0, "the paper's bound", "@soft")
    if limit:
        marks["data"].append({"xAxis": limit, "label": {"formatter": f"limit, {limit:.3g}"}})
    rounds["markLine"] = marks
    best = min((row for row in study.rows if row["round"]), key=lambda row: row["round"], default=None)
    series = [
        rounds,
        _dots("diverged", [row for row in study.rows if row["diverged"]], "@bad", "triangle"),
        _dots("not there in time", [row for row in study.rows if row["slow"]], "@amber", "emptyCircle"),
    ]
    if best:
        tuned = {"type": "scatter", "name": "best", "data": [[best["part"], best["round"]]], "symbolSize": 15}
        series.append(tuned | {"symbol": "diamond", "itemStyle": {"color": "@good"}, "z": 5})
    parts = log_range([row["part"] for row in study.rows], 6) | {"axisLabel": _label("@power")}
    across = x_axis("alpha, in units of |lambda_2|/L", "log", pointer="{value} of the bound", **parts)
    return Chart(
        "alpha",
        "How large a step along the tracked gradient",
        "Line: rounds to a gap of 1e-6 against alpha in units of |lambda_2|/L, with divergences marked",
        "Least squares, no momentum; rounds to a relative gap of 1e-6, the median over seeds. Red triangles: at least one "
        f"seed diverges. Amber circles: one or more not there after {ALPHA_ROUNDS:,} rounds. Green: the best step. "
        "Dashed: the bound, and the limit of the rounds as played for the median seed.",
        frame(
            grid=grid(),
            legend={"show": False},
            tooltip=tooltip("item", valueFormatter="@short"),
            xAxis=across,
            yAxis=y_axis("rounds to 1e-6", "log", min=10, max=10_000, axisLabel=_label("@power")),
            series=series,
        ),
        wide=True,
        tall=True,
    )


def _dots(name: str, rows: Sequence[dict[str, Any]], colour: str, symbol: str) -> Option:
    data = [[row["part"], 2 * ALPHA_ROUNDS] for row in rows]
    look = {"symbol": symbol, "symbolSize": 11, "itemStyle": {"color": colour}}
    return {"type": "scatter", "name": name, "data": data, **look}


def _line(look: Look, points: Sequence[Any], *, bold: bool) -> Option:
    stroke = {"width": 3.5 if bold else 2, "type": "dashed" if look.dashed else "solid"}
    return line(look.name, points, look.colour, stroke=stroke, z=4 if bold else 3)


def _label(formatter: str) -> Option:
    return {"color": "@soft", "hideOverlap": True, "formatter": formatter}
