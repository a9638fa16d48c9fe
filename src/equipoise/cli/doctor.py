"""equipoise doctor: what works on this machine, measured, and what is missing for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from equipoise import __version__
from equipoise.cli.service_options import Json, answer, verb

if TYPE_CHECKING:
    from rich.table import Table

    from equipoise.engine.doctor import Examination

app = verb()


@app.command()
def doctor(
    quick: Annotated[bool, typer.Option("--quick", help="Half a second for each share instead of two.")] = False,
    json: Json = False,
) -> None:
    """Hold a busy process (two threads and a child) in every way this machine allows, and print asked and got.

    Exit 0 fine, 1 when nothing here can hold a process.
    """
    from equipoise.cli.progress import metered
    from equipoise.engine.doctor import QUICK_SECONDS, SECONDS, examine

    with metered("measuring", "share", None, quiet=json) as meter:
        found = examine(
            QUICK_SECONDS if quick else SECONDS, lambda done, total, doing: meter.show(done, total, note=doing)
        )
    if json:
        answer({"verb": "doctor", "version": __version__, "config": {"quick": quick}, "result": found.as_dict()})
    else:
        _print(found)
    raise typer.Exit(0 if found.holds else 1)


def _print(found: Examination) -> None:
    from rich.console import Console

    from equipoise.present.terminal import key_numbers

    here = found.machine
    quota = "" if here.quota is None else f", of which a quota allows this process {here.quota:g}"
    usable = "" if here.usable_cores == here.cores else f", {here.usable_cores} of them for this process"
    numbers = {
        "cores": f"{here.cores}{usable}{quota}",
        "processor": here.model,
        "memory": f"{here.memory_gib:.1f} GiB",
        "cgroup": here.cgroup,
        "load": f"{here.load:.2f} processes wanted a core in the last minute",
    } | {name: version or "not installed" for name, version in found.extras.items()}
    console = Console(highlight=False)
    console.print(key_numbers(numbers))
    console.print(_table(found))
    picks = (
        "nothing here can hold a process to a share" if not found.holds else f"picked where none is named: {found.best}"
    )
    console.print(picks)


def _table(found: Examination) -> Table:
    """A row for every kind: does it work, what it gave, what it lacks."""
    from rich.table import Table

    from equipoise.engine.doctor import SHARES

    table = Table(title="holding a process to its CPU: cores asked and got", title_justify="left", title_style="bold")
    table.add_column("kind", no_wrap=True)
    table.add_column("works", no_wrap=True)
    for share in SHARES:
        table.add_column(f"{share:.2f}", justify="right", no_wrap=True)
    table.add_column("guardian", justify="right")
    table.add_column("note")
    for kind in found.kinds:
        got = [f"{row.got:.3f}" for row in kind.measured] or ["-"] * len(SHARES)
        cost = f"{max(row.guardian for row in kind.measured):.3f}" if kind.measured else "-"
        works = "[green]yes[/]" if kind.works else "[yellow]no[/]"
        table.add_row(kind.name, works, *(got + ["-"] * len(SHARES))[: len(SHARES)], cost, kind.note)
    return table
