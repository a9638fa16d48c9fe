"""A certificate that cannot fail proves nothing: logs and stores are tampered with, and the check that should fail does."""

from __future__ import annotations

import copy
import json
import random
import sqlite3
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from live import JOB, live

from equipoise.serve.certify import certify
from equipoise.serve.plan.events import Event
from equipoise.serve.replay import verify_log
from equipoise.serve.store import peek_store

Log = list[Event]


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    """A day with everything in it: promises, one waiting, a late one, a cancel, a failure, a drain, finishes, snapshots."""
    folder = tmp_path_factory.mktemp("certify")
    with live(folder, snapshot_every=8) as one:
        client = one.client()
        asked = lambda *fields: client.post("/v1/jobs", json=JOB | dict(fields)).json()["id"]  # noqa: E731
        for k in range(4):
            asked(("name", f"n{k}"), ("workers", 1 + k))
        client.post("/v1/clock", json={"advance": 1})
        client.post("/v1/jobs/j2/progress", json={"fraction": 0.2})
        client.delete("/v1/jobs/j3")
        for _ in range(3):
            client.post("/v1/clock", json={"advance": 1})
        for k in range(4):
            asked(("name", f"m{k}"), ("workers", 4), ("duration", "50m"))
        client.post("/v1/machines/box-0/down")
        client.post("/v1/clock", json={"advance": 2})
        client.post("/v1/machines/box-0/up")
        client.post("/v1/machines/box-1/drain")
        client.post("/v1/clock", json={"advance": 2})
    return folder / "store.db"


@pytest.fixture(scope="module")
def log(store) -> Log:
    with peek_store(f"sqlite:///{store}") as opened:
        return list(opened.events())


def failed(log: Log) -> set[str]:
    certificate, _ = certify(iter(log))
    return {check.name for check in certificate if not check.passed}


def changed(log: Log, wanted: Callable[[Event], bool], change: Callable[[dict[str, Any]], None]) -> Log:
    """The log with the data of the first event that is wanted changed."""
    at = next(k for k, event in enumerate(log) if wanted(event))
    data = copy.deepcopy(log[at].data)
    change(data)
    return [*log[:at], replace(log[at], data=data), *log[at + 1 :]]


def promised(job: str) -> Callable[[Event], bool]:
    return lambda event: event.kind == "decided" and event.job == job and event.data["state"] == "admitted"


def test_the_log_as_it_is_passes(log):
    assert failed(log) == set()


def test_more_workers_than_a_machine_holds(log):
    """Job j1 with 9 workers in slot 0 on a box of 4 GPUs."""
    assert "capacity" in failed(changed(log, promised("j1"), lambda data: data["cells"][0].__setitem__(2, 9)))


def test_two_jobs_in_the_same_place(log):
    """j1 has 1 worker on box-0 with j2's 2 there; moved to where j3 has 3 of 4 and j4 one, it is one too many."""
    cells = next(event for event in log if promised("j3")(event)).data["cells"]
    assert "capacity" in failed(changed(log, promised("j1"), lambda data: data["cells"][0].__setitem__(1, cells[0][1])))


def test_a_gap_in_the_numbers(log):
    tick = next(k for k, event in enumerate(log) if event.kind == "progress")
    assert failed([*log[:tick], *log[tick + 1 :]]) >= {"log"}


def test_an_event_twice(log):
    assert failed([*log[:3], log[2], *log[3:]]) >= {"log"}


def test_a_finish_too_early_for_the_work(log):
    """j1 needs slots 0 and 1; the log now says that it was done in slot 0."""
    wanted = lambda event: event.kind == "finished" and event.job == "j1"  # noqa: E731
    assert "work" in failed(changed(log, wanted, lambda data: data.update(slot=0, first=1)))


def test_a_finish_that_never_came(log):
    """j1's work is done and nobody says so: the numbers are closed up again behind the missing event."""
    at = next(k for k, event in enumerate(log) if event.kind == "finished" and event.job == "j1")
    rest = [replace(event, seq=event.seq - 1) for event in log[at + 1 :]]
    assert "work" in failed([*log[:at], *rest])


def test_fewer_cells_than_the_work_needs(log):
    assert "work" in failed(changed(log, promised("j1"), lambda data: data["cells"].pop()))


def test_a_promise_with_too_few_cells(log):
    """j7 is still open and has a promise; with only the first of its cells it could not be kept."""
    last = [
        event for event in log if event.kind == "decided" and event.data["state"] == "admitted" and event.job == "j7"
    ]
    tampered = changed(log, lambda event: event is last[-1], lambda data: data["cells"].__delitem__(slice(1, None)))
    assert failed(tampered)


def test_cells_on_a_machine_while_it_was_down(log):
    """box-0 was down in slots 4 to 6; the job that was planned again then is put there."""
    down = next(event.seq for event in log if event.kind == "machine" and event.data["status"] == "down")
    wanted = lambda e: e.seq > down and e.kind == "decided" and len(e.data.get("cells", ())) > 1  # noqa: E731
    tampered = changed(
        log,
        lambda e: promised("j7")(e) or promised("j5")(e) or wanted(e),
        lambda data: [cell.__setitem__(1, 0) for cell in data["cells"] if cell[0] == 5],
    )
    assert "outages" in failed(tampered)


def test_a_promise_dropped_without_a_reason(log):
    """j1 was promised two slots; a made-up decision sets it aside as if it had only waited."""
    first = next(event for event in log if promised("j1")(event))
    dropped = replace(
        first, seq=first.seq + 1, data=first.data | {"state": "pending", "reason": "no_capacity", "cells": []}
    )
    rest = [replace(e, seq=e.seq + 1) for e in log[first.seq :] if not (e.kind == "finished" and e.job == "j1")]
    tampered = [*log[: first.seq], dropped, *rest]
    assert failed([replace(event, seq=k + 1) for k, event in enumerate(tampered)]) == {"promise"}


def test_cells_before_the_job_came(log):
    assert "arrival" in failed(changed(log, promised("j5"), lambda data: data["cells"][0].__setitem__(0, 1)))


def test_servers_that_nobody_asked_for(log):
    assert "ratio" in failed(changed(log, promised("j1"), lambda data: data["cells"][0].__setitem__(3, 1)))


# A store edited behind the service's back.


@pytest.fixture
def tampered(store, tmp_path) -> Callable[..., set[str]]:
    """Names of the checks that fail after some SQL on a copy of the store."""

    def run(*statements: str | tuple[str, tuple[Any, ...]]) -> set[str]:
        path = tmp_path / "store.db"
        with sqlite3.connect(store) as source, sqlite3.connect(path) as target:
            source.backup(target)
        connection = sqlite3.connect(path)
        for statement in statements:
            sql, values = (statement, ()) if isinstance(statement, str) else statement
            assert connection.execute(sql, values).rowcount > 0, sql
        connection.commit()
        connection.close()
        with peek_store(f"sqlite:///{path}") as opened:
            certificate, _ = verify_log(opened)
        assert certificate.passed == all(check.passed for check in certificate)
        return {check.name for check in certificate if not check.passed}

    return run


def snapshot_of(store: Path, which: str) -> tuple[int, dict[str, Any]]:
    with sqlite3.connect(store) as connection:
        seq, state = connection.execute(f"SELECT {which}(seq), state FROM snapshots").fetchone()
    return seq, json.loads(zlib.decompress(state))


def test_a_sound_store_passes(tampered):
    assert tampered("UPDATE ownership SET epoch = epoch") == set()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE jobs SET state = 'finished' WHERE id = 'j5'",
        "UPDATE jobs SET reason = 'late' WHERE id = 'j5'",
        "UPDATE jobs SET finish = 3 WHERE id = 'j5'",
        "UPDATE jobs SET seq = 2 WHERE id = 'j5'",
        "UPDATE jobs SET tenant = 'me' WHERE id = 'j5'",
        "UPDATE jobs SET name = 'mine' WHERE id = 'j5'",
        "UPDATE jobs SET n = 77 WHERE id = 'j5'",
        "UPDATE jobs SET submitted = 0 WHERE id = 'j5'",
        """UPDATE jobs SET data = replace(data, '"tenant":""', '"tenant":"me"') WHERE id = 'j5'""",
        "DELETE FROM jobs WHERE id = 'j5'",
        "INSERT INTO jobs SELECT n + 90, 'j99', tenant, name, state, reason, submitted, finish, seq, data FROM jobs"
        " WHERE n = 5",
    ],
)
def test_rows_that_the_log_contradicts(tampered, change):
    assert "rows" in tampered(change)


def test_counts_that_the_log_contradicts(tampered):
    assert tampered("UPDATE job_counts SET count = count + 1 WHERE state = 'finished'")


@pytest.mark.parametrize("which", ["min", "max"])
def test_a_snapshot_of_another_state(tampered, store, which):
    """The digest beside it is left as it was: the newest is what a restart begins with, the oldest what explain does."""
    seq, state = snapshot_of(store, which)
    state["count"] += 1
    packed = zlib.compress(json.dumps(state).encode())
    assert tampered(("UPDATE snapshots SET state = ? WHERE seq = ?", (packed, seq))) & {"snapshots", "restart"}


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE snapshots SET digest = '00' WHERE seq = (SELECT max(seq) FROM snapshots)",
        "UPDATE snapshots SET seq = seq + 1000 WHERE seq = (SELECT max(seq) FROM snapshots)",
        "UPDATE snapshots SET state = x'00' WHERE seq = (SELECT max(seq) FROM snapshots)",
        "UPDATE snapshots SET state = x'00' WHERE seq = (SELECT min(seq) FROM snapshots)",
    ],
)
def test_a_snapshot_that_cannot_be(tampered, change):
    assert tampered(change) & {"snapshots", "restart"}


@pytest.mark.parametrize(
    "change",
    [
        """UPDATE events SET data = replace(data, '"worth":', '"worth":1') WHERE seq = 3""",
        "UPDATE events SET data = replace(data, '[[0,0,', '[[0,1,') WHERE seq = 3",
        "UPDATE events SET data = replace(data, ',1,0]', ',9,0]') WHERE seq = 3",
        "UPDATE events SET slot = 5 WHERE seq = 3",
        "UPDATE events SET tenant = 'me' WHERE seq = 2",
        "DELETE FROM events WHERE seq = 6",
        "DELETE FROM events WHERE seq = 1",
        "DELETE FROM events WHERE seq >= (SELECT max(seq) - 1 FROM events)",
        "UPDATE events SET kind = 'said' WHERE seq = 3",
        "UPDATE events SET data = '{' WHERE seq = 3",
        "UPDATE events SET data = '[]' WHERE seq = 3",
        "UPDATE events SET job = 'j99' WHERE seq = 3",
    ],
)
def test_events_that_were_edited(tampered, change):
    """Whatever was done to the log: a check fails, nothing is raised."""
    assert tampered(change)


# And a store that many wrote to at once.


@pytest.mark.parametrize("finish", ["assumed", "reported"])
def test_a_day_of_many_clients_verifies(tmp_path, finish):
    """Six clients ask for anything in any order, machines fail and return: no answer is 5xx, and the store is sound."""
    with live(tmp_path, snapshot_every=40, finish=finish) as one:
        one.quota("blue", gpu=3000, jobs=8)
        with ThreadPoolExecutor(6) as pool:
            statuses = {status for each in pool.map(lambda seed: busy(one, seed), range(6)) for status in each}
        assert one.service.state.audit() == ""
    assert statuses <= {200, 201, 404, 409, 422}
    with peek_store(f"sqlite:///{tmp_path}/store.db") as opened:
        certificate, seq = verify_log(opened)
    assert seq > 100 and [check for check in certificate if not check.passed] == []


def busy(one: Any, seed: int) -> list[int]:
    """The statuses of forty requests, drawn by the seed."""
    draw, seen = random.Random(seed), []
    with httpx.Client(base_url=one.address, timeout=60.0) as client:
        for k in range(40):
            job = f"/v1/jobs/j{draw.randint(1, max(1, one.service.view.seq // 3))}"
            body = JOB | {"workers": draw.choice((1, 2, 4, 8)), "duration": draw.choice(("10m", "25m", "70m"))}
            if draw.random() < 0.3:
                body["restart"] = "1m"
            box = f"/v1/machines/box-{draw.randrange(2)}"
            method, path, sent = draw.choice(
                [("POST", f"/v1/jobs?tenant={tenant}", body) for tenant in ("blue", "red", "blue", "red", "red")]
                + [("DELETE", job, None), ("POST", f"{job}/progress", {"fraction": draw.random()})]
                + [("POST", f"{job}/finish", None), ("GET", f"{job}/explain", None), ("GET", "/v1/certificate", None)]
                + [("POST", f"{box}/{verb}", None) for verb in ("down", "drain", "up", "up")]
                + [("POST", "/v1/machines", {"name": f"n{seed}-{k}", "capacity": {"gpu": 2, "cpu": 8}})]
                + [("PUT", "/v1/prices", {"base": {"gpu": draw.random()}}), ("POST", "/v1/clock", {"advance": 1})]
            )
            seen.append(client.request(method, path, json=sent).status_code)
    return seen
