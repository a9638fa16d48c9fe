"""Data to train on: loaders by name, and ways to split the samples over nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise._moved import old_names
from equipoise.data.bundled import breast_cancer, digits
from equipoise.data.csv_file import csv
from equipoise.data.dataset import Dataset
from equipoise.data.mnist import mnist
from equipoise.data.shards import shards
from equipoise.data.split import SPLITS, split
from equipoise.errors import InputError, unknown_name

__all__ = [
    "LOADERS",
    "SPLITS",
    "Dataset",
    "Loader",
    "breast_cancer",
    "csv",
    "digits",
    "load",
    "mnist",
    "shards",
    "split",
]


@dataclass(frozen=True)
class Loader:
    """A function that returns a Dataset, the options it cannot do without, and those it also takes."""

    read: Callable[..., Dataset]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


# A new data set is a file with one function, and a line here.
LOADERS: dict[str, Loader] = {
    "breast_cancer": Loader(breast_cancer, takes=("seed",)),
    "csv": Loader(csv, needs=("path",), takes=("label", "seed")),
    "digits": Loader(digits, takes=("seed",)),
    "mnist": Loader(mnist, needs=("folder",)),
}

# How each option is written on the command line.
SPELLING = {"folder": "--data-dir DIR", "path": "--data-file FILE", "label": "the label column"}


def load(
    name: str,
    *,
    folder: str | Path | None = None,
    path: str | Path | None = None,
    label: str | None = None,
    seed: int = 0,
) -> Dataset:
    """The data set of this name; an option it needs and lacks, or has no use for, is refused."""
    if name not in LOADERS:
        raise unknown_name("data set", name, LOADERS)
    loader = LOADERS[name]
    options = {"folder": folder, "path": path, "label": label, "seed": seed}
    given = {option: value for option, value in options.items() if value is not None}
    for option in loader.needs:
        if option not in given:
            raise InputError(f"data set {name!r} is read from disk; say where with {SPELLING[option]}")
    usable = loader.needs + loader.takes
    for option in given:
        if option not in usable and option != "seed":
            raise InputError(f"data set {name!r} has no use for {SPELLING[option]} ({given[option]}); leave it out")
    return loader.read(**{option: value for option, value in given.items() if option in usable})


if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)  # names of 0.1.0
