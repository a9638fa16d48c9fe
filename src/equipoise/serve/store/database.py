"""Connections to the database: many that read, and those that write, whose every commit is on disk before it returns."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import (
    DBAPIError,
    InterfaceError,
    InternalError,
    OperationalError,
    SQLAlchemyError,
    TimeoutError as PoolTimeout,
)
from sqlalchemy.pool import PoolProxiedConnection, QueuePool

from equipoise.errors import InputError
from equipoise.serve.plan.events import Body
from equipoise.serve.store.rows import StoreLost

POOL: Body = {"poolclass": QueuePool, "pool_timeout": 60}  # seconds
READERS = 16  # connections that read at once; a further reader waits for one
BUSY_MS = 10_000  # how long SQLite waits for another process's write (a token from the command line)
LOST = (OperationalError, InterfaceError, InternalError, PoolTimeout)  # the database's fault, not the statement's
BEGIN = "BEGIN IMMEDIATE"  # SQLite: the right to write first, or two that read before they write could not both go on
# What may be over in a minute: SQLite's result codes, PostgreSQL's states (a shutdown, a start, no room) and classes of
# states (08: the connection; 53: too few resources).
PASSING_SQLITE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
PASSING_STATES = ("57P01", "57P02", "57P03", "57P05")
PASSING_CLASSES = ("08", "53")
CONNECT_SECONDS = 10
# libpq: notice a vanished server (and let the server's answer find a vanished client) within about half a minute.
KEEPALIVES = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "connect_timeout": CONNECT_SECONDS,
}


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


class Database:
    """The connections of a store: readers from a pool, and writers that take turns."""

    def __init__(self, address: Address) -> None:
        self.address = address
        engine = _sqlite if address.kind == "sqlite" else _postgresql
        self._readers, self._writers = engine(address, writes=False), engine(address, writes=True)
        self._appender: PoolProxiedConnection | None = None
        self._turn = threading.Lock()  # within this process; between processes the database sees to it

    @property
    def driver(self) -> Any:
        """The driver's module, with the classes of its errors."""
        return self._writers.dialect.loaded_dbapi

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection on which every SELECT is its own short transaction."""
        with self._readers.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction: on disk when the block ends, undone when it raises."""
        with self._turn, self._writers.begin() as connection:
            yield connection

    @contextmanager
    def appending(self) -> Iterator[DBAPICursor]:
        """As `writing`, on the driver's own cursor and a connection kept for it: a third of the cost for a small batch."""
        with self._turn:
            connection = self._appender = self._appender or self._writers.raw_connection()
            try:
                with self._pipeline(connection):
                    cursor = connection.cursor()
                    if self.address.kind == "sqlite":
                        cursor.execute(BEGIN)
                    yield cursor
                    cursor.close()  # a statement still open would hold SQLite's read transaction beyond the commit
                    connection.commit()
            except BaseException:
                self._undo(connection)
                raise

    def _pipeline(self, connection: PoolProxiedConnection) -> AbstractContextManager[object]:
        """PostgreSQL: statements go out together; their answers are awaited where one is needed, or by the commit."""
        if self.address.kind == "sqlite" or not self.driver.Pipeline.is_supported():
            return nullcontext()
        pipeline: AbstractContextManager[object] = connection.driver_connection.pipeline()  # type: ignore[union-attr]
        return pipeline

    def _undo(self, connection: PoolProxiedConnection) -> None:
        try:
            connection.rollback()
        except Exception as error:  # a dead connection cannot undo, nor need it: the database has
            connection.invalidate(error)
            self._appender = None

    def lone_connection(self) -> PoolProxiedConnection:
        """A connection outside any transaction, for a lock that lives as long as it."""
        return self._readers.raw_connection()

    def close(self) -> None:
        """Close every connection."""
        with self._turn:
            if self._appender is not None:
                with suppress(Exception):
                    self._appender.close()
                self._appender = None
        self._writers.dispose()
        self._readers.dispose()


@contextmanager
def plain_errors(address: Address) -> Iterator[None]:
    """While a store is opened: what the database complains of becomes one line for the user, without a password."""
    try:
        yield
    except DBAPIError as error:
        if _passing(address, error):
            raise StoreLost(_plain(address, error.orig)) from None
        raise InputError(_plain(address, error.orig), code="store.failed") from None
    except (sqlite3.Error, SQLAlchemyError) as error:
        raise InputError(_plain(address, error), code="store.failed") from None


def _passing(address: Address, error: DBAPIError) -> bool:
    """Whether it may be over in a minute: the database is away, or a disk has no room. A wrong password or name stays wrong.

    A PostgreSQL server that takes no more connections counts as wrong while it connects: see below.
    """
    if not isinstance(error, OperationalError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return _sqlite_code(error.orig) in PASSING_SQLITE
    state: str | None = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return state in PASSING_STATES or state[:2] in PASSING_CLASSES
    # An error while it connects has no state. What libpq's ping answers is typed: a server that starts, stops or recovers
    # rejects, one that is not there is silent. The ping holds the GIL, for up to CONNECT_SECONDS.
    import psycopg
    from psycopg.pq import PGconn, Ping

    if isinstance(error.orig, psycopg.errors.ConnectionTimeout):
        return True
    url = address.url.set(drivername="postgresql").update_query_dict({"connect_timeout": str(CONNECT_SECONDS)})
    target = url.render_as_string(hide_password=False)
    if PGconn.ping(target.encode()) in (Ping.REJECT, Ping.NO_RESPONSE):
        return True
    try:  # it answers: a server that was starting up until now lets us in
        psycopg.connect(target).close()
    except psycopg.Error:  # nothing typed tells a server that is full from a wrong name
        return False
    return True


def _sqlite_code(error: BaseException | None) -> int:
    """SQLite's primary result code; 0 where there is none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _plain(address: Address, error: BaseException | None) -> str:
    said, code = address.conceal(str(error)), _sqlite_code(error)
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return f"{address.file} is not a SQLite database ({said}); name another file"
    if code == sqlite3.SQLITE_READONLY:
        return f"{address.file} cannot be written ({said}); check the rights of the file and of its folder"
    if code == sqlite3.SQLITE_CANTOPEN:
        return f"{address.file} cannot be opened ({said}); it must be a file in a folder that may be written"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"{address.file} is locked by another program ({said}); end that program first"
    return f"store {address.shown} failed: {said}"


def _sqlite(address: Address, *, writes: bool) -> Engine:
    # mode=rw never creates a file: a mistyped name must not become an empty store. Only a writer creates it.
    name = f"file:{quote(str(address.file))}?mode={'rwc' if writes else 'rw'}"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            name, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000, cached_statements=256
        )
        try:
            _set_up_sqlite(connection, address, writes=writes)
        except BaseException:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=connect, pool_size=2 if writes else READERS, max_overflow=0, **POOL)
    if writes:  # a reader never begins: with isolation_level=None each of its SELECTs stands alone
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(BEGIN))
    return engine


def _set_up_sqlite(connection: sqlite3.Connection, address: Address, *, writes: bool) -> None:
    if not writes:
        connection.execute("PRAGMA query_only=ON")
        return
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    connection.execute("PRAGMA synchronous=FULL")
    (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    if mode != "wal" or synchronous != 2:
        raise InputError(
            f"{address.file} cannot be written durably (journal_mode={mode}, synchronous={synchronous}; needed: wal, 2);"
            " put it on a local disk",
            code="store.durable",
        )


def _postgresql(address: Address, *, writes: bool) -> Engine:
    try:
        engine = create_engine(
            address.url,
            connect_args={**KEEPALIVES, "application_name": "equipoise", **address.url.query},
            isolation_level="READ COMMITTED" if writes else "AUTOCOMMIT",
            pool_size=2 if writes else READERS,
            max_overflow=0 if writes else 1,  # one more for the lock
            pool_pre_ping=not writes,  # a reader left from before a restart of the server is replaced, not shown to the user
            **POOL,
        )
    except ModuleNotFoundError as missing:
        raise InputError(f"{address.shown} needs psycopg ({missing}); pip install 'equipoise[postgres]'") from None
    if writes:
        event.listen(engine, "connect", lambda connection, _record: _set_up_postgresql(connection, address))
    return engine


def _set_up_postgresql(connection: Any, address: Address) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")
        found = {name: cursor.execute(f"SHOW {name}").fetchone()[0] for name in ("synchronous_commit", "fsync")}
    connection.commit()
    if found != {"synchronous_commit": "on", "fsync": "on"}:
        raise InputError(
            f"{address.shown} does not keep what it acknowledges (synchronous_commit={found['synchronous_commit']},"
            f" fsync={found['fsync']}; needed: on, on); set fsync = on in postgresql.conf",
            code="store.durable",
        )
