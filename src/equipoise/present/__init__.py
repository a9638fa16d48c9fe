"""Results as a reader meets them: one HTML page, a figure for a paper, tables in the terminal.

How to write the page of a verb. `present/<verb>.py` has `page(document) -> Page`; if the verb is to be drawn for papers
too (`result.plot()`), also `sheet(document, **choices) -> Sheet`. Both read plain values of the document only (its
`result`, `config`, `rows("table")`, `arrays`, `looks`); no file here imports a verb. Then add the verb to `PAGES` (and
`SHEETS`) below. For example:

    from equipoise.document import Document, rows_of
    from equipoise.present.figures import Axis, Figure, Series, looks
    from equipoise.present.text import number, outcome
    from equipoise.present.values import Cell, Column, KeyNumber, KeyNumbers, Page, Table

    def page(document: Document) -> Page:
        rows = document.rows("rows")
        looked = looks([row["policy"] for row in rows], document.looks)
        columns = [
            Column("policy", "left", of=lambda row: Cell(row["policy"], look=looked[row["policy"]])),
            Column("success, %", of=lambda row: number(row["success"])),
            Column("energy", drop=1, of=lambda row: number(row["energy"])),  # leaves first where there is no room
        ]
        table = Table.of("Policies", rows, columns, note="Means over seeds.")
        lines = []
        for name, look in looked.items():
            own = rows_of(document, "rows", policy=name)
            lines.append(Series(look.name, [row["load"] for row in own], [row["success"] for row in own], look=look))
        x, y = Axis("tasks", point="{value} tasks"), Axis("% of tasks", low=0, high=100)
        figure = Figure("Tasks finished in time", x, y, lines, caption="Higher is better.", key="success")
        tiles = KeyNumbers([KeyNumber("most finished", f"{number(max(row['success'] for row in rows))} %")])
        title = f"Policies side by side{outcome(document)}"
        return Page(document, title, [tiles, figure, table], beside={}, certificate_last=True)

claims.py is the shortest page, share.py has all: looks of policies, key numbers, tables for the page and the terminal,
figures for the page and the paper.

Figures that follow each other share rows, two in each. `Section`, `Fold`, `Text`, `Bullets`, `Facts`, `Legend` and
`Chapter` arrange the rest (values.py); `Drawing` takes a raw ECharts option (`echarts.frame`, `x_axis`, ... help), and
`Widget("timeline", data, [Controls(...), Drawing(...)])` adds the script templates/timeline.js, which reads its data
from "#timeline-data" and the charts from the event "charts". Numbers become words in `text` only. In the terminal:
`terminal.show(console, table, KeyNumbers(...), certificate)`; a table never cuts a number, columns drop instead.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from equipoise.document import Document
from equipoise.errors import InputError
from equipoise.present.values import Page

if TYPE_CHECKING:
    from equipoise.present.paper import PaperFigure

__all__ = ["draw", "page", "report"]

# Verb of a document: the file here that has its page.
PAGES = {"place": "place", "reproduce": "claims", "share": "share", "share execute": "execution"}
PAGES |= {"train": "train", "train compare": "train_compare"}
# ... that draws it for a paper.
SHEETS = {"share": "share", "share run": "task_lives"}
SHEETS |= {"train": "train", "train compare": "train_compare"}
SHEETS |= dict.fromkeys(("place", "place run", "place sweep"), "place_figures")


def page(document: Document) -> Page:
    """The page of a document, by its verb."""
    found: Page = _module(document.verb, PAGES, "page").page(document)
    return found


def report(document: Document) -> str:
    """The page of a document as one HTML file that needs nothing else."""
    from equipoise.present.html import html_of

    return html_of(page(document))


def draw(document: Document, *, width: str | float = "column", **choices: Any) -> PaperFigure:
    """The figure of a document for a paper.

    Parameters
    ----------
    document
        A result in plain values, as `equipoise.load` gives it.
    width
        "column" (3.5 inches), "page" (7.16) or a number of inches.
    choices
        What to draw; docs/interop.md lists the choices of each verb.
    """
    try:
        from equipoise.present.paper import draw_sheet
    except ImportError:
        needs = "a figure needs matplotlib, which is not installed: pip install 'equipoise[plots]'"
        raise InputError(needs) from None
    sheet = _module(document.verb, SHEETS, "figure").sheet
    known = sheet.__code__.co_varnames[1 : sheet.__code__.co_argcount + sheet.__code__.co_kwonlyargcount]
    for name in choices:
        if name not in known:
            able = ", ".join(["width", *known])
            raise InputError(
                f"plot of {document.verb!r} has no choice {name!r}; it has {able} (see docs/interop.md)",
                code="figure.choice",
            )
    return draw_sheet(sheet(document, **choices), width)


def _module(verb: str, known: dict[str, str], what: str) -> ModuleType:
    if verb not in known:
        given = f"a result of {verb!r}" if verb else "a bare CSV table"
        raise InputError(
            f"no {what} is known for {given}; there are {what}s for {', '.join(known)}", code="document.verb"
        )
    return import_module(f"equipoise.present.{known[verb]}")
