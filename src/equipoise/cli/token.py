"""equipoise token: who may read, submit or manage. Written to the store; a running server knows within a second."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.service_options import Json, answer, fill, table_of, verb
from equipoise.cli.store_options import DEFAULT_STORE, StoreUrl, store_at
from equipoise.errors import InputError, unknown_name

if TYPE_CHECKING:
    from equipoise.serve.store import TokenRow

app = verb()
app.info.no_args_is_help = True
Name = Annotated[str, typer.Argument(help="What the token is called, in lists and logs.", metavar="NAME")]


@app.callback()
def token() -> None:
    """Tokens: read < submit < admin. They are stored as digests; a lost one is revoked and made anew."""


@app.command("add")
def add(
    name: Name,
    role: Annotated[
        str, typer.Option(help="read: look; submit: jobs too; admin: all.", metavar="read|submit|admin")
    ] = "submit",
    tenant: Annotated[str, typer.Option(help="Sees and submits only as this tenant. (default: sees all)")] = "",
    store: StoreUrl = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Create a token and print it, this once. Makes the store if there is none yet."""
    from equipoise.serve.access import check_name, check_role, digest, new_token

    check_role(role)
    check_name("token", name)
    if tenant:
        check_name("tenant", tenant)
    with store_at(store, create=True) as kept:
        from equipoise.serve.store import TokenRow

        rows = kept.tokens()
        if any(row.name == name for row in rows):
            raise InputError(f"there is a token {name!r} already; take another name, or: equipoise token revoke {name}")
        secret = new_token()
        row = TokenRow(name, digest(secret), role, tenant, time.time())
        kept.add_token(row)
        where = kept.shown
    if json:
        answer(_plain(row) | {"token": secret})
        return
    print(secret)  # alone on standard output: TOKEN=$(equipoise token add ...)
    whose = f", tenant {tenant}" if tenant else ""
    _note(f"{name}: {role}{whose}, in {where}. It is shown this once; give it to the client as EQUIPOISE_TOKEN")
    if role != "admin" and not any(other.role == "admin" for other in rows):
        _note("no token is admin yet: machines, prices and the clock need one; add it with --role admin")


@app.command("list")
def show(store: StoreUrl = DEFAULT_STORE, json: Json = False) -> None:
    """List the tokens by name; the tokens themselves are not kept."""
    with store_at(store) as kept:
        rows = kept.tokens()
    if json:
        answer({"tokens": [_plain(row) for row in rows]})
        return
    if not rows:
        print("no tokens: the service is open to this machine and closed to others")
        return
    from rich.console import Console

    table = table_of(("token", "role", "tenant", "created"), words=(0, 1, 2, 3))
    for row in rows:
        fill(table, row.name, row.role, row.tenant or "(all)", _plain(row)["created"])
    Console().print(table)


@app.command("revoke")
def revoke(name: Name, store: StoreUrl = DEFAULT_STORE, json: Json = False) -> None:
    """Revoke a token, and with it every browser that logged in by it."""
    with store_at(store) as kept:
        rows = kept.tokens()
        if not kept.remove_token(name):
            raise unknown_name("token", name, [row.name for row in rows])
    if json:
        answer({"removed": name})
        return
    print(f"{name} is revoked; a running server refuses it within two seconds")
    left = [row for row in rows if row.name != name]
    if not left:
        _note("no token is left: a server started now on this machine's own address is open to everyone on it")
    elif not any(row.role == "admin" for row in left):
        _note("no token left is admin: machines, prices and the clock need one; add it with --role admin")


def _plain(row: TokenRow) -> dict[str, Any]:
    created = datetime.fromtimestamp(row.created, UTC).isoformat(timespec="seconds")
    return {"name": row.name, "role": row.role, "tenant": row.tenant, "created": created}


def _note(text: str) -> None:
    print(text, file=sys.stderr)
