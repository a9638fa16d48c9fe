"""Who may do what: roles, tokens, sessions of browsers, rates, and the names the service answers to. Rules only."""

from __future__ import annotations

import hashlib
import ipaddress
import math
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from equipoise.errors import InputError, unknown_name
from equipoise.units import MILLI, resource

if TYPE_CHECKING:
    from equipoise.serve.store import TokenRow

ROLES = ("read", "submit", "admin")  # each may do what those before it may
NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"  # of a token, a tenant: safe in a path, a log line and a shell
JOBS = "jobs"  # in a quota: a count of unfinished jobs, not a resource
COOKIE = "equipoise_session"
SESSION_SECONDS = 12 * 3600.0
LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})
TOKEN = re.compile(r"eq_[A-Za-z0-9_-]{43}")  # 32 random bytes
SESSION = re.compile(r"[A-Za-z0-9_-]{43}")

Clock = Callable[[], float]


def new_token() -> str:
    """A token nobody can guess: 256 random bits behind a prefix that scanners for leaked secrets can find."""
    return "eq_" + secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """What is stored instead of the token. A plain hash does: with 256 random bits there is nothing to try out."""
    return hashlib.sha256(token.encode()).hexdigest()


def check_role(role: str) -> str:
    if role not in ROLES:
        raise unknown_name("role", role, ROLES)
    return role


def check_name(kind: str, name: str) -> str:
    """A name of a token or a tenant, or one line on what names look like."""
    if not re.fullmatch(NAME[1:-1], name, re.ASCII):
        raise InputError(
            f"{kind} {name[:80]!r}: expected 1 to 64 of A-Z a-z 0-9 _ . - that begin with a letter, digit or _",
            code="token.form",
        )
    return name


def read_quota(given: dict[str, object]) -> dict[str, int]:
    """Milli-units by resource, as machines and jobs are counted; `jobs` is a whole count."""
    quota = {}
    for name, value in given.items():
        check_name("resource", name)
        quota[name] = resource(value, f"quota {name}")
        if name == JOBS:
            if quota[name] % MILLI:
                raise InputError(f"quota {JOBS} is {value!r}; expected a whole number of unfinished jobs")
            quota[name] //= MILLI
    return quota


def in_units(quota: Mapping[str, int]) -> dict[str, int | float]:
    """A quota as people write it, from the milli-units that are kept."""
    return {name: amount if name == JOBS else amount / MILLI for name, amount in quota.items()}


def check_resources(quota: Mapping[str, int], known: Iterable[str]) -> None:
    """A limit on what no machine has would limit nothing: a slip. With no machines known yet anything goes."""
    names = set(known)
    for name in quota:
        if names and name != JOBS and name not in names:
            raise unknown_name("resource in a quota", name, {*names, JOBS})


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Without a tenant it sees every tenant's jobs; `open`: the service asked for no token."""

    name: str
    role: str
    tenant: str = ""
    open: bool = False

    def may(self, role: str) -> bool:
        return self.role in ROLES and ROLES.index(self.role) >= ROLES.index(role)

    def sees(self, tenant: str) -> bool:
        return not self.tenant or self.role == "admin" or self.tenant == tenant


EVERYONE = Caller("local", "admin", "", True)  # an open service: no tokens, reached from this machine only


class Tokens:
    """The store's tokens by digest, read again at most once in `every` seconds: a revoked one ends by then.

    A dictionary on SHA-256 leaks nothing by its timing: whoever tries cannot steer the digest. When the store does not
    answer, what was known stays good for `grace` seconds, then nobody gets in.
    """

    def __init__(
        self,
        load: Callable[[], Iterable[TokenRow]],
        *,
        every: float = 1.0,
        grace: float = 30.0,
        clock: Clock = time.monotonic,
    ) -> None:
        self._load, self._every, self._grace, self._clock = load, every, grace, clock
        self._known: dict[str, Caller] = {}
        self._read = self._tried = -math.inf
        self._reading = threading.Lock()
        self.ever = False  # there has been a token: from then on the service is never open again

    def stale(self) -> bool:
        return self._clock() - self._tried >= self._every

    def reload(self, *, now: bool = False) -> None:
        """Read the store if it is time, or `now`. One thread reads; others go on with what is known meanwhile."""
        if not self._reading.acquire(blocking=now or self._read == -math.inf):
            return
        try:
            if now or self.stale():
                self._tried = self._clock()
                rows = list(self._load())
                self._known = {row.digest: Caller(row.name, row.role, row.tenant) for row in rows}
                self.ever = self.ever or bool(rows)
                self._read = self._tried
        except Exception:
            if now or self._clock() - self._read > self._grace:
                raise
        finally:
            self._reading.release()

    def trusted(self) -> bool:
        """Whether the known tokens are recent enough to admit a caller."""
        return self._clock() - self._read <= self._grace + self._every

    def by_digest(self, key: str) -> Caller | None:
        return self._known.get(key)

    def has(self, caller: Caller) -> bool:
        """Whether there is a token of that name, role and tenant."""
        return caller in self._known.values()

    def find(self, token: str) -> Caller | None:
        """Whose token this is; None for a wrong one."""
        return self._known.get(digest(token)) if TOKEN.fullmatch(token) else None

    def __len__(self) -> int:
        return len(self._known)


class Sessions:
    """Browsers that logged in: random id (kept as its digest) -> digest of the token, so that revoking ends it."""

    def __init__(
        self, *, seconds: float = SESSION_SECONDS, most: int = 2000, each: int = 20, clock: Clock = time.monotonic
    ) -> None:
        self.seconds, self._most, self._each, self._clock = seconds, most, each, clock
        self._open: OrderedDict[str, tuple[str, float]] = OrderedDict()  # oldest first
        self._change = threading.Lock()

    def start(self, token_digest: str) -> str:
        """A new session of a token. The oldest of the same token goes first when there are too many, then the oldest."""
        session, now = secrets.token_urlsafe(32), self._clock()
        with self._change:
            for old in [key for key, (_, end) in self._open.items() if end <= now]:
                del self._open[old]
            own = [key for key, (whose, _) in self._open.items() if whose == token_digest]
            for old in own[: max(0, len(own) + 1 - self._each)]:
                del self._open[old]
            while len(self._open) >= self._most:
                self._open.popitem(last=False)
            self._open[digest(session)] = (token_digest, now + self.seconds)
        return session

    def find(self, session: str) -> str | None:
        """The digest of the token that logged in, None when the session is over or was never there."""
        if not SESSION.fullmatch(session):
            return None
        found = self._open.get(digest(session))
        return None if found is None or found[1] <= self._clock() else found[0]

    def end(self, session: str) -> None:
        if SESSION.fullmatch(session):
            with self._change:
                self._open.pop(digest(session), None)

    def __len__(self) -> int:
        return len(self._open)


class RateLimit:
    """A bucket of `burst` requests for each caller, refilled with `rate` per second; rate 0: no limit."""

    def __init__(self, rate: float, burst: float, *, most: int = 10_000, clock: Clock = time.monotonic) -> None:
        self.rate, self.burst, self._most, self._clock = rate, max(1.0, burst), most, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # left, at; longest unused first

    def take(self, who: str) -> float:
        """0 when the request may pass, otherwise the seconds until one may."""
        if self.rate <= 0:
            return 0.0
        now = self._clock()
        left, at = self._buckets.pop(who, (self.burst, now))
        left = min(self.burst, left + (now - at) * self.rate)
        wait = 0.0 if left >= 1 else (1 - left) / self.rate
        self._buckets[who] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)  # the longest unused has had the most time to fill
        return wait

    def __len__(self) -> int:
        return len(self._buckets)


def neighbourhood(address: str | None) -> str:
    """The key by which an address is counted: itself; of IPv6 its /64, since one host has all of it."""
    try:
        found = ipaddress.ip_address((address or "").split("%")[0])
    except ValueError:
        return (address or "local")[:64]
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((int(found), 128)).supernet(new_prefix=64))
    return str(found)


def split_host(header: str) -> tuple[str, int | None] | None:
    """Name and port of a Host header, in lower case and without a last dot; None when it is not one."""
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_.-]{1,255})(?::(\d{1,5}))?", header, re.ASCII)
    if found is None:
        return None
    name, port = found.group(1).lower(), int(found.group(2)) if found.group(2) else None
    if port is not None and not 0 < port < 65536:
        return None
    if name.startswith("["):
        try:
            return str(ipaddress.IPv6Address(name[1:-1])), port
        except ValueError:
            return None
    name = name[:-1] if name.endswith(".") else name
    return (name, port) if name and ".." not in name and not name.startswith(".") else None


def is_loopback(name: str) -> bool:
    """A name or address that only this machine reaches."""
    name = name.strip("[]").lower().removesuffix(".")
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name in LOOPBACK_NAMES


def check_binding(host: str, has_tokens: bool, names: Sequence[str] = ()) -> None:
    """Refuse to stand open to others: an address or a name that is not this machine's own needs a token."""
    if has_tokens:
        return
    far = next((name for name in (host, *names) if not is_loopback(name)), None)
    if far is not None:
        raise InputError(
            f"host {far!r} is reached from other machines, and no token exists, so anyone could do anything; create one "
            "with: equipoise admin token add NAME --role admin (or serve on 127.0.0.1)",
            code="token.none",
        )


@dataclass(frozen=True)
class Limits:
    """Limits for one request and for one caller. Rates are requests per second; 0 is no limit."""

    body: int = 1 << 20  # bytes
    rate: float = 1000.0  # of a caller with a token, or of an address while the service is open
    burst: float = 2000.0
    stranger_rate: float = 20.0  # of an address: pages before login, and wrong tokens
    stranger_burst: float = 200.0


@dataclass
class Access:
    """All that the guard of the REST interface needs to know."""

    tokens: Tokens
    sessions: Sessions = field(default_factory=Sessions)
    limits: Limits = field(default_factory=Limits)
    hosts: frozenset[str] = frozenset()  # names the service answers to, beside this machine's own
    open: bool = False  # only this machine reaches it: without a token in the store, everyone is admin
    tls: bool = False  # browsers come by https, here or at a proxy in front
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self.hosts = frozenset(_configured(name) for name in self.hosts)
        self.callers = RateLimit(self.limits.rate, self.limits.burst, clock=self.clock)
        self.strangers = RateLimit(self.limits.stranger_rate, self.limits.stranger_burst, clock=self.clock)

    def is_open(self) -> bool:
        """Whether no token is needed. Once there has been one, revoking the last does not open the service again."""
        return self.open and not self.tokens.ever

    def knows(self, caller: Caller) -> bool:
        """Whether a caller would still be admitted: its token is not revoked, the service is still open."""
        return self.is_open() if caller.open else self.tokens.has(caller)

    def answers_to(self, name: str) -> bool:
        return name in self.hosts or is_loopback(name)


def access_for(
    load: Callable[[], Iterable[TokenRow]],
    *,
    host: str,
    names: Sequence[str] = (),
    tls: bool = False,
    limits: Limits | None = None,
) -> Access:
    """Access of a service bound to `host` that is also called by `names`; InputError if that would stand open."""
    tokens = Tokens(load)
    tokens.reload(now=True)
    check_binding(host, len(tokens) > 0, names)
    anywhere = host.strip("[]") in ("", "0.0.0.0", "::")
    return Access(
        tokens,
        limits=limits or Limits(),
        hosts=frozenset(names) | (frozenset() if anywhere else frozenset({host})),
        open=is_loopback(host) and all(map(is_loopback, names)),
        tls=tls,
    )


def _configured(name: str) -> str:
    """A name as the Host header spells it; a port or brackets may be given with it."""
    bare = f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name
    found = split_host(bare)
    if found is None:
        raise InputError(
            f"host name {name!r}: expected a name or an address such as plan.example.org or 10.0.0.5", code="host.form"
        )
    return found[0]
