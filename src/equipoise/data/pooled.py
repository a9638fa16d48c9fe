"""Whether an agreed schema is what all rows together say: found from the pooled rows, which only a simulation can see.

It shares no code with the agreement: sums are NumPy's, values are counted by name.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from equipoise.data.own_files import Agreed
from equipoise.kernels import Floats

SAME = 1e-9  # of the largest value of a column: how well sums that round must agree with exact ones


def apart(agreed: Agreed) -> list[str]:
    """Columns and classes of which the schema says something else than the rows that centres train on."""
    files, schema = agreed.files, agreed.schema
    parts = [(table, rows) for table, rows in zip(files.tables, files.train, strict=True) if len(rows)]
    found = []
    for number in schema.numbers:
        values: Floats = np.concatenate([table.columns[number.name].values[rows] for table, rows in parts])
        largest = float(np.nanmax(np.abs(values))) or 1.0
        values = values / largest  # so that no square is too large, or too small, for a float
        filled = np.where(np.isnan(values), np.nanmean(values), values)
        off = filled.mean() - number.mean / largest, filled.std() - number.deviation / largest
        if not max(map(abs, off)) <= SAME:
            found.append(number.name)
    for text in schema.texts:
        named: Counter[str] = Counter()
        for table, rows in parts:
            column = table.columns[text.name]
            own = Counter(
                column.levels[code] for code in column.values[rows].tolist() if column.kind == "text" and code >= 0
            )
            named.update({value: count for value, count in own.items() if count >= schema.min_count})
        if dict(named) != text.counts or sorted(named) != list(text.counts):
            found.append(text.name)
    if schema.classes and not _same_classes(agreed):
        found.append(schema.label)
    return found


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
    return [counts[name] for name in schema.classes] == list(schema.class_counts)
