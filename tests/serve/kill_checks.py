"""What must hold when a killed service is back, judged from outside: by the clients' ledger and by a model of the log."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from kill_clients import Ledger, Request, Wire
from log_model import MILLI, OPEN, OVER, LogModel, expect

AGAIN, OLD_AGAIN, OTHERWISE = 20, 5, 2  # how many requests are repeated: new ones, old ones, and with another body


class Witness:
    """Follows the log from one life of the server to the next. Clients must be at rest when it looks."""

    def __init__(self, ledger: Ledger, seed: int) -> None:
        self.ledger, self.model = ledger, LogModel()
        self.rng = random.Random(f"{seed} witness")
        self.counts: Counter[str] = Counter()
        self._digests: list[str] = []  # of every event seen
        self._settled: set[str] = set()  # keys that were asked again already

    def look(self, wire: Wire, pending: Iterable[Request] = (), life: int = 0) -> None:
        """All of it. `pending`: requests without an answer; those sent in `life` met the kill."""
        self.follow(wire)
        self.acknowledged_is_there()
        self.fates(pending, life)
        self.same_state(wire)
        self.same_answers(wire)
        expect(wire.get("/v1/status")["seq"] == self.model.seq, "asking again wrote events")

    def follow(self, wire: Wire) -> None:
        """The log as it was, and what is new: without gaps, and no machine ever holds more than it has."""
        known = len(self._digests)
        for event in log(wire, max(0, known - 100)):
            told = digest(event)
            if event["seq"] <= known:
                expect(told == self._digests[event["seq"] - 1], f"event {event['seq']} was another before the kill")
            else:
                self._digests.append(told)
                self.model.take(event)
        expect(len(self._digests) >= known, f"{known - len(self._digests)} events are gone")

    def whole_log(self, wire: Wire) -> None:
        """Every event is what it was when it was first seen."""
        told = [digest(event) for event in log(wire, 0)]
        expect(told == self._digests, "the log is not what it was when it was followed")

    # What was acknowledged.

    def acknowledged_is_there(self) -> None:
        model = self.model
        for request in self.ledger.submissions.values():
            self._same_decision(request)
        for request in self.ledger.others:
            getattr(self, f"_{request.what}")(request)
        for id in self.ledger.over:
            expect(model.jobs[id].state in OVER, f"{id} was said to be over and is {model.jobs[id].state}")

    def _same_decision(self, request: Request) -> None:
        """The first decision of the one job of that name is the acknowledged one."""
        told, name = request.told, request.body["name"]  # type: ignore[index]
        expect(name in self.model.by_name, f"{name} was acknowledged as {told['id']} and is lost")
        job = self.model.by_name[name]
        cells = [[t, self.model.names[h], w, s] for t, h, w, s in job.first.get("cells", [])]
        kept = [job.id, *(job.first[word] for word in ("state", "reason", "worth", "cost", "seq")), cells]
        said = [told[word] for word in ("id", "state", "reason", "worth", "cost", "seq", "cells")]
        expect(kept == said, f"{name}: acknowledged {said}, logged {kept}")

    def _cancel(self, request: Request) -> None:
        end = self.model.ends.get(request.told["seq"])
        expect(end == ("cancelled", request.job), f"cancelling {request.job} was acknowledged; the log has {end}")

    def _finish(self, request: Request) -> None:
        end = self.model.ends.get(request.told["seq"])
        expect(end == ("finished", request.job), f"the finish of {request.job} was acknowledged; the log has {end}")

    def _progress(self, request: Request) -> None:
        seq = self.model.jobs[request.job].reports.get(request.asked)
        expect(seq is not None and seq <= request.told["seq"], f"{request.job}: {request.asked} samples are not logged")

    def _clock(self, request: Request) -> None:
        expect(request.told["now"] == request.asked <= self.model.now, f"slot {request.asked} began; the log denies it")

    def _add(self, request: Request) -> None:
        expect(request.asked in self.model.names, f"machine {request.asked} was added; the log denies it")

    def _machine(self, request: Request) -> None:
        expect(request.told["machine"]["status"] == request.asked[1], f"{request.path}: {request.answer!r}")

    def _prices(self, request: Request) -> None:
        """Nothing of it can be asked for one by one; replay checks the state."""

    def fates(self, pending: Iterable[Request], life: int) -> None:
        """Count which requests without an answer were stored all the same, and which were lost: both may be."""
        changing, lost = set(), 0
        for request in pending:
            if request.what == "machine":
                changing.add(request.asked[0])
            if request.unanswered and request.unanswered[-1] == life:
                fate = self._stored(request)
                self.counts["in flight"] += 1
                self.counts["in flight, stored"] += fate is True
                self.counts["in flight, lost"] += fate is False
                lost += fate is False
        self.counts["kills that lost an unacknowledged request"] += lost > 0
        for name, status in self.ledger.machines.items():
            now = self.model.status[self.model.names.index(name)]
            expect(now == status or name in changing, f"machine {name} is {now}; {status} was acknowledged")

    def _stored(self, request: Request) -> bool | None:
        """None: the log cannot tell; a job may also finish by itself."""
        model = self.model
        if request.what == "submit":
            return request.body["name"] in model.by_name  # type: ignore[index]
        if request.what == "cancel":
            return model.jobs[request.job].state == "cancelled"
        if request.what == "progress":
            return request.asked in model.jobs[request.job].reports
        return model.now >= request.asked if request.what == "clock" else None

    # What the service says.

    def same_state(self, wire: Wire) -> None:
        """Jobs, their cells, machines and the slot: as the log has them."""
        model, told = self.model, {job["id"]: job for job in jobs(wire)}
        expect(told.keys() == model.jobs.keys(), f"jobs listed and logged differ: {told.keys() ^ model.jobs.keys()}")
        for job in model.jobs.values():
            one = told[job.id]
            said = (one["name"], one["state"], one["reason"], one["finish"], one["seq"])
            expect(said == (job.name, job.state, job.reason, job.finish, job.seq), f"{job.id} is told as {said}")
            if job.state in OPEN:
                cells = [[t, model.names[h], w, s] for t, h, w, s in job.cells]
                said = wire.get(f"/v1/jobs/{job.id}")["cells"]
                expect(said == cells, f"{job.id} holds {said}; by the log {cells}")
        cluster = wire.get("/v1/cluster")
        expect((cluster["now"], cluster["seq"]) == (model.now, model.seq), f"slot {cluster['now']}, {cluster['seq']}")
        for h, machine in enumerate(cluster["machines"]):
            used = {r: round(amount * MILLI) for r, amount in machine["used"].items() if amount}
            held = {r: amount for r, amount in model.used[h, model.now].items() if amount}
            same = machine["name"] == model.names[h] and machine["status"] == model.status[h] and used == held
            expect(same, f"{machine} is {model.names[h]}, {model.status[h]}, {held} by the log")

    def same_answers(self, wire: Wire, *, all: bool = False) -> None:
        """The same key and body bring the same bytes; another body is refused."""
        known = self.ledger.submissions
        new = [key for key in known if key not in self._settled]
        old = self.rng.sample(sorted(self._settled), min(OLD_AGAIN, len(self._settled)))
        for key in known if all else [*new[-AGAIN:], *old]:
            first = known[key]
            body = dict(self.rng.sample(list(first.body.items()), len(first.body)))  # type: ignore[union-attr, arg-type]
            status, text = wire.ask("POST", "/v1/jobs", body, key)
            expect((status, text) == (first.status, first.answer), f"key {key}: {text!r}, first {first.answer!r}")
            self.counts["asked again"] += 1
        for key in new[-OTHERWISE:]:
            status, text = wire.ask("POST", "/v1/jobs", known[key].body | {"value": 21.5, "utility": None}, key)  # type: ignore[operator]
            expect(status == 409, f"key {key} with another body: {status} {text!r}")
            self.counts["asked otherwise"] += 1
        self._settled |= known.keys()


def log(wire: Wire, after: int) -> Iterator[dict[str, Any]]:
    position: int | None = after
    while position is not None:
        page = wire.get(f"/v1/log?after={position}&limit=1000")
        yield from page["events"]
        position = page["next"]


def jobs(wire: Wire) -> Iterator[dict[str, Any]]:
    position: str | None = "0"
    while position is not None:
        page = wire.get(f"/v1/jobs?order=oldest&limit=1000&after={position}")
        yield from page["jobs"]
        position = page["next"]


def digest(event: dict[str, Any]) -> str:
    """Of what is stored; the sentence and the name beside it are made when they are read."""
    stored = {word: event[word] for word in ("seq", "slot", "at", "kind", "job", "tenant", "data")}
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()
