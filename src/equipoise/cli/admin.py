"""equipoise admin: who may do what, quotas, machines, prices and the clock of a service."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.options import application, has_command
from equipoise.cli.output import amount, answer, numbers, safe, show, table_of
from equipoise.cli.service import DEFAULT_STORE, Json, StoreUrl, quantities, store_at, with_service
from equipoise.cli.shadow import shadow
from equipoise.errors import InputError, unknown_name

if TYPE_CHECKING:
    from equipoise.present.values import Table
    from equipoise.serve.client import Client
    from equipoise.serve.models import MachineStatus
    from equipoise.serve.store import TenantRow

app = application()
token_app, tenant_app = application(), application()
machines_app, prices_app = application(), application()
token_app.info.no_args_is_help = tenant_app.info.no_args_is_help = app.info.no_args_is_help = True
app.add_typer(token_app, name="token")
app.add_typer(tenant_app, name="tenant")
app.add_typer(machines_app, name="machines")
app.add_typer(prices_app, name="prices")
app.command("shadow")(shadow)
TokenName = Annotated[str, typer.Argument(help="What the token is called, in lists and logs.", metavar="NAME")]
TenantName = Annotated[str, typer.Argument(help="The tenant, as tokens name it.", metavar="NAME")]
MachineName = Annotated[str, typer.Argument(help="The name of a machine.", metavar="NAME")]
Ratio = Annotated[float, typer.Option(help="A full machine's price over an empty one's.", min=1.0)]


@app.callback()
def admin() -> None:
    """Run a service: tokens and tenants in its store; machines, prices and the clock while it runs.

    Exit 0 fine, 1 the service failed or cannot do it now, 2 bad input, not allowed, or no service there.
    """


@token_app.callback()
def token() -> None:
    """Tokens: read < submit < admin. Only digests are stored: revoke a lost one and add a new one."""


@token_app.command("add")
def add_token(
    name: TokenName,
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
            raise InputError(
                f"there is a token {name!r} already; take another name, or: equipoise admin token revoke {name}"
            )
        secret = new_token()
        row = TokenRow(name, digest(secret), role, tenant, time.time())
        kept.add_token(row)
        where = kept.shown
    if json:
        answer(row.as_dict() | {"token": secret})
        return
    print(secret)  # alone on standard output: TOKEN=$(equipoise admin token add ...)
    whose = f", tenant {tenant}" if tenant else ""
    _note(f"{name}: {role}{whose}, in {where}. It is shown this once; give it to the client as EQUIPOISE_TOKEN")
    if role != "admin" and not any(other.role == "admin" for other in rows):
        _note("no token is admin yet: machines, prices and the clock need one; add it with --role admin")


@token_app.command("list")
def list_tokens(store: StoreUrl = DEFAULT_STORE, json: Json = False) -> None:
    """List the tokens by name; the tokens themselves are not kept."""
    with store_at(store) as kept:
        rows = kept.tokens()
    if json:
        answer({"tokens": [row.as_dict() for row in rows]})
        return
    if not rows:
        print("no tokens: the service is open to this machine and closed to others")
        return
    shown = [[row.name, row.role, row.tenant or "(all)", row.as_dict()["created"]] for row in rows]
    show(table_of(("token", "role", "tenant", "created"), shown))


@token_app.command("revoke")
def revoke_token(name: TokenName, store: StoreUrl = DEFAULT_STORE, json: Json = False) -> None:
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


def _note(text: str) -> None:
    print(text, file=sys.stderr)


@tenant_app.callback()
def tenant() -> None:
    """Quotas of tenants. A tenant that has none is not limited."""


@tenant_app.command("set")
def set_tenant(
    name: TenantName,
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
    from equipoise.serve.access import check_name, check_resources, in_units, read_quota
    from equipoise.serve.replay import resources_kept

    check_name("tenant", name)
    amounts = read_quota(dict(quantities(",".join(quota), "--quota")) if quota else {})
    with store_at(store, create=True) as kept:
        from equipoise.serve.store import TenantRow

        row = TenantRow(name, amounts)
        check_resources(amounts, resources_kept(kept))
        kept.put_tenant(row)
    if json:
        answer({"name": row.name, "quota": in_units(row.quota)})
    else:
        print(f"{name}: {_quota_text(row) or 'no limit'}")


@tenant_app.command("list")
def list_tenants(store: StoreUrl = DEFAULT_STORE, json: Json = False) -> None:
    """List the tenants that have a quota."""
    from equipoise.serve.access import in_units

    with store_at(store) as kept:
        rows = kept.tenants()
    if json:
        answer({"tenants": [{"name": row.name, "quota": in_units(row.quota)} for row in rows]})
        return
    if not rows:
        print("no tenant has a quota")
        return
    show(table_of(("tenant", "quota"), [[row.name, _quota_text(row) or "no limit"] for row in rows]))


@tenant_app.command("remove")
def remove_tenant(name: TenantName, store: StoreUrl = DEFAULT_STORE, json: Json = False) -> None:
    """Remove a tenant's quota: it has no limit from then on. Its jobs and tokens stay."""
    with store_at(store) as kept:
        names = [row.name for row in kept.tenants()]
        if not kept.remove_tenant(name):
            raise unknown_name("tenant", name, names)
    if json:
        answer({"removed": name})
    else:
        print(f"{name} has no limit any more")


def _quota_text(row: TenantRow) -> str:
    from equipoise import units
    from equipoise.serve.access import JOBS

    return ", ".join(f"{key}={n if key == JOBS else units.show(n)}" for key, n in row.quota.items())


@machines_app.callback(invoke_without_command=True, subcommand_metavar="[COMMAND]")
@with_service
def machines(context: typer.Context, client: Client, json: Json = False) -> None:
    """List the machines, with what is used in this slot; or change them.

    Exit 0 fine, 1 the service failed or cannot do it now, 2 bad input, not allowed, or no service there.

    Changes need a token with the role admin.
    """
    if has_command(context):
        return
    cluster = client.cluster()
    if json:
        answer(cluster.as_dict() | {"machines": [machine.as_dict() for machine in cluster.machines]})
        return
    show(_machine_table(cluster.machines, cluster.resources))
    print(f"now is slot {cluster.now} of {cluster.slot_seconds:g} s, {cluster.clock} clock")


@machines_app.command("add")
@with_service
def add_machine(
    client: Client,
    name: MachineName,
    capacity: Annotated[str, typer.Option(help="What it has.", metavar="gpu=8,cpu=64,memory=512Gi")],
    count: Annotated[int, typer.Option(help="How many equal machines.", min=1)] = 1,
    json: Json = False,
) -> None:
    """Add machines; the next decision may use them."""
    amounts = quantities(capacity, "--capacity")
    added = client.add_machine(name, amounts, count)
    if json:
        answer({"machines": [machine.as_dict() for machine in added]})
    else:
        show(_machine_table(added, list(amounts)))


def _changed(told: dict[str, Any], name: str, what: str, json: bool) -> None:
    if json:
        answer(told)
        return
    machine, again, lost = told.get("machine", {}), told.get("replanned", []), told.get("displaced", [])
    print(safe(f"{machine.get('name', name)}: {machine.get('status', what)}"))
    if again:
        more = " ..." if again[10:] else ""
        print(safe(f"{len(again):,} jobs have a new plan: {', '.join(map(str, again[:10]))}{more}"))
    if lost:
        show(table_of(["job", "displaced: reason"], [[row.get("job"), row.get("reason")] for row in lost]))


@machines_app.command("drain")
@with_service
def drain(client: Client, name: MachineName, json: Json = False) -> None:
    """Plan nothing new on a machine."""
    _changed(client.drain(name), name, "drain", json)


@machines_app.command("down")
@with_service
def down(client: Client, name: MachineName, json: Json = False) -> None:
    """A machine is lost: what was planned there is planned anew."""
    _changed(client.down(name), name, "down", json)


@machines_app.command("up")
@with_service
def up(client: Client, name: MachineName, json: Json = False) -> None:
    """A machine is back."""
    _changed(client.up(name), name, "up", json)


def _machine_table(machines: Sequence[MachineStatus], resources: Sequence[str]) -> Table:
    """A row for each: used of capacity."""
    amounts = [numbers(safe(name), drop) for drop, name in enumerate(resources)]
    rows = [
        [machine.name, machine.status, *(_part(machine.used.get(r), machine.capacity.get(r)) for r in resources)]
        for machine in machines
    ]
    return table_of(["machine", "status", *amounts], rows)


def _part(used: object, whole: object) -> str | None:
    """ "2 of 8"; bytes as GiB."""
    if whole is None:
        return None
    return f"{amount(used or 0)} of {amount(whole)}"


@prices_app.callback(invoke_without_command=True, subcommand_metavar="[COMMAND]")
@with_service
def prices(context: typer.Context, client: Client, json: Json = False) -> None:
    """Show prices, mean over machines: utility per unit and slot; or change them.

    Exit 0 fine, 1 the service failed or cannot do it now, 2 bad input, not allowed, or no service there.

    A job is promised when finishing it is worth more than its cheapest schedule costs.

    At no price whatever fits is promised, first come first served.
    """
    if has_command(context):
        return
    told = client.prices()
    if json:
        answer(told)
        return
    ahead = [k for k in (0, 1, 6, 24, 72) if k < len(told["slots"])]
    rows = [[name, *(f"{told['mean'][name][k]:.4g}" for k in ahead)] for name in told["resources"]]
    show(table_of(["resource", *(numbers(f"slot {told['slots'][k]}", k) for k in ahead)], rows))


@prices_app.command("set")
@with_service
def set_prices(
    client: Client,
    base: Annotated[
        str, typer.Argument(help="Utility per unit and slot on an empty machine.", metavar="gpu=0.5,cpu=0.01")
    ],
    ratio: Ratio = 10.0,
) -> None:
    """Set prices; jobs promised before keep their promise. Needs the role admin."""
    amounts = quantities(base, "BASE")
    for name, price in amounts.items():
        if isinstance(price, str):
            raise InputError(f"BASE: the price of {name} is {price!r}; expected a number")
    client.set_prices({name: float(price) for name, price in amounts.items()}, ratio)


@prices_app.command("calibrate")
@with_service
def calibrate(
    client: Client,
    history: Annotated[
        Path | None, typer.Option(help="Past jobs (YAML, JSON, CSV). (default: those the service was asked for)")
    ] = None,
    slots: Annotated[int | None, typer.Option(help="Learn only from the last slots, this many.", min=1)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what was found, and change nothing.")] = False,
    json: Json = False,
) -> None:
    """Replay past jobs at many prices, here and not in the service; post those that earned most. Needs the role admin."""
    from dataclasses import asdict

    from equipoise.cli.output import metered
    from equipoise.place.files import read_jobs
    from equipoise.serve import calibrate as calibrating

    if history is None:
        cluster, jobs, horizon = calibrating.past(client, slots)
    else:
        about = client.cluster()
        cluster, horizon = calibrating.machines_of(about), about.horizon
        jobs = read_jobs(history, cluster, about.slot_seconds)
    with metered("replaying the past", "price", None, quiet=json) as meter:
        found = calibrating.calibrate(cluster, jobs, horizon, meter.show)
    if not dry_run:
        client.set_prices(found.base, found.ratio)
    if json:
        answer(asdict(found) | {"set": not dry_run})
        return
    gain = f"{found.utility / found.utility_free - 1:+.1%}" if found.utility_free > 0 else "-"
    replayed = f"{found.utility:,.4g} when replayed at these prices, {found.utility_free:,.4g} at none ({gain})"
    print(f"{found.jobs:,} past jobs earn {replayed}")
    print(", ".join(f"{name} {price:.4g}" for name, price in found.base.items()) + f"; x {found.ratio:g} when full")
    print("not set" if dry_run else "set")


@app.command("clock")
@with_service
def clock(
    client: Client,
    advance: Annotated[int | None, typer.Option(help="Move on by this many slots.", min=1)] = None,
    to: Annotated[int | None, typer.Option(help="Move on to this slot.", min=0)] = None,
    json: Json = False,
) -> None:
    """Show the current slot, or move a virtual clock on, which needs the role admin.

    Exit 0 fine, 1 the clock is real or the service failed, 2 bad input, not allowed, or no service there.
    """
    if advance is not None and to is not None:
        raise InputError("--advance and --to are both given; keep one")
    if advance is not None or to is not None:
        client.advance(advance or 1, to=to)
    cluster = client.cluster()
    if json:
        answer({"now": cluster.now, "clock": cluster.clock, "slot_seconds": cluster.slot_seconds})
    else:
        print(f"slot {cluster.now} of {cluster.slot_seconds:g} s, {cluster.clock} clock")
