"""The charts of nets, which have no optimum to be held against: losses of the centres, and rivals on the same batches."""

from __future__ import annotations

import math
from typing import Any

from equipoise.present.echarts import Chart, Option, frame, grid, legend, tooltip, x_axis, y_axis
from equipoise.present.text import number, percent

FEW = 60  # nodes up to which dots are large


def node_losses(losses: dict[str, Any] | None) -> Chart | None:
    """Loss of each centre's own net on everybody's data."""
    if losses is None or not all(math.isfinite(value) for value in losses["nodes"]):
        return None
    nodes = losses["nodes"]
    dots = {
        "type": "scatter",
        "name": "loss",
        "data": nodes,
        "symbolSize": 9 if len(nodes) <= FEW else 5,
        "itemStyle": {"color": "@violet", "opacity": 0.9},
    }
    return Chart(
        "losses",
        "Loss of each node's own net",
        "Dots: loss of each node's own net on the data of all nodes",
        f"Each dot is one node's own net on everybody's training data, most of which it has never seen. The worst is "
        f"{number(losses['worst'])}. The axis does not begin at zero.",
        frame(
            grid=grid(),
            tooltip=tooltip("axis", valueFormatter="@short"),
            xAxis=x_axis("node", "category", pointer="node {value}", data=[str(i) for i in range(len(nodes))]),
            yAxis=y_axis("loss", scale=True),
            series=[dots],
        ),
    )


def rivals(rows: list[dict[str, Any]] | None) -> Chart | None:
    """Accuracy of the worst and of the mean centre under each way to train the same net."""
    if not rows or any("accuracy" not in row for row in rows):
        return None
    low = min(row["worst_accuracy"] for row in rows)
    bottom = max(0.0, math.floor(20 * (low - 0.02)) / 20)
    shown = rows[::-1]

    def dots(key: str, name: str, symbol: str, colour: str) -> Option:
        return {
            "type": "scatter",
            "name": name,
            "symbol": symbol,
            "symbolSize": 13,
            "data": [[row[key], k] for k, row in enumerate(shown)],
            "itemStyle": {"color": colour},
        }

    sent = ", ".join(f"{row['label']} {row['bits'] / 8e6:,.1f} MB" for row in rows)
    ours = rows[0]
    return Chart(
        "rivals",
        "The same net, trained in other ways",
        "Dots: test accuracy of the worst and of the mean node for each way to train",
        f"Same net, first parameters, batches and rounds, each at a rate tuned for it. Ours ends at "
        f"{percent(ours['worst_accuracy'])} at the worst node. "
        f"Sent: {sent}." + (" The axis does not begin at zero." if bottom > 0 else ""),
        frame(
            grid=grid(legend=True),
            legend=legend(icon="inherit"),
            tooltip=tooltip("item", formatter="@valueOf"),
            xAxis=x_axis(
                "right answers",
                pointer="{value}",
                min=bottom,
                max=1,
                axisLabel={"color": "@soft", "hideOverlap": True, "formatter": "@percent"},
            ),
            yAxis=y_axis("", "category", data=[row["label"] for row in shown]),
            series=[
                dots("accuracy", "mean node", "circle", "@teal"),
                dots("worst_accuracy", "worst node", "diamond", "@bad"),
            ],
        ),
        wide=True,
    )
