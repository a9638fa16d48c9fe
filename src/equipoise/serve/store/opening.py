"""Opening a store: to serve it (one server at a time), or only to look."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import select

from equipoise.errors import InputError
from equipoise.serve.store.address import Address, read_address
from equipoise.serve.store.database import Database, plain_errors
from equipoise.serve.store.lock import AdvisoryLock, FileLock, Lock, next_epoch
from equipoise.serve.store.migrate import migrate, revision_of
from equipoise.serve.store.schema import REVISION, ownership
from equipoise.serve.store.store import Store


def open_store(url: str, *, on_wait: Callable[[], None] | None = None, timeout: float | None = None) -> Store:
    """Take the store: its lock, its tables at the present revision, and an epoch that shuts out whoever had it before.

    SQLite: StoreBusy if another server has it. PostgreSQL: waits for it, up to `timeout` seconds (None: for ever), after
    calling `on_wait` once.
    """
    address = read_address(url)
    _require_folder(address)
    database = Database(address)
    lock: Lock | None = None
    try:
        with plain_errors(address):
            revision_of(database)  # of something else, or too new: say so before anything is made or waited for
            lock = _lock(database, on_wait, timeout)
            migrate(database)
            return Store(url, database, lock, next_epoch(database))
    except BaseException:
        database.close()
        if lock is not None:
            with suppress(Exception):
                lock.release()
        raise


def peek_store(url: str, *, create: bool = False) -> Store:
    """The store without its lock: to read beside a server, and to write tokens and tenants. `create` makes it if absent."""
    address = read_address(url)
    _require_folder(address)
    database = Database(address)
    try:
        with plain_errors(address):
            found = revision_of(database)
            if not found and create:
                open_store(url, timeout=0).close()
            elif not found:
                raise InputError(f"there is no store at {address.shown}; 'equipoise serve' makes one")
            elif found != REVISION:
                raise InputError(f"{address.shown} has schema {found}, not {REVISION}; 'equipoise serve' migrates it")
            with database.reading() as connection:
                epoch: int = connection.execute(select(ownership.c.epoch)).scalar_one()
            return Store(url, database, None, epoch)
    except BaseException:
        database.close()
        raise


def _require_folder(address: Address) -> None:
    if address.kind == "sqlite" and not address.file.parent.is_dir():
        raise InputError(
            f"{address.file.parent} is not a folder, so {address.file.name} cannot be kept there; make it first"
        )
    if address.kind == "sqlite" and address.file.is_dir():
        raise InputError(f"{address.file} is a folder; name a file in it")


def _lock(database: Database, on_wait: Callable[[], None] | None, timeout: float | None) -> Lock:
    if database.address.kind == "postgresql":
        return AdvisoryLock(database, on_wait, timeout)
    try:
        return FileLock(database.address.file)
    except OSError as error:
        file = database.address.file
        raise InputError(f"{file}.lock cannot be written ({error.strerror}); check the rights of its folder") from None
