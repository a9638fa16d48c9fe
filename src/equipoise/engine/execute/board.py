"""What task processes write and their driver reads: memory shared by both, gone when the last of them is.

A row a task: how many units it has done, its last error, the CPU it took, how it ended; and every error in order.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EMPTY, READY, WORKING, REACHED, ENOUGH, ENDED, RAISED, NOT_A_NUMBER = range(8)
OVER = (REACHED, ENOUGH, ENDED, RAISED, NOT_A_NUMBER)  # nothing more will come
ERRORS_MOST = 20_000  # errors kept of a task; later ones show only as its last
MESSAGE_MOST = 1_800  # bytes of a traceback's end

ROW = np.dtype(
    [
        ("status", np.int64),
        ("units", np.int64),
        ("error", np.float64),
        ("cpu", np.float64),  # seconds of CPU that its units took
        ("at", np.float64),  # when the last unit was done, on the clock that all processes share (time.monotonic)
        ("exit", np.int64),  # as waitpid tells, plus EXITED; 0: it has not exited
        ("message", f"S{MESSAGE_MOST}"),
    ]
)
EXITED = 1_000_000


class Board:
    """Rows and errors of so many tasks, on a file without a name that child processes inherit."""

    def __init__(self, slots: int, handle: int | None = None) -> None:
        self.slots = slots
        size = slots * (ROW.itemsize + 8 * ERRORS_MOST)
        if handle is None:
            self.handle = _nameless()
            os.ftruncate(self.handle, size)
        else:
            self.handle = handle
        memory = mmap.mmap(self.handle, size)
        self.rows: NDArray[np.void] = np.frombuffer(memory, ROW, slots)
        errors = np.frombuffer(memory, np.float64, slots * ERRORS_MOST, slots * ROW.itemsize)
        self.errors: Floats = errors.reshape(slots, ERRORS_MOST)

    def clear(self, slot: int) -> None:
        self.rows[slot] = np.zeros((), ROW)

    def seen(self, slot: int) -> Floats:
        """A copy of the errors so far."""
        return self.errors[slot, : min(int(self.rows[slot]["units"]), ERRORS_MOST)].copy()

    def say(self, slot: int, status: int, message: str = "") -> None:
        """The message first: who reads the status may read it."""
        row: Any = self.rows[slot]
        row["message"] = message.encode(errors="replace")[-MESSAGE_MOST:]
        row["status"] = status

    def message(self, slot: int) -> str:
        return bytes(self.rows[slot]["message"]).decode(errors="replace").strip()

    def close(self) -> None:
        os.close(self.handle)


def _nameless() -> int:
    """A file in memory, or where there is none a temporary one that has lost its name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("equipoise-board")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
