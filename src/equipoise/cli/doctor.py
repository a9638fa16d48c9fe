"""equipoise doctor: what works on this machine, measured, and what is missing for the rest."""

from __future__ import annotations

from typing import Annotated

import typer

from equipoise import __version__
from equipoise.cli.options import application
from equipoise.cli.output import answer, metered, show
from equipoise.cli.service import Json

app = application()


@app.command()
def doctor(
    quick: Annotated[bool, typer.Option("--quick", help="Half a second for each share instead of two.")] = False,
    json: Json = False,
) -> None:
    """Hold a busy process (two threads and a child) in every way this machine allows, and print asked and got.

    Exit 0 fine, 1 when nothing here can hold a process.
    """
    from equipoise.engine.doctor import QUICK_SECONDS, SECONDS, examine

    with metered("measuring", "share", None, quiet=json) as meter:
        found = examine(
            QUICK_SECONDS if quick else SECONDS, lambda done, total, doing: meter.show(done, total, note=doing)
        )
    if json:
        answer({"verb": "doctor", "version": __version__, "config": {"quick": quick}, "result": found.as_dict()})
    else:
        show(found.numbers(), found.table())
    raise typer.Exit(0 if found.holds else 1)
