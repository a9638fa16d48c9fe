"""equipoise train: centres train one model and negotiate their CPU."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.cli.options import read_config, with_options
from equipoise.cli.train_compare import CompareConfig
from equipoise.cli.train_config import TrainConfig
from equipoise.cli.train_faults import refusing_faults
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
@with_options(TrainConfig)
def train(
    context: typer.Context,
    chosen: dict[str, Any],
    config: File = None,
    budget_at: Annotated[
        list[str] | None, typer.Option(help="Change the budget before a round; repeatable.", metavar="ROUND:CPUS")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with an interrupted run, from its folder.")] = None,
    out: Out = Path("runs"),
    json: Json = False,
) -> None:
    """Centres train one model together and negotiate a CPU budget, over quantised messages.

    With no options: softmax on scikit-learn's digits, 20 centres, a switching network, 9-bit messages, 500 CPUs.

    A hostile network: equipoise train --loss 0.3 --delay 3 --crash 7@137 --join 9@300 --partition 0-4@500..600

    CPU that buys samples: equipoise train --couple. A net: equipoise train --model mlp --rivals
    """
    if context.invoked_subcommand is not None:
        if chosen or config is not None or budget_at or resume is not None or json or out != Path("runs"):
            raise InputError(f"options stand after the command: equipoise train {context.invoked_subcommand} [OPTIONS]")
        return
    if budget_at:
        changes = [_budget_change(text) for text in budget_at]
        chosen["budgets"] = dict(changes)
        if len(chosen["budgets"]) < len(changes):
            raise InputError(f"--budget-at names a round twice: {' '.join(budget_at)}")
    if resume is not None:
        if config is not None:
            raise InputError("--resume brings its own config.yaml: drop --config")
        config = resume / "config.yaml"
    settings = read_config(TrainConfig, config, chosen)
    from equipoise.cli.train_run import run_train

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
        passed = run_train(settings, out, resume, quiet=json)
    raise typer.Exit(0 if passed else 1)


@app.command("analyse")
@with_options(TrainConfig)
def analyse(
    chosen: dict[str, Any],
    config: File = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Also the eigenvalues over alpha, to past where they cross.")
    ] = False,
    json: Json = False,
) -> None:
    """What theory says of a run before it is made: spectra, limits, chosen steps, bits and predicted rounds."""
    settings = read_config(TrainConfig, config, chosen)
    from equipoise.cli.train_analyse import run_analyse

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
        run_analyse(settings, quiet=json, swept=sweep)


@app.command("compare")
@with_options(CompareConfig)
@refusing_faults("compare")
def compare(chosen: dict[str, Any], config: File = None, out: Out = Path("runs"), json: Json = False) -> None:
    """Our method beside its rivals: at equal rounds, at equal bits, and to a target; or one knob at a time (--study)."""
    settings = read_config(CompareConfig, config, chosen)
    if settings.study == "claim":
        from equipoise.cli.reproduce import app as reproduce

        print(
            "--study claim is now: equipoise reproduce fifty-percent-better (with its own instances)", file=sys.stderr
        )
        code = reproduce(["fifty-percent-better", "--out", str(out), *["--json"] * json], standalone_mode=False)
        raise typer.Exit(code or 0)
    from equipoise.cli.train_compare_run import run_compare

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
        passed = run_compare(settings, out, quiet=json)
    raise typer.Exit(0 if passed else 1)


def _budget_change(text: str) -> tuple[int, float]:
    number, _, cpus = text.partition(":")
    try:
        return int(number), float(cpus)
    except ValueError:
        raise InputError(f"--budget-at expects ROUND:CPUS, such as 300:600, not {text!r}") from None
