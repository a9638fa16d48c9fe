"""Run one policy on one workload: the main loop, what came out of it seed by seed, and every step if it is to be kept."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from equipoise.document import Document, Row
from equipoise.errors import InputError
from equipoise.kernels import Floats, Ints
from equipoise.result import Result
from equipoise.share import step as site_step
from equipoise.share.site import Site
from equipoise.share.step import COMPUTE, Fault
from equipoise.share.task import COMPUTING, DELAYED, DONE, SENDING, STATES
from equipoise.share.view import Decision, Policy, Prior, Scene, Truth, View, is_blind, name_of
from equipoise.share.workload import Batch, Workload

NOBODY_ASKS = np.empty((1, 0), np.int64)  # the policy does not decide servers
NOT_KEPT = np.empty((0, 0, 0))
# Bytes that a run needs for a task, and more. So much is asked for and given back before it begins: glibc then keeps what a
# run frees for the next one, which would else wait for the pages of 4 MB, a tenth of its time.
ROOM = 512
STARVER = "UARA+LARA"  # the published policy whose starvation is to be seen
MOST_TASKS = 300  # whose lives are kept
MOST_STEPS = 200_000  # task-steps that are kept: a result stays small whatever the horizon


class PolicyError(InputError):
    """A policy decided what the site cannot do. Names the policy, the step and the task."""


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
    asked: Floats  # [steps, seeds]: compute of all as decided, before servers could not follow
    sent: Floats  # [steps, seeds]: samples sent so far

    @classmethod
    def empty(cls, batch: Batch, servers: int) -> Trace:
        shape = (batch.horizon, *batch.shape)
        bandwidth, compute, samples, error = (np.zeros(shape) for _ in range(4))
        server, ran = np.full(shape, -1, np.int64), np.zeros((*shape, servers))
        asked, sent = np.zeros((2, *shape[:2]))
        return cls(np.zeros(shape, np.int8), bandwidth, compute, samples, error, server, ran, asked, sent)

    def before(self, step: int, state: NDArray[np.int8], view: View, compute: Floats) -> None:
        self.state[step], self.asked[step], self.error[step] = state, compute.sum(axis=1), view.error

    def after(self, step: int, bandwidth: Floats, compute: Floats, now: site_step.Now, view: View) -> None:
        self.bandwidth[step], self.compute[step], self.samples[step] = bandwidth, compute, now.curve["samples"]
        self.error[step] = np.where(view.observed, view.error, self.error[step])
        self.server[step], self.sent[step] = np.where(compute > 0, now.server, -1), now.sums["sent"]

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


@dataclass(frozen=True)
class Run(Result):
    """One policy on one load: arrays have one row for each seed."""

    policy: str
    site: Site
    batch: Batch
    state: NDArray[np.int8]
    done_at: Ints  # -1: not done
    samples: Floats
    observations: Ints
    energy: Floats
    sent: Floats
    idle: Floats  # samples not computed while a task could
    unplaced: Floats
    moves: Ints
    switches: Ints  # changes of the task that holds the server, where there is only one
    trace: Trace | None = None

    def __repr__(self) -> str:
        seeds, tasks = self.state.shape
        return f"<Run: {self.policy}, {tasks} tasks, {seeds} seeds>"

    @property
    def kept(self) -> Trace:
        """Every step of it, where they were kept."""
        if self.trace is None:
            raise ValueError(f"the steps of {self.policy} were not kept: simulate(..., trace=True)")
        return self.trace

    @property
    def successes(self) -> Ints:
        """Tasks that reached their target in time, a number per seed."""
        return np.asarray((self.state == DONE).sum(axis=1), dtype=np.int64)

    @property
    def success(self) -> Floats:
        """Percent of tasks, per seed."""
        return np.asarray(100.0 * self.successes / self.batch.shape[1])

    @cached_property
    def latency(self) -> Floats:
        """Mean steps from arrival to the step of success, over the successes of each seed; nan where there was none."""
        spent = np.where(self.state == DONE, self.done_at - 1 - self.batch.arrival, 0).sum(axis=1)
        count = self.successes
        return np.where(count > 0, spent / np.maximum(count, 1), np.nan)

    @property
    def network(self) -> Floats:
        """Percent of the uplink used over the horizon, per seed."""
        return np.asarray(100.0 * self.sent / (self.site.bandwidth * self.batch.horizon))

    @property
    def idle_while_work(self) -> Floats:
        """Percent of all compute that stood idle while a task was ready for it, per seed."""
        return np.asarray(100.0 * self.idle / (self.site.capacity * self.batch.horizon))

    def document(self, *, certify: bool = True) -> Document:
        """Plain values: one row for each seed, and its tasks; with a trace, what each did and how full the site was.

        There is no certificate of a single run: `audit` recomputes a traced one, `check_policy` tries a policy.
        """
        tables = {"tasks": [row for k in range(self.batch.shape[0]) for row in self._tasks(k)]}
        if self.trace is not None:
            tables |= {"spans": self.trace.spans(self.batch.seeds), "steps": self._steps()}
        rows = [
            {"policy": self.policy, "load": self.batch.shape[1], "seed": int(seed), "successes": int(self.successes[k])}
            | {name: float(getattr(self, name)[k]) for name in ("success", "energy", "latency", "network")}
            for k, seed in enumerate(self.batch.seeds)
        ]
        return Document("share run", {"policy": self.policy, "rows": rows}, None, {"site": asdict(self.site)}, tables)

    def _tasks(self, k: int) -> list[Row]:
        """The tasks of one seed as they were drawn, and how each ended."""
        names = ("arrival", "deadline", "data", "target", "work")
        columns = {name: getattr(self.batch, name)[k].tolist() for name in names}
        columns["samples"] = self.samples[k].tolist()
        states, ends = [STATES[s] for s in self.state[k]], [None if t < 0 else t for t in self.done_at[k].tolist()]
        seed = int(self.batch.seeds[k])
        return [
            {"seed": seed, "task": j, "state": states[j], "done_at": ends[j]} | {n: c[j] for n, c in columns.items()}
            for j in range(self.batch.shape[1])
        ]

    def _steps(self) -> list[Row]:
        """Percent of servers and of the uplink in use, step by step."""
        compute = 100.0 * self.kept.ran.sum(axis=(2, 3)) / self.site.capacity
        bandwidth = 100.0 * np.diff(self.kept.sent, axis=0, prepend=0.0) / self.site.bandwidth
        return [
            {"seed": int(seed), "step": t, "compute": float(compute[t, k]), "bandwidth": float(bandwidth[t, k])}
            for k, seed in enumerate(self.batch.seeds)
            for t in range(len(compute))
        ]


def simulate(
    policy: Policy,
    workload: Workload | None = None,
    *,
    load: int = 60,
    seeds: int | Iterable[int] = 1,
    site: Site | None = None,
    trace: bool = False,
) -> Run:
    """Play a policy against a workload.

    Parameters
    ----------
    policy
        The policy, not its class.
    workload
        What arrives; the authors' preset if None.
    load
        How many tasks.
    seeds
        A count, or the seeds themselves.
    site
        The servers and the uplink; the workload's own if None.
    trace
        Whether to keep every step, for timelines and audits.
    """
    workload = workload or Workload.authors()
    site = site or workload.site
    return play(policy, workload.draw(load, seeds, site), site, workload.prior, trace=trace)


def play(policy: Policy, batch: Batch, site: Site, prior: Prior, *, trace: bool = False) -> Run:
    """The main loop (docs/share.md, 1)."""
    np.empty((*batch.shape, ROOM), np.uint8)
    decider = fresh(policy, batch, site, prior)
    now, rule = site_step.start(batch, site), site_step.rules(site)
    view = site_step.empty_view(batch.shape, rule)
    shown = view[1:]
    kept = Trace.empty(batch, len(site.servers)) if trace else None
    own = trace or not rule.fluid or rule.switch_cost > 0  # decisions are copied: they may be lowered, or are kept
    watched = trace or not is_blind(policy)
    # Beyond the last deadline nobody is left to decide about, and where idle steps cost nothing they are not played.
    steps = min(batch.horizon, int(batch.deadline.max()) + 1) if site.power == "per_sample" else batch.horizon
    for step in range(steps):
        if step == 0 or trace:  # else the step before has opened it
            site_step.open_step(step, now, view, rule, watched)
        decision = decider.decide(View(step, *shown))
        bandwidth, compute, server = arrays_of(decision, policy, step, batch.shape, own)
        if kept is not None:
            kept.before(step, now.state, view, compute)
        ran = NOT_KEPT if kept is None else kept.ran[step]
        opens = step + 1 < steps and not trace
        fault = site_step.close_step(step, now, view, bandwidth, compute, server, rule, watched, ran, opens)
        refuse(fault, policy, step, batch, now.state, rule)
        if kept is not None:
            kept.after(step, bandwidth, compute, now, view)
    if kept is not None:
        for rows in (kept.state, kept.samples, kept.error, kept.sent):
            rows[steps:] = rows[steps - 1]
    return run_of(policy, site, batch, now, kept)


def run_of(policy: Policy, site: Site, batch: Batch, now: site_step.Now, kept: Trace | None) -> Run:
    """What came out of all steps."""
    sums = {name: now.sums[name].copy() for name in ("energy", "sent", "idle", "unplaced", "moves", "switches")}
    done_at, observations = now.task["done_at"].astype(np.int64), now.curve["observations"].astype(np.int64)
    return Run(
        name_of(policy), site, batch, now.state, done_at, now.curve["samples"].copy(), observations, **sums, trace=kept
    )


def fresh(policy: Policy, batch: Batch, site: Site, prior: Prior) -> Policy:
    """A policy with no memory of other runs. Only one that calls itself clairvoyant is told the truth."""
    if isinstance(policy, type):
        raise PolicyError(f"{policy.__name__} is a class; give a policy, {policy.__name__}()", code="policy.class")
    if not callable(getattr(policy, "decide", None)):
        raise PolicyError(f"{name_of(policy)} is not a policy: it has no method decide(view)", code="policy.method")
    _refuse_idle_decide(policy)
    try:
        mine = copy.deepcopy(policy)  # runs go on side by side
    except Exception as error:
        raise PolicyError(f"{name_of(policy)} cannot be copied ({error}): make what it holds in start(scene)") from None
    begin = getattr(mine, "start", None)
    if begin is None:
        return mine
    truth = Truth(batch.work.copy()) if getattr(policy, "clairvoyant", False) else None
    started: Policy = begin(Scene(site, prior, *batch.shape, batch.horizon, truth))
    if not callable(getattr(started, "decide", None)):
        got = type(started).__name__
        raise PolicyError(f"{name_of(policy)}: start(scene) returned {got}, which has no decide(view)")
    return started


def _refuse_idle_decide(policy: Policy) -> None:
    """A `decide` that was written over one of ours, which runs through `start`, would never be called."""
    family = type(policy).__mro__
    start, decide, given = (next((c for c in family if name in vars(c)), None) for name in ("start", "decide", "given"))
    if start is None or not start.__module__.startswith("equipoise."):
        return
    asked = "given" in vars(start)  # a run calls it
    for what, where in (("decide(view)", decide), ("given(view, estimate)", None if asked else given)):
        if where is not None and family.index(where) < family.index(start):
            instead = "given(view, estimate)" if asked else "start(scene)"
            why = f"overrides {what} of {start.__name__}, which a run does not call; override {instead}"
            raise PolicyError(f"{name_of(policy)} {why}")


def arrays_of(
    decision: object, policy: Policy, step: int, shape: tuple[int, int], own: bool
) -> tuple[Floats, Floats, Ints]:
    """The decision as arrays of the right shape; if `own`, never the policy's."""

    def wrong(what: str, code: str) -> PolicyError:
        return PolicyError(f"{name_of(policy)}, step {step}: {what}", code=code)

    if not isinstance(decision, Decision):
        got = type(decision).__name__
        raise wrong(f"decide returned {got}; expected Decision(bandwidth, compute)", "decision.type")
    found = []
    for name in ("bandwidth", "compute"):
        array = _floats(getattr(decision, name), own)
        if array is None or array.shape != shape:
            got = "values that are not numbers" if array is None else f"shape {array.shape}"
            raise wrong(f"{name} has {got}; expected shape {shape} (seeds, tasks)", "decision.shape")
        found.append(array)
    if decision.server is None:
        return found[0], found[1], NOBODY_ASKS
    server = np.asarray(decision.server)
    if server.shape != shape or server.dtype.kind not in "iu":
        got = f"{server.dtype} of shape {server.shape}"
        raise wrong(f"server has {got}; expected integers of shape {shape}", "decision.shape")
    return found[0], found[1], np.require(server, np.int64, ["C", "W"])


def _floats(value: object, own: bool) -> Floats | None:
    """An array in the engine's layout, or None: not numbers."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of unequal length
        return None
    if array.dtype.kind not in "fiub":
        return None
    if own:
        return np.array(array, float, order="C")
    ours = array.dtype == float and array.flags.carray  # what a policy of ours gives; to ask costs less than to require
    return array if ours else np.require(array, float, ["C", "W"])


def refuse(
    fault: Fault, policy: Policy, step: int, batch: Batch, state: NDArray[np.int8], rule: site_step.Rules
) -> None:
    """One line: policy, step, seed, task, and what is wrong."""
    if fault.code == site_step.FINE:
        return
    resource = "compute" if fault.resource == COMPUTE else "bandwidth"
    stage = STATES[int(state[fault.seed, fault.task])]
    most = min(rule.task_cap, float(batch.speed[fault.seed, fault.task]))
    whole = rule.capacity if fault.resource == COMPUTE else rule.bandwidth
    amount, last = f"{fault.amount:g}", len(rule.speeds) - 1
    over = f"{resource} adds up to {amount} with this task; the site has {whole:g}"
    code, what = {
        site_step.NOT_A_NUMBER: ("decision.number", f"{resource} is {amount}"),
        site_step.NEGATIVE: ("decision.negative", f"{resource} is {amount}, which is negative"),
        site_step.WRONG_STATE: ("decision.state", f"{resource} is {amount} for a task that is {stage}"),
        site_step.TASK_OVER: ("decision.task", f"compute is {amount}; this task may get {most:g}"),
        site_step.SITE_OVER: ("decision.site", over),
        site_step.NO_SUCH_SERVER: ("decision.server", f"server is {amount}; the site has 0 to {last}"),
    }[fault.code]
    where = f"step {step}, seed {batch.seeds[fault.seed]}, task {fault.task}"
    raise PolicyError(f"{name_of(policy)}, {where}: {what}", code=code)


# The lives of tasks, read off traced runs of one seed.


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
    trace = run.kept
    idle = run.site.capacity - trace.compute[:, 0].sum(axis=1)
    return np.asarray(np.where(trace.state[:, 0] == COMPUTING, idle[:, None], 0.0).sum(axis=0))


def life_rows(runs: Sequence[Run], chosen: int) -> list[Row]:
    """The lives of tasks: one row for each task and policy, from traced runs of one seed.

    A task computes from step `ready` to `end`. `sending` has a letter for each step of sending ("s", or "." without
    bandwidth; where the uplink divides itself "d" for those of its delay, which come first); `given` samples and `errors`
    observed in each step of computing ("-" where it was given nothing).
    `idle` is the share of the site that stood idle then, `starved` the samples that the task could have had of it.
    All tasks are there unless they are very many; then an even selection, `chosen` in it.
    """
    used = [run.kept.compute[:, 0].sum(axis=1) for run in runs]
    tasks = runs[0].batch.shape[1]
    steps = sum(int(np.isin(run.kept.state[:, 0], (SENDING, COMPUTING)).sum()) for run in runs)
    most = max(1, min(MOST_TASKS, int(tasks * MOST_STEPS / max(steps, 1))))
    shown = np.arange(tasks) if tasks <= most else np.linspace(0, tasks - 1, most).round().astype(int)
    kept = sorted({chosen, *shown.tolist()})
    return [_life(run, busy, task) for task in kept for run, busy in zip(runs, used, strict=True)]


def _life(run: Run, used: Floats, task: int) -> Row:
    trace, batch, site = run.kept, run.batch, run.site
    state = trace.state[:, 0, task]
    start = min(int(batch.arrival[0, task]), batch.horizon)
    sent = start + int((state == SENDING).sum())
    ready = sent + int((state == DELAYED).sum())
    sending = "".join("s" if y > 0 else "." for y in trace.bandwidth[start:sent, 0, task])
    if site.uplink == "equal":
        sent, sending = ready, "".join("s" if s == SENDING else "d" for s in state[start:ready])
    end = ready + int((state == COMPUTING).sum())
    given = trace.compute[ready:end, 0, task]
    idle = np.maximum(site.capacity - used[ready:end], 0.0)
    most = min(site.most_per_task, float(batch.speed[0, task]))
    seen = zip(trace.error[ready:end, 0, task], given, strict=True)
    work, done = float(batch.work[0, task]), bool(run.state[0, task] == DONE)
    life: Row = {"policy": run.policy, "task": task}
    life |= {name: int(getattr(batch, name)[0, task]) for name in ("arrival", "deadline")}
    life |= {"target": float(f"{batch.target[0, task]:.6g}"), "work": work if math.isfinite(work) else None}
    life |= {"most": site.most_per_task, "successes": int(run.successes[0])}
    life |= {"start": start, "sent": sent, "ready": ready, "end": end, "done": int(done)}
    life["finished"] = 1.0 if done else min(float(run.samples[0, task]) / work, 1.0) if work > 0 else 0.0
    life["rate"] = float(given.mean()) if len(given) else 0.0
    life["idle"] = float(idle.mean() / site.capacity) if len(idle) else 0.0
    life |= {"starved": float(np.minimum(most - given, idle).sum()), "sending": sending}
    life["given"] = " ".join(f"{x:.2f}".rstrip("0").rstrip(".") for x in given)
    life["errors"] = " ".join(f"{e:.4g}" if x > 0 else "-" for e, x in seen)
    return life


def site_rows(runs: Sequence[Run]) -> list[Row]:
    """What the site did meanwhile: one row for each policy and step, with samples used and tasks by state."""
    found: list[Row] = []
    for run in runs:
        trace = run.kept
        used, states = trace.compute[:, 0].sum(axis=1), trace.state[:, 0]
        counts = {STATES[code]: (states == code).sum(axis=1).tolist() for code in (SENDING, DELAYED, COMPUTING)}
        found += [
            {"policy": run.policy, "step": step, "capacity": run.site.capacity, "used": round(float(busy), 2)}
            | {name: count[step] for name, count in counts.items()}
            for step, busy in enumerate(used)
        ]
    return found
