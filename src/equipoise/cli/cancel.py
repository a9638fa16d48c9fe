"""equipoise cancel: end jobs of a running service."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from equipoise.cli.service_options import Json, Token, Url, answer, complain, exit_code, safe, service, verb

app = verb()


@app.command()
def cancel(
    ids: Annotated[list[str], typer.Argument(help="The ids of jobs, such as j17.", metavar="ID...")],
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Cancel jobs; each is tried, whatever becomes of the others.

    Exit 0: all are cancelled.

    Exit 1: one was over already, or the service failed.

    Exit 2: no such job, not allowed, or no service there.
    """
    from equipoise.serve.client import ServiceError

    cancelled: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    code = 0
    with service(url, token) as client:
        for id in dict.fromkeys(ids):
            try:
                job = client.cancel(id)
            except ServiceError as error:
                if error.status == 0:
                    raise
                errors.append({"job": id, "status": error.status, "error": error.message})
                complain(f"{id}: {error.message}")
                code = max(code, exit_code(error))
            else:
                cancelled.append(job.as_dict())
                if not json:
                    print(safe(f"{job.id} {job.name}".strip()) + f": {job.state}")
    if json:
        answer({"jobs": cancelled, "errors": errors})
    raise typer.Exit(code)
