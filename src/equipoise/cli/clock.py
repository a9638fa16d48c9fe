"""equipoise clock: the slot it is; and a virtual clock moved on."""

from __future__ import annotations

from typing import Annotated

import typer

from equipoise.cli.service_options import Json, Token, Url, answer, service, verb
from equipoise.errors import InputError

app = verb()


@app.command()
def clock(
    advance: Annotated[int | None, typer.Option(help="Move on by so many slots.", min=1)] = None,
    to: Annotated[int | None, typer.Option(help="Move on to this slot.", min=0)] = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Show the slot it is. A service on a virtual clock is told the time here; that needs the role admin.

    Exit 0 fine, 1 the clock is real or the service failed, 2 bad input, not allowed, or no service there.
    """
    if advance is not None and to is not None:
        raise InputError("--advance and --to are both given; keep one")
    with service(url, token) as client:
        if advance is not None or to is not None:
            client.advance(advance or 1, to=to)
        cluster = client.cluster()
    if json:
        answer({"now": cluster.now, "clock": cluster.clock, "slot_seconds": cluster.slot_seconds})
    else:
        print(f"slot {cluster.now} of {cluster.slot_seconds:g} s, {cluster.clock} clock")
