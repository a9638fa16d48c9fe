"""One batch, one transaction. Statements are compiled once: building them anew costs more than running them."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from dataclasses import dataclass

from sqlalchemy import Dialect, Table, insert
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import DBAPICursor

from equipoise.serve.plan.events import Body
from equipoise.serve.store.rows import Batch, Fenced, JobRow
from equipoise.serve.store.schema import answers, events, job_counts, jobs, snapshots

compact = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode  # NaN and infinity are refused: JSON has none


@dataclass(frozen=True)
class Statements:
    """The SQL of a batch for one kind of database, with parameters by position."""

    kind: str  # sqlite | postgresql
    owner: str  # -> epoch, last seq; keeps others out until the transaction ends
    states: str  # ids -> (id, tenant, state) of the jobs known
    given: str  # (tenant, key) pairs -> the answers given to them
    events: str
    jobs: str
    counts: str
    answers: str
    snapshots: str

    def ids(self, ids: list[str]) -> tuple[object, ...]:
        """The parameters of `states`."""
        return (compact(ids),) if self.kind == "sqlite" else (ids,)

    def pairs(self, pairs: list[tuple[str, str]]) -> tuple[object, ...]:
        """The parameters of `given`."""
        return (compact(pairs),) if self.kind == "sqlite" else tuple(map(list, zip(*pairs, strict=True)))


def statements(kind: str) -> Statements:
    """The statements for SQLite or PostgreSQL."""
    dialect: Dialect
    if kind == "sqlite":
        dialect, lock = sqlite.dialect(paramstyle="qmark"), ""  # BEGIN IMMEDIATE has kept others out
        ids = "IN (SELECT value FROM json_each(?))"
        pair = "json_extract(value, '$[0]') AS tenant, json_extract(value, '$[1]') AS key"
        asked = f"(SELECT {pair} FROM json_each(?)) AS asked"
    else:
        dialect = postgresql.psycopg.dialect(paramstyle="format")  # type: ignore[no-untyped-call]
        lock = " FOR UPDATE OF ownership"
        ids = "= ANY(%s)"
        asked = "unnest(%s::VARCHAR[], %s::VARCHAR[]) AS asked (tenant, key)"

    def put(table: Table) -> str:
        return str(insert(table).compile(dialect=dialect))

    newer = ", ".join(f"{column.name} = excluded.{column.name}" for column in jobs.c if column.name not in ("n", "id"))
    added = "count = job_counts.count + excluded.count"
    return Statements(
        kind=kind,
        owner="SELECT epoch, (SELECT max(seq) FROM events) FROM ownership WHERE id = 1" + lock,
        states=f"SELECT id, tenant, state FROM jobs WHERE id {ids}",
        # CROSS only tells SQLite to start from the pairs: one search per pair
        given=f"SELECT {', '.join(map(str, answers.c))} FROM {asked} CROSS JOIN answers"
        " WHERE answers.tenant = asked.tenant AND answers.key = asked.key",
        events=put(events),
        jobs=f"{put(jobs)} ON CONFLICT (id) DO UPDATE SET {newer}",
        counts=f"{put(job_counts)} ON CONFLICT (tenant, state) DO UPDATE SET {added}",
        answers=put(answers),
        snapshots=put(snapshots),
    )


@dataclass(frozen=True)
class BatchRows:
    """A batch as the database takes it, made before the transaction begins: others wait for it no longer than they must."""

    events: list[tuple[object, ...]]
    jobs: dict[str, JobRow]
    job_rows: list[tuple[object, ...]]
    answers: list[tuple[object, ...]]
    snapshots: list[tuple[object, ...]]


def rows(batch: Batch) -> BatchRows:
    """`batch` in plain tuples; ValueError for data that is not JSON."""
    latest = {row.id: row for row in batch.jobs}
    shot = batch.snapshot
    return BatchRows(
        events=[(e.seq, e.slot, e.at, e.kind, e.job, e.tenant, compact(e.data)) for e in batch.events],
        jobs=latest,
        job_rows=[
            (r.n, r.id, r.tenant, r.name, r.state, r.reason, r.submitted, r.finish, r.seq, compact(r.data))
            for r in latest.values()
        ],
        answers=[(a.tenant, a.key, a.digest, a.status, compact(a.body)) for a in batch.answers],
        snapshots=[] if shot is None else [(shot.seq, shot.digest, pack(shot.state))],
    )


def pack(state: Body) -> bytes:
    """A snapshot's state as it is stored."""
    return zlib.compress(compact(state).encode(), 3)


def unpack(packed: bytes) -> Body:
    """The inverse of `pack`."""
    state: Body = json.loads(zlib.decompress(packed))
    return state


def write(cursor: DBAPICursor, sql: Statements, made: BatchRows, epoch: int) -> None:
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
        cursor.execute(sql.states, sql.ids(list(made.jobs)))
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
