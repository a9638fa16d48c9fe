"""The tables, as the code reads and writes them. Migrations say how a database gets there."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, Index, Integer, LargeBinary, MetaData, String, Table

REVISION = "0001"  # of the newest migration: a database at this revision has exactly these tables
VERSION_TABLE = "equipoise_schema"  # where Alembic keeps the revision; its presence is what makes a database ours

# SQLite makes a key of type INTEGER, and no other, the row's own address: no second tree to search.
Serial = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData()

ownership = Table(  # one row: how often the store was opened to write; a server with a lower number is fenced
    "ownership",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("seq", Serial, primary_key=True, autoincrement=False),
    Column("slot", BigInteger, nullable=False),
    Column("at", Double, nullable=False),
    Column("kind", String, nullable=False),
    Column("job", String, nullable=False),
    Column("tenant", String, nullable=False),
    Column("data", String, nullable=False),  # JSON as text: read back to the digit on both databases
)
Index("events_of_job", events.c.job, events.c.seq, sqlite_where=events.c.job != "", postgresql_where=events.c.job != "")

jobs = Table(
    "jobs",
    metadata,
    Column("n", Serial, primary_key=True, autoincrement=False),
    Column("id", String, nullable=False, unique=True),
    Column("tenant", String, nullable=False),
    Column("name", String, nullable=False),
    Column("state", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("submitted", BigInteger, nullable=False),
    Column("finish", BigInteger),
    Column("seq", BigInteger, nullable=False),
    Column("data", String, nullable=False),
)
Index("jobs_of_tenant", jobs.c.tenant, jobs.c.n)
Index("jobs_in_state", jobs.c.state, jobs.c.n)
Index("jobs_of_tenant_in_state", jobs.c.tenant, jobs.c.state, jobs.c.n)

# Jobs by tenant and state, kept in step by every append: a million jobs are counted by reading a few rows.
job_counts = Table(
    "job_counts",
    metadata,
    Column("tenant", String, primary_key=True),
    Column("state", String, primary_key=True),
    Column("count", BigInteger, nullable=False),
)

answers = Table(
    "answers",
    metadata,
    Column("tenant", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("digest", String, nullable=False),
    Column("status", Integer, nullable=False),
    Column("body", String, nullable=False),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("seq", Serial, primary_key=True, autoincrement=False),
    Column("digest", String, nullable=False),
    Column("state", LargeBinary, nullable=False),  # JSON, zlib-compressed
)

tokens = Table(
    "tokens",
    metadata,
    Column("name", String, primary_key=True),
    Column("digest", String, nullable=False, unique=True),
    Column("role", String, nullable=False),
    Column("tenant", String, nullable=False),
    Column("created", Double, nullable=False),
)

tenants = Table("tenants", metadata, Column("name", String, primary_key=True), Column("quota", String, nullable=False))

KEPT = (events, jobs, job_counts, answers, snapshots, tokens, tenants)  # what a copy carries: everything but ownership
