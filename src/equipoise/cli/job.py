"""equipoise job: one job of a running service, why it was decided so, and what happened to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.service_options import (
    COLOURS,
    Json,
    Token,
    Url,
    amount,
    answer,
    fill,
    safe,
    service,
    show,
    table_of,
    verb,
)

if TYPE_CHECKING:
    from equipoise.serve.models import JobStatus

app = verb()


@app.command()
def job(
    id: Annotated[str, typer.Argument(help="The id of a job, such as j17.", metavar="ID")],
    explain: Annotated[bool, typer.Option("--explain", help="Why: the prices it met, when it would fit.")] = False,
    history: Annotated[bool, typer.Option("--history", help="Everything that happened to it.")] = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Show a job; times are in slots. Exit 0 fine, 1 the service failed, 2 no such job, not allowed or no service."""
    with service(url, token) as client:
        found = client.job(id)
        why = client.explain(id) if explain else None
        events = client.history(id) if history else None
    if json:
        told: dict[str, Any] = found.as_dict()
        told |= {} if why is None else {"explain": why}
        told |= {} if events is None else {"history": [event.as_dict() for event in events]}
        answer(told)
        return
    show(_sheet(found))
    if why is not None:
        print("\n" + "\n".join(safe(line) for line in str(why.get("text", "")).splitlines()))
    if events is not None:
        table = table_of(["event", "slot", "kind", "what happened"], (2, 3))
        for event in events:
            fill(table, event.seq, event.slot, event.kind, event.text)
        show("", table)


def _sheet(job: JobStatus) -> Any:
    """What is known of it, a line each; what is not known is left out."""
    from rich.table import Table
    from rich.text import Text

    when = f" ({job.starts_at} to {job.ends_at})" if job.starts_at and job.ends_at else ""
    plan = None if job.start is None else f"slots {job.start} to {job.end}{when}, at most {job.workers} workers at once"
    share = f" ({100 * job.done / job.work:.0f} %)" if job.done is not None and job.work else ""
    lines = {
        "job": job.id,
        "name": job.name,
        "tenant": job.tenant,
        "state": job.state,
        "why": job.why,
        "submitted": f"slot {job.submitted}" + (f", {job.at}" if job.at else ""),
        "plan": plan,
        "machines": ", ".join(job.machines),
        "finished": None if job.finish is None else f"slot {job.finish}",
        "each worker": ", ".join(f"{amount(units)} {name}" for name, units in job.worker.items()),
        "work done": None if job.done is None else f"{job.done:,.6g} of {job.work or 0:,.6g}{share}",
        "worth": None if job.worth is None else f"{job.worth:.6g}",
        "cost": None if job.cost is None else f"{job.cost:.6g}",
    }
    table = Table.grid(padding=(0, 2))
    for name, value in lines.items():
        if value not in (None, ""):
            table.add_row(Text(name, style="dim"), Text(safe(value), style=COLOURS.get(str(value), "")))
    return table
