"""Data to train on: loaders by name, and ways to split the samples over nodes.

A data set is a public function of a file in this folder that returns a `Dataset`, and is found by being there. Its
arguments are its options: those without a default are needed.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from equipoise._moved import old_names
from equipoise.data.csv_file import csv as csv
from equipoise.data.dataset import Dataset as Dataset, breast_cancer as breast_cancer, digits as digits
from equipoise.data.mnist import mnist as mnist
from equipoise.data.shards import shards as shards
from equipoise.data.split import SPLITS as SPLITS, split as split
from equipoise.errors import InputError, unknown_name

# How each option is written on the command line.
SPELLING = {"folder": "--data-dir DIR", "path": "--data-file FILE", "label": "the label column"}

LOADERS: dict[str, Loader]  # by name; made when asked for
OWN = ("LOADERS", "SPLITS", "Dataset", "Loader", "load", "shards", "split")


@dataclass(frozen=True)
class Loader:
    """A function that returns a Dataset, the options it cannot do without, and those it also takes."""

    read: Callable[..., Dataset]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


@cache
def loaders() -> dict[str, Loader]:
    """Every data set of this folder, by name."""
    found: dict[str, tuple[Path, Loader]] = {}
    for path in sorted(Path(__file__).parent.glob("[!_]*.py")):
        for name, read in vars(_imported(path)).items():
            if not inspect.isfunction(read) or name.startswith("_") or Path(inspect.getfile(read)) != path:
                continue
            if inspect.signature(read).return_annotation not in ("Dataset", Dataset):
                continue
            if name in found:
                raise InputError(
                    f"{path}: its data set is called {name!r}, as is that of {found[name][0]}; rename one",
                    code="registry.twice",
                )
            options = inspect.signature(read).parameters
            needs = tuple(option for option, stated in options.items() if stated.default is stated.empty)
            found[name] = (path, Loader(read, needs, tuple(option for option in options if option not in needs)))
    return {name: found[name][1] for name in sorted(found)}


def _imported(path: Path) -> object:
    try:
        return importlib.import_module(f"{__name__}.{path.stem}")
    except Exception as error:
        raise InputError(
            f"{path}: this data set does not load: {type(error).__name__}: {error}; correct the file, or remove it",
            code="registry.load",
        ) from error


def __getattr__(name: str) -> object:
    if name in ("LOADERS", "__all__"):
        return loaders() if name == "LOADERS" else [*OWN, *loaders()]
    return old_names(__name__)(name)


def load(
    name: str,
    *,
    folder: str | Path | None = None,
    path: str | Path | None = None,
    label: str | None = None,
    seed: int = 0,
) -> Dataset:
    """The data set of this name; an option it needs and lacks, or has no use for, is refused.

    Parameters
    ----------
    name
        Of a function that returns a data set, such as "digits".
    folder
        Where the files of a data set such as "mnist" lie.
    path
        The file of a data set such as "csv".
    label
        The label column of that file; the last one if None.
    seed
        Draws what is held out.
    """
    known = loaders()
    if name not in known:
        raise unknown_name("data set", name, known)
    loader = known[name]
    options = {"folder": folder, "path": path, "label": label, "seed": seed}
    given = {option: value for option, value in options.items() if value is not None}
    for option in loader.needs:
        if option not in given:
            raise InputError(
                f"data set {name!r} is read from disk; say where with {SPELLING[option]}", code="dataset.place"
            )
    usable = loader.needs + loader.takes
    for option in given:
        if option not in usable and option != "seed":
            raise InputError(
                f"data set {name!r} has no use for {SPELLING[option]} ({given[option]}); leave it out",
                code="dataset.unused",
            )
    return loader.read(**{option: value for option, value in given.items() if option in usable})
