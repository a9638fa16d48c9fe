"""Moving a store to another database, and backing one up while it serves."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from sqlalchemy import func, insert, select

from equipoise.errors import InputError
from equipoise.serve.store.address import read_address
from equipoise.serve.store.database import plain_errors
from equipoise.serve.store.opening import open_store, peek_store
from equipoise.serve.store.schema import KEPT

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
                        f"{target.shown} is not empty (table {table.name!r} has rows); name an empty database"
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
            f"{address.shown} is backed up by PostgreSQL itself; use pg_dump, or copy_store to a SQLite file"
        )
    if target.exists():
        raise InputError(f"{target} exists; name a new file for the backup")
    if not target.resolve().parent.is_dir():
        raise InputError(f"{target.resolve().parent} is not a folder; make it before the backup")
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
