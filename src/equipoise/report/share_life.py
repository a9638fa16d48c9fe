"""The life of one task under every policy: sent, delayed, computed, and what the site did meanwhile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from markupsafe import Markup

from equipoise.present.echarts import Chart, Option, frame, grid, legend, line, symbol, thinned, tooltip, x_axis, y_axis
from equipoise.present.text import count, number
from equipoise.report.share_charts import Look
from equipoise.share.simulate import Run
from equipoise.share.task import COMPUTING, DELAYED, DONE, SENDING
from equipoise.share.trace import STARVER

MOST_TASKS = 300  # that can be chosen from
MOST_STEPS = 200_000  # task-steps embedded; a page stays small whatever the horizon
LEFT = "idle compute it was not given"
KINDS = {  # of a span in a lane: colour
    "sending": "@blue",
    "delayed": "@edge",
    "computing": "@teal",
    LEFT: "@left",
    "waiting, given nothing": "@amber",
}


@dataclass(frozen=True)
class Life:
    """One task under one policy. Times are steps; it computes from `ready` to `end`."""

    policy: str
    start: int
    sent: int
    ready: int
    end: int
    done: bool
    finished: float  # share of its work that was computed
    sending: list[bool]  # whether it got bandwidth, from start to sent
    given: list[float]  # samples per step, from ready to end
    errors: list[float | None]  # observed after each of those steps; none where it got nothing
    idle: float  # share of the site that stood idle, on average from ready to end
    starved: float  # samples it could have had, from ready to end, out of idle compute

    @property
    def rate(self) -> float:
        return float(np.mean(self.given)) if self.given else 0.0

    def compact(self) -> list[Any]:
        """As it stands in the page; share.html.j2 reads it."""
        sending = "".join("1" if got else "0" for got in self.sending)
        given = [round(x, 2) for x in self.given]
        errors = [None if e is None else float(f"{e:.4g}") for e in self.errors]
        return [self.start, self.sent, self.ready, self.end, self.done, round(self.finished, 3), sending, given, errors]


class Lives:
    """Every task of one seed under every policy, from traced runs of the same tasks."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self.batch, self.site = runs[0].batch, runs[0].site
        self.tasks = self.batch.shape[1]
        self.used = [_trace(run).compute[:, 0].sum(axis=1) for run in runs]

    @cached_property
    def of_task(self) -> list[list[Life]]:
        """A row a task, a life a policy."""
        return [[self._life(p, task) for p in range(len(self.runs))] for task in range(self.tasks)]

    def _life(self, p: int, task: int) -> Life:
        run, trace = self.runs[p], _trace(self.runs[p])
        state = trace.state[:, 0, task]
        arrival = min(int(self.batch.arrival[0, task]), self.batch.horizon)
        sent = arrival + int((state == SENDING).sum())
        ready = sent + int((state == DELAYED).sum())
        end = ready + int((state == COMPUTING).sum())
        given = trace.compute[ready:end, 0, task]
        idle = np.maximum(self.site.capacity - self.used[p][ready:end], 0.0)
        errors = trace.error[ready:end, 0, task]
        work = float(self.batch.work[0, task])
        done = bool(run.state[0, task] == DONE)
        return Life(
            policy=run.policy,
            start=arrival,
            sent=sent,
            ready=ready,
            end=end,
            done=done,
            finished=1.0 if done else min(float(run.samples[0, task]) / work, 1.0) if work > 0 else 0.0,
            sending=[bool(y > 0) for y in trace.bandwidth[arrival:sent, 0, task]],
            given=given.tolist(),
            errors=[float(e) if x > 0 else None for e, x in zip(errors, given, strict=True)],
            idle=float(idle.mean() / self.site.capacity) if len(idle) else 0.0,
            starved=float(np.minimum(self.site.most_per_task - given, idle).sum()),
        )

    def kept(self, chosen: int) -> list[int]:
        """The tasks that can be chosen: all, unless the page would grow too large; then an even selection."""
        steps = sum(len(life.given) + len(life.sending) for lives in self.of_task for life in lives)
        most = min(MOST_TASKS, int(self.tasks * MOST_STEPS / max(steps, 1)))
        return sorted({chosen, *thinned(self.tasks, max(most, 1)).tolist()})

    def story(self, task: int) -> str:
        """What became of it, in words."""
        lives = self.of_task[task]
        successes = {run.policy: int(run.successes[0]) for run in self.runs}
        work, deadline = float(self.batch.work[0, task]), int(self.batch.deadline[0, task])
        if not math.isfinite(work):
            return f"Task {task} can never succeed: its curve does not reach its target."
        words = [f"Task {task} needs {number(math.ceil(work - 1e-6))} samples by step {deadline}"]
        done = sorted((life for life in lives if life.done), key=lambda life: life.end)
        if done and len(done) < len(lives):
            winner = max(done, key=lambda life: successes[life.policy])  # the one that does best on the whole seed
            words += [_loss(lives[_starver(lives)]), f"{winner.policy} finished it at step {winner.end}."]
        elif done:
            last = f", {done[-1].policy} last at step {done[-1].end}" if done[-1].end > done[0].end else ""
            who = (
                f"every policy finished it, {done[0].policy} first"
                if len(done) > 1
                else f"{done[0].policy} finished it"
            )
            words.append(f"{who} at step {done[0].end}{last}.")
        else:
            nearest = max(lives, key=lambda life: life.finished)
            part = (
                f"; {nearest.policy} came nearest, with {_part(nearest.finished)} of them" if nearest.finished else ""
            )
            words.append(f"no policy finished it{part}.")
        return "; ".join(words)

    def compact(self, chosen: int) -> dict[str, Any]:
        """What the page embeds: enough to draw any of the kept tasks."""
        return {
            "cap": self.site.most_per_task,
            "capacity": self.site.capacity,
            "chosen": chosen,
            "policies": [self._site(p) for p in range(len(self.runs))],
            "tasks": [
                {
                    "id": task,
                    "arrival": int(self.batch.arrival[0, task]),
                    "deadline": int(self.batch.deadline[0, task]),
                    "target": float(f"{self.batch.target[0, task]:.6g}"),
                    "story": self.story(task),
                    "lives": [life.compact() for life in self.of_task[task]],
                }
                for task in self.kept(chosen)
            ],
        }

    def _site(self, p: int) -> dict[str, Any]:
        state = _trace(self.runs[p]).state[:, 0]
        return {
            "name": self.runs[p].policy,
            "used": [round(float(x), 2) for x in self.used[p]],
            **{
                name: (state == code).sum(axis=1).tolist()
                for name, code in (("sending", SENDING), ("delayed", DELAYED), ("computing", COMPUTING))
            },
        }


def _trace(run: Run) -> Any:
    if run.trace is None:
        raise ValueError(f"the timeline of {run.policy} needs a traced run: simulate(..., trace=True)")
    return run.trace


def _part(share: float) -> str:
    return f"{100 * min(share, 0.99) if share < 1 else 100:.0f} %"


def _loss(life: Life) -> str:
    """Why a task was not finished."""
    if not life.given:
        return f"{life.policy} had not brought its data in by then"
    if life.rate == 0.0:
        return f"{life.policy} never let it compute"
    site = f"while {life.idle:.0%} of the site stood idle".replace("%", " %") if life.idle >= 0.05 else "in a busy site"
    return f"{life.policy} gave it {number(life.rate, 2)} per step {site}"


def life_charts(lives: Lives, styles: Sequence[Look], chosen: int) -> list[Chart]:
    """The words with their two choices, the lanes, the errors, and the site."""
    seed, load = int(lives.batch.seeds[0]), lives.tasks
    tasks = lives.kept(chosen)
    left = "" if len(tasks) == load else f" {len(tasks)} of its {load} tasks can be chosen, evenly chosen."
    names = [look.name for look in styles]
    return [
        Chart(
            "story",
            "The life of one task",
            "",
            _choices(lives, tasks, chosen, names)
            + f"The same task of seed {seed}, one of {load}, under {count(len(names), 'policy', 'policies')}.{left}",
            None,
            wide=True,
        ),
        Chart(
            "life",
            "What it was given, step by step",
            "Timeline: a lane per policy with the steps in which the task was sending, delayed, computing or waiting",
            f"While it can compute, the height is what it got out of the {number(lives.site.most_per_task)} samples per "
            "step that one task can use; red is compute that stood idle in that step and that it could have had.",
            _lanes(names),
            wide=True,
        ),
        Chart(
            "errors",
            "Its error against its target",
            "Lines: observed error of the task by step on a logarithmic axis, one per policy, with the target",
            "As observed, with noise: it is done when the true error is at the target. A flat line is a task that "
            "computes little.",
            _errors(styles),
            tall=True,
        ),
        Chart(
            "site",
            "What the site did meanwhile",
            "Bars: compute used and idle by step, and below how many tasks were sending, delayed and computing",
            "Under the policy chosen above. Red is compute that stood idle although a task was ready. The bar on top "
            "spans the steps in which the chosen task was ready.",
            _site_picture(lives),
            tall=True,
        ),
    ]


def _choices(lives: Lives, tasks: Sequence[int], chosen: int, names: Sequence[str]) -> Markup:
    def option(value: int, text: str, selected: bool) -> Markup:
        return Markup('<option value="{}"{}>{}</option>').format(value, Markup(" selected") if selected else "", text)

    told = [option(k, f"task {k}: {_ended(lives.of_task[k])}", task == chosen) for k, task in enumerate(tasks)]
    worst = _starver(lives.of_task[chosen])
    shown = [option(k, name, k == worst) for k, name in enumerate(names)]
    return Markup(
        '<span class="story" aria-live="polite">{}</span>'
        '<span class="choices"><label>Task <select id="task">{}</select></label> '
        '<label>Site under <select id="site-policy">{}</select></label></span>'
    ).format(lives.story(chosen), Markup("").join(told), Markup("").join(shown))


def _ended(lives: Sequence[Life]) -> str:
    done = sum(life.done for life in lives)
    return (
        "all finish it" if done == len(lives) else f"{done} of {len(lives)} finish it" if done else "none finishes it"
    )


def _starver(lives: Sequence[Life]) -> int:
    """The policy that the words are about: of those that did not finish it the published starver, or the worst."""
    known = [life.policy == STARVER and life.starved > 0 for life in lives]
    return max(range(len(lives)), key=lambda k: (not lives[k].done, known[k], lives[k].starved))


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


def _errors(styles: Sequence[Look]) -> Option:
    series = [
        line(look.name, [], look.colour, stroke={"type": "dashed" if look.dashed else "solid"})
        | {"showSymbol": True, "connectNulls": True, **symbol(look, 5)}
        for look in styles
    ]
    return frame(
        grid=grid() | {"top": 26},
        legend={"show": False},
        tooltip=tooltip("axis", formatter="@againstStep"),
        xAxis=_steps(),
        yAxis=y_axis("observed error"),
        series=series,
    )


def _site_picture(lives: Lives) -> Option:
    """Compute above, tasks below, over the same steps."""
    sides = {"left": 40, "right": 12, "outerBoundsMode": "none"}
    steps = [str(t) for t in range(lives.batch.horizon)]
    axis = x_axis("step", "category", pointer="step {value}", data=steps)
    silent = {"axisLabel": {"show": False}, "axisTick": {"show": False}, "name": ""}
    bars = {"type": "bar", "stack": "compute", "barCategoryGap": 0, "data": []}
    counts = {"type": "bar", "stack": "tasks", "barCategoryGap": 0, "data": [], "xAxisIndex": 1, "yAxisIndex": 1}
    capacity = lives.site.capacity
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
