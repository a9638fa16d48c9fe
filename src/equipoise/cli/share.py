"""equipoise share: policies compete for a crowded site, and every policy meets the same tasks."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.cli.options import read_config, with_options
from equipoise.cli.share_config import LadderConfig, ShareConfig
from equipoise.cli.spread_options import Address, Spread, Workers, spreading
from equipoise.engine.real_clock.spec import ExecuteSpec
from equipoise.errors import InputError

app = typer.Typer(
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="[COMMAND]",
)
File = Annotated[Path | None, typer.Option(help="Repeat a run from its config.yaml; options given here win.")]
Out = Annotated[Path, typer.Option(help="Where run folders are made.")]
Json = Annotated[bool, typer.Option("--json", help="Print only the result, as JSON.")]


@app.callback(invoke_without_command=True)
@with_options(ShareConfig)
def share(
    context: typer.Context,
    chosen: dict[str, Any],
    config: File = None,
    out: Out = Path("runs"),
    json: Json = False,
    workers: Workers = None,
    spread: Spread = None,
    address: Address = None,
) -> None:
    """Compare policies on a crowded site: who gets compute and bandwidth in each step?

    With no options: the published policies and ours on the paper's workload, 10 to 60 tasks, 200 seeds a load.
    """
    if context.invoked_subcommand is not None:
        elsewhere = (config, workers, spread, address)
        if chosen or any(given is not None for given in elsewhere) or json or out != Path("runs"):
            raise InputError(f"options stand after the command: equipoise share {context.invoked_subcommand} [OPTIONS]")
        return
    settings = read_config(ShareConfig, config, chosen)
    from equipoise.cli.share_run import run_share

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
        with spreading("threads", workers, spread, address, quiet=json):
            passed = run_share(settings, out, quiet=json)
    raise typer.Exit(0 if passed else 1)


@app.command("ladder")
@with_options(LadderConfig)
def climb(
    chosen: dict[str, Any],
    config: File = None,
    out: Out = Path("runs"),
    json: Json = False,
    workers: Workers = None,
    spread: Spread = None,
    address: Address = None,
) -> None:
    """Add the network, its delay, its jitter and the price of energy one by one: who leads on each rung?"""
    settings = read_config(LadderConfig, config, chosen)
    from equipoise.cli.share_run import run_ladder

    with spreading("threads", workers, spread, address, quiet=json):
        passed = run_ladder(settings, out, quiet=json)
    raise typer.Exit(0 if passed else 1)


@app.command("execute")
@with_options(ExecuteSpec)
def execute(chosen: dict[str, Any], config: File = None, out: Out = Path("runs"), json: Json = False) -> None:
    """Run it for real: training processes held to the CPU that policies give them, beside the simulation.

    With no options: 24 scikit-learn tasks on one CPU under four policies, about two minutes.
    """
    from equipoise.cli.share_execute import run_execute

    raise typer.Exit(0 if run_execute(ExecuteSpec.read(config, chosen), out, quiet=json) else 1)


@app.command("check")
def check(
    policy: Annotated[str, typer.Argument(help="Your policy, or the name of one of ours.", metavar="FILE.py:CLASS")],
    json: Json = False,
) -> None:
    """Check a policy of your own: its decisions, capacity, bandwidth, states, determinism, batches, hindsight, speed."""
    from equipoise.cli.share_run import run_check

    raise typer.Exit(0 if run_check(policy, quiet=json) else 1)


@app.command("estimators")
def estimators(
    seed: Annotated[int, typer.Option(help="The seed that draws the tasks.", min=0)] = 0, json: Json = False
) -> None:
    """Score the estimators of remaining work on recorded real curves and on power laws."""
    from equipoise.cli.share_score import run_score

    run_score(seed, as_json=json)


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
    from equipoise.cli.share_record import run_record

    run_record(out, repeats, _names(models), _names(data), seed, quiet)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]
