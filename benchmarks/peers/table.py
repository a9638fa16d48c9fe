"""The figures as tables: contestants down, sizes across, in the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from installing import Installed
from turns import Row

START, END = "<!-- bench:start -->", "<!-- bench:end -->"
Cell = Callable[[Row], str]


@dataclass(frozen=True)
class Table:
    """A title, column heads, and lines of cells."""

    title: str
    heads: list[str]
    lines: list[list[str]]

    def markdown(self) -> str:
        rule = ["---", *["---:"] * (len(self.heads) - 1)]
        return "\n".join(
            [f"**{self.title}**", "", *("| " + " | ".join(row) + " |" for row in (self.heads, rule, *self.lines))]
        )

    def text(self) -> str:
        widths = [max(len(row[k]) for row in (self.heads, *self.lines)) for k in range(len(self.heads))]
        rows = (
            "  ".join(
                [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
            )
            for row in (self.heads, ["─" * width for width in widths], *self.lines)
        )
        return "\n".join([self.title, *rows])


def tables(rows: Sequence[Row], peers: dict[str, Installed]) -> list[Table]:
    """One for each thing that was measured."""
    train = [row for row in rows if row.part == "train"]
    found = [
        _matrix("train: rounds per CPU second", train, lambda row: f"{row.size:,} centres", _rounds, peers),
        _matrix(
            "train: CPU milliseconds to 1e-6 of the gap at the start",
            train,
            lambda row: f"{row.size:,} centres",
            _to_accuracy,
            peers,
        ),
    ]
    for policy in dict.fromkeys(row.work.split(",")[0] for row in rows if row.part == "share"):
        mine = [row for row in rows if row.part == "share" and row.work.startswith(f"{policy},")]
        heading = f"share: million task-steps per CPU second under {policy}"
        found.append(_matrix(heading, mine, lambda row: row.work.split(", ")[1], _millions, peers))
    for unit, title in (
        ("placements", "place: placements in one slot per CPU second; cost, over the least"),
        ("decisions", "place: arrivals decided per CPU second; payoff, of the integer program's"),
    ):
        mine = [row for row in rows if row.part == "place" and row.unit == unit]
        found.append(_matrix(title, mine, lambda row: row.work.split(", ")[1], _with_objective, peers))
    return [table for table in found if table.lines]


def _matrix(
    title: str, rows: Sequence[Row], column: Callable[[Row], str], cell: Cell, peers: dict[str, Installed]
) -> Table:
    columns = list(dict.fromkeys(column(row) for row in rows))
    lines = []
    for who in dict.fromkeys(row.who for row in rows):
        cells = {column(row): cell(row) for row in rows if row.who == who}
        if any(text != "-" for text in cells.values()):
            lines.append([_named(who, peers), *(cells.get(name, "-") for name in columns)])
    return Table(title, ["", *columns], lines)


def _named(who: str, peers: dict[str, Installed]) -> str:
    """With its version, where it is a package."""
    for name, one in peers.items():
        label = {"leafsim": "LEAF (leafsim)", "simpy": "SimPy", "cvxpy": "CVXPY", "highspy": "HiGHS"}.get(name, name)
        if one.version and who.startswith(label):
            return who.replace(label, f"{label} {one.version}", 1)
    return who


def figure(value: float) -> str:
    """Three digits that matter."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if value >= 10 else 2 if value >= 0.1 else 4}f}"


def _beside(row: Row, value: float, faster: float | None) -> str:
    """A figure, and how many times as fast ours is; the first of ours is what the others are measured by."""
    if row.same is False:
        return "not the same work"
    return figure(value) + ("" if row.ours and faster == 1.0 else f" ({figure(faster or 0.0)}x)")


def _rounds(row: Row) -> str:
    rounds = row.more.get("rounds_per_cpu_second")
    return "-" if rounds is None else _beside(row, rounds, row.more["rounds_faster_cpu"])


def _to_accuracy(row: Row) -> str:
    return "-" if row.rate_cpu is None else _beside(row, row.more["ms_cpu"], row.faster_cpu)


def _millions(row: Row) -> str:
    return "-" if row.rate_cpu is None else _beside(row, row.rate_cpu / 1e6, row.faster_cpu)


def _with_objective(row: Row) -> str:
    if row.rate_cpu is None:
        return "-"
    shown, reached = _beside(row, row.rate_cpu, row.faster_cpu), row.more.get("objective")
    if row.same is False or reached is None:
        return shown
    late = " late" if "stopped at" in row.check else ""
    return f"{shown}; {reached:.3f}{late}"


def block(rows: Sequence[Row], peers: dict[str, Installed], machine: str, form: str) -> str:
    """What docs/benchmarks.md shows, between the markers."""
    parts = [
        f"{form}: {machine}.",
        "In brackets: how many times as fast ours, the first line, is by the median of the turns.",
    ]
    parts += [table.markdown() for table in tables(rows, peers)]
    notes = missing(rows, peers)
    parts += ["Not measured:\n\n" + "\n".join(f"- {note}" for note in notes)] if notes else []
    return "\n\n".join(parts)


def missing(rows: Sequence[Row], peers: dict[str, Installed]) -> list[str]:
    """Peers that cannot be installed, contestants that failed, and work that was not the same, with the reason."""
    notes = [f"{one.name}: {one.reason}" for one in peers.values() if one.version is None]
    notes += [
        f"{row.who}, {row.work}: {row.check}" for row in rows if row.rate_cpu is None and row.check.startswith("failed")
    ]
    notes += [f"{row.who}, {row.work}: {row.check}" for row in rows if row.same is False]
    return list(dict.fromkeys(notes))


def rewrite(page: Path, text: str) -> bool:
    """Put the text between the page's markers; False where it has none."""
    whole = page.read_text() if page.exists() else ""
    if START not in whole or END not in whole:
        return False
    before, rest = whole.split(START, 1)
    _, after = rest.split(END, 1)
    page.write_text(f"{before}{START}\n{text}\n{END}{after}")
    return True
