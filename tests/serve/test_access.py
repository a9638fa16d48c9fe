"""The rules of access: roles, tokens, sessions, rates and names, without any web server."""

import hashlib
import threading
from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from equipoise.errors import InputError
from equipoise.serve.access import (
    Access,
    Caller,
    Limits,
    RateLimit,
    Sessions,
    Tokens,
    access_for,
    check_binding,
    check_name,
    check_role,
    digest,
    is_loopback,
    neighbourhood,
    new_token,
    read_quota,
    split_host,
)
from refusals import refused


@dataclass
class Row:
    name: str
    digest: str
    role: str = "submit"
    tenant: str = ""


class Clock:
    """Time that stands until it is moved."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("role", "may"),
    [
        ("read", {"read"}),
        ("submit", {"read", "submit"}),
        ("admin", {"read", "submit", "admin"}),
        ("", set()),
        ("root", set()),
    ],
)
def test_each_role_may_do_what_those_before_it_may(role, may):
    """read < submit < admin; a role nobody knows may do nothing."""
    assert {wanted for wanted in ("read", "submit", "admin") if Caller("x", role).may(wanted)} == may


def test_a_caller_with_a_tenant_sees_only_its_own():
    """No tenant, or admin: all of them. Otherwise one's own, and not the jobs of those who have none."""
    assert Caller("a", "read").sees("red") and Caller("a", "read").sees("")
    assert Caller("a", "admin", "red").sees("blue")
    bound = Caller("a", "submit", "red")
    assert bound.sees("red") and not bound.sees("blue") and not bound.sees("")


def test_tokens_are_long_random_and_kept_as_sha256():
    """32 random bytes are 43 characters of base64; the digest is what hashlib says."""
    tokens = {new_token() for _ in range(200)}
    assert len(tokens) == 200
    assert all(token.startswith("eq_") and len(token) == 46 for token in tokens)
    token = tokens.pop()
    assert digest(token) == hashlib.sha256(token.encode("ascii")).hexdigest()


def test_a_revoked_token_is_noticed_after_a_second_and_not_looked_for_before():
    """The store is read at most once a second, however often it is asked."""
    clock, token, reads = Clock(), new_token(), []
    rows = [Row("ci", digest(token), "submit", "red")]

    def load():
        reads.append(clock.now)
        return list(rows)

    tokens = Tokens(load, clock=clock)
    for _ in range(5):
        tokens.reload()
    assert tokens.find(token) == Caller("ci", "submit", "red") and len(reads) == 1
    rows.clear()
    clock.now += 0.9
    tokens.reload()
    assert tokens.find(token) is not None and len(reads) == 1
    clock.now += 0.2
    assert tokens.stale()
    tokens.reload()
    assert tokens.find(token) is None and len(reads) == 2


@pytest.mark.parametrize(
    "wrong", ["", "eq_", "ci", "eq_" + "A" * 43, "eq_" + "A" * 42 + "\ud800", "é" * 46, "x" * 10**6]
)
def test_what_is_no_token_finds_nobody(wrong):
    """Neither the name of a token nor its digest, nor anything that cannot be encoded."""
    token = new_token()
    tokens = Tokens(lambda: [Row("ci", digest(token))])
    tokens.reload()
    assert tokens.find(wrong) is None
    assert tokens.find(digest(token)) is None
    assert tokens.find(token + "A") is None and tokens.find(token + "\n") is None


def test_when_the_store_fails_known_tokens_stay_good_for_the_grace_and_no_longer():
    """A short outage of the database does not lock everyone out; a long one does, since nothing can be revoked."""
    clock, token, broken = Clock(), new_token(), []

    def load():
        if broken:
            raise OSError("no database")
        return [Row("ci", digest(token))]

    tokens = Tokens(load, clock=clock, grace=30)
    assert not tokens.trusted()
    tokens.reload()
    broken.append(True)
    clock.now += 20
    tokens.reload()
    assert tokens.trusted() and tokens.find(token)
    clock.now += 20
    with pytest.raises(OSError):
        tokens.reload()
    assert not tokens.trusted()


def test_one_thread_reads_the_store_and_the_others_do_not_wait():
    """While a read hangs, another caller goes on with what is known."""
    clock, entered, leave = Clock(), threading.Event(), threading.Event()
    first = []

    def load():
        if first:
            entered.set()
            leave.wait(10)
        first.append(1)
        return []

    tokens = Tokens(load, clock=clock)
    tokens.reload()
    clock.now += 2
    reader = threading.Thread(target=tokens.reload)
    reader.start()
    assert entered.wait(10)
    clock.now += 2
    tokens.reload()  # would hang here
    leave.set()
    reader.join(10)
    assert len(first) == 2


def test_revoking_the_last_token_does_not_open_the_service():
    """Open is only what never had a token: less rights for one may not mean more for all."""
    rows = []
    access = Access(Tokens(lambda: list(rows)), open=True)
    access.tokens.reload()
    assert access.is_open()
    rows.append(Row("ci", digest(new_token())))
    access.tokens.reload(now=True)
    assert not access.is_open()
    rows.clear()
    access.tokens.reload(now=True)
    assert len(access.tokens) == 0 and not access.is_open()


def test_a_session_stands_for_its_token_until_it_ends():
    """Found by its id alone, over after its time or when it is ended."""
    clock = Clock()
    sessions = Sessions(seconds=100, clock=clock)
    session, other = sessions.start("d1"), sessions.start("d2")
    assert (sessions.find(session), sessions.find(other)) == ("d1", "d2")
    assert sessions.find("A" * 43) is None and sessions.find("") is None and sessions.find("d1") is None
    sessions.end(other)
    assert sessions.find(other) is None
    clock.now += 99
    assert sessions.find(session) == "d1"
    clock.now += 1
    assert sessions.find(session) is None


def test_the_number_of_sessions_is_bounded_and_one_token_cannot_crowd_out_others():
    """Twenty logins of one token end its own oldest, not those of another."""
    sessions = Sessions(most=10, each=3)
    mine = sessions.start("mine")
    theirs = [sessions.start("theirs") for _ in range(50)]
    assert sessions.find(mine) == "mine"
    assert [sessions.find(one) is not None for one in theirs[-4:]] == [False, True, True, True]
    for k in range(100):
        sessions.start(f"token {k}")
    assert len(sessions) == 10


def test_the_id_of_a_session_is_not_kept():
    """Memory that leaks shows digests, not cookies."""
    sessions = Sessions()
    session = sessions.start("d")
    assert session not in repr(vars(sessions))


def test_a_bucket_lets_a_burst_pass_and_then_the_rate():
    """Burst 3, 2 a second: three at once, then one every half second. By hand."""
    clock = Clock()
    limit = RateLimit(2, 3, clock=clock)
    assert [limit.take("a") for _ in range(5)] == [0, 0, 0, 0.5, 0.5]
    assert limit.take("b") == 0
    clock.now += 0.25
    assert limit.take("a") == pytest.approx(0.25)
    clock.now += 0.25
    assert [limit.take("a"), limit.take("a")] == [0, 0.5]
    clock.now += 3600
    assert [limit.take("a") for _ in range(4)] == [0, 0, 0, 0.5]


def test_no_rate_is_no_limit():
    limit = RateLimit(0, 1)
    assert not any(limit.take("a") for _ in range(1000)) and len(limit) == 0


def test_callers_without_end_take_bounded_memory_and_the_busy_one_is_not_forgotten():
    """An address a request: at most `most` buckets, and whoever keeps coming stays limited."""
    limit = RateLimit(1, 1, most=50, clock=Clock())
    limit.take("busy")
    for k in range(1000):
        limit.take(f"address {k}")
        assert limit.take("busy") > 0
    assert len(limit) == 50


@given(st.lists(st.floats(0, 10), max_size=60), st.floats(0.1, 50), st.integers(1, 20))
def test_no_more_passes_than_burst_and_rate_allow(waits, rate, burst):
    """Over any stretch of t seconds at most burst + rate * t requests pass: the law of the bucket."""
    clock = Clock()
    limit, passed = RateLimit(rate, burst, clock=clock), 0
    for wait in waits:
        clock.now += wait
        passed += limit.take("a") == 0
    assert passed <= burst + rate * sum(waits) + 1e-6


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("localhost", ("localhost", None)),
        ("LocalHost:8080", ("localhost", 8080)),
        ("plan.example.org.", ("plan.example.org", None)),
        ("plan.example.org.:443", ("plan.example.org", 443)),
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::1]", ("::1", None)),
        ("[0:0:0:0:0:0:0:1]:8080", ("::1", 8080)),
        ("[2001:DB8::5]:1", ("2001:db8::5", 1)),
        ("", None),
        (":80", None),
        ("a b", None),
        ("localhost:", None),
        ("localhost:99999", None),
        ("localhost:0", None),
        ("localhost:8o", None),
        ("localhost\n", None),
        ("localhost, evil", None),
        ("evil@localhost", None),
        ("localhost/evil", None),
        ("::1", None),
        ("[::1", None),
        ("[::1%eth0]", None),
        ("[1]", None),
        ("..", None),
        ("a..b", None),
        ("lоcalhost", None),  # a Cyrillic o
        ("a" * 300, None),
    ],
)
def test_a_host_header_is_read_or_is_none(header, found):
    assert split_host(header) == found


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST.", "127.0.0.1", "127.8.9.1", "::1", "[::1]"])
def test_loopback(name):
    assert is_loopback(name)
    check_binding(name, has_tokens=False)


@pytest.mark.parametrize(
    "name", ["0.0.0.0", "::", "", "10.0.0.5", "example.org", "localhost.example.org", "127.0.0.1.nip.io"]
)
def test_an_address_others_reach_needs_a_token(name):
    """The error names the address and the way out; with a token it is allowed."""
    assert not is_loopback(name)
    with refused("token.none", repr(name), "equipoise admin token add"):
        check_binding(name, has_tokens=False)
    check_binding(name, has_tokens=True)


def test_a_name_for_others_needs_a_token_too():
    """Loopback behind a proxy that others reach is not this machine alone."""
    with refused("token.none", "'plan.example.org'"):
        check_binding("127.0.0.1", False, ["plan.example.org"])
    with refused("token.none", "'plan.example.org'"):
        access_for(list, host="127.0.0.1", names=["plan.example.org"])


def test_access_is_open_on_loopback_only():
    rows = [Row("a", digest(new_token()), "admin")]
    assert access_for(list, host="127.0.0.1").is_open()
    assert not access_for(lambda: rows, host="127.0.0.1").is_open()
    far = access_for(
        lambda: rows, host="0.0.0.0", names=["Plan.Example.org:8443", "2001:db8::5"], limits=Limits(body=7)
    )
    assert not far.open and far.limits.body == 7
    assert far.hosts == {"plan.example.org", "2001:db8::5"}
    assert far.answers_to("plan.example.org") and far.answers_to("127.0.0.1") and not far.answers_to("0.0.0.0")
    assert access_for(lambda: rows, host="10.0.0.5").answers_to("10.0.0.5")
    with refused("host.form", "'http://plan'"):
        access_for(lambda: rows, host="10.0.0.5", names=["http://plan"])


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
        (None, "local"),
    ],
)
def test_addresses_are_counted_by_host(address, counted):
    """One IPv6 host has a /64 to choose from."""
    assert neighbourhood(address) == counted


@pytest.mark.parametrize("name", ["ci", "_", "a.b-c_d", "9", "x" * 64])
def test_names(name):
    assert check_name("token", name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "-x", "a b", "a/b", "é", "x" * 65, "ci\n", "a\x00"])
def test_names_that_are_refused(name):
    with refused("token.form", "token"):
        check_name("token", name)


def test_roles_that_are_refused_come_with_the_nearest():
    with refused("unknown", "'admin'"):
        check_role("admn")


def test_a_quota_is_read_like_a_machine():
    """Milli-units by resource, as place counts them; jobs is a count."""
    assert read_quota({"gpu": 16, "cpu": "500m", "memory": "1Ti", "jobs": 50}) == {
        "gpu": 16_000,
        "cpu": 500,
        "memory": 2**40 * 1000,
        "jobs": 50,
    }
    assert read_quota({"jobs": "0", "gpu": 0}) == {"jobs": 0, "gpu": 0}
    assert read_quota({}) == {}


@pytest.mark.parametrize(
    "quota",
    [{"gpu": -1}, {"gpu": "lots"}, {"gpu": None}, {"gpu": True}, {"jobs": 1.5}, {"jobs": "-1"}, {"a b": 1}, {"": 1}],
)
def test_quotas_that_are_refused(quota):
    with pytest.raises(InputError):
        read_quota(quota)
