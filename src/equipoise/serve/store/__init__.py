"""The database of the service: SQLite or PostgreSQL, one writer, nothing acknowledged is lost.

The values are plain; SQLAlchemy is loaded when a store is opened.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from equipoise.errors import InputError
from equipoise.serve.store.rows import (
    Batch,
    Fenced,
    JobRow,
    Snapshot,
    StoreBusy,
    StoredAnswer,
    StoreLost,
    TenantRow,
    TokenRow,
)

if TYPE_CHECKING:
    from equipoise.serve.store.open import backup, copy_store, open_store, peek_store
    from equipoise.serve.store.store import Store

__all__ = [
    "Batch",
    "Fenced",
    "JobRow",
    "Snapshot",
    "Store",
    "StoreBusy",
    "StoreLost",
    "StoredAnswer",
    "TenantRow",
    "TokenRow",
    "backup",
    "copy_store",
    "open_store",
    "peek_store",
]

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
