"""The service from Python: `with Client() as service: service.submit({...})`. Answers are values; what fails is one line.

A submission carries an Idempotency-Key, and is sent again under the same key when the connection breaks: nothing is
submitted twice. Fields that a newer service adds are kept in `extra`.
"""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from equipoise.errors import InputError
from equipoise.serve.models import Answer, ClusterStatus, EventRecord, JobPage, JobStatus, JobWithCells, MachineStatus
from equipoise.serve.plan.events import Body

if TYPE_CHECKING:
    import ssl

    import httpx

    from equipoise import place

T = TypeVar("T", bound=Answer)

URL = "http://127.0.0.1:8321"
UNKNOWN_CALLER = 401
TOO_MANY = 429  # nothing was done
AGAIN = (TOO_MANY, 503)  # the service asks to come back
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between tries, doubling
SILENCE = 45.0  # seconds without a word on the stream of events, which has a comment every 15: it is broken
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class ServiceError(InputError):
    """The service said no, in its own one line. `status` is HTTP's, or 0 where the service was not reached."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Connection:
    """To the service at `url`; `ask` gives the answer, or raises ServiceError."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        timeout: float = 30.0,
        verify: bool | str | Path = True,
        *,
        tries: int = 5,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise InputError("the client needs httpx, which is not installed: pip install 'equipoise[serve]'") from None
        self.url = (url or os.environ.get("EQUIPOISE_URL") or URL).rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not _port(parts.netloc):
            raise InputError(f"the service's address is {self.url!r}; expected one such as {URL}")
        if parts.username is not None:
            raise InputError("the service's address has a user in it; expected a token, beside the address")
        key = token or os.environ.get("EQUIPOISE_TOKEN") or ""
        if not key.isascii() or not key.isprintable():
            raise InputError("the token has characters that no token has; expected what `equipoise token` printed")
        self.tries = max(1, tries)
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=timeout,
            verify=_trusted(verify),
            mounts={f"all://{host}": None for host in LOOPBACK},  # no proxy leads to this machine itself
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @contextmanager
    def stream(self, after: int) -> Iterator[Iterator[str]]:
        """The lines of the stream of events, from the one after this."""
        import httpx

        timeout = httpx.Timeout(self._http.timeout.connect, read=SILENCE)
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": str(after)} if after else {})
        with self._http.stream(
            "GET", "/v1/events", params={"after": str(after)}, headers=headers, timeout=timeout
        ) as answer:
            if answer.status_code != 200:
                answer.read()
                raise _refusal(answer)
            yield answer.iter_lines()

    def ask(
        self,
        method: str,
        path: str,
        params: Mapping[str, str | Sequence[str]] | None = None,
        body: Body | None = None,
        *,
        key: str | None = None,
        again: bool = False,
    ) -> Body:
        """The answer. What has no effect twice (`again`, and every GET) is sent again when the connection breaks."""
        import httpx

        again = again or method == "GET"
        headers = {} if key is None else {"Idempotency-Key": key}
        for tried in range(1, self.tries + 1):
            last = tried == self.tries
            asked: float | None = None
            try:
                answer = self._http.request(method, path, params=params, json=body, headers=headers)
            except httpx.TransportError as error:
                unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                if last or not (again or unsent):
                    raise self.unreached(error) from None
            except (ValueError, TypeError) as error:  # a body that is no JSON, a key that is no header
                raise InputError(f"this cannot be sent: {error}") from None
            else:
                if answer.is_success:
                    return _object(answer)
                unsent = answer.status_code == TOO_MANY
                if last or not (again or unsent) or answer.status_code not in AGAIN:
                    raise _refusal(answer)
                asked = _seconds(answer.headers.get("Retry-After"))
            time.sleep(pause(tried) if asked is None else min(asked, LONGEST_PAUSE))
        raise AssertionError("the last try returns or raises")

    def unreached(self, error: Exception) -> ServiceError:
        why = " ".join(str(error).split()) or type(error).__name__
        return ServiceError(
            0, f"no answer from {self.url} ({why}); start one with `equipoise serve`, or give --url or EQUIPOISE_URL"
        )


def _port(netloc: str) -> bool:
    """Whether what follows the host is a port, or nothing."""
    port = netloc.rpartition("]")[2].rpartition("@")[2].partition(":")[2]
    return not port or (port.isdecimal() and int(port) < 65536)


def _trusted(verify: bool | str | Path) -> bool | ssl.SSLContext:
    if isinstance(verify, bool):
        return verify
    import ssl

    try:
        return ssl.create_default_context(cafile=str(verify))
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"{verify}: no certificates can be read from it ({error}); expected a PEM file") from None


def part(name: str) -> str:
    """A name as one part of a path."""
    if not str(name).strip(". "):
        raise InputError(f"the name is {name!r}; expected the id of a job or the name of a machine")
    return quote(str(name), safe="")


def pause(failed: int) -> float:
    """Seconds to wait after so many failures; by chance somewhat less, so that clients do not come back together."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** max(0, failed - 1)) * random.uniform(0.5, 1.0)


def _seconds(text: str | None) -> float | None:
    """Retry-After in seconds; a date is not read."""
    return float(text) if text is not None and text.isdecimal() else None


def _object(answer: httpx.Response) -> Body:
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ServiceError(answer.status_code, f"{answer.url} does not answer as the service does; check the address")
    return found


def answer(kind: type[T], values: Body) -> T:
    """The values of an answer, read."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ServiceError(
            200, f"the service's answer cannot be read ({where}: {first['msg']}); check the address, or its version"
        ) from None


def _refusal(answer: httpx.Response) -> ServiceError:
    """The service's own line; of another server's page, the status."""
    try:
        said = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        said = f"{answer.request.method} {answer.request.url} was answered with {answer.status_code}"
        if answer.status_code == UNKNOWN_CALLER:
            said += "; give a token with --token or EQUIPOISE_TOKEN"
    return ServiceError(answer.status_code, " ".join(str(said).split()))


def server_sent(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """(event, data) of a stream of server-sent events; a half one at the end is left out."""
    kind = "message"
    data: list[str] = []
    for line in lines:
        if line == "":
            if data:
                yield kind, "\n".join(data)
            kind, data = "message", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)


FIRST_LOOK, LONGEST_LOOK = 0.1, 2.5  # seconds between looks at a job that is waited for, doubling


class Client(Connection):
    """A service at `url` (or EQUIPOISE_URL), with `token` (or EQUIPOISE_TOKEN).

    `verify` may name a PEM file of certificates to trust, as the variable SSL_CERT_FILE does.

    `timeout` is in seconds, for each request; what may be sent again is tried `tries` times.
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
        """Submit, and hear what was decided. The same `key` is the same submission; a dry run stores nothing."""
        key = uuid.uuid4().hex if key is None or dry_run else key
        told = ({"dry_run": "true"} if dry_run else {}) | ({} if tenant is None else {"tenant": tenant})
        return answer(JobWithCells, self.ask("POST", "/v1/jobs", told, plain(job), key=key, again=True))

    def job(self, id: str) -> JobWithCells:
        """One job, with its cells."""
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
        """One page of jobs; `name` is a part of theirs, `order` newest or oldest first."""
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
        """All jobs, asked for page by page as they are taken."""
        after: str | None = None
        while True:
            found = self.page(state=state, tenant=tenant, name=name, order=order, limit=page, after=after)
            yield from found.jobs
            after = found.next
            if after is None:
                return

    def explain(self, id: str) -> Body:
        """Why it was decided so: `text` for people, prices, its best schedule, what would be admitted."""
        return self.ask("GET", f"/v1/jobs/{part(id)}/explain")

    def history(self, id: str) -> list[EventRecord]:
        """What happened to it, in order."""
        return [answer(EventRecord, event) for event in self.ask("GET", f"/v1/jobs/{part(id)}/history")["events"]]

    def cancel(self, id: str) -> JobWithCells:
        """End a job that is not over."""
        return answer(JobWithCells, self.ask("DELETE", f"/v1/jobs/{part(id)}"))

    def progress(self, id: str, *, done: float | None = None, fraction: float | None = None) -> JobWithCells:
        """Tell how far a job is, in samples or as a share of its work."""
        if (done is None) == (fraction is None):
            raise InputError("progress takes one of done (samples) and fraction (0 to 1)")
        body = {"done": done} if fraction is None else {"fraction": fraction}
        return answer(JobWithCells, self.ask("POST", f"/v1/jobs/{part(id)}/progress", body=body, again=True))

    def finish(self, id: str) -> JobWithCells:
        """Tell that a job is done."""
        return answer(JobWithCells, self.ask("POST", f"/v1/jobs/{part(id)}/finish"))

    def forecast(self, job: Mapping[str, object] | place.Job) -> Body:
        """When such a job could start and end, prices aside; nothing is stored."""
        return self.ask("POST", "/v1/forecast", body=plain(job), again=True)

    def wait(self, id: str, timeout: float | None = None) -> JobWithCells:
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

    def cluster(self) -> ClusterStatus:
        """The clock, and every machine."""
        return answer(ClusterStatus, self.ask("GET", "/v1/cluster"))

    def machines(self) -> list[MachineStatus]:
        """Every machine."""
        return self.cluster().machines

    def add_machine(self, name: str, capacity: Mapping[str, object], count: int = 1) -> list[MachineStatus]:
        """So many equal machines more; capacities are human, {"gpu": 8, "memory": "512Gi"}."""
        body = {"name": name, "capacity": dict(capacity), "count": count}
        return [answer(MachineStatus, each) for each in self.ask("POST", "/v1/machines", body=body)["machines"]]

    def drain(self, name: str) -> Body:
        """Nothing new on this machine; {"machine", "replanned", "displaced"}."""
        return self.ask("POST", f"/v1/machines/{part(name)}/drain", again=True)

    def down(self, name: str) -> Body:
        """It is lost, with what ran there; as `drain`."""
        return self.ask("POST", f"/v1/machines/{part(name)}/down", again=True)

    def up(self, name: str) -> Body:
        """It is back; as `drain`."""
        return self.ask("POST", f"/v1/machines/{part(name)}/up", again=True)

    def prices(self, resource: str | None = None) -> Body:
        """Utility per unit and slot, by slot; with a resource also by machine."""
        return self.ask("GET", "/v1/prices", {} if resource is None else {"resource": resource})

    def set_prices(self, base: Mapping[str, float], ratio: float = 10.0) -> Body:
        """Utility per unit and slot on an empty machine, and how much more a full one costs."""
        return self.ask("PUT", "/v1/prices", body={"base": dict(base), "ratio": ratio})

    def schedule(self, first: int | None = None, last: int | None = None) -> Body:
        """What runs where in these slots, and the utilisation of each resource."""
        asked = {"first": first, "last": last}
        return self.ask("GET", "/v1/schedule", {name: str(slot) for name, slot in asked.items() if slot is not None})

    def certificate(self) -> Body:
        """Checks of everything decided so far, from the log alone."""
        return self.ask("GET", "/v1/certificate")

    def status(self) -> Body:
        """Numbers of the moment: the slot, jobs by state, the share of every resource in use."""
        return self.ask("GET", "/v1/status")

    def advance(self, slots: int = 1, *, to: int | None = None) -> int:
        """Move a virtual clock by so many slots, or `to` a slot; the slot it is now."""
        body = {"advance": slots} if to is None else {"slot": to}
        return int(self.ask("POST", "/v1/clock", body=body, again=to is not None)["now"])

    def log(self, after: int = 0, *, page: int = 1000) -> Iterator[EventRecord]:
        """Everything that has happened, in order, asked for page by page as it is taken."""
        upto: int | None = after
        while upto is not None:
            found = self.ask("GET", "/v1/log", {"after": str(upto), "limit": str(page)})
            yield from (answer(EventRecord, event) for event in found["events"])
            upto = found.get("next")

    def events(self, after: int = 0) -> Iterator[EventRecord]:
        """Everything that happens, each event once; when the stream breaks it goes on from the last one seen."""
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
    from equipoise.place.read import plain_job

    if not isinstance(job, PlaceJob):
        raise InputError(f"a job is {type(job).__name__}; expected a mapping of its fields, or a place.Job")
    values = {name: value for name, value in plain_job(job).items() if name not in ("id", "arrival", "actual")}
    return {"name": job.id, **values}
