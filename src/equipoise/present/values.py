"""What a page is made of, as plain values: figures (`figures`), tables, key numbers and the words around them.

A page of a verb builds these values from a document. The renderers (`html`, `echarts`, `paper`, `terminal`, `markdown`)
draw them. Nothing here imports a renderer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from equipoise.document import Document, Row
from equipoise.present.figures import Drawing, Figure, Look, Named

Justify = Literal["left", "right"]
Tone = Literal["", "good", "bad", "warn", "blue", "soft"]


@dataclass(frozen=True)
class Column:
    """A column of a table. In a narrow terminal those with the largest `drop` leave first; 0 stays."""

    name: str
    justify: Justify = "right"
    drop: int = 0
    wrap: bool = False  # its words may be broken over lines; numbers never are
    of: Callable[[Row], str | Cell] | None = field(default=None, repr=False)  # what it says of a row (`Table.of`)

    def cell(self, row: Row) -> str | Cell:
        """What it says of a row."""
        if self.of is None:
            raise TypeError(f"Table.of needs what column {self.name!r} says of a row: give it Column(..., of=...)")
        return self.of(row)


@dataclass(frozen=True)
class Cell:
    """What stands in one field, where it is more than a text."""

    text: str
    below: str = ""  # smaller, under it
    tone: Tone = ""
    link: str = ""
    look: Look | None = None  # a swatch before the text
    best: bool = False  # the best of its column
    faint: bool = False


def cell_text(cell: str | Cell, between: str = "\n") -> str:
    """What a field says, and what stands below it."""
    return cell if isinstance(cell, str) else between.join(filter(None, (cell.text, cell.below)))


Cells = Sequence[str | Cell]


@dataclass(frozen=True)
class Table(Named):
    """Rows under columns; the first column names the row."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Cells]
    note: str = ""
    key: str = ""
    sections: Sequence[int] = ()  # rows before which the terminal draws a line
    split: bool = False  # columns that do not fit stand in another table below, under the same first column

    @classmethod
    def of(
        cls, title: str, rows: Iterable[Row], columns: Iterable[Column | bool], note: str = "", key: str = ""
    ) -> Table:
        """A row of the table for each of these, as each column's `of` says it; False among the columns is passed over."""
        shown = [column for column in columns if isinstance(column, Column)]
        return cls(title, shown, [[column.cell(row) for column in shown] for row in rows], note, key)

    def text(self) -> str:
        """Plain text: the title, columns that line up, and the note."""
        lines = [
            [column.name for column in self.columns],
            *([cell_text(cell, " ") for cell in row] for row in self.rows),
        ]
        sides = ["<" if column.justify == "left" else ">" for column in self.columns]
        form = [f"{side}{max(len(line[k]) for line in lines)}" for k, side in enumerate(sides)]
        body = ["  ".join(map(format, line, form)).rstrip() for line in lines]
        return "\n".join(filter(None, (self.title, *body, self.note)))

    @property
    def marked(self) -> bool:
        """Whether rows begin with a swatch."""
        return any(isinstance(cell, Cell) and cell.look is not None for row in self.rows for cell in row[:1])


@dataclass(frozen=True)
class KeyNumber:
    """A number worth a tile: what, how much, and a note."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class KeyNumbers:
    """Tiles side by side; in the terminal a line for each."""

    numbers: Sequence[KeyNumber]


@dataclass(frozen=True)
class Text:
    """A paragraph. As a `banner` it warns, `strong` words first; `soft` is fainter and smaller."""

    words: str
    strong: str = ""
    banner: bool = False
    soft: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Facts:
    """What is known, by name."""

    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Code:
    """Text as a program wrote it."""

    words: str
    label: str = ""


@dataclass(frozen=True)
class Legend:
    """Buttons that hide and show a name in all charts (but those of widgets that say otherwise)."""

    looks: Sequence[Look]
    words: str = "One colour and marker per policy in all charts; press one to hide it, again to show it."
    label: str = "policies in the charts"
    bound: str = ""  # the name of a dotted line in ink, if there is one
    lines: bool = True  # swatches are lines with markers; else blocks of colour


@dataclass(frozen=True)
class Fold:
    """Blocks under a line that opens and closes them."""

    words: str
    blocks: Sequence[Block]
    open: bool = False


@dataclass(frozen=True)
class Section(Named):
    """Blocks in one panel under a heading; `tone` colours its edge."""

    title: str
    blocks: Sequence[Block]
    key: str = ""
    tone: Tone = ""
    mark: str = ""  # a word after the title, in the tone


@dataclass(frozen=True)
class Chapter:
    """A heading between panels, and a sentence."""

    title: str
    words: str = ""


@dataclass(frozen=True)
class Choice:
    """A list to choose from; the widget's script finds it by its key."""

    key: str
    label: str
    options: Sequence[str]
    chosen: int = 0


@dataclass(frozen=True)
class Controls:
    """A panel with lists to choose from and a sentence (class "story") that the widget's script may change."""

    title: str
    choices: Sequence[Choice]
    story: str = ""
    caption: str = ""
    wide: bool = True


Picture = Figure | Drawing | Controls


@dataclass(frozen=True)
class Widget:
    """Pictures that react to the reader: the script templates/<name>.js, its data, and what it draws in.

    The script reads its data from the element with the id "<name>-data" and gets the charts by their keys from the
    event "charts" (see templates/charts.js). It is in the page once, however many widgets of this name there are.
    """

    name: str
    data: object  # plain values, compact
    blocks: Sequence[Picture] = ()


Words = Text | Bullets | Facts | Code | Legend | Chapter
Block = Picture | Widget | Table | KeyNumbers | Words | Fold | Section


@dataclass(frozen=True)
class Page:
    """A document as a reader meets it."""

    document: Document
    title: str
    blocks: Sequence[Block]
    beside: Mapping[str, str]  # files next to it that only this verb has, each with what it holds
    note: str = ""  # in the footer: "the run took 3 s"
    certificate_last: bool = False  # else it stands first, after the banners
