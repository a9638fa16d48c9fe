"""equipoise reproduce: what the papers claim, measured here, with a computed verdict for every claim."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.options import Workers, application
from equipoise.cli.service import Json

if TYPE_CHECKING:
    from equipoise.claims.ledger import Reproduction

IN_FULL = 4  # so many claims are printed with all their findings; more as a table
MORE = "equipoise reproduce CLAIM says on what its verdict depends, with every finding; so does the page"

app = application()


@app.command("reproduce")
def command(
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
    if listed:
        _list(claims or [], as_json=json)
        return
    from equipoise.claims.ledger import MNIST, ReproduceSpec, reproduce, settled
    from equipoise.cli.output import metered, run_folder

    given = {"claims": claims or None, "quick": quick}
    spec = ReproduceSpec.read(config, {name: value for name, value in given.items() if value is not None})
    wanted, scale = spec.build(data_dir)
    if scale.mnist is None and any(claim.name == MNIST for claim in wanted) and not json:
        print(
            f"MNIST was not found: {MNIST} is measured on scikit-learn's digits; name its folder with --data-dir",
            file=sys.stderr,
        )
    with (
        run_folder(out, "reproduce", settled(wanted, scale)) as folder,
        metered("measuring", "claim", len(wanted), quiet=json) as meter,
    ):
        result = reproduce(
            wanted, scale, workers=workers, progress=lambda done, total, name: meter.show(done, total, note=name)
        )
        result.save(folder)
    if json:
        print(result.document().text(), end="")
    else:
        _print(result, folder / "report.html")
    raise typer.Exit(0 if result.certificate.passed else 1)


def _print(result: Reproduction, page: Path) -> None:
    from rich.console import Console

    from equipoise.present import claims, terminal
    from equipoise.present.text import count
    from equipoise.present.values import Text

    console, entries = Console(highlight=False), result.entries
    console.print(f"[bold]{count(len(entries), 'claim')}: {claims.tally(entries)}[/]")
    if len(entries) <= IN_FULL:
        terminal.show(console, *map(claims.claim, entries))
    else:
        terminal.show(
            console, *(claims.summary(chapter, claims.TITLES[verb]) for verb, chapter in claims.chapters(entries))
        )
        terminal.show(console, Text(MORE, soft=True))
        for entry in entries:
            for change in entry["changed"] or ():
                terminal.show(console, Text(f"{entry['name']}: {change}", "changed", banner=True))
    terminal.show(console, result.certificate)
    console.print(str(page), soft_wrap=True)


def _list(names: Sequence[str], *, as_json: bool) -> None:
    """Every claim with its sentence and the verdict that was recorded; nothing is measured."""
    import json

    from rich.console import Console

    from equipoise.claims.ledger import listing
    from equipoise.present import terminal
    from equipoise.present.claims import recorded_table

    rows = listing(names)
    if as_json:
        print(json.dumps({"claims": rows}, indent=2))
    else:
        terminal.show(Console(highlight=False), recorded_table(rows))
