"""How the REST interface says no: always {"error": "one line"}, and documented on every route."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from equipoise.errors import InputError, unknown_name
from equipoise.place.job_spec import JobSpec
from equipoise.serve.plan.events import Body
from equipoise.serve.plan.planning import Conflict, NotFound
from equipoise.serve.service import Unavailable
from equipoise.serve.store.rows import StoreLost
from equipoise.serve.telemetry import redact

LONGEST = 500  # characters of an error


class ErrorOut(BaseModel):
    """What went wrong, in one line."""

    error: str


MEANINGS = {
    400: "The request is not well formed.",
    401: "The token is missing, wrong or revoked.",
    403: "The token's role does not suffice, or a browser sent this from another site.",
    404: "There is no such thing.",
    405: "The path has no such method.",
    409: "It contradicts what is there.",
    413: "The request is too large.",
    415: "Not JSON.",
    421: "The service does not answer to the name in the Host header.",
    422: "A value is not what was expected; the error names it.",
    429: "Too many requests; Retry-After says when to come back.",
    500: "A mistake of the service, logged under the answer's X-Request-ID.",
    503: "The store does not answer.",
}


REFUSALS: dict[type[Exception], int] = {InputError: 422, NotFound: 404, Conflict: 409, Unavailable: 503, StoreLost: 503}


def answers(*statuses: int) -> dict[int | str, Body]:
    """`responses=` of a route for these refusals."""
    return {status: {"model": ErrorOut, "description": MEANINGS[status]} for status in statuses}


GUARDED = answers(
    400, 401, 403, 413, 421, 422, 429, 500, 503
)  # what any route may answer before or beside its own work


def one_line(text: str) -> str:
    """Without line breaks, and not too long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."


def refuse(status: int, text: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": one_line(text)}, status, headers=headers)


def refusal_of(error: Exception) -> JSONResponse:
    """What the service says when it cannot do what was asked."""
    status = REFUSALS[next(kind for kind in REFUSALS if isinstance(error, kind))]
    text = "the store does not answer; ask again" if isinstance(error, StoreLost) else str(error)
    return refuse(status, text, {"Retry-After": "1"} if status == 503 else None)


def unknown_field(given: str, known: Iterable[str]) -> str:
    """With the right name where it is near one; else without a word of it: somebody may have sent a token there."""
    found = difflib.get_close_matches(given, list(known), n=1, cutoff=0.6)
    if found:
        return f"unknown field {given!r}; did you mean {found[0]!r}?"
    return f"a field that is not known; a job has {', '.join(known)}"


def explain_mistake(error: RequestValidationError, known: Iterable[str] = ()) -> str:
    """The first mistake, by the name of its field. What was sent is not repeated: it may be a token."""
    first = error.errors()[0]
    if first["loc"] == ("body",) and first["type"] in ("model_attributes_type", "dict_type", "missing"):
        return "the body is not a JSON object; send one, with the header Content-Type: application/json"
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first.get('ctx', {}).get('error', 'cannot be read')}"
    if first["type"] == "extra_forbidden":
        return unknown_field(str(first["loc"][-1]), known)
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    more = len(error.errors()) - 1
    return redact(f"{where}: {first['msg'].removeprefix('Value error, ')}") + (f" (and {more} more)" if more else "")


def mistake_of_ours(request_id: str) -> str:
    """Nothing of the inside, only where to find it."""
    return f"a mistake of the service; its log tells more under {request_id}"


def methods_of(app: FastAPI, path: str) -> str:
    """All documented methods of a path. The framework's own answer knows only those of one of its routes."""
    found: set[str] = set()
    for template, operations in app.openapi()["paths"].items():
        pattern = "[^/]+".join(map(re.escape, re.split(r"\{[^}]*\}", template)))
        if re.fullmatch(pattern, path):
            found.update(method.upper() for method in operations)
    return ", ".join(sorted(found))


async def known_parameters(request: Request) -> None:
    """A dependency: a parameter that a route does not know is a slip, not to be passed over."""
    if request.scope["query_string"] and request.scope["path"].startswith("/v1"):
        document = request.app.openapi()["paths"][request.scope["route"].path_format]
        parameters = document[request.method.lower()].get("parameters", ())
        known = {one["name"] for one in parameters if one["in"] == "query"}
        for name in request.query_params:
            if name not in known:
                raise unknown_name("parameter", name[:60], known) if known else InputError("this takes no parameters")


def speak_plainly(app: FastAPI) -> None:
    """Make every error of the framework and every InputError one line in our shape."""

    async def http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = methods_of(app, request.url.path) or headers.get("Allow", "")
        return refuse(error.status_code, str(error.detail), headers)

    async def mistake(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return refuse(422, explain_mistake(error, tuple(JobSpec.model_fields)))

    async def ours(request: Request, error: Exception) -> JSONResponse:
        return refusal_of(error)

    async def our_mistake(request: Request, error: Exception) -> JSONResponse:
        return refuse(500, mistake_of_ours(getattr(request.state, "request_id", "")))

    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, mistake)
    for kind in REFUSALS:
        app.add_exception_handler(kind, ours)
    app.add_exception_handler(Exception, our_mistake)
