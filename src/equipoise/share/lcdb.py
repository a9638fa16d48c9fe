"""Read LCDB, the learning curve database (Mohr et al., ECML 2022; PyPI `lcdb`, file database-accuracy.csv).

Its curves are of another kind than ours: one model per training-set size ("anchor"), the mean over its outer and inner
seeds. A sample of the site is `unit` training samples.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.share.recording import Name, Recording

Floats = NDArray[np.float64]
Key = tuple[str, str]  # learner, OpenML data set
Anchors = dict[int, tuple[float, float, int]]  # training size: sum of errors, sum of held-out sizes, rows

NEEDED = ("openmlid", "learner", "size_train", "size_test", "score_test")
FEWEST = 5  # anchors; a shorter curve shows no shape


def read_lcdb(path: str | Path, unit: float = 1.0) -> Recording:
    """Every curve of an LCDB accuracy table with five anchors (of a sample or more); error = 1 - mean test score.

    A perfect mean score counts as half a wrong answer in all its tests, so that it has a logarithm.
    """
    if not (np.isfinite(unit) and unit > 0):
        raise InputError(f"read_lcdb: unit is {unit!r} training samples; expected a positive number")
    try:
        with _opened(Path(path)) as lines:
            tables = _sums(lines, str(path))
    except (OSError, EOFError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a CSV of LCDB: it is not text") from None
    usable = {key: {n: sums for n, sums in anchors.items() if n >= unit} for key, anchors in sorted(tables.items())}
    kept = {key: anchors for key, anchors in usable.items() if len(anchors) >= FEWEST}
    if not kept:
        raise InputError(f"{path}: no curve with {FEWEST} training sizes or more")
    names = [Name(learner, f"OpenML {data}", "", "mean of all") for learner, data in kept]
    return Recording.of([_curve(anchors, unit) for anchors in kept.values()], names)


def _opened(path: Path) -> TextIO:
    return gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="")


def _sums(lines: Iterable[str], path: str) -> dict[Key, Anchors]:
    """One pass over the table, which has two million rows: sums per learner, data set and training size."""
    rows = csv.reader(lines)
    header = next(rows, [])
    missing = [column for column in NEEDED if column not in header]
    if missing:
        raise InputError(f"{path} is not an LCDB table: no column {', '.join(missing)}; expected database-accuracy.csv")
    data, learner, train, test, score = (header.index(column) for column in NEEDED)
    tables: dict[Key, Anchors] = defaultdict(dict)
    for row in rows:
        try:
            size, held, value = int(row[train]), int(row[test]), float(row[score])
            key = (row[learner], row[data])
        except (ValueError, IndexError):
            raise InputError(f"{path}, line {rows.line_num}: a training size, test size or score is missing") from None
        if not (0.0 <= value <= 1.0 and size > 0 and held > 0):
            raise InputError(
                f"{path}, line {rows.line_num}: score {value:g} on {held} of {size}; expected an accuracy from 0 to 1"
                " and sizes of 1 or more (database-accuracy.csv)"
            )
        errors, tested, count = tables[key].get(size, (0.0, 0.0, 0))
        tables[key][size] = (errors + 1.0 - value, tested + held, count + 1)
    return tables


def _curve(anchors: Anchors, unit: float) -> tuple[Floats, Floats]:
    """Mean errors by size, in samples of the site."""
    sizes = sorted(anchors)
    errors, tested, counts = np.array([anchors[size] for size in sizes]).T
    return np.array(sizes) / unit, np.maximum(errors / counts, 0.5 / tested)
