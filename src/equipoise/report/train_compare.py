"""The page of a comparison of methods, or of a trade-off study: the finding, the pictures, the tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from equipoise.present.html import embedded, render, verdict
from equipoise.present.text import NOTHING, count, number, scaled
from equipoise.report.share_charts import Look, looks
from equipoise.report.train_compare_charts import charts_of, study_charts
from equipoise.train.baselines.track import Entrant
from equipoise.train.comparison import MethodComparison, nearer
from equipoise.train.studies import Study

STUDY_COLUMNS = {
    "rho": ("rho", "bits_a_number", "round", "bits", "distance"),
    "density": ("p", "degree", "round", "bits", "messages"),
    "alpha": ("alpha", "round", "converged", "slow", "diverged"),
}
COLUMN_WORDS = {
    "bits_a_number": "bits a number",
    "round": "rounds",
    "distance": "distance at the end",
    "p": "edge probability",
    "degree": "neighbours",
    "converged": "seeds converged",
    "slow": "too slow",
}
Table = dict[str, Any]


def compare_page(found: MethodComparison | Study, document: dict[str, Any]) -> str:
    """The whole page as text; `document` is what stands in result.json."""
    bands: dict[str, Any] = {}
    if isinstance(found, MethodComparison):
        styles = _styles(found.entrants)
        charts, bands = charts_of(found, styles)
        tables, numbers = _comparison_tables(found, styles), _key_numbers(found, styles)
    else:
        styles = _styles(found.comparisons[0].entrants if found.comparisons else [])
        charts, tables, numbers = study_charts(found, styles), [_study_table(found, styles)], []
    return render(
        "train_compare.html.j2",
        title=title(found, document),
        document=document,
        charts=charts,
        styles=list(styles.values()),
        numbers=numbers,
        tables=tables,
        notes=[*document["result"].get("left_out", []), *document["result"].get("notes", [])],
        bands=embedded(bands),
        shades=embedded({look.name: [look.light, look.dark] for look in styles.values()}),
    )


def title(found: MethodComparison | Study, document: dict[str, Any]) -> str:
    """9 methods on 20 instances: ...: certificate passed."""
    outcome = f"certificate {verdict(document['certificate'])}"
    if isinstance(found, Study):
        knob = {"rho": "How coarse a code", "density": "How dense a network", "alpha": "How large a step"}[found.name]
        return f"{knob}: {outcome}"
    where = f"{count(len(found.entrants), 'method')} on {count(len(found.seeds), 'instance')}"
    target = found.targets[-1]
    needed = {row["entrant"]: row[f"bits_to_{target:g}"] for row in found.summary}
    there = {name: needed[name] for name in _real(found) if needed[name] is not None}
    if not there:
        return f"{where}: nobody reaches {target:g} in {found.rounds} rounds: {outcome}"
    best = min(there, key=lambda name: there[name])
    return f"{where}: {best} reaches {target:g} with the fewest bits, {scaled(there[best], 'bit')}: {outcome}"


def _styles(entrants: Any) -> dict[str, Look]:
    """Each entrant's look by its name; an entrant without a label is called by its name."""
    found = looks(list(entrants))
    return {entrant.name: replace(look, name=label_of(entrant)) for entrant, look in zip(entrants, found, strict=True)}


def label_of(entrant: Entrant) -> str:
    return str(getattr(entrant, "label", None) or entrant.name)


def _real(found: MethodComparison) -> list[str]:
    """Names of the entrants that are more than a tool of analysis; all, if there is none."""
    real = [entrant.name for entrant in found.entrants if not getattr(entrant, "analysis", False)]
    return real or found.names


def _key_numbers(found: MethodComparison, styles: dict[str, Look]) -> list[dict[str, str]]:
    ours, target = found.reference, found.targets[-1]
    rows = {row["entrant"]: row for row in found.summary}
    numbers = []
    for column, unit in (("round", "rounds"), ("bits", "bits")):
        key = f"{column}_to_{target:g}"
        rivals = {name: rows[name][key] for name in _real(found) if name != ours and rows[name][key] is not None}
        own = rows[ours][key]
        shown = NOTHING if own is None else f"{own:,.0f}" if column == "round" else scaled(own, "bit")
        note = f"{styles[ours].name}; no rival gets there"
        if rivals:
            best = min(rivals, key=lambda name: rivals[name])
            worth = f"{rivals[best]:,.0f}" if column == "round" else scaled(rivals[best], "bit")
            note = f"{styles[ours].name}; the best rival {worth} ({styles[best].name})"
        numbers.append({"name": f"{unit} to {target:g}", "value": shown, "note": note})
    worst = max(found.summary, key=lambda row: row["largest_violation"])
    own = rows[ours]["largest_violation"]
    most = f"at most {number(worst['largest_violation'], 3)} ({styles[worst['entrant']].name})"
    note = f"{styles[ours].name}, in any round; {most}"
    numbers.append({"name": "budget broken by, CPUs", "value": number(own, 3), "note": note})
    return numbers


def _comparison_tables(found: MethodComparison, styles: dict[str, Look]) -> list[Table]:
    return [_summary_table(found, styles), *(_protocol_table(found, styles, p) for p in ("rounds", "bits"))]


def _summary_table(found: MethodComparison, styles: dict[str, Look]) -> Table:
    heads = [f"{word} to {target:g}" for target in found.targets for word in ("rounds", "bits", "messages")]
    heads += ["budget broken by, CPUs", "box broken by, CPUs", "diverged"]
    body = []
    for row in found.summary:
        cells = [
            _needed(row[f"{column}_to_{target:g}"])
            for target in found.targets
            for column in ("round", "bits", "messages")
        ]
        cells += [_violation(row["largest_violation"]), _violation(row["largest_box_violation"]), f"{row['diverged']}"]
        body.append({"look": styles[row["entrant"]], "cells": cells})
    note = "Medians over seeds of what it takes until the distance stays below; never: more than half the seeds do not get "
    note += "there. Violations are the largest in any round of any seed."
    return {"key": "summary", "title": "What it takes, and what it breaks", "heads": heads, "rows": body, "note": note}


def _protocol_table(found: MethodComparison, styles: dict[str, Look], protocol: str) -> Table:
    ours = styles[found.reference].name
    after = "rounds" if protocol == "rounds" else "rounds' bits"
    heads = [f"{number_of} {after}" for number_of in found.checkpoints] + [f"{ours} nearer at {found.telling}"]
    body = []
    for name, look in styles.items():
        rows = [row for row in found.rows if (row["protocol"], row["entrant"]) == (protocol, name)]
        cells = [_interval(row) for row in rows]
        here = next(row for row in rows if row["checkpoint"] == found.telling)
        body.append({"look": look, "cells": [*cells, nearer(here) or NOTHING]})
    what = "equal rounds" if protocol == "rounds" else f"equal bits: those {ours} had spent by then"
    note = "Median relative distance over seeds with a 95% bootstrap interval; the last column counts "
    note += f"seeds; distances below 1e-9 are a tie. {found.why_telling}"
    return {"key": f"equal-{protocol}", "title": f"At {what}", "heads": heads, "rows": body, "note": note}


def _interval(row: dict[str, Any]) -> str | dict[str, str]:
    """The median, and what stands below it: its interval."""
    if row["distance"] is None:
        return "diverged"
    if row["distance_low"] == row["distance_high"]:
        return _power(row["distance"])
    high = "∞" if row["distance_high"] is None else _power(row["distance_high"])
    return {"value": _power(row["distance"]), "below": f"{_power(row['distance_low'])} to {high}"}


def _power(value: float | None) -> str:
    return NOTHING if value is None else "0" if value == 0 else f"{value:.1e}".replace("e-0", "e-").replace("e+00", "")


def _needed(value: float | None) -> str:
    return "never" if value is None else f"{value:,.0f}"


def _violation(value: float) -> str:
    return "0" if value == 0 else number(value, 3)


def _study_table(study: Study, styles: dict[str, Look]) -> Table:
    columns = STUDY_COLUMNS[study.name]
    body = []
    for row in study.rows:
        cells = [_needed(row[key]) if key in ("round", "bits", "messages") else number(row[key], 3) for key in columns]
        first = f"{row['part']:g} x |lambda_2|/L" if study.name == "alpha" else styles[row["entrant"]].name
        body.append({"look": styles.get(row.get("entrant", "")), "name": first, "cells": cells})
    note = (
        "To a relative gap of 1e-6." if study.name == "alpha" else "To a relative distance of 1e-6; medians over seeds."
    )
    heads = [COLUMN_WORDS.get(column, column) for column in columns]
    return {"key": "study", "title": "The numbers", "heads": heads, "rows": body, "note": note}
