"""One batch, one transaction. Statements are compiled once: building them anew costs more than running them."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Dialect, Table, insert
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import DBAPICursor

from equipoise.serve.store.rows import Batch, Fenced, JobRow
from equipoise.serve.store.schema import answers, events, job_counts, jobs, snapshots

compact = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode  # NaN and infinity are refused: JSON has none


@dataclass(frozen=True)
class Statements:
    """The SQL of `append`, with parameters by position."""

    owner: str  # -> epoch, last seq; keeps others out until the transaction ends
    states: str  # ids -> (id, tenant, state) of the jobs known
    holding: Callable[[list[str]], Any]  # what takes the ids there: JSON text on SQLite, a list on PostgreSQL
    events: str
    jobs: str
    counts: str
    answers: str
    snapshots: str


def statements(kind: str) -> Statements:
    """The statements for SQLite or PostgreSQL."""
    last = "SELECT epoch, (SELECT max(seq) FROM events) FROM ownership WHERE id = 1"
    of_ids = "SELECT id, tenant, state FROM jobs WHERE id "
    dialect: Dialect
    upsert: Any
    holding: Callable[[list[str]], Any]
    if kind == "sqlite":  # BEGIN IMMEDIATE has kept others out already
        dialect, upsert = sqlite.dialect(paramstyle="qmark"), sqlite.insert
        owner, states, holding = last, of_ids + "IN (SELECT value FROM json_each(?))", compact
    else:
        dialect = postgresql.psycopg.dialect(paramstyle="format")  # type: ignore[no-untyped-call]
        upsert = postgresql.insert
        owner, states, holding = last + " FOR UPDATE OF ownership", of_ids + "= ANY(%s)", list

    def compiled(statement: Any) -> str:
        return str(statement.compile(dialect=dialect))

    def plain(table: Table) -> str:
        return compiled(insert(table))

    newer = upsert(jobs)
    changed = {column.name: newer.excluded[column.name] for column in jobs.c if column.name not in ("n", "id")}
    count = upsert(job_counts)
    return Statements(
        owner=owner,
        states=states,
        holding=holding,
        events=plain(events),
        jobs=compiled(newer.on_conflict_do_update(index_elements=["id"], set_=changed)),
        counts=compiled(
            count.on_conflict_do_update(
                index_elements=["tenant", "state"], set_={"count": job_counts.c.count + count.excluded.count}
            )
        ),
        answers=plain(answers),
        snapshots=plain(snapshots),
    )


@dataclass(frozen=True)
class Rows:
    """A batch as the database takes it, made before the transaction begins: others wait for it no longer than they must."""

    events: list[tuple[Any, ...]]
    jobs: dict[str, JobRow]
    job_rows: list[tuple[Any, ...]]
    answers: list[tuple[Any, ...]]
    snapshots: list[tuple[Any, ...]]


def rows(batch: Batch) -> Rows:
    """`batch` in plain tuples; ValueError for data that is not JSON."""
    latest = {row.id: row for row in batch.jobs}
    shot = batch.snapshot
    return Rows(
        events=[(e.seq, e.slot, e.at, e.kind, e.job, e.tenant, compact(e.data)) for e in batch.events],
        jobs=latest,
        job_rows=[
            (r.n, r.id, r.tenant, r.name, r.state, r.reason, r.submitted, r.finish, r.seq, compact(r.data))
            for r in latest.values()
        ],
        answers=[(a.tenant, a.key, a.digest, a.status, compact(a.body)) for a in batch.answers],
        snapshots=[] if shot is None else [(shot.seq, shot.digest, pack(shot.state))],
    )


def pack(state: dict[str, Any]) -> bytes:
    """A snapshot's state as it is stored."""
    return zlib.compress(compact(state).encode(), 3)


def unpack(packed: bytes) -> dict[str, Any]:
    """The inverse of `pack`."""
    state: dict[str, Any] = json.loads(zlib.decompress(packed))
    return state


def write(cursor: DBAPICursor, sql: Statements, made: Rows, epoch: int) -> None:
    """Write a batch inside the cursor's transaction, if the store is still ours and the events continue its log."""
    cursor.execute(sql.owner)
    found, last = cursor.fetchone()  # type: ignore[misc]
    if found != epoch:
        raise Fenced(f"another server took the store over (epoch {found}, ours is {epoch}); this one must stop")
    for place, event in enumerate(made.events, (last or 0) + 1):
        if event[0] != place:
            raise ValueError(f"event {event[0]} does not continue the log; expected seq {place}")
    if made.events:
        cursor.executemany(sql.events, made.events)
    if made.jobs:
        cursor.execute(sql.states, (sql.holding(list(made.jobs)),))
        change = Counter((row.tenant, row.state) for row in made.jobs.values())
        change.subtract((tenant, state) for _, tenant, state in cursor.fetchall())
        cursor.executemany(sql.jobs, made.job_rows)
        moved = [(tenant, state, by) for (tenant, state), by in sorted(change.items()) if by]
        if moved:
            cursor.executemany(sql.counts, moved)
    if made.answers:
        cursor.executemany(sql.answers, made.answers)
    if made.snapshots:
        cursor.executemany(sql.snapshots, made.snapshots)
