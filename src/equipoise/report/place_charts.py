"""Charts that set policies side by side: what they earned and completed, how fast, and why jobs did not finish."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from equipoise.place.simulate import Result
from equipoise.present.echarts import (
    HUES,
    Chart,
    Floats,
    Option,
    frame,
    grid,
    legend,
    line,
    log_range,
    mark_at,
    thinned,
    tooltip,
    x_axis,
    y_axis,
)
from equipoise.present.text import count, number
from equipoise.report.share_charts import LOG_SPREAD, Look, looks

Row = dict[str, Any]
MOST_POINTS = 250  # of a policy's curve of completion times
INSIDE = 0.3  # of the axis: from here a bar has room for its value
REASON_WORDS = {
    "infeasible_alone": "fits no machine",
    "beyond_horizon": "beyond horizon",
    "no_capacity": "no capacity",
    "priced_out": "priced out",
    "waiting": "waiting",
    "unfinished": "unfinished",
}


def styles_of(results: Sequence[Result], names: Sequence[str]) -> list[Look]:
    """A look per policy: its own colour, unless an earlier one has it."""
    taken: set[str] = set()
    told = []
    for result, name in zip(results, names, strict=True):
        colour = str(getattr(result.policy, "colour", "")).lower()
        told.append(SimpleNamespace(label=name, colour="" if colour in taken else colour))
        taken.add(colour)
    return looks(cast(Any, told))


def utility_by_policy(rows: Sequence[Row], styles: Sequence[Look], bound: float | None, kind: str = "LP") -> Chart:
    """What each policy earned, and the most that any could have."""
    values = [row["utility"] for row in rows]
    meaning = "The worth of the jobs that finished, by when they did: higher is better."
    option = _bars(values, styles, "utility", max(values))
    if bound:
        mark = mark_at("xAxis", bound, f"{kind} bound {number(bound)}")
        mark["label"] |= {"position": "start", "distance": 4, "align": "right"}
        option["series"][0]["markLine"] = mark
        option["xAxis"]["max"] = float(f"{1.04 * max(bound, *values):.3g}")
        option["grid"]["top"] = 26
        meaning += " No policy can pass the bound, which knows all jobs in advance."
    if not any(values):
        meaning += " Here no policy earned anything."
    label = "Bars: utility per policy" + (", with the bound as a line" if bound else "")
    return Chart("utility", "Utility", label, meaning, option)


def completed_by_policy(rows: Sequence[Row], styles: Sequence[Look], jobs: int) -> Chart:
    """How many jobs were done."""
    option = _bars([row["completed"] for row in rows], styles, f"jobs, of {jobs:,}", jobs)
    option["xAxis"] |= {"minInterval": 1, "max": max(jobs, 1)}
    meaning = f"Out of {count(jobs, 'job')}. A policy may complete fewer jobs and earn more: jobs differ in worth."
    return Chart("completed", "Completed jobs", "Bars: completed jobs per policy", meaning, option)


def _bars(values: Sequence[float], styles: Sequence[Look], unit: str, top: float) -> Option:
    """A lying bar per policy, its value in it or beside it; `top` is the end of the axis."""
    data = [
        {"value": value, "itemStyle": {"color": look.colour}}
        | ({"label": {"position": "insideRight", "color": "@paper"}} if value > INSIDE * top else {})
        for value, look in zip(values, styles, strict=True)
    ]
    label = {"show": True, "position": "right", "color": "@ink", "formatter": "@barValue"}
    bars = {"type": "bar", "name": unit, "data": data, "barMaxWidth": 26, "barCategoryGap": "30%"}
    names = lanes(styles)
    return frame(
        grid=grid() | {"right": 28},
        tooltip=tooltip("item", formatter="@barTip"),
        xAxis=x_axis(unit, pointer="{value}", min=0),
        yAxis=names,
        series=[bars | {"label": label}],
    )


def lanes(styles: Sequence[Look]) -> Option:
    """An axis of policies, the first on top."""
    names = y_axis("", "category", data=[look.name for look in styles], inverse=True)
    names["axisLabel"] |= {"width": 110, "overflow": "truncate", "interval": 0, "color": "@ink"}
    names["splitLine"] = {"show": False}
    return names


def completion_times(results: Sequence[Result], styles: Sequence[Look]) -> Chart:
    """The part of all jobs that was done within so many hours of arrival, a line per policy."""
    title, total = "Completion times", len(results[0].jobs)
    drawn = [np.sort(result.completion) for result in results]
    if not any(len(hours) for hours in drawn):
        return Chart("completion", title, "", "No job finished under any policy: there are no times to show.", None)
    everything = np.concatenate(drawn)
    low, high = float(everything.min()), float(everything.max())
    wide = high > LOG_SPREAD * low
    start = log_range([low, high])["min"] if wide else 0.0
    end = float(f"{1.05 * high:.4g}")
    series = []
    for hours, look in zip(drawn, styles, strict=True):
        points = [[start, 0.0], *_steps(hours, total)]
        points.append([end, points[-1][1]])
        series.append(line(look.name, points, look.colour, step="end", emphasis={"focus": "series"}))
        series[-1]["showSymbol"] = False
    axis = {"min": start, "max": end} if wide else {"min": 0, "max": end}
    option = frame(
        grid=grid(legend=True) | {"top": 26},
        legend=legend(),
        tooltip=tooltip("axis", formatter="@withinHours"),
        xAxis=x_axis("hours from arrival", "log" if wide else "value", pointer="{value}", **axis),
        yAxis=y_axis("% of all jobs", min=0),
        series=series,
    )
    option["xAxis"]["axisLabel"] |= {"showMaxLabel": False}
    if wide:
        option["xAxis"]["axisLabel"] |= {"formatter": "@power"}
    few = [look.name for hours, look in zip(drawn, styles, strict=True) if not len(hours)]
    meaning = (
        "Jobs done within so many hours of their arrival, in percent of all jobs and not of the completed ones: a "
        "policy that drops long jobs does not look quicker for it."
    )
    meaning += " The axis of hours is logarithmic." if wide else ""
    meaning += f" {' and '.join(few)} completed none." if few else ""
    return Chart("completion", title, "Lines: percent of jobs done within so many hours, per policy", meaning, option)


def _steps(hours: Floats, total: int) -> list[list[float]]:
    """[hours, percent of all jobs done by then], one point where several share a time."""
    times, last = np.unique(hours, return_index=True)
    done = np.append(last[1:], len(hours)) if len(hours) else last
    rows = thinned(len(times), MOST_POINTS)
    return [
        [round(float(t), 4), round(100.0 * int(n) / total, 3)] for t, n in zip(times[rows], done[rows], strict=True)
    ]


def reasons(results: Sequence[Result], styles: Sequence[Look]) -> Chart:
    """Why jobs did not finish: the last reason each was told."""
    title = "Why jobs did not finish"
    told = [result.reasons for result in results]
    kinds = [kind for kind in REASON_WORDS if any(kind in row for row in told)]
    kinds += sorted({kind for row in told for kind in row if kind not in REASON_WORDS})
    if not kinds:
        return Chart("reasons", title, "", "Every job finished under every policy.", None)
    series = [
        {
            "type": "bar",
            "stack": "jobs",
            "name": REASON_WORDS.get(kind, kind.replace("_", " ")),
            "data": [row.get(kind, 0) for row in told],
            "itemStyle": {"color": HUES[(3 * k) % len(HUES)]},
            "barMaxWidth": 26,
        }
        for k, kind in enumerate(kinds)
    ]
    option = frame(
        grid=grid(legend=True),
        legend=legend(),
        tooltip=tooltip("axis", axisPointer={"type": "shadow"}, formatter="@stackAt"),
        xAxis=x_axis("jobs not finished", pointer="{value}", min=0, minInterval=1),
        yAxis=lanes(styles),
        series=series,
    )
    meaning = "The last reason each unfinished job was told."
    if "beyond_horizon" in kinds:
        meaning += " Beyond horizon: it could not finish in it even alone on an empty cluster."
    if "waiting" in kinds:
        meaning += " Waiting: its turn had not come, or had not lasted, by the end."
    if "priced_out" in kinds:
        meaning += " Priced out: its cheapest schedule cost more than finishing it was worth."
    return Chart("reasons", title, "Stacked bars: jobs not finished per policy, by reason", meaning, option)


def calibration_scores(trials: Sequence[Row]) -> list[Chart]:
    """A chart for every policy and kind of price: each candidate with what it earned on history, the chosen marked."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for trial in trials:
        groups.setdefault((trial["policy"], trial["kind"]), []).append(trial)
    return [_calibration(k, *key, mine) for k, (key, mine) in enumerate(groups.items())]


def _calibration(k: int, policy: str, kind: str, trials: Sequence[Row]) -> Chart:
    positive = [trial["level"] for trial in trials if trial["level"] > 0]
    wide = bool(positive) and max(positive) > LOG_SPREAD * min(positive)
    families = list(dict.fromkeys(_family(trial) for trial in trials if trial["level"] > 0 or not wide))
    series: list[Option] = []
    for n, family in enumerate(families):
        mine = sorted((t for t in trials if _family(t) == family), key=lambda t: float(t["level"]))
        points = [[t["level"], t["utility"], t["completed"]] for t in mine if t["level"] > 0 or not wide]
        series.append(line(family, points, HUES[(3 * n) % len(HUES)]) | {"showSymbol": True, "symbolSize": 7})
    chosen = [[t["level"], t["utility"]] for t in trials if t["chosen"] and (t["level"] > 0 or not wide)]
    if chosen:
        ring = {"type": "scatter", "name": "chosen", "data": chosen, "symbol": "circle", "symbolSize": 17, "z": 5}
        rim = {"color": "transparent", "borderColor": "@ink", "borderWidth": 2}
        series.append(ring | {"silent": True, "itemStyle": rim})
    unit = "times the LP's prices" if kind == "bid" else "price of the whole empty cluster for a slot"
    ends = {"min": min(positive) / 1.3, "max": max(positive) * 1.3} if wide else {}
    option = frame(
        grid=grid(legend=True) | {"top": 26},
        legend=legend(),
        tooltip=tooltip("item", formatter="@trial"),
        xAxis=x_axis(unit, "log" if wide else "value", pointer="{value}", **ends),
        yAxis=y_axis("utility on history", scale=True),
        series=series,
    )
    option["xAxis"]["axisLabel"] |= {"formatter": "@short", "showMinLabel": False, "showMaxLabel": False}
    meaning = f"{count(len(trials), 'candidate')} replayed over history, never over the jobs of this page."
    if len(families) > 1:
        meaning += " A line joins those that rise alike with use (ratio) and with distance in time (lead, in slots)."
    free = [t["utility"] for t in trials if not t["level"] > 0]
    if free and wide:
        meaning += f" Without prices: {number(free[0])}, not drawn."
    elsewhere = (
        "The chosen one is ringed." if any(t["chosen"] for t in trials) else "The one chosen is of another kind."
    )
    title = f"Calibration of {policy}: {kind} prices"
    label = "Lines: utility on history by level of price"
    return Chart(f"calibration-{k}", title, label, f"{meaning} {elsewhere}", option)


def _family(trial: Row) -> str:
    """What the candidates of one line have in common."""
    return f"ratio {number(trial['ratio'], 3)}" + (f", lead {number(trial['lead'])}" if trial["lead"] else "")
