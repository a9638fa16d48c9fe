"""A service that is killed at the worst moments keeps every word it gave. `benchmarks/serve/kills.py` does this for longer.

Truth comes from outside the server: what clients were answered, and a model of the log in plain integers (`log_model`).
"""

from __future__ import annotations

import copy
import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from kill_checks import Witness
from kill_clients import Ledger, Request
from killing import Killing, Server, killing
from log_model import Broken, LogModel
from postgres import postgres, postgres_url  # noqa: F401

MOMENTS = ("start", "commit", "committed", "any", "stop", "committed", "sent", "start", "commit", "sent")


def kept_its_word(url: str, folder: Path, seed: int) -> None:
    tally = killing(url, folder, kills=len(MOMENTS), seed=seed, moments=MOMENTS)
    assert tally["kills"] == len(MOMENTS)
    assert tally["kills that hit a request in flight"] >= 3  # else the kills came at harmless moments
    assert tally["submissions acknowledged"] >= 50
    assert tally["verify-log passes"] == 2


def test_nothing_acknowledged_is_lost_or_doubled_on_sqlite(tmp_path: Path) -> None:
    """Ten kills: at start, in commits, between request and answer, while stopping. Then the log is replayed and verified."""
    kept_its_word(f"sqlite:///{tmp_path}/store.db", tmp_path, seed=11)


def test_nothing_acknowledged_is_lost_or_doubled_on_postgresql(postgres_url: str, tmp_path: Path) -> None:  # noqa: F811
    """The same ten moments, with the database in a process that outlives the server."""
    kept_its_word(postgres_url, tmp_path, seed=12)


def test_a_stop_under_load_answers_or_refuses_and_leaves_a_snapshot(tmp_path: Path) -> None:
    """SIGTERM while clients ask: none of them hangs, the exit code is 0, and the last event has a snapshot."""
    file = tmp_path / "store.db"
    with Killing(f"sqlite:///{file}", tmp_path, seed=13) as run:
        server = run.begin(snapshot_every=100_000)
        run.answers()
        server.terminate()
        assert server.process.wait(15) == 0
        run.load.gate.all_parked()
        with sqlite3.connect(file) as store:
            last, kept = store.execute(
                "SELECT (SELECT max(seq) FROM events), (SELECT max(seq) FROM snapshots)"
            ).fetchone()
        assert last == kept > 1
        run.end()


def test_a_second_server_on_the_same_sqlite_file_is_refused(tmp_path: Path) -> None:
    """One line that names the file and who holds it, exit code 2; the first server goes on undisturbed."""
    url = f"sqlite:///{tmp_path}/store.db"
    with Killing(url, tmp_path, seed=14) as run:
        first = run.begin()
        second = Server(url, tmp_path)
        assert second.process.wait(60) == 2
        (line,) = second.said().strip().splitlines()
        assert "store.db" in line
        assert f"pid {first.process.pid}" in line
        run.answers()
        run.end()


def test_on_postgresql_a_second_server_takes_over_when_the_first_is_killed(postgres_url: str, tmp_path: Path) -> None:  # noqa: F811
    """It waits while the first serves; after kill -9 it answers, with all that was acknowledged, and clients go on there."""
    with Killing(postgres_url, tmp_path, seed=15) as run:
        first = run.begin()
        second = Server(postgres_url, tmp_path)
        try:
            while not second.heard("waiting"):
                assert second.process.poll() is None, second.said()
                time.sleep(0.05)
            run.answers()
            assert not second.heard("serving")
            first.kill()
            run.load.gate.all_parked()
            run.server = second.ready()
            run.look(second)
            run.load.gate.open(second.port)
            run.answers()
            run.end()
        finally:
            second.kill()


# The judges are judged: each of these logs is wrong in one way.

MACHINE = {"name": "m0", "count": 1, "capacity": {"gpu": 8, "memory": "1Gi"}}
PROMISED = {"state": "admitted", "reason": "", "worth": 2.0, "cost": 1.0}
LOG: list[dict[str, Any]] = [
    {"kind": "opened", "job": "", "data": {"floor": {"window": 25, "machines": [MACHINE]}}},
    {"kind": "submitted", "job": "j1", "data": {"name": "a", "job": {"worker": {"gpu": 1, "memory": "512m"}}}},
    {"kind": "decided", "job": "j1", "data": PROMISED | {"cells": [[0, 0, 5, 0]]}},
    {"kind": "submitted", "job": "j2", "data": {"name": "b", "job": {"worker": {"gpu": 1}}}},
    {"kind": "decided", "job": "j2", "data": PROMISED | {"cells": [[0, 0, 3, 0]]}},
]


def model_of(log: list[dict[str, Any]]) -> LogModel:
    model = LogModel()
    for seq, event in enumerate(log, 1):
        model.take({"seq": seq, **event})
    return model


def test_the_model_accepts_a_machine_filled_to_the_brim() -> None:
    """5 + 3 of 8 GPUs, and 5 x 512 milli-bytes."""
    assert model_of(LOG).used[0, 0] == {"gpu": 8000, "memory": 2560}


@pytest.mark.parametrize(
    ("place", "change", "complaint"),
    [
        (4, {"data": LOG[4]["data"] | {"cells": [[0, 0, 4, 0]]}}, "9000 milli-gpu held"),
        (3, {"data": LOG[3]["data"] | {"name": "a"}}, "submitted twice"),
        (3, {"seq": 5}, "event 5 follows event 3"),
        (3, {"kind": "machine", "job": "", "data": {"name": "m0", "status": "down"}}, "the machine is down"),
        (3, {"kind": "tick", "job": "", "data": {"slot": 2}}, "slot 2 follows slot 0"),
    ],
)
def test_the_model_finds_what_is_wrong_with_a_log(place: int, change: dict[str, Any], complaint: str) -> None:
    """One GPU too many, a job twice, a gap, a cell on a failed machine, a slot left out."""
    log = copy.deepcopy(LOG)
    log[place] |= change
    if log[place]["kind"] == "machine":
        log[place + 1]["job"] = "j1"
    with pytest.raises(Broken, match=complaint):
        model_of(log)


def test_the_witness_misses_what_was_acknowledged_and_is_not_in_the_log() -> None:
    """Two answers were given; the log ends after the first, or holds another decision for the second."""
    told = [
        {
            "id": "j1",
            "state": "admitted",
            "reason": "",
            "worth": 2.0,
            "cost": 1.0,
            "seq": 3,
            "cells": [[0, "m0", 5, 0]],
        },
        {
            "id": "j2",
            "state": "admitted",
            "reason": "",
            "worth": 2.0,
            "cost": 1.0,
            "seq": 5,
            "cells": [[0, "m0", 3, 0]],
        },
    ]
    ledger = Ledger()
    for name, answer in zip("ab", told, strict=True):
        ledger.acknowledge(Request("submit", "POST", "", {"name": name}, name, answer=json.dumps(answer).encode()))
    witness = Witness(ledger, seed=0)
    witness.model = model_of(LOG)
    witness.acknowledged_is_there()
    witness.model = model_of(LOG[:3])
    with pytest.raises(Broken, match="b was acknowledged as j2 and is lost"):
        witness.acknowledged_is_there()
    witness.model = model_of([*LOG[:4], LOG[4] | {"data": LOG[4]["data"] | {"cells": [[1, 0, 3, 0]]}}])
    with pytest.raises(Broken, match="acknowledged"):
        witness.acknowledged_is_there()
