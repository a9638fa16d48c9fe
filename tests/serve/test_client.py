"""The client: what it sends, how it comes back from a broken connection, and the service as it meets it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from equipoise import place
from equipoise.place.job import Demand
from equipoise.serve import _connection as connection
from equipoise.serve.client import Client, ServiceError, plain
from equipoise.serve.local import started
from refusals import refused

CLUSTER = "machines:\n  - {name: box, count: 2, capacity: {gpu: 4, cpu: 32, memory: 128Gi}}\n"
SMALL = {"name": "small", "worker": {"gpu": 1, "cpu": 2}, "workers": 1, "duration": "20m", "value": 50}
Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """No pauses between tries, and no address or token from outside."""
    monkeypatch.setattr(connection, "FIRST_PAUSE", 0.001)
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
    for status in (200, 502):
        with (
            client(lambda _, status=status: httpx.Response(status, text="<html>")) as service,
            pytest.raises(ServiceError) as caught,
        ):
            service.status()
        assert caught.value.status == status


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
    body = json.loads(json.dumps(plain(job)))
    assert body.pop("name") == job.id and "arrival" not in body
    back = place.job_spec.job_from(
        {**body, "id": job.id, "arrival": job.arrival}, place.traces.synthetic_cluster(4), 3600.0
    )
    assert back == job


@pytest.mark.parametrize("id", ["", ".", "..", " "])
def test_an_id_that_would_be_another_path_is_refused(id):
    """DELETE /v1/jobs/.. would be DELETE /v1."""
    with client(lambda _: httpx.Response(200, json={})) as service, refused("name.form", repr(id)):
        service.cancel(id)


def test_a_name_with_a_slash_stays_one_part_of_the_path():
    """Machines may be called what they like."""
    seen = []
    with client(lambda r: seen.append(r.url.raw_path) or httpx.Response(200, json={})) as service:
        service.drain("rack/1")
    assert seen == [b"/v1/machines/rack%2F1/drain"]


@pytest.mark.parametrize(
    "url", ["service:8321", "ftp://service", "http://", "nonsense", "http://a:b", "http://a:99999"]
)
def test_an_address_that_is_none_is_one_line(url):
    """With an example of one."""
    with refused("address.form", "http://127.0.0.1:8321"):
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
        pytest.raises(ServiceError) as caught,
    ):
        next(service.events())
    assert (caught.value.status, caught.value.message) == (401, "no token")


def test_a_request_too_many_was_not_done_and_is_sent_again_whatever_it_is():
    """429, then the answer: also for what is otherwise sent once."""
    tried = []

    def handler(request: httpx.Request) -> httpx.Response:
        tried.append(request)
        return (
            httpx.Response(429, json={"error": "slower"}) if len(tried) == 1 else httpx.Response(200, json={"now": 2})
        )

    with client(handler) as service:
        assert service.advance(2) == 2 and len(tried) == 2


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(monkeypatch):
    """HTTP_PROXY names a port where nobody is: a service of this machine is reached all the same."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    class Said(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"now": 3}')

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Said) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for host in ("127.0.0.1", "localhost"):
            assert Client(f"http://{host}:{server.server_port}").status() == {"now": 3}
        server.shutdown()


# The service itself.


@pytest.fixture(scope="module")
def cluster_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("cluster") / "cluster.yaml"
    path.write_text(CLUSTER)
    return path


@pytest.fixture(scope="module")
def address(cluster_file) -> Iterator[str]:
    with started(cluster_file, "10m") as url:
        yield url


@pytest.fixture
def service(address) -> Iterator[Client]:
    with Client(address) as client:
        yield client


def test_a_job_from_submission_to_its_end(service):
    """Two slots of work: admitted now, running in this slot and the next, finished two slots later."""
    job = service.submit(SMALL)
    assert (job.state, job.name, job.submitted, job.over) == ("admitted", "small", service.cluster().now, False)
    found = service.job(job.id)
    assert found.cells is not None and {cell[1] for cell in found.cells} == set(found.machines)
    service.advance(3)
    assert service.wait(job.id, timeout=30).state == "finished"
    assert next(iter(service.history(job.id))).kind == "submitted"
    assert service.explain(job.id)["text"]


def test_the_same_key_is_one_job_and_another_body_under_it_is_refused(service):
    """201 twice with one id; then 409."""
    one, two = (service.submit(SMALL, key="once") for _ in range(2))
    assert one.id == two.id
    with pytest.raises(ServiceError) as caught:
        service.submit(SMALL | {"value": 51}, key="once")
    assert caught.value.status == 409


def test_a_dry_run_stores_nothing_and_spends_no_key(service):
    """The key given with it is free afterwards."""
    before = service.status()["seq"]
    told = service.submit(SMALL | {"name": "imagined"}, key="later", dry_run=True)
    assert (told.id, told.state) == ("", "admitted") and service.status()["seq"] == before
    assert service.submit(SMALL | {"name": "real"}, key="later").name == "real"


def test_jobs_are_found_by_state_and_name_over_pages(service):
    """Seven jobs in pages of three, in both orders."""
    ids = [service.submit(SMALL | {"name": f"paged-{k}"}).id for k in range(7)]
    assert [job.id for job in service.jobs(name="paged-", order="oldest", page=3)] == ids
    assert [job.id for job in service.jobs(name="paged-", page=3)] == ids[::-1]
    service.cancel(ids[0])
    assert [job.id for job in service.jobs(name="paged-", state="cancelled")] == ids[:1]
    assert {job.id for job in service.jobs(name="paged-", state=["cancelled", "admitted"])} <= set(ids)


def test_progress_finish_and_a_job_that_is_over(service):
    """Half done by its fraction; done when it says so; then nothing more can be told of it."""
    job = service.submit(SMALL | {"duration": "2h"})
    half = service.progress(job.id, fraction=0.5)
    assert half.done == pytest.approx(half.work / 2)
    assert service.finish(job.id).state == "finished"
    with pytest.raises(ServiceError) as caught:
        service.cancel(job.id)
    assert caught.value.status == 409 and "finished" in caught.value.message
    with refused("progress.form"):
        service.progress(job.id)


def test_machines_come_drain_go_and_come_back(service):
    """One more machine; drained, down and up again."""
    (added,) = service.add_machine("extra", {"gpu": 2, "cpu": 8, "memory": "64Gi"})
    assert added.capacity["gpu"] == 2 and added.name in {machine.name for machine in service.machines()}
    for change, status in ((service.drain, "draining"), (service.down, "down"), (service.up, "up")):
        assert change(added.name)["machine"]["status"] == status
    with pytest.raises(ServiceError) as caught:
        service.down("nowhere")
    assert caught.value.status == 404 and "'nowhere'" in caught.value.message


def test_what_can_be_read(service):
    """Prices, schedule, forecast and certificate answer, and agree on the slot."""
    now = service.cluster().now
    assert service.prices("gpu")["now"] == service.schedule()["now"] == now
    assert service.forecast(SMALL)["start"] >= now
    assert service.certificate()["passed"] is True
    assert service.advance(to=now + 1) == now + 1


def test_a_job_of_place_arrives_as_it_is(service):
    """All of its numbers, by the log's own copy; a random one, but for the disk that these machines do not have."""
    drawn = place.traces.synthetic(1, seed=3, slots=24)[0]
    demands = {
        side: Demand({r: m for r, m in getattr(drawn, side).items() if r != "disk"}) for side in ("worker", "server")
    }
    job = drawn.but(**demands)
    told = service.submit(job)
    logged = next(event for event in service.history(told.id) if event.kind == "submitted").data["job"]
    back = place.job_spec.job_from({**logged, "id": job.id, "arrival": 0}, place.traces.synthetic_cluster(4), 600.0)
    assert told.name == job.id and back == job.but(arrival=0)


def test_the_stream_and_the_log_tell_the_same_events(service):
    """Everything so far, once each, without a gap."""
    service.submit(SMALL)
    log = list(service.log(page=7))
    stream = service.events()
    assert [next(stream) for _ in log] == log and [event.seq for event in log] == list(range(1, len(log) + 1))
    stream.close()


def test_waiting_is_bounded(service):
    """Nobody moves the clock: a quarter of a second, then an error."""
    job = service.submit(SMALL)
    with pytest.raises(TimeoutError, match=f"job {job.id} is admitted"):
        service.wait(job.id, timeout=0.25)


def test_a_certificate_of_its_own_is_trusted_where_it_is_named(cluster_file, tmp_path, monkeypatch):
    """Over TLS with a certificate that no authority signed: refused, unless `verify` or SSL_CERT_FILE names it."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-keyout",
        key,
        "-out",
        cert,
        *names,
    ]
    subprocess.run(make, check=True, capture_output=True)
    with started(cluster_file, "10m", "--tls-cert", str(cert), "--tls-key", str(key)) as url:
        assert url.startswith("https://")
        with pytest.raises(ServiceError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            Client(url, tries=1).status()
        assert caught.value.status == 0 and "\n" not in str(caught.value)
        assert Client(url, verify=cert).status()["now"] == 0
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        assert Client(url).status()["now"] == 0
    with refused("certificate.read", "none.pem"):
        Client(verify=tmp_path / "none.pem")


def test_nothing_is_submitted_twice_when_the_service_dies_and_comes_back(cluster_file, tmp_path):
    """Jobs are submitted without pause while the service is killed and started again on its store: each is there once.

    Killed hard, it cannot answer what it had stored: the client asks again under the same key.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "equipoise",
        "serve",
        "--store",
        f"sqlite:///{tmp_path}/kept.db",
        "--port",
        str(port),
    ]
    command += ["--clock", "virtual", "--cluster", str(cluster_file), "--log-level", "error"]
    names = [f"job-{k}" for k in range(60)]
    answered: list[str] = []
    begun = threading.Event()

    def submit_all() -> None:
        with Client(f"http://127.0.0.1:{port}", tries=1000) as client:
            for name in names:
                answered.append(client.submit(SMALL | {"name": name, "duration": "5m"}).id)
                if len(answered) == 15:
                    begun.set()

    sender = threading.Thread(target=submit_all, daemon=True)
    sender.start()
    first = subprocess.Popen(command)
    assert begun.wait(timeout=200)
    first.kill()
    first.wait()
    second = subprocess.Popen(command)
    try:
        sender.join(timeout=200)
        with Client(f"http://127.0.0.1:{port}") as client:
            told = [(job.name, job.id) for job in client.jobs(order="oldest")]
            assert told == list(zip(names, answered, strict=True))
            assert client.certificate()["passed"] is True
    finally:
        second.terminate()
        second.wait()


def test_a_client_loads_no_planner():
    """Asking a service takes no numerical library: a command answers at once."""
    code = "import sys, equipoise.serve; print({'numba', 'numpy', 'scipy', 'fastapi', 'sqlalchemy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
