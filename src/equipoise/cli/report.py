"""equipoise report: what a job says of itself: how far it is, or that it is done."""

from __future__ import annotations

from typing import Annotated

import typer

from equipoise.cli.service_options import Json, Token, Url, answer, safe, service, verb
from equipoise.errors import InputError

app = verb()


@app.command()
def report(
    id: Annotated[str, typer.Argument(help="The id of a job, such as j17.", metavar="ID")],
    done: Annotated[
        float | None, typer.Option(help="So many samples (worker-slots, in the short form).", min=0.0)
    ] = None,
    percent: Annotated[float | None, typer.Option(help="So much of its work.", min=0.0, max=100.0)] = None,
    finished: Annotated[bool, typer.Option("--finished", help="It is done, early or late.")] = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Tell the service how far a job is, from the script that runs it. A late one is planned again at its measured pace.

    Exit 0 fine, 1 the job is over already or the service failed, 2 bad input, not allowed, or no service there.
    """
    if (done is not None) + (percent is not None) + finished != 1:
        raise InputError("say one of --done SAMPLES, --percent PERCENT and --finished")
    with service(url, token) as client:
        if finished:
            job = client.finish(id)
        elif percent is not None:
            job = client.progress(id, fraction=percent / 100.0)
        else:
            job = client.progress(id, done=done)
    if json:
        answer(job.as_dict())
    else:
        print(safe(f"{job.id} {job.name}".strip()) + f": {safe(job.why)}")
