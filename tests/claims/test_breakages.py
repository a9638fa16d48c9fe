"""The ledger fails visibly when what it measures is broken: one deliberate breakage for every verb, through the command."""

import json

import numpy as np
import pytest

from equipoise.cli.reproduce import app
from equipoise.place.planner.rounding import Rounding
from equipoise.share import published
from equipoise.train.state import State


def a_unit_is_lost(monkeypatch):
    """train: in round 7 the first centre drops the smallest unit of CPU there is."""
    play = State.advance

    def leak(self, round, number):
        diverged = play(self, round, number)
        if number == 7 and self.allocation is not None:
            self.allocation.units[0] -= 1
        return diverged

    monkeypatch.setattr(State, "advance", leak)


def another_generator(monkeypatch):
    """share: the authors' generator starts from another seed."""
    monkeypatch.setattr(published, "SEED", 43)


def capacity_is_not_checked(monkeypatch):
    """place: every draw of the randomised rounding is taken to fit."""
    monkeypatch.setattr(Rounding, "_feasible", lambda self, drawn, width: np.ones(len(drawn), dtype=bool))


BREAKAGES = {
    "feasible-at-all-times": a_unit_is_lost,
    "published-run": another_generator,
    "rounding-success-rate": capacity_is_not_checked,
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_breakage_shows(name, monkeypatch, tmp_path, capsys):
    """Sound, the claim passes; broken, it is named in the terminal, on the page and in a certificate that fails."""
    words = [name, "--quick", "--workers", "1", "--out"]
    assert app([*words, str(tmp_path / "sound")], standalone_mode=False) == 0
    assert "changed" not in capsys.readouterr().out.lower()
    BREAKAGES[name](monkeypatch)
    assert app([*words, str(tmp_path / "broken")], standalone_mode=False) == 1
    assert "Changed since it was recorded." in capsys.readouterr().out
    (folder,) = (tmp_path / "broken").iterdir()
    content = json.loads((folder / "result.json").read_text())
    assert content["certificate"]["checks"][1]["name"] == "recorded" and not content["certificate"]["passed"]
    assert content["result"]["claims"][0]["changed"]
    assert "Changed since it was recorded" in (folder / "report.html").read_text()
