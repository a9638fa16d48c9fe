"""What coupling saves, as a chart: CPU-seconds to a target accuracy for each way to divide the same CPU."""

from __future__ import annotations

import math
from typing import Any

from equipoise.present.echarts import Chart, Option, frame, grid, tooltip, x_axis, y_axis
from equipoise.present.text import count

EQUAL = "These have the same speed, as much data and as much noise: there is little to gain. "


def allocations(study: dict[str, Any] | None, equal: bool = False) -> Chart | None:
    """A lying bar for each allocation, the cheapest on top, with a standard error either side of its end."""
    given = (study or {}).get("rows_of_equal_centres" if equal else "rows")
    if not study or not given:
        return None
    rows = given[::-1]  # an axis counts upwards
    ours = [{"itemStyle": {"color": "@blue"}} if row["allocation"] == "coupled" else {} for row in rows]
    bars: Option = {
        "type": "bar",
        "name": "CPU-seconds",
        "data": [{"value": row["mean"], **own} for row, own in zip(rows, ours, strict=True)],
        "itemStyle": {"color": "@edge"},
        "barMaxWidth": 26,
        "label": {"show": True, "position": "insideLeft", "formatter": "@barValue", "color": "@ink", "fontWeight": 600},
    }
    for entry in bars["data"]:
        if "itemStyle" in entry:
            entry["label"] = {"color": "@paper"}
    errors: Option = {
        "type": "custom",
        "name": "standard error",
        "renderItem": "@whisker",
        "data": [[row["mean"], k, row["error"], 1] for k, row in enumerate(rows) if row["error"]],
        "encode": {"x": 0, "y": 1},
        "itemStyle": {"color": "@ink"},
        "silent": True,
        "tooltip": {"show": False},
        "z": 4,
    }
    missed = [f"{row['label']} in {row['missed']}" for row in given if row["missed"]]
    seeds = count(len(study["seeds"]), "seed")
    return Chart(
        "allocations_equal" if equal else "allocations",
        "The same on equal centres" if equal else "CPU-seconds to target accuracy per allocation",
        f"Bars: CPU-seconds until {100 * study['target']:.0f} % of the centralised accuracy, for each way to divide the CPU",
        f"Shorter is better: what the centres spent until the mean accuracy of their models was "
        f"{100 * study['target']:.0f} % of the centralised one's. All have the same centres, budget and draws; only shares "
        f"differ. {EQUAL if equal else ''}Mean of {seeds}"
        + (", a standard error either side." if errors["data"] else ".")
        + (f" Not reached, and counted with the whole run: {', '.join(missed)}." if missed else ""),
        frame(
            grid=grid() | {"top": 6},
            tooltip=tooltip("item", formatter="@barTip"),
            xAxis=x_axis("CPU-seconds", pointer="{value}", min=0, max=_end(rows), splitNumber=3),
            yAxis=y_axis("", "category", data=[row["label"] for row in rows]),
            series=[bars, errors],
        ),
        wide=False,
    )


def _end(rows: list[dict[str, Any]]) -> float:
    """A round number past the longest bar and its error."""
    longest = max(row["mean"] + (row["error"] or 0.0) for row in rows)
    step: float = 10.0 ** math.floor(math.log10(max(longest, 1.0))) / 2
    return float(step * math.ceil(longest / step))
