"""How a service is asked: one connection, errors of one line, and what may be sent again when it breaks."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from equipoise.errors import InputError
from equipoise.serve.models import Answer
from equipoise.serve.plan.events import Body

if TYPE_CHECKING:
    import ssl

    import httpx

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
            raise InputError(f"the service's address is {self.url!r}; expected one such as {URL}", code="address.form")
        if parts.username is not None:
            raise InputError("the service's address has a user in it; expected a token, beside the address")
        key = token or os.environ.get("EQUIPOISE_TOKEN") or ""
        if not key.isascii() or not key.isprintable():
            raise InputError(
                "the token has characters that no token has; expected what `equipoise admin token` printed"
            )
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

    def __exit__(self, *_: object) -> None:
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
        way_out = "start one with `equipoise serve`, or give --url or EQUIPOISE_URL"
        return ServiceError(0, f"no answer from {self.url} ({why}); {way_out}")


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
        raise InputError(
            f"{verify}: no certificates can be read from it ({error}); expected a PEM file", code="certificate.read"
        ) from None


def part(name: str) -> str:
    """A name as one part of a path."""
    if not str(name).strip(". "):
        raise InputError(f"the name is {name!r}; expected the id of a job or the name of a machine", code="name.form")
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
