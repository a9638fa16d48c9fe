"""What every result can do: become a document, be written, framed and drawn. `Result.save` is the only writer of results."""

from __future__ import annotations

import hashlib
import html
import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise import present
from equipoise.document import ARRAYS, CONFIG, REPORT, RESULT, Document, csv_files, read, write_table
from equipoise.errors import InputError
from equipoise.frames import Frame, frame_of
from equipoise.spec import Spec, config_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure as PaperFigure

ROOM = 8 * 2**20  # bytes that a run folder may need: the page has its chart library inside
SHOWN = 10  # rows of a table in a notebook


class Result(ABC):
    """A result of any verb. Who builds one from a spec keeps the spec in it, and the folder gets its config.yaml."""

    spec: Spec | None = None

    @abstractmethod
    def document(self, *, certify: bool = True) -> Document:
        """This result as plain values.

        Parameters
        ----------
        certify
            Whether to make the certificate too, which may take a moment.
        """

    def settings(self) -> dict[str, object]:
        """The settings of the spec, as a document's config holds them; empty without a spec."""
        return {} if self.spec is None else dict(self.spec.plain())

    def to_frame(self, table: str | None = None) -> Frame:
        """A pandas frame.

        Parameters
        ----------
        table
            The name of a table (`document().names` has them all); None for the main one.
        """
        return frame_of(self.document(certify=False).rows(table))

    def plot(self, *, width: str = "column", **choices: object) -> PaperFigure:
        """A matplotlib Figure for a paper.

        Parameters
        ----------
        width
            "column" or "page" of the paper.
        choices
            What to draw, by kind of result: see docs/interop.md.
        """
        return present.draw(self.document(certify=False), width=width, **choices)

    def to_csv(self, path: str | Path, table: str | None = None) -> None:
        """The main table, or the one of this name, as CSV; `equipoise.load` reads it back."""
        write_table(Path(path), self.document(certify=False).rows(table))

    def to_json(self, path: str | Path) -> None:
        """Result, certificate and every table in one file; `equipoise.load` reads it back."""
        _guarded(Path(path), partial(_write_text, text=self.document().text(tables=True)))

    def save(self, folder: str | Path, *, report: bool = True) -> Path:
        """Write a run folder, the same from Python and from the command line.

        Tables become CSV files, arrays arrays.npz, settings config.yaml, and the page report.html; result.json is
        written last, so a folder without it is no result. If something cannot be written, nothing is left.

        Parameters
        ----------
        folder
            Where; made if it is not there.
        report
            Whether to write the page, for a verb that has one.

        Returns
        -------
        Path
            The folder.
        """
        document, home = self.document(), Path(folder)
        made = not home.exists()
        _make(home)
        with suppress(FileNotFoundError):
            (home / RESULT).unlink()  # an older result is none as soon as its other files change
        parts: dict[str, Callable[[Path], object]] = {
            **{
                name: partial(write_table, rows=rows, heads=heads)
                for name, (rows, heads) in csv_files(document).items()
            },
            **{name: partial(_write_text, text=text) for name, text in document.files.items()},
        }
        if document.arrays:
            parts[ARRAYS] = lambda path: np.savez_compressed(path, **document.arrays)  # type: ignore[arg-type]
        if document.config:
            parts[CONFIG] = partial(_write_text, text=config_text(document.config))
        if report and document.verb in present.PAGES:
            parts[REPORT] = partial(_write_text, text=present.report(document))
        parts[RESULT] = partial(_write_last, text=document.text())
        try:
            for name, write in parts.items():
                _guarded(home / name, write)
        except BaseException:
            if made:
                shutil.rmtree(home, ignore_errors=True)
            for name in parts:
                with suppress(OSError):
                    (home / name).unlink()
            raise
        return home

    def _repr_html_(self) -> str:
        """For notebooks: what it is and the first rows of its main table."""
        document = self.document(certify=False)
        head = f"<p><b>{html.escape(document.verb)}</b>: {html.escape(repr(self))}</p>"
        rows = document.rows()[:SHOWN] if document.names else []
        if not rows:
            return head
        names = list(dict.fromkeys(name for row in rows for name in row))
        top = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_cell(row.get(name)))}</td>" for name in names) + "</tr>"
            for row in rows
        )
        return f"{head}<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


class Loaded(Document, Result):
    """A document that came from disk: it can be framed, drawn and saved again."""

    def document(self, *, certify: bool = True) -> Document:
        return self

    def to_sklearn(self, centre: int | None = None) -> Any:
        """Of a training run: its model as a fitted scikit-learn estimator; of own files, with all that goes before it.

        Parameters
        ----------
        centre
            Whose model; the average over centres if None.
        """
        # Only train knows its models; by name, since it stands above this module.
        trained = import_module("equipoise.train.prediction").Trained.load(self, centre)
        return import_module("equipoise.train.as_sklearn").estimator(trained)


def load(path: str | Path) -> Loaded:
    """What a run left behind, as plain values with `rows`, `to_frame()` and `plot()`.

    Parameters
    ----------
    path
        A run folder (`runs/train-...`, or one of `save`), its result.json, a file of `to_json`, or a CSV table.
    """
    return Loaded(**vars(read(path)))


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


# Folders of runs.

_NEW_ROOTS: set[Path] = set()  # folders of run folders that this process has made


def new_folder(root: Path, verb: str, config: Mapping[str, object], *, room: int = ROOM) -> Path:
    """Make `root/<verb>-<time>-<id>`, never one that exists, and see before the run that results can be written there.

    Parameters
    ----------
    root
        Where run folders are made.
    verb
        What is run; its spaces become "-".
    config
        The settings; a short id is made of them.
    room
        Bytes that must be free.
    """
    if root.exists() and not root.is_dir():
        raise InputError(f"--out {root} is a file: name a folder", code="disk")
    if not root.exists():
        _NEW_ROOTS.add(root)
    name = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode()).hexdigest()[:6]
    base = f"{verb.replace(' ', '-')}-{datetime.now():%Y%m%d-%H%M%S}-{name}"
    count = 1
    while True:
        folder = root / (base if count == 1 else f"{base}-{count}")
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            count += 1
        except OSError as error:
            raise _unusable(folder, error) from None
    try:
        check_room(folder, room)
    except InputError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def drop_if_empty(folder: Path) -> None:
    """Remove a run folder in which nothing was written, such as after an error, and the one above if that is new too."""
    with suppress(OSError):
        folder.rmdir()
        if folder.parent in _NEW_ROOTS:
            folder.parent.rmdir()


def check_room(folder: Path, room: int = ROOM) -> None:
    """One line for a folder that cannot be written or has too little room, before hours are spent."""
    probe = folder / ".room"
    try:
        probe.write_bytes(b"\0" * 4096)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise _unusable(folder, error) from None
    finally:
        with suppress(OSError):
            probe.unlink()
    if free < room:
        raise InputError(
            f"{folder}: {free / 2**20:.1f} MB free, a result may need {room / 2**20:.0f} MB; choose another with --out",
            code="disk",
        )


def _unusable(folder: Path, error: OSError) -> InputError:
    return InputError(f"cannot make the run folder {folder}: {error.strerror}; choose another with --out", code="disk")


def _make(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{home}: cannot be made a folder ({error.strerror}); name another", code="disk") from None


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _write_last(path: Path, text: str) -> None:
    """All of the file or nothing of it, also when power fails."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink()


def _guarded(path: Path, write: Callable[[Path], object]) -> None:
    try:
        write(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); name another folder", code="disk") from None
