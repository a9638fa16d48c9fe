"""equipoise share: policies compete for a crowded site, and every policy meets the same tasks."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console

from equipoise.cli.options import Address, File, Json, Out, Spread, Workers, has_command, spreading, with_options
from equipoise.cli.output import Meter, metered, naming_faults, run_folder, tell
from equipoise.engine.real_clock.spec import ExecuteSpec
from equipoise.share.spec import LadderSpec, PoliciesSpec, ShareSpec

if TYPE_CHECKING:
    from equipoise.result import Result

app = typer.Typer(
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="[COMMAND]",
)
Found = TypeVar("Found", bound="Result")


@app.callback(invoke_without_command=True)
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
) -> None:
    """Compare policies on a crowded site: who gets compute and bandwidth in each step?

    With no options: the published policies and ours on the paper's workload, 10 to 60 tasks, 200 seeds for each load.
    """
    if has_command(context, chosen, config, workers is not None, spread, address, json, out != Path("runs")):
        return
    spec = ShareSpec.read(config, chosen)
    from equipoise.present.share_tables import comparison_tables
    from equipoise.present.terminal import show

    scene = spec.build()
    _warn(scene.warnings())
    with warnings.catch_warnings(), spreading("threads", workers, spread, address, quiet=json):
        warnings.showwarning = lambda message, *_: _warn([str(message)])
        result, folder = _run(spec, "share", out, json, lambda meter: scene.run(meter.show))
    document = result.document()
    if json:
        print(document.text(), end="")
    else:
        console = Console()
        console.print(f"[bold]{scene.title}[/]", highlight=False)
        show(console, *comparison_tables(document, console.width), result.certificate())
        print(folder / "report.html")
    raise typer.Exit(0 if result.certificate().passed else 1)


@app.command("ladder")
@with_options(LadderSpec)
def climb(
    chosen: dict[str, object],
    config: File = None,
    out: Out = Path("runs"),
    json: Json = False,
    workers: Workers = None,
    spread: Spread = None,
    address: Address = None,
) -> None:
    """Add the network, its delay, its jitter and the price of energy one by one: who leads on each rung?"""
    spec = LadderSpec.read(config, chosen)
    from equipoise.present.share_tables import ladder_table
    from equipoise.present.values import Bullets

    scene = spec.build()
    with spreading("threads", workers, spread, address, quiet=json):
        result, folder = _run(spec, "share ladder", out, json, lambda meter: scene.run(meter.show))
    document = result.document()
    tell(document, json, ladder_table(document), Bullets(result.verdict), last=folder / "result.json")


@app.command("execute")
@with_options(ExecuteSpec)
def execute(chosen: dict[str, object], config: File = None, out: Out = Path("runs"), json: Json = False) -> None:
    """Run it for real: training processes held to the CPU that policies give them, beside the simulation.

    With no options: 24 scikit-learn tasks on one CPU under four policies, about two minutes.
    """
    spec = ExecuteSpec.read(config, chosen)
    from equipoise.engine.real_clock import certify
    from equipoise.present import execution
    from equipoise.present.terminal import show
    from equipoise.present.values import Bullets

    scene = spec.build()
    result, folder = _run(
        spec,
        "share execute",
        out,
        json,
        lambda meter: scene.run(lambda done, total, doing: meter.show(done, total, doing=doing, note=doing)),
    )
    document, certificate = result.document(), certify(result)
    _warn(execution.warnings(document))
    if json:
        print(document.text(), end="")
    else:
        console = Console()
        console.print(f"[bold]{scene.title}[/]\nheld by {document.result['limiter']}", highlight=False)
        show(console, execution.table(document), Bullets(execution.sentences(document)), certificate)
        print(folder / "report.html")
    raise typer.Exit(0 if certificate.passed else 1)


@app.command("check")
def check(
    policy: Annotated[str, typer.Argument(help="Your policy, or the name of one of ours.", metavar="FILE.py:CLASS")],
    json: Json = False,
) -> None:
    """Check a policy of your own: its decisions, capacity, bandwidth, states, determinism, batches, hindsight, speed."""
    from equipoise.document import Document
    from equipoise.present.terminal import show
    from equipoise.share import check_policy
    from equipoise.share.spec import policy_from
    from equipoise.share.view import name_of

    found = policy_from(policy)
    certificate = check_policy(found)
    if json:
        print(Document("share check", {"policy": name_of(found)}, certificate, {"policy": policy}).text(), end="")
    else:
        console = Console()
        console.print(f"[bold]{name_of(found)}[/]")
        show(console, certificate)
    raise typer.Exit(0 if certificate.passed else 1)


@app.command("estimators")
def estimators(
    seed: Annotated[int, typer.Option(help="The seed that draws the tasks.", min=0)] = 0, json: Json = False
) -> None:
    """Score the estimators of remaining work on recorded real curves and on power laws."""
    from equipoise.share.estimator_scores import NOTE, score_kinds

    scores = score_kinds(seed)
    if json:
        from json import dumps

        print(dumps(scores, indent=2, allow_nan=False))
        return
    from equipoise.present.share_tables import score_table
    from equipoise.present.terminal import show
    from equipoise.present.values import Text

    show(Console(), *(score_table(title, rows) for title, rows in scores.items()), Text(NOTE, soft=True))


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
    from equipoise.present.terminal import show
    from equipoise.present.values import KeyNumber, KeyNumbers
    from equipoise.share.record import check_target, record
    from equipoise.share.recording import recording_numbers

    check_target(out)
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
        console = Console()
        show(console, KeyNumbers([KeyNumber(*item) for item in recording_numbers(recording).items()]))
        console.print(f"{out}")


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _warn(lines: Sequence[str]) -> None:
    for line in lines:
        print(f"warning: {line}", file=sys.stderr)


def _run(spec: PoliciesSpec, verb: str, out: Path, quiet: bool, work: Callable[[Meter], Found]) -> tuple[Found, Path]:
    """Play with progress and save; of a run that fails nothing is left. The result and its folder.

    A fault inside a user's policy becomes one line that names the place in the user's file.
    """
    with (
        run_folder(out, verb, spec) as folder,
        naming_faults(spec.policy_file or []),
        metered(verb, "part", None, quiet=quiet) as meter,
    ):
        result = work(meter)
        result.save(folder)
    return result, folder
