"""A table of the user's own as one data set, for methods that take arrays; runs on own files keep more (own_files.py)."""

from pathlib import Path

import numpy as np
from scipy.sparse import issparse

from equipoise.data.agreement import Place, Task
from equipoise.data.dataset import Dataset
from equipoise.data.own_files import OwnFiles
from equipoise.errors import InputError, unknown_name

TASKS = ("auto", "classification", "regression")


def csv(
    path: str | Path, label: str | None = None, task: Task = "auto", test_fraction: float = 0.2, seed: int = 0
) -> Dataset:
    """Read a table; the label is the named column, or the last. Features are scaled by the training part.

    A header is optional. Text labels become classes in sorted order; task="auto" also takes integers of at most 20
    distinct values for classes, and any other numbers for a regression target. Columns of text become one column per value.
    """
    if task not in TASKS:
        raise unknown_name("task", task, TASKS)
    own = OwnFiles.read([path], label=label, task=task, held_out=test_fraction, seed=seed)
    agreed = own.agreed({0: Place(None, (), (), None)}, _Nobody())
    ((X, y),), (X_test, y_test) = agreed.shards(), agreed.held_out()
    dense = [part.toarray() if issparse(part) else np.asarray(part) for part in (X, X_test)]
    return Dataset(own.tables[0].path.stem, dense[0], y, dense[1], y_test, len(agreed.schema.classes))


class _Nobody:
    """One centre has nobody to send anything to."""

    def deliver(self, sent: object) -> dict[tuple[int, int], bytes]:
        raise InputError("a centre that is alone sent a message", code="dataset.alone")
