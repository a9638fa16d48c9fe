"""The page of the ledger: every claim with its protocol, findings, figures and verdict."""

from __future__ import annotations

from typing import Any

from equipoise.present.html import in_rows, render, verdict
from equipoise.present.text import count
from equipoise.report.claims_charts import charts
from equipoise.report.claims_words import (
    KINDS,
    MARKS,
    PAPERS,
    TITLES,
    WHOSE,
    Entry,
    headline,
    measured,
    named,
    ruled,
    tally,
)


def claims_page(document: dict[str, Any]) -> str:
    """The whole page as text; `document` is what stands in result.json."""
    entries = document["result"]["claims"]
    drawn = {entry["name"]: charts(entry["name"], entry["figures"]) for entry in entries}
    return render(
        "claims.html.j2",
        title=title(document),
        document=document,
        charts=[chart for found in drawn.values() for chart in found],
        chapters=[
            {
                "verb": verb,
                "title": TITLES[verb],
                "paper": PAPERS[verb],
                "claims": [_told(entry, drawn[entry["name"]]) for entry in entries if entry["verb"] == verb],
            }
            for verb in TITLES
            if any(entry["verb"] == verb for entry in entries)
        ],
    )


def title(document: dict[str, Any]) -> str:
    """34 claims of three papers: 12 reproduced, 9 depend, ...: certificate passed."""
    entries = document["result"]["claims"]
    how = "quick form" if document["config"]["quick"] else "full form"
    outcome = verdict(document["certificate"])
    return f"{count(len(entries), 'claim')}, {how}: {tally(entries)}: certificate {outcome}"


def _told(entry: Entry, drawn: list[Any]) -> dict[str, Any]:
    """What the template needs of a claim, in words."""
    return entry | {
        "ruled": ruled(entry),
        "kind": KINDS[entry["verdict"]],
        "first": headline(entry),
        "figures": in_rows(drawn),
        "rows": [
            {
                "name": named(finding),
                "over": finding["over"],
                "value": measured(finding),
                "bound": f"{finding['bound']}",
                "mark": MARKS[finding["holds"]],
                "kind": {True: "passed", False: "failed", None: "unmade"}[finding["holds"]],
                "whose": WHOSE[finding["about"]],
            }
            for finding in entry["findings"]
        ],
    }
