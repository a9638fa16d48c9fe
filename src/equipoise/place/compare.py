"""Placers side by side on one workload: their runs, the bound over all of them, one certificate, who gained or lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from equipoise.certificate import Certificate, Check
from equipoise.document import Document, Row, look_of
from equipoise.errors import InputError
from equipoise.kernels import Floats
from equipoise.parallel import PROCESSES, parts
from equipoise.place.bound import Bound, bound
from equipoise.place.calendar import Calendar
from equipoise.place.cluster import Cluster
from equipoise.place.execution import BEYOND_HORIZON, INFEASIBLE_ALONE, Execution
from equipoise.place.files import CALENDAR, calendar_text, cluster_text, jobs_text
from equipoise.place.job import Job, Workload
from equipoise.place.job_spec import plain_machine
from equipoise.place.planner.job_arrays import alone
from equipoise.place.prices.replay import Replay, trial_rows
from equipoise.place.recommend import Recommendation
from equipoise.place.simulate import Placer, Result, simulate
from equipoise.place.slowdown import NOTHING, OBJECTIVES, Alone, hopeless, stated
from equipoise.place.spec import SEEN
from equipoise.place.tables import (
    allocation_rows,
    growth_of,
    machine_rows,
    outcome_rows,
    price_rows,
    slot_rows,
    window_rows,
)
from equipoise.result import Result as AnyResult
from equipoise.spec import Spec

Progress = Callable[[int, int, str], None]  # slots passed over all placers, slots in all, what is being done

AUTO_JOBS = 6000  # beyond this many the LP is coarse and slow: "auto" leaves it out
TIMES = ("seconds_per_decision",)  # of a row: they do not repeat
SAME = 1e-9  # relative: utilities this close are equal
BASELINE = "FIFO"
CALIBRATING = "calibrating prices on history"
TOLD = 20  # jobs that gained and that lost of each placer, and rows that were skipped, in result.json


@dataclass(frozen=True)
class PlaceComparison(AnyResult):
    """What came of it. Results are in the order the placers were given; all of them met the same jobs."""

    cluster: Cluster
    jobs: Workload
    results: tuple[Result, ...]
    bound: Bound | None
    slots: int | None
    horizon: int | None
    seed: int
    calibration: list[Row]  # trials: policy, level, ratio, lead, utility, completed, chosen
    certificate: Certificate
    notes: tuple[str, ...] = ()  # about the jobs, for the user
    bound_note: str = ""  # that the bound is coarse, or why there is none
    history: tuple[int, ...] = ()  # jobs in each history
    asked_baseline: str = ""
    spec: Spec | None = None
    recommended: Recommendation | None = None

    def __getitem__(self, label: str) -> Result:
        """The run of a placer, by its label; upper and lower case are the same."""
        for result in self.results:
            if result.policy.label.lower() == label.lower():
                return result
        raise InputError(f"no policy {label!r} was compared; there are {', '.join(self.labels)}")

    def __repr__(self) -> str:
        earned = ", ".join(f"{result.policy.label} {result.utility:,.4g}" for result in self.results)
        return f"<PlaceComparison of {len(self.jobs):,} jobs on {self.cluster.size:,} machines: {earned}>"

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(result.policy.label for result in self.results)

    @property
    def baseline(self) -> str:
        """As asked, FIFO where it takes part, else the first."""
        return self.asked_baseline or usual_baseline(self.labels)

    @property
    def note(self) -> str:
        """All notes in one line."""
        return "; ".join(filter(None, (*self.notes, self.bound_note)))

    @cached_property
    def table(self) -> list[Row]:
        """A row for each placer: `Result.row` without what does not repeat, and the part of the bound it reached."""
        rows = []
        for result in self.results:
            row = {name: value for name, value in result.row.items() if name not in TIMES}
            row["share_of_bound"] = result.utility / self.bound.utility if self.bound and self.bound.utility else None
            rows.append(row)
        return rows

    @property
    def speeds(self) -> dict[str, float]:
        """Jobs decided in a second, by placer. No document has them: they do not repeat."""
        return {r.policy.label: len(self.jobs) / r.seconds if r.seconds > 0 else 0.0 for r in self.results}

    def document(self, *, certify: bool = True) -> Document:
        """Plain values: the table, the bound, gains and reasons; of every placer outcomes, slots and allocations."""
        making = {"outcomes": outcome_rows, "history": slot_rows, "allocations": allocation_rows, "prices": price_rows}
        tables = {name: [row for result in self.results for row in made(result)] for name, made in making.items()}
        tables["machines"] = machine_rows(self.cluster)
        took = [replace(result, schedule=result.lost) for result in self.results if len(result.lost)]
        tables |= {"lost": [row for result in took for row in allocation_rows(result)]} if took else {}
        files = {"cluster.yaml": cluster_text(self.cluster), "jobs.json": jobs_text(self.jobs)}
        if (calendar := self.results[0].calendar) is not None:
            files[CALENDAR] = calendar_text(calendar)
            tables["windows"] = window_rows(calendar, self.cluster, self.results[0].end)
        return Document(
            "place",
            self._summary(),
            self.certificate,
            self.settings(),
            tables,
            looks={result.policy.label: look_of(result.policy) for result in self.results},
            files=files,
        )

    def _summary(self) -> Row:
        """What result.json holds: values that repeat bit for bit, no times."""
        limit, jobs, cluster = self.bound, self.jobs, self.cluster
        arrivals = [job.arrival for job in jobs]
        return {
            "jobs": len(jobs),
            "slot": float(jobs.slot),
            "machines": cluster.size,
            "resources": dict(zip(cluster.resources, (cluster.total / 1000.0).tolist(), strict=True)),
            "slots": self.slots,
            "horizon": self.horizon,
            "end": self.results[0].end,
            "seed": self.seed,
            "history": list(self.history),
            "notes": [*self.notes, *filter(None, [self.bound_note])],
            "bound_note": self.bound_note,
            "stated": stated(self.jobs),
            "objective": OBJECTIVES[stated(self.jobs)],
            "recommended": None if self.recommended is None else self.recommended.as_dict(),
            "rows": self.table,
            "users": [row for result in self.results for row in result.users],
            "bound": None
            if limit is None
            else {"utility": limit.utility, "kind": limit.kind, "status": limit.status, "coarsen": limit.coarsen},
            "reasons": {result.policy.label: result.reasons for result in self.results},
            "hopeless": self.hopeless,
            "prices": {r.policy.label: r.detail["prices"] for r in self.results if "prices" in r.detail},
            "growth": {r.policy.label: growth for r in self.results if (growth := growth_of(r))},
            "calibration": self.calibration,
            "baseline": self.baseline,
            "gains": [
                row
                | {kind: row[kind][:TOLD] for kind in ("gained", "lost")}
                | {f"jobs_{kind}": len(row[kind]) for kind in ("gained", "lost")}
                for row in self.gains()
            ],
            "promises": [r.policy.label for r in self.results if getattr(r.policy, "promises", False)],
            "source": jobs.source,
            "start": jobs.start,
            "arrivals": [min(arrivals, default=0), max(arrivals, default=0)],
            "types": [plain_machine(machine) for machine in cluster.machines],
            "skipped": {
                "rows": len(jobs.skipped),
                "first": [{"line": row.line, "reason": row.reason} for row in jobs.skipped[:TOLD]],
            },
        }

    def gains(self, baseline: str | None = None) -> list[Row]:
        """For every other policy: utility gained over the baseline, and the jobs that gained and that lost, most first.

        A job gains by its utility; where nothing is stated, by its slowdown.
        A job: id, arrival, utility before (under the baseline) and after, finish before and after (None: not finished),
        and what the policy told it last: state and reason.
        """
        base = self[baseline or self.baseline]
        rows = []
        for result in self.results:
            if result is base:
                continue
            before, after = self._judged(base), self._judged(result)
            change = after - before
            real = np.abs(change) > SAME * np.maximum(1.0, np.maximum(np.abs(before), np.abs(after)))
            order = np.argsort(-np.abs(change), kind="stable")
            gained = [moved(base, result, int(j)) for j in order if real[j] and change[j] > 0]
            lost = [moved(base, result, int(j)) for j in order if real[j] and change[j] < 0]
            gain = result.utility - base.utility
            rows.append(
                {
                    "policy": result.policy.label,
                    "baseline": base.policy.label,
                    "utility": gain,
                    "relative": gain / base.utility if base.utility > 0 else None,
                    "completed": result.completed - base.completed,
                    "in_time": int(result.waits.in_time.sum() - base.waits.in_time.sum()),
                    "mean_slowdown": _less(*(one.waits.row()["mean_slowdown"] for one in (result, base))),
                    "gained": gained,
                    "lost": lost,
                    "same": len(self.jobs) - len(gained) - len(lost),
                }
            )
        return rows

    def _judged(self, result: Result) -> Floats:
        """What each job is judged by, more is better: its utility, or where nothing is stated less slowdown."""
        return result.utilities if stated(self.jobs) != NOTHING else -np.nan_to_num(result.waits.slowdown)

    @cached_property
    def hopeless(self) -> dict[str, Row]:
        """Jobs that could not finish even alone, by reason: how many, and their share of each resource's time.

        The time is what a job would hold at the width it asked for, on one machine if that fits.
        """
        run = Execution(self.cluster, self.jobs, self.slots, self.horizon)
        reasons = hopeless(run)
        demand = [_resource_slots(self.cluster, run, j) for j in range(len(self.jobs))]
        held = np.array(demand).reshape(len(self.jobs), len(self.cluster.resources))
        total, out = held.sum(axis=0), {}
        for reason in (INFEASIBLE_ALONE, BEYOND_HORIZON):
            which = [k for k, given in enumerate(reasons) if given == reason]
            part = held[which].sum(axis=0) / np.where(total > 0, total, 1.0)
            shares = {r: float(p) for r, p, t in zip(self.cluster.resources, part, total, strict=True) if t > 0}
            out[reason] = {"jobs": len(which), "share": len(which) / max(1, len(self.jobs)), "resource_time": shares}
        return out


def moved(base: Result, result: Result, j: int) -> Row:
    """What became of a job in two runs, before and after."""
    before, after = base.outcome(j), result.outcome(j)
    return {
        "id": after["job"],
        "arrival": after["arrival"],
        "utility_before": before["utility"],
        "utility_after": after["utility"],
        "finish_before": before["finish"],
        "finish_after": after["finish"],
        "state": after["state"],
        "reason": after["reason"] or ("unfinished" if after["finish"] is None else ""),
    }


def _less(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def labels_of(policies: Sequence[Placer]) -> list[str]:
    """What the policies are called; each has a label of its own."""
    labels = [policy.label for policy in policies]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise InputError(f"two policies are called {twice[0]!r}; give one of them another label", code="policies.twice")
    return labels


def usual_baseline(labels: Sequence[str]) -> str:
    """FIFO where it takes part, else the first."""
    return BASELINE if BASELINE in labels else labels[0]


def _resource_slots(cluster: Cluster, run: Execution, j: int) -> Floats:
    """Unit-slots of each resource that a job holds from start to end at the width it asked for."""
    job, arrays = run.jobs[j], run.arrays[j]
    width = min(job.requested or job.widest, job.widest)
    room, _ = alone(arrays, cluster)
    slots = job.work / job.rate(width, together=width <= room)
    worker, server = (cluster.demand(part or {}, job.id).astype(float) for part in (job.worker, job.server))
    return np.asarray((width * worker + job.servers(width) * server) / 1000.0 * slots)


def compare(
    cluster: Cluster,
    jobs: Iterable[Job],
    policies: Sequence[Placer],
    *,
    slots: int | None = None,
    horizon: int | None = None,
    seed: int = 0,
    bound: bool | str = "auto",
    progress: Progress | None = None,
    workers: int | None = 1,
    calendar: Calendar | None = None,
    pace: str = SEEN,
) -> PlaceComparison:
    """Run every placer over the same arrivals; certify them all, with the bound where it was computed.

    Parameters
    ----------
    cluster, jobs
        The machines, and the jobs that arrive at them.
    policies
        The placers, each with a label of its own.
    slots
        A fixed end; `horizon` instead rolls.
    horizon
        A job is planned within so many slots of its arrival, and the run ends so many slots after the last arrival.
    seed
        For what placers draw.
    bound
        True, False, or "auto", which leaves it out for more than a few thousand jobs.
    progress
        Called with the slots passed over all placers, the slots in all, and what is being done.
    workers
        Beyond 1, processes that take a placer each (None: as many as joblib's active backend has); the same comes out.
    calendar, pace
        As `simulate` takes them.
    """
    workload = Workload.of(jobs)
    if not policies:
        raise InputError("no policies to compare; expected one or more", code="policies.none")
    labels_of(policies)
    tell = progress or (lambda done, total, doing: None)
    run = Execution(cluster, workload, slots, horizon)
    end = run.end
    given = Case(seed, cluster, workload, (), slots, horizon, calendar, pace)
    played = _played(given, policies, end, workers, tell)
    results, calibration = [result for result, _ in played], [row for _, trials in played for row in trials]
    tell(len(policies) * end, len(policies) * end, "the upper bound" if bound else "certifying")
    limit, note = _bound(run, results, bound)
    shared: dict[str, Any] = {"alone": Alone.of(run)} | ({} if limit is None else {"bound": limit.utility})
    results = [replace(result, detail=result.detail | shared) for result in results]
    certificate = merged({result.policy.label: result.certificate() for result in results})
    notes = (workload.note,) if workload.note else ()
    window = (slots, horizon, seed)
    return PlaceComparison(
        cluster, workload, tuple(results), limit, *window, calibration, certificate, notes, bound_note=note
    )


@dataclass(frozen=True)
class Case:
    """One seed: its jobs, and the policies with the prices of its history. Labels are the same for every seed."""

    seed: int
    cluster: Cluster
    jobs: Workload
    policies: tuple[Placer, ...]
    slots: int | None = None
    horizon: int | None = None
    calendar: Calendar | None = None
    pace: str = SEEN

    def compare(
        self, bound: bool | str = "auto", *, progress: Progress | None = None, workers: int | None = 1
    ) -> PlaceComparison:
        """Run every placer over the same jobs; the parameters are those of `compare`."""
        names = ("cluster", "jobs", "policies", "slots", "horizon", "seed", "calendar", "pace")
        asked: dict[str, Any] = {name: getattr(self, name) for name in names}
        return compare(**asked, bound=bound, progress=progress, workers=workers)


Played = tuple[Result, list[Row]]  # and what was tried on history before


def _played(given: Case, policies: Sequence[Placer], end: int, workers: int | None, tell: Progress) -> list[Played]:
    """Every policy: here in its turn, told slot by slot, or on processes, told policy by policy."""
    found: dict[int, Played] = {}
    total, here = len(policies) * end, workers == 1

    def told(k: int) -> tuple[Callable[[int], None], Callable[[int, int], None]]:
        label = policies[k].label
        return (
            lambda number: tell(k * end, total, f"{label}: {CALIBRATING}, candidate {number}"),
            lambda done, _: tell(k * end + done, total, label),
        )

    if not here:
        tell(0, total, "policies side by side")
    calls = [(policy, *(told(k) if here else ())) for k, policy in enumerate(policies)]
    for k, (result, trials) in parts(_play, (given,), calls, workers=workers, prefer=PROCESSES):
        found[k] = replace(result, policy=policies[k], cluster=given.cluster, jobs=given.jobs), trials
        if not here:
            tell(len(found) * end, total, policies[k].label)
    return [found[k] for k in range(len(policies))]


def _play(
    given: Case,
    policy: Placer,
    begun: Callable[[int], None] = lambda number: None,
    step: Callable[[int, int], None] | None = None,
) -> Played:
    """One policy. What is common to all results is put back by `_played`, not sent."""
    asked = given.cluster, given.jobs, policy
    window: dict[str, Any] = {"slots": given.slots, "horizon": given.horizon, "pace": given.pace}
    trials: list[Row] = []
    if isinstance(prices := getattr(policy, "prices", None), Replay):
        run = Execution(given.cluster, given.jobs, given.slots, given.horizon, pace=given.pace)
        trials = trial_rows(policy.label, prices.trials(run, cast(Any, policy), begun))
    result = simulate(*asked, **window, seed=given.seed, calendar=given.calendar, progress=step)
    nothing: Any = None
    return replace(result, policy=nothing, cluster=nothing, jobs=nothing), trials


def _bound(run: Execution, results: list[Result], wanted: bool | str) -> tuple[Bound | None, str]:
    """The LP bound to the end of the runs (a lent job may finish past its arrival and horizon), or why there is none.

    It is over the jobs that can finish within their horizon alone, and those that did anyway.
    """
    jobs = run.jobs
    if not wanted:
        return None, ""
    if wanted == "auto" and len(jobs) > AUTO_JOBS:
        return None, f"no bound: {len(jobs):,} jobs are many for it (over {AUTO_JOBS:,})"
    done = np.any([result.finish >= 0 for result in results], axis=0)
    able = tuple(job for job, why, did in zip(jobs, hopeless(run), done, strict=True) if did or not why)
    try:
        found = bound(run.cluster, replace(jobs, jobs=able), slots=run.end)
    except InputError as error:
        return None, f"no bound: {error.what}"
    return found, f"bound: {found.note}" if found.note else ""


def merged(certificates: Mapping[str, Certificate], of: str = "policies") -> Certificate:
    """One certificate for all: of each check the worst, and whose it is; every one that fails is named."""
    names = list(dict.fromkeys(check.name for certificate in certificates.values() for check in certificate))
    checks = []
    for name in names:
        found = {label: certificate[name] for label, certificate in certificates.items() if name in certificate}
        worst = max(found, key=lambda label: _badness(found[label]))
        failing = [label for label, check in found.items() if check.passed is not True]
        shown = f"{len(found)} {of}, shown: {worst}" if len(found) > 1 else worst
        whose = f"fails for {', '.join(failing)}; shown: {worst}" if failing else shown
        check = found[worst]
        meaning = check.meaning if len(certificates) == 1 else f"{check.meaning} ({whose})"
        checks.append(Check(name, check.value, check.limit, check.passed, meaning))
    order = ("capacity", "ratio", "work", "arrival", "locality", "utility", "lost", "promise", "bound")
    checks.sort(key=lambda check: order.index(check.name) if check.name in order else len(order))
    return Certificate(tuple(checks))


def _badness(check: Check) -> tuple[int, float]:
    state = {True: 0, None: 1, False: 2}[check.passed]
    return state, math.inf if check.value is None else check.value
