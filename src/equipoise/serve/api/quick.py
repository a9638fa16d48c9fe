"""Plain submissions, which most requests are, past the framework: it takes more CPU for one than the decision does.

Whatever is not plain (parameters, a role that does not suffice, a body with a mistake) goes on to the framework, whose
answer is the documented one.
"""

from __future__ import annotations

from pydantic import ValidationError
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from equipoise.serve.access import Caller
from equipoise.serve.api.jobs import LONGEST_KEY, submitted
from equipoise.serve.api.models import JobIn
from equipoise.serve.api.refusals import REFUSALS, refusal_of
from equipoise.serve.service import Service


class Quick:
    """The ASGI application between the guard and the framework."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = _key_of_plain(scope)
        if key is None:
            await self.app(scope, receive, send)
            return
        messages = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        if messages[-1]["type"] != "http.request":  # who went away in the middle asked for nothing
            await self.app(scope, _again(messages, receive), send)
            return
        try:
            job = JobIn.model_validate_json(b"".join(message.get("body", b"") for message in messages))
        except ValidationError:
            await self.app(scope, _again(messages, receive), send)
            return
        answer = await self._answer(job, scope["state"]["caller"].tenant, key)
        await answer(scope, receive, send)

    async def _answer(self, job: JobIn, owner: str, key: str) -> JSONResponse:
        try:
            status, body = await submitted(self.service, job.model_dump(exclude_unset=True), owner, key)
        except tuple(REFUSALS) as refusal:
            return refusal_of(refusal)
        return JSONResponse(body, status)


def _key_of_plain(scope: Scope) -> str | None:
    """The idempotency key ("" for none) of a plain submission; None for any other request."""
    if scope["type"] != "http" or scope["path"] != "/v1/jobs" or scope["method"] != "POST" or scope["query_string"]:
        return None
    caller: Caller | None = scope["state"]["caller"]
    if caller is None or not caller.may("submit"):
        return None
    key, kind = b"", b""
    for name, value in scope["headers"]:
        if name == b"idempotency-key" and key:
            return None
        if name == b"idempotency-key":
            key = value
        elif name == b"content-type":
            kind = value
    decent = len(key) <= LONGEST_KEY and key.isascii() and (not key or key.decode().isprintable())
    return key.decode() if decent and kind == b"application/json" else None


def _again(messages: list[Message], receive: Receive) -> Receive:
    """What was read is read again, then what comes."""
    waiting = iter(messages)

    async def read() -> Message:
        return next(waiting, None) or await receive()

    return read
