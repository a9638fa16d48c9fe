"""Simulated and executed side by side: what each measured, and how far the simulation was off."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from equipoise.document import Document, Look, Row, look_of
from equipoise.engine.cpu_limit import CpuLimiter, limiter
from equipoise.engine.real_clock.execute import Executed, execute
from equipoise.engine.real_clock.scene import CORES, RealPlan, RealScene, make_plan, record_all, record_past
from equipoise.engine.real_clock.spec import SEED_MOST, USUAL
from equipoise.engine.real_clock.task_processes import Start, TaskProcesses, open_processes
from equipoise.errors import InputError
from equipoise.kernels import Bools, Floats
from equipoise.result import Result
from equipoise.share.simulate import Run, play
from equipoise.share.task import DONE, STATES
from equipoise.share.view import Policy, name_of
from equipoise.share.workload import Batch
from equipoise.spec import Spec
from equipoise.statistics import mean_and_error

Progress = Callable[[str, int, int], None]  # what is being done, how much of it, of how much

SHARE_LEAST = 0.5  # of the site's CPUs, for those that show the speed: small ones cost no more (found on seeds 0 to 4)
PACERS, PACED_CPU = 6, 0.2  # tasks that show the speed just before a run, and seconds of CPU that each may take
TASKS_MOST = 500
DISTURBED = 5.0  # percent of CPU not got, or by which speed changed since tasks were recorded


@dataclass(frozen=True)
class Pair:
    """One policy on the tasks of one seed, in the simulator and on the clock."""

    policy: str
    plan: RealPlan
    simulated: Run  # at the speed that was measured just before the run
    at_speed: Run  # at the speed that the machine had during the run
    executed: Executed
    pace: float = 1.0  # speed just before the run, as a part of that with which tasks were recorded
    left: int = 0  # processes that were still there afterwards

    @property
    def done(self) -> tuple[Bools, Bools]:
        return self.simulated.state[0] == DONE, self.executed.run.state[0] == DONE

    @property
    def apart(self) -> Floats:
        """Executed minus simulated completion, steps, of the tasks that both finished."""
        one, other = self.done
        both = one & other
        return np.asarray((self.executed.run.done_at - self.simulated.done_at)[0, both], dtype=float)

    @property
    def speed(self) -> float:
        return speed(self.plan, self.executed)

    def row(self) -> Row:
        """Plain values; times in steps, energy by the site's law."""
        simulated, executed = self.simulated, self.executed.run
        one, other = self.done
        return {
            "policy": self.policy,
            "seed": self.plan.seed,
            "tasks": len(self.plan.works),
            "success_simulated": float(simulated.success[0]),
            "success_at_speed": float(self.at_speed.success[0]),
            "success_executed": float(executed.success[0]),
            "success_apart": float(executed.success[0] - simulated.success[0]),
            "otherwise": int((one != other).sum()),
            "latency_simulated": _number(simulated.latency[0]),
            "latency_executed": _number(executed.latency[0]),
            "completion_apart": _number(np.abs(self.apart).mean() if len(self.apart) else math.nan),
            "energy_simulated": float(simulated.energy[0]),
            "energy_executed": float(executed.energy[0]),
            "network_simulated": float(simulated.network[0]),
            "network_executed": float(executed.network[0]),
            "idle_simulated": float(simulated.idle_while_work[0]),
            "idle_executed": float(executed.idle_while_work[0]),
            "shortfall": 100.0 * self.executed.shortfall,
            "pace": self.pace,
            "speed": _number(self.speed),
            "faults": len(self.executed.faults),
            "late_ms": 1e3 * float(self.executed.late.max()),
            "stretched": self.executed.stretched,
        }

    def task_rows(self) -> Iterator[Row]:
        """One row per task: who it is, what was simulated and what happened."""
        run, faults = self.executed.run, {fault.task: fault for fault in self.executed.faults}
        batch, done = self.plan.batch, self.done
        for k, work in enumerate(self.plan.works):
            yield {
                "policy": self.policy,
                "seed": self.plan.seed,
                "task": k,
                "kind": work.kind,
                "work_seed": work.seed,
                "arrival": int(batch.arrival[0, k]),
                "deadline": int(batch.deadline[0, k]),
                "target": float(batch.target[0, k]),
                "work": _number(batch.work[0, k]),
                "unit_ms": 1e3 * self.plan.recorded[k].unit,
                "done_simulated": int(self.simulated.done_at[0, k]) if done[0][k] else None,
                "done_executed": int(run.done_at[0, k]) if done[1][k] else None,
                "finished": _number(self.executed.finished[k]),
                "units": int(self.executed.units[k]),
                "error": _number(self.executed.errors[k][-1] if len(self.executed.errors[k]) else math.nan),
                "cpu_asked": float(self.executed.asked[k]),
                "cpu_got": float(self.executed.got[k]),
                "shortfall": max(float(self.executed.asked[k] - self.executed.got[k]), 0.0),
                "fault": faults[k].why if k in faults else "",
                "fault_step": faults[k].step if k in faults else None,
            }

    def history(self) -> Iterator[Row]:
        """One row per step and task that was there: what was decided and what was done."""
        trace = self.executed.run.kept
        for step, states in enumerate(trace.state[:, 0].tolist()):
            for task, state in enumerate(states):
                if STATES[state] in ("sending", "delayed", "computing"):
                    yield {
                        "policy": self.policy,
                        "seed": self.plan.seed,
                        "step": step,
                        "task": task,
                        "state": STATES[state],
                        "bandwidth": float(trace.bandwidth[step, 0, task]),
                        "compute": float(trace.compute[step, 0, task]),
                        "cpu_samples": float(self.executed.took[step, task]),
                        "samples": float(trace.samples[step, 0, task]),
                        "error": float(trace.error[step, 0, task]),
                    }

    def steps(self) -> Iterator[Row]:
        """One row per step: compute of the whole site as simulated, as given on the clock, and as taken."""
        simulated, given = (run.compute[:, 0].sum(axis=1) for run in (self.simulated.kept, self.executed.run.kept))
        for step, used in enumerate(zip(simulated, given, self.executed.took.sum(axis=1), strict=True)):
            numbers = dict(zip(("simulated", "given", "taken"), map(float, used), strict=True))
            yield {"policy": self.policy, "seed": self.plan.seed, "step": step, **numbers}


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


@dataclass(frozen=True, repr=False)
class RealComparison(Result):
    """Every policy on every seed."""

    scene: RealScene
    limiter: str
    says: str
    units: dict[str, float]  # seconds of CPU by kind of task
    pairs: tuple[Pair, ...]
    looks: dict[str, Look] = field(default_factory=dict)  # colour and marker of each policy
    spec: Spec | None = None

    def __repr__(self) -> str:
        return f"RealComparison({', '.join(self.names)}; {len(self.seeds)} seeds, {self.scene.cpus:g} CPUs)"

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(pair.policy for pair in self.pairs))

    @property
    def seeds(self) -> list[int]:
        return list(dict.fromkeys(pair.plan.seed for pair in self.pairs))

    @property
    def rows(self) -> list[Row]:
        """One row per policy: means over seeds, and over all tasks that both finished for completion times."""
        found = []
        for name in self.names:
            mine = [pair for pair in self.pairs if pair.policy == name]
            rows = [pair.row() for pair in mine]
            apart = np.concatenate([pair.apart for pair in mine])
            total = {key: sum(row[key] for row in rows) for key in ("tasks", "otherwise", "faults", "stretched")}
            means = {
                key: mean_and_error(np.array([row[key] for row in rows], float))
                for key in rows[0]
                if key not in ("policy", "seed", "completion_apart", "late_ms", *total)
            }
            found.append(
                {
                    "policy": name,
                    "seeds": len(rows),
                    "tasks": total["tasks"],
                    **{key: mean for key, (mean, _) in means.items()},
                    "success_apart_se": means["success_apart"][1],
                    "otherwise": total["otherwise"],
                    "completion_apart": mean_and_error(np.abs(apart))[0],
                    "completion_bias": mean_and_error(apart)[0],
                    "faults": total["faults"],
                    "late_ms": max(row["late_ms"] for row in rows),
                    "stretched": total["stretched"],
                }
            )
        return found

    @property
    def same_order(self) -> bool:
        """Whether policies rank alike by mean success, simulated and executed (ties may fall either way)."""
        rows = self.rows
        return all(
            (a["success_simulated"] - b["success_simulated"]) * (a["success_executed"] - b["success_executed"]) >= 0
            for k, a in enumerate(rows)
            for b in rows[:k]
        )

    @property
    def disturbed(self) -> bool:
        """Whether tasks missed much CPU, or the machine changed its speed: then a run says more of the machine."""
        changes = [pair.speed / pair.pace - 1.0 for pair in self.pairs if pair.speed > 0]
        starved = any(row["shortfall"] > DISTURBED for row in self.rows)
        return starved or (bool(changes) and abs(float(np.mean(changes))) > DISTURBED / 100.0)

    def document(self, *, certify: bool = True) -> Document:
        """The table, every run, every task, every step; the certificate on demand."""
        from equipoise.engine.real_clock.audit import certify as audited

        first = [pair for pair in self.pairs if pair.plan.seed == self.seeds[0]]
        site = self.scene.site
        result: Row = {
            "rows": self.rows,
            "same_order": self.same_order,
            "disturbed": self.disturbed,
            "limiter": self.says,
            "runs": [pair.row() for pair in self.pairs],
            "tasks": [row for pair in self.pairs for row in pair.task_rows()],
            "site": {
                "cpus": self.scene.cpus,
                "step": self.scene.step,
                "capacity": site.capacity,
                "horizon": max(pair.plan.batch.horizon for pair in self.pairs),
            },
            "steps": [row for pair in first for row in pair.steps()],
        }
        settings = self.settings()
        return Document(
            "share execute",
            result,
            audited(self) if certify else None,
            settings and settings | {"units": self.units},
            {"history": [row for pair in self.pairs for row in pair.history()]},
            looks=self.looks,
        )


def speed(plan: RealPlan, executed: Executed) -> float:
    """CPU that the units done were to take, over what they took: below 1 the machine was slower than recorded."""
    units = np.array([trained.unit for trained in plan.recorded])
    got = float(executed.got.sum())
    return float((executed.units * units).sum()) / got if got > 0 else math.nan


def at_speed(plan: RealPlan, executed: Executed) -> Batch:
    """The same tasks on the machine as it was during the run: its speed, and the part of the CPU that it gave.

    What then still differs from the run is the simulation's own error, not the machine's.
    """
    return paced(plan.batch, speed(plan, executed) * (1.0 - executed.shortfall))


def paced(batch: Batch, pace: float) -> Batch:
    """The same tasks on a machine that is `pace` times as fast."""
    if not 0.0 < pace < math.inf:
        return batch
    return replace(batch, work=batch.work / pace, table_samples=batch.table_samples / pace)


def usual_share(run: Run, scene: RealScene) -> float:
    """Mean share, in cores, at which samples are computed: some policies serve few tasks fast, others many slowly."""
    given = run.kept.compute[:, 0, :]
    mean = float((given**2).sum() / given.sum()) if given.sum() > 0 else 1.0  # samples per step
    return min(max(mean * scene.sample / scene.step, SHARE_LEAST * scene.cpus), scene.cpus)


def speed_now(processes: TaskProcesses, cpu: CpuLimiter, plan: RealPlan, share: float) -> float:
    """How fast the machine is now: CPU that the first units of a few tasks took when recorded, over what they take now.

    A shared machine changes its speed within minutes, and a process that is paused often takes more CPU for the same
    work. So these tasks are held to the share that the policy usually gives.
    """
    chosen = [k for k, trained in enumerate(plan.recorded) if trained.unit > 0 and not trained.fault][:PACERS]
    starts = [Start(plan.works[k], cpu=PACED_CPU) for k in chosen]
    now = record_all(processes, cpu, plan.scene, starts, share=share)
    done = [(len(trained.errors), trained.unit, plan.recorded[k].unit) for k, trained in zip(chosen, now, strict=True)]
    took = sum(units * unit for units, unit, _ in done)
    return sum(units * unit for units, _, unit in done) / took if took > 0 else 1.0


def compare(
    policies: Sequence[Policy],
    scene: RealScene | None = None,
    *,
    kinds: Sequence[str] = USUAL,
    tasks: int = 24,
    seeds: Sequence[int] = (0,),
    limit: str = "auto",
    units: dict[str, float] | None = None,
    progress: Progress | None = None,
) -> RealComparison:
    """Simulate and execute every policy on the tasks of every seed: real training, held to its share of CPU.

    Parameters
    ----------
    policies
        Policies of share.
    scene
        The site, the clock and what tasks are drawn from.
    kinds
        What tasks train: "sgd", "mlp", "nb", "torch", or FILE.py:function, a function of a seed that yields an error
        after each unit of its work. Tasks take turns through them.
    tasks
        Tasks of each seed, each a process.
    seeds
        Each one draws other tasks; every policy meets the same ones.
    limit
        The kind of CPU limiter, as `equipoise.engine.limiter` takes it.
    units
        Seconds of CPU of a unit by kind, as an earlier result has them: repeats its targets.
    progress
        Called with what is being done, how much of it, and of how much.
    """
    scene = scene or RealScene()
    _refuse(policies, scene, kinds, tasks, seeds)
    say = progress or (lambda doing, done, total: None)
    pairs: list[Pair] = []
    say("loading", 0, 1)
    with limiter(limit) as cpu, open_processes(tasks, list(dict.fromkeys(kinds))) as processes:
        say("measuring speed", 0, 1)
        past = record_past(processes, cpu, scene, list(dict.fromkeys(kinds)))
        costs: dict[str, float] = {}
        for number, seed in enumerate(seeds, 1):
            which = f"seed {seed} ({number} of {len(seeds)}), " if len(seeds) > 1 else ""
            plan = make_plan(
                processes,
                cpu,
                scene,
                kinds,
                tasks,
                seed,
                units=units,
                past=past,
                progress=lambda done, total, which=which: say(f"{which}recording tasks", done, total),  # type: ignore[misc]
            )
            costs = plan.units
            for policy in policies:
                name = name_of(policy)
                say(f"{which}{name}, measuring speed", 0, 1)
                first = play(policy, plan.batch, scene.site, plan.prior, trace=True)
                pace = speed_now(processes, cpu, plan, usual_share(first, scene))
                simulated = play(policy, paced(plan.batch, pace), scene.site, plan.prior, trace=True)
                executed = execute(
                    policy,
                    plan,
                    processes,
                    cpu,
                    lambda done, total, name=name, which=which: say(f"{which}{name}", done, total),  # type: ignore[misc]
                )
                again = play(policy, at_speed(plan, executed), scene.site, plan.prior, trace=True)
                pairs.append(Pair(name, plan, simulated, again, executed, pace, processes.left()))
        looks = {name_of(policy): look_of(policy) for policy in policies}
        return RealComparison(scene, cpu.name, cpu.says, costs, tuple(pairs), looks)


def _refuse(
    policies: Sequence[Policy], scene: RealScene, kinds: Sequence[str], tasks: int, seeds: Sequence[int]
) -> None:
    """What cannot be run, in one line each."""
    if not policies:
        raise InputError("no policies; expected at least one", code="policies.none")
    if not kinds:
        raise InputError("no kinds of task; expected some of sgd, mlp, nb, torch, or FILE.py:function")
    if tasks < 1 or tasks > TASKS_MOST:
        raise InputError(f"{tasks} tasks; expected 1 to {TASKS_MOST}, each of which is a process", code="tasks.range")
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) > SEED_MOST:
        raise InputError(
            f"seeds are {list(seeds)}; expected some, 0 to {SEED_MOST:,}, every one once", code="seeds.range"
        )
    if scene.cpus > CORES:
        raise InputError(
            f"the site has {scene.cpus:g} CPUs; this machine has {CORES}: give at most that, better less",
            code="cpus.range",
        )
