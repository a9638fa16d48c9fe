"""Keep a run on disk so that it can go on later, bit for bit as if it had never stopped."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np

from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray

FORMAT = 1


def save_checkpoint(path: str | Path, memory: dict[str, AnyArray], fingerprint: str) -> None:
    """Write all arrays to one file; a kill in the middle leaves the previous checkpoint whole."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        np.savez(file, __format=np.array(FORMAT), __fingerprint=np.array(fingerprint), **memory)  # type: ignore[arg-type]
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
    if "__format" not in memory or int(memory.pop("__format")) != FORMAT:
        raise InputError(f"{path} is not a checkpoint of this version: start the run anew")
    theirs = str(memory.pop("__fingerprint"))
    if theirs != fingerprint:
        raise InputError(
            f"{path} belongs to another run ({theirs}; this one is {fingerprint})", code="checkpoint.other"
        )
    return memory
