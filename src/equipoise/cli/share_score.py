"""What `equipoise share estimators` does: score the estimators on real curves and on power laws, a table each."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise.cli.run_folder import to_json
from equipoise.share.estimator_scores import CAP, SURE, score
from equipoise.share.workload import Workload

NOTE = (
    f"errors are of ln work (0.7: a factor of two), works counted up to {CAP:g} samples\n"
    f"covered: by the claimed {SURE:.0%} interval, open above where it reaches {CAP:g} (there 90% is honest)\n"
    "log score: higher is better"
)


def run_score(seed: int, *, as_json: bool) -> None:
    """Score, and print a table for each kind of curves; or all rows as JSON."""
    kinds = {"real curves, not those of the prior": Workload.recorded(), "power laws": Workload.paper()}
    scores = {title: score(workload=workload, seed=seed) for title, workload in kinds.items()}
    if as_json:
        print(to_json(scores))
        return
    console = Console()
    for title, rows in scores.items():
        console.print(Text(f"\n{title}", style="bold"), score_table(rows), sep="\n")
    console.print(Text(NOTE, style="dim"))


def score_table(rows: list[dict[str, Any]]) -> Table:
    """A block for each amount of samples done; the best of a block in colour."""
    found = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    found.add_column("samples\ndone", justify="right", no_wrap=True)
    found.add_column("estimator", overflow="fold")
    for head in ("knows\n%", "median\nerror", "RMS\nerror", "bias", "covered\n%", "log\nscore"):
        found.add_column(head, justify="right", no_wrap=True)
    for done in sorted({row["samples"] for row in rows}):
        block = [row for row in rows if row["samples"] == done]
        judged = [row for row in block if row["rms"] is not None]
        for k, row in enumerate(block):
            best = {
                "median": row["median"] == min((r["median"] for r in judged), default=None),
                "rms": row["rms"] == min((r["rms"] for r in judged), default=None),
                "log_score": row["log_score"] == max((r["log_score"] for r in judged), default=None),
            }
            found.add_row(
                f"{done:g}" if k == 0 else "",
                row["estimator"],
                f"{row['known']:.0f}",
                _number(row["median"], best["median"]),
                _number(row["rms"], best["rms"]),
                _number(row["bias"], sign="+"),
                "-" if row["covered"] is None else f"{row['covered']:.0f}",
                _number(row["log_score"], best["log_score"]),
                end_section=k == len(block) - 1,
            )
    return found


def _number(value: float | None, best: bool = False, sign: str = "") -> str:
    if value is None:
        return "-"
    text = f"{value:{sign}.2f}"
    return f"[bold green]{text}[/]" if best else text
