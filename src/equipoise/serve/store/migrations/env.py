"""Run by Alembic: migrates the connection that `migrate` hands over, inside its transaction."""

from alembic import context

from equipoise.serve.store.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,  # true of SQLite too: `database` begins transactions itself
)
context.run_migrations()
