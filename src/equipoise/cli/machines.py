"""equipoise machines: the cluster of a running service; add machines, drain them, take them down and up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.service_options import (
    Json,
    Token,
    Url,
    amount,
    answer,
    fill,
    quantities,
    safe,
    service,
    show,
    table_of,
    verb,
)
from equipoise.errors import InputError

if TYPE_CHECKING:
    from equipoise.serve.models import MachineStatus

app = verb()
Name = Annotated[str, typer.Argument(help="The name of a machine.", metavar="NAME")]


@app.callback(invoke_without_command=True, subcommand_metavar="[COMMAND]")
def machines(context: typer.Context, url: Url = None, token: Token = None, json: Json = False) -> None:
    """List the machines, with what is used in this slot; or change them.

    Exit 0 fine, 1 the service failed or cannot do it now, 2 bad input, not allowed, or no service there.

    Changes need a token with the role admin.
    """
    if context.invoked_subcommand is not None:
        if url is not None or token is not None or json:
            raise InputError(
                f"options stand after the command: equipoise machines {context.invoked_subcommand} [OPTIONS]"
            )
        return
    with service(url, token) as client:
        cluster = client.cluster()
    if json:
        answer(cluster.as_dict() | {"machines": [machine.as_dict() for machine in cluster.machines]})
        return
    show(_table(cluster.machines, cluster.resources))
    print(f"now is slot {cluster.now} of {cluster.slot_seconds:g} s, {cluster.clock} clock")


@app.command("add")
def add(
    name: Name,
    capacity: Annotated[str, typer.Option(help="What it has.", metavar="gpu=8,cpu=64,memory=512Gi")],
    count: Annotated[int, typer.Option(help="So many equal ones.", min=1)] = 1,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Add machines; the next decision may use them."""
    amounts = quantities(capacity, "--capacity")
    with service(url, token) as client:
        added = client.add_machine(name, amounts, count)
    if json:
        answer({"machines": [machine.as_dict() for machine in added]})
    else:
        show(_table(added, list(amounts)))


def _change(what: str, name: str, url: str | None, token: str | None, json: bool) -> None:
    with service(url, token) as client:
        told: dict[str, Any] = getattr(client, what)(name)
    if json:
        answer(told)
        return
    machine, again, lost = told.get("machine", {}), told.get("replanned", []), told.get("displaced", [])
    print(safe(f"{machine.get('name', name)}: {machine.get('status', what)}"))
    if again:
        print(
            safe(f"{len(again):,} jobs have a new plan: {', '.join(map(str, again[:10]))}")
            + (" ..." if again[10:] else "")
        )
    if lost:
        table = table_of(["job", "displaced: reason"], (0, 1))
        for row in lost:
            fill(table, row.get("job"), row.get("reason"))
        show(table)


@app.command("drain")
def drain(name: Name, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Plan nothing new on a machine."""
    _change("drain", name, url, token, json)


@app.command("down")
def down(name: Name, url: Url = None, token: Token = None, json: Json = False) -> None:
    """A machine is lost: what was planned there is planned anew."""
    _change("down", name, url, token, json)


@app.command("up")
def up(name: Name, url: Url = None, token: Token = None, json: Json = False) -> None:
    """A machine is back."""
    _change("up", name, url, token, json)


def _table(machines: list[MachineStatus], resources: list[str]) -> Any:
    """A row for each: used of capacity."""
    table = table_of(["machine", "status", *map(safe, resources)], (0, 1))
    for machine in machines:
        amounts = [_part(machine.used.get(name), machine.capacity.get(name)) for name in resources]
        fill(table, machine.name, machine.status, *amounts, state=1)
    return table


def _part(used: Any, whole: Any) -> str | None:
    """ "2 of 8"; bytes as GiB."""
    if whole is None:
        return None
    return f"{amount(used or 0)} of {amount(whole)}"
