"""Figures as plain values, for pages and papers, and the looks in them: how a policy, placer or rival is drawn everywhere.

Colours are written as "#rrggbb" or as a name of style.css with an "@" before it ("@blue", "@teal", "@amber", "@violet",
"@grey", "@ink", "@soft", "@good", "@bad", "@warn", "@edge"), which knows light from dark paper.
"""

import colorsys
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError

Numbers = Sequence[float] | Sequence[float | None] | NDArray[np.float64] | NDArray[np.int64]
Kind = Literal["line", "step", "dots", "bars", "area"]
Dash = Literal["solid", "dashed", "dotted"]
Form = Literal["", "short", "power", "bits", "percent"]

# Hues of neighbouring bands differ; all are of middle lightness, so that they read on white and on black.
HUES = ("#3b6fb6", "#2f9e98", "#7fae5b", "#d9b44a", "#d9814a", "#bf5b74", "#8a68b5")
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


def bare(marker: str) -> str:
    """A marker's name without its "empty"."""
    name = marker.removeprefix("empty")
    return name[:1].lower() + name[1:]


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
        return bare(self.marker)

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
        light, dark = (readable(colour, paper) for paper in (LIGHT_PAPER, DARK_PAPER))
        marker, dashed = markers.get(name) or shapes[k % len(shapes)], own.get("line") == "dashed"
        found[name] = Look(own.get("label") or name, light, dark, marker, dashed, colours.get(name, ""), name)
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


def hues(amount: int) -> list[str]:
    """A colour for each of so many bands, in a walk through all hues."""
    if amount <= len(HUES):
        return list(HUES[:amount])
    anchors = np.array([[int(h[k : k + 2], 16) for k in (1, 3, 5)] for h in HUES], dtype=float)
    places = np.linspace(0, len(HUES) - 1, amount)
    mixed = np.column_stack([np.interp(places, range(len(HUES)), anchors[:, k]) for k in range(3)])
    return ["#{:02x}{:02x}{:02x}".format(*map(round, row)) for row in mixed.tolist()]


# Figures.


class Named:
    """What stands in a page under a title, and is found there by a name of its own."""

    title: str
    key: str  # "": made from the title

    @property
    def name(self) -> str:
        """Its name in the page, fit for the id of an element."""
        return self.key or re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") or "part"


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
    """Panels for a paper, with one legend below all of them. On a wide page two stand side by side."""

    panels: Sequence[Panel]
    legend: bool = True


def chosen(panels: Sequence[str] | str | None, known: Sequence[str], default: Sequence[str]) -> list[str]:
    """The panels asked for, in that order; one nobody knows is refused."""
    asked = list(default) if panels is None else [panels] if isinstance(panels, str) else list(panels)
    for name in asked:
        if name not in known:
            raise InputError(f"no panel {name!r} here; there are {', '.join(known)}", code="unknown")
    if not asked:
        raise InputError(f"no panels asked for; there are {', '.join(known)}")
    return asked


def thinned(amount: int, most: int) -> NDArray[np.int64]:
    """Indices of at most `most` of so many rows, evenly spread, the first and the last among them."""
    if amount <= most:
        return np.arange(amount)
    return np.unique(np.linspace(0, amount - 1, most).round().astype(np.int64))
