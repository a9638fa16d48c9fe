"""Whether an agreed schema is what all rows together say: found from the pooled rows, which only a simulation can see.

It shares no code with the agreement: sums are NumPy's, values are counted by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from equipoise.data.own_files import Agreed
from equipoise.data.schema import NumberColumn
from equipoise.data.table import Table
from equipoise.kernels import Floats, Ints

Parts = Sequence[tuple[Table, Ints]]  # of each centre, the table and the rows it trains on

SAME = 1e-9  # of a column's deviation: how well sums that round must agree with exact ones,
ROUNDED = 1e-13  # and of its largest value, whose digits are all that there is to tell a small deviation from
LEAST = 5e-324  # the least float above 0: near it, agreed numbers have few digits


def apart(agreed: Agreed) -> list[str]:
    """Columns and classes of which the schema says something else than the rows that centres train on."""
    files, schema = agreed.files, agreed.schema
    parts = [(table, rows) for table, rows in zip(files.tables, files.train, strict=True) if len(rows)]
    found = [number.name for number in schema.numbers if not _same_number(number, parts)]
    for text in schema.texts:
        same = _counted(text.name, parts, schema.min_count) == (text.counts, text.other, text.missing)
        found += [] if same and sorted(text.counts) == list(text.counts) else [text.name]
    found += [name for name in schema.left_out if _says_something(name, parts, schema.min_count)]
    known = {*schema.kinds, *schema.left_out, schema.label}
    found += [name for name in files.tables[0].columns if name not in known]
    if schema.classes and not _same_classes(agreed):
        found.append(schema.label)
    return found


def _pooled(name: str, parts: Parts) -> Floats:
    return np.concatenate([table.columns[name].values[rows] for table, rows in parts])


def _same_number(number: NumberColumn, parts: Parts) -> bool:
    values = _pooled(number.name, parts)
    if number.sums.count != np.count_nonzero(~np.isnan(values)):
        return False
    largest = float(np.nanmax(np.abs(values))) or 1.0
    values = values / largest  # so that no square is too large, or too small, for a float
    filled = np.where(np.isnan(values), np.nanmean(values), values)
    mean, deviation = float(filled.mean()), float(filled.std())
    off = max(abs(mean - number.mean / largest), abs(deviation - number.deviation / largest))
    return off <= SAME * deviation + ROUNDED + LEAST / largest


def _says_something(name: str, parts: Parts, min_count: int) -> bool:
    """Whether there is a number, or a value that may be named."""
    kinds = {table.columns[name].kind for table, _ in parts}
    if "text" in kinds:
        return bool(_counted(name, parts, min_count)[0])
    return not np.isnan(_pooled(name, parts)).all()


def _counted(name: str, parts: Parts, min_count: int) -> tuple[dict[str, int], int, int]:
    """How often values are that a centre has often enough, and how many cells have others, or none."""
    named: Counter[str] = Counter()
    other = missing = 0
    for table, rows in parts:
        column = table.columns[name]
        cells = column.values[rows].tolist()
        own = Counter(column.levels[code] for code in cells if column.kind == "text" and code >= 0)
        often = {value: count for value, count in own.items() if count >= min_count}
        named.update(often)
        other += own.total() - sum(often.values())
        missing += len(cells) - own.total()
    return dict(named), other, missing


def _same_classes(agreed: Agreed) -> bool:
    """Whether each row's class has the name that its file has, and there are as many of each as was agreed."""
    schema, counts = agreed.schema, Counter[object]()
    for table, rows in zip(agreed.files.tables, agreed.files.train, strict=True):
        column = table.columns[schema.label]
        written = column.values[rows].tolist()
        names = [column.levels[code] for code in written] if column.kind == "text" else written
        if names != [schema.classes[number] for number in schema.targets(table, rows).tolist()]:
            return False
        counts.update(names)
    in_order = sorted(schema.classes) == list(schema.classes)
    return in_order and [counts[name] for name in schema.classes] == list(schema.class_counts)
