"""What every answer carries, what a refusal says, what the log keeps, and the same over a real socket."""

import asyncio
import contextlib
import io
import json
import logging
import re
import socket
import threading
import time

import pytest
import uvicorn
from guarded import LIMIT, SECRET, Scene, raw

from equipoise.serve.access import Limits, digest
from equipoise.serve.api.guard import POLICY
from equipoise.serve.telemetry import start_logs


@pytest.fixture
def scene():
    return Scene()


@pytest.fixture(scope="module")
def same():
    """One scene for all tests that only look, and ask too often for any limit."""
    return Scene(limits=Limits(body=LIMIT, rate=0, stranger_rate=0))


@pytest.fixture
def log():
    """What the service writes while the test runs, as JSON lines."""
    held = io.StringIO()
    handler = start_logs(as_json=True, stream=held)
    yield held
    logging.getLogger().removeHandler(handler)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/me", 200),
        ("/v1/nothing", 404),
        ("/v1/mistake", 500),
        ("/v1/stream", 200),
        ("/", 200),
        ("/static/x", 200),
        ("/health", 200),
        ("/metrics", 200),
        ("/v1/bad", 422),
    ],
)
def test_every_answer_carries_the_security_headers(same, path, status):
    answer = same.ask("GET", path, "read")
    assert answer.status_code == status
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    kept = path.startswith("/v1") or path == "/metrics"
    assert answer.headers.get_list("cache-control") == (["no-store"] if kept else ["max-age=9"])


def test_refusals_carry_them_too(scene):
    for headers in ({}, {"Host": "evil.example"}):
        assert scene.client.get("/v1/me", headers=headers).headers["content-security-policy"] == POLICY


def test_the_policy_allows_no_inline_script_and_no_frame():
    assert "unsafe" not in POLICY and "frame-ancestors 'none'" in POLICY and "default-src 'self'" in POLICY


def test_a_request_keeps_its_id_if_it_is_a_decent_one(scene):
    given = scene.ask("GET", "/v1/me", "read", headers={"X-Request-ID": "deploy-7.1"})
    assert given.headers["x-request-id"] == "deploy-7.1"
    for hostile in ("", "a b", "x" * 65, '"}{'):
        made = scene.ask("GET", "/v1/me", "read", headers={"X-Request-ID": hostile}).headers["x-request-id"]
        assert re.fullmatch("[0-9a-f]{10}-[0-9a-f]+", made)


def test_a_mistake_of_the_service_is_one_line_and_logged(scene, log):
    """The caller gets the id under which the log tells more, and nothing of the inside."""
    answer = scene.ask("GET", "/v1/mistake", "read")
    told = answer.json()["error"]
    assert answer.status_code == 500 and answer.headers["x-request-id"] in told and "went wrong" not in told
    assert "this went wrong with eq_[hidden]" in log.getvalue() and SECRET not in log.getvalue()


def test_half_an_answer_is_not_made_to_look_whole(scene):
    """A stream that breaks must break for the reader too."""
    with pytest.raises(RuntimeError, match="half way"):
        raw(
            scene.app,
            path="/v1/broken-stream",
            headers=[("Host", "localhost"), ("Authorization", f"Bearer {scene.token['read']}")],
        )


def test_a_stream_is_passed_on_part_by_part(scene):
    """What the application sends is sent on at once: three parts in, three parts out, none held back."""
    sent = []

    async def receive():
        await asyncio.sleep(3600)

    async def send(message):
        sent.append(message.get("body"))

    token = f"Bearer {scene.token['read']}".encode()
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/stream",
        "query_string": b"",
        "scheme": "http",
        "root_path": "",
        "http_version": "1.1",
        "headers": [(b"host", b"localhost"), (b"authorization", token)],
    }
    asyncio.run(scene.app(scope, receive, send))
    assert [part for part in sent if part] == [b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n"]


def test_websockets_are_not_served(scene):
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(scene.app({"type": "websocket", "path": "/v1/read", "headers": []}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"token": 5}', "token"),
        (b'{"tokn": "x"}', "token"),
        (b"", "body"),
    ],
)
def test_bad_bodies_are_told_in_one_line(same, body, told):
    answer = same.client.post("/v1/login", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422 and list(answer.json()) == ["error"]
    assert told in answer.json()["error"] and "\n" not in answer.json()["error"]


def test_bad_input_deeper_down_is_told_in_one_line(scene):
    assert scene.ask("GET", "/v1/bad", "read").json() == {"error": "workers is -1; expected 1 or more"}


def test_a_wrong_method_is_told_the_right_ones(scene):
    """All that the path has, though each is a route of its own."""
    answer = scene.ask("PATCH", "/v1/tenants/red", "admin")
    assert answer.status_code == 405 and answer.headers["allow"] == "DELETE, PUT"
    assert answer.json() == {"error": "Method Not Allowed"}
    assert scene.ask("PATCH", "/v1/tokens", "admin").headers["allow"] == "GET, POST"


# over a real socket


@pytest.fixture(scope="module")
def server():
    """uvicorn on a free port, and a way to send it raw bytes."""
    scene = Scene(limits=Limits(body=LIMIT, rate=0, stranger_rate=0))
    config = uvicorn.Config(scene.app, port=0, host="127.0.0.1", log_config=None, lifespan="off")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]

    def send(*lines, body=b""):
        """The whole answer to these lines and this body."""
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            head = "\r\n".join([*lines, f"Authorization: Bearer {scene.token['read']}", "", ""])
            with contextlib.suppress(ConnectionError):
                line.sendall(head.encode() + body)
            answer = b""
            with contextlib.suppress(ConnectionError):
                while part := line.recv(65536):
                    answer += part
        return answer.decode()

    yield send
    running.should_exit = True
    thread.join(20)


def chunked(size, count):
    return b"".join(b"%x\r\n%s\r\n" % (size, b"x" * size) for _ in range(count)) + b"0\r\n\r\n"


@pytest.mark.parametrize(
    ("size", "count", "status"), [(100, 10, 200), (1, LIMIT, 200), (1, LIMIT + 1, 413), (100, 11, 413)]
)
def test_chunks_over_the_wire_are_counted(server, size, count, status):
    """No Content-Length at all: up to the limit it is read, one byte more and it is not."""
    answer = server(
        "POST /v1/body HTTP/1.1",
        "Host: localhost",
        "Transfer-Encoding: chunked",
        "Connection: close",
        body=chunked(size, count),
    )
    assert answer.startswith(f"HTTP/1.1 {status} ")
    if status == 200:
        assert answer.endswith(f'{{"bytes":{size * count}}}')


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (("GET /v1/me HTTP/1.1", "Host: localhost", "Connection: close"), 200),
        (("GET /v1/me HTTP/1.0",), 421),
        (("GET /v1/me HTTP/1.1", "Connection: close"), 421),
        (("GET /v1/me HTTP/1.1", "Host: evil.example", "Connection: close"), 421),
        (("GET http://evil.example/v1/me HTTP/1.1", "Host: evil.example", "Connection: close"), 421),
        (("POST /v1/body HTTP/1.1", "Host: localhost", "Connection: close", "Content-Length: 99999999"), 413),
        (("DELETE /v1/tokens/my-read HTTP/1.1", "Host: localhost", "Connection: close"), 403),
    ],
)
def test_requests_over_the_wire(server, lines, status):
    assert server(*lines).startswith(f"HTTP/1.1 {status} ")


def test_a_length_and_chunks_together_are_not_two_requests(server):
    """What a proxy and the server could read differently: one answer, or none, never the smuggled one."""
    inner = b"GET /v1/read HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = server(
        "POST /v1/body HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {len(inner) + 5}",
        "Transfer-Encoding: chunked",
        "Connection: close",
        body=b"0\r\n\r\n" + inner,
    )
    assert answer.count("HTTP/1.1 ") <= 1 and '"caller"' not in answer


# the log


def test_each_request_is_one_line_of_the_log_without_its_query(scene, log):
    scene.ask("GET", "/v1/me?secret=1", "read")
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    (line,) = [line for line in lines if line["event"] == "request"]
    assert {name: line[name] for name in ("method", "path", "status", "caller", "level")} == {
        "method": "GET",
        "path": "/v1/me",
        "status": 200,
        "caller": "my-read",
        "level": "info",
    }
    assert line["ms"] >= 0 and line["request"]


def test_no_token_no_session_and_no_digest_reach_the_log(scene, log):
    """A whole day of use and abuse: tokens in headers, bodies, paths, queries, cookies, ids and mistakes."""
    logging.getLogger().setLevel(logging.DEBUG)
    token = scene.token["admin"]
    made = scene.ask("POST", "/v1/tokens", "admin", json={"name": "ci", "role": "submit"}).json()["token"]
    cookie = scene.login("admin").headers["set-cookie"].split(";")[0].split("=")[1]
    scene.client.get("/v1/me")
    scene.client.cookies.clear()
    scene.client.get(f"/v1/{token}?token={token}", headers={"X-Request-ID": token[:40]})
    scene.client.get("/v1/mistake", headers=scene.bearer("admin"))
    scene.client.post("/v1/login", json={"token": [token]})
    scene.client.post("/v1/login", content=f"token={token}")
    scene.client.get("/v1/me", headers={"Authorization": f"Token {token}", "Host": token})
    scene.ask("DELETE", f"/v1/tokens/{token}", "admin")
    written = log.getvalue()
    assert written.count("\n") >= 9
    for secret in (token, made, cookie, SECRET, token[10:30], digest(token), digest(cookie)):
        assert secret not in written


def test_what_was_sent_is_not_repeated_in_the_refusal(scene):
    """A body that is no JSON may hold a token all the same."""
    for body in (f'{{"token": ["{SECRET}"]}}', f'{{"token": "{SECRET}', f'{{"{SECRET}": 1, "token": ""}}'):
        answer = scene.client.post("/v1/login", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422 and SECRET not in answer.text


def test_the_schema_knows_every_refusal(scene):
    """Every route of access documents what the guard may answer, in the one shape errors have."""
    paths = scene.ask("GET", "/openapi.json", "read").json()["paths"]
    for path in (
        "/v1/login",
        "/v1/logout",
        "/v1/me",
        "/v1/tokens",
        "/v1/tokens/{name}",
        "/v1/tenants",
        "/v1/tenants/{name}",
    ):
        for operation in paths[path].values():
            for status in ("400", "401", "403", "413", "421", "422", "429", "500", "503"):
                schema = operation["responses"][status]["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorOut"}
