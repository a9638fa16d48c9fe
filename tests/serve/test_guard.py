"""The guard of the REST interface, on a small application: who gets in, and what is said to those who do not."""

import asyncio
import contextlib
import io
import json
import logging
import re
import socket
import threading
import time
from functools import partial

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, StreamingResponse

from equipoise.errors import InputError
from equipoise.serve.access import COOKIE, Access, Limits, Sessions, Tokens, digest, new_token
from equipoise.serve.api.access_routes import routes_access
from equipoise.serve.api.guard import POLICY, Admin, Guard, Reader, Submitter
from equipoise.serve.api.refusals import speak_plainly
from equipoise.serve.logs import start_logs
from equipoise.serve.store import open_store
from equipoise.serve.store.rows import TenantRow, TokenRow

LIMIT = 1000  # bytes of a body
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class Memory:
    """The store's access methods on two dictionaries."""

    def __init__(self):
        self.by_name, self.quotas, self.broken = {}, {}, False

    def tokens(self):
        if self.broken:
            raise OSError("the database is gone")
        return list(self.by_name.values())

    def add_token(self, row):
        if row.name in self.by_name:
            raise InputError(f"there is a token {row.name!r} already")
        self.by_name[row.name] = row

    def remove_token(self, name):
        return self.by_name.pop(name, None) is not None

    def tenants(self):
        return [TenantRow(name, quota) for name, quota in self.quotas.items()]

    def put_tenant(self, row):
        self.quotas[row.name] = row.quota

    def remove_tenant(self, name):
        return self.quotas.pop(name, None) is not None


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def application(access, store):
    """Routes of every kind: one a role and method, a stream, a mistake, a body, and those of access."""
    app = FastAPI()
    speak_plainly(app)
    app.include_router(routes_access(access, store))

    def one(path, who):
        async def route(caller: who) -> dict[str, str]:
            return {"caller": caller.name}

        app.add_api_route(f"/v1/{path}", route, methods=list(METHODS), include_in_schema=False, response_model=None)

    one("read", Reader)
    one("submit", Submitter)
    one("admin", Admin)

    @app.post("/v1/body")
    async def body(request: Request, caller: Reader) -> dict[str, int]:
        return {"bytes": len(await request.body())}

    @app.post("/v1/parsed")
    async def parsed(given: dict[str, str], caller: Reader) -> dict[str, int]:
        return {"fields": len(given)}

    @app.get("/v1/mistake")
    async def mistake(caller: Reader) -> None:
        raise RuntimeError("this went wrong with " + SECRET)

    @app.get("/v1/bad")
    async def bad(caller: Reader) -> None:
        raise InputError("workers is -1;\n expected 1 or more")

    @app.get("/v1/stream")
    async def stream(caller: Reader) -> StreamingResponse:
        async def parts():
            for k in range(3):
                yield f"data: {k}\n\n"
                await asyncio.sleep(0)

        return StreamingResponse(parts(), media_type="text/event-stream", headers={"Cache-Control": "max-age=9"})

    @app.get("/v1/broken-stream")
    async def broken_stream(caller: Reader) -> StreamingResponse:
        async def parts():
            yield "data: 0\n\n"
            raise RuntimeError("half way")

        return StreamingResponse(parts())

    for path in ("/", "/health", "/static/{name}", "/metrics", "/v1x", "/staticx"):
        app.add_api_route(
            path, lambda: PlainTextResponse("fine", headers={"Cache-Control": "max-age=9"}), methods=["GET"]
        )
    return app


SECRET = new_token()


class Browser:
    """A client that keeps cookies, on the application itself."""

    def __init__(self, app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        self.cookies = self._client.cookies
        self.get, self.post, self.options = (partial(self.request, method) for method in ("GET", "POST", "OPTIONS"))

    def request(self, method, path, **rest):
        return asyncio.run(self._client.request(method, path, **rest))


class Scene:
    """A guarded application with a token of each role, a clock that stands and a log that can be read."""

    def __init__(self, *, tokens=True, store=None, **settings):
        self.clock, self.store, self.token = Clock(), store or Memory(), {}
        for role in ("read", "submit", "admin") if tokens else ():
            self.token[role] = new_token()
            self.store.add_token(TokenRow(f"my-{role}", digest(self.token[role]), role, "", 0.0))
        settings = {"limits": Limits(body=LIMIT), **settings}
        known = Tokens(self.store.tokens, clock=self.clock)
        self.access = Access(known, Sessions(clock=self.clock), clock=self.clock, **settings)
        self.app = Guard(application(self.access, self.store), self.access)
        self.client = Browser(self.app)

    def bearer(self, role):
        return {"Authorization": f"Bearer {self.token[role]}"}

    def ask(self, method, path, role=None, **rest):
        headers = {**(self.bearer(role) if role else {}), **rest.pop("headers", {})}
        return self.client.request(method, path, headers=headers, **rest)

    def login(self, role="submit"):
        answer = self.client.post("/v1/login", json={"token": self.token[role]})
        assert answer.status_code == 200
        return answer


@pytest.fixture
def scene():
    return Scene()


@pytest.fixture(scope="module")
def same():
    """One scene for all tests that only look, and ask too often for any limit."""
    return Scene(limits=Limits(body=LIMIT, rate=0, stranger_rate=0))


@pytest.fixture
def log():
    """What the service writes while the test runs, as JSON lines."""
    held = io.StringIO()
    handler = start_logs(as_json=True, stream=held)
    yield held
    logging.getLogger().removeHandler(handler)


def raw(app, method="GET", path="/v1/read", headers=(), chunks=(b"",), scope=None):
    """One request by ASGI itself, with exactly these headers. Returns status, headers, body and the chunks read."""
    waiting, sent = list(chunks), []

    async def receive():
        if not waiting:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def send(message):
        sent.append(message)

    asked = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path,
        "raw_path": path.encode(), "query_string": b"", "root_path": "", "scheme": "http", "client": ("10.0.0.9", 5),
        "server": ("localhost", 80), "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
    }  # fmt: skip
    asyncio.run(app({**asked, **(scope or {})}, receive, send))
    starts = [message for message in sent if message["type"] == "http.response.start"]
    assert len(starts) == 1
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return starts[0]["status"], dict(starts[0]["headers"]), body, len(chunks) - len(waiting)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("needed", ["read", "submit", "admin"])
@pytest.mark.parametrize("role", ["read", "submit", "admin"])
def test_a_role_opens_its_own_routes_and_those_below(same, role, needed, method):
    """Every role on every route by every method; the answer says what is needed and what the token has."""
    answer = same.ask(method, f"/v1/{needed}", role)
    order = ["read", "submit", "admin"]
    if order.index(role) >= order.index(needed):
        assert answer.status_code == 200
        assert method == "HEAD" or answer.json() == {"caller": f"my-{role}"}
    else:
        assert answer.status_code == 403
        if method != "HEAD":
            assert answer.json() == {"error": f"this needs the role {needed}; your token 'my-{role}' has {role}"}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/tokens", None),
        ("POST", "/v1/tokens", {"name": "x"}),
        ("DELETE", "/v1/tokens/my-read", None),
        ("GET", "/v1/tenants", None),
        ("PUT", "/v1/tenants/red", {"quota": {}}),
        ("DELETE", "/v1/tenants/red", None),
    ],
)
@pytest.mark.parametrize("role", ["read", "submit"])
def test_tokens_and_tenants_are_for_admins(same, role, method, path, body):
    assert same.ask(method, path, role, json=body).status_code == 403
    assert same.store.quotas == {} and len(same.store.by_name) == 3


@pytest.mark.parametrize(
    "header",
    [
        None, "", "Bearer", "Bearer ", "Bearer wrong", "Bearer eq_" + "A" * 43, "Basic YWRtaW46YWRtaW4=", "my-admin",
        "Bearer my-admin", "Bearer  ", "Bearer \xff\xfe", "Bearer null",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "path", ["/v1/read", "/v1/nothing-there", "/metrics", "/openapi.json", "/v1x", "/staticx", "//v1/read"]
)
def test_without_a_good_token_nobody_gets_in(same, header, path):
    """Missing, malformed or wrong: 401 with the challenge, on paths that are not there just as on those that are."""
    answer = same.client.get(path, headers={} if header is None else {"Authorization": header.encode("latin-1")})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer ")
    assert list(answer.json()) == ["error"]


def test_the_digest_is_no_token(scene):
    """Whoever reads the database cannot log in with what is in it."""
    stored = digest(scene.token["admin"])
    assert scene.ask("GET", "/v1/read", headers={"Authorization": f"Bearer {stored}"}).status_code == 401
    assert scene.client.post("/v1/login", json={"token": stored}).status_code == 401


def test_the_scheme_is_read_in_any_case_and_two_tokens_are_none(scene):
    token = scene.token["read"]
    assert scene.ask("GET", "/v1/me", headers={"Authorization": f"bEARER   {token}"}).json()["name"] == "my-read"
    twice = [("Host", "localhost"), ("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")]
    assert raw(scene.app, headers=twice)[0] == 401


@pytest.mark.parametrize("path", ["/", "/health", "/static/page.js"])
@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer wrong"}, {"Cookie": f"{COOKIE}=old"}])
def test_the_page_and_the_health_are_for_anyone(same, path, header):
    assert same.client.get(path, headers=header).status_code == 200


def test_a_revoked_token_is_refused_within_two_seconds(scene):
    """Revoked by the command line, behind the server's back."""
    assert scene.ask("GET", "/v1/me", "read").status_code == 200
    scene.store.remove_token("my-read")
    scene.clock.now += 1.5
    assert scene.ask("GET", "/v1/me", "read").status_code == 401


def test_while_the_store_is_gone_known_tokens_stay_good_and_then_it_is_503(scene):
    assert scene.ask("GET", "/v1/me", "read").status_code == 200
    scene.store.broken = True
    scene.clock.now += 20
    assert scene.ask("GET", "/v1/me", "read").status_code == 200
    scene.clock.now += 20
    answer = scene.ask("GET", "/v1/me", "read")
    assert answer.status_code == 503 and "store" in answer.json()["error"]
    assert scene.client.get("/health").status_code == 200
    scene.store.broken = False
    scene.clock.now += 2
    assert scene.ask("GET", "/v1/me", "read").status_code == 200


def test_an_open_service_needs_no_token_until_there_is_one():
    """No tokens, this machine only: everyone is admin. The first token must be admin, and closes the door."""
    scene = Scene(tokens=False, open=True)
    assert scene.ask("GET", "/v1/me").json() == {"name": "local", "role": "admin", "tenant": "", "open": True}
    assert scene.ask("GET", "/v1/me", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert scene.ask("POST", "/v1/tokens", json={"name": "ci", "role": "submit"}).status_code == 409
    made = scene.ask("POST", "/v1/tokens", json={"name": "root", "role": "admin"})
    assert made.status_code == 201
    assert scene.ask("GET", "/v1/me").status_code == 401
    known = {"Authorization": "Bearer " + made.json()["token"]}
    assert scene.ask("GET", "/v1/me", headers=known).json()["open"] is False
    assert scene.ask("DELETE", "/v1/tokens/root", headers=known).status_code == 409
    scene.store.remove_token("root")
    scene.clock.now += 2
    assert scene.ask("GET", "/v1/me").status_code == 401


def test_a_service_that_others_reach_is_never_open():
    """No token and not this machine only: nobody gets in, rather than everybody."""
    assert Scene(tokens=False).ask("GET", "/v1/me").status_code == 401


# browsers


def test_a_browser_logs_in_acts_and_logs_out(scene):
    """The cookie stands for the token; it cannot be read by scripts nor be sent by other sites."""
    answer = scene.login("submit")
    cookie = answer.headers["set-cookie"]
    assert answer.json() == {"name": "my-submit", "role": "submit", "tenant": "", "open": False}
    flags = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert flags == {"httponly", "samesite=strict", "path=/", "max-age=43200"}
    assert scene.token["submit"] not in cookie and digest(scene.token["submit"]) not in cookie
    assert scene.client.get("/v1/me").json()["name"] == "my-submit"
    assert scene.client.post("/v1/submit", headers={"X-Equipoise": "1"}).status_code == 200
    assert scene.client.post("/v1/admin", headers={"X-Equipoise": "1"}).status_code == 403
    kept = {"Cookie": cookie.split(";")[0]}
    assert scene.client.post("/v1/logout", headers={"X-Equipoise": "1"}).status_code == 200
    assert not scene.client.cookies
    assert scene.client.get("/v1/me", headers=kept).status_code == 401


def test_the_cookie_is_secure_behind_tls():
    scene = Scene(tls=True)
    assert "secure" in scene.login().headers["set-cookie"].lower()


def test_a_wrong_token_starts_no_session(scene):
    for token in ("", "wrong", "eq_" + "A" * 43, "\ud800", "x" * 200):
        body = json.dumps({"token": token})
        answer = scene.client.post("/v1/login", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (401, 422) and "set-cookie" not in answer.headers
    assert len(scene.access.sessions) == 0


def test_a_session_ends_with_its_token_and_after_twelve_hours(scene):
    scene.login("read")
    scene.clock.now += 12 * 3600 - 1
    assert scene.client.get("/v1/me").status_code == 200
    scene.store.remove_token("my-read")
    scene.clock.now += 0.5
    scene.client.get("/v1/me")
    scene.clock.now += 1
    gone = scene.client.get("/v1/me")
    assert gone.status_code == 401 and "max-age=0" in gone.headers["set-cookie"].lower()

    other = Scene()
    other.login("read")
    other.clock.now += 12 * 3600
    assert other.client.get("/v1/me").status_code == 401


@pytest.mark.parametrize("cookie", ["", "x", "A" * 43, '"', "=", "A" * 5000, "é"])
def test_a_cookie_that_was_never_given_is_refused(same, cookie):
    assert same.client.get("/v1/me", headers={"Cookie": f"{COOKIE}={cookie}".encode()}).status_code == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_session_changes_nothing_without_our_header(scene, method):
    """A form of another site can send cookies but no header of ours; a token in the header needs none."""
    scene.login("admin")
    assert scene.client.request(method, "/v1/submit").status_code == 403
    assert scene.client.request(method, "/v1/submit", headers={"X-Equipoise": "1"}).status_code == 200
    assert scene.client.request(method, "/v1/submit", headers=scene.bearer("submit")).status_code == 200
    assert scene.client.get("/v1/submit").status_code == 200


@pytest.mark.parametrize(
    ("host", "origin", "passes"),
    [
        ("localhost", "http://localhost", True),
        ("localhost", "http://LOCALHOST:80", True),
        ("localhost:8080", "http://localhost:8080", True),
        ("[::1]:8080", "http://[::1]:8080", True),
        ("plan.example.org", "https://plan.example.org", True),
        ("plan.example.org:443", "https://plan.example.org", True),
        ("localhost:8080", "http://localhost:9090", False),
        ("localhost", "http://localhost:8080", False),
        ("localhost:8080", "http://localhost", False),
        ("localhost", "http://127.0.0.1", False),
        ("localhost", "http://evil.example", False),
        ("localhost", "http://localhost.evil.example", False),
        ("localhost", "http://evil.example@localhost", False),
        ("localhost", "null", False),
        ("localhost", "", False),
        ("localhost", "file://", False),
        ("localhost", "chrome-extension://localhost", False),
        ("localhost", "http://[", False),
        ("localhost", "localhost", False),
    ],
)
def test_only_our_own_page_changes_things(host, origin, passes):
    """Origin, if a browser sends one, must be the very place it sends to; reading is not affected."""
    scene = Scene(hosts=frozenset({"plan.example.org"}))
    headers = {"Host": host, "Origin": origin}
    assert scene.ask("POST", "/v1/submit", "submit", headers=headers).status_code == (200 if passes else 403)
    assert scene.ask("GET", "/v1/submit", "submit", headers=headers).status_code == 200
    login = scene.client.post("/v1/login", json={"token": scene.token["read"]}, headers=headers)
    assert login.status_code == (200 if passes else 403)


def test_another_site_is_refused_by_what_the_browser_says_of_it(scene):
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        answer = scene.ask("POST", "/v1/submit", "submit", headers={"Sec-Fetch-Site": site})
        assert answer.status_code == status


def test_behind_tls_a_page_without_it_changes_nothing():
    scene = Scene(tls=True)
    for scheme, status in (("http", 403), ("https", 200)):
        answer = scene.ask("POST", "/v1/submit", "submit", headers={"Origin": f"{scheme}://localhost"})
        assert answer.status_code == status


def test_other_sites_are_not_let_in_by_cors(scene):
    """A preflight gets no leave: browsers then do not send the request at all."""
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "DELETE"}
    answer = scene.client.options("/v1/admin", headers=headers)
    assert answer.status_code == 401
    assert not [name for name in answer.headers if name.startswith("access-control")]


# names


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:1",
        "localhost.",
        "127.0.0.1:8080",
        "127.9.9.9",
        "[::1]",
        "[::1]:8080",
        "Plan.Example.ORG.:99",
    ],
)
def test_our_own_names(host):
    scene = Scene(hosts=frozenset({"plan.example.org:8443"}))
    assert scene.ask("GET", "/v1/me", "read", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "evil.example:80", "10.0.0.5", "[2001:db8::1]", "::1", "", "a b",
     "localhost:80:80", "localhost@evil", "127.0.0.1.nip.io", "0.0.0.0", "localhost:"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/v1/read", "/", "/static/x", "/v1/login"])
def test_other_names_are_refused(same, host, path):
    """A page may point its own name at this address; then its requests carry that name."""
    status, _, body, _ = raw(same.app, path=path, headers=[("Host", host)])
    assert status == 421 and list(json.loads(body)) == ["error"]


def test_no_host_and_two_hosts_are_refused(scene):
    assert raw(scene.app)[0] == 421
    assert raw(scene.app, headers=[("Host", "localhost"), ("Host", "localhost")])[0] == 421
    assert raw(scene.app, headers=[("Host", "localhost"), ("Host", "evil.example")])[0] == 421


def test_a_probe_asks_for_health_by_address(scene):
    assert raw(scene.app, path="/health", headers=[("Host", "10.2.3.4:8080")])[0] == 200


# sizes


@pytest.mark.parametrize("path", ["/v1/body", "/v1/parsed"])
@pytest.mark.parametrize(("size", "status"), [(0, 200), (LIMIT - 1, 200), (LIMIT, 200), (LIMIT + 1, 413), (10**7, 413)])
def test_a_body_up_to_the_limit(same, path, size, status):
    """Said by Content-Length: refused before a byte of it is read."""
    body = b'{"a":"' + b"x" * (size - 8) + b'"}' if size else (b"{}" if path == "/v1/parsed" else b"")
    headers = [("Host", "localhost"), ("Authorization", f"Bearer {same.token['read']}"),
               ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]  # fmt: skip
    got, answered, text, read = raw(same.app, "POST", path, headers, (body,))
    assert got == status
    if status == 413:
        assert read == 0 and answered[b"connection"] == b"close" and f"{LIMIT:,} bytes" in json.loads(text)["error"]


@pytest.mark.parametrize("path", ["/v1/body", "/v1/parsed"])
@pytest.mark.parametrize(("last", "status"), [(0, 200), (1, 413)])
@pytest.mark.parametrize("claimed", [None, "5"])
def test_a_body_in_chunks_is_counted_as_it_comes(same, path, last, status, claimed):
    """No length, or a lie: reading stops at the chunk that passes the limit, whatever the application makes of it."""
    start, end = b'{"a":"', b'"}'
    middle = [b"x" * 10] * ((LIMIT - 8) // 10) + [b"x" * ((LIMIT - 8) % 10)]
    chunks = [start, *middle, end] + [b" " * last] + [b" " * 100] * 50 * last
    headers = [
        ("Host", "localhost"),
        ("Authorization", f"Bearer {same.token['read']}"),
        ("Content-Type", "application/json"),
    ]
    headers += [("Content-Length", claimed)] if claimed else []
    got, _, text, read = raw(same.app, "POST", path, headers, chunks)
    assert got == status
    if status == 413:
        assert read == len(middle) + 3 and list(json.loads(text)) == ["error"]


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "0x10", "", "9" * 30, "٣"])
def test_a_length_that_is_no_count_is_refused(same, length):
    headers = [("Host", "localhost"), ("Authorization", f"Bearer {same.token['read']}"), ("Content-Length", length)]
    assert raw(same.app, "POST", "/v1/body", headers)[0] == 400
    assert raw(same.app, "POST", "/v1/body", [*headers[:2], ("Content-Length", "3"), ("Content-Length", "4")])[0] == 400


# rates


def test_a_caller_is_told_when_to_come_back():
    """Burst 3, one in two seconds: the fourth waits; another token does not; time heals."""
    scene = Scene(limits=Limits(rate=0.5, burst=3))
    codes = [scene.ask("GET", "/v1/me", "read").status_code for _ in range(5)]
    assert codes == [200, 200, 200, 429, 429]
    answer = scene.ask("GET", "/v1/me", "read")
    assert answer.headers["retry-after"] == "2" and "2 s" in answer.json()["error"]
    assert scene.ask("GET", "/v1/me", "submit").status_code == 200
    scene.clock.now += 2
    assert [scene.ask("GET", "/v1/me", "read").status_code for _ in range(2)] == [200, 429]


def test_wrong_tokens_are_counted_by_address_and_do_not_slow_those_with_good_ones():
    """Guessing from one address ends in 429; a good token from there still passes."""
    scene = Scene(limits=Limits(stranger_rate=0.5, stranger_burst=3))
    codes = [
        scene.ask("GET", "/v1/me", headers={"Authorization": f"Bearer {new_token()}"}).status_code for _ in range(5)
    ]
    assert codes == [401, 401, 401, 429, 429]
    assert scene.client.post("/v1/login", json={"token": "x"}).status_code == 429
    assert scene.ask("GET", "/v1/me", "read").status_code == 200
    assert scene.client.get("/health").status_code == 200
    other = raw(scene.app, headers=[("Host", "localhost")])
    assert other[0] == 401


# answers


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/me", 200), ("/v1/nothing", 404), ("/v1/mistake", 500), ("/v1/stream", 200), ("/", 200), ("/static/x", 200),
     ("/health", 200), ("/metrics", 200), ("/v1/bad", 422)],
)  # fmt: skip
def test_every_answer_carries_the_security_headers(same, path, status):
    answer = same.ask("GET", path, "read")
    assert answer.status_code == status
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    kept = path.startswith("/v1") or path == "/metrics"
    assert answer.headers.get_list("cache-control") == (["no-store"] if kept else ["max-age=9"])


def test_refusals_carry_them_too(scene):
    for headers in ({}, {"Host": "evil.example"}):
        assert scene.client.get("/v1/me", headers=headers).headers["content-security-policy"] == POLICY


def test_the_policy_allows_no_inline_script_and_no_frame():
    assert "unsafe" not in POLICY and "frame-ancestors 'none'" in POLICY and "default-src 'self'" in POLICY


def test_a_request_keeps_its_id_if_it_is_a_decent_one(scene):
    given = scene.ask("GET", "/v1/me", "read", headers={"X-Request-ID": "deploy-7.1"})
    assert given.headers["x-request-id"] == "deploy-7.1"
    for hostile in ("", "a b", "x" * 65, '"}{'):
        made = scene.ask("GET", "/v1/me", "read", headers={"X-Request-ID": hostile}).headers["x-request-id"]
        assert re.fullmatch("[0-9a-f]{16}", made)


def test_a_mistake_of_the_service_is_one_line_and_logged(scene, log):
    """The caller gets the id under which the log tells more, and nothing of the inside."""
    answer = scene.ask("GET", "/v1/mistake", "read")
    told = answer.json()["error"]
    assert answer.status_code == 500 and answer.headers["x-request-id"] in told and "went wrong" not in told
    assert "this went wrong with eq_[hidden]" in log.getvalue() and SECRET not in log.getvalue()


def test_half_an_answer_is_not_made_to_look_whole(scene):
    """A stream that breaks must break for the reader too."""
    with pytest.raises(RuntimeError, match="half way"):
        raw(
            scene.app,
            path="/v1/broken-stream",
            headers=[("Host", "localhost"), ("Authorization", f"Bearer {scene.token['read']}")],
        )


def test_a_stream_is_passed_on_part_by_part(scene):
    """What the application sends is sent on at once: three parts in, three parts out, none held back."""
    sent = []

    async def receive():
        await asyncio.sleep(3600)

    async def send(message):
        sent.append(message.get("body"))

    token = f"Bearer {scene.token['read']}".encode()
    scope = {
        "type": "http", "method": "GET", "path": "/v1/stream", "query_string": b"", "scheme": "http", "root_path": "",
        "http_version": "1.1", "headers": [(b"host", b"localhost"), (b"authorization", token)],
    }  # fmt: skip
    asyncio.run(scene.app(scope, receive, send))
    assert [part for part in sent if part] == [b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n"]


def test_websockets_are_not_served(scene):
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(scene.app({"type": "websocket", "path": "/v1/read", "headers": []}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "not JSON"),
        (b"[]", "valid dictionary"),
        (b'{"token": 5}', "token"),
        (b'{"tokn": "x"}', "token"),
        (b"", "body"),
    ],
)
def test_bad_bodies_are_told_in_one_line(same, body, told):
    answer = same.client.post("/v1/login", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422 and list(answer.json()) == ["error"]
    assert told in answer.json()["error"] and "\n" not in answer.json()["error"]


def test_bad_input_deeper_down_is_told_in_one_line(scene):
    assert scene.ask("GET", "/v1/bad", "read").json() == {"error": "workers is -1; expected 1 or more"}


def test_a_wrong_method_is_told_the_right_ones(scene):
    """All that the path has, though each is a route of its own."""
    answer = scene.ask("PATCH", "/v1/tenants/red", "admin")
    assert answer.status_code == 405 and answer.headers["allow"] == "DELETE, PUT"
    assert answer.json() == {"error": "Method Not Allowed"}
    assert scene.ask("PATCH", "/v1/tokens", "admin").headers["allow"] == "GET, POST"


# tokens and tenants over REST


def test_a_token_is_made_shown_once_used_and_revoked(scene):
    made = scene.ask("POST", "/v1/tokens", "admin", json={"name": "ci", "role": "submit", "tenant": "red"})
    token = made.json()["token"]
    assert made.status_code == 201 and made.json()["role"] == "submit"
    assert scene.store.by_name["ci"].digest == digest(token)
    mine = {"Authorization": f"Bearer {token}"}
    assert scene.ask("GET", "/v1/me", headers=mine).json() == {
        "name": "ci",
        "role": "submit",
        "tenant": "red",
        "open": False,
    }
    listed = scene.ask("GET", "/v1/tokens", "admin")
    assert [row["name"] for row in listed.json()["tokens"]] == ["my-read", "my-submit", "my-admin", "ci"]
    assert token not in listed.text and digest(token) not in listed.text
    assert scene.ask("POST", "/v1/tokens", "admin", json={"name": "ci"}).status_code == 409
    assert scene.ask("DELETE", "/v1/tokens/ci", "admin").json() == {"removed": "ci"}
    assert scene.ask("GET", "/v1/me", headers=mine).status_code == 401
    assert scene.ask("DELETE", "/v1/tokens/ci", "admin").status_code == 404


def test_the_last_admin_is_not_revoked_over_the_network(scene):
    """Nobody could undo it over the network."""
    answer = scene.ask("DELETE", "/v1/tokens/my-admin", "admin")
    assert answer.status_code == 409 and "my-admin" in scene.store.by_name


@pytest.mark.parametrize(
    "body",
    [{}, {"name": ""}, {"name": "a/b"}, {"name": ".."}, {"name": "x" * 65}, {"name": "a\n"}, {"name": "é"}, {"name": 5},
     {"name": "a", "role": "root"}, {"name": "a", "tenant": "a b"}, {"name": "a", "digest": "0" * 64}],
)  # fmt: skip
def test_tokens_that_are_refused(same, body):
    assert same.ask("POST", "/v1/tokens", "admin", json=body).status_code == 422
    assert len(same.store.by_name) == 3


def test_a_tenants_quota_is_set_listed_and_removed(scene):
    """Units in and out, milli-units in the store."""
    quota = {"gpu": 16, "memory": "1Ti", "cpu": 0.5, "jobs": 50}
    put = scene.ask("PUT", "/v1/tenants/red", "admin", json={"quota": quota})
    shown = {"name": "red", "quota": {"gpu": 16, "memory": 2**40, "cpu": 0.5, "jobs": 50}}
    assert put.status_code == 200 and put.json() == shown
    assert scene.store.quotas == {"red": {"gpu": 16_000, "memory": 2**40 * 1000, "cpu": 500, "jobs": 50}}
    assert scene.ask("GET", "/v1/tenants", "admin").json() == {"tenants": [shown]}
    assert scene.ask("DELETE", "/v1/tenants/red", "admin").json() == {"removed": "red"}
    assert scene.ask("DELETE", "/v1/tenants/red", "admin").status_code == 404


@pytest.mark.parametrize(
    "quota",
    [{"gpu": -1}, {"gpu": "many"}, {"gpu": None}, {"gpu": True}, {"jobs": 1.5}, {"a b": 1}, [], 5, {"gpu": [1]}],
)
def test_quotas_that_are_refused(same, quota):
    """In one line that names the resource."""
    answer = same.ask("PUT", "/v1/tenants/red", "admin", json={"quota": quota})
    assert answer.status_code == 422 and list(answer.json()) == ["error"]
    assert same.store.quotas == {}


def test_it_all_holds_on_a_real_store(tmp_path):
    """SQLite instead of dictionaries: make, use, double and revoke a token, set and remove a quota, race for a name."""
    with open_store(f"sqlite:///{tmp_path / 'plan.db'}") as store:
        scene = Scene(store=store)
        made = scene.ask("POST", "/v1/tokens", "admin", json={"name": "ci", "role": "read", "tenant": "red"})
        mine = {"Authorization": "Bearer " + made.json()["token"]}
        assert scene.ask("GET", "/v1/me", headers=mine).json()["tenant"] == "red"
        assert scene.ask("POST", "/v1/tokens", "admin", json={"name": "ci"}).status_code == 409
        assert (
            scene.ask("PUT", "/v1/tenants/red", "admin", json={"quota": {"gpu": "1500m", "jobs": 3}}).status_code == 200
        )
        assert store.tenants() == [TenantRow("red", {"gpu": 1500, "jobs": 3})]
        assert scene.ask("DELETE", "/v1/tenants/red", "admin").status_code == 200
        store.remove_token("ci")
        scene.clock.now += 1.5
        assert scene.ask("GET", "/v1/me", headers=mine).status_code == 401

        first_look, seen = store.tokens, []

        def too_early():
            """The first look does not see what another process is about to write."""
            seen.append(1)
            return [row for row in first_look() if len(seen) > 1 or row.name != "my-read"]

        scene.clock.now -= 0.5  # the guard itself does not look now
        store.tokens = too_early
        assert scene.ask("POST", "/v1/tokens", "admin", json={"name": "my-read"}).status_code == 409


# over a real socket


@pytest.fixture(scope="module")
def server():
    """uvicorn on a free port, and a way to send it raw bytes."""
    scene = Scene(limits=Limits(body=LIMIT, rate=0, stranger_rate=0))
    config = uvicorn.Config(scene.app, port=0, host="127.0.0.1", log_config=None, lifespan="off")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]

    def send(*lines, body=b""):
        """The whole answer to these lines and this body."""
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            head = "\r\n".join([*lines, f"Authorization: Bearer {scene.token['read']}", "", ""])
            with contextlib.suppress(ConnectionError):
                line.sendall(head.encode() + body)
            answer = b""
            with contextlib.suppress(ConnectionError):
                while part := line.recv(65536):
                    answer += part
        return answer.decode()

    yield send
    running.should_exit = True
    thread.join(20)


def chunked(size, count):
    return b"".join(b"%x\r\n%s\r\n" % (size, b"x" * size) for _ in range(count)) + b"0\r\n\r\n"


@pytest.mark.parametrize(
    ("size", "count", "status"), [(100, 10, 200), (1, LIMIT, 200), (1, LIMIT + 1, 413), (100, 11, 413)]
)
def test_chunks_over_the_wire_are_counted(server, size, count, status):
    """No Content-Length at all: up to the limit it is read, one byte more and it is not."""
    answer = server(
        "POST /v1/body HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked", "Connection: close",
        body=chunked(size, count),
    )  # fmt: skip
    assert answer.startswith(f"HTTP/1.1 {status} ")
    if status == 200:
        assert answer.endswith(f'{{"bytes":{size * count}}}')


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (("GET /v1/me HTTP/1.1", "Host: localhost", "Connection: close"), 200),
        (("GET /v1/me HTTP/1.0",), 421),
        (("GET /v1/me HTTP/1.1", "Connection: close"), 421),
        (("GET /v1/me HTTP/1.1", "Host: evil.example", "Connection: close"), 421),
        (("GET http://evil.example/v1/me HTTP/1.1", "Host: evil.example", "Connection: close"), 421),
        (("POST /v1/body HTTP/1.1", "Host: localhost", "Connection: close", "Content-Length: 99999999"), 413),
        (("DELETE /v1/tokens/my-read HTTP/1.1", "Host: localhost", "Connection: close"), 403),
    ],
)
def test_requests_over_the_wire(server, lines, status):
    assert server(*lines).startswith(f"HTTP/1.1 {status} ")


def test_a_length_and_chunks_together_are_not_two_requests(server):
    """What a proxy and the server could read differently: one answer, or none, never the smuggled one."""
    inner = b"GET /v1/read HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = server(
        "POST /v1/body HTTP/1.1", "Host: localhost", f"Content-Length: {len(inner) + 5}", "Transfer-Encoding: chunked",
        "Connection: close", body=b"0\r\n\r\n" + inner,
    )  # fmt: skip
    assert answer.count("HTTP/1.1 ") <= 1 and '"caller"' not in answer


# the log


def test_each_request_is_one_line_of_the_log_without_its_query(scene, log):
    scene.ask("GET", "/v1/me?secret=1", "read")
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    (line,) = [line for line in lines if line["event"] == "request"]
    assert {name: line[name] for name in ("method", "path", "status", "caller", "level")} == {
        "method": "GET", "path": "/v1/me", "status": 200, "caller": "my-read", "level": "info",
    }  # fmt: skip
    assert line["ms"] >= 0 and line["request"]


def test_no_token_no_session_and_no_digest_reach_the_log(scene, log):
    """A whole day of use and abuse: tokens in headers, bodies, paths, queries, cookies, ids and mistakes."""
    logging.getLogger().setLevel(logging.DEBUG)
    token = scene.token["admin"]
    made = scene.ask("POST", "/v1/tokens", "admin", json={"name": "ci", "role": "submit"}).json()["token"]
    cookie = scene.login("admin").headers["set-cookie"].split(";")[0].split("=")[1]
    scene.client.get("/v1/me")
    scene.client.cookies.clear()
    scene.client.get(f"/v1/{token}?token={token}", headers={"X-Request-ID": token[:40]})
    scene.client.get("/v1/mistake", headers=scene.bearer("admin"))
    scene.client.post("/v1/login", json={"token": [token]})
    scene.client.post("/v1/login", content=f"token={token}")
    scene.client.get("/v1/me", headers={"Authorization": f"Token {token}", "Host": token})
    scene.ask("DELETE", f"/v1/tokens/{token}", "admin")
    written = log.getvalue()
    assert written.count("\n") >= 9
    for secret in (token, made, cookie, SECRET, token[10:30], digest(token), digest(cookie)):
        assert secret not in written


def test_what_was_sent_is_not_repeated_in_the_refusal(scene):
    """A body that is no JSON may hold a token all the same."""
    for body in (f'{{"token": ["{SECRET}"]}}', f'{{"token": "{SECRET}', f'{{"{SECRET}": 1, "token": ""}}'):
        answer = scene.client.post("/v1/login", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422 and SECRET not in answer.text


def test_the_schema_knows_every_refusal(scene):
    """Every route of access documents what the guard may answer, in the one shape errors have."""
    paths = scene.ask("GET", "/openapi.json", "read").json()["paths"]
    for path in (
        "/v1/login",
        "/v1/logout",
        "/v1/me",
        "/v1/tokens",
        "/v1/tokens/{name}",
        "/v1/tenants",
        "/v1/tenants/{name}",
    ):
        for operation in paths[path].values():
            for status in ("400", "401", "403", "413", "421", "422", "429", "500", "503"):
                schema = operation["responses"][status]["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorOut"}
