"""equipoise jobs: what a running service knows, newest first."""

from __future__ import annotations

from typing import Annotated

import typer

from equipoise.cli.service_options import Json, Token, Url, answer, job_table, service, show, verb
from equipoise.errors import unknown_name

app = verb()
STATES = ("admitted", "lent", "pending", "refused", "finished", "cancelled")


@app.command()
def jobs(
    state: Annotated[str | None, typer.Option(help=f"Only these: {', '.join(STATES)}.", metavar="STATE")] = None,
    name: Annotated[str | None, typer.Option(help="Only jobs with this in their name.", metavar="TEXT")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = 30,
    oldest: Annotated[bool, typer.Option("--oldest", help="Oldest first.")] = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """List jobs; times are in slots. Exit 0 fine, 1 the service failed, 2 bad input, not allowed or no service there."""
    if state is not None and state not in STATES:
        raise unknown_name("state", state, STATES)
    from itertools import islice

    with service(url, token) as client:
        order = "oldest" if oldest else "newest"
        every = client.jobs(state=state, name=name, tenant=tenant, order=order, page=min(limit + 1, 100))
        found = list(islice(every, limit + 1))
        now = None if json else client.status().get("now")
    more, found = len(found) > limit, found[:limit]
    if json:
        answer({"jobs": [job.as_dict() for job in found], "more": more})
        return
    if found:
        show(job_table(found))
    print(f"now is slot {now}" + ("; there are more (--limit)" if more else "" if found else "; no such job"))
