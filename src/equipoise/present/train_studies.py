"""A study of one knob of a comparison: rounds, bits and messages over it, as charts and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.present.looks import Look
from equipoise.present.text import NOTHING, number
from equipoise.present.values import Axis, Cell, Cells, Column, Figure, Mark, Series, Table

Values = dict[str, Any]  # of a result
Looks = dict[str, Look]  # by entrant
OURS = "Ours"
ALPHA_ROUNDS = 1500  # that a run of the alpha study is given
KNOBS = {
    "rho": ("How coarse a code", "rho", "rho: coarseness of the code", ("round", "bits", "distance")),
    "density": ("How dense a network", "degree", "mean number of neighbours", ("round", "bits", "messages")),
    "alpha": ("How large a step", "part", "alpha, in units of |lambda_2|/L", ()),
}
STUDY_COLUMNS = {
    "rho": ("rho", "bits_a_number", "reached", "round", "bits", "distance"),
    "density": ("p", "degree", "reached", "round", "bits", "messages"),
    "alpha": ("alpha", "round", "converged", "slow", "diverged"),
}
COLUMN_WORDS = {
    "bits_a_number": "bits per number",
    "round": "rounds",
    "distance": "distance at the end",
    "p": "edge probability",
    "degree": "neighbours",
    "reached": "seeds that arrive",
    "converged": "seeds converged",
    "slow": "too slow",
}


def study_charts(result: Values, styles: Looks) -> list[Figure]:
    """A panel per measure over the knob."""
    if result["study"] == "alpha":
        return [_alpha_chart(result["rows"])]
    return [_knob_panel(result, styles, column) for column in KNOBS[result["study"]][3]]


def _knob_panel(result: Values, styles: Looks, column: str) -> Figure:
    _, knob, said, _ = KNOBS[result["study"]]
    series, never = [], []
    for name, look in styles.items():
        rows = [row for row in result["rows"] if row["entrant"] == name]
        y = [row[column] for row in rows]
        if all(value is None for value in y):
            never.append(look.name)
        else:
            width = 3.5 if name == OURS else 2.0
            series.append(Series(look.name, [row[knob] for row in rows], y, look=look, width=width))
    at = sorted({row[knob] for row in result["rows"]})
    what = {"round": "Rounds", "bits": "Bits", "messages": "Messages", "distance": "Distance"}[column]
    flat = result["study"] == "rho" and column != "distance"
    missing = f" Never there within the rounds played: {', '.join(never)}." if never else ""
    return Figure(
        "Relative distance at the end" if column == "distance" else f"{what} to a relative distance of 1e-6",
        Axis(said, log=True, low=at[0] / 1.2, high=at[-1] * 1.2, ticks=at, point=f"{knob} {{value}}"),
        Axis(what.lower(), log=not flat, low=0 if flat else None, form="bits" if column == "bits" else ""),
        series,
        caption="Medians over seeds: what a residual is left."
        if column == "distance"
        else f"Medians over seeds; a gap where most seeds do not arrive.{missing}",
        key=column,
        label=f"Lines: {what.lower()} against {said}",
        legend=False,
    )


def _alpha_chart(rows: list[Values]) -> Figure:
    """Rounds over alpha in units of the paper's bound, the bound and the limit marked, divergences as crosses above."""
    limit = rows[0]["limit_part"]
    marks = [Mark("x", 1.0, "the paper's bound", "@soft")]
    if limit:
        marks.append(Mark("x", limit, f"limit, {limit:.3g}", "@soft"))
    best = min((row for row in rows if row["round"]), key=lambda row: row["round"], default=None)
    series = [
        Series(
            "converged",
            [r["part"] for r in rows],
            [r["round"] for r in rows],
            colour="@blue",
            width=2.5,
            marker="circle",
            size=8,
        ),
        _dots("diverged", [row for row in rows if row["diverged"]], "@bad", "triangle"),
        _dots("not there in time", [row for row in rows if row["slow"]], "@amber", "emptyCircle"),
    ]
    if best:
        series.append(
            Series("best", [best["part"]], [best["round"]], "dots", colour="@good", marker="diamond", size=15)
        )
    return Figure(
        "How large a step along the tracked gradient",
        Axis(KNOBS["alpha"][2], log=True, point="{value} of the bound"),
        Axis("rounds to 1e-6", log=True, low=10, high=10_000),
        series,
        marks,
        "Least squares, no momentum; rounds to a relative gap of 1e-6, the median over seeds. Red triangles: at least one "
        f"seed diverges. Amber circles: one or more not there after {ALPHA_ROUNDS:,} rounds. Green: the best step. "
        "Dashed: the bound, and the limit of the rounds as played for the median seed.",
        key="alpha",
        label="Line: rounds to a gap of 1e-6 against alpha in units of |lambda_2|/L, with divergences marked",
        legend=False,
        tip="item",
        wide=True,
        tall=True,
    )


def _dots(name: str, rows: Sequence[Values], colour: str, marker: str) -> Series:
    y = [2 * ALPHA_ROUNDS] * len(rows)
    return Series(name, [row["part"] for row in rows], y, "dots", colour=colour, marker=marker, size=11)


def study_table(result: Values, styles: Looks) -> Table:
    """The rows of a study as they are."""
    study, names = result["study"], STUDY_COLUMNS[result["study"]]
    body: list[Cells] = []
    for row in result["rows"]:
        look = styles.get(row.get("entrant", ""))
        first = Cell(f"{row['part']:g} x |lambda_2|/L" if look is None else look.name, look=look)
        body.append([first, *(_study_cell(row[key], key) for key in names)])
    heads = [COLUMN_WORDS.get(name, name) for name in names]
    columns = [Column("", "left"), *(Column(head, drop=k) for k, head in enumerate(heads))]
    note = "To a relative gap of 1e-6." if study == "alpha" else "To a relative distance of 1e-6; medians over seeds."
    return Table(f"Study of {study}: the numbers", columns, body, note, "study")


def _study_cell(value: float | None, key: str) -> str:
    if key == "reached":
        return NOTHING if value is None else f"{100 * value:.0f}%"
    return needed(value) if key in ("round", "bits", "messages") else number(value, 3)


def needed(value: float | None) -> str:
    """Rounds, bits or messages; never, where more than half the seeds do not get there."""
    return "never" if value is None else f"{value:,.0f}"
