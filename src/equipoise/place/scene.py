"""From a spec to a scene: the cluster, the jobs that are scored, the history that prices come from, and the placers."""

from __future__ import annotations

import difflib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np

from equipoise.errors import InputError, unknown_name
from equipoise.place import files, traces
from equipoise.place.calendar import Calendar
from equipoise.place.calibrate import learns, needs_history, placer_of, price_kinds
from equipoise.place.cluster import Cluster
from equipoise.place.compare import Case, PlaceComparison, Progress, labels_of, usual_baseline
from equipoise.place.durations import learn_durations
from equipoise.place.execution import end_of
from equipoise.place.job import Workload
from equipoise.place.recommend import BESIDE, ENOUGH, Recommendation, candidates, parts, recommend
from equipoise.place.simulate import Placer
from equipoise.place.slowdown import WORTH, stated
from equipoise.place.spec import (
    AUTO,
    OWN,
    PLACERS,
    RECOMMENDED,
    SEEN,
    SYNTHETIC,
    TRACES,
    USUAL,
    WORTHS,
    PlaceSpec,
    PricedSpec,
    SceneSpec,
)
from equipoise.place.traces._rows import columns, format_of, opened
from equipoise.units import count as counted, seconds

OTHER_SEEDS = 1000  # history of drawn jobs: other draws, from so many seeds later on
TEN_MINUTES, A_DAY = 600.0, 144  # a slot of the built-in example, in seconds; slots of a day
NO_EFFECT = "has no effect: no JOBS are given, so that they are drawn"
GPUS = 8
PLANNED_AHEAD = 48 * 3600.0  # seconds, where nothing is said
NO_PAST = "history.none"  # the code of an error: nothing comes before the jobs that are scored
FIRST_LINES = 3  # of skipped rows that are named
VARYING = re.compile(r"'[^']*'|[-+]?\d[\d.,:e+ -]*")


@dataclass(frozen=True)
class PlaceScene:
    """Everything that a comparison needs. `notes` are sentences for the user, in order."""

    cluster: Cluster
    jobs: Workload
    history: tuple[Workload, ...]
    slots: int | None
    horizon: int | None
    notes: tuple[str, ...] = ()
    seed: int = 0
    placers: tuple[Placer, ...] = ()
    baseline: str = ""  # the label of the placer that gains are told against
    bound: bool = True
    calendar: Calendar | None = None
    skipped: tuple[str, ...] = ()  # of the notes, those about rows that could not be jobs
    spec: PlaceSpec | None = None
    recommended: Recommendation | None = None

    @property
    def case(self) -> Case:
        """This scene as one seed of a sweep."""
        pace = SEEN if self.spec is None else self.spec.pace
        given = self.cluster, self.jobs, self.placers, self.slots, self.horizon
        return Case(self.seed, *given, self.calendar, pace)

    @property
    def end(self) -> int:
        """The first slot in which nothing runs."""
        return end_of(self.jobs, self.slots, self.horizon)

    def compare(self, *, progress: Progress | None = None, workers: int | None = 1) -> PlaceComparison:
        """Run every placer over the same jobs.

        Parameters
        ----------
        progress
            Called with the slots passed over all placers, the slots in all, and what is being done.
        workers
            Processes that take a placer each; None: as many as joblib's active backend has.
        """
        found = self.case.compare("auto" if self.bound else False, progress=progress, workers=workers)
        history = tuple(len(past) for past in self.history)
        told = {"notes": self.notes, "history": history, "asked_baseline": self.baseline, "spec": self.spec}
        return replace(found, **told, recommended=self.recommended)  # type: ignore[arg-type]

    def refuse_unknown_job(self, name: str) -> None:
        """An error for a job that is not scored, which says whether it is history, or which one is the nearest."""
        ids = [job.id for job in self.jobs]
        if name in ids:
            return
        near = difflib.get_close_matches(name, ids, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else f"; the first is {ids[0]!r}"
        if any(past.id == name for jobs in self.history for past in jobs):
            hint = "; it is history, which prices are calibrated on. Give --history FILE, and every job is scored"
        raise InputError(f"no job {name!r} among the {len(ids):,} scored{hint}")


class Notes:
    """Sentences for the user, collected while files are read."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.skipped: list[str] = []  # those about rows that could not be jobs

    def add(self, line: str) -> None:
        self.told.append(line)

    def read_from(self, jobs: Workload, whose: str) -> None:
        """What a workload says of itself: its note, and rows that were skipped."""
        lines = [whose + line for line in skipped_lines(jobs)]
        self.told += [*([whose + jobs.note] if jobs.note else []), *lines]
        self.skipped += lines


def build(spec: PlaceSpec) -> PlaceScene:
    """Read all files, ask history which policy to recommend, and make the placers, with prices from history."""
    asked = RECOMMENDED in spec.policy or spec.recommend
    needed = bool(spec.learn_durations) or any(map(needs_history, price_kinds(spec)))
    try:
        scene = read_scene(spec, history=asked or needed or learns(spec) or spec.history is not None)
    except InputError as error:
        if needed or error.code != NO_PAST:
            raise
        scene = read_scene(spec, history=False)
    found = _recommended(spec, scene) if asked else None
    names = _expanded(spec.policy, found)
    placers = tuple(placer_of(spec, scene.history, scene.cluster, name, k) for k, name in enumerate(names))
    labels = labels_of(placers)
    return replace(
        scene, placers=placers, baseline=_baseline(spec, labels), bound=spec.bound, spec=spec, recommended=found
    )


def _recommended(spec: PlaceSpec, scene: PlaceScene) -> Recommendation:
    """The best on history; with little or none the usual one."""
    early, late = parts(scene.history, scene.slots) if scene.history else ([], [])
    jobs = sum(map(len, late))
    about = stated(job for one in late for job in one)
    asked = spec.prices != type(spec).model_fields["prices"].default or spec.fixed_prices is not None
    if asked and (about != WORTH or jobs < ENOUGH) and not price_kinds(spec):
        why = f"PDORS takes part where worth is stated and {ENOUGH} past jobs or more are replayed"
        raise InputError(f"--prices and --fixed-prices have no effect: {why}; say --policy pdors", code="prices.unused")
    if jobs < ENOUGH:
        label, past = PLACERS.find(USUAL).name, counted(jobs, "past job") if late else "no past jobs"
        few = "are too few to tell" if late else "tell"
        return Recommendation(label, USUAL, f"{label}, the usual one: {past} {few} which is the best")
    plain = spec.model_copy(update={"replan": 0})  # it only refines
    names = candidates(calendar=scene.calendar is not None, about=about)
    given = {name: placer_of(plain, early, scene.cluster, name, k) for k, name in enumerate(names)}
    window: dict[str, Any] = {"slots": scene.slots, "horizon": scene.horizon}
    return recommend(scene.cluster, late, given, **window, seed=spec.seed, pace=spec.pace)


def _expanded(names: Sequence[str], found: Recommendation | None) -> list[str]:
    """The policies by name, with the recommended one in its place; alone, it has a few beside it."""
    if found is None or RECOMMENDED not in names:
        return list(names)
    given = [found.name if name == RECOMMENDED else name for name in names]
    return list(dict.fromkeys(given + [name for name in BESIDE if len(names) == 1]))


def _baseline(spec: PlaceSpec, labels: Sequence[str]) -> str:
    """As asked, FIFO, or the first."""
    if spec.baseline is None:
        return usual_baseline(labels)
    asked = spec.baseline.lower().replace(":", " ")
    for label in labels:
        if asked in (label.lower(), label.lower().removesuffix("-style")):
            return label
    raise InputError(f"--baseline: {unknown_name('policy', spec.baseline, labels)}")


def read_scene(spec: SceneSpec, *, history: bool) -> PlaceScene:
    """Cluster, jobs and past jobs, without placers; `history` says whether past jobs are needed."""
    if spec.slots is not None and spec.horizon is not None:
        raise InputError(
            f"--slots {spec.slots} and --horizon {spec.horizon} are both given; keep one: a fixed end, or rolling"
        )
    notes, moved = Notes(), 0
    if spec.jobs is None:
        cluster, jobs, past, slots, horizon = _example(spec, history, notes)
    else:
        kind = spec.format if spec.format != AUTO else format_of(Path(spec.jobs))
        cluster = read_cluster(spec)
        jobs = read_jobs(spec, Path(spec.jobs), kind, cluster)
        notes.read_from(jobs, "")
        notes.told += slot_hint(spec, kind, jobs)
        slots, horizon = spec.slots, spec.horizon
        if slots is None and horizon is None:
            horizon = max(1, round(PLANNED_AHEAD / jobs.slot))
        past = _past(spec, cluster, notes) if history and isinstance(spec, PricedSpec) else ()
        jobs, past, moved = _split(spec, jobs, past, history, notes)
        if slots is not None:
            slots -= moved
            if slots < 1:
                raise InputError(f"--slots {spec.slots}: nothing is left to score, which starts in slot {moved}")
    _ = cluster.machine_ids  # two machines of one name are refused now, not when results are written
    jobs = _disturbed(spec, jobs, 0)
    if spec.wrong:
        notes.add(f"durations are wrong by up to ±{100 * spec.wrong:g} %, seed {spec.seed}")
    calendar = _calendar(spec, cluster, jobs, end_of(jobs, slots, horizon), moved, notes)
    if spec.restart:
        notes.add(f"a job loses {spec.restart} whenever it starts, moves or is resized")
    past = tuple(_disturbed(spec, one, k + 1) for k, one in enumerate(past))
    if isinstance(spec, PricedSpec):
        jobs, past = _learnt(spec, jobs, past, notes)
    told, skipped = tuple(notes.told), tuple(notes.skipped)
    return PlaceScene(cluster, jobs, past, slots, horizon, told, spec.seed, calendar=calendar, skipped=skipped)


def _calendar(spec: SceneSpec, cluster: Cluster, jobs: Workload, end: int, moved: int, notes: Notes) -> Calendar | None:
    """The calendar of the slots that are scored, from slot `moved` of the file on."""
    if not isinstance(spec, PlaceSpec) or spec.calendar is None:
        return None
    found, before = files.read_calendar(spec.calendar, jobs, end=end, moved=moved)
    found.on(cluster, end)  # refuses what the cluster has not
    notes.add(f"calendar: {counted(len(found.windows), 'window')} of {Path(spec.calendar).name}")
    if before:
        notes.add(f"calendar: {counted(before, 'more window')} over before slot {moved}, where the scored jobs begin")
    return found


def history_scene(spec: PricedSpec) -> PlaceScene:
    """History as the jobs of a scene, to calibrate prices on; without files the built-in example's."""
    if spec.history is None:
        if spec.cluster is not None or spec.slot is not None:
            raise InputError("no history: say --history FILE of past jobs")
        scene = read_scene(spec, history=True)
        return replace(scene, jobs=scene.history[0])
    kind = spec.history_format or (AUTO if spec.format == SYNTHETIC else spec.format)
    one_file = [spec.model_copy(update={"jobs": name, "format": kind, "history": None}) for name in spec.history]
    scenes = [read_scene(one, history=False) for one in one_file]
    notes = tuple(dict.fromkeys(note for scene in scenes for note in scene.notes))
    return replace(scenes[0], history=tuple(scene.jobs for scene in scenes), notes=notes)


@dataclass(frozen=True)
class Drawn:
    """Without files: so many jobs arrive in so many slots, on so many machines, after so many histories of their kind."""

    jobs: int
    machines: int
    slots: int
    histories: int


# Asks for 1.8 times what there is in its two days: mean of 40 seeds, without jobs longer than PLANNED_AHEAD.
EXAMPLE = Drawn(jobs=400, machines=2, slots=2 * A_DAY, histories=2)
PAPER = Drawn(jobs=60, machines=20, slots=24, histories=4)  # --format synthetic: an overloaded day, worth stated


def _example(
    spec: SceneSpec, history: bool, notes: Notes
) -> tuple[Cluster, Workload, tuple[Workload, ...], int | None, int | None]:
    """The built-in example with its slots or its horizon; history is the same generator with other seeds, or files."""
    paper = spec.format == SYNTHETIC
    usual, draw = (PAPER, _like_the_paper) if paper else (EXAMPLE, _like_philly)
    for name in ("slot", "window", *(("elasticity", "gpus_per_machine") if paper else ())):
        if getattr(spec, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} {NO_EFFECT}", code="drawn.unused")
    count, span = spec.draw or usual.jobs, spec.slots or usual.slots
    if spec.cluster is not None:
        cluster = read_cluster(spec)
    else:
        machines = spec.machines or usual.machines
        gpus = spec.gpus_per_machine or GPUS
        cluster = traces.synthetic_cluster(machines) if paper else traces.gpu_cluster(machines, gpus)
    jobs, said = draw(spec, count, span, spec.seed)
    notes.add(f"no JOBS given: {said}")
    first, last = spec.seed + OTHER_SEEDS, spec.seed + OTHER_SEEDS + usual.histories - 1
    past = tuple(draw(spec, count, span, seed)[0] for seed in range(first, last + 1))
    if isinstance(spec, PricedSpec) and spec.history is not None:
        past = _past(spec, cluster, notes)
    elif history:
        said = f"{usual.histories} other draws of the same kind, seeds {first} to {last}"
        notes.add(f"history: {said}; the scored jobs are never seen by calibration")
    if spec.horizon is not None:
        return cluster, jobs, past, None, spec.horizon
    if paper or spec.slots is not None:
        return cluster, jobs, past, span, None
    return cluster, jobs, past, None, round(PLANNED_AHEAD / TEN_MINUTES)


def _like_philly(spec: SceneSpec, count: int, span: int, seed: int) -> tuple[Workload, str]:
    """Jobs that state nothing, or with drawn worth. Of a part of a day the arrivals of the whole day are moved together."""
    days = -(-span // A_DAY)
    given = _asked(spec, "philly_like", traces.philly_like) | {"seed": seed, "days": days}
    jobs = traces.philly_like(count, **given)
    close = tuple(job.but(arrival=job.arrival * span // (days * A_DAY)) for job in jobs)
    said = f"{counted(count, 'job')} drawn like those of the Philly cluster, over {span} slots of 10 min; {jobs.note}"
    return replace(jobs, jobs=close), said


def _like_the_paper(spec: SceneSpec, count: int, span: int, seed: int) -> tuple[Workload, str]:
    """Jobs that state worth and take several resources, in slots of an hour."""
    said = f"{counted(count, 'synthetic job')} (--format {SYNTHETIC}) over {span} slots of an hour, seed {seed}"
    return traces.synthetic(count, seed=seed, slots=span), said


def _past(spec: PricedSpec, cluster: Cluster, notes: Notes) -> tuple[Workload, ...]:
    """Past jobs from files."""
    found = []
    for name in spec.history or ():
        path = Path(name)
        asked = spec.history_format or (AUTO if spec.jobs is None else spec.format)
        past = read_jobs(spec, path, asked if asked != AUTO else format_of(path), cluster)
        notes.add(f"history: {path.name}, {len(past):,} jobs")
        notes.read_from(past, f"{path.name}: ")
        if spec.slots is not None and past[0].arrival >= spec.slots:  # nothing of it would be replayed
            notes.add(f"{path.name}: its slot {past[0].arrival}, in which the first job comes, counts as 0")
            past = past.between(past[0].arrival, past[-1].arrival + 1)
        found.append(past)
    return tuple(found)


def _split(
    spec: SceneSpec, jobs: Workload, past: tuple[Workload, ...], history: bool, notes: Notes
) -> tuple[Workload, tuple[Workload, ...], int]:
    """The jobs that are scored, history (given, or the jobs before them), and the slot of the file that is now 0.

    The run follows on history without a gap, so that its load can be seen to rise or fall.
    """
    span, last = spec.span(), max(job.arrival for job in jobs) + 1
    if span is not None:
        cut, first, last = span[0], max(0, 2 * span[0] - span[1]), span[1]
    elif history and not past and isinstance(spec, PricedSpec):
        cut, first = _cut(spec, jobs), jobs[0].arrival
    else:
        return jobs, past, 0
    chosen = jobs.between(cut, last)
    if not len(chosen):
        known = f"{jobs[0].arrival} to {jobs[-1].arrival}"
        raise InputError(f"--window {spec.window}: no job arrives in it; arrivals are in slots {known}")
    if history and not past:
        before = jobs.between(first, cut)
        if not len(before):
            raise InputError(
                f"--window {spec.window}: no job arrives before it to calibrate on; give --history FILE", code=NO_PAST
            )
        past = (before,)
        when = f"slot {first}" if cut == first + 1 else f"slots {first} to {cut - 1}"
        which = f"the {len(before):,} jobs that arrive in {when}, which are not scored"
        notes.add(f"no --history: the past is {which}")
    moved = f"; slot 0 is slot {cut} of the file" if cut else ""
    notes.add(f"scored: the {len(chosen):,} jobs that arrive in slots {cut} to {last - 1}{moved}")
    return chosen, past, cut


def _cut(spec: PricedSpec, jobs: Workload) -> int:
    """The slot from which jobs are scored: those before it are about the share that is history."""
    cut = jobs[min(len(jobs) - 1, max(1, round(spec.history_share * len(jobs))))].arrival
    if cut == jobs[0].arrival:
        cut = next((job.arrival for job in jobs if job.arrival > cut), cut)
    if cut == jobs[0].arrival:
        raise InputError(
            f"{jobs.source}: every job arrives in slot {cut}, so that none can be history; give --history FILE of past "
            "jobs, or --prices fixed, or policies without prices (--policy fifo,drf,srtf)",
            code=NO_PAST,
        )
    return cut


def _disturbed(spec: SceneSpec, jobs: Workload, stream: int) -> Workload:
    """Restart times, and true durations that are not the stated ones."""
    changes: list[dict[str, float]] = [{} for _ in jobs]
    if spec.restart is not None:
        for change in changes:
            change["restart"] = seconds(spec.restart, "restart") / jobs.slot
    if spec.wrong:
        off = np.random.default_rng([spec.seed, 11, stream]).uniform(-spec.wrong, spec.wrong, len(jobs))
        for change, part in zip(changes, off, strict=True):
            change["actual"] = float(1.0 + part)
    if not any(changes):
        return jobs
    return replace(jobs, jobs=tuple(job.but(**change) for job, change in zip(jobs, changes, strict=True)))


def _learnt(
    spec: PricedSpec, jobs: Workload, past: tuple[Workload, ...], notes: Notes
) -> tuple[Workload, tuple[Workload, ...]]:
    """Both with what history says of durations: unless told, where it knows whose were wrong."""
    wrong = any(job.user and job.actual != 1.0 for one in past for job in one)
    found = learn_durations(past) if spec.learn_durations or (spec.learn_durations is None and wrong) else None
    if found is None:
        return jobs, past
    median, most = found.overall
    users = sum(1 for user in found.users if user)
    notes.add(
        f"durations: of {found.jobs:,} past jobs half took at most {median:.2f} and 90 % at most {most:.2f} of what "
        f"they stated; planned by user ({users:,} known), but never less than stated where a date is promised "
        "(--no-learn-durations)"
    )
    return replace(jobs, durations=found), tuple(replace(one, durations=found) for one in past)


def skipped_lines(jobs: Workload) -> list[str]:
    """Rows that could not be jobs: how many for each reason, and where the first are."""
    kinds: Counter[str] = Counter()
    where: dict[str, list[int]] = {}
    shown: dict[str, str] = {}
    for row in jobs.skipped:
        kind = VARYING.sub("…", row.reason)
        kinds[kind] += 1
        shown.setdefault(kind, row.reason)
        where.setdefault(kind, []).append(row.line)
    total = len(jobs) + len(jobs.skipped)
    out = []
    for kind, count in kinds.most_common():
        lines = ", ".join(map(str, where[kind][:FIRST_LINES])) + (", ..." if count > FIRST_LINES else "")
        said = f"line{'s' if count > 1 else ''} {lines}"
        out.append(f"skipped {count:,} of {total:,} rows: {shown[kind]} ({said})")
    return out


def slot_hint(spec: SceneSpec, kind: str, jobs: Workload) -> list[str]:
    """That nobody said how long a slot of a trace is, and how to say it."""
    said = f"slots of {jobs.slot / 60:g} min, as usual for {kind}: --slot was not said (--slot 1h makes them an hour)"
    return [said] if kind != OWN and spec.slot is None else []


# Files.


def read_jobs(spec: SceneSpec, path: Path, kind: str, cluster: Cluster | None) -> Workload:
    """Jobs of our own format for this cluster, or of a trace with what the spec says of it."""
    if kind == OWN:
        for name in ("elasticity", "gpus_per_machine"):
            if getattr(spec, name) is not None and spec.machines is None:
                raise InputError(f"--{name.replace('_', '-')} has no effect: {path.name} is no trace")
        return files.read_jobs(path, cast(Cluster, cluster), spec.slot)
    reader = TRACES.load(kind)
    given = _asked(spec, kind, reader)
    if cluster is not None and "types" in inspect.signature(reader).parameters:
        given["types"] = cluster.types
    return reader(path, **given)


def _asked(spec: SceneSpec, kind: str, reader: Callable[..., Workload]) -> dict[str, Any]:
    """What the spec says of a trace, by its reader's parameters; what the reader does not take is refused."""
    takes = inspect.signature(reader).parameters
    for name in ("slot", "elasticity", "sized_utility", "worth", *(["gpus_per_machine"] * (spec.machines is None))):
        if name not in takes and getattr(spec, name) != type(spec).model_fields[name].default:
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} has no effect: the reader of format {kind} takes no {name}; leave {option} out")
    if not spec.sized_utility and spec.worth == WORTHS[0]:
        raise InputError("--no-sized-utility has no effect: no worth is drawn; say --worth drawn with it")
    given = {name: getattr(spec, name) for name in takes if name in type(spec).model_fields}
    return {name: value for name, value in given.items() if value is not None}


def read_cluster(spec: SceneSpec) -> Cluster:
    """From a file, or so many equal GPU machines."""
    if spec.cluster is not None:
        if spec.machines is not None:
            raise InputError(f"--cluster and --machines {spec.machines} are both given; keep one")
        path = Path(spec.cluster)
        if path.suffix.lower() == ".csv":
            there = columns([next(iter(opened(path, "jobs, or a trace")), "")])
            for choice in TRACES.choices():  # a trace whose file states CLUSTER_COLUMNS has a function <name>_cluster
                wanted = cast("tuple[str, ...]", choice.facts.get("CLUSTER_COLUMNS", ()))
                if wanted and {*wanted} <= there:
                    reader = import_module(f"{TRACES.package}.{choice.stem}")
                    return cast(Cluster, getattr(reader, f"{choice.stem}_cluster")(path))
        return files.read_cluster(path)
    if spec.machines is None:
        raise InputError("no cluster: say what the jobs run on, --cluster FILE, or --machines COUNT of 8 GPUs each")
    return traces.gpu_cluster(spec.machines, spec.gpus_per_machine or GPUS)
