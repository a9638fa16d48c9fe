"""Looks: the one place where the colour and marker of a policy, placer or rival become something that can be drawn."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

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


def hues(amount: int) -> list[str]:
    """A colour for each of so many bands, in a walk through all hues."""
    if amount <= len(HUES):
        return list(HUES[:amount])
    anchors = np.array([[int(h[k : k + 2], 16) for k in (1, 3, 5)] for h in HUES], dtype=float)
    places = np.linspace(0, len(HUES) - 1, amount)
    mixed = np.column_stack([np.interp(places, range(len(HUES)), anchors[:, k]) for k in range(3)])
    return ["#{:02x}{:02x}{:02x}".format(*map(round, row)) for row in mixed.tolist()]
