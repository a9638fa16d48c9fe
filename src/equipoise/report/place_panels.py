"""The three panels of one policy's schedule: machines by slot, their prices or use, and the use of each resource."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from equipoise.present.echarts import HUES, Chart, Option, frame, grid, legend, line, tooltip, x_axis, y_axis
from equipoise.present.text import number
from equipoise.report.place_gantt import MOST_TIMES, Window

ZOOM_FROM = 60  # slots: fewer can be told apart without
DASHES = ("solid", "solid", [7, 6], [2, 5])  # resources are often used in one proportion: the line below shows through
CELLS: Option = {"type": "custom", "clip": True, "progressive": 0, "data": []}


def duration(seconds: float) -> str:
    """600 as 10 min, 3600 as 1 h."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{number(seconds / size, 3)} {unit}"
    return f"{number(seconds, 3)} s"


def floor_panels(
    window: Window, slot: float, names: Sequence[str], chosen: int, resources: Sequence[str], *, priced: bool
) -> list[Chart]:
    """Without data: the page fills in the policy chosen."""
    unit = f"slot of {duration(slot)}"
    bars = (
        "A bar is a job on a machine; its height is the share of the machine's resource it needs most, and jobs on one "
        "machine are stacked. Pale bars are jobs that did not finish. Hover or touch one to read it."
    )
    heat = (
        "What all of a machine costs for a slot at the use it had in the end: its resources at their posted prices, "
        "which rise with use, before any discount for slots that are near. A policy without prices shows the use of the "
        "machine's fullest resource instead."
        if priced
        else "No policy here posts prices: the use of each machine's fullest resource."
    )
    span = -(-window.all_slots // MOST_TIMES)
    mean = f" Means over spans of {span} slots." if span > 1 else ""
    marked = " The band is the window shown above." if window.slots < window.all_slots else ""
    return [
        Chart("floor", "Who ran where and when", "", _choice(names, chosen) + window.cut, None, wide=True),
        Chart(
            "gantt",
            "Machines by slot, coloured by job",
            "Gantt chart: a row per machine, a bar per job over the slots in which it ran there",
            bars,
            _gantt(unit, zoom=window.slots > ZOOM_FROM),
            wide=True,
            tall=True,
        ),
        Chart(
            "heat",
            "Price of every machine by slot" if priced else "Use of every machine by slot",
            "Heat map: machines by slot, coloured by price or by use",
            heat,
            _heat(unit),
            wide=True,
            tall=True,
        ),
        Chart(
            "use",
            "Use of each resource",
            "Lines: percent of each resource of the whole cluster in use, by slot",
            f"Of the whole cluster, under the policy chosen.{mean}{marked}",
            _use(unit, resources),
            wide=True,
        ),
    ]


def _choice(names: Sequence[str], chosen: int) -> Markup:
    options = [
        Markup('<option value="{}"{}>{}</option>').format(k, Markup(" selected") if k == chosen else "", name)
        for k, name in enumerate(names)
    ]
    return Markup(
        '<span class="choices"><label>Schedule under <select id="shown-policy">{}</select></label></span>'
        '<span class="story" aria-live="polite"></span>'
    ).format(Markup("").join(options))


def _rows(names: Sequence[str] = ()) -> Option:
    rows = y_axis("", "category", data=list(names), inverse=True)
    rows["axisLabel"] |= {"width": 96, "overflow": "truncate"}
    rows["splitLine"] = {"show": True, "lineStyle": {"color": "@rule"}}
    return rows | {"axisTick": {"show": False}}


def _slots(unit: str) -> Option:
    found = x_axis(unit, pointer="slot {value}", minInterval=1)
    found["axisLabel"] |= {"showMaxLabel": False}  # the end is the window's, not round
    return found


def _gantt(unit: str, *, zoom: bool) -> Option:
    option = frame(
        grid=grid() | ({"bottom": 40} if zoom else {}),
        tooltip=tooltip("item"),
        xAxis=_slots(unit),
        yAxis=_rows(),
        series=[CELLS | {"name": "jobs", "encode": {"x": [2, 3], "y": 1}}],
    )
    if zoom:
        bar = {"type": "slider", "xAxisIndex": 0, "bottom": 4, "height": 18, "filterMode": "weakFilter"}
        quiet = {"showDataShadow": False, "showDetail": False, "brushSelect": False, "borderColor": "@rule"}
        colours = {"fillerColor": "@left", "handleStyle": {"color": "@paper", "borderColor": "@soft"}}
        option["dataZoom"] = [bar | quiet | colours | {"fillerColor": "rgba(120,140,165,.22)"}]
    return option


def _heat(unit: str) -> Option:
    scale = {
        "type": "continuous",
        "dimension": 3,
        "min": 0,
        "max": 1,
        "orient": "horizontal",
        "left": "center",
        "bottom": 0,
        "itemWidth": 12,
        "itemHeight": 140,
        "textStyle": {"color": "@soft"},
        "inRange": {"color": ["@low", "@high"]},
        "hoverLink": False,
    }
    return frame(
        grid=grid(legend=True),
        tooltip=tooltip("item"),
        xAxis=_slots(unit),
        yAxis=_rows(),
        visualMap=scale,
        series=[CELLS | {"name": "machines", "encode": {"x": [0, 1], "y": 2}}],
    )


def _use(unit: str, resources: Sequence[str]) -> Option:
    series = [
        line(name, [], HUES[(3 * k) % len(HUES)], step="end", stroke={"type": DASHES[k % len(DASHES)]})
        for k, name in enumerate(resources)
    ]
    return frame(
        grid=grid(legend=True) | {"top": 26},
        legend=legend(),
        tooltip=tooltip("axis", formatter="@useAt"),
        xAxis=_slots(unit),
        yAxis=y_axis("% in use", min=0, max=100),
        series=series,
    )
