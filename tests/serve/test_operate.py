"""The steps of docs/operate.md with real processes: what an operator does, and what disk, database and clock do."""

from __future__ import annotations

import itertools
import json
import os
import resource
import signal
import sqlite3
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import preloaded
import pytest
from postgres import Server as Postgres, postgres, postgres_url  # noqa: F401

from equipoise.serve.replay import restored, verify_log
from equipoise.serve.store import peek_store

CLUSTER = "machines:\n- {name: box, count: 2, capacity: {gpu: 4, cpu: 32}}\n"
VIRTUAL = ("--clock", "virtual", "--slot", "10m", "--horizon", "24")
PATIENCE = 120  # seconds until a wait is given up; nothing is measured
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("EQUIPOISE_")}


def until(happened: Callable[[], Any]) -> Any:
    """What `happened` returns, once it is true."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        if found := happened():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{happened} did not come about in {PATIENCE} s")


def equipoise(*words: str, code: int = 0) -> str:
    """What the command prints; its exit code must be `code`. Errors are one line."""
    done = preloaded.run(words, Path.cwd(), ENVIRONMENT, PATIENCE)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def verified(url: str) -> int:
    """The last event of a store that is sound, as `--verify-log` finds it."""
    with peek_store(url) as store:
        certificate, seq = verify_log(store)
    assert certificate.passed
    return seq


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.ConnectError:  # its port is taken, and not yet listened on
        return False


class Serving:
    """`equipoise serve` in a process of its own."""

    def __init__(self, url: str, folder: Path, *options: str, environment: dict[str, str] | None = None) -> None:
        machines = folder / "cluster.yaml"
        machines.write_text(CLUSTER)
        self.log = folder / f"server-{time.monotonic_ns()}.log"
        words = ("serve", "--store", url, "--cluster", str(machines), "--port", "0", "--log-json", *options)
        with self.log.open("wb") as log:
            if environment is None:
                self.process: Any = preloaded.start(words, folder, log, log, ENVIRONMENT)
            else:  # it is read when Python starts
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "equipoise", *words],
                    cwd=folder,
                    stdout=log,
                    stderr=log,
                    env=ENVIRONMENT | environment,
                )

    def said(self, event: str) -> list[dict[str, Any]]:
        """The lines of its log about this event."""
        lines = (line for line in self.log.read_text().splitlines() if line.endswith("}"))
        return [line for line in map(json.loads, lines) if line["event"] == event]

    @contextmanager
    def ready(self, **how: Any) -> Iterator[httpx.Client]:
        """A client, once it serves."""

        def announced() -> list[dict[str, Any]]:
            assert self.process.poll() is None, self.log.read_text()
            return self.said("serving")

        (serves,) = until(announced)
        with httpx.Client(base_url=serves["url"], timeout=60.0, **how) as client:
            until(lambda: answers(client))
            yield client

    def stop(self) -> int:
        """SIGTERM, as systemd and containers do; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextmanager
def serving(url: str, folder: Path, *options: str, **how: Any) -> Iterator[Serving]:
    one = Serving(url, folder, *options, **how)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGCONT)
            one.process.kill()
            one.process.wait()


def submit(client: httpx.Client, name: str) -> httpx.Response:
    body = {"name": name, "worker": {"gpu": 1}, "workers": 2, "duration": "20m", "value": 10}
    return client.post("/v1/jobs", json=body, headers={"Idempotency-Key": name})


def submitted(client: httpx.Client, name: str) -> str:
    answer = submit(client, name)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def jobs(client: httpx.Client) -> set[str]:
    return {job["id"] for job in client.get("/v1/jobs", params={"limit": 500}).json()["jobs"]}


def log(client: httpx.Client) -> list[dict[str, Any]]:
    events, after = [], 0
    while after is not None:
        page = client.get("/v1/log", params={"after": after}).json()
        events, after = events + page["events"], page["next"]
    return events


def test_a_backup_taken_while_it_serves_is_put_in_place_of_the_store(tmp_path: Path) -> None:
    """Jobs before the backup are in it, those after are not; the restored store is sound, and numbers go on after it."""
    file, copy = tmp_path / "plan.db", tmp_path / "copy.db"
    url = f"sqlite:///{file}"
    with serving(url, tmp_path, *VIRTUAL) as server, server.ready() as client:
        before = {submitted(client, f"before {k}") for k in range(5)}
        equipoise("serve", "--store", url, "--backup", str(copy))
        after = submitted(client, "after")
        assert server.stop() == 0
    for leftover in tmp_path.glob("plan.db-*"):  # -wal and -shm belong to the file that is replaced
        leftover.unlink()
    copy.replace(file)
    told = json.loads(equipoise("serve", "--store", url, "--verify-log", "--json"))
    assert told["certificate"]["passed"]
    assert told["seq"] == 1 + 2 * len(before)
    with serving(url, tmp_path, *VIRTUAL) as server, server.ready() as client:
        assert jobs(client) == before
        assert submitted(client, "anew") == after  # its number was never given in this history


def test_a_store_moves_to_postgresql_and_back_and_is_the_same(postgres_url: str, tmp_path: Path) -> None:  # noqa: F811
    """Events, and the digest of the state they replay to, are equal in all three; each is sound, and a full one refused."""
    urls = [f"sqlite:///{tmp_path}/old.db", postgres_url, f"sqlite:///{tmp_path}/new.db"]
    with serving(urls[0], tmp_path, *VIRTUAL) as server, server.ready() as client:
        for k in range(5):
            submitted(client, f"job {k}")
        client.post("/v1/clock", json={"advance": 1}).raise_for_status()
        assert server.stop() == 0
    for source, target in itertools.pairwise(urls):
        equipoise("serve", "--store", source, "--copy-to", target)
    assert "not empty" in equipoise("serve", "--store", urls[0], "--copy-to", urls[1], code=2)
    held = []
    for url in urls:
        with peek_store(url) as store:
            held.append((list(store.events()), restored(store).digest(), store.snapshots(), store.counts()))
        verified(url)
    assert held[0] == held[1] == held[2]
    assert len(held[0][0]) > 10


def test_a_second_server_takes_over_when_the_first_is_stopped(postgres_url: str, tmp_path: Path) -> None:  # noqa: F811
    """Failing over on purpose: SIGTERM to the first. A client that asks the second with the same key gets the same job."""
    with serving(postgres_url, tmp_path, *VIRTUAL) as first, first.ready() as client:
        job = submitted(client, "asked twice")
        with serving(postgres_url, tmp_path, *VIRTUAL) as second:
            until(lambda: second.said("waiting"))
            assert not second.said("serving")
            assert first.stop() == 0
            with second.ready() as other:
                assert submitted(other, "asked twice") == job
                assert jobs(other) == {job}


def room(server: Serving, most: int) -> None:
    """How long a file of the server may get: writing beyond it fails as on a full disk, until it is raised again."""
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def test_a_full_disk_costs_nothing_that_was_answered(tmp_path: Path) -> None:
    """503 and not healthy while nothing can be written; what was answered before is there, reads go on, and with room again
    the same request is stored once."""
    url = f"sqlite:///{tmp_path}/plan.db"
    with serving(url, tmp_path, *VIRTUAL) as server, server.ready() as client:
        answered = {submitted(client, f"before {k}") for k in range(5)}
        room(server, (tmp_path / "plan.db-wal").stat().st_size)
        for _ in range(3):
            assert submit(client, "meanwhile").status_code == 503
        assert client.get("/health").status_code == 503
        assert jobs(client) == answered
        assert "equipoise_store_failures_total 3.0" in client.get("/metrics").text
        room(server, resource.RLIM_INFINITY)
        until(lambda: client.get("/health").status_code == 200)  # by itself: nobody has to ask for anything first
        late = submitted(client, "meanwhile")
        assert submitted(client, "meanwhile") == late
        assert jobs(client) == answered | {late}
        assert server.stop() == 0
    assert verified(url) == 1 + 2 * (len(answered) + 1)


@contextmanager
def away(database: Postgres) -> Iterator[None]:
    """PostgreSQL is shut down as for its own upgrade, and started again on the same port."""
    started = database._server
    started.send_signal(signal.SIGINT)
    started.wait(PATIENCE)
    try:
        yield
    finally:
        database._server = subprocess.Popen(
            started.args, cwd=database.folder, stdout=database._log, stderr=subprocess.STDOUT, **database._as
        )


def test_a_database_that_goes_away_is_waited_for(postgres: Postgres, postgres_url: str, tmp_path: Path) -> None:  # noqa: F811
    """503 for whoever asks or reads meanwhile; a server started then ends with 1, so that it is started again; when
    PostgreSQL is back the service goes on by itself, with all it answered and what was refused stored once."""
    with serving(postgres_url, tmp_path, *VIRTUAL) as server, server.ready() as client:
        answered = {submitted(client, f"before {k}") for k in range(3)}
        with away(postgres):
            assert submit(client, "meanwhile").status_code == 503
            assert submit(client, "meanwhile").status_code == 503
            assert client.get("/v1/jobs").status_code == 503
            assert client.get("/health").status_code == 503
            (line,) = equipoise("serve", "--store", postgres_url, "--port", "0", code=1).strip().splitlines()
            assert "failed" in line
            assert "s3cret-word" not in line
        until(lambda: client.get("/health").status_code == 200)
        late = until(lambda: submit(client, "meanwhile").json().get("id"))
        assert submitted(client, "meanwhile") == late
        assert jobs(client) == answered | {late}
        assert server.stop() == 0
    verified(postgres_url)


def test_when_the_database_restarts_one_of_two_servers_goes_on(
    postgres: Postgres,  # noqa: F811
    postgres_url: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    """A restart ends the session that holds the store and the one that waits. Whoever is faster serves; if that is the
    standby, the first ends by itself, without being asked for anything."""
    with (
        serving(postgres_url, tmp_path, *VIRTUAL) as first,
        first.ready() as client,
        serving(postgres_url, tmp_path, *VIRTUAL) as second,
    ):
        job = submitted(client, "asked twice")
        until(lambda: second.said("waiting"))
        with away(postgres):
            assert submit(client, "meanwhile").status_code == 503
            time.sleep(2.0)  # by now the first tries less often than the second
        until(lambda: first.process.poll() == 1 if second.said("serving") else first.said("recovered"))
        with second.ready() if second.said("serving") else first.ready() as winner:
            assert submitted(winner, "asked twice") == job


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    """After a downgrade: one line, exit code 2, and the file is as it was."""
    file = tmp_path / "plan.db"
    url = f"sqlite:///{file}"
    equipoise("admin", "token", "add", "ops", "--role", "admin", "--store", url)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE equipoise_schema SET version_num = '9999'")
    was = file.read_bytes()
    (line,) = equipoise("serve", "--store", url, "--port", "0", code=2).strip().splitlines()
    assert "9999" in line
    assert "newer" in line
    assert file.read_bytes() == was


def test_over_tls_tokens_are_added_rotated_and_revoked_while_it_serves(tmp_path: Path) -> None:
    """A certificate made by openssl. The first token closes the open service; rotating is a second token, then revoking."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = (
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=plan",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    )
    subprocess.run(["openssl", "req", "-x509", "-keyout", key, "-out", cert, *made], check=True, capture_output=True)
    url = f"sqlite:///{tmp_path}/plan.db"

    def token(*words: str) -> str:
        return equipoise("admin", "token", *words, "--store", url).strip()

    trusted = ssl.create_default_context(cafile=str(cert))
    with (
        serving(url, tmp_path, *VIRTUAL, "--tls-cert", str(cert), "--tls-key", str(key)) as server,
        server.ready(verify=trusted) as client,
    ):
        assert client.base_url.scheme == "https"

        def status(secret: str = "") -> int:
            return client.get("/v1/status", headers={"Authorization": f"Bearer {secret}"} if secret else {}).status_code

        assert status() == 200
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(client.base_url)
        old = token("add", "ops", "--role", "admin")
        until(lambda: status() == 401)
        until(lambda: status(old) == 200)
        new = token("add", "ops-2", "--role", "admin")
        until(lambda: status(new) == 200)
        token("revoke", "ops")
        until(lambda: status(old) == 401)
        assert status(new) == 200
        assert status() == 401
        assert not any(secret in server.log.read_text() for secret in (old, new))


SHIFTED = """
import pathlib, time
true, shift = time.time, pathlib.Path({file!r})
time.time = lambda: true() + float(shift.read_text())
"""


@pytest.fixture
def shift(tmp_path: Path) -> Path:
    """Seconds that the wall clock of a server is ahead; a write to this file is a jump of its clock."""
    file, folder = tmp_path / "shift", tmp_path / "site"
    file.write_text("0")
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SHIFTED.format(file=str(file)))
    return file


def jump(shift: Path, seconds: float) -> None:
    new = shift.with_name("shift.new")
    new.write_text(str(seconds))
    new.replace(shift)


def test_slots_that_nobody_saw_are_caught_up(shift: Path, tmp_path: Path) -> None:
    """Stopped and continued, killed and started, the wall clock ahead and back: the slots pass in order; a job whose slots
    passed meanwhile has finished in the one it was promised; and time never goes back."""
    url, second = f"sqlite:///{tmp_path}/plan.db", ("--clock", "real", "--slot", "1s", "--horizon", "1000")
    shifted = {"PYTHONPATH": os.pathsep.join(filter(None, [str(shift.parent / "site"), ENVIRONMENT.get("PYTHONPATH")]))}

    def slot(client: httpx.Client) -> int:
        return int(client.get("/v1/status").json()["now"])

    def due() -> int:
        """The slot that it is by the clock and the log alone."""
        with closing(sqlite3.connect(tmp_path / "plan.db")) as database:
            ((opened,),) = database.execute("SELECT data FROM events WHERE seq = 1")
        return int(time.time() + float(shift.read_text()) - json.loads(opened)["start"])

    with serving(url, tmp_path, *second, environment=shifted) as server, server.ready() as client:
        body = {"name": "two slots", "worker": {"gpu": 1}, "workers": 1, "duration": "2s", "value": 10}
        job = client.post("/v1/jobs", json=body).json()
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(4.0)
        server.process.send_signal(signal.SIGCONT)
        passed = due()
        until(lambda: slot(client) >= passed)
        server.process.kill()
        server.process.wait()
    time.sleep(2.0)
    with serving(url, tmp_path, *second, environment=shifted) as server, server.ready() as client:
        assert slot(client) >= passed + 2
        over = client.get(f"/v1/jobs/{job['id']}").json()
        assert (over["state"], over["finish"]) == ("finished", job["end"])
        jump(shift, 300)
        until(lambda: slot(client) >= passed + 300)
        jump(shift, 0)
        ahead = slot(client)
        body["name"] = "while the clock is behind"
        assert client.post("/v1/jobs", json=body).json()["start"] >= ahead
        time.sleep(2.0)
        assert slot(client) <= ahead + 1  # the slots there were wait until the clock has come there again
        ticks = [event["data"]["slot"] for event in log(client) if event["kind"] == "tick"]
        assert ticks == sorted(set(ticks))  # idle slots may pass together
        assert server.stop() == 0
    verified(url)
