"""A terminal of 80 columns: no line of any verb is longer, and no number is cut."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import pytest

from equipoise.cli import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
COMMANDS = {
    "train": "train --data none --nodes 12 --rounds 60",
    "train with faults": "train --data none --nodes 12 --rounds 60 --loss 0.3 --crash 3@20",
    "train analyse": "train analyse --data none --nodes 8",
    "train compare": "train compare --seeds 2 --nodes 6 --rounds 40",
    "share": "share --loads 4,8,12,16,20,24 --seeds 3 --oracle 0",
    "share bundles": "share bundles --loads 3,4 --units 30 --seeds 2",
    "place": f"place {EXAMPLES}/jobs.yaml --cluster {EXAMPLES}/cluster.yaml --slots 12 --policy srtf,drf,fifo",
    "place bound": f"place bound {EXAMPLES}/jobs.yaml --cluster {EXAMPLES}/cluster.yaml --slots 12",
    "reproduce": "reproduce --list",
    "doctor": "doctor --quick",
}
WIDTH = 80


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_prints_fits_80_columns(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are dropped and words are wrapped; an ellipsis would be a number or a name that nobody can read."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["equipoise", *COMMANDS[name].split()])
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit) as left:
        main()
    printed = out.getvalue()
    assert left.value.code in (0, 1) and printed
    too_long = [line for line in printed.splitlines() if len(line.rstrip()) > WIDTH and "runs/" not in line]
    assert not too_long
    assert "…" not in printed
