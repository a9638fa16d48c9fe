"""The door of the REST interface: every request passes here first. Plain ASGI, so that streams stay streams.

In this order: Host, Origin, size, token or session, the header that browsers of other sites cannot set, rate.
"""

from __future__ import annotations

import itertools
import json
import logging
import math
import os
import re
import time
from collections.abc import Awaitable, Callable
from typing import Annotated
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from equipoise.serve.access import COOKIE, EVERYONE, Access, Caller, neighbourhood, split_host
from equipoise.serve.api.refusals import mistake_of_ours, one_line
from equipoise.serve.telemetry import say

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
PUBLIC = frozenset({"/", "/health", "/v1/login"})  # and /static/
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
POLICY = (
    "default-src 'self'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
SECURITY = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
NO_STORE = (b"cache-control", b"no-store")
ACCESS_LOG = logging.getLogger("equipoise.access")
LOG = logging.getLogger("equipoise.serve")
Header = tuple[bytes, bytes]


class TooLarge(HTTPException):
    """The body passed the limit while it was read."""

    def __init__(self) -> None:
        super().__init__(413, "the request is too large")


class Refusal(Exception):
    """An answer of the guard itself."""

    def __init__(self, status: int, error: str, *headers: Header) -> None:
        self.status, self.error, self.headers = status, error, headers


class Asked:
    """The parts of a request that the guard looks at."""

    def __init__(self, scope: Scope) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.address: str | None = scope["client"][0] if scope.get("client") else None
        self._headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            self._headers.setdefault(name.lower(), []).append(value)

    @property
    def mutates(self) -> bool:
        return self.method not in SAFE

    @property
    def public(self) -> bool:
        return self.path in PUBLIC or self.path.startswith("/static/")

    def all(self, name: bytes) -> list[str]:
        return [value.decode("latin-1").strip() for value in self._headers.get(name, ())]

    def one(self, name: bytes) -> str | None:
        found = self._headers.get(name)
        return found[0].decode("latin-1").strip() if found else None

    def session(self) -> str | None:
        """The value of our cookie, the first where there are several."""
        for line in self.all(b"cookie"):
            for part in line.split(";"):
                name, _, value = part.strip().partition("=")
                if name == COOKIE:
                    return value.strip('"')
        return None


class Guard:
    """The middleware: `Guard(app, access)`, outermost."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access
        self._checking = CapacityLimiter(1)  # of its own: reads must not keep tokens from being checked
        self._started, self._count = os.urandom(5).hex(), itertools.count(1)  # of request ids: no system call for each

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        asked = Asked(scope)
        given = asked.one(b"x-request-id") or ""
        request_id = given if REQUEST_ID.fullmatch(given) else f"{self._started}-{next(self._count):x}"
        state = scope.setdefault("state", {})
        state["caller"], state["request_id"] = None, request_id
        private = asked.path.startswith("/v1") or asked.path == "/metrics"
        answer = GuardedSend(send, request_id, private)
        body = Body(receive, self.access.limits.body, answer)
        try:
            await self._check(asked, scope)
            await self.app(scope, body, answer.send)
        except Refusal as refusal:
            await answer.refuse(refusal)
        except TooLarge:
            await answer.refuse(too_large(self.access.limits.body))
        except Exception:
            LOG.exception("request failed", extra={"fields": {"request": request_id}})
            if answer.started and not answer.ended:
                raise  # half an answer cannot be taken back: the server drops the connection
            if not answer.started:
                await answer.refuse(Refusal(500, mistake_of_ours(request_id)))
        finally:
            caller: Caller | None = state.get("caller")
            say(
                ACCESS_LOG,
                logging.INFO,
                "request",
                method=asked.method,
                path=asked.path,
                status=answer.status,
                ms=round((time.perf_counter() - began) * 1000, 2),
                caller=caller.name if caller else "",
                request=request_id,
            )

    async def _check(self, asked: Asked, scope: Scope) -> None:
        """Raise the first reason to refuse a request. Health checks come by address, so they need no name."""
        if asked.path != "/health":
            check_host(asked, self.access)
        if asked.mutates:
            check_origin(asked, self.access)
        check_size(asked, self.access.limits.body)
        if asked.path == "/health":
            return  # cheap, and a probe must not be told to come back later
        await self._read_tokens()
        caller, by_cookie, refusal = authenticate(asked, self.access)
        scope["state"]["caller"] = caller
        if refusal is None and by_cookie and asked.mutates and asked.one(b"x-equipoise") is None:
            refusal = Refusal(403, "a browser's session needs the header X-Equipoise on requests that change something")
        self._check_rate(asked, caller)
        if refusal is not None:
            raise refusal

    async def _read_tokens(self) -> None:
        """Read the tokens again when it is time, off the event loop."""
        tokens = self.access.tokens
        if tokens.stale():
            try:
                await to_thread.run_sync(tokens.reload, limiter=self._checking)
            except Exception:
                LOG.exception("the store does not give its tokens")
        if not tokens.trusted():
            raise Refusal(503, "the store does not answer, so no token can be checked")

    def _check_rate(self, asked: Asked, caller: Caller | None) -> None:
        """Callers are counted by token, all others (wrong tokens too) by address."""
        if caller is None:
            wait = self.access.strangers.take(neighbourhood(asked.address))
        else:
            wait = self.access.callers.take("@" + neighbourhood(asked.address) if caller.open else caller.name)
        if wait > 0:
            seconds = max(1, math.ceil(wait))
            retry = (b"retry-after", str(seconds).encode())
            raise Refusal(429, f"too many requests; come back in {seconds} s", retry)


def check_host(asked: Asked, access: Access) -> None:
    """Only our own names: a page of another site may point its name at this address (DNS rebinding)."""
    given = asked.all(b"host")
    found = split_host(given[0]) if len(given) == 1 else None
    if found is None:
        raise Refusal(421, f"expected one Host header with a name; got {len(given) and given[0][:80]!r}")
    name = found[0][:80]
    if not access.answers_to(found[0]):
        raise Refusal(421, f"this service does not answer to {name!r}; start it with --host-name {name}")


def check_origin(asked: Asked, access: Access) -> None:
    """What a browser sends from a page must come from our own page: same name, same port, https if we have it."""
    if asked.one(b"sec-fetch-site") in ("cross-site", "same-site"):
        raise Refusal(403, "a page of another site may not change anything here")
    for origin in asked.all(b"origin"):
        try:
            parts = urlsplit(origin)
            name, port = split_host(parts.netloc) or ("", None)
        except ValueError:
            parts, name, port = urlsplit(""), "", None
        usual = {"http": 80, "https": 443}.get(parts.scheme)
        host, host_port = split_host(asked.one(b"host") or "") or (None, None)
        same = usual is not None and name == host and (port or usual) == (host_port or usual)
        if not same or (access.tls and parts.scheme != "https"):
            raise Refusal(403, f"Origin {origin[:80]!r} is not this service's own page")


def too_large(limit: int) -> Refusal:
    return Refusal(413, f"the request is larger than {limit:,} bytes, the most that is read", (b"connection", b"close"))


def check_size(asked: Asked, limit: int) -> None:
    """What the request says of its length; what it sends is counted as it is read."""
    given = asked.all(b"content-length")
    if len(set(given)) > 1 or (given and not re.fullmatch(r"\d{1,18}", given[0], re.ASCII)):
        raise Refusal(400, f"Content-Length is {given[0][:40]!r}; expected one count of bytes")
    if given and int(given[0]) > limit:
        raise too_large(limit)


def authenticate(asked: Asked, access: Access) -> tuple[Caller | None, bool, Refusal | None]:
    """Who asks, whether by cookie, and the refusal. Public paths take anyone, and know the caller if they can."""
    caller, by_cookie, refusal = _recognise(asked, access)
    if asked.public:
        return caller, by_cookie and asked.path != "/v1/login", None
    return caller, by_cookie, refusal


def _recognise(asked: Asked, access: Access) -> tuple[Caller | None, bool, Refusal | None]:
    given = asked.all(b"authorization")
    if given:
        scheme, _, token = given[0].partition(" ")
        if len(given) > 1 or scheme.lower() != "bearer":
            return None, False, _unauthorised("expected one header Authorization: Bearer TOKEN")
        caller = access.tokens.find(token.strip())
        wrong = "this token is wrong or revoked" + ("; the service has no tokens, leave it out" * access.is_open())
        return caller, False, None if caller else _unauthorised(wrong, ', error="invalid_token"')
    if access.is_open():
        return EVERYONE, False, None
    session = asked.session()
    if session is None:
        return None, False, _unauthorised("a token is needed: send the header Authorization: Bearer TOKEN")
    key = access.sessions.find(session)
    caller = access.tokens.by_digest(key) if key else None
    if caller is None:
        gone = (b"set-cookie", f"{COOKIE}=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict".encode())
        return None, True, _unauthorised("the session is over; log in again", "", gone)
    return caller, True, None


def _unauthorised(error: str, detail: str = "", *headers: Header) -> Refusal:
    return Refusal(401, error, (b"www-authenticate", f'Bearer realm="equipoise"{detail}'.encode()), *headers)


class Body:
    """`receive` that counts. Once the limit is passed, whatever the application answers becomes 413."""

    def __init__(self, receive: Receive, limit: int, answer: GuardedSend) -> None:
        self._receive, self._left, self._limit, self._answer = receive, limit, limit, answer

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                self._answer.instead = too_large(self._limit)
                raise TooLarge
        return message


class GuardedSend:
    """`send` that adds the security headers and remembers what was answered."""

    def __init__(self, send: Send, request_id: str, private: bool) -> None:
        self._send, self._private = send, private
        self._added = (*SECURITY, (b"x-request-id", request_id.encode()))
        self.status, self.started, self.ended = 0, False, False
        self.instead: Refusal | None = None

    async def send(self, message: Message) -> None:
        if self.instead is not None and not self.started:
            await self.refuse(self.instead)
        if self.instead is not None and self.ended:
            return  # the rest of an answer that was replaced
        if message["type"] == "http.response.start":
            self.started, self.status = True, message["status"]
            message = {**message, "headers": self._headers(message.get("headers", ()))}
        elif message["type"] == "http.response.body":
            self.ended = not message.get("more_body", False)
        await self._send(message)

    def _headers(self, given: list[Header] | tuple[Header, ...]) -> list[Header]:
        added = (*self._added, NO_STORE) if self._private else self._added
        ours = {name for name, _ in added}
        return [(name, value) for name, value in given if name.lower() not in ours] + list(added)

    async def refuse(self, refusal: Refusal) -> None:
        if self.started:
            return
        self.instead = None
        content = json.dumps({"error": one_line(refusal.error)}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        await self.send(
            {"type": "http.response.start", "status": refusal.status, "headers": [*headers, *refusal.headers]}
        )
        await self.send({"type": "http.response.body", "body": content})
        self.instead = refusal


BEARER = HTTPBearer(auto_error=False, description="A token of `equipoise admin token add`.")


def require(role: str) -> Callable[..., Awaitable[Caller]]:
    """A dependency: the caller, who has at least this role. `Annotated[Caller, Depends(require("submit"))]`."""

    async def allowed(
        request: Request, _shown: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)] = None
    ) -> Caller:
        return caller_with(request, role)

    return allowed


def caller_with(request: Request, role: str) -> Caller:
    """Who asks, if that is enough."""
    caller: Caller | None = getattr(request.state, "caller", None)
    if caller is None:
        raise HTTPException(401, "a token is needed: send the header Authorization: Bearer TOKEN")
    if not caller.may(role):
        raise HTTPException(403, f"this needs the role {role}; your token {caller.name!r} has {caller.role}")
    return caller


Reader = Annotated[Caller, Depends(require("read"))]
Submitter = Annotated[Caller, Depends(require("submit"))]
Admin = Annotated[Caller, Depends(require("admin"))]
