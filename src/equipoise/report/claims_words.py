"""A claim's entry in words: what was measured, beside its bound, and whether it holds."""

from __future__ import annotations

from typing import Any

from equipoise.present.text import number

Entry = dict[str, Any]  # claims.Claim.as_dict
Finding = dict[str, Any]

PAPERS = {
    "train": "Machine Learning and CPU Scheduling Co-Optimization over a Network of Computing Centers (arXiv 2510.25176)",
    "share": "Robustness-Efficiency Trade-offs in Learning-Aware Distributed Scheduling (Hasan and Peña)",
    "place": "Toward Efficient Online Scheduling for Distributed Machine Learning Systems (arXiv 2108.02917)",
}
TITLES = {"train": "Co-optimisation", "share": "Learning-aware scheduling", "place": "Online scheduling"}
KINDS = {"reproduced": "passed", "not reproduced": "failed", "depends": "incomplete", "beyond": "beyond"}
MARKS = {True: "holds", False: "does not hold", None: "too few samples"}
WHOSE = {"paper": "as the paper has it", "ours": "in its place, here"}


def measured(finding: Finding) -> str:
    """12.3 ± 0.4 points."""
    error = "" if finding["error"] is None else f" ± {number(finding['error'], 2)}"
    unit = f" {finding['unit']}" if finding["unit"] else ""
    return f"{number(finding['value'])}{error}{unit}"


def named(finding: Finding) -> str:
    """What was measured, and when."""
    return ", ".join(str(finding[part]) for part in ("quantity", "when") if finding[part])


def headline(entry: Entry) -> str:
    """The first thing that was measured, beside its bound."""
    if not entry["findings"]:
        return str(entry["protocol"])
    first = entry["findings"][0]
    return f"{measured(first)} ({first['bound']}): {named(first)}"


def ruled(entry: Entry) -> str:
    """The verdict, and what it depends on."""
    return f"{entry['verdict']} ({entry['depends_on']})" if entry["depends_on"] else str(entry["verdict"])


def tally(entries: list[Entry]) -> str:
    """12 reproduced, 3 not reproduced, 8 depend, 9 beyond."""
    words = {"depends": "depend"}
    counts = {kind: sum(entry["verdict"] == kind for entry in entries) for kind in KINDS}
    return ", ".join(f"{amount} {words.get(kind, kind)}" for kind, amount in counts.items() if amount)
