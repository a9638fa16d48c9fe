"""What a page is made of, as plain values: figures, tables, key numbers and the words around them.

A page of a verb builds these values from a document. The renderers (`html`, `echarts`, `paper`, `terminal`, `markdown`)
draw them. Nothing here imports a renderer.

Colours are written as "#rrggbb" or as a name of style.css with an "@" before it ("@blue", "@teal", "@amber", "@violet",
"@grey", "@ink", "@soft", "@good", "@bad", "@warn", "@edge"), which knows light from dark paper.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from equipoise.certificate import Certificate
from equipoise.document import Document, Row
from equipoise.errors import InputError
from equipoise.present.looks import Look

Numbers = Sequence[float] | Sequence[float | None] | NDArray[np.float64] | NDArray[np.int64]
Kind = Literal["line", "step", "dots", "bars", "area"]
Dash = Literal["solid", "dashed", "dotted"]
Form = Literal["", "short", "power", "bits", "percent"]
Justify = Literal["left", "right"]
Tone = Literal["", "good", "bad", "warn", "blue", "soft"]


class Named:
    """What stands in a page under a title, and is found there by a name of its own."""

    title: str
    key: str  # "": made from the title

    @property
    def name(self) -> str:
        """Its name in the page, fit for the id of an element."""
        return self.key or re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") or "part"


# Figures.


@dataclass(frozen=True)
class Axis:
    """What lies along one side of a figure. With `groups` it has a place for each name, and values are places 0, 1, ..."""

    name: str = ""  # with its unit: "round", "% of tasks"
    log: bool = False
    low: float | None = None  # where it begins; None: from the values
    high: float | None = None
    zero: bool = True  # whether an axis without `low` includes 0
    whole: bool = False  # labels at whole numbers only
    ticks: Sequence[float] = ()  # labels at these values only
    groups: Sequence[str] = ()
    form: Form = ""  # how its numbers are written; "": short, or powers of ten on a logarithmic axis
    point: str = "{value}"  # how a tooltip calls a place on it: "round {value}"


@dataclass(frozen=True)
class Series:
    """Numbers that are drawn as one thing, with one name in the legend. None and NaN are gaps."""

    name: str
    x: Numbers  # places 0, 1, ... where the axis has groups
    y: Numbers
    kind: Kind = "line"
    error: Numbers | None = None  # standard errors: whiskers on a page, a band on paper
    look: Look | None = None  # of a policy: its colour, marker and dashes
    colour: str = ""  # without a look; "": the next hue
    colours: Sequence[str] = ()  # of each bar, where they differ
    dash: Dash = "solid"
    marker: str = ""  # of dots, or on a line: a name of SHAPES; "": the look's, and none without a look
    size: float | tuple[float, float] = 0  # of the markers, in pixels, or width and height; 0: the renderer's choice
    width: float = 2.0  # of the line, in pixels
    opacity: float = 1.0
    stack: str = ""  # series of one stack stand on each other
    band: tuple[Numbers, Numbers] | None = None  # lower and upper edge of a shaded band around the line
    values: bool = False  # write each value on its bar
    tips: Sequence[str] = ()  # a tooltip for each point
    right: bool = False  # measured on the figure's right axis
    strip: bool = False  # drawn in the strip below the figure
    silent: bool = False  # without a tooltip and without an entry in the legend


def bars(name: str, y: Numbers, error: Numbers | None = None) -> Series:
    """A bar for each group of the figure's x axis."""
    return Series(name, range(len(y)), y, "bars", error)


@dataclass(frozen=True)
class Mark:
    """A line across the figure at one value of x or y, with a name on it."""

    axis: Literal["x", "y"]
    value: float
    name: str = ""
    colour: str = ""
    dash: Dash = "dashed"
    end: bool = False  # the name stands at the far end of the line
    width: float = 1.5


@dataclass(frozen=True)
class Figure(Named):
    """Series over x and y with the words around them. Without series it is a heading and a sentence."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series] = ()
    marks: Sequence[Mark] = ()
    caption: str = ""  # one or two plain sentences: what to see
    key: str = ""
    label: str = ""  # for who cannot see it; "": made from the axes
    right: Axis | None = None  # a second upright axis
    strip: Axis | None = None  # the upright axis of a strip below, over the same x
    legend: bool | None = None  # None: where there are several names
    tip: Literal["x", "item"] = "x"  # the tooltip tells all values at an x, or one point
    most: int = 12  # series that a tooltip lists
    wide: bool = False  # a full row of a wide screen
    tall: bool = False
    down: bool = False  # groups of the upright axis count from above

    @property
    def words(self) -> str:
        """What it is, for who cannot see it."""
        kinds = {series.kind for series in self.series}
        what = "Bars" if "bars" in kinds else "Dots" if kinds == {"dots"} else "Lines"
        return self.label or f"{what}: {self.y.name} against {self.x.name}"


@dataclass(frozen=True)
class Drawing(Named):
    """A picture that no Figure can say: an ECharts option as it is (`echarts.frame` and its neighbours help), with words.

    A widget's script finds it by its key and may fill it in.
    """

    key: str
    title: str
    words: str  # for who cannot see it
    caption: str
    option: Mapping[str, object]
    wide: bool = False
    tall: bool = False


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


@dataclass(frozen=True)
class Widget:
    """Pictures that react to the reader: the script templates/<name>.js, its data, and what it draws in.

    The script reads its data from the element with the id "<name>-data" and gets the charts by their keys from the
    event "charts" (see templates/charts.js). It is in the page once, however many widgets of this name there are.
    """

    name: str
    data: object  # plain values, compact
    blocks: Sequence[Controls | Drawing | Figure] = ()


# Tables and words.


@dataclass(frozen=True)
class Column:
    """A column of a table. In a narrow terminal those with the largest `drop` leave first; 0 stays."""

    name: str
    justify: Justify = "right"
    drop: int = 0
    wrap: bool = False  # its words may be broken over lines; numbers never are
    of: Callable[[Row], str | Cell] | None = field(default=None, repr=False)  # what it says of a row (`Table.of`)


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
        return cls(title, shown, [[column.of(row) for column in shown if column.of] for row in rows], note, key)

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
class CertificateHere:
    """Where the certificate stands; without it, it stands first."""


Picture = Figure | Drawing | Controls
Words = Text | Bullets | Facts | Code | Legend | Chapter
Block = Picture | Widget | Table | KeyNumbers | Words | Fold | Section | CertificateHere


@dataclass(frozen=True)
class Page:
    """One result as a reader meets it. `beside` names the files next to it, each with what it holds."""

    title: str
    blocks: Sequence[Block]
    verb: str = ""
    version: str = ""
    certificate: Certificate | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    beside: Mapping[str, str] = field(default_factory=dict)
    note: str = ""  # in the footer: "the run took 3 s"

    @classmethod
    def of(
        cls, document: Document, title: str, blocks: Sequence[Block], beside: Mapping[str, str], note: str = ""
    ) -> Page:
        """The page of a document, with its certificate and its settings; `beside` are the files of this verb only."""
        kept = (document.verb, document.version, document.certificate, document.config)
        files = {"result.json": "holds the result and the certificate"} | dict(beside)
        return cls(title, blocks, *kept, files | {"config.yaml": "repeats the run"}, note)


Span = tuple[float, float, float, float, float, str]  # from, to, lane, bottom and top (0 to 1) in the lane, colour


@dataclass(frozen=True)
class Panel:
    """A figure of a sheet, with what only a paper draws: its height in inches, and filled spans in lanes."""

    figure: Figure
    height: float = 1.6
    spans: Sequence[Span] = ()
    below: bool = False  # shares the axis of the panel above it
    texts: Sequence[str] = ()  # beside each bar


@dataclass(frozen=True)
class Sheet:
    """Panels for a paper, with one legend below all of them. `across` stand side by side on a wide page."""

    panels: Sequence[Panel]
    across: int = 2
    legend: bool = True


def rows_of(document: Document, table: str, **wanted: object) -> list[Row]:
    """Rows of a table that have these values in these columns; none where the document has no such table."""
    rows = document.rows(table) if table in document.names else []
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def chosen(panels: Sequence[str] | str | None, known: Sequence[str], default: Sequence[str]) -> list[str]:
    """The panels asked for, in that order; one nobody knows is refused."""
    asked = list(default) if panels is None else [panels] if isinstance(panels, str) else list(panels)
    for name in asked:
        if name not in known:
            raise InputError(f"no panel {name!r} here; there are {', '.join(known)}")
    if not asked:
        raise InputError(f"no panels asked for; there are {', '.join(known)}")
    return asked


def verdict(certificate: Certificate) -> str:
    """The whole certificate in a word: passed, FAILED or incomplete (nothing failed, but a check was not made)."""
    if certificate.passed:
        return "passed"
    return "FAILED" if any(check.passed is False for check in certificate) else "incomplete"


def outcome(document: Document) -> str:
    """For the end of a page's title: ": certificate passed"."""
    return "" if document.certificate is None else f": certificate {verdict(document.certificate)}"


def thinned(amount: int, most: int) -> NDArray[np.int64]:
    """Indices of at most `most` of so many rows, evenly spread, the first and the last among them."""
    if amount <= most:
        return np.arange(amount)
    return np.unique(np.linspace(0, amount - 1, most).round().astype(np.int64))
