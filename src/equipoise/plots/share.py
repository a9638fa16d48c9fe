"""share: every measure over the load, a line a policy; and the lives of the tasks of one run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.plots.plain import Plain
from equipoise.present import paper

MEASURES = {  # column: title, unit
    "success": ("Tasks finished in time", "% of tasks"),
    "energy": ("Energy", "energy units"),
    "efficiency": ("Efficiency", "% of tasks / energy"),
    "network": ("Use of the uplink", "% of capacity"),
    "latency": ("Latency of finished tasks", "steps"),
    "idle_while_work": ("Idle while work waits", "% of compute"),
}
PUBLISHED = ("success", "energy", "efficiency", "network")  # the four panels of Hasan and Peña
LOG_SPREAD = 10.0  # largest over smallest value from which efficiency is drawn on a logarithmic axis
STAGES = {"sending": paper.ORANGE, "delayed": paper.FAINT, "computing": paper.BLUE}


def sweep(saved: Plain, *, width: str = "column", panels: Sequence[str] | None = None) -> paper.PaperFigure:
    """Panels: "success", "energy", "efficiency", "network", "latency", "idle_while_work"; bands are standard errors."""
    asked = paper.chosen(panels, list(MEASURES), PUBLISHED)
    cells = {(row["policy"], row["load"]): row for row in _with_errors(saved)}
    names, loads = (list(dict.fromkeys(key[k] for key in cells)) for k in (0, 1))
    drawn = paper.styles(names, saved.looks)
    if len(loads) == 1:
        return _bars(width, asked, cells, loads[0], drawn)
    figure, axes = paper.blank(width, len(asked), height=1.6)
    for measure, one in zip(asked, axes, strict=True):
        _against_load(one, measure, cells, names, sorted(loads), drawn)
    handles = paper.keys(drawn)
    if "success" in asked and any(row["oracle"] is not None for row in cells.values()):
        handles.append(paper.Line2D([], [], color=paper.INK, linewidth=0.9, linestyle=":", label="oracle's bound"))
    paper.letters(axes)
    paper.legend_below(figure, handles)
    return figure


def _with_errors(saved: Plain) -> list[dict[str, Any]]:
    """The rows, with standard errors of what has none there, from the seeds behind them."""
    seeds: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in saved.rows("history") if "history" in saved.names else []:
        for measure in ("network", "idle_while_work"):
            seeds[row["policy"], row["load"]][measure].append(row[measure])
    found = []
    for row in saved.rows("rows"):
        own = seeds.get((row["policy"], row["load"]), {})
        errors = {f"{m}_se": float(np.std(v, ddof=1) / np.sqrt(len(v))) for m, v in own.items() if len(v) > 1}
        found.append(errors | row)
    return found


def _against_load(
    axes: Any, measure: str, cells: dict[Any, Any], names: list[str], loads: list[int], drawn: dict[str, Any]
) -> None:
    seen = []
    for name in names:
        value = np.array([_number(cells[name, load].get(measure)) for load in loads])
        error = np.array([_number(cells[name, load].get(f"{measure}_se")) for load in loads])
        axes.plot(loads, value, **drawn[name])
        axes.fill_between(loads, value - error, value + error, color=drawn[name]["color"], alpha=0.18, linewidth=0)
        seen += value[np.isfinite(value) & (value > 0)].tolist()
    if measure == "success":
        bound = np.array([_number(cells[names[0], load]["oracle"]) for load in loads])
        if np.isfinite(bound).any():
            axes.plot(loads, bound, color=paper.INK, linewidth=0.9, linestyle=":")
        axes.set_ylim(0, 102)
    elif measure == "efficiency" and seen and max(seen) > LOG_SPREAD * min(seen):
        paper.log_y(axes, seen)
    else:
        axes.set_ylim(bottom=0)
    axes.set_xticks(loads if len(loads) <= 8 else loads[:: -(-len(loads) // 8)])
    title, unit = MEASURES[measure]
    paper.name_axes(axes, "tasks", unit, title)


def _bars(width: str, asked: list[str], cells: dict[Any, Any], load: int, drawn: dict[str, Any]) -> paper.PaperFigure:
    """One load: a bar a policy, with its standard error."""
    names = list(drawn)
    figure, axes = paper.blank(width, len(asked), height=0.55 + 0.17 * (len(names) + 1))
    for measure, one in zip(asked, axes, strict=True):
        value = [_number(cells[name, load].get(measure)) for name in names]
        error = [_number(cells[name, load].get(f"{measure}_se")) for name in names]
        bound = cells[names[0], load].get("oracle") if measure == "success" else None
        paper.bars(one, {n: drawn[n]["color"] for n in names}, value, error, "oracle's bound", bound)
        title, unit = MEASURES[measure]
        paper.name_axes(one, unit, "", f"{title}, {load} tasks")
    paper.letters(axes)
    return figure


def run(saved: Plain, *, width: str = "column", seed: int | None = None) -> paper.PaperFigure:
    """The tasks of one seed, the first unless told: when each sends, waits and computes, and how it ends; with a trace,
    how busy servers and uplink are below it."""
    tasks = _of_seed(saved.rows("tasks"), seed)
    seed = tasks[0]["seed"]
    spans = [row for row in saved.rows("spans") if row["seed"] == seed] if "spans" in saved.names else []
    steps = [row for row in saved.rows("steps") if row["seed"] == seed] if "steps" in saved.names else []
    tall = min(7.0, max(1.4, 0.7 + 0.052 * len(tasks)))
    figure, (lives, *rest) = paper.two_rows(width, tall, 1.1) if steps else paper.blank(width, 1, height=tall)
    _lives(lives, tasks, spans)
    done = sum(task["done_at"] is not None for task in tasks)
    title = f"{saved.result['policy']}: {done} of {len(tasks)} tasks in time (seed {seed})"
    paper.name_axes(lives, "" if rest else "step", "task", title)
    if rest:
        _use(rest[0], steps)
        lives.tick_params(labelbottom=False)
    colours = STAGES if spans else {"present": paper.BLUE}
    handles: list[Any] = [paper.Patch(facecolor=colour, label=stage) for stage, colour in colours.items()]
    handles += [
        paper.Line2D([], [], linestyle="none", marker="|", markersize=4.5, color=paper.INK, label="deadline"),
        paper.Line2D([], [], linestyle="none", marker="o", markersize=3, color=paper.GREEN, label="done"),
        paper.Line2D([], [], linestyle="none", marker="x", markersize=3.4, color=paper.RED, label="failed"),
    ]
    paper.legend_below(figure, handles)
    return figure


def _of_seed(tasks: list[dict[str, Any]], seed: int | None) -> list[dict[str, Any]]:
    wanted = tasks[0]["seed"] if seed is None else seed
    found = [task for task in tasks if task["seed"] == wanted]
    if not found:
        known = list(dict.fromkeys(str(task["seed"]) for task in tasks))
        raise InputError(f"no seed {seed!r} in this run; it has {', '.join(known[:10])}{', ...' * (len(known) > 10)}")
    return found


def _lives(axes: Any, tasks: list[dict[str, Any]], spans: list[dict[str, Any]]) -> None:
    if spans:
        for stage, colour in STAGES.items():
            own = [row for row in spans if row["state"] == stage]
            axes.barh(
                [row["task"] for row in own],
                [row["last"] - row["first"] + 1 for row in own],
                left=[row["first"] for row in own],
                height=0.72,
                color=colour,
                linewidth=0,
            )
    else:
        ends = [task["deadline"] if task["done_at"] is None else task["done_at"] for task in tasks]
        starts = [task["arrival"] for task in tasks]
        lengths = [end - start for end, start in zip(ends, starts, strict=True)]
        axes.barh([task["task"] for task in tasks], lengths, left=starts, height=0.72, color=paper.BLUE, linewidth=0)
    axes.scatter(
        [t["deadline"] for t in tasks], [t["task"] for t in tasks], marker="|", s=10, color=paper.INK, linewidth=0.7
    )
    done = [task for task in tasks if task["done_at"] is not None]
    lost = [task for task in tasks if task["done_at"] is None]
    axes.scatter([t["done_at"] for t in done], [t["task"] for t in done], s=5, color=paper.GREEN, zorder=3, linewidth=0)
    axes.scatter(
        [t["deadline"] for t in lost],
        [t["task"] for t in lost],
        marker="x",
        s=8,
        color=paper.RED,
        zorder=3,
        linewidth=0.9,
    )
    axes.set_ylim(len(tasks) - 0.4, -0.6)
    axes.set_xlim(0, max(task["deadline"] for task in tasks) + 1)
    axes.grid(False, axis="y")
    paper.whole_x(axes)


def _use(axes: Any, steps: list[dict[str, Any]]) -> None:
    at = [row["step"] for row in steps]
    axes.step(at, [row["compute"] for row in steps], where="post", color=paper.BLUE, linewidth=1.0)
    axes.step(at, [row["bandwidth"] for row in steps], where="post", color=paper.ORANGE, linewidth=1.0, linestyle="--")
    axes.axhline(100.0, color=paper.RULE, linewidth=0.5)
    axes.set_ylim(0, 112)
    paper.name_axes(axes, "step", "% in use", "Servers (full line) and uplink (dashed)")


def _number(value: Any) -> float:
    return np.nan if value is None else float(value)
