"""The store: a log that loses nothing it acknowledged, and beside it the rows that lists, counts and restarts read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    delete,
    func,
    insert,
    literal_column,
    select,
    union_all,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from equipoise.serve.plan.events import Event
from equipoise.serve.store import schema
from equipoise.serve.store.database import LOST, Database
from equipoise.serve.store.lock import Lock
from equipoise.serve.store.rows import Batch, Fenced, JobRow, Snapshot, StoredAnswer, StoreLost, TenantRow, TokenRow
from equipoise.serve.store.transaction import compact, rows, statements, unpack, write

Value = TypeVar("Value")
Query = Select[tuple[Any, ...]]
PAGE = 2_000  # events per read: a long log is streamed without a long transaction


class Store:
    """One writer thread may `append`; any thread may read, at any time. Made by `open_store` or `peek_store`."""

    def __init__(self, url: str, database: Database, lock: Lock | None, epoch: int) -> None:
        self.url = url
        self.epoch = epoch
        self.database = database
        self._lock = lock
        self._sql = statements(self.kind)

    @property
    def kind(self) -> str:
        """sqlite | postgresql"""
        return self.database.address.kind

    @property
    def shown(self) -> str:
        """The URL without its password."""
        return self.database.address.shown

    def __repr__(self) -> str:
        return f"Store({self.shown!r}, epoch={self.epoch})"

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the store back: its connections, then the lock."""
        self.database.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # The log

    def append(self, batch: Batch) -> None:
        """Keep all of `batch` or nothing; it is on disk when this returns. Fenced when another server has taken over."""
        if self._lock is None:
            raise RuntimeError(f"{self!r} is not held by this process; use open_store to append")
        made, driver = rows(batch), self.database.driver
        try:
            with self.database.appending() as cursor:
                write(cursor, self._sql, made, self.epoch)
        except (driver.DataError, driver.IntegrityError, driver.ProgrammingError):
            raise  # the batch is at fault, not the database; nothing of it was kept
        except (driver.Error, SQLAlchemyError) as error:
            self._refuse_if_taken_over()
            raise StoreLost(self.database.address.conceal(f"{self.shown} failed: {error}")) from error

    def _refuse_if_taken_over(self) -> None:
        """A connection that broke may be the first sign of a takeover: then say so."""
        with suppress(SQLAlchemyError, self.database.driver.Error), self.database.reading() as connection:
            found = connection.execute(select(schema.ownership.c.epoch)).scalar_one()
            if found != self.epoch:
                raise Fenced(
                    f"another server took the store over (epoch {found}, ours is {self.epoch}); this one must stop"
                )

    def probe(self) -> None:
        """Write something that changes nothing: StoreLost where nothing can be written."""
        with self._writing() as connection:
            connection.execute(update(schema.ownership).values(epoch=schema.ownership.c.epoch))

    def hold_on(self) -> None:
        """Make sure that the store is still this server's; Fenced if not."""
        with self._lost():
            if self._lock is not None:
                self._lock.hold_on(self.database)
                self._refuse_if_taken_over()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._lost(), self.database.reading() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._lost(), self.database.writing() as connection:
            yield connection

    @contextmanager
    def _lost(self) -> Iterator[None]:
        """A database that is away, or has no room, is StoreLost: no mistake of the caller."""
        driver = self.database.driver
        try:
            yield
        except (*LOST, driver.OperationalError, driver.InterfaceError) as error:
            said = getattr(error, "orig", None) or error
            raise StoreLost(self.database.address.conceal(f"{self.shown} failed: {said}")) from error

    def last(self) -> int:
        """`seq` of the last event, 0 when there is none."""
        with self._reading() as connection:
            return connection.execute(select(func.max(schema.events.c.seq))).scalar() or 0

    def events(
        self, after: int = 0, upto: int | None = None, *, limit: int | None = None, job: str | None = None
    ) -> Iterator[Event]:
        """Events `after` < seq <= `upto` in order, at most `limit`, of one `job` or all; read page by page."""
        left = limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = self._events_page(after, upto, job, size)
            yield from page
            if len(page) < size:
                return
            after = page[-1].seq
            left = None if left is None else left - size

    def _events_page(self, after: int, upto: int | None, job: str | None, size: int) -> list[Event]:
        t = schema.events.c
        query = select(schema.events).where(t.seq > after).order_by(t.seq).limit(size)
        if upto is not None:
            query = query.where(t.seq <= upto)
        if job is not None:
            query = query.where(t.job == job)
            if job:  # in these words the index of events about a job serves
                query = query.where(t.job != literal_column("''"))
        with self._reading() as connection:
            found = connection.execute(query).all()
        return [_decoded(Event, row) for row in found]

    def snapshot(self, upto: int | None = None) -> Snapshot | None:
        """The latest snapshot, or the latest at or before event `upto`."""
        t = schema.snapshots.c
        query = select(schema.snapshots).order_by(t.seq.desc()).limit(1)
        if upto is not None:
            query = query.where(t.seq <= upto)
        with self._reading() as connection:
            found = connection.execute(query).first()
        return None if found is None else Snapshot(found.seq, found.digest, unpack(found.state))

    def snapshots(self) -> list[tuple[int, str]]:
        """(seq, digest) of every snapshot, oldest first."""
        t = schema.snapshots.c
        with self._reading() as connection:
            return [(seq, digest) for seq, digest in connection.execute(select(t.seq, t.digest).order_by(t.seq))]

    # What was answered, and the jobs

    def answers(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], StoredAnswer]:
        """The answers already given to these (tenant, key)."""
        wanted = list(dict.fromkeys(keys))
        if not wanted:
            return {}
        with self._reading() as connection:
            found = connection.exec_driver_sql(self._sql.given, self._sql.pairs(wanted)).all()
        return {(row[0], row[1]): _decoded(StoredAnswer, row) for row in found}

    def job(self, id: str) -> JobRow | None:
        """The job of that id."""
        with self._reading() as connection:
            found = connection.execute(select(schema.jobs).where(schema.jobs.c.id == id)).first()
        return None if found is None else _decoded(JobRow, found)

    def jobs(
        self,
        *,
        tenant: str | None = None,
        states: Sequence[str] = (),
        name: str = "",
        after: int | None = None,
        newest_first: bool = True,
        limit: int = 100,
    ) -> list[JobRow]:
        """A page of jobs in order of `n`: those beyond `after`, with `name` somewhere in theirs (case matters not)."""
        t = schema.jobs.c
        order = t.n.desc() if newest_first else t.n.asc()

        def page(*also: ColumnElement[bool]) -> Query:
            query = select(schema.jobs).where(*also).order_by(order).limit(limit)
            if tenant is not None:
                query = query.where(t.tenant == tenant)
            if name:
                place = func.instr if self.kind == "sqlite" else func.strpos
                query = query.where(place(func.lower(t.name), func.lower(name)) > 0)
            if after is not None:
                query = query.where(t.n < after if newest_first else t.n > after)
            return query

        # One ordered page per state, merged: each is a walk along an index, however rare the state. In one statement, so
        # that a job which changes its state meanwhile is listed once.
        pages = [page(t.state == state) for state in dict.fromkeys(states)] or [page()]
        query: Query = pages[0]
        if len(pages) > 1:
            parts = union_all(*(select(part.subquery()) for part in pages)).subquery()
            query = select(parts).order_by(parts.c.n.desc() if newest_first else parts.c.n.asc()).limit(limit)
        with self._reading() as connection:
            return [_decoded(JobRow, row) for row in connection.execute(query)]

    def counts(self, tenant: str | None = None) -> dict[str, int]:
        """Jobs by state, of one tenant or of all; states without jobs are left out."""
        t = schema.job_counts.c
        query = select(t.state, func.sum(t.count)).group_by(t.state)
        if tenant is not None:
            query = query.where(t.tenant == tenant)
        with self._reading() as connection:
            return {state: int(count) for state, count in connection.execute(query) if count}

    # Access: outside the log, written by the server or from the command line

    def tokens(self) -> list[TokenRow]:
        """All tokens, by name."""
        with self._reading() as connection:
            return [TokenRow(*row) for row in connection.execute(select(schema.tokens).order_by(schema.tokens.c.name))]

    def add_token(self, row: TokenRow) -> None:
        """Keep a new token; its name must be new."""
        with self._writing() as connection:
            connection.execute(insert(schema.tokens).values(vars(row)))

    def remove_token(self, name: str) -> bool:
        """True if there was one of that name."""
        with self._writing() as connection:
            return _removed(connection, schema.tokens, name)

    def tenants(self) -> list[TenantRow]:
        """All tenants with a row of their own, by name."""
        with self._reading() as connection:
            found = connection.execute(select(schema.tenants).order_by(schema.tenants.c.name)).all()
        return [_decoded(TenantRow, row) for row in found]

    def put_tenant(self, row: TenantRow) -> None:
        """Keep a tenant, in place of an older row of that name."""
        with self._writing() as connection:
            _removed(connection, schema.tenants, row.name)
            connection.execute(insert(schema.tenants).values(name=row.name, quota=compact(row.quota)))

    def remove_tenant(self, name: str) -> bool:
        """True if there was one of that name."""
        with self._writing() as connection:
            return _removed(connection, schema.tenants, name)


def _removed(connection: Connection, table: Table, name: str) -> bool:
    return connection.execute(delete(table).where(table.c.name == name)).rowcount > 0


def _decoded(kind: Callable[..., Value], row: Sequence[Any]) -> Value:
    """A value from its row, whose last column is JSON."""
    return kind(*row[:-1], json.loads(row[-1]))
