"""equipoise place: jobs arrive at a cluster, and policies that admit, size, place and time them are compared."""

from __future__ import annotations

import difflib
import math
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.options import Address, File, Json, Out, Spread, Workers, application, spreading, with_options
from equipoise.cli.output import LINE_SECONDS, Meter, metered, show
from equipoise.errors import InputError
from equipoise.place.spec import AUTO, BoundSpec, PlaceSpec, PricedSpec, SceneSpec, SweepSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from equipoise.place.compare import PlaceComparison, Progress
    from equipoise.place.scene import PlaceScene
    from equipoise.spec import Spec

DEFAULT = "compare"


app = application(DEFAULT)
Jobs = Annotated[
    str | None, typer.Argument(help="Jobs: YAML, JSON or CSV of our own format, or a trace.", metavar="JOBS")
]
Run = Annotated[Path | None, typer.Option(help="A run folder: explain what was decided in it.", metavar="FOLDER")]
Chosen = dict[str, object]


@app.callback()
def place() -> None:
    """Jobs arrive at a cluster: admit them? How many workers and servers, on which machines, in which slots?

    `equipoise place JOBS --cluster FILE` replays jobs through several policies, read-only, and says what would have been
    gained and who would have lost. With no arguments: a built-in overloaded example.
    """


@app.command(DEFAULT)
@with_options(PlaceSpec)
def compare(
    chosen: Chosen,
    jobs: Jobs = None,
    config: File = None,
    out: Out = Path("runs"),
    json: Json = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    workers: Workers = None,
    spread: Spread = None,
    address: Address = None,
) -> None:
    """Policies side by side on the same jobs, with the bound (the default: the word may be left out)."""
    from equipoise.present.place import summary

    spec = PlaceSpec.read(config, _with_jobs(chosen, jobs))
    scene = spec.build()
    with (
        _new_folder(out, "place", spec) as folder,
        spreading("processes", workers, spread, address, quiet=json) as elsewhere,
    ):
        found = _compared(scene, quiet=json, workers=None if elsewhere else 1)
        found.save(folder, report=report)
    document = found.document()
    if json:
        print(document.text(tables=False), end="")
        for line in scene.skipped:
            print(f"warning: {line}", file=sys.stderr)
    else:
        show(*summary(document, found.speeds), found.certificate)
        print(folder / "report.html" if report else folder)
    raise typer.Exit(0 if found.certificate.passed else 1)


@app.command("sweep")
@with_options(SweepSpec)
def sweep(
    chosen: Chosen,
    jobs: Jobs = None,
    config: File = None,
    out: Out = Path("runs"),
    json: Json = False,
    workers: Workers = None,
    spread: Spread = None,
    address: Address = None,
) -> None:
    """The same comparison with many seeds, on all cores or a Ray cluster: how much of a lead is luck?"""
    from equipoise.place.sweep import sweep
    from equipoise.present.place import sweep_table

    spec = SweepSpec.read(config, _with_jobs(chosen, jobs))
    scenes = spec.scenes()
    with (
        _new_folder(out, "place-sweep", spec) as folder,
        spreading("processes", workers, spread, address, quiet=json),
        naming_faults(spec.policy),
        metered("comparing", "seed", len(scenes), quiet=json) as meter,
    ):
        found = sweep(
            [scene.case for scene in scenes],
            bound="auto" if spec.bound else False,
            progress=meter.show,
            baseline=scenes[0].baseline,
            spec=spec,
        )
    found.save(folder, report=False)
    document = found.document()
    if json:
        print(document.text(tables=False), end="")
    else:
        show(sweep_table(document), found.certificate)
        print(folder / "result.json")
    raise typer.Exit(0 if found.certificate.passed else 1)


@app.command("bound")
@with_options(BoundSpec)
def bound(chosen: Chosen, jobs: Jobs = None, config: File = None, json: Json = False) -> None:
    """The most utility that any schedule could reach, with everything known in advance."""
    from equipoise.place.bound import bound
    from equipoise.place.scene import read_scene
    from equipoise.present.text import count, number
    from equipoise.present.values import Bullets, KeyNumber, KeyNumbers

    spec = BoundSpec.read(config, _with_jobs(chosen, jobs))
    scene = read_scene(spec, history=False)
    with metered("solving", "program", 1, quiet=json):
        found = bound(
            scene.cluster,
            scene.jobs,
            slots=scene.end,
            exact=spec.exact,
            coarsen=spec.coarsen,
            time_limit=spec.time_limit,
        )
    complete = float(found.completion.sum())
    if json:
        told = {name: getattr(found, name) for name in ("utility", "kind", "status", "coarsen", "note")}
        told |= {"jobs": len(scene.jobs), "end": scene.end, "completed": complete, "notes": list(scene.notes)}
        _print_json("place bound", spec, told)
        return
    kind = {"lp": "linear program", "milp": "the optimum", "trivial": "no job can finish"}[found.kind]
    where = f"{len(scene.jobs):,} on {count(scene.cluster.size, 'machine')}, to slot {scene.end:,}"
    numbers = {
        "jobs": where,
        "no schedule earns more than": f"{number(found.utility, 6)} ({kind}, {found.status})",
        "it completes": f"{complete:,.1f} jobs" if found.kind == "lp" else f"{complete:,.0f} jobs",
        "time": f"{found.seconds:.1f} s",
        "note": found.note,
    }
    show(
        KeyNumbers([KeyNumber(name, value) for name, value in numbers.items() if value]),
        Bullets([f"- {line}" for line in scene.notes]),
    )


@app.command("verify")
def verify(
    schedule: Annotated[Path, typer.Argument(help="job,slot,machine,workers,servers.", metavar="SCHEDULE.csv")],
    jobs: Annotated[Path | None, typer.Option(help="Its jobs. (default: jobs.json beside it)")] = None,
    cluster: Annotated[Path | None, typer.Option(help="Its machines. (default: cluster.yaml beside it)")] = None,
    slots: Annotated[int | None, typer.Option(help="Nothing may run from this slot on.", min=1)] = None,
    horizon: Annotated[int | None, typer.Option(help="Or: so many slots after the last arrival.", min=1)] = None,
    slot: Annotated[str | None, typer.Option(help="Length of a slot. (default: the file's own)", metavar="10m")] = None,
    claims: Annotated[
        Path | None,
        typer.Option(help="What is claimed of it: job,finish. (default: outcomes.csv beside it)", metavar="FILE"),
    ] = None,
    json: Json = False,
) -> None:
    """Certify a schedule made by anybody: capacity, ratio, arrival; work and locality where finishes are claimed."""
    if slots is not None and horizon is not None:
        raise InputError(f"--slots {slots} and --horizon {horizon} are both given; keep one")
    from equipoise.place.scene import verify_schedule
    from equipoise.present.text import number
    from equipoise.present.values import KeyNumber, KeyNumbers, Text

    files = {"jobs": jobs, "cluster": cluster, "claims": claims}
    checked = verify_schedule(schedule, slots=slots, horizon=horizon, slot=slot, **files)
    found = checked.found
    if json:
        print(checked.document().text(tables=False), end="")
    else:
        numbers = [
            KeyNumber("cells", f"{checked.cells:,}"),
            KeyNumber("jobs done", f"{found.completed:,} of {checked.jobs:,}"),
            KeyNumber("utility", number(found.utility, 6)),
        ]
        unclaimed = (
            "no finishes are claimed, so that work and locality have nothing to be compared with (--claims FILE)"
        )
        show(KeyNumbers(numbers), *([] if checked.claimed else [Text(unclaimed)]), found.certificate)
    raise typer.Exit(0 if found.certificate.passed else 1)


@app.command("explain")
@with_options(PlaceSpec)
def explain(
    chosen: Chosen,
    job: Annotated[str, typer.Argument(help="The id of a job.", metavar="JOB_ID")],
    jobs: Jobs = None,
    run: Run = None,
    config: File = None,
    json: Json = False,
) -> None:
    """Why a job waited or was refused: the prices it met, its best schedule, when it would fit, what would be admitted."""
    if run is not None and config is not None:
        raise InputError("--run and --config are both given; keep one: a run folder holds its config.yaml")
    if run is not None and not (run / "config.yaml").is_file():
        raise InputError(f"{run}: no run folder of place: it has no config.yaml")
    if run is None and config is None:
        chosen = {"policy": "pdors"} | chosen
    from equipoise.place.explain import explain

    asked = PlaceSpec.read(run / "config.yaml" if run is not None else config, _with_jobs(chosen, jobs))
    spec = asked.model_copy(update={"policy": asked.policy[:1], "bound": False, "baseline": None})
    scene = asked.build()
    scene.refuse_unknown_job(job)
    alone = replace(scene, placers=scene.placers[:1], baseline=scene.placers[0].label, bound=False)
    found = explain(_compared(alone, quiet=json).results[0], job)  # a run repeats exactly
    if json:
        _print_json("place explain", spec, found.as_dict())
    else:
        print(found.text())


@app.command("calibrate")
@with_options(PricedSpec)
def calibrate(
    chosen: Chosen,
    config: File = None,
    out: Annotated[Path, typer.Option(help="The file to write, for --prices.", metavar="FILE")] = Path("prices.yaml"),
    json: Json = False,
) -> None:
    """Find prices by replaying history, show what every candidate earned, and write the best for --prices."""
    from equipoise.place.calibrate import calibrate
    from equipoise.place.compare import CALIBRATING
    from equipoise.present.place import trial_table
    from equipoise.present.values import Bullets

    spec = PricedSpec.read(config, chosen)
    if out.suffix not in (".yaml", ".yml"):
        raise InputError(f"--out {out}: expected a file that ends in .yaml")
    if out.exists():
        raise InputError(f"--out {out}: there is such a file already; name another, or remove it")
    if not out.absolute().parent.is_dir():
        raise InputError(f"cannot write {out}: {out.absolute().parent} is not a folder")
    with metered(CALIBRATING, "replay", None, quiet=json) as meter:
        found = calibrate(spec, replayed=lambda count: meter.bar.update(meter.task, completed=count))
    found.write(out)
    if json:
        _print_json("place calibrate", spec, {"trials": found.trials, "out": str(out), "calibrated": found.said})
    else:
        show(Bullets([f"- {line}" for line in found.notes]), trial_table(found.trials))
        print(f"{out}: use it with --prices {out}")


@app.command("import")
@with_options(SceneSpec)
def import_(
    chosen: Chosen,
    trace: Annotated[str, typer.Argument(help="A trace file.", metavar="TRACE")],
    out: Annotated[Path, typer.Option(help="Jobs to write: .yaml, .json or .csv.", metavar="FILE")] = Path("jobs.yaml"),
    cluster_out: Annotated[Path | None, typer.Option(help="The cluster to write beside.", metavar="FILE")] = None,
    json: Json = False,
) -> None:
    """Turn a trace into our own format; rows that cannot be jobs are counted with their lines."""
    from equipoise.place.files import write_cluster, write_jobs
    from equipoise.place.scene import read_cluster, read_jobs, skipped_lines
    from equipoise.place.traces import format_of
    from equipoise.present.text import count, duration, percent

    spec = SceneSpec.read(None, _with_jobs(chosen, trace))
    for name in ("restart", "draw", "horizon", "slots", "window", "wrong"):
        if getattr(spec, name):
            raise InputError(f"--{name} has no effect on import; give it to `place`")
    for file in filter(None, (out, cluster_out)):
        if file.suffix.lower() not in (".yaml", ".yml", ".json", ".csv"):
            raise InputError(f"{file}: expected a name that ends in .yaml, .json or .csv")
    if cluster_out is None and (spec.machines or spec.cluster):
        raise InputError("--machines and --cluster have no effect without --cluster-out FILE")
    path = Path(trace)
    kind = spec.format if spec.format != AUTO else format_of(path)
    cluster = None if cluster_out is None else read_cluster(spec)
    jobs = read_jobs(spec, path, kind, None)
    write_jobs(jobs, out)
    if cluster is not None and cluster_out is not None:
        write_cluster(cluster, cluster_out)
    last = max(job.arrival for job in jobs)
    if json:
        told = {"format": kind, "jobs": len(jobs), "slot": jobs.slot, "last_arrival": last, "out": str(out)}
        told["skipped"] = [{"line": row.line, "reason": row.reason} for row in jobs.skipped]
        _print_json("place import", spec, told | {"note": jobs.note, "start": jobs.start})
        return
    slots = f"slots 0 to {last:,} of {duration(jobs.slot)}" + (f" from {jobs.start}" if jobs.start else "")
    print(f"{out}: {len(jobs):,} jobs from {path.name} ({kind}), {slots}")
    for line in filter(None, (jobs.note, *skipped_lines(jobs))):
        print(f"- {line}")
    if jobs.skipped:
        print(f"- {percent(len(jobs.skipped) / (len(jobs) + len(jobs.skipped)))} of the rows skipped in all")
    if cluster is not None:
        print(f"{cluster_out}: {count(cluster.size, 'machine')}")


def _with_jobs(chosen: Chosen, jobs: str | None) -> Chosen:
    """The settings with the file of jobs; a word that is no file and nearly a command is taken for a slip."""
    if jobs is None:
        return chosen
    if not Path(jobs).exists():
        near = difflib.get_close_matches(jobs, [command.name or "" for command in app.registered_commands], n=1)
        hint = f"; did you mean the command {near[0]!r}?" if near else f" (from {Path.cwd()})"
        raise InputError(f"{jobs}: no such file of jobs{hint}")
    if Path(jobs).is_dir():
        raise InputError(f"{jobs} is a folder: name a file of jobs")
    return chosen | {"jobs": jobs}


def _compared(scene: PlaceScene, *, quiet: bool, workers: int | None = 1) -> PlaceComparison:
    """Compare with progress; a fault inside a user's policy becomes one line that names the place in her file."""
    from equipoise.place import planner

    home = Path(str(planner.__file__)).parent
    if not quiet and os.access(home, os.W_OK) and not any(home.glob("__pycache__/*.nbi")):
        print("compiling, once after installing: a minute or two", file=sys.stderr, flush=True)
    files = [] if scene.spec is None else scene.spec.policy
    with naming_faults(files), metered("comparing", "slot", None, quiet=quiet) as meter:
        return scene.compare(progress=_shown(meter), workers=workers)


def _shown(meter: Meter) -> Progress:
    """Slots of all policies; what takes no slots, such as calibrating, is named and not counted."""
    from equipoise.place.compare import CALIBRATING

    last, said = 0, -math.inf

    def tell(done: int, total: int, doing: str) -> None:
        nonlocal last, said
        if done > last:
            last = done
            meter.show(done, total, doing=doing, note="" if meter.silent else doing)
            return
        meter.bar.update(meter.task, total=total, description=doing)
        if not meter.silent and CALIBRATING in doing and time.monotonic() - said >= LINE_SECONDS:
            said = time.monotonic()
            print(doing, file=sys.stderr, flush=True)

    return tell


@contextmanager
def naming_faults(policies: Sequence[str]) -> Iterator[None]:
    """A fault inside a user's own policy becomes one line that names the place in her file."""
    from equipoise.registry import fault_in, is_reference

    files = [name.rpartition(":")[0] for name in policies if is_reference(name)]
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        if fault := fault_in(error, files):
            raise InputError(fault) from None
        raise


@contextmanager
def _new_folder(out: Path, verb: str, spec: Spec) -> Iterator[Path]:
    """A new run folder; after an error, nothing of it is left."""
    from equipoise.result import drop_if_empty, new_folder

    folder = new_folder(out, verb, spec.plain())
    try:
        yield folder
    finally:
        drop_if_empty(folder)


def _print_json(verb: str, spec: Spec, result: dict[str, object]) -> None:
    """The document of a command that certifies nothing."""
    from json import dumps

    from equipoise.document import Document

    told = Document(verb, result, config=spec.plain()).as_dict(tables=False)
    print(dumps({name: told[name] for name in ("verb", "version", "config", "result")}, indent=2, allow_nan=False))
