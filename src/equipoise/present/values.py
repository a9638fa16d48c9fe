"""What a page is made of, as plain values: figures, tables, key numbers and the words around them.

A page of a verb builds these values from a document. The renderers (`html`, `echarts`, `paper`, `terminal`, `markdown`)
draw them. Nothing here imports a renderer.

Colours are written as "#rrggbb" or as a name of style.css with an "@" before it ("@blue", "@teal", "@amber", "@violet",
"@grey", "@ink", "@soft", "@good", "@bad", "@warn", "@edge"), which knows light from dark paper.
"""

from __future__ import annotations

import colorsys
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from equipoise.certificate import Certificate

Numbers = Sequence[float] | Sequence[float | None] | NDArray[np.float64] | NDArray[np.int64]
Kind = Literal["line", "step", "dots", "bars", "area"]
Dash = Literal["solid", "dashed", "dotted"]
Form = Literal["", "short", "power", "bits", "percent"]
Justify = Literal["left", "right"]
Tone = Literal["", "good", "bad", "warn", "blue", "soft"]
DIGITS = 6  # significant, of what is drawn: pages and recordings stay small

# Hues of neighbouring bands differ; all are of middle lightness, so that they read on white and on black.
HUES = ("#3b6fb6", "#2f9e98", "#7fae5b", "#d9b44a", "#d9814a", "#bf5b74", "#8a68b5")


# Looks: the one place where the colour and marker of a policy, placer or rival become something that can be drawn.

SHAPES = {  # ECharts' symbols as paths in a box of 16; "empty" before a name draws the outline only
    "circle": "M8 2a6 6 0 1 0 .01 0z",
    "rect": "M2.5 2.5h11v11h-11z",
    "triangle": "M8 2l6.5 11.5h-13z",
    "diamond": "M8 1l6 7-6 7-6-7z",
    "roundRect": "M5 2.5h6a2.5 2.5 0 0 1 2.5 2.5v6a2.5 2.5 0 0 1-2.5 2.5H5A2.5 2.5 0 0 1 2.5 11V5A2.5 2.5 0 0 1 5 2.5z",
    "pin": "M8 15.5C4.5 11 3 8.6 3 6.2a5 5 0 0 1 10 0c0 2.4-1.5 4.8-5 9.3z",
    "arrow": "M8 1.5l5.5 13L8 11l-5.5 3.5z",
}
SPARE_COLOURS = ("#0f766e", "#c026d3", "#4d7c0f", "#2563eb", "#b45309", "#9f1239", "#0369a1", "#6d28d9")
LIGHT_PAPER, DARK_PAPER = "#ffffff", "#191f27"  # --paper of style.css
CONTRAST = {LIGHT_PAPER: 3.0, DARK_PAPER: 4.5}  # at least; WCAG asks 3 of lines, on dark they look thinner


@dataclass(frozen=True)
class Look:
    """How a policy is drawn everywhere. A clairvoyant twin has its policy's colour and dashes."""

    name: str
    light: str
    dark: str
    marker: str
    dashed: bool = False
    own: str = ""  # the colour as its file states it, for white paper; "" where it states none
    key: str = ""  # what the document calls it, where that is not its name

    @property
    def colour(self) -> str:
        """For charts.js, which knows light from dark."""
        return f"@{self.light}|{self.dark}"

    @property
    def plain(self) -> str:
        """The marker's name without its "empty"."""
        name = self.marker.removeprefix("empty")
        return name[0].lower() + name[1:]

    @property
    def shape(self) -> str:
        return SHAPES[self.plain]

    @property
    def hollow(self) -> bool:
        return self.marker.startswith("empty")


def looks(names: Iterable[str], facts: Mapping[str, Mapping[str, str]], *, once: bool = False) -> dict[str, Look]:
    """The look of each name.

    Parameters
    ----------
    names
        The policies, placers or rivals that are drawn, as the document calls them.
    facts
        What each one states of itself (`Document.looks`): colour, marker, label, line ("dashed"). One that states
        nothing gets a colour and a marker that nobody else here has.
    once
        Whether a colour may be used only once: the second one that states it gets a spare one.
    """
    told = {name: facts.get(name, {}) for name in names}
    colours, taken = {}, set()
    for name, own in told.items():
        colour = own.get("colour", "").lower()
        if re.fullmatch(r"#[0-9a-f]{6}", colour) and not (once and colour in taken):
            colours[name] = colour
            taken.add(colour)
    markers = {name: own["marker"] for name, own in told.items() if own.get("marker") in _markers()}
    spare = [colour for colour in SPARE_COLOURS if colour not in taken]
    shapes = [marker for marker in _markers() if marker not in markers.values()] or list(SHAPES)
    found = {}
    for k, (name, own) in enumerate(told.items()):
        colour = colours.get(name) or spare[k % len(spare)]
        found[name] = Look(
            own.get("label") or name,
            readable(colour, LIGHT_PAPER),
            readable(colour, DARK_PAPER),
            markers.get(name) or shapes[k % len(shapes)],
            own.get("line") == "dashed",
            colours.get(name, ""),
            name,
        )
    return found


def _markers() -> list[str]:
    return [*SHAPES, *(f"empty{name[0].upper()}{name[1:]}" for name in SHAPES)]


def readable(colour: str, paper: str) -> str:
    """The colour, lighter on dark paper and never fainter than the contrast that lines need."""
    red, green, blue = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    towards = 0.0 if paper == LIGHT_PAPER else 1.0
    if towards:
        lightness = max(lightness, 1.0 - 0.9 * lightness)  # what was darkest stands out most
    while True:
        shade = _hex(colorsys.hls_to_rgb(hue, lightness, saturation))
        if contrast(shade, paper) >= CONTRAST[paper]:
            return shade
        lightness += 0.05 * (towards - lightness)


def _hex(rgb: tuple[float, float, float]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*(round(255 * part) for part in rgb))


def contrast(one: str, other: str) -> float:
    """WCAG's ratio, 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


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
    size: float = 0  # of the markers, in pixels; 0: as the renderer thinks best
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
class Figure:
    """Series over x and y with the words around them. Without series it is a heading and a sentence."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series] = ()
    marks: Sequence[Mark] = ()
    caption: str = ""  # one or two plain sentences: what to see
    key: str = ""  # its name in the page; "": made from the title
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
    def name(self) -> str:
        """Its name in the page."""
        return self.key or slug(self.title)

    @property
    def words(self) -> str:
        """What it is, for who cannot see it."""
        kinds = {series.kind for series in self.series}
        what = "Bars" if "bars" in kinds else "Dots" if kinds == {"dots"} else "Lines"
        return self.label or f"{what}: {self.y.name} against {self.x.name}"

    def as_dict(self) -> dict[str, object]:
        """Plain values, as a claim's figures stand in result.json; present/claims.py reads them back."""
        return {
            "title": self.title,
            "x": self.x.name,
            "y": self.y.name,
            "series": [_plain_series(series) for series in self.series],
            "caption": self.caption,
            "groups": list(self.x.groups),
            "marks": [
                {"axis": mark.axis, "value": mark.value, "name": mark.name}
                for mark in self.marks
                if math.isfinite(mark.value)
            ],
            "log_x": self.x.log,
            "log_y": self.y.log,
        }


def _plain_series(series: Series) -> dict[str, object]:
    found: dict[str, object] = {"name": series.name}
    grouped = series.kind == "bars"
    if not grouped:
        found["x"] = short_numbers(series.x)
    found |= {"y": short_numbers(series.y), "error": None if series.error is None else short_numbers(series.error)}
    if grouped:
        return found | {"kind": "bars"}
    return found | {"dashed": series.dash != "solid", "dots": series.kind == "dots", "kind": "curve"}


def short_numbers(values: Numbers) -> list[float | None]:
    """To six significant digits; None for what is not a finite number."""
    return [
        float(f"{value:.{DIGITS}g}") if value is not None and math.isfinite(value) else None
        for value in (None if value is None else float(value) for value in values)
    ]


@dataclass(frozen=True)
class Drawing:
    """A picture that no Figure can say: an ECharts option as it is (`echarts.frame` and its neighbours help), with words.

    A widget's script finds it by its key and may fill it in.
    """

    key: str
    title: str
    label: str
    caption: str
    option: Mapping[str, object]
    wide: bool = False
    tall: bool = False

    @property
    def name(self) -> str:
        return self.key

    @property
    def words(self) -> str:
        return self.label


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


Cells = Sequence[str | Cell]


@dataclass(frozen=True)
class Table:
    """Rows under columns; the first column names the row."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Cells]
    note: str = ""
    key: str = ""
    sections: Sequence[int] = ()  # rows before which the terminal draws a line

    @property
    def name(self) -> str:
        return self.key or slug(self.title)

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
class Section:
    """Blocks in one panel under a heading; `tone` colours its edge."""

    title: str
    blocks: Sequence[Block]
    key: str = ""
    tone: Tone = ""
    mark: str = ""  # a word after the title, in the tone

    @property
    def name(self) -> str:
        return self.key or slug(self.title)


@dataclass(frozen=True)
class Chapter:
    """A heading between panels, and a sentence."""

    title: str
    words: str = ""


@dataclass(frozen=True)
class CertificateHere:
    """Where the certificate stands; without it, it stands first."""


Block = (
    Figure
    | Drawing
    | Controls
    | Widget
    | Table
    | KeyNumbers
    | Text
    | Bullets
    | Facts
    | Code
    | Legend
    | Fold
    | Section
    | Chapter
    | CertificateHere
)


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


@dataclass(frozen=True)
class Rectangles:
    """Filled spans in lanes, for a paper: bars of tasks and of machines. Each is (from, to, lane, bottom, top, colour).

    Bottom and top are parts of the lane's height, 0 to 1.
    """

    spans: Sequence[tuple[float, float, float, float, float, str]]


@dataclass(frozen=True)
class Panel:
    """A figure of a sheet, with what only a paper draws: spans in lanes, its height in inches."""

    figure: Figure
    height: float = 1.6
    spans: Rectangles | None = None
    below: bool = False  # shares the axis of the panel above it
    texts: Sequence[str] = ()  # beside each bar


@dataclass(frozen=True)
class Sheet:
    """Panels for a paper, with one legend below all of them. `across` stand side by side on a wide page."""

    panels: Sequence[Panel]
    across: int = 2
    legend: bool = True


def slug(title: str) -> str:
    """Fit for the id of an element."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "part"


def verdict(certificate: Certificate) -> str:
    """The whole certificate in a word: passed, FAILED or incomplete (nothing failed, but a check was not made)."""
    if certificate.passed:
        return "passed"
    return "FAILED" if any(check.passed is False for check in certificate) else "incomplete"


def thinned(amount: int, most: int) -> NDArray[np.int64]:
    """Indices of at most `most` of so many rows, evenly spread, the first and the last among them."""
    if amount <= most:
        return np.arange(amount)
    return np.unique(np.linspace(0, amount - 1, most).round().astype(np.int64))


def hues(amount: int) -> list[str]:
    """A colour for each of so many bands, in a walk through all hues."""
    if amount <= len(HUES):
        return list(HUES[:amount])
    anchors = np.array([[int(h[k : k + 2], 16) for k in (1, 3, 5)] for h in HUES], dtype=float)
    places = np.linspace(0, len(HUES) - 1, amount)
    mixed = np.column_stack([np.interp(places, range(len(HUES)), anchors[:, k]) for k in range(3)])
    return ["#{:02x}{:02x}{:02x}".format(*map(round, row)) for row in mixed.tolist()]


def in_rows(figures: Sequence[Figure | Drawing | Controls]) -> list[Figure | Drawing | Controls]:
    """Two narrow charts share a row; one that would stand alone becomes wide."""
    placed: list[Figure | Drawing | Controls] = []
    alone = False  # whether the last one placed still waits for a neighbour
    for figure in figures:
        if figure.wide and alone:
            placed[-1] = replace(placed[-1], wide=True)
        placed.append(figure)
        alone = not (figure.wide or alone)
    if alone:
        placed[-1] = replace(placed[-1], wide=True)
    return placed
