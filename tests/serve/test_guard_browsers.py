"""Browsers at the guard: the session of a login, and pages of other sites that would use it."""

import json

import pytest
from guarded import LIMIT, Scene

from equipoise.serve.access import COOKIE, Limits, digest


@pytest.fixture
def scene():
    return Scene()


@pytest.fixture(scope="module")
def same():
    """One scene for all tests that only look, and ask too often for any limit."""
    return Scene(limits=Limits(body=LIMIT, rate=0, stranger_rate=0))


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
