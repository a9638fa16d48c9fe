"""The service from Python: `with Client() as service: service.submit({...})`. Answers are values; what fails is one line.

A submission carries an Idempotency-Key, and is sent again under the same key when the connection breaks: nothing is
submitted twice. Fields that a newer service adds are kept in `extra`.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from equipoise.errors import InputError
from equipoise.serve._connection import AGAIN, Connection, ServiceError, answer, part, pause, server_sent
from equipoise.serve.models import ClusterStatus, EventRecord, JobPage, JobStatus, JobWithCells, MachineStatus
from equipoise.serve.plan.events import Body

if TYPE_CHECKING:
    from equipoise import place

__all__ = ["Client", "ServiceError", "plain"]

FIRST_LOOK, LONGEST_LOOK = 0.1, 2.5  # seconds between looks at a job that is waited for, doubling


class Client(Connection):
    """A service. What it refuses is a ServiceError; close the client, or use it in a `with` block.

    Parameters
    ----------
    url
        Its address; EQUIPOISE_URL or http://127.0.0.1:8321 unless stated.
    token
        The token to show; EQUIPOISE_TOKEN unless stated.
    timeout
        Seconds, for each request.
    verify
        Whether certificates are checked, or a PEM file of those to trust, as the variable SSL_CERT_FILE names one.
    tries
        How often a request is tried that may be sent again.
    transport
        An httpx transport in place of the network, for tests.
    """

    # Jobs.

    def submit(
        self,
        job: Mapping[str, object] | place.Job,
        *,
        key: str | None = None,
        dry_run: bool = False,
        tenant: str | None = None,
    ) -> JobWithCells:
        """Submit a job; the answer is what was decided.

        Parameters
        ----------
        job
            Its fields as in a jobs file, or a place.Job.
        key
            The same key is the same submission: asked again, one job is stored. A new one unless stated.
        dry_run
            Only say what would be decided; nothing is stored.
        tenant
            For whom, if your token has no tenant.
        """
        key = uuid.uuid4().hex if key is None or dry_run else key
        told = ({"dry_run": "true"} if dry_run else {}) | ({} if tenant is None else {"tenant": tenant})
        return answer(JobWithCells, self.ask("POST", "/v1/jobs", told, plain(job), key=key, again=True))

    def job(self, id: str) -> JobWithCells:
        """One job, with its cells.

        Parameters
        ----------
        id
            Of the job, as `submit` answered.
        """
        return answer(JobWithCells, self.ask("GET", f"/v1/jobs/{part(id)}"))

    def page(
        self,
        *,
        state: str | Sequence[str] | None = None,
        tenant: str | None = None,
        name: str | None = None,
        after: str | None = None,
        limit: int | None = None,
        order: str | None = None,
    ) -> JobPage:
        """One page of jobs.

        Parameters
        ----------
        state
            Only jobs in this state, or in one of these.
        tenant
            Only jobs of this tenant.
        name
            Only jobs with this in their name.
        after
            The `next` of the page before.
        limit
            The most jobs in the page; 100 unless stated.
        order
            "newest" (unless stated) or "oldest" first.
        """
        asked = {"tenant": tenant, "name": name, "after": after, "limit": limit, "order": order}
        params: dict[str, str | Sequence[str]] = {key: str(value) for key, value in asked.items() if value is not None}
        found = self.ask("GET", "/v1/jobs", params if state is None else params | {"state": state})
        return answer(JobPage, found | {"jobs": [answer(JobWithCells, each) for each in found["jobs"]]})

    def jobs(
        self,
        *,
        state: str | Sequence[str] | None = None,
        tenant: str | None = None,
        name: str | None = None,
        order: str | None = None,
        page: int = 100,
    ) -> Iterator[JobStatus]:
        """All jobs, asked for page by page as they are taken.

        Parameters
        ----------
        state, tenant, name, order
            As in `page`.
        page
            Jobs for each request.
        """
        after: str | None = None
        while True:
            found = self.page(state=state, tenant=tenant, name=name, order=order, limit=page, after=after)
            yield from found.jobs
            after = found.next
            if after is None:
                return

    def explain(self, id: str) -> Body:
        """Why it was decided so: `text` for people, prices, its best schedule, what would be admitted.

        Parameters
        ----------
        id
            Of the job, as `submit` answered.
        """
        return self.ask("GET", f"/v1/jobs/{part(id)}/explain")

    def history(self, id: str) -> list[EventRecord]:
        """What happened to a job, in order.

        Parameters
        ----------
        id
            Of the job, as `submit` answered.
        """
        return [answer(EventRecord, event) for event in self.ask("GET", f"/v1/jobs/{part(id)}/history")["events"]]

    def cancel(self, id: str) -> JobWithCells:
        """End a job that is not over.

        Parameters
        ----------
        id
            Of the job, as `submit` answered.
        """
        return answer(JobWithCells, self.ask("DELETE", f"/v1/jobs/{part(id)}"))

    def progress(self, id: str, *, done: float | None = None, fraction: float | None = None) -> JobWithCells:
        """Report how far a job is. One of `done` and `fraction`.

        Parameters
        ----------
        id
            Of the job, as `submit` answered.
        done
            Samples.
        fraction
            The part of its work that is done, 0 to 1.
        """
        if (done is None) == (fraction is None):
            raise InputError("progress takes one of done (samples) and fraction (0 to 1)", code="progress.form")
        body = {"done": done} if fraction is None else {"fraction": fraction}
        return answer(JobWithCells, self.ask("POST", f"/v1/jobs/{part(id)}/progress", body=body, again=True))

    def finish(self, id: str) -> JobWithCells:
        """Report that a job is done.

        Parameters
        ----------
        id
            Of the job, as `submit` answered.
        """
        return answer(JobWithCells, self.ask("POST", f"/v1/jobs/{part(id)}/finish"))

    def forecast(self, job: Mapping[str, object] | place.Job) -> Body:
        """When such a job could start and end, prices aside; nothing is stored.

        Parameters
        ----------
        job
            Its fields as in a jobs file, or a place.Job.
        """
        return self.ask("POST", "/v1/forecast", body=plain(job), again=True)

    def wait(self, id: str, timeout: float | None = None) -> JobWithCells:
        """The job once it is over; TimeoutError when that takes too long.

        Parameters
        ----------
        id
            Of the job, as `submit` answered.
        timeout
            Seconds; None: wait for ever.
        """
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

    def cluster(self) -> ClusterStatus:
        """The clock, and every machine."""
        return answer(ClusterStatus, self.ask("GET", "/v1/cluster"))

    def machines(self) -> list[MachineStatus]:
        """Every machine."""
        return self.cluster().machines

    def add_machine(self, name: str, capacity: Mapping[str, object], count: int = 1) -> list[MachineStatus]:
        """Add machines.

        Parameters
        ----------
        name
            Of the machine; of several, the names are NAME-0, NAME-1, ...
        capacity
            By resource, {"gpu": 8, "memory": "512Gi"}.
        count
            How many equal ones.
        """
        body = {"name": name, "capacity": dict(capacity), "count": count}
        return [answer(MachineStatus, each) for each in self.ask("POST", "/v1/machines", body=body)["machines"]]

    def drain(self, name: str) -> Body:
        """Plan nothing new on this machine; {"machine", "replanned", "displaced"}.

        Parameters
        ----------
        name
            Of the machine.
        """
        return self.ask("POST", f"/v1/machines/{part(name)}/drain", again=True)

    def down(self, name: str) -> Body:
        """A machine is lost, with what ran there; the answer is as of `drain`.

        Parameters
        ----------
        name
            Of the machine.
        """
        return self.ask("POST", f"/v1/machines/{part(name)}/down", again=True)

    def up(self, name: str) -> Body:
        """A machine is back; the answer is as of `drain`.

        Parameters
        ----------
        name
            Of the machine.
        """
        return self.ask("POST", f"/v1/machines/{part(name)}/up", again=True)

    def prices(self, resource: str | None = None) -> Body:
        """Utility per unit and slot, by slot.

        Parameters
        ----------
        resource
            Of this one also by machine.
        """
        return self.ask("GET", "/v1/prices", {} if resource is None else {"resource": resource})

    def set_prices(self, base: Mapping[str, float], ratio: float = 10.0) -> Body:
        """Set prices.

        Parameters
        ----------
        base
            Utility per unit and slot on an empty machine, by resource.
        ratio
            A full machine's price over an empty one's.
        """
        return self.ask("PUT", "/v1/prices", body={"base": dict(base), "ratio": ratio})

    def schedule(self, first: int | None = None, last: int | None = None) -> Body:
        """What runs where, and the utilisation of each resource.

        Parameters
        ----------
        first
            The first slot; this one unless stated.
        last
            The last slot; the end of what is planned unless stated.
        """
        asked = {"first": first, "last": last}
        return self.ask("GET", "/v1/schedule", {name: str(slot) for name, slot in asked.items() if slot is not None})

    def certificate(self) -> Body:
        """Checks of everything decided so far, from the log alone."""
        return self.ask("GET", "/v1/certificate")

    def status(self) -> Body:
        """Numbers of the moment: the slot, jobs by state, the share of every resource in use."""
        return self.ask("GET", "/v1/status")

    def advance(self, slots: int = 1, *, to: int | None = None) -> int:
        """Move a virtual clock; the slot it is now.

        Parameters
        ----------
        slots
            By so many.
        to
            To this slot instead.
        """
        body = {"advance": slots} if to is None else {"slot": to}
        return int(self.ask("POST", "/v1/clock", body=body, again=to is not None)["now"])

    def log(self, after: int = 0, *, page: int = 1000) -> Iterator[EventRecord]:
        """Everything that has happened, in order, asked for page by page as it is taken.

        Parameters
        ----------
        after
            Begin after the event of this `seq`.
        page
            Events for each request.
        """
        upto: int | None = after
        while upto is not None:
            found = self.ask("GET", "/v1/log", {"after": str(upto), "limit": str(page)})
            yield from (answer(EventRecord, event) for event in found["events"])
            upto = found.get("next")

    def events(self, after: int = 0) -> Iterator[EventRecord]:
        """Everything that happens, each event once; when the stream breaks it goes on from the last one seen.

        Parameters
        ----------
        after
            Begin after the event of this `seq`.
        """
        import httpx

        failed = 0
        while True:
            try:
                with self.stream(after) as lines:
                    for kind, data in server_sent(lines):
                        failed = 0
                        event = answer(EventRecord, json.loads(data)) if kind != "hello" else EventRecord()
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


def plain(job: Mapping[str, object] | place.Job) -> Body:
    """What is sent of a job. One of `place` keeps its exact numbers: its id is the name, and it arrives when it is sent."""
    if isinstance(job, Mapping):
        return dict(job)
    from equipoise.place import Job as PlaceJob
    from equipoise.place.job_spec import JobSpec, plain_job

    if not isinstance(job, PlaceJob):
        raise InputError(f"a job is {type(job).__name__}; expected a mapping of its fields, or a place.Job")
    values = {name: value for name, value in plain_job(job).items() if name in JobSpec.model_fields}
    return {"name": job.id, **values}
