"""Where a store is: sqlite:///file.db or postgresql://user:password@host/database."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from equipoise.errors import InputError

EXPECTED = "sqlite:///file.db or postgresql://user:password@host/database"


@dataclass(frozen=True)
class Address:
    """A store's URL, read. `shown` is for people and logs: no password, no options."""

    kind: str  # sqlite | postgresql
    url: URL
    shown: str
    file: Path  # of SQLite; Path() for PostgreSQL

    def conceal(self, message: str) -> str:
        """`message` in one line, with the password taken out should a driver have put it there."""
        secrets = [self.url.password, *(self.url.query.get(key) for key in ("password", "passfile"))]
        for secret in secrets:
            if isinstance(secret, str) and secret:
                message = message.replace(secret, "***")
        return " ".join(message.split())


def read_address(url: str) -> Address:
    """The address in `url`; InputError for anything but the two forms."""
    if not isinstance(url, str) or "://" not in url:
        raise InputError(f"store {url!r} is not a URL; expected {EXPECTED}")
    scheme = url.partition("://")[0]
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        hidden = re.sub(r"://.*@", "://***@", url, flags=re.DOTALL)
        raise InputError(f"store {hidden!r} cannot be read; expected {EXPECTED}") from None
    if scheme == "sqlite":
        return _sqlite(parsed)
    if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        return _postgresql(parsed)
    raise InputError(f"store kind {scheme!r} is not known; expected {EXPECTED}")


def _sqlite(url: URL) -> Address:
    name = url.database or ""
    if name in ("", ":memory:") or url.host:
        raise InputError(
            f"store {url.render_as_string()!r} names no file; expected sqlite:///file.db or sqlite:////dir/file.db"
        )
    if url.query:
        raise InputError(f"store sqlite:///{name} takes no options after '?'; leave them out")
    # Resolved once: a later chdir or a second name of the same file (a link) must not lead to a second lock.
    return Address("sqlite", url, f"sqlite:///{name}", Path(name).resolve())


def _postgresql(url: URL) -> Address:
    shown = URL.create("postgresql", url.username, None, url.host, url.port, url.database).render_as_string()
    if not url.database:
        raise InputError(f"store {shown!r} names no database; expected postgresql://user:password@host/database")
    return Address("postgresql", url.set(drivername="postgresql+psycopg"), shown, Path())
