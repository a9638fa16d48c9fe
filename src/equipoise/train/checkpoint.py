"""Keep a run on disk so that it can go on later, bit for bit as if it had never stopped."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np

from equipoise import __version__
from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray

FORMAT = 2
FIRST = "0.1.0"  # wrote format 1, and kept no version


def save_checkpoint(path: str | Path, memory: dict[str, AnyArray], fingerprint: str) -> None:
    """Write all arrays to one file; a kill in the middle leaves the previous checkpoint whole."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        kept = {
            "__format": np.array(FORMAT),
            "__version": np.array(__version__),
            "__fingerprint": np.array(fingerprint),
        }
        np.savez(file, **kept, **memory)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def load_checkpoint(path: str | Path, fingerprint: str) -> dict[str, AnyArray]:
    """Read a checkpoint of the same run; another run's is refused."""
    try:
        with np.load(path, allow_pickle=False) as file:
            memory = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise InputError(f"no checkpoint at {path}", code="checkpoint.missing") from None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError):
        raise InputError(
            f"{path} is not a checkpoint, or is damaged: start the run anew", code="checkpoint.damaged"
        ) from None
    if "__format" not in memory or "__fingerprint" not in memory:
        raise InputError(f"{path} is not a checkpoint: start the run anew", code="checkpoint.damaged")
    number, version = int(memory.pop("__format")), str(memory.pop("__version", FIRST))
    if number != FORMAT:
        raise InputError(
            f"{path} is a checkpoint of format {number} (version {version}); this version cannot go on from it: "
            "start the run anew",
            code="checkpoint.format",
        )
    theirs = str(memory.pop("__fingerprint"))
    if theirs != fingerprint:
        raise InputError(
            f"{path} belongs to another run, or its data has changed ({theirs}; this one is {fingerprint})",
            code="checkpoint.other",
        )
    return memory
