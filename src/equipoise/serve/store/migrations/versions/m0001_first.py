"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Written out, not taken from `schema`: that module moves on, this step stays what it was."""
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    ownership = op.create_table(
        "ownership",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(ownership, [{"id": 1, "epoch": 0}])
    op.create_table(
        "events",
        sa.Column("seq", serial, primary_key=True, autoincrement=False),
        sa.Column("slot", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("job", sa.String, nullable=False),
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("data", sa.String, nullable=False),
    )
    about_a_job = sa.column("job") != ""
    op.create_index("events_of_job", "events", ["job", "seq"], sqlite_where=about_a_job, postgresql_where=about_a_job)
    op.create_table(
        "jobs",
        sa.Column("n", serial, primary_key=True, autoincrement=False),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("submitted", sa.BigInteger, nullable=False),
        sa.Column("finish", sa.BigInteger),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("data", sa.String, nullable=False),
    )
    op.create_index("jobs_of_tenant", "jobs", ["tenant", "n"])
    op.create_index("jobs_in_state", "jobs", ["state", "n"])
    op.create_index("jobs_of_tenant_in_state", "jobs", ["tenant", "state", "n"])
    op.create_table(
        "job_counts",
        sa.Column("tenant", sa.String, primary_key=True),
        sa.Column("state", sa.String, primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "answers",
        sa.Column("tenant", sa.String, primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("body", sa.String, nullable=False),
    )
    op.create_table(
        "snapshots",
        sa.Column("seq", serial, primary_key=True, autoincrement=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("digest", sa.String, nullable=False, unique=True),
        sa.Column("role", sa.String, nullable=False),
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
    )
    op.create_table(
        "tenants", sa.Column("name", sa.String, primary_key=True), sa.Column("quota", sa.String, nullable=False)
    )
