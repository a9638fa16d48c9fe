"""The client: what it sends, how it comes back from a broken connection, and the service as it meets it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from equipoise import place
from equipoise.errors import InputError
from equipoise.serve import client as client_module
from equipoise.serve.client import Client, ServiceError

CLUSTER = "machines:\n  - {name: box, count: 2, capacity: {gpu: 4, cpu: 32, memory: 128Gi}}\n"
SMALL = {"name": "small", "worker": {"gpu": 1, "cpu": 2}, "workers": 1, "duration": "20m", "value": 50}
Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """No pauses between tries, and no address or token from outside."""
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.001)
    for name in ("EQUIPOISE_URL", "EQUIPOISE_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def client(handler: Handler, **settings: Any) -> Client:
    return Client("http://service", transport=httpx.MockTransport(handler), **settings)


# What is sent, and what becomes of failures: against a stand-in that fails on demand.


def test_a_submission_is_sent_again_under_the_same_key_until_it_is_answered():
    """The connection breaks twice and the store is away once; the fourth is answered, and all four had one key."""
    keys = []

    def handler(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        if len(keys) <= 2:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        if len(keys) == 3:
            return httpx.Response(503, json={"error": "the store does not answer"}, headers={"Retry-After": "0"})
        return httpx.Response(201, json={"id": "j1", "state": "admitted"})

    with client(handler) as service:
        assert service.submit(SMALL).id == "j1"
    assert len(keys) == 4 and len(set(keys)) == 1 and len(keys[0]) >= 16


def test_two_submissions_have_two_keys_and_a_given_key_is_kept():
    """The same body twice is two jobs, unless the caller says that it is one."""
    keys = []

    def handler(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        return httpx.Response(201, json={"id": "j1"})

    with client(handler) as service:
        service.submit(SMALL), service.submit(SMALL), service.submit(SMALL, key="nightly-7")
    assert keys[0] != keys[1] and keys[2] == "nightly-7"


def test_tries_are_bounded_and_the_last_failure_is_one_line_with_the_address():
    """Three tries, then what was tried and the way out."""
    tried = []

    def handler(request: httpx.Request) -> httpx.Response:
        tried.append(request)
        raise httpx.ConnectError("Connection refused")

    with client(handler, tries=3) as service, pytest.raises(ServiceError) as caught:
        service.submit(SMALL)
    assert len(tried) == 3 and caught.value.status == 0
    assert "http://service" in str(caught.value) and "equipoise serve" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "ask", [lambda s: s.finish("j1"), lambda s: s.add_machine("a", {"gpu": 1}), lambda s: s.advance(2)]
)
def test_what_would_count_twice_is_not_sent_again_once_it_may_have_arrived(ask):
    """The answer was lost, not the request: finishing, adding machines and advancing by a number are sent once."""
    tried = []

    def handler(request: httpx.Request) -> httpx.Response:
        tried.append(request)
        raise httpx.ReadError("connection reset")

    with client(handler) as service, pytest.raises(ServiceError):
        ask(service)
    assert len(tried) == 1


def test_a_refusal_is_the_service_s_own_line_with_its_status():
    """422 is not tried again."""
    tried = []

    def handler(request: httpx.Request) -> httpx.Response:
        tried.append(request)
        return httpx.Response(422, json={"error": "job 'a': worker asks\nfor nothing"})

    with client(handler) as service, pytest.raises(ServiceError) as caught:
        service.submit({"name": "a"})
    assert (caught.value.status, caught.value.message, len(tried)) == (422, "job 'a': worker asks for nothing", 1)


def test_a_page_of_somebody_else_is_no_answer():
    """HTML with 200, as a login page answers, and HTML with 502."""
    for status, words in ((200, "does not answer as the service does"), (502, "was answered with 502")):
        with client(lambda _, status=status: httpx.Response(status, text="<html>")) as service:
            with pytest.raises(ServiceError, match=words):
                service.status()


def test_fields_of_a_newer_service_are_kept_and_missing_ones_have_defaults():
    """An answer with a field nobody here knows goes through whole."""
    told = {"id": "j7", "state": "pending", "colour": "blue"}
    with client(lambda _: httpx.Response(200, json=told)) as service:
        job = service.job("j7")
    assert (job.state, job.start, job.extra) == ("pending", None, {"colour": "blue"})
    assert job.as_dict().items() >= told.items()


def test_all_pages_are_asked_for_as_they_are_taken():
    """250 jobs in pages of 100: three requests for all, one for the first ten."""
    asked = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(dict(request.url.params))
        first = int(request.url.params.get("after", 0))
        rest = range(first, min(first + 100, 250))
        return httpx.Response(
            200, json={"jobs": [{"id": f"j{k}"} for k in rest], "next": str(rest[-1] + 1) if rest[-1] < 249 else None}
        )

    with client(handler) as service:
        assert [job.id for job in service.jobs(state="pending")] == [f"j{k}" for k in range(250)]
        assert [one["state"] for one in asked] == ["pending"] * 3
        asked.clear()
        few = service.jobs()
        assert [next(few).id for _ in range(10)][-1] == "j9" and len(asked) == 1


def test_a_job_of_place_is_sent_with_its_exact_numbers():
    """Sent and read back as the service reads it, nothing is lost: the id is the name, arrival is now."""
    job = place.traces.synthetic(1, seed=3, slots=24)[0]
    body = json.loads(json.dumps(client_module.plain(job)))
    assert body.pop("name") == job.id and "arrival" not in body
    back = place.read.job_from(
        {**body, "id": job.id, "arrival": job.arrival}, place.traces.synthetic_cluster(4), 3600.0
    )
    assert back == job


@pytest.mark.parametrize("id", ["", ".", "..", " "])
def test_an_id_that_would_be_another_path_is_refused(id):
    """DELETE /v1/jobs/.. would be DELETE /v1."""
    with client(lambda _: httpx.Response(200, json={})) as service, pytest.raises(InputError, match="expected the id"):
        service.cancel(id)


def test_a_name_with_a_slash_stays_one_part_of_the_path():
    """Machines may be called what they like."""
    seen = []
    with client(lambda r: seen.append(r.url.raw_path) or httpx.Response(200, json={})) as service:
        service.drain("rack/1")
    assert seen == [b"/v1/machines/rack%2F1/drain"]


@pytest.mark.parametrize("url", ["service:8321", "ftp://service", "http://", "nonsense"])
def test_an_address_that_is_none_is_one_line(url):
    """With an example of one."""
    with pytest.raises(InputError, match="expected one such as http://127"):
        Client(url)


def test_address_and_token_come_from_the_environment_unless_given(monkeypatch):
    """EQUIPOISE_URL and EQUIPOISE_TOKEN; what is given wins."""
    monkeypatch.setenv("EQUIPOISE_URL", "http://elsewhere:1/prefix/")
    monkeypatch.setenv("EQUIPOISE_TOKEN", "secret")
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append((str(request.url), request.headers["Authorization"]))
        return httpx.Response(200, json={})

    Client(transport=httpx.MockTransport(handler)).status()
    Client("http://here", "mine", transport=httpx.MockTransport(handler)).status()
    assert seen == [("http://elsewhere:1/prefix/v1/status", "Bearer secret"), ("http://here/v1/status", "Bearer mine")]


def sse(*events: dict[str, Any], rest: str = "") -> bytes:
    lines = ['event: hello\ndata: {"seq": 0, "now": 0}\n\n: keep-alive\n\n']
    lines += [f"id: {e['seq']}\nevent: {e['kind']}\ndata: {json.dumps(e)}\n\n" for e in events]
    return ("".join(lines) + rest).encode()


def test_events_go_on_after_a_break_from_the_last_one_seen():
    """Two events and half a third, then the stream breaks; the second stream repeats one, which is told once."""
    first, second, third = ({"seq": k, "kind": "tick"} for k in (1, 2, 3))
    asked = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.params["after"], request.headers.get("Last-Event-ID")))
        if len(asked) == 1:
            return httpx.Response(200, content=sse(first, second, rest='id: 3\nevent: tick\ndata: {"seq"'))
        return httpx.Response(200, content=sse(second, third))

    with client(handler) as service:
        stream = service.events()
        assert [next(stream).seq for _ in range(3)] == [1, 2, 3]
    assert asked == [("0", None), ("2", "2")]


def test_events_of_a_service_that_is_gone_end_in_one_line():
    """After as many tries as a request has."""
    with (
        client(lambda _: httpx.Response(401, json={"error": "no token"})) as service,
        pytest.raises(ServiceError, match="no token"),
    ):
        next(service.events())


# The service itself.


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("service")) as url:
        yield url
