"""equipoise tenant: what a tenant may use at once. Written to the store; holds for jobs decided from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.service_options import Json, answer, fill, table_of, verb
from equipoise.cli.store_options import DEFAULT_STORE, StoreUrl, store_at
from equipoise.errors import InputError, unknown_name

if TYPE_CHECKING:
    from equipoise.serve.store import TenantRow

app = verb()
app.info.no_args_is_help = True
Name = Annotated[str, typer.Argument(help="The tenant, as tokens name it.", metavar="NAME")]


@app.callback()
def tenant() -> None:
    """Quotas of tenants. A tenant that has none is not limited."""


@app.command("set")
def put(
    name: Name,
    quota: Annotated[
        list[str] | None,
        typer.Option(
            help="gpu=16, memory=1Ti, or jobs=50: a count of unfinished jobs; may be repeated. (default: no limit)",
            metavar="NAME=AMOUNT",
        ),
    ] = None,
    store: StoreUrl = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Set a tenant's quota, in place of an older one. Makes the store if there is none yet."""
    from equipoise.serve.access import check_name, check_resources, read_quota
    from equipoise.serve.replay import resources_kept

    check_name("tenant", name)
    amounts = read_quota(_amounts(quota or []))
    with store_at(store, create=True) as kept:
        from equipoise.serve.store import TenantRow

        row = TenantRow(name, amounts)
        check_resources(amounts, resources_kept(kept))
        kept.put_tenant(row)
    if json:
        answer(_plain(row))
    else:
        print(f"{name}: {_said(row) or 'no limit'}")


@app.command("list")
def show(store: StoreUrl = DEFAULT_STORE, json: Json = False) -> None:
    """List the tenants that have a quota."""
    with store_at(store) as kept:
        rows = kept.tenants()
    if json:
        answer({"tenants": [_plain(row) for row in rows]})
        return
    if not rows:
        print("no tenant has a quota")
        return
    from rich.console import Console

    table = table_of(("tenant", "quota"), words=(0, 1))
    for row in rows:
        fill(table, row.name, _said(row) or "no limit")
    Console().print(table)


@app.command("remove")
def remove(name: Name, store: StoreUrl = DEFAULT_STORE, json: Json = False) -> None:
    """Remove a tenant's quota: it has no limit from then on. Its jobs and tokens stay."""
    with store_at(store) as kept:
        names = [row.name for row in kept.tenants()]
        if not kept.remove_tenant(name):
            raise unknown_name("tenant", name, names)
    if json:
        answer({"removed": name})
    else:
        print(f"{name} has no limit any more")


def _amounts(given: list[str]) -> dict[str, object]:
    amounts: dict[str, object] = {}
    for part in given:
        name, equals, amount = (word.strip() for word in part.partition("="))
        if not (name and equals and amount):
            raise InputError(f"--quota {part!r} is no amount; expected such as gpu=16, memory=1Ti or jobs=50")
        if name in amounts:
            raise InputError(f"--quota {name} is given twice; keep one")
        amounts[name] = amount
    return amounts


def _plain(row: TenantRow) -> dict[str, Any]:
    from equipoise.serve.access import JOBS
    from equipoise.units import MILLI

    return {"name": row.name, "quota": {key: n if key == JOBS else n / MILLI for key, n in row.quota.items()}}


def _said(row: TenantRow) -> str:
    from equipoise import units
    from equipoise.serve.access import JOBS

    return ", ".join(f"{key}={n if key == JOBS else units.show(n)}" for key, n in row.quota.items())
