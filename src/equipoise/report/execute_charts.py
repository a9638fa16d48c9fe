"""The charts of an execution: each measure simulated and executed, task by task, and the site step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.engine.real_clock import Pair, RealComparison
from equipoise.present.echarts import Chart, Option, frame, grid, legend, line, symbol, tooltip, x_axis, y_axis
from equipoise.report.share_charts import Look


def execute_charts(result: RealComparison, styles: Sequence[Look]) -> list[Chart]:
    rows = {row["policy"]: row for row in result.rows}
    return [
        _measure(rows, styles, "success", "Tasks finished in time", "% of tasks", {"min": 0, "max": 100}),
        _measure(rows, styles, "energy", "Energy", "energy by the site's law", {"min": 0}),
        _completions(result, styles),
        _cpu(result, styles),
        *(
            _site(pair, look, result)
            for look in styles
            for pair in result.pairs[: len(styles)]
            if pair.policy == look.name
        ),
    ]


def _measure(
    rows: dict[str, dict[str, Any]], styles: Sequence[Look], name: str, title: str, unit: str, axis: Option
) -> Chart:
    """Two bars a policy."""
    kinds: tuple[tuple[str, Option], ...] = (("simulated", {"opacity": 0.45}), ("executed", {"opacity": 1.0}))
    series: list[Option] = [
        {
            "type": "bar",
            "name": kind,
            "data": [
                {"value": round(rows[look.name][f"{name}_{kind}"], 2), "itemStyle": {"color": look.colour} | shade}
                for look in styles
            ],
            "itemStyle": {"color": "@ink"} | shade,
            "label": {"show": True, "position": "right", "color": "@ink", "formatter": "{c}"},
        }
        for kind, shade in kinds
    ]
    names = y_axis("", "category", data=[look.name for look in styles], inverse=True)
    names["axisLabel"] |= {"width": 150, "overflow": "truncate", "interval": 0}
    option = frame(
        grid=grid(legend=True) | {"right": 56},
        legend=legend(),
        tooltip=tooltip("axis"),
        xAxis=x_axis(unit, pointer="{value}", **axis),
        yAxis=names,
        series=series,
    )
    meaning = (
        "Pale: the simulation of the same tasks, by their recorded curves. Full: real processes."
        if name == "success"
        else "Pale: from the simulator's decisions. Full: from the CPU that processes really took. A task that ends within"
        " a step leaves the rest of it unused, which the simulator charges for."
    )
    return Chart(name, title, f"Bars: {title.lower()}, simulated and executed, by policy", meaning, option)


def _completions(result: RealComparison, styles: Sequence[Look]) -> Chart:
    """Each task that both finished: when in the simulation, when on the clock."""
    series: list[Option] = []
    top = float(max(pair.plan.batch.horizon for pair in result.pairs))
    for look in styles:
        points = []
        for pair in result.pairs:
            if pair.policy == look.name:
                both = pair.done[0] & pair.done[1]
                ends = zip(pair.simulated.done_at[0, both], pair.executed.finished[both], strict=True)
                points += [[int(a), round(float(b), 2)] for a, b in ends]
        series.append({"type": "scatter", "name": look.name, "data": points, **symbol(look, 8)})
    diagonal = line("as simulated", [[0, 0], [top, top]], "@soft", stroke={"type": "dashed", "width": 1.5})
    option = frame(
        grid=grid(legend=True),
        legend=legend(),
        tooltip=tooltip("item"),
        xAxis=x_axis("simulated, step", pointer="step {value}", min=0, max=top),
        yAxis=y_axis("executed, steps on the clock", min=0, max=top),
        series=[*series, diagonal],
    )
    return Chart(
        "completions",
        "When tasks were done",
        "Dots: executed against simulated completion of every task that both finished",
        "One dot a task that both finished. The simulator stamps the end of a step, so a perfect one lies up to a step below"
        " the line; above it, the machine was slower than its calibration.",
        option,
    )


def _cpu(result: RealComparison, styles: Sequence[Look]) -> Chart:
    """CPU seconds by task, asked and got."""
    series: list[Option] = []
    top = 0.0
    for look in styles:
        points: list[list[float]] = []
        for pair in result.pairs:
            if pair.policy == look.name:
                points += np.column_stack([pair.executed.asked, pair.executed.got]).round(3).tolist()
        top = max([top, *(value for point in points for value in point)])
        series.append({"type": "scatter", "name": look.name, "data": points, **symbol(look, 8)})
    diagonal = line("all of it", [[0, 0], [top, top]], "@soft", stroke={"type": "dashed", "width": 1.5})
    option = frame(
        grid=grid(legend=True),
        legend=legend(),
        tooltip=tooltip("item"),
        xAxis=x_axis("asked, seconds of CPU", pointer="{value} s", min=0),
        yAxis=y_axis("got, seconds of CPU", min=0),
        series=[*series, diagonal],
    )
    return Chart(
        "cpu",
        "CPU asked and got",
        "Dots: seconds of CPU that every task got against what its shares asked for",
        "One dot a task. Below the line: the machine was busy with something else. A share is a ceiling.",
        option,
    )


def _site(pair: Pair, look: Look, result: RealComparison) -> Chart:
    """The first seed under one policy: what was given in each step, what was used, what the simulator used."""
    assert pair.executed.run.trace is not None and pair.simulated.trace is not None
    steps = range(pair.plan.batch.horizon)
    decided = pair.executed.run.trace.compute[:, 0].sum(axis=1)
    taken, simulated = pair.executed.took.sum(axis=1), pair.simulated.trace.compute[:, 0].sum(axis=1)

    def points(values: Any) -> list[list[float]]:
        return [[step, round(float(value), 2)] for step, value in zip(steps, values, strict=True)]

    option = frame(
        grid=grid(legend=True),
        legend=legend(),
        xAxis=x_axis("step", pointer="step {value}", min=0, max=pair.plan.batch.horizon),
        yAxis=y_axis("samples a step", min=0, max=float(result.scene.site.capacity)),
        series=[
            line("simulated", points(simulated), "@soft", stroke={"type": "dashed"}, step="end"),
            line("given", points(decided), look.colour, step="end", stroke={"width": 1.5, "opacity": 0.5}),
            line("taken", points(taken), look.colour, step="end"),
        ],
    )
    return Chart(
        f"site-{look.name}",
        f"The site under {look.name}",
        f"Lines: compute of the site in every step under {look.name}, simulated, given and taken",
        f"Seed {pair.plan.seed}. Dashed: the simulation. Pale: what the policy gave on the clock. Full: CPU that processes"
        f" took, in samples; {result.scene.site.capacity:g} are a step of all the site's CPU.",
        option,
    )
