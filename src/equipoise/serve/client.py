"""The service from Python: `with Client() as service: service.submit({...})`. Answers are values; what fails is one line.

A submission carries an Idempotency-Key, and is sent again under the same key when the connection breaks: nothing is
submitted twice. Fields that a newer service adds are kept in `extra`.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from equipoise.errors import InputError
from equipoise.serve.answers import Cluster, Job, Jobs, Machine, Plain, Told
from equipoise.serve.connection import AGAIN, Connection, ServiceError, messages, part, pause

if TYPE_CHECKING:
    from equipoise import place

__all__ = ["Client", "Cluster", "Job", "Jobs", "Machine", "ServiceError", "Told", "plain"]

FIRST_LOOK, LONGEST_LOOK = 0.1, 2.5  # seconds between looks at a job that is waited for, doubling


class Client(Connection):
    """A service at `url` (or EQUIPOISE_URL), with `token` (or EQUIPOISE_TOKEN).

    `verify` may name a PEM file of certificates to trust, as the variable SSL_CERT_FILE does.

    `timeout` is in seconds, for each request; what may be sent again is tried `tries` times.
    """

    # Jobs.

    def submit(
        self,
        job: Mapping[str, Any] | place.Job,
        *,
        key: str | None = None,
        dry_run: bool = False,
        tenant: str | None = None,
    ) -> Job:
        """Submit, and hear what was decided. The same `key` is the same submission; a dry run stores nothing."""
        key = uuid.uuid4().hex if key is None or dry_run else key
        told = ({"dry_run": "true"} if dry_run else {}) | ({} if tenant is None else {"tenant": tenant})
        return Job.of(self.ask("POST", "/v1/jobs", told, plain(job), key=key, again=True))

    def job(self, id: str) -> Job:
        """One job, with its cells."""
        return Job.of(self.ask("GET", f"/v1/jobs/{part(id)}"))

    def page(
        self,
        *,
        state: str | Sequence[str] | None = None,
        tenant: str | None = None,
        name: str | None = None,
        after: str | None = None,
        limit: int | None = None,
        order: str | None = None,
    ) -> Jobs:
        """One page of jobs; `name` is a part of theirs, `order` newest or oldest first."""
        asked = {"tenant": tenant, "name": name, "after": after, "limit": limit, "order": order}
        params: dict[str, str | Sequence[str]] = {key: str(value) for key, value in asked.items() if value is not None}
        answer = self.ask("GET", "/v1/jobs", params if state is None else params | {"state": state})
        return Jobs.of(answer | {"jobs": [Job.of(each) for each in answer["jobs"]]})

    def jobs(
        self,
        *,
        state: str | Sequence[str] | None = None,
        tenant: str | None = None,
        name: str | None = None,
        order: str | None = None,
        page: int = 100,
    ) -> Iterator[Job]:
        """All jobs, asked for page by page as they are taken."""
        after: str | None = None
        while True:
            found = self.page(state=state, tenant=tenant, name=name, order=order, limit=page, after=after)
            yield from found.jobs
            after = found.next
            if after is None:
                return

    def explain(self, id: str) -> Plain:
        """Why it was decided so: `text` for people, prices, its best schedule, what would be admitted."""
        return self.ask("GET", f"/v1/jobs/{part(id)}/explain")

    def history(self, id: str) -> list[Told]:
        """What happened to it, in order."""
        return [Told.of(event) for event in self.ask("GET", f"/v1/jobs/{part(id)}/history")["events"]]

    def cancel(self, id: str) -> Job:
        """End a job that is not over."""
        return Job.of(self.ask("DELETE", f"/v1/jobs/{part(id)}"))

    def progress(self, id: str, *, done: float | None = None, fraction: float | None = None) -> Job:
        """Tell how far a job is, in samples or as a share of its work."""
        if (done is None) == (fraction is None):
            raise InputError("progress takes one of done (samples) and fraction (0 to 1)")
        body = {"done": done} if fraction is None else {"fraction": fraction}
        return Job.of(self.ask("POST", f"/v1/jobs/{part(id)}/progress", body=body, again=True))

    def finish(self, id: str) -> Job:
        """Tell that a job is done."""
        return Job.of(self.ask("POST", f"/v1/jobs/{part(id)}/finish"))

    def forecast(self, job: Mapping[str, Any] | place.Job) -> Plain:
        """When such a job could start and end, prices aside; nothing is stored."""
        return self.ask("POST", "/v1/forecast", body=plain(job), again=True)

    def wait(self, id: str, timeout: float | None = None) -> Job:
        """The job once it is over; TimeoutError when it is not within `timeout` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        look = FIRST_LOOK
        while not (job := self.job(id)).over:
            left = LONGEST_LOOK if until is None else until - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"job {id} is {job.state} after {timeout:g} s")
            time.sleep(min(look, left))
            look = min(2 * look, LONGEST_LOOK)
        return job

    # The cluster.

    def cluster(self) -> Cluster:
        """The clock, and every machine."""
        answer = self.ask("GET", "/v1/cluster")
        return Cluster.of(answer | {"machines": [Machine.of(each) for each in answer.get("machines", [])]})

    def machines(self) -> list[Machine]:
        """Every machine."""
        return self.cluster().machines

    def add_machine(self, name: str, capacity: Mapping[str, Any], count: int = 1) -> list[Machine]:
        """So many equal machines more; capacities are human, {"gpu": 8, "memory": "512Gi"}."""
        body = {"name": name, "capacity": dict(capacity), "count": count}
        return [Machine.of(each) for each in self.ask("POST", "/v1/machines", body=body)["machines"]]

    def drain(self, name: str) -> Plain:
        """Nothing new on this machine; {"machine", "replanned", "displaced"}."""
        return self.ask("POST", f"/v1/machines/{part(name)}/drain", again=True)

    def down(self, name: str) -> Plain:
        """It is lost, with what ran there; as `drain`."""
        return self.ask("POST", f"/v1/machines/{part(name)}/down", again=True)

    def up(self, name: str) -> Plain:
        """It is back; as `drain`."""
        return self.ask("POST", f"/v1/machines/{part(name)}/up", again=True)

    def prices(self, resource: str | None = None) -> Plain:
        """Utility per unit and slot, by slot; with a resource also by machine."""
        return self.ask("GET", "/v1/prices", {} if resource is None else {"resource": resource})

    def set_prices(self, base: Mapping[str, float], ratio: float = 10.0) -> Plain:
        """Utility per unit and slot on an empty machine, and how much more a full one costs."""
        return self.ask("PUT", "/v1/prices", body={"base": dict(base), "ratio": ratio})

    def schedule(self, first: int | None = None, last: int | None = None) -> Plain:
        """What runs where in these slots, and the utilisation of each resource."""
        asked = {"first": first, "last": last}
        return self.ask("GET", "/v1/schedule", {name: str(slot) for name, slot in asked.items() if slot is not None})

    def certificate(self) -> Plain:
        """Checks of everything decided so far, from the log alone."""
        return self.ask("GET", "/v1/certificate")

    def status(self) -> Plain:
        """Numbers of the moment: the slot, jobs by state, the share of every resource in use."""
        return self.ask("GET", "/v1/status")

    def advance(self, slots: int = 1, *, to: int | None = None) -> int:
        """Move a virtual clock by so many slots, or `to` a slot; the slot it is now."""
        body = {"advance": slots} if to is None else {"slot": to}
        return int(self.ask("POST", "/v1/clock", body=body, again=to is not None)["now"])

    def log(self, after: int = 0, *, page: int = 1000) -> Iterator[Told]:
        """Everything that has happened, in order, asked for page by page as it is taken."""
        upto: int | None = after
        while upto is not None:
            found = self.ask("GET", "/v1/log", {"after": str(upto), "limit": str(page)})
            yield from (Told.of(event) for event in found["events"])
            upto = found.get("next")

    def events(self, after: int = 0) -> Iterator[Told]:
        """Everything that happens, each event once; when the stream breaks it goes on from the last one seen."""
        import httpx

        failed = 0
        while True:
            try:
                with self.stream(after) as lines:
                    for kind, data in messages(lines):
                        failed = 0
                        event = Told.of(json.loads(data)) if kind != "hello" else Told()
                        if event.seq > after:
                            after = event.seq
                            yield event
            except httpx.TransportError as error:
                failed += 1
                if failed >= self.tries:
                    raise self.unreached(error) from None
            except ServiceError as error:
                failed += 1
                if error.status not in AGAIN or failed >= self.tries:
                    raise
            time.sleep(pause(failed))


def plain(job: Mapping[str, Any] | place.Job) -> Plain:
    """What is sent of a job. One of `place` keeps its exact numbers: its id is the name, and it arrives when it is sent."""
    if isinstance(job, Mapping):
        return dict(job)
    from equipoise.place import Job as PlaceJob
    from equipoise.place.read import plain_job

    if not isinstance(job, PlaceJob):
        raise InputError(f"a job is {type(job).__name__}; expected a mapping of its fields, or a place.Job")
    values = {name: value for name, value in plain_job(job).items() if name not in ("id", "arrival", "actual")}
    return {"name": job.id, **values}
