"""What a run on own files keeps of them: the schema, how many rows, and what left each centre; no row."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from equipoise.certificate import Check
from equipoise.data.agreement import MIN_COUNT, key_of
from equipoise.data.own_files import Agreed
from equipoise.data.pooled import apart
from equipoise.data.schema import Schema
from equipoise.document import Plain, Row

if TYPE_CHECKING:
    from equipoise.train.exchange import LinkBits

MEANING = "columns and classes whose agreed counts, means or deviations are not those of all rows pooled, by NumPy"
SCHEMA, LEFT = "schema.json", "left.json"


@dataclass(frozen=True, eq=False)
class OwnData:
    """A schema, plain facts of the files, a row for each centre with what left it, and each centre's own words."""

    schema: Schema
    facts: dict[str, Plain]
    left: list[Row]
    words: list[Plain]

    @classmethod
    def of(cls, agreed: Agreed, bits: LinkBits) -> OwnData:
        """From what was agreed, and the bits that it took."""
        files, schema = agreed.files, agreed.schema
        sent = {node: int(bits.bits[bits.senders == node].sum()) for node in range(files.centres)}
        rows = []
        for centre, (table, left) in enumerate(zip(files.tables, agreed.left, strict=True)):
            texts = left.told["texts"].values()
            rows.append(
                {
                    "centre": centre,
                    "file": table.path.name,
                    "trained_on": len(files.train[centre]),
                    "held_out": len(files.held_out[centre]),
                    "column_names": 0 if files.terms.numbers_only else len(table.columns),
                    "class_names": len(left.told["label"]),  # also where the label is then found to be a quantity
                    "values_named": sum(len(named) for named, _, _ in texts),
                    "rows_unnamed": sum(other for _, other, _ in texts),
                    "sums": 2 * len(left.told["numbers"]),
                    "bytes": sent[centre] // 8,
                }
            )
        notes = {table.path: table.notes for table in files.tables}
        facts: dict[str, Plain] = {
            "files": [str(path) for path in notes],
            "digests": [*dict.fromkeys(table.digest for table in files.tables)],
            "one_centre_per_file": not files.terms.shared,
            "columns": {"numbers": len(schema.numbers), "text": len(schema.texts)},
            "features": schema.width,
            "classes": {str(name): count for name, count in zip(schema.classes, schema.class_counts, strict=True)},
            "min_count": schema.min_count,
            "numbers_only": files.terms.numbers_only,
            "left_out": list(schema.left_out),
            "alike": _all_different(agreed),
            "small": _small(agreed),
            "few": _few(agreed),
            "spelt": _spelt(schema),
            "notes": [[str(path), note] for path, told in notes.items() for note in told],
            "unlike_pooled": apart(agreed),
            "bits": bits.total,
            "links": len(bits.bits),
        }
        words = [{"announced": left.announced, "told": left.told} for left in agreed.left]
        return cls(schema, facts, rows, words)

    def check(self) -> Check:
        """Whether the schema is what all rows together say."""
        unlike = self.facts["unlike_pooled"]
        return Check.at_most("schema", len(unlike), 0.0, MEANING, ", ".join(unlike[:3]))

    def texts(self) -> dict[str, str]:
        """Files of the run folder: the schema, and word by word what each centre said of its own rows."""
        return {SCHEMA: self.schema.text(), LEFT: json.dumps(self.words, indent=1, ensure_ascii=False) + "\n"}


def _spelt(schema: Schema) -> list[tuple[str, list[str]]]:
    """Named values of a column that differ in case or spaces only, or are one number written in two ways."""
    found = []
    for column in schema.texts:
        alike: dict[object, list[str]] = {}
        for value in column.categories:
            number = re.fullmatch(r"[+-]?\d+(\.\d+)?", value)
            alike.setdefault(float(value) if number else "".join(value.casefold().split()), []).append(value)
        found += [(column.name, values) for values in alike.values() if values[1:]]
    return found


def _small(agreed: Agreed) -> list[str]:
    """Files of so few rows that their sums tell nearly what stands in them."""
    files = agreed.files
    pairs = [] if files.terms.shared else zip(files.tables, files.train, strict=True)
    return [table.path.name for table, rows in pairs if len(rows) < MIN_COUNT]


def _few(agreed: Agreed) -> list[Plain]:
    """File and column wherever so few numbers stand in the column that their sums tell nearly what they are."""
    files = agreed.files
    found: list[Plain] = []
    for table, rows, left in zip(files.tables, files.train, agreed.left, strict=True):
        for number in agreed.schema.numbers if len(rows) >= MIN_COUNT and not files.terms.shared else ():
            count, *_ = left.told["numbers"][key_of(number.name, files.terms)]
            found += [[table.path.name, number.name]] if 0 < count < MIN_COUNT else []
    return found


def _all_different(agreed: Agreed) -> list[str]:
    """Columns in which no file has a value twice, as in a column of ids."""
    tables, label = agreed.files.tables, agreed.schema.label
    names = [name for name in tables[0].columns if name != label]
    return [name for name in names if all(table.columns[name].different for table in tables)]
