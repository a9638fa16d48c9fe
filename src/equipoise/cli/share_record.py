"""What `equipoise share record` does: train real models with progress, write their curves, print what they are like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console

from equipoise.cli.output import metered
from equipoise.errors import InputError
from equipoise.share.recording import Name, Recording

POOR_FIT = 0.5  # R^2 below which a power law says little about a curve


def run_record(
    out: Path, repeats: int, models: list[str] | None, data: list[str] | None, seed: int, quiet: bool
) -> None:
    """Record, write, and say what was recorded."""
    if out.is_dir():
        raise InputError(f"{out} is a folder: name a file to write, such as {out / 'curves.csv.gz'}")
    if not out.absolute().parent.is_dir():
        raise InputError(f"cannot write {out}: {out.absolute().parent} is not a folder")
    recording = _record(repeats, models, data, seed, quiet)
    recording.save(out)
    if not quiet:
        from equipoise.present.terminal import key_numbers

        console = Console()
        console.print(key_numbers(recording_numbers(recording)))
        console.print(f"{out}")


def recording_numbers(recording: Recording) -> dict[str, str]:
    """The few numbers worth a line each."""
    from equipoise.share.recording import fit_lines

    lines = fit_lines(recording)
    fits, slopes = np.array([line.r_squared for line in lines]), np.array([line.b for line in lines])
    return {
        "curves": f"{len(recording)}, {len({name[:3] for name in recording.names})} kinds",
        "median R² of a power law": f"{np.median(fits):.2f}",
        f"R² below {POOR_FIT:g}": f"{np.mean(fits < POOR_FIT):.0%} of the curves",
        "slope b": f"{slopes.min():.2f} to {slopes.max():.2f}, median {np.median(slopes):.2f}",
    }


def _record(repeats: int, models: list[str] | None, data: list[str] | None, seed: int, quiet: bool) -> Recording:
    """Record with a progress bar on standard error."""
    from equipoise.share.record import record

    with metered("training", "curve", None, quiet=quiet) as meter:

        def show(done: int, total: int, name: Name) -> None:
            meter.show(done, total, note=f"{name.model} on {name.data}")

        return record(models, data, repeats, show, seed)
