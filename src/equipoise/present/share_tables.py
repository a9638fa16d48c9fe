"""The tables of share in the terminal: a comparison of policies, a ladder, the scores of estimators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from equipoise.document import Document, Row
from equipoise.present.text import fixed, tight
from equipoise.present.values import Cell, Cells, Column, Table, Tone

SURE = 2.0  # standard errors beyond which a difference is coloured
THOUSAND = 1000.0  # on the ladder efficiency is per so much energy: a table without leading zeros
GAP = 2  # between columns


def comparison_tables(document: Document, width: int) -> Iterator[Table]:
    """What a comparison prints in a terminal of so many columns."""
    rows = document.rows("rows")
    loads = list(dict.fromkeys(row["load"] for row in rows))
    if len(loads) > 1:
        yield from success_tables(document, width)
    yield load_table(rows, max(loads))
    if document.result.get("published"):
        yield published_table(document)
    if document.result["paired"]:
        yield paired_table(document, max(loads))


def success_tables(document: Document, width: int) -> Iterator[Table]:
    """Success in percent, a row for each policy; as many loads beside each other as there is room for."""
    rows = document.rows("rows")
    names, loads = (list(dict.fromkeys(row[key] for row in rows)) for key in ("policy", "load"))
    cells = {(row["policy"], row["load"]): row for row in rows}
    asked = _asked(document)
    few = 0 < asked < rows[0]["seeds"]
    note = f"the oracle's bound is over the first {_seeds(asked)}" if few else ""
    first = [*names, *(["oracle's bound"] if asked else [])]
    room = width - max(map(len, first))
    with_errors = [_success_column(cells, names, load, bool(asked), True) for load in loads]
    errors = sum(_width(load, column) for load, column in zip(loads, with_errors, strict=True)) <= room
    drawn = with_errors if errors else [_success_column(cells, names, load, bool(asked), False) for load in loads]
    title = "success, % of tasks" + (" (± standard error)" if errors else "")
    start = 0
    while start < len(loads):
        stop, left = start, room
        while stop < len(loads) and (stop == start or _width(loads[stop], drawn[stop]) <= left):
            left -= _width(loads[stop], drawn[stop])
            stop += 1
        columns = [Column("policy", "left"), *(Column(_tasks(load)) for load in loads[start:stop])]
        lines = zip(*drawn[start:stop], strict=True)
        body = [
            [Cell(name, faint=k >= len(names)), *line] for k, (name, line) in enumerate(zip(first, lines, strict=True))
        ]
        yield Table(title, columns, body, note)
        start = stop


def _success_column(
    cells: dict[tuple[str, int], Row], names: Sequence[str], load: int, bounded: bool, errors: bool
) -> list[Cell]:
    column = [cells[name, load] for name in names]
    best = max(row["success"] for row in column)
    found = [
        Cell(tight(row["success"], row["success_se"] if errors else None, 1), best=row["success"] == best)
        for row in column
    ]
    return found + ([Cell(fixed(column[0]["oracle"], 1), faint=True)] if bounded else [])


def _width(load: int, column: Sequence[Cell]) -> int:
    return GAP + max(len(_tasks(load)), *(len(cell.text) for cell in column))


def _asked(document: Document) -> int:
    """Seeds of a load whose bound was computed."""
    rows = document.rows("history") if "history" in document.names else []
    counted: dict[tuple[str, int], int] = {}
    for row in rows:
        key = row["policy"], row["load"]
        counted[key] = counted.get(key, 0) + (row["oracle"] is not None)
    return max(counted.values(), default=0)


def load_table(rows: Sequence[Row], load: int) -> Table:
    """Everything that was measured at one load."""
    here = [row for row in rows if row["load"] == load]
    bounded = here[0]["oracle"] is not None
    columns = [
        Column("policy", "left"),
        Column("success %"),
        Column("energy"),
        Column("efficiency % / energy"),
        Column("latency steps", drop=2),
        Column("network %", drop=3),
        Column("idle %"),
        *([Column("% of oracle", drop=1)] if bounded else []),
    ]
    best = {name: max(row[name] for row in here) for name in ("success", "efficiency")}
    body: list[Cells] = []
    for row in here:
        share = None if row["of_oracle"] is None else 100.0 * row["of_oracle"]
        body.append(
            [
                row["policy"],
                Cell(tight(row["success"], row["success_se"], 1), best=row["success"] == best["success"]),
                f"{row['energy']:.0f}",
                Cell(f"{row['efficiency']:.4f}", best=row["efficiency"] == best["efficiency"]),
                *(fixed(row[name], 1) for name in ("latency", "network", "idle_while_work")),
                *([fixed(share, 1)] if bounded else []),
            ]
        )
    return Table(f"at {_tasks(load)}", columns, body, "idle: compute that stood idle while a task was ready for it")


def published_table(document: Document) -> Table:
    """The paper's own numbers beside ours, for the policies that are in both."""
    papers = document.result["published"]
    load = papers[0]["load"]
    ours = {row["policy"]: row for row in document.rows("rows") if row["load"] == load}
    heads = [f"{measure} {whose}" for measure in ("success %", "energy", "efficiency") for whose in ("paper", "ours")]
    body = []
    for paper in papers:
        cells = [paper["policy"]]
        for measure, digits in (("success", 1), ("energy", 0), ("efficiency", 4)):
            row = ours[paper["policy"]]
            cells += [f"{paper[measure]:.{digits}f}", tight(row[measure], row[f"{measure}_se"], digits)]
        body.append(cells)
    seeds = _seeds(next(iter(ours.values()))["seeds"])
    note = f"the paper's numbers are one run of {load} tasks; ours are means over {seeds}"
    columns = [Column("policy", "left"), *map(Column, heads)]
    return Table(f"the paper's table at {load} tasks, and ours", columns, body, note)


def paired_table(document: Document, load: int) -> Table:
    """Differences on the same seeds; those beyond two standard errors in colour."""
    found: dict[str, list[str | Cell]] = {}
    for gap in document.result["paired"]:
        if gap["load"] == load:
            value, error = gap["difference"], gap["standard_error"]
            text = tight(value, error, 1 if gap["measure"] == "success" else 4, "+")
            found.setdefault(gap["one"], [gap["one"]]).append(Cell(text, tone=_tone(value, error)))
    columns = [Column("policy", "left"), Column("success, points"), Column("efficiency")]
    title = f"difference to {document.result['baseline']} on the same seeds, at {_tasks(load)}"
    return Table(title, columns, list(found.values()))


def _tone(difference: float | None, error: float | None) -> Tone:
    if difference is None or error is None or abs(difference) <= SURE * error:
        return ""
    return "good" if difference > 0 else "bad"


def ladder_table(document: Document) -> Table:
    """Rung by rung: who leads and by how much, and what the best that watches curves gains over the best other."""
    columns = [
        Column("tasks"),
        Column("leader", "left"),
        Column("value"),
        Column("lead"),
        Column("over", "left", drop=1),
        Column("best watching - best other"),
        Column("watching", "left", drop=2),
    ]
    body: list[Cells] = []
    rung = ""
    for row in document.rows("rows"):
        if row["rung"] != rung:
            rung = row["rung"]
            body.append(["", Cell(rung, tone="blue")])
        scale, digits = (1.0, 1) if row["measure"] == "success" else (THOUSAND, 2)
        body.append(
            [
                str(row["load"]),
                row["leader"],
                f"{scale * row['value']:.{digits}f}",
                _scaled(row, "lead", scale, digits),
                row["runner_up"] or "-",
                Cell(_scaled(row, "gain", scale, digits), tone=_tone(row["gain"], row["gain_se"])),
                row["learner"] or "-",
            ]
        )
    note = "success in % of tasks; on energy rungs efficiency in % per 1000 energy; ± standard error, paired by seed"
    return Table("who leads on each rung of the ladder", columns, body, note)


def _scaled(row: Row, name: str, scale: float, digits: int) -> str:
    value, error = row[name], row[f"{name}_se"]
    return tight(None if value is None else scale * value, None if error is None else scale * error, digits, "+")


def score_table(title: str, rows: Sequence[Row]) -> Table:
    """How good estimators are: a block for each amount of samples done; the best of a block marked."""
    columns = [Column("samples done"), Column("estimator", "left", wrap=True)]
    columns += map(Column, ("knows %", "median error", "RMS error", "bias", "covered %", "log score"))
    body: list[Cells] = []
    sections: list[int] = []
    for done in sorted({row["samples"] for row in rows}):
        block = [row for row in rows if row["samples"] == done]
        judged = [row for row in block if row["rms"] is not None]
        best = {name: min((row[name] for row in judged), default=None) for name in ("median", "rms")}
        best["log_score"] = max((row["log_score"] for row in judged), default=None)
        sections.append(len(body))
        for k, row in enumerate(block):
            body.append(
                [
                    f"{done:g}" if k == 0 else "",
                    row["estimator"],
                    f"{row['known']:.0f}",
                    *(Cell(fixed(row[name], 2), best=row[name] == best[name]) for name in ("median", "rms")),
                    tight(row["bias"], None, 2, "+"),
                    fixed(row["covered"], 0),
                    Cell(fixed(row["log_score"], 2), best=row["log_score"] == best["log_score"]),
                ]
            )
    return Table(title, columns, body, sections=sections[1:])


def _tasks(load: int) -> str:
    return "1 task" if load == 1 else f"{load} tasks"


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"
