"""Every step of a run, kept: the raw material of the audit and of timelines, and the lives of tasks read off it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from equipoise.document import Row
from equipoise.kernels import Floats, Ints
from equipoise.share.step import Now
from equipoise.share.task import COMPUTING, DELAYED, DONE, SENDING, STATES
from equipoise.share.view import View
from equipoise.share.workload import Batch

if TYPE_CHECKING:
    from equipoise.share.simulate import Run


@dataclass(frozen=True)
class Trace:
    """Arrays [steps, seeds, tasks]: the state the policy saw, what it gave, and where the task stood afterwards."""

    state: NDArray[np.int8]
    bandwidth: Floats
    compute: Floats
    samples: Floats
    error: Floats
    server: Ints  # where it began the step; -1: did not compute
    ran: Floats  # [steps, seeds, tasks, servers]: samples it computed on each

    @classmethod
    def empty(cls, batch: Batch, servers: int) -> Trace:
        shape = (batch.horizon, *batch.shape)
        bandwidth, compute, samples, error = (np.zeros(shape) for _ in range(4))
        server, ran = np.full(shape, -1, np.int64), np.zeros((*shape, servers))
        return cls(np.zeros(shape, np.int8), bandwidth, compute, samples, error, server, ran)

    def before(self, step: int, state: NDArray[np.int8]) -> None:
        self.state[step] = state

    def after(self, step: int, bandwidth: Floats, compute: Floats, now: Now, view: View) -> None:
        self.bandwidth[step], self.compute[step], self.samples[step] = bandwidth, compute, now.curve["samples"]
        self.error[step] = np.where(view.observed, view.error, self.error[step - 1] if step else 1.0)
        self.server[step] = np.where(compute > 0, now.server, -1)

    def spans(self, seeds: Ints) -> list[Row]:
        """How long each task was in which state: first and last step of every stretch."""
        found = []
        for k, seed in enumerate(seeds.tolist()):
            for task, states in enumerate(self.state[:, k].T):
                cuts = np.flatnonzero(np.diff(states)) + 1
                for first, after in zip([0, *cuts.tolist()], [*cuts.tolist(), len(states)], strict=True):
                    state = STATES[int(states[first])]
                    found.append({"seed": seed, "task": task, "state": state, "first": first, "last": after - 1})
        return found


STARVER = "UARA+LARA"  # the published policy whose starvation is to be seen
MOST_TASKS = 300  # whose lives are kept
MOST_STEPS = 200_000  # task-steps that are kept: a result stays small whatever the horizon


def telling_task(lives: Mapping[str, Run]) -> int:
    """The task that UARA+LARA starves most while another policy finishes it; without one, where outcomes split most.

    `lives` has a traced run of one seed per policy. Starving is compute that stood idle while the task was ready for it.
    """
    runs = list(lives.values())
    done = np.array([run.state[0] == DONE for run in runs])
    starved = np.array([idle_beside(run) for run in runs]) * ~done
    if STARVER in lives:
        row = list(lives).index(STARVER)
        score = np.where(done.any(axis=0), starved[row], 0.0)
        if score.max() > 0.0:
            return int(score.argmax())
    split = np.minimum(done.sum(axis=0), (~done).sum(axis=0)).astype(float)
    return int((split + starved.sum(axis=0) / (1.0 + starved.sum())).argmax())


def idle_beside(run: Run) -> Floats:
    """Samples that the site did not compute while each task of the first seed was ready to compute."""
    trace = _trace(run)
    idle = run.site.capacity - trace.compute[:, 0].sum(axis=1)
    return np.asarray(np.where(trace.state[:, 0] == COMPUTING, idle[:, None], 0.0).sum(axis=0))


def _trace(run: Run) -> Trace:
    if run.trace is None:
        raise ValueError(f"the steps of {run.policy} were not kept: simulate(..., trace=True)")
    return run.trace


def life_rows(runs: Sequence[Run], chosen: int) -> list[Row]:
    """The lives of tasks: one row for each task and policy, from traced runs of one seed.

    A task computes from step `ready` to `end`. `sending` has a letter for each step of sending ("s", or "." without
    bandwidth); `given` samples and `errors` observed in each step of computing ("-" where it was given nothing).
    `idle` is the share of the site that stood idle then, `starved` the samples that the task could have had of it.
    All tasks are there unless they are very many; then an even selection, `chosen` in it.
    """
    used = [_trace(run).compute[:, 0].sum(axis=1) for run in runs]
    tasks = runs[0].batch.shape[1]
    steps = sum(int(np.isin(_trace(run).state[:, 0], (SENDING, COMPUTING)).sum()) for run in runs)
    most = max(1, min(MOST_TASKS, int(tasks * MOST_STEPS / max(steps, 1))))
    shown = np.arange(tasks) if tasks <= most else np.linspace(0, tasks - 1, most).round().astype(int)
    return [
        _life(run, busy, task)
        for task in sorted({chosen, *shown.tolist()})
        for run, busy in zip(runs, used, strict=True)
    ]


def _life(run: Run, used: Floats, task: int) -> Row:
    trace, batch, site = _trace(run), run.batch, run.site
    state = trace.state[:, 0, task]
    start = min(int(batch.arrival[0, task]), batch.horizon)
    sent = start + int((state == SENDING).sum())
    ready = sent + int((state == DELAYED).sum())
    end = ready + int((state == COMPUTING).sum())
    given = trace.compute[ready:end, 0, task]
    idle = np.maximum(site.capacity - used[ready:end], 0.0)
    seen = zip(trace.error[ready:end, 0, task], given, strict=True)
    work, done = float(batch.work[0, task]), bool(run.state[0, task] == DONE)
    return {
        "policy": run.policy,
        "task": task,
        "arrival": int(batch.arrival[0, task]),
        "deadline": int(batch.deadline[0, task]),
        "target": float(f"{batch.target[0, task]:.6g}"),
        "work": work if math.isfinite(work) else None,
        "most": site.most_per_task,
        "successes": int(run.successes[0]),
        "start": start,
        "sent": sent,
        "ready": ready,
        "end": end,
        "done": int(done),
        "finished": 1.0 if done else min(float(run.samples[0, task]) / work, 1.0) if work > 0 else 0.0,
        "rate": float(given.mean()) if len(given) else 0.0,
        "idle": float(idle.mean() / site.capacity) if len(idle) else 0.0,
        "starved": float(np.minimum(site.most_per_task - given, idle).sum()),
        "sending": "".join("s" if y > 0 else "." for y in trace.bandwidth[start:sent, 0, task]),
        "given": " ".join(f"{x:.2f}".rstrip("0").rstrip(".") for x in given),
        "errors": " ".join(f"{e:.4g}" if x > 0 else "-" for e, x in seen),
    }


def site_rows(runs: Sequence[Run]) -> list[Row]:
    """What the site did meanwhile: one row for each policy and step, with samples used and tasks by state."""
    found: list[Row] = []
    for run in runs:
        trace = _trace(run)
        used, states = trace.compute[:, 0].sum(axis=1), trace.state[:, 0]
        counts = {STATES[code]: (states == code).sum(axis=1).tolist() for code in (SENDING, DELAYED, COMPUTING)}
        found += [
            {"policy": run.policy, "step": step, "capacity": run.site.capacity, "used": round(float(busy), 2)}
            | {name: count[step] for name, count in counts.items()}
            for step, busy in enumerate(used)
        ]
    return found
