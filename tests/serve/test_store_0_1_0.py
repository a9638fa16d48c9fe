"""A store that 0.1.0 wrote, with events of every kind: it opens, replays to the same state, is proved sound, and goes on."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import pytest

from equipoise.serve.api.jobs import JobIn
from equipoise.serve.plan import events as kinds
from equipoise.serve.replay import replayed, restored, verify_log
from equipoise.serve.service import Service, Settings, body_digest
from equipoise.serve.store import Store, open_store

STORED = Path(__file__).with_name("store_0_1_0.sql.gz")
DIGEST = "d089145a445d163a6753fcca4a058b6920be65bcdf1a10581391ba091cc0b490"  # of the state, as 0.1.0 computed it
PATIENCE = 300.0  # seconds: kernels may have to be compiled first
KINDS = {value for name, value in vars(kinds).items() if name.isupper() and isinstance(value, str)}


@pytest.fixture
def store(tmp_path):
    """The store as 0.1.0 left it."""
    with sqlite3.connect(tmp_path / "store.db") as database:
        database.executescript(gzip.decompress(STORED.read_bytes()).decode())
    database.close()
    with open_store(f"sqlite:///{tmp_path}/store.db") as opened:
        yield opened


def test_it_holds_every_kind_of_event(store: Store):
    """The record is worth something: no kind is missing."""
    assert {event.kind for event in store.events()} == KINDS and store.last() == 73


def test_a_replay_gives_the_state_that_0_1_0_had_to_the_last_bit(store: Store):
    """From the first event, and from the last snapshot."""
    assert replayed(store, None).digest() == DIGEST
    assert restored(store).digest() == DIGEST


def test_it_is_proved_sound(store: Store):
    """Every check of the log, the snapshots, the rows and the counts passes."""
    certificate, seq = verify_log(store)
    assert certificate.passed and seq == 73
    assert {check.name for check in certificate.checks} >= {"replay", "snapshots", "restart", "rows", "counts", "book"}


def test_a_service_goes_on_with_it(store: Store):
    """A job is decided on top of what 0.1.0 promised; an answer that 0.1.0 gave is given again."""
    service = Service(store, Settings(slot_seconds=600.0, horizon=12, clock="virtual"))
    service.start()
    body = {"worker": {"gpu": 1}, "workers": 1, "duration": "20m", "value": 50}
    decided = service.ask(lambda scheduler: {"state": scheduler.submit(body, "").state}).result(PATIENCE)
    known = store.answers([("", "k2")])["", "k2"]
    again = service.ask(lambda scheduler: {"never": "asked"}, key=("", "k2", known.digest), status=201).result(PATIENCE)
    service.stop()
    assert decided == (200, {"state": "admitted"})
    assert again == (201, known.body)
    assert verify_log(store)[0].passed


SHORT = {
    "name": "a",
    "worker": {"gpu": 1, "cpu": 0.5, "memory": "16Gi"},
    "workers": 4,
    "duration": 7200,
    "value": 10,
    "deadline": "24h",
    "tags": {"team": "x"},
}
LONG = {
    "worker": {"gpu": 1},
    "server": {"cpu": 2},
    "workers_per_server": 2,
    "samples": 50000,
    "epochs": 3,
    "batch": 64,
    "time_per_sample": "4ms",
    "gradient": 440000000,
    "requested": 4,
    "most": 8,
    "restart": 30,
    "inside": "20Gbps",
    "between": 1e9,
    "utility": {"kind": "sigmoid", "value": 80, "steepness": 0.5, "middle": 6},
}


@pytest.mark.parametrize(
    ("body", "digest"),
    [
        (SHORT, "70c806f5e9211f1d2d75c635e8fb8c12d2f00e186faecd3e81674bf19fe0cc28"),
        (LONG, "cf16a7d2e4d7d9a0cd282845a75c52d77e83e58aaeb743760148958c3ce1cfd3"),
    ],
    ids=["short", "long"],
)
def test_a_request_has_the_digest_that_0_1_0_gave_it(body, digest):
    """Else a submission that is sent again after an upgrade, under its old key, would be taken for another."""
    assert body_digest(JobIn.model_validate_json(json.dumps(body)).model_dump(exclude_unset=True)) == digest
