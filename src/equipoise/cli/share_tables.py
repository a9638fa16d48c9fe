"""The tables of `equipoise share`, for a terminal of 80 columns or more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from equipoise.share.ladder import Ladder, pays
from equipoise.share.sweep import Sweep
from equipoise.share.workload import PUBLISHED_LOAD, PUBLISHED_TABLE

NAME_WIDTH = 18  # of the names of policies
CELL_WIDTH = 11  # of a mean with its standard error, and the space beside it
BARE_WIDTH = 10  # of a mean alone under a heading such as "100 tasks"
SURE = 2.0  # standard errors beyond which a difference is coloured
THOUSAND = 1000.0  # on the ladder efficiency is per so much energy: a table without leading zeros


def _table(heads: tuple[str, ...], words: tuple[int, ...] = (0,)) -> Table:
    """Columns of words to the left, of numbers to the right."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for k, head in enumerate(heads):
        left = k in words
        table.add_column(head, justify="left" if left else "right", no_wrap=not left, overflow="fold")
    return table


def _titled(title: str, table: Table, note: str = "") -> Group:
    """A heading and a note that are not bent to the table's width."""
    below = [Text(note, style="dim")] if note else []
    return Group(Text(), Text(title, style="bold"), table, *below)


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def with_error(value: float | None, error: float | None, digits: int, sign: str = "") -> str:
    """57.0 ±0.6; no error with a single seed."""
    if value is None:
        return "-"
    return f"{value:{sign}.{digits}f}" + ("" if error is None else f" ±{error:.{digits}f}")


def _bold(text: str, best: bool) -> str:
    return f"[bold green]{text}[/]" if best else text


def _tasks(load: int) -> str:
    return "1 task" if load == 1 else f"{load} tasks"


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def success_tables(result: Sweep, width: int) -> Iterator[Group]:
    """Success percent, a row a policy and a column a load; as many loads beside each other as there is room for."""
    cells = {(row["policy"], row["load"]): row for row in result.rows}
    asked = max(int(np.isfinite(bound).sum()) for bound in result.bounds.values())
    note = f"the oracle's bound is over the first {_seeds(asked)}" if 0 < asked < len(result.seeds) else ""
    errors = NAME_WIDTH + CELL_WIDTH * len(result.loads) <= width  # else they would cost a second table
    room = max(1, (width - NAME_WIDTH) // CELL_WIDTH) if errors else max(1, (width - NAME_WIDTH) // BARE_WIDTH)
    for start in range(0, len(result.loads), room):
        loads = result.loads[start : start + room]
        table = _table(("policy", *map(_tasks, loads)))
        best = {load: max(cells[name, load]["success"] for name in result.names) for load in loads}
        for name in result.names:
            row = [cells[name, load] for load in loads]
            texts = [
                (with_error(c["success"], c["success_se"] if errors else None, 1), c["success"] == best[c["load"]])
                for c in row
            ]
            table.add_row(name, *(_bold(*text) for text in texts))
        if asked:
            bounds = [cells[result.names[0], load]["oracle"] for load in loads]
            table.add_row("[dim]oracle's bound[/]", *(f"[dim]{number(bound, 1)}[/]" for bound in bounds))
        yield _titled("success, % of tasks" + (" (± standard error)" if errors else ""), table, note)


def full_table(result: Sweep, load: int) -> Group:
    """Everything that was measured at one load."""
    rows = [row for row in result.rows if row["load"] == load]
    bounded = rows[0]["oracle"] is not None
    heads = ("policy", "success %", "energy", "efficiency\n% / energy", "latency\nsteps", "network\n%", "idle\n%")
    table = _table((*heads, "% of\noracle") if bounded else heads)
    best = {name: max(row[name] for row in rows) for name in ("success", "efficiency")}
    for row in rows:
        share = None if row["of_oracle"] is None else 100.0 * row["of_oracle"]
        table.add_row(
            row["policy"],
            _bold(with_error(row["success"], row["success_se"], 1), row["success"] == best["success"]),
            f"{row['energy']:.0f}",
            _bold(f"{row['efficiency']:.4f}", row["efficiency"] == best["efficiency"]),
            number(row["latency"], 1),
            number(row["network"], 1),
            number(row["idle_while_work"], 1),
            *([number(share, 1)] if bounded else []),
        )
    return _titled(f"at {_tasks(load)}", table, "idle: compute that stood idle while a task was ready for it")


def published_table(result: Sweep) -> Group:
    """The paper's own numbers beside ours, for the policies that are in both."""
    table = _table(("policy", "success %\npaper", "\nours", "energy\npaper", "\nours", "efficiency\npaper", "\nours"))
    for row in result.rows:
        if row["load"] == PUBLISHED_LOAD and row["policy"] in PUBLISHED_TABLE:
            paper = PUBLISHED_TABLE[row["policy"]]
            table.add_row(
                row["policy"],
                f"{paper.success:.1f}",
                with_error(row["success"], row["success_se"], 1),
                f"{paper.energy:.0f}",
                with_error(row["energy"], row["energy_se"], 0),
                f"{paper.efficiency:.4f}",
                with_error(row["efficiency"], row["efficiency_se"], 4),
            )
    note = f"the paper's numbers are one run of {PUBLISHED_LOAD} tasks; ours are means over {_seeds(len(result.seeds))}"
    return _titled(f"the paper's table at {PUBLISHED_LOAD} tasks, and ours", table, note)


def paired_table(paired: list[dict[str, Any]], baseline: str, load: int) -> Group:
    """Differences on the same seeds; those beyond two standard errors in colour."""
    table = _table(("policy", "success, points", "efficiency"))
    found: dict[str, dict[str, str]] = {}
    for gap in paired:
        if gap["load"] == load:
            digits = 1 if gap["measure"] == "success" else 4
            text = with_error(gap["difference"], gap["standard_error"], digits, "+")
            found.setdefault(gap["one"], {})[gap["measure"]] = _coloured(text, gap["difference"], gap["standard_error"])
    for name, cells in found.items():
        table.add_row(name, cells["success"], cells["efficiency"])
    return _titled(f"difference to {baseline} on the same seeds, at {_tasks(load)}", table)


def _coloured(text: str, difference: float | None, error: float | None) -> str:
    if difference is None or error is None or abs(difference) <= SURE * error:
        return text
    return f"[green]{text}[/]" if difference > 0 else f"[red]{text}[/]"


def ladder_table(climbed: Ladder) -> Group:
    """Rung by rung: who leads and by how much, and what the best that watches curves gains over the best other."""
    heads = ("tasks", "leader", "value", "lead", "over", "best watching\n- best other", "watching")
    table = _table(heads, words=(1, 4, 6))
    last = ""
    for row in climbed.rows:
        if row["rung"] != last:
            last = row["rung"]
            table.add_row("", f"[bold]{last}[/]")
        scale, digits = (1.0, 1) if row["measure"] == "success" else (THOUSAND, 2)
        gain = _scaled(row, "gain", scale, digits)
        colour = {True: "green", False: "red", None: "default"}[pays(row)]
        table.add_row(
            str(row["load"]),
            row["leader"],
            f"{scale * row['value']:.{digits}f}",
            _scaled(row, "lead", scale, digits),
            row["runner_up"],
            f"[{colour}]{gain}[/]",
            row["learner"] or "-",
        )
    note = "success in % of tasks; on energy rungs efficiency in % per 1000 energy; ± standard error, paired by seed"
    return _titled("who leads on each rung of the ladder", table, note)


def _scaled(row: dict[str, Any], name: str, scale: float, digits: int) -> str:
    value, error = row[name], row[f"{name}_se"]
    return with_error(None if value is None else scale * value, None if error is None else scale * error, digits, "+")
