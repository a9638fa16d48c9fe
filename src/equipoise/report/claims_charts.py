"""The figures of a claim as charts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from equipoise.present.echarts import (
    HUES,
    Chart,
    Option,
    frame,
    grid,
    legend,
    line,
    log_range,
    mark_at,
    tooltip,
    x_axis,
    y_axis,
)

Figure = dict[str, Any]  # claims.Figure.as_dict


def charts(name: str, figures: Iterable[Figure]) -> list[Chart]:
    """One chart a figure; keys begin with the claim's name."""
    return [_chart(f"{name}-{k}", figure) for k, figure in enumerate(figures)]


def _chart(key: str, figure: Figure) -> Chart:
    barred = bool(figure["groups"])
    drawn = _bars(figure) if barred else _curves(figure)
    for mark in figure["marks"]:
        axis = "xAxis" if mark["axis"] == "x" else "yAxis"
        drawn.append(_rule(axis, mark["value"], mark["name"]))
    many = len({one["name"] for one in drawn if one["name"]}) > 1
    across = (
        x_axis(figure["x"], "category", pointer="{value}", data=figure["groups"], axisLabel=_every())
        if barred
        else _scale(figure, "x", x_axis(figure["x"], "log" if figure["log_x"] else "value", pointer="@short"))
    )
    upright = _scale(figure, "y", y_axis(figure["y"], "log" if figure["log_y"] else "value"))
    room = grid(legend=many) | {"top": 34}
    return Chart(
        key,
        figure["title"],
        f"{'Bars' if barred else 'Lines'}: {figure['y']} against {figure['x']}",
        figure["caption"],
        frame(
            grid=room | ({"bottom": 40} if many else {}),
            legend=legend() if many else {"show": False},
            tooltip=tooltip("axis", valueFormatter="@short"),
            xAxis=across,
            yAxis=upright,
            series=drawn,
        ),
    )


def _every() -> Option:
    """No bar without its name: long ones are broken, not left out."""
    return {"color": "@soft", "interval": 0, "hideOverlap": False, "width": 84, "overflow": "break"}


def _plain() -> Option:
    return {"color": "@soft", "hideOverlap": True}


def _scale(figure: Figure, axis: str, found: Option) -> Option:
    """Whole decades on a logarithmic axis; on a plain one, no more room than the values need."""
    values = [v for one in figure["series"] for v in one.get(axis) or ()]
    values += [mark["value"] for mark in figure["marks"] if mark["axis"] == axis]
    if figure[f"log_{axis}"]:
        return found | log_range(values) | {"axisLabel": _plain() | {"formatter": "@power"}}
    return found | {"scale": axis == "x", "axisLabel": _plain() | {"formatter": "@short"}}


def _curves(figure: Figure) -> list[Option]:
    drawn: list[Option] = []
    for k, one in enumerate(figure["series"]):
        colour = HUES[k % len(HUES)]
        points = [
            [a, b if b is not None and (b > 0 or not figure["log_y"]) else None]
            for a, b in zip(one["x"], one["y"], strict=True)
            if a is not None and (a > 0 or not figure["log_x"])
        ]
        stroke = {"type": "dashed" if one["dashed"] else "solid", "width": 0 if one["dots"] else 2}
        shown = {"showSymbol": True, "symbolSize": 6} if one["dots"] or len(points) <= 12 else {}
        drawn.append(line(one["name"], points, colour, stroke=stroke, **shown))
        drawn += _whiskers(one, colour, one["x"])
    return drawn


def _bars(figure: Figure) -> list[Option]:
    drawn: list[Option] = []
    for k, one in enumerate(figure["series"]):
        colour = HUES[k % len(HUES)]
        drawn.append(
            {
                "type": "bar",
                "name": one["name"],
                "data": [v if v is None or v > 0 or not figure["log_y"] else None for v in one["y"]],
                "itemStyle": {"color": colour},
                "barMaxWidth": 40,
            }
        )
        if len(figure["series"]) == 1:
            drawn += _whiskers(one, "@ink", range(len(one["y"])))
    return drawn


def _whiskers(one: dict[str, Any], colour: str, places: Iterable[Any]) -> list[Option]:
    """A standard error either side of every value that has one; of the same name, so that one click hides both."""
    if one["error"] is None:
        return []
    data = [
        [x, y, e] for x, y, e in zip(places, one["y"], one["error"], strict=True) if None not in (x, y, e) and e > 0
    ]
    return [
        {
            "type": "custom",
            "name": one["name"],
            "renderItem": "@whisker",
            "data": data,
            "itemStyle": {"color": colour},
            "tooltip": {"show": False},
            "silent": True,
            "z": 3,
        }
    ]


def _rule(axis: str, value: float, text: str) -> Option:
    mark = mark_at(axis, value, text)
    return {"type": "line", "name": "", "data": [], "markLine": mark, "silent": True, "tooltip": {"show": False}}
