"""equipoise prices: what a running service charges; set it, or learn it from the jobs of the past."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.service_options import Json, Token, Url, answer, fill, quantities, service, show, table_of, verb
from equipoise.errors import InputError

app = verb()
Ratio = Annotated[float, typer.Option(help="A full machine's price over an empty one's.", min=1.0)]


@app.callback(invoke_without_command=True, subcommand_metavar="[COMMAND]")
def prices(context: typer.Context, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Show prices, mean over machines: utility per unit and slot; or change them.

    Exit 0 fine, 1 the service failed or cannot do it now, 2 bad input, not allowed, or no service there.

    A job is promised when finishing it is worth more than its cheapest schedule costs. At no price whatever fits is
    promised, first come first served.
    """
    if context.invoked_subcommand is not None:
        if url is not None or token is not None or json:
            raise InputError(
                f"options stand after the command: equipoise prices {context.invoked_subcommand} [OPTIONS]"
            )
        return
    with service(url, token) as client:
        told = client.prices()
    if json:
        answer(told)
        return
    ahead = [k for k in (0, 1, 6, 24, 72) if k < len(told["slots"])]
    table = table_of(["resource", *(f"slot {told['slots'][k]}" for k in ahead)])
    for resource in told["resources"]:
        fill(table, resource, *(f"{told['mean'][resource][k]:.4g}" for k in ahead))
    show(table)


@app.command("set")
def set_(
    base: Annotated[
        str, typer.Argument(help="Utility per unit and slot on an empty machine.", metavar="gpu=0.5,cpu=0.01")
    ],
    ratio: Ratio = 10.0,
    url: Url = None,
    token: Token = None,
) -> None:
    """Set prices; jobs promised before keep their promise. Needs the role admin."""
    amounts = quantities(base, "BASE")
    for name, price in amounts.items():
        if isinstance(price, str):
            raise InputError(f"BASE: the price of {name} is {price!r}; expected a number")
    with service(url, token) as client:
        client.set_prices({name: float(price) for name, price in amounts.items()}, ratio)


@app.command("calibrate")
def calibrate(
    history: Annotated[
        Path | None, typer.Option(help="Past jobs (YAML, JSON, CSV). (default: those the service was asked for)")
    ] = None,
    slots: Annotated[int | None, typer.Option(help="Learn from so many slots back only.", min=1)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what was found, and change nothing.")] = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Replay past jobs at many prices, here and not in the service; post those that earned most. Needs the role admin."""
    from dataclasses import asdict

    from equipoise.cli.progress import metered
    from equipoise.place import read
    from equipoise.serve import calibrate as calibrating

    with service(url, token) as client:
        if history is None:
            cluster, jobs, horizon = calibrating.past(client, slots)
        else:
            about = client.cluster()
            cluster, horizon = calibrating.machines_of(about), about.horizon
            jobs = read.jobs(history, cluster, about.slot_seconds)
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
