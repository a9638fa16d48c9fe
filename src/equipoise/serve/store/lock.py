"""Who may serve a store: one at a time. SQLite: a locked file beside it. PostgreSQL: an advisory lock, waited for."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from sqlalchemy import select, update
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import PoolProxiedConnection

from equipoise.serve.store.database import Database
from equipoise.serve.store.rows import Fenced, StoreBusy
from equipoise.serve.store.schema import ownership

ADVISORY_KEY = int.from_bytes(b"equipois", "big")  # any number, the same for all servers; the lock is per database
POLL_SECONDS = 0.25
PATIENCE_MS = 3_000  # for an append of the server before to end by itself
LOCK_NOT_AVAILABLE = "55P03"  # PostgreSQL's code for a wait that took longer than lock_timeout


class Lock(Protocol):
    """Held from its making until `release`, or until the process ends in whatever way."""

    def release(self) -> None: ...

    def hold_on(self, database: Database) -> None:
        """Take it again where the database has lost it; Fenced when somebody else has it by now."""


class FileLock:
    """flock on <file>.lock, which holds the pid of the holder. The file stays: removing it would let two hold it."""

    def __init__(self, file: Path) -> None:
        path = file.with_name(file.name + ".lock")
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._handle, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._handle)
            raise StoreBusy(
                f"{file} is in use by the server with pid {holder}; end it first, or name another file",
                code="store.busy",
            ) from None
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)

    def hold_on(self, database: Database) -> None:
        """The operating system keeps it."""

    def release(self) -> None:
        """Let the next server in."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class AdvisoryLock:
    """A session's advisory lock on a connection of its own: PostgreSQL gives it back when that connection ends."""

    def __init__(self, database: Database, on_wait: Callable[[], None] | None, timeout: float | None) -> None:
        self._connection: PoolProxiedConnection | None = None
        try:
            self._take(database, on_wait, timeout)
        except BaseException:
            self.release()
            raise

    def _take(self, database: Database, on_wait: Callable[[], None] | None, timeout: float | None) -> None:
        """Wait for the lock; a database that restarts meanwhile is waited for too."""
        since, waited = time.monotonic(), False
        while True:
            try:
                if self._got(database):
                    return
            except (database.driver.Error, DBAPIError):
                self.release()
                if not waited:
                    raise  # it was not there to begin with
            if timeout is not None and time.monotonic() - since >= timeout:
                raise StoreBusy(
                    f"{database.address.shown} is in use by another server; end it first, or wait for it",
                    code="store.busy",
                )
            if not waited and on_wait is not None:
                on_wait()
            waited = True
            time.sleep(POLL_SECONDS)

    def hold_on(self, database: Database) -> None:
        """A database that restarted has ended the session, and the lock with it."""
        if self._connection is not None:
            try:
                self._connection.cursor().execute("SELECT 1")
                return
            except (database.driver.Error, DBAPIError):
                self.release()
        if not self._got(database):  # a new session, also when the last try did not get so far
            self.release()
            raise Fenced("another server took the store's lock while the database restarted")

    def _got(self, database: Database) -> bool:
        cursor = self._session(database)
        cursor.execute(f"SELECT pg_try_advisory_lock({ADVISORY_KEY})")
        return bool(cursor.fetchone()[0])  # type: ignore[index]

    def _session(self, database: Database) -> DBAPICursor:
        if self._connection is not None:
            return self._connection.cursor()
        self._connection = database.lone_connection()
        cursor = self._connection.cursor()
        # The server's side of keepalives: it must notice within half a minute that this machine is gone.
        for setting in ("tcp_keepalives_idle = 10", "tcp_keepalives_interval = 5", "tcp_keepalives_count = 3"):
            cursor.execute(f"SET {setting}")
        # Idle is what this session is for. (By way of pg_settings, for before version 14 there is no such setting.)
        cursor.execute("SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'")
        return cursor

    def release(self) -> None:
        """Let the next server in: the session ends, and its lock with it."""
        if self._connection is not None:
            with suppress(Exception):
                self._connection.detach()  # out of the pool, so that closing ends the session
            with suppress(Exception):
                self._connection.close()
            self._connection = None


def next_epoch(database: Database) -> int:
    """Add 1 to the epoch: from here on the server that had the store is fenced. To be called with the lock held."""
    try:
        return _add_one(database)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", "") != LOCK_NOT_AVAILABLE:
            raise
    # The server before us hangs inside an append and holds the epoch's row. It has lost the lock, so its session is ended
    # and its batch, which was never answered, is undone.
    with database.reading() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'ownership'::regclass AND granted"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            " AND mode IN ('RowShareLock', 'RowExclusiveLock') AND pid <> pg_backend_pid()"
        )
    return _add_one(database)


def _add_one(database: Database) -> int:
    with database.writing() as connection:
        if database.address.kind == "postgresql":
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {PATIENCE_MS}")
        connection.execute(update(ownership).values(epoch=ownership.c.epoch + 1))
        epoch: int = connection.execute(select(ownership.c.epoch)).scalar_one()
    return epoch
