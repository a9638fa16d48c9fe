"""Of a run on own files: what the files hold, what left each centre, and how useful the models are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from equipoise.document import Document, Row
from equipoise.present.text import count, number, percent, scaled
from equipoise.present.values import Cell, Column, Table

CLASSES, RECALLS, CENTRES = 6, 3, 12  # that are listed one by one
RECALL = "recall of "
LEFT_NOTE = (
    "Before the first round each centre told others names of columns and classes, values of text columns that enough of its "
    "rows have, counts, sums, and a fingerprint of its file; left.json has its own words. With numbers only, names of "
    "columns are fingerprints too. In the rounds, prices and models are sent, and never a row."
)
SCORE_NOTE = "On rows that no centre trained on. Balanced accuracy is the mean recall over classes."


def data_lines(document: Document) -> Iterator[tuple[str, str]]:
    """Rows, columns and classes, a line for each."""
    data, left = document.result.get("data"), document.result.get("left", [])
    if data is None:
        return
    files = data["files"]
    trained, held = (sum(row[name] for row in left) for name in ("trained_on", "held_out"))
    of = f"{len(files)} files, one centre each" if data["one_centre_per_file"] else Path(files[0]).name
    yield "data", f"{of}: {trained:,} rows to train on, {held:,} held out"
    classes = data["classes"]
    if classes:
        named = [f"{name} {rows:,}" for name, rows in list(classes.items())[:CLASSES]]
        more = [f"{len(classes) - CLASSES} more"] if len(classes) > CLASSES else []
        yield "classes", ", ".join(named + more)
    kinds = data["columns"]
    columns = [f"{kinds['numbers']} of numbers"] * (kinds["numbers"] > 0) + [f"{kinds['text']} of text"] * (
        kinds["text"] > 0
    )
    told = f"; agreed with {scaled(data['bits'] / 8, 'B')} over {count(data['links'], 'directed link')}"
    yield "columns", f"{' and '.join(columns)}, {count(data['features'], 'feature')}" + (told if data["links"] else "")


def scores_table(document: Document) -> Table | None:
    """The best, the median and the worst centre's model on held-out rows, beside always giving the same answer."""
    rows = document.result.get("scores")
    if not rows:
        return None
    recalls = [name for name in rows[0] if name.startswith(RECALL)]
    columns = [Column("model", "left", of=lambda row: Cell(row["model"]))]
    if "accuracy" in rows[0]:
        names = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy"}
        columns += [_column(title, name, percent) for name, title in names.items()]
        shown = recalls if len(recalls) <= RECALLS else []
        columns += [_column(name, name, percent, drop=2) for name in shown]
        columns.append(_column("AUC", "auc", lambda value: number(value, 3), drop=1))
    else:
        names = {
            "r2": "R2",
            "mean_absolute_error": "mean absolute error",
            "root_mean_square_error": "root mean square error",
        }
        columns += [_column(title, name, number) for name, title in names.items()]
    note = SCORE_NOTE if "accuracy" in rows[0] else SCORE_NOTE.split(".")[0] + "."
    return Table.of("How useful the models are", rows, columns, note=note, key="scores")


def left_table(document: Document, most: int = CENTRES) -> Table | None:
    """What left each centre, in numbers."""
    rows = document.result.get("left")
    if not rows:
        return None
    titles = {
        "trained_on": "rows",
        "column_names": "column names",
        "class_names": "class names",
        "values_named": "values named",
        "rows_unnamed": "not named",
        "sums": "sums",
    }
    columns = [
        Column("centre", "left", of=lambda row: f"{row['centre']}"),
        Column("file", "left", wrap=True, of=lambda row: row["file"]),
        *(_column(title, name, number) for name, title in titles.items()),
        _column("sent", "bytes", lambda value: scaled(value, "B")),
    ]
    more = f" {len(rows) - most} more centres stand in result.json." if len(rows) > most else ""
    return Table.of("What left each centre", rows[:most], columns, note=LEFT_NOTE + more, key="left")


def recall_table(document: Document) -> Table | None:
    """Recall class by class, where there are too many classes for the table of scores."""
    rows = document.result.get("scores") or [{}]
    recalls = [name for name in rows[0] if name.startswith(RECALL)]
    if len(recalls) <= RECALLS:
        return None
    lines = [{"class": name.removeprefix(RECALL)} | {row["model"]: row[name] for row in rows} for name in recalls]
    columns = [Column("class", "left", of=lambda row: row["class"])]
    columns += [_column(row["model"], row["model"], percent) for row in rows]
    return Table.of(
        "Recall of each class", lines, columns, note="The part of a class's held-out rows that is found.", key="recall"
    )


def _column(title: str, name: str, shown: object, drop: int = 0) -> Column:
    def of(row: Row) -> str:
        return str(shown(row.get(name)))  # type: ignore[operator]

    return Column(title, drop=drop, of=of)
