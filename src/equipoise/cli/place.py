"""equipoise place: jobs arrive at a cluster, and policies that admit, size, place and time them are compared."""

from __future__ import annotations

import difflib
import math
import sys
import time
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.options import (
    Address,
    File,
    Json,
    Out,
    Spread,
    Workers,
    application,
    read_spec,
    spreading,
    with_options,
)
from equipoise.cli.output import (
    LINE_SECONDS,
    Meter,
    compiling_told,
    metered,
    naming_faults,
    run_folder,
    say_where,
    show_choices,
    tell,
    warn,
)
from equipoise.errors import InputError
from equipoise.place.spec import USUAL, BoundSpec, PlaceSpec, PricedSpec, SceneSpec, SweepSpec, WhatIfSpec

if TYPE_CHECKING:
    from equipoise.place.compare import PlaceComparison, Progress
    from equipoise.place.scene import PlaceScene

DEFAULT = "compare"
COMPILING = 10.0  # seconds of one core that the kernels of the default run take


app = application(DEFAULT)
Jobs = Annotated[
    str | None, typer.Argument(help="Jobs: YAML, JSON or CSV of our own format, or a trace.", metavar="JOBS")
]
Run = Annotated[Path | None, typer.Option(help="A run folder: its jobs, cluster and first policy.", metavar="FOLDER")]
Chosen = dict[str, object]


@app.callback()
def place() -> None:
    """Jobs arrive at a cluster: admit them? How many workers and servers, on which machines, in which slots?

    `equipoise place JOBS --cluster FILE` replays jobs through several policies, read-only: what is gained, who loses?

    With no arguments: a built-in overloaded example.
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

    spec = read_spec(PlaceSpec, config, _with_jobs(chosen, jobs))
    with (
        compiling_told(COMPILING, quiet=json),
        run_folder(out, "place", spec) as folder,
        spreading("processes", workers, spread, address, quiet=json) as over,
    ):
        scene = spec.build()
        say_where("place", dict(spec), json=json, over=over)
        found = _compared(scene, quiet=json, workers=None if over else 1)
        found.save(folder, report=report)
    warn(scene.skipped if json else ())
    document = found.document()
    tell(document, json, *summary(document, found.speeds), last=folder / "report.html" if report else folder)


@app.command("list")
def list_choices() -> None:
    """List the placers, kinds of prices and trace formats there are."""
    from equipoise.place.spec import PLACERS, PRICES, TRACES

    show_choices(placers=PLACERS, prices=PRICES, formats_and_generators=TRACES)


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

    spec = read_spec(SweepSpec, config, _with_jobs(chosen, jobs))
    scenes = spec.scenes()
    with (
        run_folder(out, "place-sweep", spec, spec.policy) as folder,
        spreading("processes", workers, spread, address, quiet=json) as over,
    ):
        say_where("place sweep", dict(spec), json=json, over=over)
        with metered("comparing", "seed", len(scenes), quiet=json) as meter:
            found = sweep(
                [scene.case for scene in scenes],
                bound="auto" if spec.bound else False,
                progress=meter.show,
                baseline=scenes[0].baseline,
                spec=spec,
            )
    found.save(folder, report=False)
    document = found.document()
    tell(document, json, sweep_table(document), last=folder / "result.json")


@app.command("bound")
@with_options(BoundSpec)
def bound(chosen: Chosen, jobs: Jobs = None, config: File = None, json: Json = False) -> None:
    """The most utility that any schedule could reach, with everything known in advance."""
    from equipoise.place.from_files import bound_of
    from equipoise.present.place import bound_numbers

    spec, began = BoundSpec.read(config, _with_jobs(chosen, jobs)), time.monotonic()
    with metered("solving", "program", 1, quiet=json):
        document = bound_of(spec)
    say_where("place bound", dict(spec), json=json)
    tell(document, json, *bound_numbers(document, time.monotonic() - began))


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
    calendar: Annotated[
        Path | None, typer.Option(help="What jobs could not have. (default: calendar.yaml beside it)", metavar="FILE")
    ] = None,
    json: Json = False,
) -> None:
    """Certify a schedule made by anybody: capacity, ratio, arrival; work and locality where finishes are claimed."""
    if slots is not None and horizon is not None:
        raise InputError(f"--slots {slots} and --horizon {horizon} are both given; keep one")
    from equipoise.place.from_files import verify_schedule
    from equipoise.present.place import verified_numbers

    files = {"jobs": jobs, "cluster": cluster, "claims": claims, "calendar": calendar}
    document = verify_schedule(schedule, slots=slots, horizon=horizon, slot=slot, **files)
    say_where("place verify", document.config, json=json)
    tell(document, json, *verified_numbers(document))


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
    from equipoise.document import Document
    from equipoise.place.explain import explain

    asked = read_spec(PlaceSpec, *_of_one(chosen, jobs, run, config))
    spec = asked.model_copy(update={"policy": asked.policy[:1], "bound": False, "baseline": None})
    with compiling_told(COMPILING, quiet=json):
        scene = asked.build()
        scene.refuse_unknown_job(job)
        say_where("place explain", dict(spec), json=json)
        alone = replace(scene, placers=scene.placers[:1], baseline=scene.placers[0].label, bound=False)
        found = explain(_compared(alone, quiet=json).results[0], job)  # a run repeats exactly
    tell(Document("place explain", found.as_dict(), config=spec.plain()), json, last=found.text())


@app.command("whatif")
@with_options(WhatIfSpec)
def whatif(
    chosen: Chosen, jobs: Jobs = None, run: Run = None, config: File = None, out: Out = Path("runs"), json: Json = False
) -> None:
    """One more machine, or another policy: what changes, and for whom? `--add 1 --machine a100`, `--instead fifo`."""
    from equipoise.place.whatif import whatif
    from equipoise.present.place import whatif_blocks

    spec = read_spec(WhatIfSpec, *_of_one(chosen, jobs, run, config))
    say_once = cache(partial(say_where, "place whatif", dict(spec), json=json))

    def compared(scene: PlaceScene) -> PlaceComparison:
        say_once()  # now that the files have been read, and not refused
        return _compared(scene, quiet=json)

    with compiling_told(COMPILING, quiet=json), run_folder(out, "place-whatif", spec, spec.policy) as folder:
        found = whatif(spec, compared=compared)
        found.save(folder, report=False)
    document = found.document()
    tell(document, json, *whatif_blocks(document), last=folder / "result.json")


@app.command("calibrate")
@with_options(PricedSpec)
def calibrate(
    chosen: Chosen,
    config: File = None,
    out: Annotated[Path, typer.Option(help="The file to write, for --prices.", metavar="FILE")] = Path("prices.yaml"),
    json: Json = False,
) -> None:
    """Find prices by replaying history, show what every candidate earned, and write the one chosen for --prices."""
    from equipoise.document import Document
    from equipoise.place.calibrate import calibrate
    from equipoise.place.compare import CALIBRATING
    from equipoise.present.place import trial_table
    from equipoise.present.values import Bullets

    spec = read_spec(PricedSpec, config, chosen)
    if out.suffix not in (".yaml", ".yml"):
        raise InputError(f"--out {out}: expected a file that ends in .yaml")
    if out.exists():
        raise InputError(f"--out {out}: there is such a file already; name another, or remove it")
    if not out.absolute().parent.is_dir():
        raise InputError(f"cannot write {out}: {out.absolute().parent} is not a folder")
    say_where("place calibrate", dict(spec), json=json)
    with compiling_told(COMPILING, quiet=json), metered(CALIBRATING, "candidate", None, quiet=json) as meter:
        found = calibrate(spec, begun=lambda number: meter.bar.update(meter.task, completed=number))
    found.write(out)
    result = {"trials": found.trials, "out": str(out), "calibrated": found.said}
    blocks = (Bullets([f"- {line}" for line in found.notes]), trial_table(found.trials))
    document = Document("place calibrate", result, config=spec.plain())
    tell(document, json, *blocks, last=f"{out}: use it with --prices {out}")


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
    from equipoise.place.from_files import import_trace
    from equipoise.present.place import import_lines

    document = import_trace(SceneSpec.read(None, _with_jobs(chosen, trace)), out, cluster_out)
    say_where("place import", document.config, json=json)
    tell(document, json, last="\n".join(import_lines(document)))


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


def _of_one(chosen: Chosen, jobs: str | None, run: Path | None, config: Path | None) -> tuple[Path | None, Chosen]:
    """The settings of a run folder, or else of one policy."""
    if run is not None and config is not None:
        raise InputError("--run and --config are both given; keep one: a run folder holds its config.yaml")
    if run is not None and not (run / "config.yaml").is_file():
        raise InputError(f"{run}: no run folder of place: it has no config.yaml")
    if run is None and config is None:
        chosen = {"policy": USUAL} | chosen
    return run / "config.yaml" if run is not None else config, _with_jobs(chosen, jobs)


def _compared(scene: PlaceScene, *, quiet: bool, workers: int | None = 1) -> PlaceComparison:
    """Compare with progress; a fault inside a user's policy becomes one line that names the place in her file."""
    files = [] if scene.spec is None else scene.spec.policy
    with naming_faults(files), metered("comparing", "slot", None, quiet=quiet) as meter:
        return scene.compare(progress=_shown(meter), workers=workers)


def _shown(meter: Meter) -> Progress:
    """Slots of all policies; what takes no slots, such as calibrating, is named and not counted."""
    from equipoise.place.compare import CALIBRATING

    last, said = 0, -math.inf

    def update(done: int, total: int, doing: str) -> None:
        nonlocal last, said
        if done > last:
            last = done
            meter.show(done, total, doing=doing, note="" if meter.silent else doing)
            return
        meter.bar.update(meter.task, total=total, description=doing)
        if not meter.silent and CALIBRATING in doing and time.monotonic() - said >= LINE_SECONDS:
            said = time.monotonic()
            print(doing, file=sys.stderr, flush=True)

    return update
