"""The database of the service: SQLite or PostgreSQL, one writer, nothing acknowledged is lost.

The values are plain; SQLAlchemy is loaded when a store is opened.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from equipoise.errors import InputError
from equipoise.serve.store.rows import (
    Batch as Batch,
    Fenced as Fenced,
    JobRow as JobRow,
    Snapshot as Snapshot,
    StoreBusy as StoreBusy,
    StoredAnswer as StoredAnswer,
    StoreLost as StoreLost,
    TenantRow as TenantRow,
    TokenRow as TokenRow,
)

if TYPE_CHECKING:
    from equipoise.serve.store.open import (
        backup as backup,
        copy_store as copy_store,
        open_store as open_store,
        peek_store as peek_store,
    )
    from equipoise.serve.store.store import Store as Store

_LOADED_WHEN_USED = {"Store": "store"} | dict.fromkeys(("backup", "copy_store", "open_store", "peek_store"), "open")


def __getattr__(name: str) -> object:
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_LOADED_WHEN_USED[name]}")
    except ModuleNotFoundError as missing:
        if missing.name is not None and missing.name.startswith("equipoise"):
            raise
        raise InputError(f"a store needs {missing.name}; pip install 'equipoise[serve]'") from None
    return getattr(module, name)
