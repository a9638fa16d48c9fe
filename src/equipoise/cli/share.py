"""equipoise share: policies compete for a crowded site, and every policy meets the same tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from equipoise.cli.options import (
    Address,
    File,
    Json,
    Out,
    Spread,
    Workers,
    application,
    has_command,
    read_spec,
    spreading,
    with_options,
)
from equipoise.cli.output import metered, run_folder, say_where, show, show_choices, tell, warn, warnings_as_lines
from equipoise.engine.real_clock.spec import ExecuteSpec
from equipoise.errors import InputError
from equipoise.share.spec import BundlesSpec, ShareSpec

REMOVED = {  # commands that were here, and the way out
    "ladder": "play `equipoise share --preset described` rung by rung: with --bandwidth inf --data 0:0 --delay 0 --jitter 0 "
    "(no network), --delay 0 --jitter 0, --jitter 0, as it is, and --power per_node or --power linear",
    "estimators": "run `python benchmarks/share/estimators.py` in a copy of the source",
}
app = application()


@app.callback(invoke_without_command=True, subcommand_metavar="[COMMAND]")
@with_options(ShareSpec)
def share(
    context: typer.Context,
    chosen: dict[str, object],
    config: File = None,
    out: Out = Path("runs"),
    json: Json = False,
    workers: Workers = None,
    spread: Spread = None,
    address: Address = None,
    published_run: Annotated[
        bool,
        typer.Option(
            "--published-run", help="Play the authors' own sequence instead: Table 1 beside ours, cell by cell."
        ),
    ] = False,
) -> None:
    """Compare policies on a crowded site: who gets compute and bandwidth in each step?

    With no options: the published policies, EDF and ours on the authors' workload, 10 to 60 tasks, 200 seeds for each load.
    """
    if has_command(context):
        return
    if published_run:
        _published_run(out, chosen, config, json)
    spec = read_spec(ShareSpec, config, chosen)
    from equipoise.present.share import comparison_tables

    scene = spec.build()
    warn(scene.warnings())
    with (
        warnings_as_lines(),
        spreading("threads", workers, spread, address, quiet=json) as over,
        run_folder(out, "share", spec, spec.policy_file or ()) as folder,
    ):
        say_where("share", dict(spec), json=json, over=over)
        with metered("share", "part", None, quiet=json) as meter:
            result = scene.run(meter.show)
        result.save(folder)
    document = result.document()
    blocks = comparison_tables(document, Console().width)
    tell(document, json, scene.title, *blocks, last=folder / "report.html")


def _published_run(out: Path, chosen: dict[str, object], config: Path | None, json: bool) -> NoReturn:
    """The authors' generator, their order of runs, and the table that they printed."""
    if chosen or config is not None:
        given = [f"--{name.replace('_', '-')}" for name in chosen] or ["--config"]
        raise InputError(f"{given[0]} has no effect: --published-run plays the authors' own sequence", code="no-effect")
    from equipoise.present.share import published_tables
    from equipoise.result import drop_if_empty, new_folder
    from equipoise.share.published import published_run

    folder = new_folder(out, "share published", {})
    say_where("share published", {}, json=json)
    try:
        with metered("the authors' run", "part", None, quiet=json) as meter:
            result = published_run(meter.show)
        result.save(folder)
    finally:
        drop_if_empty(folder)
    document = result.document()
    tell(document, json, *published_tables(document), last=folder / "result.json")


@app.command("bundles")
@with_options(BundlesSpec)
def share_time(
    chosen: dict[str, object],
    config: File = None,
    out: Out = Path("runs"),
    json: Json = False,
    workers: Workers = None,
    spread: Spread = None,
    address: Address = None,
) -> None:
    """Share one resource in time: bundles of tasks with real curves, who finishes most and who switches most?"""
    spec = read_spec(BundlesSpec, config, chosen)
    from equipoise.present.share import bundles_table
    from equipoise.present.values import Bullets

    scene = spec.build()
    with (
        spreading("threads", workers, spread, address, quiet=json) as over,
        run_folder(out, "share bundles", spec, spec.policy_file or ()) as folder,
    ):
        say_where("share bundles", dict(spec), json=json, over=over)
        with metered("share bundles", "part", None, quiet=json) as meter:
            result = scene.run(meter.show)
        result.save(folder)
    document = result.document()
    tables = [bundles_table(document, load) for load in spec.loads]
    tell(document, json, *tables, Bullets(document.result["verdict"]), last=folder / "result.json")


@app.command("execute")
@with_options(ExecuteSpec)
def execute(chosen: dict[str, object], config: File = None, out: Out = Path("runs"), json: Json = False) -> None:
    """Run it for real: training processes held to the CPU that policies give them, beside the simulation.

    With no options: 24 scikit-learn tasks on one CPU under four policies, about two minutes.
    """
    spec = read_spec(ExecuteSpec, config, chosen)
    from equipoise.present import execution
    from equipoise.present.values import Bullets, Text

    scene = spec.build()
    with run_folder(out, "share execute", spec, spec.policy_file or ()) as folder:
        told = False

        def show_part(done: int, total: int, doing: str) -> None:
            nonlocal told
            if done and not told:  # by then all is checked: a mistake is told alone
                say_where("share execute", dict(spec), json=json)
                told = True
            meter.show(done, total, doing=doing, note=doing)

        with metered("share execute", "part", None, quiet=json) as meter:
            result = scene.run(show_part)
        result.save(folder)
    document = result.document()
    warn(execution.warnings(document))
    held = Text(f"held by {document.result['limiter']}")
    blocks = (held, execution.table(document), Bullets(execution.sentences(document)))
    tell(document, json, scene.title, *blocks, last=folder / "report.html")


@app.command("list")
def list_choices() -> None:
    """List the policies and estimators there are, with what each is bad at where its file says so."""
    from equipoise.registry import Registry

    show_choices(
        policies=Registry("equipoise.share.policies", "policy"),
        estimators=Registry("equipoise.share.estimators", "estimator"),
    )


@app.command("check")
def check(
    policy: Annotated[str, typer.Argument(help="Your policy, or the name of one of ours.", metavar="FILE.py:CLASS")],
    json: Json = False,
) -> None:
    """Check a policy of your own: its decisions, capacity, bandwidth, states, determinism, batches, hindsight, speed."""
    from equipoise.document import Document
    from equipoise.share import check_policy
    from equipoise.share.spec import policy_from
    from equipoise.share.view import name_of

    found = policy_from(policy)
    say_where("share check", {}, json=json)
    document = Document("share check", {"policy": name_of(found)}, check_policy(found), {"policy": policy})
    tell(document, json, name_of(found))


@app.command("record")
def record(
    out: Annotated[Path, typer.Argument(help="The file to write.", metavar="FILE")],
    repeats: Annotated[int, typer.Option(help="Seeds of every combination.", min=1)] = 2,
    models: Annotated[str | None, typer.Option(help="Only these models, commas between.", metavar="NAMES")] = None,
    data: Annotated[str | None, typer.Option(help="Only these data sets, commas between.", metavar="NAMES")] = None,
    seed: Annotated[int, typer.Option(help="The first seed.", min=0)] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but mistakes.")] = False,
) -> None:
    """Train real scikit-learn models and keep their learning curves, for --preset recorded."""
    from equipoise.present.values import KeyNumber, KeyNumbers
    from equipoise.share.record import check_target, record
    from equipoise.share.recording import recording_numbers

    check_target(out)
    if not quiet:
        say_where("share record", {}, json=False)
    with metered("training", "curve", None, quiet=quiet) as meter:
        recording = record(
            _names(models),
            _names(data),
            repeats,
            lambda done, total, name: meter.show(done, total, note=f"{name.model} on {name.data}"),
            seed,
        )
    recording.save(out)
    if not quiet:
        show(KeyNumbers([KeyNumber(*item) for item in recording_numbers(recording).items()]))
        print(out)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _refuse(name: str, way_out: str) -> None:
    def removed(context: typer.Context) -> None:
        raise InputError(f"`equipoise share {name}` is not there any more; {way_out}", code="command.removed")

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(name, hidden=True, add_help_option=False, context_settings=settings)(removed)


for _name, _way_out in REMOVED.items():
    _refuse(_name, _way_out)
