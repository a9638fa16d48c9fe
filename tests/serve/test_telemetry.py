"""The log: one line per event, and no secret in it, whoever put it where."""

import base64
import io
import json
import logging
import re

import pytest
from hypothesis import given, strategies as st

from equipoise.serve import telemetry as logs
from equipoise.serve.access import new_token
from equipoise.serve.telemetry import HIDDEN, clean, hide, hide_password, redact, say, start_logs

TOKEN = new_token()
LOG = logging.getLogger("equipoise.serve.test")


@pytest.fixture
def written():
    """Starts the log on a text that can be read; JSON, or what a terminal would show."""
    handlers = []

    def start(as_json=True):
        stream = io.StringIO()
        handlers.append(start_logs(level="debug", as_json=as_json, stream=stream))
        return stream

    before = logging.getLogger().level
    yield start
    for handler in handlers:
        logging.getLogger().removeHandler(handler)
    logging.getLogger().setLevel(before)
    logs._named.clear()


@pytest.fixture(params=[True, False], ids=["json", "terminal"])
def stream(request, written):
    return written(request.param)


def test_an_event_is_a_line_of_json_with_its_fields(written):
    stream = written()
    say(LOG, logging.INFO, "decided", job="j1", name="resnet", prices={"gpu": 0.5}, late=None)
    line = json.loads(stream.getvalue())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line.pop("at"))
    assert line == {
        "level": "info",
        "event": "decided",
        "logger": LOG.name,
        "job": "j1",
        "name": "resnet",
        "prices": {"gpu": 0.5},
        "late": None,
    }


def test_on_a_terminal_it_is_a_readable_line(written):
    stream = written(as_json=False)
    say(LOG, logging.WARNING, "machine down", machine="gpu-3", jobs=2)
    assert re.fullmatch(r"\d\d:\d\d:\d\d warning machine down  machine=gpu-3  jobs=2\n", stream.getvalue())


def test_other_libraries_log_through_it_too(written):
    """Their `extra` becomes fields; a field named like ours does not replace it."""
    stream = written()
    logging.getLogger("uvicorn.error").info(
        "started on %s", "port 80", extra={"color_message": "x", "level": 7, "who": "me"}
    )
    logging.getLogger("uvicorn.access").info("never shown: the guard does that")
    (line,) = [json.loads(text) for text in stream.getvalue().splitlines()]
    assert line["event"] == "started on port 80" and line["level"] == "info"
    assert line["level_"] == 7 and line["who"] == "me" and "color_message" not in line


def test_starting_twice_does_not_write_twice(written):
    written()
    stream = written()
    say(LOG, logging.INFO, "once")
    assert stream.getvalue().count("once") == 1


HOSTILE = {
    "token": (f"got {TOKEN}", TOKEN),
    "token in a word": (f"x{TOKEN}y", TOKEN),
    "token cut short": (f"got {TOKEN[:20]}", TOKEN[3:20]),
    "two tokens": (f"{TOKEN},{TOKEN}", TOKEN),
    "bearer": ("Authorization: Bearer abc.def-ghi", "abc.def-ghi"),
    "bearer, any case": ("aUTHORIZATION:bEARER   abcdefgh", "abcdefgh"),
    "bearer alone": ("sent Bearer abcdefgh to it", "abcdefgh"),
    "basic": ("authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    "any scheme": ("Authorization: AWS4 Credential=AKIA, Signature=fe5f", "fe5f"),
    "header as bytes": ("[(b'host', b'x'), (b'authorization', b'Basic dXNlcjpwYXNz')]", "dXNlcjpwYXNz"),
    "header as a dict": ("{'authorization': 'Basic dXNlcjpwYXNz', 'host': 'x'}", "dXNlcjpwYXNz"),
    "header as json": ('{"Authorization": "Basic dXNlcjpwYXNz"}', "dXNlcjpwYXNz"),
    "header in json in json": (json.dumps(json.dumps({"authorization": "Basic dXNlcjpwYXNz"})), "dXNlcjpwYXNz"),
    "cookie": ("Cookie: a=b; equipoise_session=Zm9vYmFy; c=d", "Zm9vYmFy"),
    "set-cookie": ("set-cookie: equipoise_session=Zm9vYmFy; HttpOnly", "Zm9vYmFy"),
    "another's cookie": ("Cookie: other=Zm9vYmFy", "Zm9vYmFy"),
    "session alone": ("equipoise_session=Zm9vYmFy", "Zm9vYmFy"),
    "session in a dict": ("{'equipoise_session': 'Zm9vYmFy'}", "Zm9vYmFy"),
    "database": ("postgresql://plan:hunter2@db/plan failed", "hunter2"),
    "database with a driver": ("postgresql+psycopg://plan:hunter2@db:5432/plan", "hunter2"),
    "password with @ and /": ("postgresql://plan:hun@ter/2@db/plan", "hun@ter/2"),
    "password with @ and /, the end": ("postgresql://plan:hun@ter/2@db/plan", "ter/2"),
    "password without a user": ("redis://:hunter2@db", "hunter2"),
    "encoded password": ("postgresql://plan:hunt%40er2@db/plan", "hunt%40er2"),
    "conninfo": ("host=db user=plan password=hunter2 dbname=plan", "hunter2"),
    "conninfo in quotes": ("host=db password='hunter 2' dbname=plan", "hunter 2"),
    "conninfo with an escape": (r"password='hun\'ter2' dbname=plan", "ter2"),
    "query": ("postgresql://db/plan?user=plan&password=hunter2&sslmode=on", "hunter2"),
    "environment": ("PGPASSWORD=hunter2 psql", "hunter2"),
    "field of a body": ("{'token': 'not-our-shape-at-all'}", "not-our-shape-at-all"),
    "cut by a validator": ("input_value={'token': 'eq_Ab...yz0123456789'}", "yz0123456789"),
    "capitals": ("PASSWORD: hunter2", "hunter2"),
    "api key": ("x-api-key: hunter2", "hunter2"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_no_secret_gets_out_by_the_message(stream, case):
    """As the message itself, as its argument, as a field, deep in a field, as a field's name, and in an exception."""
    text, secret = HOSTILE[case]
    LOG.info(text)
    LOG.info("said %s and %r", text, {"deep": [text]})
    say(LOG, logging.INFO, text, plain=text, deep={"list": [(text,), {"x": text.encode()}]}, **{text: 1})
    LOG.info("extra", extra={"given": text})
    assert secret not in stream.getvalue()
    assert HIDDEN in stream.getvalue() and stream.getvalue().count("\n") == 4


@pytest.mark.parametrize("case", HOSTILE)
def test_no_secret_gets_out_by_a_traceback(stream, case):
    """Of the exception, of what caused it, of its notes, and of a group."""
    text, secret = HOSTILE[case]
    try:
        try:
            raise ValueError(text)
        except ValueError as cause:
            cause.add_note(text)
            raise ExceptionGroup("several", [KeyError(text), OSError(5, text)]) from cause
    except ExceptionGroup:
        LOG.exception("failed with %s", text, stack_info=True)
    assert secret not in stream.getvalue() and "Traceback" in stream.getvalue() and "several" in stream.getvalue()


def test_no_secret_gets_out_by_a_line_of_source(stream):
    """Where a stack is logged, so are the lines that made it."""
    LOG.info("here", stack_info=True)  # password=swordfish
    assert "stack_info=True" in stream.getvalue() and "swordfish" not in stream.getvalue()


@pytest.mark.parametrize(
    "key",
    [
        "authorization",
        "Authorization",
        b"cookie",
        "Set-Cookie",
        "password",
        "db_password",
        "token",
        "secret",
        "api_key",
    ],
)
def test_a_field_is_hidden_by_its_name_whatever_it_holds(stream, key):
    """A secret need not look like one; pairs of headers are read as such."""
    say(
        LOG,
        logging.INFO,
        "headers",
        given={key: "plain words"},
        pairs=[(key, b"plain words")],
        deep={key: {"a": "plain words"}},
    )
    assert "plain words" not in stream.getvalue() and stream.getvalue().count(HIDDEN) == 3


def test_secrets_named_beforehand_are_hidden_in_every_spelling(stream):
    """The database's own password, alone in a message, as a URL, JSON or Python would spell it."""
    password = 'p@ss w"ord/%é'
    hide(password)
    for spelled in (password, "p%40ss%20w%22ord%2F%25%C3%A9", json.dumps(password), repr(password)):
        LOG.info("the server says: %s is wrong", spelled)
    assert "ord" not in stream.getvalue().replace("password", "")
    assert stream.getvalue().count(HIDDEN) == 4


def test_the_password_of_an_address_is_named_by_the_address(stream):
    hide_password("postgresql://plan:hunt%40er2@db/plan")
    hide_password("sqlite:///plan.db")
    LOG.info("FATAL: hunt@er2 or hunt%40er2 is wrong, plan.db is fine")
    assert "er2" not in stream.getvalue() and "plan.db is fine" in stream.getvalue()


def test_short_secrets_do_not_blank_ordinary_words(stream):
    hide("a")
    hide("")
    hide(None)
    LOG.info("a banana")
    assert "a banana" in stream.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        "job 'resnet' of tenant red: 4 workers on gpu-3 from slot 12",
        "eq_small and eq_1 are names of jobs",
        "http://127.0.0.1:8321/v1/jobs",
        "the token 'ci' has submit",
        "sqlite:////var/lib/equipoise/plan.db",
        "POST /v1/tokens 201",
        "mail to someone@example.org",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redact(text) == text


def test_lines_cannot_be_forged_nor_a_terminal_steered(stream):
    """Line breaks, escape sequences and marks that turn the writing around are spelled out."""
    hostile = 'x\n{"at": "now", "event": "forged"}\r\x1b[2J\x00\u202e\u2028\x9b31m\x85'
    say(LOG, logging.INFO, hostile, path=hostile)
    text = stream.getvalue()
    assert text.count("\n") == 1 and len(text.splitlines()) == 1
    assert not set("\r\x1b\x00\u202e\u2028\x9b\x85") & set(text)


class Nasty:
    """Cannot be shown."""

    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


class Leaky:
    def __str__(self):
        return f"<session of {TOKEN}>"

    __repr__ = __str__


def test_whatever_is_logged_a_line_comes_out(stream):
    """Objects that cannot be shown, cycles, depth, wrong arguments: none of it stops the service or loses the line."""
    cycle = {"self": None, "leak": Leaky()}
    cycle["self"] = cycle
    deep = [TOKEN]
    for _ in range(500):
        deep = [deep]
    say(
        LOG,
        logging.INFO,
        "odd",
        a=Nasty(),
        b=cycle,
        c=deep,
        d={1: Leaky(), (2, 3): b"\xff" + TOKEN.encode()},
        e=float("nan"),
    )
    LOG.info("wrong %s %s", TOKEN)
    LOG.info("wrong %d", TOKEN)
    LOG.info(Leaky())
    LOG.info(Nasty())
    text = stream.getvalue()
    assert text.count("\n") == 5 and TOKEN not in text


def test_an_exception_that_cannot_be_shown_is_still_logged(stream):
    class Broken(Exception):
        def __str__(self):
            raise RuntimeError(TOKEN)

    try:
        raise Broken
    except Broken:
        LOG.exception("failed")
    assert "failed" in stream.getvalue() and TOKEN not in stream.getvalue()


def test_a_long_text_is_cut_but_never_inside_a_token(stream):
    """Wherever the cut falls, no part of a token is left over."""
    for before in range(logs.LONGEST - 50, logs.LONGEST + 2):
        line = redact("x " * (before // 2) + " " * (before % 2) + TOKEN + " tail")
        assert TOKEN[3:9] not in line
    LOG.info("y" * 10**6)
    say(LOG, logging.INFO, "many", tokens=[TOKEN] * 10**4, text=f"{TOKEN} " * 10**4)
    assert len(stream.getvalue()) < 300_000 and TOKEN[3:9] not in stream.getvalue()


@pytest.mark.parametrize(
    "piece", ["://a:", "password=", "Authorization:", "eq_", "token='\\", "cookie", "bearer ", "a=b@", '"']
)
def test_hostile_texts_take_no_time_to_speak_of(piece):
    """Patterns that look far ahead are bounded; this ends in a moment rather than in minutes."""
    redact(piece * (logs.LONGEST // len(piece)))


@given(st.text(max_size=60), st.text(max_size=60), st.sampled_from(["message", "field", "key", "bytes", "deep"]))
def test_a_token_never_survives_whatever_stands_around_it(before, after, where):
    """Any text before and after, in any place: the token does not come out."""
    text = before + TOKEN + after
    value = {
        "message": text,
        "field": {"f": text},
        "key": {text: 1},
        "bytes": text.encode("utf-8", "replace"),
        "deep": [[{text}]],
    }
    assert TOKEN not in json.dumps(clean(value[where]))


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.binary(),
        lambda some: st.lists(some) | st.dictionaries(st.text(), some),
    )
)
def test_clean_fields_are_plain_json(value):
    """What comes out is strict JSON: no NaN, no bytes."""
    json.loads(json.dumps(clean(value), allow_nan=False))


def test_base64_of_a_token_is_not_recognised():
    """A limit, stated: a secret that someone encodes otherwise is not found unless it was named with `hide`."""
    encoded = base64.b64encode(TOKEN.encode()).decode()
    assert redact(encoded) == encoded
