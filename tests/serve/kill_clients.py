"""Clients of a service that is killed under them: each asks, writes down what was answered, and asks again what was not.

What they write down (`Ledger`) lies outside the server's process: it is what the service has acknowledged, and must keep.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from log_model import OPEN, Broken

GPUS = 8
MACHINES = 6  # of which the first TOUCHED fail, drain and return
TOUCHED = 4
MOST_ADDED = 3
CLUSTER = "machines:\n" + "".join(
    f"- {{name: m{k}, count: 1, capacity: {{gpu: {GPUS}, cpu: 64, memory: 512Gi}}}}\n" for k in range(MACHINES)
)
SUBMISSIONS_A_SLOT = 6  # so that more is asked for than fits: some are promised, some lent, some wait, some refused
PATIENCE = 60  # seconds for an answer; only a server that hangs takes so long


@dataclass
class Request:
    """One thing asked. `asked`: what it is to bring about, to find it again in the log."""

    what: str  # submit | cancel | finish | progress | machine | add | clock | prices
    method: str
    path: str
    body: dict[str, Any] | None = None
    key: str = ""
    job: str = ""
    asked: Any = None
    unanswered: list[int] = field(default_factory=list)  # the lives of the server in which it was sent in vain
    status: int = 0
    answer: bytes = b""

    @property
    def told(self) -> dict[str, Any]:
        return dict(json.loads(self.answer))


@dataclass
class Ledger:
    """All that was acknowledged, and what is not yet."""

    submissions: dict[str, Request] = field(default_factory=dict)  # by key
    others: list[Request] = field(default_factory=list)
    over: set[str] = field(default_factory=set)  # jobs that the service said are over
    machines: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    takes: float = 0.01  # seconds from a request to its answer, of late
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str) -> None:
        with self._counting:
            self.counts[what] += 1

    def acknowledge(self, request: Request) -> None:
        self.count("acknowledged")
        if request.what == "submit":
            self.submissions[request.key] = request
        else:
            self.others.append(request)
        if request.what == "machine":
            self.machines[request.asked[0]] = request.asked[1]


class Wire:
    """A kept-alive connection. `sent` is called between a request and its answer."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def ask(
        self, method: str, path: str, body: object = None, key: str = "", sent: Callable[[], None] = lambda: None
    ) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        self.connection.request(method, path, None if body is None else json.dumps(body), headers)
        sent()
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def get(self, path: str) -> Any:
        status, text = self.ask("GET", path)
        if status != 200:
            raise Broken(f"GET {path}: {status} {text[:200]!r}")
        return json.loads(text)


class Gate:
    """Where clients wait while there is no server. A life is the time from a server's start to its end."""

    def __init__(self, clients: int) -> None:
        self.life, self.port = 0, 0
        self.over = False  # answers are still awaited, but nothing new is asked
        self.trouble: list[BaseException] = []
        self._clients, self._parked, self._changed = clients, 0, threading.Condition()

    def park(self, life: int) -> None:
        """Until a life after this one begins."""
        with self._changed:
            self._parked += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.life > life or self.trouble)

    def open(self, port: int) -> None:
        """A new life."""
        with self._changed:
            self.life, self.port, self._parked = self.life + 1, port, 0
            self._changed.notify_all()

    def all_parked(self) -> None:
        """Until every client has noticed that the server is gone."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._parked == self._clients or self.trouble, 2 * PATIENCE):
                raise Broken(f"{self._clients - self._parked} requests hang")
        if self.trouble:
            raise self.trouble[0]

    def fail(self, problem: BaseException) -> None:
        with self._changed:
            self.trouble.append(problem)
            self._changed.notify_all()


class Client(threading.Thread):
    """One of several; it acts on its own jobs and on its own machine, one request after the other."""

    def __init__(self, number: int, seed: int, gate: Gate, ledger: Ledger, sent: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.number, self.gate, self.ledger, self.sent = number, gate, ledger, sent
        self.rng = random.Random(f"{seed} {number}")
        self.pending: Request | None = None
        self._count = self._added = 0
        self._jobs: list[tuple[str, float]] = []  # own ones that may be open: id, work
        self._reported: dict[str, float] = {}

    def run(self) -> None:
        try:
            self.gate.park(0)
            while not self.gate.over and not self.gate.trouble:
                self.pending = self.next()
                self._carry_out(self.pending)
                time.sleep(self.rng.uniform(0.0, 0.03))
        except BaseException as problem:
            self.gate.fail(problem)

    def _carry_out(self, request: Request) -> None:
        """Ask until it is answered, by this server or the next."""
        life, wire = 0, Wire(0)
        while not self.gate.trouble:
            if self.gate.life != life:
                life, wire = self.gate.life, Wire(self.gate.port)
            sent: list[float] = []

            def on_sent(sent: list[float] = sent) -> None:
                sent.append(time.monotonic())
                self.sent()

            try:
                status, text = wire.ask(request.method, request.path, request.body, request.key, on_sent)
            except (OSError, http.client.HTTPException):
                if sent:
                    request.unanswered.append(life)
                    self.ledger.count("unanswered")
                self.gate.park(life)
                continue
            if status != 503:
                self.ledger.takes += 0.1 * (time.monotonic() - sent[0] - self.ledger.takes)
                self.pending = None
                self._answered(request, status, text)
                return
            self.ledger.count("503")
            time.sleep(0.05)

    def _answered(self, request: Request, status: int, text: bytes) -> None:
        request.status, request.answer = status, text
        if request.unanswered:
            self.ledger.count("retried")
        if status in (200, 201):
            self.ledger.acknowledge(request)
            if request.what == "submit" and request.told["state"] in OPEN:
                self._jobs.append((request.told["id"], request.told["work"]))
        elif status in (404, 409) and request.job:
            self.ledger.over.add(request.job)
        elif not (status == 422 and request.what == "add" and request.unanswered):  # it was added, and nobody was told
            raise Broken(f"{request.what} {request.path} {request.body}: {status} {text[:300]!r}")

    # What it asks for.

    def next(self) -> Request:
        roll = self.rng.random()
        if roll < 0.04 and self.number < TOUCHED:
            verb, status = self.rng.choice([("down", "down"), ("drain", "draining"), ("up", "up"), ("up", "up")])
            name = f"m{self.number}"
            return Request("machine", "POST", f"/v1/machines/{name}/{verb}", asked=(name, status))
        if roll < 0.05 and self.number == 0 and self._added < MOST_ADDED:
            self._added += 1
            name = f"added{self._added}"
            return Request("add", "POST", "/v1/machines", {"name": name, "capacity": {"gpu": 2, "cpu": 16}}, asked=name)
        if roll < 0.06 and self.number == 1:
            base = {"gpu": round(self.rng.uniform(0.0, 0.2), 3)}
            return Request("prices", "PUT", "/v1/prices", {"base": base, "ratio": 10}, asked=base)
        if roll < 0.35 and self._jobs:
            return self._about(*self._jobs[self.rng.randrange(len(self._jobs))])
        self._count += 1
        key = f"{self.number}-{self._count}"
        return Request("submit", "POST", "/v1/jobs", self.job(f"job {key}"), key)

    def _about(self, id: str, work: float) -> Request:
        what = self.rng.choice(["cancel", "finish", "progress", "progress"])
        if what == "progress":
            done = min(work, round(self._reported.get(id, 0.0) + self.rng.uniform(0.01, 0.4) * work, 6))
            self._reported[id] = done
            return Request(what, "POST", f"/v1/jobs/{id}/progress", {"done": done}, job=id, asked=done)
        self._jobs = [one for one in self._jobs if one[0] != id]
        method, path = ("DELETE", f"/v1/jobs/{id}") if what == "cancel" else ("POST", f"/v1/jobs/{id}/finish")
        return Request(what, method, path, job=id)

    def job(self, name: str) -> dict[str, Any]:
        """Short ones and elastic ones, with servers or without; one in twenty fits nowhere."""
        rng, workers = self.rng, self.rng.choice([1, 1, 2, 2, 4, 6])
        body: dict[str, Any] = {
            "name": name,
            "worker": {"gpu": 1, "cpu": rng.choice([2, "2500m", 4]), "memory": "16Gi"},
        }
        if rng.random() < 0.05:
            body["worker"]["gpu"] = 2 * GPUS
        if rng.random() < 0.3:
            body |= {"server": {"cpu": 2, "memory": "4Gi"}, "workers_per_server": 2}
        if rng.random() < 0.6:
            body |= {
                "workers": workers,
                "duration": f"{rng.randrange(5, 60)}m",
                "value": round(rng.uniform(0.5, 20.0), 3),
            }
        else:
            body |= {
                "work": 1000.0 * workers * rng.randrange(1, 5),
                "batch": 10 * workers,
                "requested": workers,
                "time_per_sample": "600ms",
                "gradient": "10MB",
                "most": 2 * workers,
                "utility": {"kind": "sigmoid", "value": 10.0, "steepness": 0.5, "middle": 8},
            }
        return body


class Clock(Client):
    """The client that moves the clock on, at the pace of the submissions."""

    def next(self) -> Request:
        slot = self._count = self._count + 1
        until = time.monotonic() + 1.0
        while len(self.ledger.submissions) < slot * SUBMISSIONS_A_SLOT and time.monotonic() < until:
            if self.gate.over or self.gate.trouble:
                break
            time.sleep(0.01)
        return Request("clock", "POST", "/v1/clock", {"slot": slot}, asked=slot)
