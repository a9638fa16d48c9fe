"""The guard of the REST interface: who gets in, by role, token, name, size and rate."""

import json

import pytest
from guarded import LIMIT, METHODS, Scene, raw

from equipoise.serve.access import COOKIE, Limits, digest, new_token


@pytest.fixture
def scene():
    return Scene()


@pytest.fixture(scope="module")
def same():
    """One scene for all tests that only look, and ask too often for any limit."""
    return Scene(limits=Limits(body=LIMIT, rate=0, stranger_rate=0))


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
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Bearer eq_" + "A" * 43,
        "Basic YWRtaW46YWRtaW4=",
        "my-admin",
        "Bearer my-admin",
        "Bearer  ",
        "Bearer \xff\xfe",
        "Bearer null",
    ],
)
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
    [
        "evil.example",
        "localhost.evil.example",
        "evil.example:80",
        "10.0.0.5",
        "[2001:db8::1]",
        "::1",
        "",
        "a b",
        "localhost:80:80",
        "localhost@evil",
        "127.0.0.1.nip.io",
        "0.0.0.0",
        "localhost:",
    ],
)
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
    headers = [
        ("Host", "localhost"),
        ("Authorization", f"Bearer {same.token['read']}"),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
    ]
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
