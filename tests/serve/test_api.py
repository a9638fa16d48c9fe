"""The REST interface as promised: every route, pages, keys, explanations, the stream, and what is refused."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from live import JOB, live, served

from equipoise.serve.api import stream as streams
from equipoise.serve.api.cluster import prices_out, schedule_out
from equipoise.serve.store import StoreLost

STATES = ("admitted", "lent", "pending", "refused", "finished", "cancelled")
FULL = JOB | {"workers": 8, "duration": "100m", "value": 100}  # both boxes for 10 of 12 slots


@pytest.fixture
def one(tmp_path):
    with live(tmp_path) as running:
        yield running


@pytest.fixture
def client(one):
    return one.client()


def submitted(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    answer = client.post("/v1/jobs", json=JOB | fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


def messages(client: httpx.Client, after: int | None = None, **headers: str) -> Iterator[dict[str, Any]]:
    """The stream, message by message: id, event and data."""
    params = {} if after is None else {"after": after}
    with client.stream("GET", "/v1/events", params=params, headers=headers) as answer:
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
        message: dict[str, Any] = {}
        for line in answer.iter_lines():
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                message[name] = json.loads(value) if name == "data" else value
            elif message:
                yield message
                message = {}


def events(client: httpx.Client, count: int, *, after: int | None = None, **headers: str) -> list[dict[str, Any]]:
    """The first `count` messages; then the stream is closed."""
    stream = messages(client, after, **headers)
    found = list(islice(stream, count))
    stream.close()
    return found


# Jobs.


def test_a_job_from_submission_to_its_end(client):
    """2 workers for 20 minutes are 4 worker-slots: slots 0 and 1 with 2 workers on one box, then finished in slot 1."""
    job = submitted(client, name="first", tags={"team": "vision"})
    assert (job["id"], job["state"], job["reason"], job["start"], job["end"]) == ("j1", "admitted", "", 0, 1)
    assert job["cells"] == [[0, "box-0", 2, 0], [1, "box-0", 2, 0]] and job["workers"] == 2
    assert job["machines"] == ["box-0"] and job["worker"] == {"gpu": 1.0, "cpu": 2.0} and job["work"] == 4.0
    assert client.get("/v1/jobs/j1").json() == job
    cluster = client.get("/v1/cluster").json()
    assert [m["used"]["gpu"] for m in cluster["machines"]] == [2.0, 0.0] and cluster["now"] == 0
    assert client.get("/v1/status").json()["utilisation"]["gpu"] == 0.25
    assert client.post("/v1/clock", json={"advance": 1}).json() == {"now": 1}
    assert client.get("/v1/jobs/j1").json()["done"] == 2.0
    assert client.post("/v1/clock", json={"slot": 2}).json() == {"now": 2}
    over = client.get("/v1/jobs/j1").json()
    assert (over["state"], over["finish"], over["done"], over["cells"]) == ("finished", 1, 4.0, [])
    kinds = [event["kind"] for event in client.get("/v1/jobs/j1/history").json()["events"]]
    assert kinds == ["submitted", "decided", "finished"]
    for verb in ("finish", "progress"):
        answer = client.post(f"/v1/jobs/j1/{verb}", json={"fraction": 0.5} if verb == "progress" else None)
        assert answer.status_code == 409 and "finished" in answer.json()["error"]
    assert client.delete("/v1/jobs/j1").status_code == 409


def test_progress_and_an_early_finish(client):
    submitted(client)
    client.post("/v1/clock", json={"advance": 1})
    assert client.post("/v1/jobs/j1/progress", json={"done": 3}).json()["pace"] == 1.5  # 3 of the 2 samples by the law
    over = client.post("/v1/jobs/j1/finish").json()
    assert (over["state"], over["reason"], over["cells"]) == ("finished", "early", [])
    for body in ({}, {"done": 1, "fraction": 0.1}, {"done": -1}, {"fraction": 1.5}, {"done": 1e9}):
        submitted(client)
        assert client.post("/v1/jobs/j2/progress", json=body).status_code == 422


def test_a_dry_run_stores_nothing(client):
    before = client.get("/v1/status").json()
    answer = client.post("/v1/jobs?dry_run=true", json=JOB, headers={"Idempotency-Key": "dry"})
    assert answer.status_code == 200 and answer.json()["id"] == "" and answer.json()["cells"]
    after = client.get("/v1/status").json()
    assert (before["seq"], before["jobs"]) == (after["seq"], after["jobs"])
    assert client.post("/v1/jobs", json=JOB | {"name": "real"}, headers={"Idempotency-Key": "dry"}).status_code == 201


def test_the_same_key_and_body_is_one_job_and_another_body_a_conflict(client):
    first = client.post("/v1/jobs", json=JOB, headers={"Idempotency-Key": "k1"})
    client.post("/v1/clock", json={"advance": 1})
    shuffled = dict(reversed(JOB.items()))
    again = client.post("/v1/jobs", json=shuffled, headers={"Idempotency-Key": "k1"})
    assert (again.status_code, again.json()) == (201, first.json())
    other = client.post("/v1/jobs", json=JOB | {"workers": 3}, headers={"Idempotency-Key": "k1"})
    assert other.status_code == 409 and "Idempotency-Key" in other.json()["error"]
    refused = client.post("/v1/jobs", json=JOB | {"worker": {"gpu": "much"}}, headers={"Idempotency-Key": "k2"})
    assert refused.status_code == 422  # nothing was stored: the key is still free
    assert client.post("/v1/jobs", json=JOB, headers={"Idempotency-Key": "k2"}).status_code == 201
    assert len(client.get("/v1/jobs").json()["jobs"]) == 2


def test_one_key_sent_by_many_at_once_is_one_job(client):
    """They land in one batch of the planner, or in several: all get the same answer."""
    with ThreadPoolExecutor(8) as pool:
        sent = [pool.submit(client.post, "/v1/jobs", json=JOB, headers={"Idempotency-Key": "k"}) for _ in range(24)]
    assert {one.result().text for one in sent} == {sent[0].result().text}
    assert client.get("/v1/status").json()["jobs"] == {"admitted": 1}


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_pages_show_every_job_once_while_new_ones_come(client, order):
    """23 jobs in pages of 5; one more is submitted between pages: the first 23 are each seen once, in order."""
    for k in range(23):
        submitted(client, name=f"n{k}", duration="30h")
    seen, after = [], None
    while True:
        params = {"limit": 5, "order": order} | ({"after": after} if after else {})
        page = client.get("/v1/jobs", params=params).json()
        seen += [job["id"] for job in page["jobs"]]
        submitted(client, name="late", duration="30h")
        after = page["next"]
        if after is None or len(seen) > 60:
            break
    numbers = [int(id[1:]) for id in seen]
    assert numbers == sorted(set(numbers), reverse=order == "newest")
    assert set(numbers) >= set(range(1, 24))
    if order == "newest":
        assert numbers == list(range(23, 0, -1))


def test_filters_narrow_the_list(client):
    submitted(client, name="Train BERT")
    submitted(client, name="train resnet")
    submitted(client, name="100% _x_")
    submitted(client, name="late", duration="30h")
    client.delete("/v1/jobs/j2")
    listed = lambda **params: [job["id"] for job in client.get("/v1/jobs", params=params).json()["jobs"]]  # noqa: E731
    assert listed(name="TRAIN") == ["j2", "j1"] and listed(name="%") == ["j3"] and listed(name="_x_") == ["j3"]
    assert listed(state="cancelled") == ["j2"] and listed(state=["refused", "cancelled"]) == ["j4", "j2"]
    assert listed(tenant="nobody") == [] and listed(name="t", state="admitted") == ["j1"]
    for wrong in (
        {"state": "alive"},
        {"limit": 0},
        {"limit": 1001},
        {"after": "x"},
        {"order": "best"},
        {"after": "-1"},
    ):
        answer = client.get("/v1/jobs", params=wrong)
        assert answer.status_code == 422 and list(answer.json()) == ["error"]


def test_a_parameter_that_nobody_knows_is_refused(client):
    """?stat=pending would else list everything, and nobody would notice."""
    answer = client.get("/v1/jobs?stat=pending")
    assert answer.status_code == 422 and "'state'" in answer.json()["error"]
    assert client.get("/v1/cluster?all=1").status_code == 422


def test_every_state_is_counted_once(client):
    """Full boxes: one promised, one waits, one refused, one cancelled."""
    submitted(client, **FULL)
    submitted(client, workers=8, duration="40m")
    submitted(client, duration="30h")
    submitted(client, duration="20m")
    client.delete("/v1/jobs/j4")
    counts = client.get("/v1/status").json()["jobs"]
    assert sum(counts.values()) == 4 and set(counts) <= set(STATES)
    assert counts == {"admitted": 1, "pending": 1, "refused": 1, "cancelled": 1}


# Why, and when.


def test_explain_tells_a_promised_a_waiting_and_a_refused_job_apart(client):
    submitted(client, **FULL)
    submitted(client, workers=8, duration="40m")
    submitted(client, duration="30h")
    submitted(client, worker={"gpu": 5})
    promised, waiting, long, wide = (client.get(f"/v1/jobs/j{k}/explain").json() for k in (1, 2, 3, 4))
    assert promised["state"] == "admitted" and promised["best"]["payoff"] > 0 and promised["smaller"] is None
    assert promised["earliest_start"] == 0 and promised["earliest_finish"] == 9
    assert waiting["reason"] == "no_capacity" and waiting["best"] is None
    assert waiting["earliest_start"] == 10 and waiting["earliest_finish"] is None
    assert waiting["smaller"] is not None and waiting["smaller"]["words"] in waiting["text"]
    assert long["reason"] == "beyond_horizon" and wide["reason"] == "infeasible_alone"
    lack = wide["missing"][0]
    assert (lack["resource"], lack["needs"], lack["has"]) == ("gpu", 5.0, 4.0)
    for told in (promised, waiting, long, wide):
        assert told["text"] and told["told"][0]["kind"] == "decided"


def test_explain_speaks_of_the_moment_the_job_came(client):
    """Hours later, with the boxes long empty, the reason is still the one of then."""
    submitted(client, **FULL)
    submitted(client, workers=8, duration="40m", deadline="1h")
    then = client.get("/v1/jobs/j2/explain").json()
    client.delete("/v1/jobs/j1")
    client.post("/v1/clock", json={"advance": 30})
    now = client.get("/v1/jobs/j2/explain").json()
    assert {k: now[k] for k in ("prices", "best", "earliest_start", "told")}["earliest_start"] == then["earliest_start"]
    told = [line for line in now["text"].splitlines() if not line.startswith("By now")]
    assert told == then["text"].splitlines() and "By now it is" in now["text"]


def test_a_forecast_says_when_and_stores_nothing(client):
    """Both boxes are full until slot 9: a small job could start in slot 10 and take two slots."""
    submitted(client, **FULL)
    seq = client.get("/v1/status").json()["seq"]
    told = client.post("/v1/forecast", json=JOB).json()
    assert (told["start"], told["end"]) == (10, 11) and "slot 10" in told["text"]
    never = client.post("/v1/forecast", json=JOB | {"duration": "30h"}).json()
    assert (never["start"], never["end"]) == (None, None) and never["text"]
    assert client.get("/v1/status").json()["seq"] == seq


# Machines, prices, the schedule, the clock.


def test_machines_come_drain_fail_and_return(client):
    added = client.post("/v1/machines", json={"name": "new", "capacity": {"gpu": 2, "memory": "64Gi"}, "count": 2})
    assert added.status_code == 201
    assert [(m["name"], m["status"], m["capacity"]["gpu"]) for m in added.json()["machines"]] == [
        ("new-0", "up", 2.0),
        ("new-1", "up", 2.0),
    ]
    again = client.post("/v1/machines", json={"name": "new", "capacity": {"gpu": 2}})
    assert again.status_code == 422 and "new" in again.json()["error"]
    submitted(client, workers=4)
    fell = client.post("/v1/machines/box-0/down").json()
    assert fell["machine"]["status"] == "down" and fell["replanned"] == ["j1"] and fell["displaced"] == []
    assert client.get("/v1/jobs/j1").json()["machines"] == ["box-1"]
    assert client.post("/v1/machines/box-0/up").json()["machine"]["status"] == "up"
    drained = client.post("/v1/machines/box-1/drain").json()
    assert drained["machine"]["status"] == "draining" and drained["replanned"] == []
    assert client.get("/v1/jobs/j1").json()["machines"] == ["box-1"]
    for verb in ("drain", "down", "up"):
        assert client.post(f"/v1/machines/nothing/{verb}").status_code == 404


def test_prices_are_set_and_shown(client):
    """Base 0.5 for an empty GPU, ten times that for a full one: half a box costs 0.5 * sqrt(10)."""
    flat = client.get("/v1/prices").json()
    assert flat["mean"]["gpu"] == [0.0] * 12 and flat["slots"] == list(range(12)) and flat["by_machine"] is None
    assert client.put("/v1/prices", json={"base": {"gpu": 0.5}, "ratio": 10}).status_code == 200
    submitted(client)
    told = client.get("/v1/prices?resource=gpu").json()
    assert told["by_machine"][0][0] == pytest.approx(0.5 * 10**0.5) and told["by_machine"][1][0] == 0.5
    assert client.get("/v1/prices?resource=tpu").status_code == 422
    for wrong in ({"base": {"tpu": 1}}, {"base": {"gpu": -1}}, {"base": {"gpu": 1}, "ratio": 0.5}, {}):
        assert client.put("/v1/prices", json=wrong).status_code == 422


def test_the_schedule_is_bars_and_shares(client):
    submitted(client, workers=4)
    told = client.get("/v1/schedule").json()
    bar = {
        "job": "j1",
        "name": "job",
        "state": "admitted",
        "machine": 0,
        "first": 0,
        "last": 1,
        "workers": 4,
        "servers": 0,
    }
    assert len(told["bars"]) == 1 and told["bars"][0] | bar == told["bars"][0]
    assert told["utilisation"]["gpu"][:3] == [0.5, 0.5, 0.0]
    part = client.get("/v1/schedule?first=1&last=4").json()
    assert (part["first"], part["last"], len(part["utilisation"]["gpu"])) == (1, 4, 4)
    assert [(bar["first"], bar["last"]) for bar in part["bars"]] == [(1, 1)]


def test_a_virtual_clock_is_told_and_does_not_go_back(client):
    assert client.post("/v1/clock", json={"slot": 5}).json() == {"now": 5}
    assert client.post("/v1/clock", json={"slot": 4}).status_code == 409
    for wrong in ({}, {"advance": 1, "slot": 9}, {"advance": 0}, {"advance": 10**9}, {"slot": 10_000_000}):
        assert client.post("/v1/clock", json=wrong).status_code == 422
    assert client.get("/v1/cluster").json()["now"] == 5


def test_a_real_clock_is_not_told_the_time_and_moves_by_itself(tmp_path):
    with live(tmp_path, clock="real", slot_seconds=0.2) as one:
        client = one.client()
        assert client.post("/v1/clock", json={"advance": 1}).status_code == 409
        assert client.get("/v1/cluster").json()["start"].endswith("Z")
        ticks = [message["data"] for message in events(client, 5, after=0) if message["event"] == "tick"]
    slots = [tick["data"]["slot"] for tick in ticks]  # a busy machine may sleep through some
    assert len(slots) == 3 and 1 <= slots[0] < slots[1] < slots[2]


def test_the_certificate_passes_and_names_its_event(client):
    submitted(client)
    client.post("/v1/clock", json={"advance": 3})
    told = client.get("/v1/certificate").json()
    assert told["passed"] and told["seq"] <= client.get("/v1/status").json()["seq"]
    assert {"log", "capacity", "ratio", "arrival", "outages", "promise", "work"} <= {c["name"] for c in told["checks"]}


def test_small_routes_answer(client):
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/v1/me").json() == {"name": "local", "role": "admin", "tenant": "", "open": True}
    assert "equipoise_" in client.get("/metrics").text
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    parts = re.findall(r'(?:href|src)="(/?static/[^"]+)"', page.text)
    assert parts and all(client.get(f"/{part.lstrip('/')}").status_code == 200 for part in parts)
    for path in ("/static/nothing.js", "/static/..%2f..%2fapi%2fapp.py", "/v1/nothing", "/static/%2e%2e/app.py"):
        assert client.get(path).status_code == 404
    assert client.put("/v1/tenants/blue", json={"quota": {"gpu": 2, "jobs": 3}}).json()["quota"] == {
        "gpu": 2,
        "jobs": 3,
    }
    assert client.get("/v1/tenants").json()["tenants"][0]["name"] == "blue"
    assert client.delete("/v1/tenants/blue").status_code == 200 and client.delete("/v1/tenants/blue").status_code == 404
    status = client.get("/v1/status").json()
    assert status["store"] == "sqlite" and status["clock"] == "virtual" and status["uptime"] >= 0


def test_the_log_is_whole_page_by_page(client):
    for k in range(5):
        submitted(client, name=f"n{k}")
    seen, after = [], 0
    while after is not None:
        page = client.get("/v1/log", params={"after": after, "limit": 3}).json()
        seen += [event["seq"] for event in page["events"]]
        after = page["next"]
    assert seen == list(range(1, 12))


# The stream.


def test_the_stream_says_hello_then_events_in_order(client):
    submitted(client)
    messages = events(client, 4, after=0)
    assert messages[0]["event"] == "hello" and messages[0]["data"]["seq"] == 3 and messages[0]["data"]["now"] == 0
    assert [(m["id"], m["event"]) for m in messages[1:]] == [("1", "opened"), ("2", "submitted"), ("3", "decided")]
    assert all(m["data"]["seq"] == int(m["id"]) and m["data"]["text"] for m in messages[1:])


def test_the_stream_without_a_place_begins_with_what_is_new(client):
    submitted(client)
    stream = messages(client)
    assert next(stream)["event"] == "hello"
    submitted(client, name="new")
    first = next(stream)
    stream.close()
    assert first["event"] == "submitted" and first["data"]["job"] == "j2"


def test_a_stream_that_broke_off_goes_on_where_it_was(client):
    for _ in range(4):
        submitted(client)
    resumed = events(client, 5, **{"Last-Event-ID": "5"})
    assert [m.get("id") for m in resumed[1:]] == ["6", "7", "8", "9"]
    bad = client.get("/v1/events", headers={"Last-Event-ID": "never"})
    assert bad.status_code == 422 and list(bad.json()) == ["error"]


def test_who_is_far_behind_is_served_from_the_store(one, monkeypatch):
    """Only 8 events are kept in memory and pages are of 5: a stream from the beginning still has them all, in order."""
    monkeypatch.setattr(streams, "PAGE", 5)
    one.hub.recent = type(one.hub.recent)(maxlen=8)
    client = one.client()
    for _ in range(20):
        submitted(client)
    messages = events(client, 42, after=0)
    assert [int(m["id"]) for m in messages[1:]] == list(range(1, 42))


def test_a_stream_of_a_tenant_has_no_events_of_others(tmp_path):
    tokens = {"root": ("admin", ""), "ann": ("submit", "anna"), "ben": ("submit", "ben")}
    with live(tmp_path, tokens=tokens) as one:
        for name in ("ann", "ben", "ann"):
            submitted(one.client(name))
        one.client("root").post("/v1/clock", json={"advance": 1})
        seen = events(one.client("ann"), 7, after=0)
    assert [(m["event"], m["data"]["job"]) for m in seen[1:]] == [
        ("opened", ""),
        ("submitted", "j1"),
        ("decided", "j1"),
        ("submitted", "j3"),
        ("decided", "j3"),
        ("tick", ""),
    ]


def test_a_commit_whose_answer_was_lost_costs_no_stream_an_event(one):
    """The database kept the batch and then the connection broke: the job is there once, and streams have every event."""
    append, broken = one.store.append, []

    def keep_and_break(batch):
        append(batch)
        if broken:
            broken.clear()
            raise StoreLost("the connection broke after COMMIT")

    one.store.append = keep_and_break
    client = one.client()
    submitted(client)
    broken.append(True)
    key = {"Idempotency-Key": "once"}
    assert client.post("/v1/jobs", json=JOB, headers=key).status_code == 503
    assert client.post("/v1/jobs", json=JOB, headers=key).json()["id"] == "j2"
    submitted(client)
    submitted(client)
    for place in (0, 3, 5, 6, 7):
        messages = events(client, 10 - place, after=place)
        assert [int(m["id"]) for m in messages[1:]] == list(range(place + 1, 10))


# What is refused.

BAD_BODIES = {
    "empty": b"",
    "not JSON": b"{",
    "null": b"null",
    "a number": b"1",
    "a list": b"[]",
    "text": b'"x"',
    "NaN": b'{"worker":{"gpu":NaN},"workers":1,"duration":"1h"}',
    "Infinity": b'{"worker":{"gpu":1},"workers":1,"duration":Infinity}',
    "past a float": b'{"worker":{"gpu":1},"workers":1,"duration":1e999}',
    "400 digits": b'{"worker":{"gpu":1},"workers":%s,"duration":"1h"}' % (b"9" * 400),
    "5000 digits": b'{"worker":{"gpu":1},"workers":%s,"duration":"1h"}' % (b"9" * 5000),
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"worker":' * 20_000 + b"1" + b"}" * 20_000,
    "long name": b'{"worker":{"gpu":1},"workers":1,"duration":"1h","name":"%s"}' % (b"x" * 100_000),
    "lone surrogate": b'{"worker":{"gpu":1},"workers":1,"duration":"1h","name":"\\ud800"}',
    "surrogate as field": b'{"\\ud800":1,"worker":{"gpu":1},"workers":1,"duration":"1h"}',
    "surrogate as resource": b'{"worker":{"\\ud800":1},"workers":1,"duration":"1h"}',
    "not UTF-8": b'{"worker":{"gpu":1},"workers":1,"duration":"1h","name":"\xff\xfe"}',
    "unknown field": b'{"worker":{"gpu":1},"workers":1,"duration":"1h","extra":1}',
    "both forms": b'{"worker":{"gpu":1},"workers":1,"duration":"1h","work":1}',
    "negative": b'{"worker":{"gpu":-1},"workers":1,"duration":"1h"}',
    "huge value": b'{"worker":{"gpu":1},"workers":1,"duration":"1h","value":1e308}',
    "65 resources": json.dumps({"worker": {f"r{k}": 1 for k in range(65)}, "workers": 1, "duration": "1h"}).encode(),
}


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs?dry_run=true", "/v1/forecast", "/v1/machines", "/v1/prices"])
def test_a_body_that_cannot_be_is_refused_in_one_line(client, path):
    for name, body in BAD_BODIES.items():
        method = "PUT" if path == "/v1/prices" else "POST"
        answer = client.request(method, path, content=body, headers={"Content-Type": "application/json"})
        assert 400 <= answer.status_code < 500, (name, answer.text)
        assert list(answer.json()) == ["error"] and "\n" not in answer.json()["error"], name
        assert 0 < len(answer.json()["error"]) <= 500, name
    assert client.get("/v1/status").json()["seq"] == 1


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "application/x-www-form-urlencoded", ""])
def test_a_body_of_another_kind_is_refused(client, kind):
    answer = client.post("/v1/jobs", content=json.dumps(JOB).encode(), headers={"Content-Type": kind})
    assert answer.status_code in (415, 422) and list(answer.json()) == ["error"]


def test_a_body_too_large_is_refused(client):
    answer = client.post("/v1/jobs", content=b" " * (2 << 20), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413 and list(answer.json()) == ["error"]


QUANTITIES = st.one_of(
    st.floats(),
    st.integers(-(10**30), 10**30),
    st.text(max_size=8),
    st.none(),
    st.booleans(),
    st.sampled_from(["1h", "16Gi", "500m", "4ms", "1e300s", "1e-300", "unlimited", "1e-300 B/slot", "0 slots", "-1s"]),
    st.sampled_from([0, 1, 1e15, 1e-300, 5e-324, 1e308, 2**63, 2**60]),
)
FIELDS = (
    "name",
    "workers",
    "duration",
    "work",
    "samples",
    "epochs",
    "batch",
    "time_per_sample",
    "gradient",
    "requested",
    "most",
    "restart",
    "inside",
    "between",
    "value",
    "deadline",
    "workers_per_server",
)
WILD = st.fixed_dictionaries(
    {"worker": st.dictionaries(st.sampled_from(["gpu", "cpu", "memory", "tpu"]), QUANTITIES, max_size=3)},
    optional=dict.fromkeys(FIELDS, QUANTITIES)
    | {
        "server": st.dictionaries(st.sampled_from(["gpu", "cpu"]), QUANTITIES, max_size=2),
        "utility": st.fixed_dictionaries(
            {"kind": st.sampled_from(["sigmoid", "deadline", "linear", "none"])},
            optional=dict.fromkeys(("value", "steepness", "middle", "slots"), QUANTITIES),
        ),
    },
)
SANE = {"worker": {"gpu": 1}, "work": 10, "batch": 4, "time_per_sample": "1m", "value": 5}


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """Both boxes full, so that what is accepted waits and every rule about waiting is asked of it."""
    with live(tmp_path_factory.mktemp("busy")) as running:
        submitted(running.client(), **FULL)
        yield running


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(wild=WILD, sane=st.booleans())
def test_no_job_however_strange_makes_the_service_fail(busy, wild, sane):
    """Submit, explain, forecast, a cancel of something else and a tick: answers below 500, whatever the job."""
    client = busy.client()
    body = SANE | {k: v for k, v in wild.items() if k != "worker" or v} if sane else wild
    text = json.dumps(body).encode()
    told = {"Content-Type": "application/json"}
    answer = client.post("/v1/jobs", content=text, headers=told)
    assert answer.status_code in (201, 422), answer.text
    assert client.post("/v1/forecast", content=text, headers=told).status_code in (200, 422)
    if answer.status_code == 201:
        id = answer.json()["id"]
        assert client.get(f"/v1/jobs/{id}/explain").status_code == 200
        assert client.get("/v1/schedule").status_code == 200 and client.get("/v1/prices").status_code == 200
        assert client.post(f"/v1/jobs/{id}/progress", json={"fraction": 0.5}).status_code in (200, 409)
        assert client.post("/v1/clock", json={"advance": 1}).status_code == 200
        client.delete(f"/v1/jobs/{id}")
        other = submitted(client, **FULL)["id"]
        assert client.delete(f"/v1/jobs/{other}").status_code == 200
        assert client.get("/v1/certificate").status_code == 200


def test_a_job_that_stands_still_at_the_width_it_asked_for_does_not_stop_the_clock(client):
    """Its exchange takes for ever at 4 workers (rate 0): it waits, and time goes on for all others."""
    submitted(client, **FULL)
    poison = {
        "worker": {"gpu": 1},
        "work": 8,
        "batch": 8,
        "time_per_sample": "10m",
        "gradient": 1e15,
        "inside": 1e-300,
        "between": 1e-300,
        "requested": 4,
        "value": 0.001,
    }
    assert client.post("/v1/jobs", json=poison).json()["state"] == "pending"
    assert client.post("/v1/clock", json={"advance": 1}).status_code == 200
    assert client.delete("/v1/jobs/j1").status_code == 200


# Reads beside changes.


def test_a_read_that_began_before_a_machine_came_still_ends_well(one):
    """What a read sees is of one moment: machines, jobs and resources that came later do not reach into it."""
    client = one.client()
    submitted(client, **FULL)
    submitted(client, **FULL | {"workers": 4})
    before = one.service.view
    client.post("/v1/machines", json={"name": "new", "capacity": {"gpu": 4, "cpu": 32, "tpu": 1}})
    client.post("/v1/machines", json={"name": "newer", "capacity": {"gpu": 4, "cpu": 32}})
    assert client.get("/v1/jobs/j2").json()["machines"] == ["new"]
    assert before.used(0, 3).shape[:2] == (4, 2)
    assert before.told("j2")["state"] == "pending" and one.service.view.told("j2")["state"] == "admitted"
    for whose in (None, "nobody"):
        assert schedule_out(before, None, None, whose)["machines"] == ["box-0", "box-1"]
    assert prices_out(before, "gpu")["machines"] == ["box-0", "box-1"]


def test_reads_are_answered_while_machines_and_jobs_come(one):
    """Readers of every list beside a writer that adds machines, jobs and slots: all answers are 200."""
    paths = ("/v1/jobs", "/v1/schedule", "/v1/cluster", "/v1/prices?resource=gpu", "/v1/status", "/v1/jobs/j1")
    submitted(one.client(), **FULL)
    stop, seen = threading.Event(), []

    def read(path):
        with httpx.Client(base_url=one.address, timeout=60.0) as client:
            while not stop.is_set():
                answer = client.get(path)
                seen.append((path, answer.status_code))

    with ThreadPoolExecutor(len(paths)) as pool:
        reading = [pool.submit(read, path) for path in paths]
        for k in range(12):
            for _ in range(3):
                submitted(one.client(), **FULL | {"workers": 4})
            one.client().post("/v1/machines", json={"name": f"n{k}", "capacity": {"gpu": 4, "cpu": 32}})
            if k % 4 == 3:
                one.client().post("/v1/clock", json={"advance": 1})
        stop.set()
        for each in reading:
            each.result()
    assert {path for path, _ in seen} == set(paths) and {status for _, status in seen} == {200}


# Quotas and restarts.


def test_slots_that_passed_while_nobody_served_keep_to_the_quotas(tmp_path):
    """One GPU for blue: one job has it for 120 slots, three wait. At the restart slots are caught up, under that quota."""
    long = JOB | {"workers": 2, "duration": "60s"}
    with live(tmp_path, clock="real", slot_seconds=1.0, horizon=200) as one:
        one.quota("blue", gpu=1000)
        for k in range(4):
            one.client().post("/v1/jobs?tenant=blue", json=long | {"name": f"n{k}"})
    threading.Event().wait(1.2)
    with live(tmp_path, cluster=None, clock="real", slot_seconds=1.0, horizon=200) as one:
        held: dict[int, int] = {}
        for job in one.client().get("/v1/jobs?tenant=blue").json()["jobs"]:
            for slot, _, workers, _ in one.client().get(f"/v1/jobs/{job['id']}").json()["cells"]:
                held[slot] = held.get(slot, 0) + workers
    assert held and max(held.values()) == 1


def test_a_process_stopped_and_started_again_has_lost_nothing(tmp_path):
    """`equipoise serve` by itself: answered jobs, keys and the clock are there after a restart, and the log verifies.

    An open stream does not keep it from stopping."""
    with served(tmp_path) as (client, process):
        first = client.post("/v1/jobs", json=JOB, headers={"Idempotency-Key": "k"}).json()
        client.post("/v1/jobs", json=FULL)
        client.post("/v1/clock", json={"advance": 1})
        before = {path: client.get(path).json() for path in ("/v1/jobs", "/v1/cluster", "/v1/schedule", "/v1/log")}
        with httpx.stream("GET", f"{client.base_url}/v1/events") as stream:  # it would never end by itself
            lines = stream.iter_lines()
            assert next(lines) == "event: hello"
            process.send_signal(signal.SIGTERM)
            assert not any(line.startswith("id:") for line in lines)
    with served(tmp_path) as (client, _):
        assert {path: client.get(path).json() for path in before} == before
        assert client.post("/v1/jobs", json=JOB, headers={"Idempotency-Key": "k"}).json() == first
    command = [sys.executable, "-m", "equipoise", "serve", "--verify-log", "--json", "--store"]
    done = subprocess.run([*command, f"sqlite:///{tmp_path}/store.db"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and json.loads(done.stdout)["certificate"]["passed"], done.stderr


def test_a_stretch_of_the_schedule_without_anybody_is_empty(client):
    """The only job runs in slots 0 and 1; in slot 5 there is nothing, which is no mistake."""
    submitted(client)
    told = client.get("/v1/schedule?first=5&last=5").json()
    assert (told["bars"], told["first"], told["last"]) == ([], 5, 5)
