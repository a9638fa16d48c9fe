"""Figures for papers, by matplotlib: widths of papers, 8 point text, thin lines, legends that cover nothing.

The only file that imports matplotlib. Nothing here touches pyplot or matplotlib's settings: a figure is an object that
can be changed, shown and saved.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from equipoise.errors import InputError
from equipoise.present.figures import Figure as FigureValue, Mark, Numbers, Panel, Series, Sheet, Span, bare

WIDTHS = {"column": 3.5, "page": 7.16}  # inches: one and both columns of IEEE's and ACM's two-column pages
TEXT, SMALL = 8.0, 7.0  # points
INK, RULE, FAINT = "#222222", "#666666", "#d8d8d8"
# Okabe and Ito's colours, which the colour-blind tell apart; yellow left out, too faint for lines.
BLUE, ORANGE, GREEN, RED, SKY, PINK = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7"
SPARE = (BLUE, ORANGE, GREEN, RED, SKY, PINK, "#222222")
# The pages' marker names in matplotlib's; "empty" before one draws the outline only.
MARKERS = {"circle": "o", "rect": "s", "triangle": "^", "diamond": "D", "roundRect": "p", "pin": "v", "arrow": "P"}
MARKERS |= {"bar": "|", "cross": "x"}  # on paper only
# Colours of style.css on white paper.
NAMED = {"@blue": BLUE, "@teal": GREEN, "@amber": ORANGE, "@violet": PINK, "@grey": "#7b8694", "@edge": FAINT}
NAMED |= {"@ink": INK, "@soft": RULE, "@good": GREEN, "@bad": RED, "@warn": ORANGE}
DASHES = {"solid": "-", "dashed": "--", "dotted": ":"}
MARKED = 10  # markers on a line
FEW_DECADES = 100.0  # largest over smallest value below which an axis has labels between its decades
SAVING = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none"}  # text stays text; no Type 3 fonts


class PaperFigure(Figure):
    """A matplotlib Figure that shows itself in a notebook and is saved with fonts that publishers take."""

    def savefig(self, fname: Any, **options: Any) -> None:
        """As matplotlib's; bitmaps have 300 dots an inch unless told otherwise."""
        with matplotlib.rc_context(SAVING):
            super().savefig(fname, **({"dpi": 300} | options))

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        super().savefig(buffer, format="png", dpi=150)
        return buffer.getvalue()


def _inches(width: str | float) -> float:
    if isinstance(width, str) and width in WIDTHS:
        return WIDTHS[width]
    if isinstance(width, int | float) and not isinstance(width, bool) and 1.5 <= width <= 40:
        return float(width)
    raise InputError(
        f'width is {width!r}; expected "column" (3.5 inches), "page" (7.16) or inches from 1.5 to 40',
        code="figure.width",
    )


def _calm(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_linewidth(0.6)
        axes.spines[side].set_color(RULE)
    axes.tick_params(which="both", labelsize=TEXT, width=0.6, color=RULE, labelcolor=INK, length=3)
    axes.tick_params(which="minor", length=1.5)
    axes.xaxis.offsetText.set_fontsize(TEXT)
    axes.yaxis.offsetText.set_fontsize(TEXT)
    axes.grid(True, color=FAINT, linewidth=0.4)
    axes.set_axisbelow(True)


def key_above(axes: Any) -> None:
    """The legend of one panel above it, at the right end of the title's line."""
    handles, labels = axes.get_legend_handles_labels()
    place = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": 3}
    room = {"borderaxespad": 0.0, "borderpad": 0.15, "handlelength": 1.5, "columnspacing": 0.9, "handletextpad": 0.4}
    axes.legend(handles, labels, fontsize=SMALL, frameon=False, labelcolor=INK, **place, **room)


def log_y(axes: Any, values: Sequence[float]) -> None:
    """A logarithmic axis around these positive values: whole decades, or labels at 1, 2 and 5 where there are few."""
    axes.set_yscale("log")
    axes.yaxis.set_minor_formatter(NullFormatter())
    low, high = min(values), max(values)
    if high < FEW_DECADES * low:
        axes.set_ylim(0.8 * low, 1.25 * high)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        return
    low, high = 10.0 ** np.floor(np.log10(low) + 1e-9), 10.0 ** np.ceil(np.log10(high) - 1e-9)
    decades = round(np.log10(high / low))
    axes.set_ylim(low, 10.0 ** (0.02 * decades) * high)
    axes.yaxis.set_major_locator(LogLocator(base=10.0 ** max(1, -(-decades // 6)), numticks=20))
    if decades > 6:
        axes.yaxis.set_minor_locator(LogLocator(base=10.0, numticks=40))


def legend_below(figure: PaperFigure, handles: Sequence[Any]) -> None:
    """One legend for all panels under them, where it can cover no data; the figure grows by its height."""
    if not handles:
        return
    longest = max(len(handle.get_label()) for handle in handles)
    columns = min(len(handles), max(1, int((figure.get_figwidth() - 0.1) / (0.42 + 0.065 * longest))))
    place = {"loc": "outside lower center", "ncols": columns, "borderaxespad": 0.2}
    room = {"handlelength": 1.8, "columnspacing": 1.2, "handletextpad": 0.5, "labelspacing": 0.3}
    figure.legend(handles=list(handles), fontsize=TEXT, frameon=False, labelcolor=INK, **place, **room)
    figure.set_figheight(figure.get_figheight() + 0.1 + 0.145 * -(-len(handles) // columns))


def draw_sheet(sheet: Sheet, width: str | float) -> PaperFigure:
    """Panels beside or below each other, lettered, with one legend below all of them."""
    panels, stacked = sheet.panels, any(panel.below for panel in sheet.panels)
    figure, axes = _blank(sheet, _inches(width), stacked)
    colours = _colours(panels)
    for k, (panel, one) in enumerate(zip(panels, axes, strict=True)):
        _panel(one, panel, colours)
        title = panel.figure.title if stacked or len(panels) == 1 else f"({chr(97 + k)}) {panel.figure.title}".rstrip()
        one.set_title(title, fontsize=TEXT, color=INK, loc="left", pad=4)
        if panel.below and k:
            axes[k - 1].tick_params(labelbottom=False)
            axes[k - 1].set_xlabel("")
    if sheet.legend:
        legend_below(figure, _handles(panels, colours))
    return figure


def _blank(sheet: Sheet, wide: float, stacked: bool) -> tuple[PaperFigure, list[Any]]:
    """Empty panels: two in a row on a page, else below each other; stacked ones have one x axis."""
    heights = [panel.height for panel in sheet.panels]
    columns = min(len(heights), 2 if wide > 1.5 * WIDTHS["column"] and not stacked else 1)
    rows = -(-len(heights) // columns)
    tall = sum(heights) if stacked else rows * max(heights)
    figure = PaperFigure(figsize=(wide, tall), layout="constrained", facecolor="white")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.03, h_pad=0.03, wspace=0.04, hspace=0.04)
    grid = figure.add_gridspec(rows, columns, height_ratios=heights if stacked else None)
    axes: list[Any] = []
    for k in range(len(heights)):
        axes.append(figure.add_subplot(grid[divmod(k, columns)], sharex=axes[0] if stacked and axes else None))
        _calm(axes[-1])
    return figure, axes


def _colours(panels: Sequence[Panel]) -> dict[str, str]:
    """The colour of every name on the sheet: its look's or its own, else one that nobody here has."""
    found: dict[str, str] = {}
    everything = [series for panel in panels for series in panel.figure.series]
    for series in everything:
        given = series.look.own or series.look.light if series.look else _shade(series.colour)
        if given:
            found[series.name] = given
    spare = [colour for colour in SPARE if colour not in found.values()] or list(SPARE)
    names = list(dict.fromkeys(series.name for series in everything))
    return {name: found.get(name) or spare[k % len(spare)] for k, name in enumerate(names)}


def _shade(colour: str) -> str:
    """A colour of the page on white paper: of a pair the first, of a name ours."""
    return colour[1:8] if colour.startswith("@#") else NAMED.get(colour, colour)


def _style(series: Series, colour: str) -> dict[str, Any]:
    """How a line of a series is drawn."""
    style: dict[str, Any] = {"color": colour, "linewidth": 0.55 * series.width, "linestyle": DASHES[series.dash]}
    look = series.look
    if look is not None and look.dashed:
        style["linestyle"] = "--"
    marker = series.marker or (look.marker if look is not None else "")
    if series.kind == "dots" or (marker and marker != "none" and series.kind == "line"):
        style |= {"marker": MARKERS.get(bare(marker), "o"), "markersize": 3.4, "markeredgewidth": 0.8}
        style |= {"markeredgecolor": colour, "markerfacecolor": "white" if marker.startswith("empty") else colour}
    if series.kind == "dots":
        style["linestyle"] = "none"
    return style


def _panel(axes: Any, panel: Panel, colours: Mapping[str, str]) -> None:
    figure = panel.figure
    if panel.spans:
        _spans(axes, panel.spans, 0.25 if panel.figure.y.groups else 0.0)
    for series in figure.series:
        if series.strip:
            continue  # a paper has room for the main panel only
        if series.kind == "bars":
            _draw_bars(axes, figure, series, colours[series.name])
        else:
            _draw_line(axes, series, colours[series.name])
    for mark in figure.marks:
        _rule(axes, mark)
    for place, words in enumerate(panel.texts):
        _beside(axes, figure, place, words)
    _limits(axes, figure)
    axes.set_xlabel(figure.x.name, fontsize=TEXT, color=INK, labelpad=2)
    axes.set_ylabel("" if figure.y.groups else figure.y.name, fontsize=TEXT, color=INK, labelpad=3)
    if figure.legend:
        key_above(axes)


def _floats(values: Numbers) -> Any:
    return np.array([np.nan if value is None else float(value) for value in values])


def _draw_line(axes: Any, series: Series, colour: str) -> None:
    x, y, style = _floats(series.x), _floats(series.y), _style(series, colour)
    if series.kind == "step":
        axes.step(x, y, where="post", label=series.name, **style)
    else:
        axes.plot(x, y, label=series.name, markevery=max(1, len(x) // MARKED) if len(x) > 4 * MARKED else 1, **style)
    if series.kind == "area":
        axes.fill_between(x, 0, y, color=colour, alpha=0.2, linewidth=0)
    edges = series.band
    if series.error is not None and series.kind != "dots":
        error = _floats(series.error)
        edges = (y - error, y + error)
    if edges is not None:
        axes.fill_between(x, _floats(edges[0]), _floats(edges[1]), color=colour, alpha=0.18, linewidth=0)
    if series.error is not None and series.kind == "dots":
        axes.errorbar(x, y, yerr=_floats(series.error), fmt="none", ecolor=colour, elinewidth=0.8, capsize=1.8)


def _draw_bars(axes: Any, figure: FigureValue, series: Series, colour: str) -> None:
    """Beside each other where several series have bars at one place."""
    lying = bool(figure.y.groups)
    if series.band is not None:  # a box behind the other bars
        low, high = (_floats(edge) for edge in series.band)
        axes.bar(_floats(series.x), high - low, 0.82, low, color=colour, linewidth=0, label=series.name, zorder=0.5)
        return
    together = [one.name for one in figure.series if one.kind == "bars" and not one.stack and one.band is None]
    thick = 0.66 / max(1, len(together))
    shift = (together.index(series.name) - (len(together) - 1) / 2) * thick if series.name in together else 0.0
    places, lengths = (_floats(series.y), _floats(series.x)) if lying else (_floats(series.x), _floats(series.y))
    error = None if series.error is None or not np.nan_to_num(_floats(series.error)).any() else _floats(series.error)
    shades = [_shade(shade) for shade in series.colours] or colour
    whisker = {"elinewidth": 0.8, "capsize": 1.8, "ecolor": INK}
    look = {"color": shades, "linewidth": 0, "error_kw": whisker, "label": series.name, "alpha": series.opacity}
    if lying:
        axes.barh(places + shift, lengths, height=thick, xerr=error, **look)
    else:
        axes.bar(places + shift, lengths, width=thick, yerr=error, **look)


def _beside(axes: Any, figure: FigureValue, place: int, words: str) -> None:
    """A text at the end of a lying bar."""
    series = next(series for series in figure.series if series.kind == "bars")
    error = 0.0 if series.error is None else float(np.nan_to_num(_floats(series.error)[place]))
    most = float(np.nanmax([*_floats(series.x), *(mark.value for mark in figure.marks)])) or 1.0
    at = float(_floats(series.x)[place]) + error + 0.015 * most
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    axes.text(at, place, words, va="center", fontsize=SMALL, color=INK, bbox=ground)


def _spans(axes: Any, spans: Sequence[Span], edge: float) -> None:
    first, last, lane, bottom, top = np.array([span[:5] for span in spans], dtype=float).T
    look = {"color": [_shade(colour) for *_, colour in spans], "edgecolor": "white", "linewidth": edge, "align": "edge"}
    many = len(spans) > 5000  # as vectors, the file would grow large
    axes.bar(first, top - bottom, last - first, lane + 0.5 - top, rasterized=many, **look)
    axes.grid(False, axis="y")


def _rule(axes: Any, mark: Mark) -> None:
    look = {"color": _shade(mark.colour) or INK, "linewidth": 0.8, "linestyle": DASHES[mark.dash]}
    (axes.axvline if mark.axis == "x" else axes.axhline)(mark.value, zorder=0, label=mark.name or None, **look)


def _limits(axes: Any, figure: FigureValue) -> None:
    """Scales, limits and ticks."""
    x, y = figure.x, figure.y
    if y.groups:
        axes.set_yticks(range(len(y.groups)), y.groups, fontsize=TEXT)
        axes.set_ylim(len(y.groups) - 0.4, -0.6)
        axes.grid(False, axis="y")
        if x.low is None and x.zero:
            axes.set_xlim(left=0)
    elif y.log:
        drawn = [v for series in figure.series for v in _floats(series.y) if np.isfinite(v) and v > 0]
        log_y(axes, drawn or [1.0])
    elif y.low is None and y.zero and figure.series:
        axes.set_ylim(bottom=min(0.0, *(float(np.nanmin(_floats(s.y))) for s in figure.series if len(s.y))))
    if x.groups:
        axes.set_xticks(range(len(x.groups)), x.groups, fontsize=TEXT)
        axes.grid(False, axis="x")
    elif x.log:
        axes.set_xscale("log")
    elif x.whole:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
    if x.ticks:
        axes.set_xticks(list(x.ticks), [f"{tick:g}" for tick in x.ticks])
    for axis, setter in ((x, axes.set_xlim), (y, axes.set_ylim)):
        if not axis.groups and (axis.low is not None or axis.high is not None):
            setter(axis.low, axis.high)
    if y.form == "percent":
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}"))


def _handles(panels: Sequence[Panel], colours: Mapping[str, str]) -> list[Any]:
    """Legend entries of all names that have no legend in their own panel."""
    found: dict[str, Any] = {}
    for panel in panels:
        if panel.figure.legend is not None:
            continue
        shown = [series for series in panel.figure.series if series.name and not (series.silent or series.strip)]
        for series in shown if len(shown) > 1 else ():
            if series.name not in found:
                colour = colours[series.name]
                shape = Patch(facecolor=colour, label=series.name) if series.kind == "bars" else None
                found[series.name] = shape or Line2D([], [], label=series.name, **_style(series, colour))
        for mark in panel.figure.marks:
            if mark.name:
                colour, dash = _shade(mark.colour) or INK, DASHES[mark.dash]
                rule = Line2D([], [], linewidth=0.9, label=mark.name, color=colour, linestyle=dash)
                found.setdefault(mark.name, rule)
    return list(found.values())
