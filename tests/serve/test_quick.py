"""The quick way of plain submissions answers as the framework does."""

import json
import socket

import pytest
from live import JOB, live

SLOW = {"Content-Type": "application/json; charset=utf-8"}  # the framework's way


@pytest.fixture
def served(tmp_path):
    with live(tmp_path, tokens={"boss": ("admin", ""), "ann": ("submit", "red"), "eve": ("read", "red")}) as one:
        yield one


def test_both_ways_give_one_answer_to_one_key(served):
    """Sent plainly first, and then with another content type: the same bytes, and one job."""
    client = served.client("ann")
    body = json.dumps(JOB)
    plain = client.post("/v1/jobs", content=body, headers={"Content-Type": "application/json", "Idempotency-Key": "k"})
    slow = client.post("/v1/jobs", content=body, headers=SLOW | {"Idempotency-Key": "k"})
    assert plain.status_code == slow.status_code == 201
    assert plain.content == slow.content
    assert client.get("/v1/status").json()["jobs"] == {"admitted": 1}


@pytest.mark.parametrize(
    ("who", "body", "status"),
    [
        ("ann", "{", 422),
        ("ann", "[]", 422),
        ("ann", '{"worker": {"gpu": 1}, "workers": "x"}', 422),
        ("ann", '{"worker": {"gpu": 1}, "durations": "1h"}', 422),
        ("ann", '{"worker": {"tpu": 1}, "duration": "1h"}', 422),
        ("eve", json.dumps(JOB), 403),
        ("ann", "", 422),
    ],
)
def test_both_ways_refuse_alike(served, who, body, status):
    client = served.client(who)
    told = [client.post("/v1/jobs", content=body, headers=h) for h in ({"Content-Type": "application/json"}, SLOW)]
    assert [one.status_code for one in told] == [status, status]
    assert told[0].json() == told[1].json() and len(told[0].json()["error"].splitlines()) == 1


def test_who_goes_away_in_the_middle_of_a_body_asked_for_nothing(served):
    """A body that is whole JSON so far, of which more was announced: the connection ends, and there is no job."""
    host, port = served.address.removeprefix("http://").split(":")
    text = json.dumps(JOB)
    head = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {served.secrets['ann']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(text) + 9}\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as one:
        one.sendall((head + text).encode())
    client = served.client("ann")
    assert client.post("/v1/jobs", json=JOB | {"name": "after"}).json()["id"] == "j1"
