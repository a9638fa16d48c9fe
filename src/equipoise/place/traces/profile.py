"""How fast real models train and how long their gradients take, distilled once from measured profiles.

Source: the placements files of petuum/adaptdl, branch osdi21-artifact (a row: GPUs per node, samples per GPU and step,
seconds per step, seconds of it spent synchronising). `distil` is how; the files are not needed afterwards.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from equipoise.errors import InputError

NOMINAL_GRADIENT = 1e8  # bytes; only gradient / bandwidth enters the rate, and only that was measured


@dataclass(frozen=True)
class Profile:
    """Seconds: per sample on one GPU, and to move one gradient one way inside a node and between nodes."""

    model: str
    per_sample: float  # tau
    inside: float  # g / b_i
    between: float  # g / b_e
    local_batch: int  # samples per GPU and step


PROFILES: tuple[Profile, ...] = (
    Profile("bert", 0.075652, 0.058745, 0.52842, 12),
    Profile("cifar10", 0.00068516, 0.0049174, 0.039906, 1024),
    Profile("deepspeech2", 0.031738, 0.062183, 0.18148, 80),
    Profile("yolov3", 0.035629, 0.025135, 0.42666, 16),
)


def distil(path: Path) -> Profile:
    """A profile from one placements file.

    tau: (step - sync) / batch at the largest batch one GPU was measured with. Then the synchronisation time over the
    ring's 2 (w - 1) / w, its median over all batch sizes and placements of two GPUs or more, on one node and on several.
    """
    with path.open(newline="", encoding="utf-8") as file:
        rows = [
            (r["placement"], int(r["local_bsz"]), float(r["step_time"]), float(r["sync_time"]))
            for r in csv.DictReader(file)
        ]
    batch, step, sync = max((b, step, sync) for placement, b, step, sync in rows if placement == "1")
    return Profile(
        model=path.name.removesuffix("-placements.csv"),
        per_sample=(step - sync) / batch,
        inside=_exchange([(p, sync) for p, _, _, sync in rows if len(p) == 1 and p != "1"], path),
        between=_exchange([(p, sync) for p, _, _, sync in rows if len(p) > 1], path),
        local_batch=batch,
    )


def _exchange(measured: Sequence[tuple[str, float]], path: Path) -> float:
    if not measured:
        raise InputError(f"{path}: no placements on one node and on several; expected both")
    widths = [sum(map(int, placement)) for placement, _ in measured]
    return median(sync / (2.0 * (w - 1) / w) for w, (_, sync) in zip(widths, measured, strict=True))
