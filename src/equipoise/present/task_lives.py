"""The life of one task under every policy: sent, delayed, computed, and what the site did meanwhile."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from equipoise.document import Document, Row, rows_of
from equipoise.errors import InputError
from equipoise.present.echarts import Option, frame, grid, legend, line, symbol, tooltip, x_axis, y_axis
from equipoise.present.figures import Axis, Drawing, Figure, Look, Mark, Panel, Series, Sheet
from equipoise.present.text import count, number
from equipoise.present.values import Choice, Controls, Widget

STARVER = "UARA+LARA"  # the published policy whose starvation is to be seen
LEFT = "idle compute it was not given"
# Of a span in a lane: its colour.
KINDS = {"sending": "@blue", "delayed": "@edge", "computing": "@teal"}
KINDS |= {LEFT: "@left", "waiting, given nothing": "@amber"}
COLUMNS = ("used", "sending", "delayed", "computing")  # of a step of the site
Lives = Mapping[int, Sequence[Row]]  # by task: its life under each policy


LANES = (
    "Timeline: a lane per policy with the steps in which the task was sending, delayed, computing or waiting",
    "While it can compute, the height is what it got out of the {most} samples per step that one task can use; red is "
    "compute that stood idle in that step and that it could have had.",
)
ERRORS = (
    "Lines: observed error of the task by step, one per policy, with the target",
    "As observed, with noise. It is done when this error, or the true one, is at the target, as the site's rule of success "
    "says. A flat line is a task that computes little.",
)
SITE = (
    "Bars: compute used and idle by step, and below how many tasks were sending, delayed and computing",
    "Under the policy chosen above. Red is compute that stood idle although a task was ready. The bar on top spans the "
    "steps in which the chosen task was ready.",
)


def life_widget(document: Document, look: Mapping[str, Look]) -> Widget:
    """The words with their two choices, the lanes, the errors, and the site."""
    lives: dict[int, list[Row]] = {}
    for row in document.rows("lives"):
        lives.setdefault(int(row["task"]), []).append(row)
    timeline, site = document.result["timeline"], document.rows("site")
    chosen = int(timeline["task"]) if int(timeline["task"]) in lives else next(iter(lives))
    names = [str(life["policy"]) for life in lives[chosen]]
    capacity, most = site[0]["capacity"], lives[chosen][0]["most"]
    policies = [
        {"name": name} | {column: [row[column] for row in site if row["policy"] == name] for column in COLUMNS}
        for name in names
    ]
    tasks = [_compact(task, found) for task, found in lives.items()]
    data = {"cap": most, "capacity": capacity, "chosen": chosen, "policies": policies, "tasks": tasks}
    steps = 1 + max(int(row["step"]) for row in site)
    label, words = LANES[0], LANES[1].format(most=number(most))
    pictures = (
        Drawing("life", "What it was given, step by step", label, words, _lanes(names), wide=True),
        Drawing("errors", "Its error against its target", *ERRORS, _errors([look[name] for name in names]), tall=True),
        Drawing("site", "What the site did meanwhile", *SITE, _site_picture(steps, capacity), tall=True),
    )
    return Widget("task_lives", data, [_controls(lives, chosen, names, timeline), *pictures])


def _compact(task: int, lives: Sequence[Row]) -> dict[str, object]:
    """A task as it stands in the page; task_lives.js reads it."""
    told = [
        [
            *(life[name] for name in ("start", "sent", "ready", "end")),
            bool(life["done"]),
            round(life["finished"], 3),
            str(life["sending"] or "").replace("s", "1").replace(".", "0"),
            [float(x) for x in _words(life["given"])],
            [None if e == "-" else float(e) for e in _words(life["errors"])],
        ]
        for life in lives
    ]
    same = {name: lives[0][name] for name in ("arrival", "deadline", "target")}
    return {"id": task, **same, "story": story(task, lives), "lives": told}


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
        all_of_them = f"every policy finished it, {first['policy']} first"
        who = all_of_them if len(done) > 1 else f"{first['policy']} finished it"
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
    choices = [
        Choice("task", "Task", [f"task {k}: {_ended(found)}" for k, found in lives.items()], tasks.index(chosen)),
        Choice("site-policy", "Site under", list(names), _starver(lives[chosen])),
    ]
    under = count(len(names), "policy", "policies")
    caption = f"The same task of seed {timeline['seed']}, one of {load}, under {under}.{left}"
    return Controls("The life of one task", choices, story(chosen, lives[chosen]), caption)


def _ended(lives: Sequence[Row]) -> str:
    done, most = sum(life["done"] for life in lives), len(lives)
    return "all finish it" if done == most else f"{done} of {most} finish it" if done else "none finishes it"


def _lanes(names: Sequence[str]) -> Option:
    """Without data: the page fills in the chosen task."""
    span: Option = {"type": "custom", "renderItem": "@span", "encode": {"x": [0, 1], "y": 2}, "clip": True, "data": []}
    series = [span | {"name": kind, "itemStyle": {"color": colour}} for kind, colour in KINDS.items()]
    for name, colour, sign in (("done", "@good", "✓"), ("not done", "@bad", "✗")):
        label = {"show": True, "formatter": sign, "color": "@paper", "fontSize": 11, "fontWeight": "bold"}
        dot = {"type": "scatter", "name": name, "symbol": "circle", "symbolSize": 16, "z": 5, "data": []}
        series.append(dot | {"itemStyle": {"color": colour, "opacity": 1}, "label": label})
    lanes = y_axis("", "category", data=list(names), inverse=True)
    lanes["splitLine"]["show"] = False
    lanes["axisLabel"] |= {"interval": 0, "lineHeight": 15, "overflow": "truncate", "color": "@ink"}
    room, tip = grid(legend=True) | {"top": 26}, tooltip("item", formatter="{b}")
    return frame(grid=room, legend=legend(), tooltip=tip, xAxis=_steps(), yAxis=lanes, series=series)


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
    room, tip = grid() | {"top": 26}, tooltip("axis", formatter="@againstStep")
    hidden, upright = {"show": False}, y_axis("observed error")
    return frame(grid=room, legend=hidden, tooltip=tip, xAxis=_steps(), yAxis=upright, series=series)


def _site_picture(steps: int, capacity: float) -> Option:
    """Compute above, tasks below, over the same steps."""
    sides = {"left": 40, "right": 12, "outerBoundsMode": "none"}
    axis = x_axis("step", "category", pointer="step {value}", data=[str(step) for step in range(steps)])
    silent = {"axisLabel": {"show": False}, "axisTick": {"show": False}, "name": ""}
    bars = {"type": "bar", "stack": "compute", "barCategoryGap": 0, "data": []}
    counts = bars | {"stack": "tasks", "xAxisIndex": 1, "yAxisIndex": 1}
    compute = {"compute used": "@grey", "idle, a task ready": "@left"}
    tasks = {name: KINDS[name] for name in ("computing", "delayed", "sending")}
    above = y_axis(f"samples per step, of {number(capacity)}", min=0, max=capacity) | {"nameGap": 26}
    series = [
        kind | {"name": name, "itemStyle": {"color": colour}}
        for kind, names in ((bars, compute), (counts, tasks))
        for name, colour in names.items()
    ]
    return frame(
        grid=[{**sides, "top": 44, "bottom": "50%"}, {**sides, "top": "58%", "bottom": 74}],
        axisPointer={"link": [{"xAxisIndex": "all"}]},
        xAxis=[axis | silent, axis | {"gridIndex": 1}],
        yAxis=[above, y_axis("tasks", gridIndex=1, minInterval=1)],
        legend=legend(),
        tooltip=tooltip("axis", formatter="@siteAt"),
        series=series,
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
    every = document.rows("tasks")
    seed = every[0]["seed"] if seed is None else seed
    tasks = rows_of(document, "tasks", seed=seed)
    if not tasks:
        known = list(dict.fromkeys(str(task["seed"]) for task in every))
        raise InputError(
            f"no seed {seed!r} in this run; it has {', '.join(known[:10])}{', ...' * (len(known) > 10)}",
            code="figure.seed",
        )
    spans, steps = (rows_of(document, table, seed=seed) for table in ("spans", "steps"))
    done = sum(task["done_at"] is not None for task in tasks)
    title = f"{document.result['policy']}: {done} of {len(tasks)} tasks in time (seed {seed})"
    last = max(task["deadline"] for task in tasks) + 1
    x, y = Axis("step", low=0.0, high=last, whole=True), Axis("task", low=len(tasks) - 0.4, high=-0.6)
    figure = Figure(title, x, y, _ends(tasks, STAGES if spans else {"present": "@blue"}))
    drawn = [(s["first"], s["last"] + 1, s["task"], STAGES[s["state"]]) for s in spans if s["state"] in STAGES]
    whole = [(t["arrival"], t["deadline" if t["done_at"] is None else "done_at"], t["task"], "@blue") for t in tasks]
    bars = [(first, end, lane, 0.14, 0.86, colour) for first, end, lane, colour in drawn or whole]
    panels = [Panel(figure, min(7.0, max(1.4, 0.7 + 0.052 * len(tasks))), bars)]
    return Sheet(panels + ([Panel(_use(steps), 1.1, below=True)] if steps else []))


def _ends(tasks: Sequence[Row], stages: Mapping[str, str]) -> list[Series]:
    """The names of the stages, for the legend; then deadlines, and how each task ended."""

    def dots(name: str, which: Sequence[Row], at: str, colour: str, marker: str) -> Series:
        return Series(name, [t[at] for t in which], [t["task"] for t in which], "dots", colour=colour, marker=marker)

    done = [task for task in tasks if task["done_at"] is not None]
    lost = [task for task in tasks if task["done_at"] is None]
    return [
        *(Series(stage, [], [], "bars", colour=colour) for stage, colour in stages.items()),
        dots("deadline", tasks, "deadline", "@ink", "bar"),
        dots("done", done, "done_at", "@good", "circle"),
        dots("failed", lost, "deadline", "@bad", "cross"),
    ]


def _use(steps: Sequence[Row]) -> Figure:
    at = [row["step"] for row in steps]
    servers = Series("servers", at, [row["compute"] for row in steps], "step", colour="@blue", silent=True)
    uplink = replace(servers, name="uplink", y=[row["bandwidth"] for row in steps], colour="@amber", dash="dashed")
    full = Mark("y", 100.0, colour="@soft", dash="solid")
    x, y = Axis("step", whole=True), Axis("% in use", low=0.0, high=112.0)
    return Figure("Servers (full line) and uplink (dashed)", x, y, [servers, uplink], [full])
