"""equipoise reproduce: what the papers claim, measured here, with a computed verdict for every claim."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.service_options import Json, verb
from equipoise.cli.spread_options import Workers

app = verb()


@app.command()
def reproduce(
    claims: Annotated[
        list[str] | None, typer.Argument(help="Names of claims, or a verb for all of its own.", metavar="[CLAIM]...")
    ] = None,
    quick: Annotated[
        bool | None,
        typer.Option("--quick/--full", help="Fewer seeds, smaller sizes: all claims in minutes. (default: full)"),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="The folder of the four MNIST files. (default: mnist/ in EQUIPOISE_DATA; without it, the digits)",
            metavar="DIR",
        ),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="Name every claim with its sentence; measure nothing.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help="Repeat a run from its config.yaml; what is given here wins.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where run folders are made.")] = Path("runs"),
    json: Json = False,
    workers: Workers = None,
) -> None:
    """Measure the claims of the three papers: the protocol, the value with its uncertainty, and a computed verdict.

    With no arguments all of them, in less than an hour on two cores; --quick in less than five minutes. Exit 0 when every
    claim has a verdict and no finding lies on another side of its bound than when it was recorded, else 1.
    """
    from equipoise.cli.options import read_config
    from equipoise.cli.reproduce_run import ReproduceConfig, run_list, run_reproduce

    if listed:
        run_list(claims or [], as_json=json)
        return
    given = {"claims": claims or None, "quick": quick}
    settings = read_config(ReproduceConfig, config, {key: value for key, value in given.items() if value is not None})
    passed = run_reproduce(settings, data_dir=data_dir, out=out, workers=workers, as_json=json)
    raise typer.Exit(0 if passed else 1)
