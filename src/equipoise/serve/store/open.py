"""Open a store, to serve it or only to look; migrate, copy and back it up.

A store is at sqlite:///file.db or postgresql://user:password@host/database."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, insert, inspect, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from equipoise.errors import InputError
from equipoise.serve.store.database import Address, Database, plain_errors
from equipoise.serve.store.lock import AdvisoryLock, FileLock, Lock, next_epoch
from equipoise.serve.store.schema import KEPT, REVISION, VERSION_TABLE, ownership
from equipoise.serve.store.store import Store

if TYPE_CHECKING:
    from alembic.config import Config


EXPECTED = "sqlite:///file.db or postgresql://user:password@host/database"


def read_address(url: str) -> Address:
    """The address in `url`; InputError for anything but the two forms."""
    if not isinstance(url, str) or "://" not in url:
        raise InputError(f"store {url!r} is not a URL; expected {EXPECTED}", code="store.address")
    scheme = url.partition("://")[0]
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        hidden = re.sub(r"://.*@", "://***@", url, flags=re.DOTALL)
        raise InputError(f"store {hidden!r} cannot be read; expected {EXPECTED}", code="store.address") from None
    if scheme == "sqlite":
        return _sqlite(parsed)
    if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        return _postgresql(parsed)
    raise InputError(f"store kind {scheme!r} is not known; expected {EXPECTED}", code="store.address")


def _sqlite(url: URL) -> Address:
    name = url.database or ""
    if name in ("", ":memory:") or url.host:
        raise InputError(
            f"store {url.render_as_string()!r} names no file; expected sqlite:///file.db or sqlite:////dir/file.db",
            code="store.address",
        )
    if url.query:
        raise InputError(f"store sqlite:///{name} takes no options after '?'; leave them out", code="store.address")
    # Resolved once: a later chdir or a second name of the same file (a link) must not lead to a second lock.
    return Address("sqlite", url, f"sqlite:///{name}", Path(name).resolve())


def _postgresql(url: URL) -> Address:
    shown = URL.create("postgresql", url.username, None, url.host, url.port, url.database).render_as_string()
    if not url.database:
        raise InputError(
            f"store {shown!r} names no database; expected postgresql://user:password@host/database",
            code="store.address",
        )
    return Address("postgresql", url.set(drivername="postgresql+psycopg"), shown, Path())


def revision_of(database: Database) -> str:
    """The revision of the tables there, "" where there are none; InputError where they are not ours or newer than known."""
    address = database.address
    if address.kind == "sqlite" and not address.file.exists():
        return ""
    with database.reading() as connection:
        found = _revision(connection, address)
    if found not in ("", REVISION) and found not in _known():
        raise InputError(
            f"{address.shown} has schema {found}, newer than the {REVISION} this version knows; use a newer equipoise",
            code="newer",
        )
    return found


def migrate(database: Database) -> None:
    """Bring the tables to the present revision, in one transaction."""
    if revision_of(database) == REVISION:
        return
    from alembic import command

    with database.writing() as connection:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _revision(connection: Connection, address: Address) -> str:
    names = inspect(connection).get_table_names()
    if VERSION_TABLE in names:
        return str(connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar() or "")
    if names:
        raise InputError(
            f"{address.shown} is the database of something else (it has a table {names[0]!r}); name one that is empty",
            code="store.foreign",
        )
    return ""


def _known() -> set[str]:
    from alembic.script import ScriptDirectory

    return {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "equipoise.serve.store:migrations")
    return config


def open_store(url: str, *, on_wait: Callable[[], None] | None = None, timeout: float | None = None) -> Store:
    """Take the store: its lock, its tables at the present revision, and an epoch that shuts out the server before.

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
                raise InputError(
                    f"there is no store at {address.shown}; 'equipoise serve' makes one", code="store.none"
                )
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
            f"{address.file.parent} is not a folder, so {address.file.name} cannot be kept there; make it first",
            code="store.folder",
        )
    if address.kind == "sqlite" and address.file.is_dir():
        raise InputError(f"{address.file} is a folder; name a file in it", code="store.folder")


def _lock(database: Database, on_wait: Callable[[], None] | None, timeout: float | None) -> Lock:
    if database.address.kind == "postgresql":
        return AdvisoryLock(database, on_wait, timeout)
    try:
        return FileLock(database.address.file)
    except OSError as error:
        file = database.address.file
        raise InputError(
            f"{file}.lock cannot be written ({error.strerror}); check the rights of its folder", code="store.failed"
        ) from None


ROWS = 2_000  # read and written at a time


def copy_store(source_url: str, target_url: str) -> dict[str, int]:
    """Copy everything to an empty store, in one transaction; rows copied, by table. No server may run on either."""
    peek_store(source_url).close()  # must exist: opening it to write would make it
    with open_store(source_url, timeout=0) as source, open_store(target_url, timeout=0) as target:
        old, new, copied = source.database, target.database, {}
        with plain_errors(new.address), old.writing() as reading, new.writing() as writing:
            for table in KEPT:
                if writing.execute(select(func.count()).select_from(table)).scalar_one():
                    raise InputError(
                        f"{target.shown} is not empty (table {table.name!r} has rows); name an empty database",
                        code="store.full",
                    )
            for table in KEPT:
                copied[table.name] = 0
                query = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=ROWS)
                for page in reading.execute(query).mappings().partitions():
                    writing.execute(insert(table), [dict(row) for row in page])
                    copied[table.name] += len(page)
    return copied


def backup(url: str, path: str | Path) -> int:
    """Write a copy of a SQLite store to the new file `path`, also while a server runs; `seq` of the last event in it."""
    address, target = read_address(url), Path(path)
    if address.kind != "sqlite":
        raise InputError(
            f"{address.shown} is backed up by PostgreSQL itself; use pg_dump, or copy_store to a SQLite file",
            code="backup.kind",
        )
    if target.exists():
        raise InputError(f"{target} exists; name a new file for the backup", code="backup.exists")
    if not target.resolve().parent.is_dir():
        raise InputError(f"{target.resolve().parent} is not a folder; make it before the backup", code="backup.folder")
    peek_store(url).close()
    part = target.with_name(target.name + ".part")  # a backup cut short never bears the name of a whole one
    part.unlink(missing_ok=True)
    source, copy = sqlite3.connect(address.file), sqlite3.connect(part)
    try:
        source.backup(copy)  # in one step: a writer beside it would make a stepwise copy start over and over
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, complete in itself; WAL comes back when it is served
        (last,) = copy.execute("SELECT max(seq) FROM events").fetchone()
    finally:
        source.close()
        copy.close()
    with open(part, "rb") as written:
        os.fsync(written.fileno())
    part.rename(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name too
    finally:
        os.close(folder)
    return last or 0
