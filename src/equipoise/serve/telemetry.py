"""Structured logs on standard error: one line of JSON per event, or readable lines on a terminal. No secret is written.

What is hidden: our tokens, sessions, Authorization and Cookie headers, passwords in database addresses, and the exact
secrets that were named with `hide`. The message, every field and the traceback pass through the same filter."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import IO
from urllib.parse import quote, quote_plus, unquote

from equipoise.serve.plan import events as kinds
from equipoise.serve.plan.events import Event

HIDDEN = "[hidden]"
LONGEST = 32_768  # characters of one text
DEEPEST = 6  # fields within fields
WIDEST = 200  # members of one field
SHORTEST = 4  # of a secret named with `hide`: shorter ones would blank ordinary words

_BETWEEN = r"""\\*['"]?\s*[:=,]\s*b?\\*"""  # from a name to its value: `: `, `=`, `": "`, `', b'`
_SECRET = r"(?:password|passwd|pwd|passphrase|secret|token|api[_-]?key|credentials?)"  # a longer name may end in it
_HEADERS = r"(?:proxy-)?authorization|set-cookie|cookie"
_VALUE = r"""(?:'(?:[^'\\]|\\+[^\\]){0,2048}'?|"(?:[^"\\]|\\+[^\\]){0,2048}"?|[^\s'",;&}\])]{1,2048})"""
_RULES = (
    # our own tokens, whole or cut short, wherever they stand
    (re.compile(r"eq_[A-Za-z0-9_-]{12,}"), "eq_" + HIDDEN),
    (re.compile(r"(equipoise_session\\*['\"]?\s*[:=,]\s*b?\\*['\"]?)[^\s;'\",]+", re.I), rf"\1{HIDDEN}"),
    # scheme://user:password@ : up to the last @ of the word, since passwords may hold @ and /
    (re.compile(r"(?<=://)([^\s:@/'\"]{0,256}):[^\s]{0,1024}@"), rf"\1:{HIDDEN}@"),
    # a header with its value: to the end of the line, or of the quotes it stands in
    (re.compile(rf"""({_HEADERS})({_BETWEEN})('[^'\n]*'?|"[^"\n]*"?|[^'"\r\n]+)""", re.I), rf"\1\2{HIDDEN}"),
    (re.compile(r"\b(bearer)(\s+|%20)[^\s'\",;]+", re.I), rf"\1 {HIDDEN}"),
    (re.compile(rf"({_SECRET})({_BETWEEN}){_VALUE}", re.I), rf"\1\2{HIDDEN}"),
)
# Every rule needs one of these; most texts have none, and a busy service logs many.
_SIGNS = re.compile(r"eq_|://|author|cookie|session|bearer|pass|pwd|secret|token|api|credential", re.I)
_SECRET_KEY = re.compile(rf"(?:{_HEADERS}|{_SECRET}|equipoise_session)\Z", re.I)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "fields", "taskName", "color_message"}
_named: set[str] = set()
_naming = threading.Lock()


def hide(secret: str | None) -> None:
    """Never write this exact text, nor as it is spelled in a URL, in JSON or in Python."""
    if secret and len(secret) >= SHORTEST:
        plain = {secret, unquote(secret)}
        forms = {spelled for form in plain for spelled in (form, quote(form), quote_plus(form), quote(form, safe=""))}
        forms |= {spell(form)[1:-1] for form in plain for spell in (json.dumps, repr)}
        with _naming:
            _named.update(form for form in forms if len(form) >= SHORTEST)


def hide_password(url: str) -> None:
    """Hide the password of a database's address, before the address is used for anything."""
    found = re.search(r"://[^\s:@/]*:(.*)@", url, re.S)
    if found:
        hide(found.group(1))


def redact(text: str) -> str:
    """The text without secrets."""
    if len(text) > LONGEST:
        text = text[: LONGEST - 64] + re.sub(r"\S+\Z", "", text[LONGEST - 64 : LONGEST]) + " ..."  # not half a token
    for secret in sorted(_named, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    if _SIGNS.search(text) is not None:
        for pattern, instead in _RULES:
            text = pattern.sub(instead, text)
    return text


def clean(value: object, depth: int = 0) -> object:
    """A field as plain JSON without secrets, whatever it was: cycles, bytes and objects that cannot be shown included."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return redact(bytes(value).decode("utf-8", "backslashreplace"))
    if depth >= DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        pairs = list(value.items())[:WIDEST]
        return {
            redact(name := _shown(key)): HIDDEN if _SECRET_KEY.search(name) else clean(item, depth + 1)
            for key, item in pairs
        }
    if isinstance(value, list | tuple | set | frozenset):
        items = list(value)[:WIDEST]
        if len(items) == 2 and isinstance(items[0], str | bytes) and _SECRET_KEY.search(_shown(items[0])):
            return [clean(items[0]), HIDDEN]  # a header as a pair
        return [clean(item, depth + 1) for item in items]
    return redact(_shown(value))


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def say(logger: logging.Logger, level: int, event: str, **fields: object) -> None:
    """Log an event with its fields; any name may be a field's."""
    if logger.isEnabledFor(level):
        logger.log(level, "%s", event, extra={"fields": fields})


class Redaction(logging.Filter):
    """Takes the secrets out of a record before any formatter sees it."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except Exception:  # wrong arguments must not cost the line, nor stop the service
            message = " ".join(map(_shown, (record.msg, *(record.args or ()))))
        record.msg, record.args = redact(message), None
        fields = getattr(record, "fields", None)
        extra = {name: value for name, value in vars(record).items() if name not in _ORDINARY}
        given = {**extra, **fields} if isinstance(fields, Mapping) else extra
        record.fields = clean(given)
        for name in extra:
            delattr(record, name)
        if record.exc_info:
            record.exc_text = redact(_traceback(record))
            record.exc_info = None
        elif record.exc_text:
            record.exc_text = redact(record.exc_text)
        if record.stack_info:
            record.stack_info = redact(record.stack_info)
        return True


def _traceback(record: logging.LogRecord) -> str:
    """The traceback as text; of a long one the end, which says what happened."""
    assert record.exc_info is not None
    held = io.StringIO()
    try:
        traceback.print_exception(*record.exc_info, file=held)
    except Exception:
        return f"{record.exc_info[0]} whose message cannot be shown"
    text = held.getvalue().rstrip()
    if len(text) <= LONGEST:
        return text
    return "... " + re.sub(r"\A[^\s]{0,64}", "", text[-LONGEST + 8 :])


class JsonLines(logging.Formatter):
    """{"at", "level", "event", "logger", ...fields, "traceback"}: one line, whatever is in it."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        for name, value in getattr(record, "fields", {}).items():
            line[name if name not in line else f"{name}_"] = value
        if record.exc_text:
            line["traceback"] = record.exc_text
        if record.stack_info:
            line["stack"] = record.stack_info
        return json.dumps(line, ensure_ascii=True, default=str)


class Lines(logging.Formatter):
    """12:30:05 warning event  name=value: for a terminal. What could move its cursor is spelled out."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        fields = "".join(
            f"  {name}={_plain(value)}" for name, value in getattr(record, "fields", {}).items() if value != ""
        )
        line = f"{at} {record.levelname.lower():7} {_plain(record.getMessage())}{fields}"
        below = [part for part in (record.exc_text, record.stack_info) if part]
        return "\n".join([line, *(_CONTROL.sub(_spelled, part) for part in below)])


def _plain(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return _CONTROL.sub(_spelled, text.replace("\n", "\\n").replace("\t", " "))


def _spelled(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"


def start_logs(*, level: str = "info", as_json: bool | None = None, stream: IO[str] | None = None) -> logging.Handler:
    """Send every log of the process, the web server's too, through the filter. `as_json` None: unless on a terminal."""
    stream = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(stream)
    handler.addFilter(Redaction())
    handler.setFormatter(JsonLines() if as_json or (as_json is None and not stream.isatty()) else Lines())
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old, logging.StreamHandler) and any(isinstance(rule, Redaction) for rule in old.filters):
            root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "fastapi", "alembic", "sqlalchemy"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"  # the guard logs requests itself
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)  # its caller reports a broken connection
    return handler


BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """Counters of one service."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = to = CollectorRegistry()
        self._decisions = Counter("equipoise_decisions", "Decisions about jobs", ["state", "reason"], registry=to)
        self._events = Counter("equipoise_events", "Events stored", ["kind"], registry=to)
        timed = partial(Histogram, buckets=BUCKETS, registry=to)
        self.answers = timed("equipoise_answer_seconds", "From request to stored answer")
        self.commits = timed("equipoise_commit_seconds", "Of one transaction")
        self.failures = Counter("equipoise_store_failures", "Times the store failed", registry=to)
        self.seq = Gauge("equipoise_seq", "The last event stored", registry=to)
        self.slot = Gauge("equipoise_slot", "The slot it is", registry=to)
        self.waiting = Gauge("equipoise_waiting_requests", "Requests not yet taken up", registry=to)
        self.jobs = Gauge("equipoise_jobs", "Jobs by state", ["state"], registry=to)
        self.utilisation = Gauge("equipoise_utilisation", "Share held in this slot", ["resource"], registry=to)
        self.machines = Gauge("equipoise_machines", "Machines by status", ["status"], registry=to)

    def happened(self, event: Event) -> None:
        self._events.labels(event.kind).inc()
        if event.kind == kinds.DECIDED:
            self._decisions.labels(event.data["state"], event.data["reason"]).inc()

    def text(self) -> bytes:
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
