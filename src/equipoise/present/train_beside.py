"""A run and another dynamics that played the same problem beside it: both over rounds and over bits, and a table."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from equipoise.document import Document, Row
from equipoise.present.echarts import Floats
from equipoise.present.figures import Axis, Figure, Mark, Series, thinned
from equipoise.present.text import NOTHING, number, scaled
from equipoise.present.values import Cell, Cells, Column, Table

DRAWN = 1000  # rows of a history
BELOW = 1e-9  # gaps below minus this are no rounding


class Both(NamedTuple):
    """What is known of the run and of the one beside it, ours first."""

    labels: tuple[str, str]
    rows: tuple[Row, Row]
    histories: tuple[dict[str, Floats], dict[str, Floats]]


def both(document: Document) -> Both | None:
    """None where nothing played beside."""
    result = document.result
    other = result.get("beside_run")
    if not other:
        return None
    verdict = None if document.certificate is None else document.certificate.passed
    ours = {name: result.get(name) for name in ("rounds", "relative_gap", "bits", "status")} | {"passed": verdict}
    histories = [
        {name: np.array(values, dtype=float) for name, values in document.columns(table).items()}
        for table in ("history", "beside_history")
        if table in document.names
    ]
    if len(histories) < 2:
        return None
    own = f"this run ({_played(result)})"
    theirs = "the paper's, as published" if other.get("name") == "paper" else _played(other)
    return Both((own, theirs), (ours, other), (histories[0], histories[1]))


def _played(row: Row) -> str:
    """The dynamics of both halves: "links", "markets and averages"."""
    said = row.get("dynamics", {})
    return " and ".join(dict.fromkeys(said[half] for half in ("cpu", "learning") if said.get(half)))


def beside_table(document: Document) -> Table | None:
    """Two rows: rounds, gap reached, what was sent, and whether the certificate passed."""
    found = both(document)
    if found is None:
        return None
    body: list[Cells] = []
    for label, row in zip(found.labels, found.rows, strict=True):
        gap = row.get("relative_gap")
        passed = {None: "not made", True: "passed", False: "FAILED"}[row.get("passed")]
        body.append(
            [
                label,
                f"{row['rounds']:,}",
                NOTHING if gap is None else f"{gap:.2e}",
                f"{row['bits']:,}",
                Cell(passed, tone="" if row.get("passed") is None else "good" if row["passed"] else "bad"),
            ]
        )
    heads = [Column("", "left"), *map(Column, ("rounds", "gap reached", "bits sent")), Column("certificate", "left")]
    return Table("The same problem and network, side by side", heads, body, note=_at_one_gap(found), key="beside")


def beside_figures(document: Document) -> list[Figure]:
    """The gap of both over rounds, and over bits."""
    found = both(document)
    if found is None:
        return []
    target = next((check.limit for check in document.certificate or () if check.name == "gap"), None)
    marks = [Mark("y", target, f"gap asked for: {number(target)}", "@soft")] if target else []
    words = _at_one_gap(found)
    y, names = Axis("relative gap", log=True), " and ".join(found.labels)
    rounds = Axis("round", low=0, whole=True, point="round {value}")
    bits = Axis("bits sent over all links", log=True, form="bits")
    title = f"Beside {'the paper' if found.rows[1].get('name') == 'paper' else found.labels[1]}"
    meaning = "Both start at the same shares and models, on the same graphs; lower is better."
    if any((history["relative_gap"] < 0).any() for history in found.histories):
        meaning += " Negative gaps are left out."
    return [
        Figure(
            f"{title}, over the rounds",
            rounds,
            y,
            _lines(found, "round"),
            marks,
            caption=f"{meaning} {words}".strip(),
            key="beside_rounds",
            label=f"Line chart: relative gap of {names} against rounds, on a logarithmic axis",
            legend=True,
        ),
        Figure(
            f"{title}, over bits",
            bits,
            y,
            _lines(found, "bits"),
            marks,
            caption="The same gaps against all bits that were sent until then.",
            key="beside_bits",
            label=f"Line chart: relative gap of {names} against bits sent, both axes logarithmic",
            legend=True,
        ),
    ]


def _lines(found: Both, along: str) -> list[Series]:
    lines = []
    for label, history, ours in zip(found.labels, found.histories, (True, False), strict=True):
        x, gap = history[along], history["relative_gap"]
        rows = thinned(len(x), DRAWN)
        rows = rows[(gap[rows] > 0) & np.isfinite(gap[rows]) & ((x[rows] > 0) | (along == "round"))]
        line = Series(label, x[rows], gap[rows], colour="@blue", width=2.5, marker="none")
        lines.append(line if ours else replace(line, colour="@amber", dash="dashed"))
    return lines


def _at_one_gap(found: Both) -> str:
    """What both took to the smallest gap that both reached, as far as rounds are recorded."""
    for label, history in zip(found.labels, found.histories, strict=True):
        if np.nanmin(history["relative_gap"]) < -BELOW:
            return f"{_begun(label)} left the boxes of shares, which makes its gap negative: no smaller one to compare."
    least = [float(np.nanmin(np.abs(history["relative_gap"]))) for history in found.histories]
    gap = max(least)
    if not gap < 0.99:
        slow = found.labels[int(np.argmax(least))]
        return f"{_begun(slow)} came to no smaller gap than {number(gap)} of the one at the start."
    took = []
    for label, history in zip(found.labels, found.histories, strict=True):
        at = int(np.flatnonzero(np.abs(history["relative_gap"]) <= gap)[0])
        took.append(f"{label} {history['round'][at]:,.0f} rounds and {scaled(float(history['bits'][at]), 'bit')}")
    return f"To a gap of {number(gap)}, which both reached: {'; '.join(took)}."


def _begun(words: str) -> str:
    """At the beginning of a sentence."""
    return words[:1].upper() + words[1:]
