"""The life of one task under every policy: sent, delayed, computed, and what the site did meanwhile."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from equipoise.document import Document, Row
from equipoise.errors import InputError
from equipoise.present.echarts import Option, frame, grid, legend, line, symbol, tooltip, x_axis, y_axis
from equipoise.present.looks import Look
from equipoise.present.text import count, number
from equipoise.present.values import (
    Axis,
    Choice,
    Controls,
    Drawing,
    Figure,
    Mark,
    Panel,
    Rectangles,
    Series,
    Sheet,
    Widget,
)

STARVER = "UARA+LARA"  # the published policy whose starvation is to be seen
LEFT = "idle compute it was not given"
KINDS = {  # of a span in a lane: colour
    "sending": "@blue",
    "delayed": "@edge",
    "computing": "@teal",
    LEFT: "@left",
    "waiting, given nothing": "@amber",
}
Lives = Mapping[int, Sequence[Row]]  # by task: its life under each policy


def life_widget(document: Document, look: Mapping[str, Look]) -> Widget:
    """The words with their two choices, the lanes, the errors, and the site."""
    lives: dict[int, list[Row]] = {}
    for row in document.rows("lives"):
        lives.setdefault(int(row["task"]), []).append(row)
    timeline, site = document.result["timeline"], document.rows("site")
    chosen = int(timeline["task"]) if int(timeline["task"]) in lives else next(iter(lives))
    names = [str(life["policy"]) for life in lives[chosen]]
    capacity, most = site[0]["capacity"], lives[chosen][0]["most"]
    data = {
        "cap": most,
        "capacity": capacity,
        "chosen": chosen,
        "policies": [_site_of(site, name) for name in names],
        "tasks": [_compact(task, found) for task, found in lives.items()],
    }
    steps = 1 + max(int(row["step"]) for row in site)
    return Widget(
        "task_lives",
        data,
        [
            _controls(lives, chosen, names, timeline),
            Drawing(
                "life",
                "What it was given, step by step",
                "Timeline: a lane per policy with the steps in which the task was sending, delayed, computing or waiting",
                f"While it can compute, the height is what it got out of the {number(most)} samples per step that one "
                "task can use; red is compute that stood idle in that step and that it could have had.",
                _lanes(names),
                wide=True,
            ),
            Drawing(
                "errors",
                "Its error against its target",
                "Lines: observed error of the task by step on a logarithmic axis, one per policy, with the target",
                "As observed, with noise: it is done when the true error is at the target. A flat line is a task that "
                "computes little.",
                _errors([look[name] for name in names]),
                tall=True,
            ),
            Drawing(
                "site",
                "What the site did meanwhile",
                "Bars: compute used and idle by step, and below how many tasks were sending, delayed and computing",
                "Under the policy chosen above. Red is compute that stood idle although a task was ready. The bar on top "
                "spans the steps in which the chosen task was ready.",
                _site_picture(steps, capacity),
                tall=True,
            ),
        ],
    )


def _site_of(site: Sequence[Row], policy: str) -> dict[str, object]:
    rows = [row for row in site if row["policy"] == policy]
    columns = ("used", "sending", "delayed", "computing")
    return {"name": policy} | {name: [row[name] for row in rows] for name in columns}


def _compact(task: int, lives: Sequence[Row]) -> dict[str, object]:
    """A task as it stands in the page; task_lives.js reads it."""
    return {
        "id": task,
        "arrival": lives[0]["arrival"],
        "deadline": lives[0]["deadline"],
        "target": lives[0]["target"],
        "story": story(task, lives),
        "lives": [
            [
                *(life[name] for name in ("start", "sent", "ready", "end")),
                bool(life["done"]),
                round(life["finished"], 3),
                str(life["sending"] or "").replace("s", "1").replace(".", "0"),
                [float(x) for x in _words(life["given"])],
                [None if e == "-" else float(e) for e in _words(life["errors"])],
            ]
            for life in lives
        ],
    }


def _words(cell: object) -> list[str]:
    """What stands in a cell with spaces between; a table read from disk has a number where there is only one."""
    return [] if cell is None else str(cell).split()


def story(task: int, lives: Sequence[Row]) -> str:
    """What became of a task, in words."""
    work, deadline = lives[0]["work"], lives[0]["deadline"]
    if work is None:
        return f"Task {task} can never succeed: its curve does not reach its target."
    words = [f"Task {task} needs {number(math.ceil(work - 1e-6))} samples by step {deadline}"]
    done = sorted((life for life in lives if life["done"]), key=lambda life: life["end"])
    if done and len(done) < len(lives):
        winner = max(done, key=lambda life: life["successes"])  # the one that does best on the whole seed
        words += [_loss(lives[_starver(lives)]), f"{winner['policy']} finished it at step {winner['end']}."]
    elif done:
        first, last = done[0], done[-1]
        behind = f", {last['policy']} last at step {last['end']}" if last["end"] > first["end"] else ""
        who = (
            f"every policy finished it, {first['policy']} first" if len(done) > 1 else f"{first['policy']} finished it"
        )
        words.append(f"{who} at step {first['end']}{behind}.")
    else:
        nearest = max(lives, key=lambda life: life["finished"])
        share = nearest["finished"]
        part = f"{100 * min(share, 0.99) if share < 1 else 100:.0f} %"
        near = f"; {nearest['policy']} came nearest, with {part} of them" if share else ""
        words.append(f"no policy finished it{near}.")
    return "; ".join(words)


def _loss(life: Row) -> str:
    """Why a task was not finished."""
    if life["end"] == life["ready"]:
        return f"{life['policy']} had not brought its data in by then"
    if life["rate"] == 0.0:
        return f"{life['policy']} never let it compute"
    idle = life["idle"]
    site = f"while {100 * idle:.0f} % of the site stood idle" if idle >= 0.05 else "in a busy site"
    return f"{life['policy']} gave it {number(life['rate'], 2)} per step {site}"


def _starver(lives: Sequence[Row]) -> int:
    """The policy that the words are about: of those that did not finish it the published starver, or the worst."""
    known = [life["policy"] == STARVER and life["starved"] > 0 for life in lives]
    return max(range(len(lives)), key=lambda k: (not lives[k]["done"], known[k], lives[k]["starved"]))


def _controls(lives: Lives, chosen: int, names: Sequence[str], timeline: Row) -> Controls:
    tasks, load = list(lives), int(timeline["load"])
    left = "" if len(tasks) == load else f" {len(tasks)} of its {load} tasks can be chosen, evenly chosen."
    return Controls(
        "The life of one task",
        [
            Choice("task", "Task", [f"task {k}: {_ended(found)}" for k, found in lives.items()], tasks.index(chosen)),
            Choice("site-policy", "Site under", list(names), _starver(lives[chosen])),
        ],
        story(chosen, lives[chosen]),
        f"The same task of seed {timeline['seed']}, one of {load}, under {count(len(names), 'policy', 'policies')}.{left}",
    )


def _ended(lives: Sequence[Row]) -> str:
    done = sum(life["done"] for life in lives)
    return (
        "all finish it" if done == len(lives) else f"{done} of {len(lives)} finish it" if done else "none finishes it"
    )


def _lanes(names: Sequence[str]) -> Option:
    """Without data: the page fills in the chosen task."""
    series: list[Option] = [
        {
            "type": "custom",
            "name": kind,
            "renderItem": "@span",
            "encode": {"x": [0, 1], "y": 2},
            "itemStyle": {"color": colour},
            "clip": True,
            "data": [],
        }
        for kind, colour in KINDS.items()
    ]
    for name, colour, sign in (("done", "@good", "✓"), ("not done", "@bad", "✗")):
        label = {"show": True, "formatter": sign, "color": "@paper", "fontSize": 11, "fontWeight": "bold"}
        dot = {"type": "scatter", "name": name, "symbol": "circle", "symbolSize": 16, "z": 5, "data": []}
        series.append(dot | {"itemStyle": {"color": colour, "opacity": 1}, "label": label})
    lanes = y_axis("", "category", data=list(names), inverse=True)
    lanes["axisLabel"] |= {"interval": 0, "lineHeight": 15, "overflow": "truncate", "color": "@ink"}
    lanes["splitLine"]["show"] = False
    return frame(
        grid=grid(legend=True) | {"top": 26},
        legend=legend(),
        tooltip=tooltip("item", formatter="{b}"),
        xAxis=_steps(),
        yAxis=lanes,
        series=series,
    )


def _steps() -> Option:
    found = x_axis("step", pointer="step {value}", minInterval=1)
    found["axisLabel"] |= {"showMinLabel": False, "showMaxLabel": False}  # the ends are the task's, not round
    return found


def _errors(looks: Sequence[Look]) -> Option:
    series = [
        line(look.name, [], look.colour, stroke={"type": "dashed" if look.dashed else "solid"})
        | {"showSymbol": True, "connectNulls": True, **symbol(look, 5)}
        for look in looks
    ]
    return frame(
        grid=grid() | {"top": 26},
        legend={"show": False},
        tooltip=tooltip("axis", formatter="@againstStep"),
        xAxis=_steps(),
        yAxis=y_axis("observed error"),
        series=series,
    )


def _site_picture(steps: int, capacity: float) -> Option:
    """Compute above, tasks below, over the same steps."""
    sides = {"left": 40, "right": 12, "outerBoundsMode": "none"}
    axis = x_axis("step", "category", pointer="step {value}", data=[str(step) for step in range(steps)])
    silent = {"axisLabel": {"show": False}, "axisTick": {"show": False}, "name": ""}
    bars = {"type": "bar", "stack": "compute", "barCategoryGap": 0, "data": []}
    counts = {"type": "bar", "stack": "tasks", "barCategoryGap": 0, "data": [], "xAxisIndex": 1, "yAxisIndex": 1}
    return frame(
        grid=[{**sides, "top": 44, "bottom": "50%"}, {**sides, "top": "58%", "bottom": 74}],
        legend=legend(),
        axisPointer={"link": [{"xAxisIndex": "all"}]},
        tooltip=tooltip("axis", formatter="@siteAt"),
        xAxis=[axis | silent, axis | {"gridIndex": 1}],
        yAxis=[
            y_axis(f"samples per step, of {number(capacity)}", min=0, max=capacity) | {"nameGap": 26},
            y_axis("tasks", gridIndex=1, minInterval=1),
        ],
        series=[
            bars | {"name": "compute used", "itemStyle": {"color": "@grey"}},
            bars | {"name": "idle, a task ready", "itemStyle": {"color": "@left"}},
            *(
                counts | {"name": name, "itemStyle": {"color": KINDS[name]}}
                for name in ("computing", "delayed", "sending")
            ),
        ],
    )


# For a paper: all tasks of one seed of a single run.

STAGES = {"sending": "@amber", "delayed": "@edge", "computing": "@blue"}


def sheet(document: Document, *, seed: int | None = None) -> Sheet:
    """When each task sends, waits and computes, and how it ends; with a trace, how busy servers and uplink are.

    Parameters
    ----------
    document
        Of a run of one policy.
    seed
        One of its seeds; the first if None.
    """
    tasks = _of_seed(document.rows("tasks"), seed)
    seed = tasks[0]["seed"]
    spans = [row for row in document.rows("spans") if row["seed"] == seed] if "spans" in document.names else []
    steps = [row for row in document.rows("steps") if row["seed"] == seed] if "steps" in document.names else []
    done = [task for task in tasks if task["done_at"] is not None]
    title = f"{document.result['policy']}: {len(done)} of {len(tasks)} tasks in time (seed {seed})"
    figure = Figure(
        title,
        Axis("step", low=0.0, high=max(task["deadline"] for task in tasks) + 1, whole=True),
        Axis("task", low=len(tasks) - 0.4, high=-0.6),
        _ends(tasks, STAGES if spans else {"present": "@blue"}),
    )
    bars = [
        (row["first"], row["last"] + 1, row["task"], 0.14, 0.86, STAGES[row["state"]])
        for row in spans
        if row["state"] in STAGES
    ] or [
        (
            task["arrival"],
            task["deadline"] if task["done_at"] is None else task["done_at"],
            task["task"],
            0.14,
            0.86,
            "@blue",
        )
        for task in tasks
    ]
    panels = [Panel(figure, min(7.0, max(1.4, 0.7 + 0.052 * len(tasks))), Rectangles(bars))]
    if steps:
        panels.append(Panel(_use(steps), 1.1, below=True))
    return Sheet(panels)


def _of_seed(tasks: Sequence[Row], seed: int | None) -> list[Row]:
    wanted = tasks[0]["seed"] if seed is None else seed
    found = [task for task in tasks if task["seed"] == wanted]
    if not found:
        known = list(dict.fromkeys(str(task["seed"]) for task in tasks))
        raise InputError(f"no seed {seed!r} in this run; it has {', '.join(known[:10])}{', ...' * (len(known) > 10)}")
    return found


def _ends(tasks: Sequence[Row], stages: Mapping[str, str]) -> list[Series]:
    """The names of the stages, for the legend; then deadlines, and how each task ended."""
    done = [task for task in tasks if task["done_at"] is not None]
    lost = [task for task in tasks if task["done_at"] is None]
    return [
        *(Series(stage, [], [], "bars", colour=colour) for stage, colour in stages.items()),
        Series(
            "deadline", [t["deadline"] for t in tasks], [t["task"] for t in tasks], "dots", colour="@ink", marker="bar"
        ),
        Series(
            "done", [t["done_at"] for t in done], [t["task"] for t in done], "dots", colour="@good", marker="circle"
        ),
        Series(
            "failed", [t["deadline"] for t in lost], [t["task"] for t in lost], "dots", colour="@bad", marker="cross"
        ),
    ]


def _use(steps: Sequence[Row]) -> Figure:
    at = [row["step"] for row in steps]
    return Figure(
        "Servers (full line) and uplink (dashed)",
        Axis("step", whole=True),
        Axis("% in use", low=0.0, high=112.0),
        [
            Series("servers", at, [row["compute"] for row in steps], "step", colour="@blue", silent=True),
            Series(
                "uplink", at, [row["bandwidth"] for row in steps], "step", colour="@amber", dash="dashed", silent=True
            ),
        ],
        [Mark("y", 100.0, colour="@soft", dash="solid")],
    )
