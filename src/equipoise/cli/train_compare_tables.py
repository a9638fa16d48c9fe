"""The tables of `equipoise train compare` for the terminal."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table

from equipoise.present.text import NOTHING, number
from equipoise.train.comparison import OURS, MethodComparison, nearer
from equipoise.train.studies import Study

HEADS = {
    "rho": ("rho", "bits a number", "entrant", "reached", "round", "bits", "distance"),
    "density": ("p", "degree", "entrant", "reached", "round", "bits", "messages"),
    "alpha": ("part", "alpha", "round", "converged", "slow", "diverged"),
}


def _table(title: str, heads: list[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for k, head in enumerate(heads):
        table.add_column(head, justify="left" if k == 0 else "right", no_wrap=k == 0)
    return table


def comparison_tables(result: MethodComparison) -> list[Table]:
    """Two of them, so that 80 columns suffice: what it takes, and what it breaks and how it compares."""
    ours, far = result.reference, result.targets[-1]
    last = {(row["protocol"], row["entrant"]): row for row in result.rows if row["checkpoint"] == result.telling}
    heads = ["relative distance", f"after {result.telling} rounds", f"bits of {ours} by then"]
    heads += [f"rounds to {target:g}" for target in result.targets] + [f"bits to {far:g}"]
    first = _table("how near the optimum, medians over seeds", heads)
    first.caption, first.caption_justify, first.caption_style = result.why_telling, "left", "dim"
    second = _table(
        "the worst on the way, and in how many seeds ours is nearer" if ours == OURS else "the worst on the way",
        ["CPUs", "budget off by", "box off by", "at equal rounds", "at equal bits"],
    )
    for row in result.summary:
        name, style = row["entrant"], "bold" if row["entrant"] == ours else None
        rounds, bits = last["rounds", name], last["bits", name]
        cells = [_short(rounds["distance"]), _short(bits["distance"])]
        cells += [_needed(row[f"round_to_{target:g}"]) for target in result.targets]
        first.add_row(name, *cells, _needed(row[f"bits_to_{far:g}"]), style=style)
        worst = [_short(row["largest_violation"]), _short(row["largest_box_violation"])]
        second.add_row(name, *worst, nearer(rounds), nearer(bits), style=style)
    return [first, second]


def study_table(study: Study) -> Table:
    """The rows as they are."""
    heads = HEADS[study.name]
    table = _table(f"study {study.name}: to 1e-6, medians over seeds", list(heads))
    for row in study.rows:
        found: dict[str, Any] = {head.replace(" ", "_"): row.get(head.replace(" ", "_")) for head in heads}
        table.add_row(
            *(
                str(v) if isinstance(v, str) else _needed(v) if k in ("round", "bits", "messages") else number(v, 3)
                for k, v in found.items()
            )
        )
    return table


def _short(value: float | None) -> str:
    return NOTHING if value is None else "0" if value == 0 else f"{value:.1e}"


def _needed(value: float | None) -> str:
    return "never" if value is None else f"{value:,.0f}"
