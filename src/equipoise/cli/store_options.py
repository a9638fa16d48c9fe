"""What `equipoise token` and `equipoise tenant` share: they work on the store itself, also while a server runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from equipoise.serve.store import Store

DEFAULT_STORE = "sqlite:///equipoise.db"  # as of `equipoise serve`
StoreUrl = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="EQUIPOISE_STORE",
        help="sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME",
        metavar="URL",
    ),
]


@contextmanager
def store_at(url: str, *, create: bool = False) -> Iterator[Store]:
    """The store without its lock; what the database complains of is one line, without its password."""
    from equipoise.serve.store import peek_store
    from equipoise.serve.store.database import plain_errors
    from equipoise.serve.store.open import read_address

    with peek_store(url, create=create) as store, plain_errors(read_address(url)):
        yield store
