"""What `equipoise reproduce` does: play the claims, write the folder, print the ledger."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from equipoise.certificate import Certificate
from equipoise.claims import Scale
from equipoise.claims.ledger import Entry, chosen, compare, play, recorded
from equipoise.cli.progress import metered
from equipoise.cli.run_folder import document, make_folder, run_folder, to_json, write_config
from equipoise.errors import InputError
from equipoise.present.text import count
from equipoise.report.claims_words import MARKS, TITLES, headline, measured, named, ruled, tally

COLOURS = {"reproduced": "green", "not reproduced": "red", "depends": "yellow", "beyond": "blue"}
MNIST = "mnist-log-against-uniform"
IN_FULL = 4  # so many claims are printed with all their findings; more as a table
COLUMNS = (
    "claim",
    "verb",
    "verdict",
    "about",
    "quantity",
    "when",
    "value",
    "error",
    "unit",
    "low",
    "high",
    "holds",
    "over",
)


class ReproduceConfig(BaseModel):
    """What config.yaml holds."""

    claims: list[str] = []  # names; none: all
    quick: bool = False
    mnist: bool | None = None  # measured on MNIST, not on the digits; unset: where its files are found


def run_reproduce(
    config: ReproduceConfig, *, data_dir: Path | None, out: Path, workers: int | None, as_json: bool
) -> bool:
    """From names to the folder; True when the certificate passes."""
    wanted = chosen(config.claims)
    mnist = None if config.mnist is False and data_dir is None else mnist_folder(data_dir)
    if config.mnist and mnist is None:
        raise InputError("this run was measured on MNIST, which is not found; name its folder with --data-dir")
    quick = config.quick
    names = [claim.name for claim in wanted]
    settings: dict[str, Any] = {"claims": names, "quick": quick}
    if MNIST in names:
        settings["mnist"] = mnist is not None
    if MNIST in names and mnist is None and not as_json:
        print(
            f"MNIST was not found: {MNIST} is measured on scikit-learn's digits; name its folder with --data-dir",
            file=sys.stderr,
        )
    folder = run_folder(out, "reproduce", settings)
    make_folder(folder)
    with metered("measuring", "claim", len(wanted), quiet=as_json) as meter:
        played = play(
            wanted,
            Scale(quick=quick, mnist=mnist),
            workers=workers,
            progress=lambda done, total, name: meter.show(done, total, note=name),
        )
    entries, certificate = compare(played, quick=quick)
    content = document("reproduce", settings, {"claims": entries}, certificate)
    _write(folder, content)
    if as_json:
        print(to_json(content))
    else:
        _print(entries, certificate, folder / "report.html")
    return certificate.passed


def mnist_folder(given: Path | None) -> Path | None:
    """Where the MNIST files lie, if they do."""
    if given is not None:
        if not given.is_dir():
            raise InputError(f"--data-dir {given} is no folder; name the one that holds the four MNIST files")
        return given
    named_by = os.environ.get("EQUIPOISE_DATA")
    found = Path(named_by) / "mnist" if named_by else None
    return found if found is not None and found.is_dir() else None


def _write(folder: Path, content: dict[str, Any]) -> None:
    from equipoise.report.claims import claims_page

    write_config(folder, content["config"])
    (folder / "result.json").write_text(to_json(content) + "\n", encoding="utf-8")
    (folder / "report.html").write_text(claims_page(content), encoding="utf-8")
    with (folder / "history.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for entry in content["result"]["claims"]:
            for finding in entry["findings"]:
                common = {"claim": entry["name"], "verb": entry["verb"], "verdict": entry["verdict"]}
                writer.writerow(common | {key: finding[key] for key in COLUMNS if key in finding})


def _print(entries: list[Entry], certificate: Certificate, page: Path) -> None:
    from equipoise.present.terminal import certificate_table

    console = Console(highlight=False)
    console.print(f"[bold]{count(len(entries), 'claim')}: {tally(entries)}[/]")
    if len(entries) <= IN_FULL:
        for entry in entries:
            _print_claim(console, entry)
    else:
        console.print(ledger_table(entries))
        console.print(
            "[dim]equipoise reproduce CLAIM says on what its verdict depends, with every finding; so does the page[/]"
        )
    for entry in entries:
        for change in entry["changed"] or ():
            console.print(f"[bold red]changed[/] {entry['name']}: {escape(change)}")
    console.print(certificate_table(certificate))
    console.print(str(page), soft_wrap=True)


def ledger_table(entries: Sequence[Entry]) -> Table:
    """A row for every claim: its verdict, and the first thing that was measured."""
    table = Table(show_edge=False, pad_edge=False)
    for head in ("claim", "verdict"):
        table.add_column(head, no_wrap=True)
    table.add_column("measured", overflow="fold")
    for verb, title in TITLES.items():
        chapter = [entry for entry in entries if entry["verb"] == verb]
        if chapter:
            table.add_section()
            table.add_row(f"[bold]{title}[/]", "", "")
        for entry in chapter:
            table.add_row(f"  {entry['name']}", _word(entry), escape(headline(entry)))
    return table


def _word(entry: Entry) -> str:
    return f"[{COLOURS[entry['verdict']]}]{entry['verdict']}[/]"


def _print_claim(console: Console, entry: Entry) -> None:
    colour = COLOURS[entry["verdict"]]
    console.print(f"\n[bold]{entry['name']}[/]: [{colour}]{escape(ruled(entry))}[/]")
    console.print(escape(entry["sentence"]))
    console.print(
        f"[dim]{escape(entry['source'])}{escape('. Not read: ' + entry['unread']) if entry['unread'] else ''}[/]"
    )
    console.print(escape(entry["protocol"]))
    table = Table(show_edge=False, pad_edge=False)
    for head in ("measured", "value", "must be", "so it", "judged"):
        table.add_column(head, overflow="fold")
    for finding in entry["findings"]:
        shade = {True: "green", False: "red", None: "yellow"}[finding["holds"]]
        mark = f"[{shade}]{MARKS[finding['holds']]}[/]"
        table.add_row(escape(named(finding)), measured(finding), finding["bound"], mark, finding["about"])
    console.print(table)
    for note in entry["notes"]:
        console.print(f"[dim]{escape(note)}[/]")


def run_list(names: Sequence[str], *, as_json: bool) -> None:
    """Every claim with its sentence, its source, and the verdict that was recorded."""
    before = recorded(quick=False)
    rows = [
        {
            "name": claim.name,
            "verb": claim.verb,
            "sentence": claim.sentence,
            "source": claim.source,
            "recorded": before[claim.name]["verdict"] if claim.name in before else None,
        }
        for claim in chosen(names)
    ]
    if as_json:
        print(to_json({"claims": rows}))
        return
    table = Table(show_edge=False, pad_edge=False)
    for head in ("claim", "recorded", "sentence"):
        table.add_column(head, overflow="fold")
    for row in rows:
        word = row["recorded"]
        table.add_row(row["name"], f"[{COLOURS[word]}]{word}[/]" if word else "-", escape(str(row["sentence"])))
    Console(highlight=False).print(table)
