"""equipoise place: jobs arrive at a cluster, and policies that admit, size, place and time them are compared."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from equipoise.cli.options import read_config, with_options
from equipoise.cli.place_config import BoundConfig, PlaceConfig, Priced, Scene, SweepConfig
from equipoise.cli.spread_options import Address, Spread, Workers, spreading
from equipoise.errors import InputError

DEFAULT = "compare"


class WithDefault(TyperGroup):
    """`place jobs.yaml` is `place compare jobs.yaml`: what does not begin with a command's name is the default's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The commands, then the options of the default one."""
        super().format_help(ctx, formatter)
        command = self.commands[DEFAULT]
        inner = type(ctx)(command, info_name="[compare]", parent=ctx)
        command.format_help(inner, formatter)


app = typer.Typer(
    cls=WithDefault,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="[COMMAND]",
)
Jobs = Annotated[
    str | None, typer.Argument(help="Jobs: YAML, JSON or CSV of our own format, or a trace.", metavar="JOBS")
]
File = Annotated[Path | None, typer.Option(help="Repeat a run from its config.yaml; options given here win.")]
Out = Annotated[Path, typer.Option(help="Where run folders are made.")]
Json = Annotated[bool, typer.Option("--json", help="Print only the result, as JSON.")]
Run = Annotated[Path | None, typer.Option(help="A run folder: explain what was decided in it.", metavar="FOLDER")]


@app.callback()
def place() -> None:
    """Jobs arrive at a cluster: admit them? How many workers and servers, on which machines, in which slots?

    `equipoise place JOBS --cluster FILE` replays jobs through several policies, read-only, and says what would have been
    gained and who would have lost. With no arguments: a built-in overloaded example.
    """


@app.command(DEFAULT)
@with_options(PlaceConfig)
def compare(
    chosen: dict[str, Any],
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
    settings = read_config(PlaceConfig, config, _with_jobs(chosen, jobs))
    from equipoise.cli.place_run import run_place

    with spreading("processes", workers, spread, address, quiet=json) as elsewhere:
        passed = run_place(settings, out, quiet=json, report=report, workers=None if elsewhere else 1)
    raise typer.Exit(0 if passed else 1)


@app.command("sweep")
@with_options(SweepConfig)
def sweep(
    chosen: dict[str, Any],
    jobs: Jobs = None,
    config: File = None,
    out: Out = Path("runs"),
    json: Json = False,
    workers: Workers = None,
    spread: Spread = None,
    address: Address = None,
) -> None:
    """The same comparison with many seeds, on all cores or a Ray cluster: how much of a lead is luck?"""
    settings = read_config(SweepConfig, config, _with_jobs(chosen, jobs))
    from equipoise.cli.place_sweep import run_sweep

    with spreading("processes", workers, spread, address, quiet=json):
        passed = run_sweep(settings, out, quiet=json)
    raise typer.Exit(0 if passed else 1)


@app.command("bound")
@with_options(BoundConfig)
def bound(chosen: dict[str, Any], jobs: Jobs = None, config: File = None, json: Json = False) -> None:
    """The most utility that any schedule could reach, with everything known in advance."""
    settings = read_config(BoundConfig, config, _with_jobs(chosen, jobs))
    from equipoise.cli.place_tools import run_bound

    run_bound(settings, quiet=json)


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
    from equipoise.cli.place_verify import run_verify

    raise typer.Exit(0 if run_verify(schedule, jobs, cluster, slots, horizon, slot, claims, quiet=json) else 1)


@app.command("explain")
@with_options(PlaceConfig)
def explain(
    chosen: dict[str, Any],
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
    asked = chosen.get("policy", "pdors") if run is None and config is None else chosen.get("policy")
    given = _with_jobs(chosen | ({"policy": asked} if asked else {}), jobs)
    settings = read_config(PlaceConfig, run / "config.yaml" if run is not None else config, given)
    from equipoise.cli.place_tools import run_explain

    run_explain(settings, job, quiet=json)


@app.command("calibrate")
@with_options(Priced)
def calibrate(
    chosen: dict[str, Any],
    config: File = None,
    out: Annotated[Path, typer.Option(help="The file to write, for --prices.", metavar="FILE")] = Path("prices.yaml"),
    json: Json = False,
) -> None:
    """Find prices by replaying history, show what every candidate earned, and write the best for --prices."""
    settings = read_config(Priced, config, chosen)
    from equipoise.cli.place_tools import run_calibrate

    run_calibrate(settings, out, quiet=json)


@app.command("import")
@with_options(Scene)
def import_(
    chosen: dict[str, Any],
    trace: Annotated[str, typer.Argument(help="A trace file.", metavar="TRACE")],
    out: Annotated[Path, typer.Option(help="Jobs to write: .yaml, .json or .csv.", metavar="FILE")] = Path("jobs.yaml"),
    cluster_out: Annotated[Path | None, typer.Option(help="The cluster to write beside.", metavar="FILE")] = None,
    json: Json = False,
) -> None:
    """Turn a trace into our own format; rows that cannot be jobs are counted with their lines."""
    settings = read_config(Scene, None, _with_jobs(chosen, trace))
    from equipoise.cli.place_tools import run_import

    run_import(settings, out, cluster_out, quiet=json)


def _with_jobs(chosen: dict[str, Any], jobs: str | None) -> dict[str, Any]:
    """The settings with the file of jobs; a word that is no file and nearly a command is taken for a slip."""
    if jobs is None:
        return chosen
    if not Path(jobs).exists():
        known = ("compare", "sweep", "bound", "verify", "explain", "calibrate", "import")
        near = difflib.get_close_matches(jobs, known, n=1)
        hint = f"; did you mean the command {near[0]!r}?" if near else ""
        raise InputError(f"{jobs}: no such file of jobs{hint or f' (from {Path.cwd()})'}")
    if Path(jobs).is_dir():
        raise InputError(f"{jobs} is a folder: name a file of jobs")
    return chosen | {"jobs": jobs}
