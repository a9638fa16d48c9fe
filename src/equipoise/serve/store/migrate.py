"""What a database holds, and how it gets to the present tables. Alembic is loaded only when there is a step to take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from equipoise.errors import InputError
from equipoise.serve.store.address import Address
from equipoise.serve.store.database import Database
from equipoise.serve.store.schema import REVISION, VERSION_TABLE

if TYPE_CHECKING:
    from alembic.config import Config


def revision_of(database: Database) -> str:
    """The revision of the tables there, "" where there are none; InputError where they are not ours or newer than known."""
    address = database.address
    if address.kind == "sqlite" and not address.file.exists():
        return ""
    with database.reading() as connection:
        found = _revision(connection, address)
    if found not in ("", REVISION) and found not in _known():
        raise InputError(
            f"{address.shown} has schema {found}, newer than the {REVISION} this version knows; use a newer equipoise"
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
            f"{address.shown} is the database of something else (it has a table {names[0]!r}); name one that is empty"
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
