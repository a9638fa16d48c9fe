"""--workers, --spread and --address: where a sweep runs. No part of its settings, for they never change what comes out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

PANEL = "Where it runs"
Workers = Annotated[
    int | None,
    typer.Option(help="Parts that run at once. (default: all cores)", metavar="COUNT", rich_help_panel=PANEL),
]
Spread = Annotated[str | None, typer.Option(help="threads, processes, or ray.", metavar="KIND", rich_help_panel=PANEL)]
Address = Annotated[
    str | None,
    typer.Option(help="A Ray cluster: HOST:PORT, ray://HOST:PORT or auto.", metavar="ADDRESS", rich_help_panel=PANEL),
]


@contextmanager
def spreading(usual: str, workers: int | None, kind: str | None, address: str | None, *, quiet: bool) -> Iterator[bool]:
    """Sweeps inside go where the user said, and say so; whether she said anything. `usual` is the verb's own kind."""
    if workers is None and kind is None and address is None:
        yield False
        return
    from equipoise.engine.spread import spread

    kind = usual if kind is None and address is None else kind
    with spread(kind, workers=workers, address=address) as where:
        if not quiet:
            print(f"over {where}", file=sys.stderr, flush=True)
        yield True
