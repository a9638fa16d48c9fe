"""What version 0.1.0 wrote still loads, and repeats: result folders, config.yaml and a service's store."""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import equipoise
from equipoise.document import Row
from equipoise.engine.real_clock import ExecuteSpec
from equipoise.share import Site, Workload
from equipoise.share.spec import RENAMED, ShareSpec

RECORDED = Path(__file__).parent / "recorded" / "0.1.0"
FOLDERS = sorted(path.parent.name for path in RECORDED.glob("*/result.json"))
REAL_CLOCK = ("share-execute",)  # what was measured on a clock does not repeat
# Prices and models go over links, or in other codes: nothing plays what 0.1.0 did there. Re-planning in place keeps dates.
CHANGED = (
    "train",
    "train-quadratic",
    "train-couple",
    "train-mlp",
    "train-compare",
    "train-study",
    "train-hostile",
    "place",
)
REMOVED = ("share-ladder",)
TIMES = ("seconds", "cpu_seconds", "wall")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "equipoise", *words], capture_output=True, text=True, env=dict(os.environ), check=False
    )


def differences(recorded: object, found: object, path: str = "") -> list[str]:
    """Every recorded value that is not found again. New keys may stand beside the old ones."""
    if isinstance(recorded, dict):
        if not isinstance(found, dict):
            return [f"{path}: {recorded!r} is now {found!r}"]
        keys = [key for key in recorded if key not in TIMES]
        return [line for key in keys for line in differences(recorded[key], found.get(key), f"{path}/{key}")]
    if isinstance(recorded, list):
        if not isinstance(found, list) or len(found) != len(recorded):
            return [f"{path}: {recorded!r} is now {found!r}"]
        pairs = enumerate(zip(recorded, found, strict=True))
        return [line for k, (old, new) in pairs for line in differences(old, new, f"{path}/{k}")]
    if isinstance(recorded, (int, float)) and isinstance(found, (int, float)):
        same = found == pytest.approx(recorded, rel=1e-6, abs=1e-9)  # another processor sums in another order
    else:
        same = recorded == found or isinstance(recorded, str)  # sentences may be said better
    return [] if same else [f"{path}: {recorded!r} is now {found!r}"]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_recorded_folder_loads(name: str) -> None:
    """`equipoise.load` reads what 0.1.0 wrote: the verb, the version, the certificate and every row."""
    written = json.loads((RECORDED / name / "result.json").read_text())
    document = equipoise.load(RECORDED / name)
    assert (document.verb, document.version) == (written["verb"], "0.1.0")
    assert document.result == written["result"]
    assert document.certificate is not None
    assert [check.name for check in document.certificate] == [c["name"] for c in written["certificate"]["checks"]]
    lines = (RECORDED / name / "history.csv").read_text().splitlines()
    assert len(document.rows("history")) == len(lines) - 1
    assert name in repr(document) or document.verb in repr(document)


def test_the_settings_of_a_recorded_execution_are_a_spec_of_today() -> None:
    """Its clock does not repeat; its config.yaml is read, builds the same site and tasks, and is written as it was,
    but for the names of policies."""
    with pytest.warns(UserWarning, match="which it was in 0.1.0"):
        spec = ExecuteSpec.from_yaml(RECORDED / "share-execute" / "config.yaml")
    written = json.loads((RECORDED / "share-execute" / "result.json").read_text())
    names = [RENAMED.get(name, name) for name in written["config"]["policies"]]
    assert spec.plain() == written["config"] | {"policies": names}
    assert spec.build().title == "4 training processes on 1 CPUs, steps of 0.4 s, 1 seed"


def repeated(name: str, folder: Path, *words: str) -> tuple[Row, Row]:
    """What 0.1.0 wrote, and what its config.yaml gives now, with these words added."""
    written = json.loads((RECORDED / name / "result.json").read_text())
    config = str(RECORDED / name / "config.yaml")
    done = run(*written["verb"].split(), "--config", config, "--json", "--out", str(folder), *words)
    assert done.returncode == 0, done.stderr
    (made,) = folder.iterdir()
    return written, json.loads((made / "result.json").read_text())


@pytest.mark.parametrize("name", CHANGED)
def test_a_recorded_run_of_other_dynamics_passes(name: str, tmp_path: Path) -> None:
    """`--config` of a file that 0.1.0 wrote runs as it is, by the dynamics of today, and its certificate passes."""
    written, found = repeated(name, tmp_path)
    assert found["certificate"]["passed"] and differences(written["config"], found["config"]) == []
    if name == "place":  # who never re-planned does what it did
        old, new = (
            [row for row in one["result"]["rows"] if not row["policy"].startswith("PDORS")] for one in (written, found)
        )
        assert old and differences(old, new) == []


def test_a_recorded_comparison_repeats_under_new_names(tmp_path: Path) -> None:
    """Seed by seed what 0.1.0 called Uniform, LARA, ... succeeds, costs, sends and idles as it did, as Described....

    Latency counts one step less: to the step of success, not to the one after it. Hybrid decides otherwise now, and who
    looks at errors sees other noise (both values of a pair are used): of their runs only the bound is as it was.
    """
    _, found = repeated("share", tmp_path)
    (folder,) = tmp_path.iterdir()
    old, new = (_by_seed(path / "history.csv") for path in (RECORDED / "share", folder))
    assert {(RENAMED.get(policy, policy), *rest) for policy, *rest in old} == set(new)
    told = 0
    for (policy, *rest), row in old.items():
        again, told = new[RENAMED.get(policy, policy), *rest], told + 1
        assert again["oracle"] == row["oracle"]
        if policy not in ("Hybrid", "LARA", "UARA+LARA"):
            for measure in ("success", "energy", "network", "idle_while_work"):
                assert float(again[measure]) == pytest.approx(float(row[measure]), rel=1e-6, abs=1e-9)
            if row["latency"]:
                assert float(again["latency"]) == pytest.approx(float(row["latency"]) - 1.0)
    assert told > 50
    failed = [check["name"] for check in found["certificate"]["checks"] if not check["passed"]]
    assert failed == []


def _by_seed(path: Path) -> dict[tuple[str, ...], dict[str, str]]:
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {(row["policy"], row["load"], row["seed"]): row for row in rows}


def test_a_study_that_is_not_there_any_more_is_read_and_its_repetition_refused(tmp_path: Path) -> None:
    """A ladder of 0.1.0 loads as rows; its command is refused in one line that says what to play instead."""
    assert {row["rung"] for row in equipoise.load(RECORDED / "share-ladder").rows("rows")} >= {"no network", "+ delay"}
    done = run("share", "ladder", "--config", str(RECORDED / "share-ladder" / "config.yaml"), "--out", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "equipoise share --preset described" in done.stderr and not list(tmp_path.iterdir())


def test_the_settings_of_a_recorded_comparison_get_the_names_of_today() -> None:
    """Every policy with a note; the preset `paper` is `described`, with the site that stands in the file."""
    with pytest.warns(UserWarning, match="which it was in 0.1.0") as notes:
        spec = ShareSpec.from_yaml(RECORDED / "share" / "config.yaml")
    told = [RENAMED[name] for name in ("Uniform", "LARA", "UARA", "UARA+LARA", "UniformCorrected")]
    read = [str(note.message).split(" is read as ")[1].partition(", which it was")[0] for note in notes]
    assert read == told
    assert spec.policies == [*told[:1], "SDF", *told[1:], "Hybrid"]
    assert spec.preset == "described"
    scene = spec.build()
    assert scene.workload == Workload.described() and scene.site == Site()


def test_a_file_of_0_1_0_that_names_no_preset_and_no_policies_means_what_it_meant(tmp_path: Path) -> None:
    """Described, with a note that says how to ask for today's meaning; a file of today means the authors' preset."""
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text("loads: [5]\n")
    new.write_text(f"version: {equipoise.__version__}\nloads: [5]\n")
    with pytest.warns(UserWarning, match="no preset is read as described.*version: 0.2.0") as notes:
        spec = ShareSpec.from_yaml(old)
    assert len(notes) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        today = ShareSpec.from_yaml(new)
    assert spec.preset == "described" and spec.policies[0] == "DescribedUniform" and spec.policies[-1] == "Hybrid"
    assert today.preset == "authors" and today.policies[0] == "Uniform"
    old.write_text("preset: paper\npolicies: [published, UARALARACorrected, LARA:clairvoyant]\n")
    with pytest.warns(UserWarning, match="which it was in 0.1.0"):
        spec = ShareSpec.from_yaml(old)
    described = ["DescribedUniform", "SDF", "DescribedLARA", "DescribedUARA", "DescribedUARA+LARA"]
    assert spec.policies == [*described, "DescribedUARA+LARA:corrected", "DescribedLARA:clairvoyant"]


@pytest.mark.parametrize("name", [name for name in FOLDERS if name not in (*REAL_CLOCK, *CHANGED, *REMOVED, "share")])
def test_a_recorded_run_repeats(name: str, tmp_path: Path) -> None:
    """`--config` of a file that 0.1.0 wrote gives the numbers that 0.1.0 gave."""
    written, found = repeated(name, tmp_path)
    assert differences(written["result"], found["result"]) == []
    checks = {check["name"]: check["passed"] for check in found["certificate"]["checks"]}
    assert {c["name"]: c["passed"] for c in written["certificate"]["checks"]} == checks
    assert differences(written["config"], found["config"]) == []


def test_a_recorded_store_is_proved_and_shows_its_jobs(tmp_path: Path) -> None:
    """Fifty events that 0.1.0 stored: the log replays to the state, and the jobs are those that were."""
    database = tmp_path / "store.db"
    database.write_bytes(gzip.decompress((RECORDED / "store.db.gz").read_bytes()))
    done = run("serve", "--store", f"sqlite:///{database}", "--verify-log")
    assert done.returncode == 0, done.stderr
    from equipoise.serve.store import open_store

    store = open_store(f"sqlite:///{database}")
    try:
        states = {row.id: row.state for row in store.jobs(limit=100)}
    finally:
        store.close()
    assert len(states) == 16
    assert (states["j2"], states["j3"]) == ("finished", "cancelled")
    assert {state for job, state in states.items() if job not in ("j2", "j3")} == {"admitted"}
