"""`equipoise doctor` as a user meets it: by its output and exit code."""

import contextlib
import io
import json
import sys
from importlib import metadata

import pytest

from equipoise.cli import main
from equipoise.engine import doctor
from equipoise.engine.cpu_limit import KINDS, available
from equipoise.engine.cpu_limit.limiters import Availability
from equipoise.engine.doctor import Measured


def run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["equipoise", "doctor", *words])
    monkeypatch.setenv("COLUMNS", "200")
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit) as left:
        main()
    return left.value.code, out.getvalue()


def test_json_has_the_machine_every_kind_and_what_was_measured(monkeypatch):
    """Nothing but JSON; kinds that work were measured at the three shares, and no ceiling was broken by much."""
    code, out = run(monkeypatch, "--quick", "--json")
    told = json.loads(out)
    result = told["result"]
    assert (told["verb"], told["config"]) == ("doctor", {"quick": True})
    assert [kind["kind"] for kind in result["kinds"]] == list(KINDS)
    assert {kind["kind"]: kind["missing"] for kind in result["kinds"]} == {one.kind: one.missing for one in available()}
    for kind in result["kinds"]:
        if kind["works"] and kind["kind"] != "none":
            assert [row["asked"] for row in kind["measured"]] == list(doctor.SHARES)
            assert all(0 < row["got"] <= row["asked"] + 0.25 for row in kind["measured"])
        else:
            assert kind["measured"] == []
    assert result["machine"]["cores"] >= 1 and result["machine"]["memory_gib"] > 0
    assert result["extras"]["joblib"] == metadata.version("joblib")
    assert code == 0


def test_the_table_says_what_works_and_what_is_missing(monkeypatch):
    """A stand-in for the measuring: figures, reasons and the pick are on the page."""

    def measured(cpu, share, seconds):
        return Measured(cpu.name, share, share - 0.05, seconds, 0.0, 0.01)

    kinds = [Availability("systemd", "", "systemd is not running here"), Availability("stop", "", "")]
    monkeypatch.setattr(doctor, "available", lambda: kinds)
    monkeypatch.setattr(doctor, "measure", measured)
    code, out = run(monkeypatch)
    assert code == 0
    assert "systemd is not running here" in out
    assert all(f"{share - 0.05:.3f}" in out for share in doctor.SHARES)
    assert "0.05 short of" in out and "0.00 cores idle" in out
    assert "picked where none is named: stop" in out


def test_exit_1_when_nothing_can_be_held(monkeypatch):
    """Only `none` is left: the doctor says so and fails."""
    kinds = [Availability("stop", "", "there is no /proc here"), Availability("none", "", "")]
    monkeypatch.setattr(doctor, "available", lambda: kinds)
    code, out = run(monkeypatch)
    assert code == 1
    assert "nothing here can hold a process" in out


def test_what_is_not_installed_is_told_without_an_import(monkeypatch):
    """The version comes from the package's metadata; an absent one is `not installed`, and ray is never loaded."""
    monkeypatch.setattr(doctor, "EXTRAS", {"Ray": "ray", "nothing": "no-such-package-at-all"})
    before = set(sys.modules)
    found = doctor.extras()
    assert found["nothing"] is None
    assert not {"ray", "torch"} & (set(sys.modules) - before)
