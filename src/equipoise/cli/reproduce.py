"""equipoise reproduce: what the papers claim, measured here, with a computed verdict for every claim."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.options import File, Out, Workers, application
from equipoise.cli.output import answer, metered, run_folder, say_where, show, tell
from equipoise.cli.service import Json

if TYPE_CHECKING:
    from equipoise.document import Row
    from equipoise.present.values import Block

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
    config: File = None,
    out: Out = Path("runs"),
    json: Json = False,
    workers: Workers = None,
) -> None:
    """Measure the claims of the three papers: the protocol, the value with its uncertainty, and a computed verdict.

    With no arguments all of them, in less than an hour on two cores; --quick in less than five minutes.

    Exit 0: every claim has a verdict, and no finding moved across its bound since it was recorded; 1: otherwise.
    """
    if listed:
        _list(claims or [], as_json=json)
        return
    from equipoise.claims.ledger import MNIST, ReproduceSpec, reproduce, settled

    given = {"claims": claims or None, "quick": quick}
    spec = ReproduceSpec.read(config, {name: value for name, value in given.items() if value is not None})
    wanted, scale = spec.build(data_dir)
    if scale.mnist is None and any(claim.name == MNIST for claim in wanted) and not json:
        print(
            f"MNIST was not found: {MNIST} is measured on scikit-learn's digits; name its folder with --data-dir",
            file=sys.stderr,
        )
    with run_folder(out, "reproduce", settled(wanted, scale)) as folder:
        say_where("reproduce", {}, json=json)
        with metered("measuring", "claim", len(wanted), quiet=json) as meter:
            result = reproduce(
                wanted, scale, workers=workers, progress=lambda done, total, name: meter.show(done, total, note=name)
            )
        result.save(folder)
    tell(result.document(), json, *_blocks(result.entries), last=folder / "report.html")


def _blocks(entries: Sequence[Row]) -> Iterator[Block | str]:
    from equipoise.present import claims
    from equipoise.present.text import count
    from equipoise.present.values import Text

    yield f"{count(len(entries), 'claim')}: {claims.tally(entries)}"
    if len(entries) <= IN_FULL:
        yield from map(claims.claim, entries)
        return
    for verb, chapter in claims.chapters(entries):
        yield claims.summary(chapter, claims.TITLES[verb])
    yield Text(MORE, soft=True)
    for entry in entries:
        for change in entry["changed"] or ():
            yield Text(f"{entry['name']}: {change}", "changed", banner=True)


def _list(names: Sequence[str], *, as_json: bool) -> None:
    """Every claim with its sentence and the verdict that was recorded; nothing is measured."""
    from equipoise.claims.ledger import listing
    from equipoise.present.claims import recorded_table

    rows = listing(names)
    if as_json:
        answer({"claims": rows})
    else:
        show(recorded_table(rows))
