"""kill -9 a service at random moments under load, start it again on the same store, and see what it kept.

    tally = killing(url, folder, kills=20, seed=1)      # raises log_model.Broken at the first broken promise

A kill ends the process, not the machine: what the operating system was handed survives it. That `synchronous` writes reach
the disk is asserted by the store itself on every connection.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

import preloaded
from kill_checks import Witness
from kill_clients import CLUSTER, Client, Clock, Gate, Ledger, Request, Wire
from log_model import Broken, expect

SLOT, HORIZON = "10m", "24"
READY = 300  # seconds for a start; kernels may have to be compiled first
SNAPSHOTS = (1, 1, 20, 5000)  # events between snapshots: with 1 every commit writes one
MOMENTS = {
    "any": 2,
    "sent": 3,
    "commit": 2,
    "committed": 2,
    "start": 2,
    "stop": 1,
}  # when a kill comes, and how often it does
ANSWERS = 5, 60  # answers in a life before the kill is prepared: at least, at most
VERIFY_EVERY = 10  # kills


class Server:
    """`equipoise serve` in a process group of its own, so that a kill takes all of it."""

    def __init__(self, url: str, folder: Path, *, snapshot_every: int = 20) -> None:
        cluster = folder / "cluster.yaml"
        if not cluster.exists():
            cluster.write_text(CLUSTER)
        self.log = folder / f"server-{time.monotonic_ns()}.log"
        words = (
            "serve",
            "--store",
            url,
            "--cluster",
            str(cluster),
            "--port",
            "0",
            "--clock",
            "virtual",
            "--slot",
            SLOT,
            "--horizon",
            HORIZON,
            "--rate",
            "0",
            "--log-json",
            "--snapshot-every",
            str(snapshot_every),
        )
        self.began = time.monotonic()
        with self.log.open("wb") as log:
            self.process = preloaded.start(words, folder, log, log)
        self.port = 0

    def ready(self) -> Server:
        """Once it answers."""
        while time.monotonic() - self.began < READY:
            if self.process.poll() is not None:
                raise Broken(f"the server did not start, exit code {self.process.returncode}: {self.said()[-2000:]}")
            self.port = self.port or self._announced()
            if self.port:
                try:
                    Wire(self.port).get("/health")
                    return self
                except (OSError, HTTPException):
                    pass
            time.sleep(0.02)
        raise Broken(f"the server did not start in {READY} s: {self.said()[-2000:]}")

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def heard(self, event: str) -> bool:
        """Whether its log tells of this by now."""
        return f'"event": "{event}"' in self.said()

    def _announced(self) -> int:
        for line in self.said().splitlines():
            if '"event": "serving"' in line:
                return int(json.loads(line)["url"].rstrip("/").rpartition(":")[2])
        return 0

    def kill(self) -> None:
        """SIGKILL to the whole group; gone when this returns."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):  # it ended by itself in between
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)


@dataclass
class Load:
    """Clients at work, at rest whenever there is no server."""

    seed: int
    clients: int = 6
    ledger: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        self.gate = Gate(self.clients + 1)
        self._armed: Callable[[], None] | None = None
        self._arming = threading.Lock()
        kinds = [*[Client] * self.clients, Clock]
        self.all = [kind(c, self.seed, self.gate, self.ledger, self._sent) for c, kind in enumerate(kinds)]
        for client in self.all:
            client.start()
        self.gate.all_parked()

    def arm(self, then: Callable[[], None]) -> None:
        """Do this once, in the client that sends the next request, before it is answered."""
        with self._arming:
            self._armed = then

    def _sent(self) -> None:
        with self._arming:
            then, self._armed = self._armed, None
        if then is not None:
            then()

    def pending(self) -> list[Request]:
        return [client.pending for client in self.all if client.pending is not None]

    def hit(self) -> bool:
        """Whether the end of the last life left a request without an answer."""
        return any(request.unanswered[-1:] == [self.gate.life] for request in self.pending())

    def finish(self) -> None:
        """Every request gets its answer, and no more are made."""
        self.gate.over = True
        for client in self.all:
            client.join()
        if self.gate.trouble:
            raise self.gate.trouble[0]


@contextmanager
def watching(url: str, *, committed: bool) -> Iterator[Callable[[], object]]:
    """Something that changes when the database begins to write, or when others see what was written."""
    last = "SELECT max(seq) FROM events"
    if url.startswith("sqlite"):
        file = url.removeprefix("sqlite:///")
        reader = sqlite3.connect(f"file:{file}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)
        with closing(reader):
            yield lambda: reader.execute(last).fetchone() if committed else os.stat(f"{file}-wal").st_mtime_ns
        return
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        yield lambda: connection.execute(last if committed else "SELECT pg_current_wal_insert_lsn()").fetchone()


class Killing:
    """A store, its server of the moment, its clients and its witness."""

    def __init__(self, url: str, folder: Path, *, seed: int, clients: int = 6) -> None:
        self.url, self.folder = url, folder
        self.rng = random.Random(f"{seed} kills")
        self.load = Load(seed, clients)
        self.witness = Witness(self.load.ledger, seed)
        self.counts: Counter[str] = Counter()
        self.server: Server | None = None
        self._start_takes = 3.0  # seconds, as last seen

    def __enter__(self) -> Killing:
        return self

    def __exit__(self, *error: object) -> None:
        """Whatever happened, leave no process and no thread behind."""
        self.load.gate.fail(Broken("closed"))
        if self.server is not None:
            self.server.kill()

    def begin(self, *, snapshot_every: int = 0) -> Server:
        """Start a server, look at what is there with the clients at rest, and let them go on."""
        every = snapshot_every or self.rng.choice(SNAPSHOTS)
        self.counts["lives with a snapshot in every commit"] += every == 1
        self.server = Server(self.url, self.folder, snapshot_every=every)
        self.server.ready()
        self._start_takes = time.monotonic() - self.server.began
        self.look(self.server)
        self.load.gate.open(self.server.port)
        return self.server

    def look(self, server: Server) -> None:
        self.witness.look(Wire(server.port), self.load.pending(), self.load.gate.life)

    def kill(self, moment: str) -> None:
        if moment == "start":
            self.server = Server(self.url, self.folder, snapshot_every=self.rng.choice(SNAPSHOTS))
            time.sleep(self._start_takes * self.rng.uniform(0.3, 1.0))
            self.server.kill()
        else:
            server = self.begin()
            getattr(self, f"_{moment}")(server)
            self.load.gate.all_parked()
            self.counts["kills that hit a request in flight"] += self.load.hit()
        self.counts["kills"] += 1
        self.counts[f"kills, {moment}"] += 1

    def _any(self, server: Server) -> None:
        """Whatever it is doing."""
        self.answers()
        time.sleep(self.rng.uniform(0.0, 0.1))
        server.kill()

    def _sent(self, server: Server) -> None:
        """Between a request and its answer, or shortly after: while it is decided, written, committed or answered."""
        self.answers()
        part = self.rng.uniform(0.0, 1.3)
        self._strike(server, lambda: time.sleep(part * self.load.ledger.takes))

    def _commit(self, server: Server) -> None:
        """As soon as the database's write-ahead log grows: a transaction, often with a snapshot, is being written."""
        self._when_changed(server, committed=False)

    def _committed(self, server: Server) -> None:
        """As soon as others see the new events: they are stored, and hardly anybody was told."""
        self._when_changed(server, committed=True)

    def _when_changed(self, server: Server, *, committed: bool) -> None:
        self.answers()
        with watching(self.url, committed=committed) as seen:

            def until_changed() -> None:
                before, limit = seen(), time.monotonic() + 1.0
                while seen() == before and time.monotonic() < limit:
                    pass

            self._strike(server, until_changed)

    def _strike(self, server: Server, wait: Callable[[], None]) -> None:
        """Kill after `wait`, which begins when the next request was sent."""
        done = threading.Event()

        def strike() -> None:
            try:
                wait()
            finally:
                server.kill()
                done.set()

        self.load.arm(strike)
        while not done.wait(0.1):
            if self.load.gate.trouble:
                raise self.load.gate.trouble[0]

    def answers(self) -> None:
        """Some answers in this life: so much load, however slow the machine."""
        counts, until = self.load.ledger.counts, time.monotonic() + 10.0
        enough = counts["acknowledged"] + self.rng.randint(*ANSWERS)
        while counts["acknowledged"] < enough and time.monotonic() < until and not self.load.gate.trouble:
            time.sleep(0.005)

    def _stop(self, server: Server) -> None:
        """While it ends as told, and keeps a last snapshot."""
        self.answers()
        server.terminate()
        time.sleep(self.rng.uniform(0.0, 0.25))
        self.counts["kills that came after the end"] += server.process.poll() is not None
        server.kill()

    def end(self) -> None:
        """Everything is answered, looked at once more in full, and the service ends as told."""
        server = self.server if self.server is not None and self.server.process.poll() is None else self.begin()
        self.load.finish()
        wire = Wire(server.port)
        self.witness.look(wire)
        self.witness.same_answers(wire, all=True)
        self.witness.whole_log(wire)
        wire.connection.close()
        server.terminate()
        expect(server.process.wait(60) == 0, f"exit code {server.process.returncode} after SIGTERM")
        self.verify()

    def verify(self) -> None:
        """`equipoise serve --verify-log`: replay equals snapshots, rows and restart, and the log's certificate holds."""
        done = preloaded.run(("serve", "--verify-log", "--json", "--store", self.url), self.folder)
        expect(
            done.returncode == 0,
            f"--verify-log: exit code {done.returncode}: {done.stdout[-3000:]}{done.stderr[-2000:]}",
        )
        expect(json.loads(done.stdout)["certificate"]["passed"], f"--verify-log: {done.stdout}")
        self.counts["verify-log passes"] += 1

    def tally(self) -> Counter[str]:
        ledger, witness = self.load.ledger, self.witness
        sizes = {
            "submissions acknowledged": len(ledger.submissions),
            "events": witness.model.seq,
            "jobs": len(witness.model.jobs),
        }
        return self.counts + ledger.counts + witness.counts + Counter(sizes)


def killing(
    url: str,
    folder: Path,
    *,
    kills: int,
    seed: int,
    clients: int = 6,
    moments: Sequence[str] = (),
    told: Callable[[int, str], None] = lambda number, moment: None,
) -> Counter[str]:
    """All of it, on one store. The first kill falls into the start on an empty store; `moments` overrides those drawn."""
    with Killing(url, folder, seed=seed, clients=clients) as run:
        drawn = ["start", *run.rng.choices(list(MOMENTS), list(MOMENTS.values()), k=kills - 1)]
        for number, moment in enumerate([*moments, *drawn[len(moments) :]], 1):
            run.kill(moment)
            told(number, moment)
            if number % VERIFY_EVERY == 0 and run.witness.model.seq:
                run.verify()
        run.end()
    return run.tally()
