"""What commands of a running service share: --url, --token, --store, exit codes, and how jobs are shown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.output import complain, numbers, table_of
from equipoise.errors import InputError

if TYPE_CHECKING:
    from equipoise.present.values import Table
    from equipoise.serve.client import Client, ServiceError
    from equipoise.serve.models import JobStatus
    from equipoise.serve.store import Store

Url = Annotated[
    str | None,
    typer.Option("--url", help="The service. (default: EQUIPOISE_URL, else http://127.0.0.1:8321)", metavar="URL"),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token", help="Your token. (default: EQUIPOISE_TOKEN, where other users cannot see it)", metavar="TOKEN"
    ),
]
OPTIONS = {"url": Url, "token": Token}
Json = Annotated[bool, typer.Option("--json", help="Print only the answer, as JSON.")]

DEFAULT_STORE = "sqlite:///equipoise.db"
StoreUrl = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="EQUIPOISE_STORE",
        help="sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME",
        metavar="URL",
    ),
]
WHOLE = re.compile(r"^[+-]?\d{1,18}$", re.ASCII)
DECIMAL = re.compile(r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?$", re.ASCII)


@contextmanager
def service(url: str | None, token: str | None) -> Iterator[Client]:
    """A client; a failure of the service itself ends the command with 1, everything else with 2."""
    from equipoise.serve.client import Client, ServiceError

    with Client(url, token) as client:
        try:
            yield client
        except ServiceError as error:
            code = exit_code(error)
            if error.status == 401 and token is None:
                raise InputError(f"{error.message}; here: --token TOKEN, or EQUIPOISE_TOKEN") from None
            if code == 2:
                raise
            complain(str(error))
            raise typer.Exit(code) from None


def with_service(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command --url and --token; it receives the `client` of that service."""
    own = inspect.signature(command, eval_str=True, locals={"Client": object}).parameters
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(n, keyword, default=None, annotation=kind) for n, kind in OPTIONS.items()]
    words = [one.replace(kind=keyword) for name, one in own.items() if name not in ("client", "json")]
    last = [own["json"].replace(kind=keyword)] if "json" in own else []

    def run(url: str | None, token: str | None, **given: object) -> None:
        with service(url, token) as client:
            command(client=client, **given)

    run.__doc__ = command.__doc__
    run.__signature__ = inspect.Signature([*words, *added, *last])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in (*words, *added, *last)}
    return run


@contextmanager
def store_at(url: str, *, create: bool = False) -> Iterator[Store]:
    """The store without its lock; what the database complains of is one line, without its password."""
    from equipoise.serve.store import peek_store
    from equipoise.serve.store.database import plain_errors
    from equipoise.serve.store.open import read_address

    with peek_store(url, create=create) as store, plain_errors(read_address(url)):
        yield store


def exit_code(error: ServiceError) -> int:
    """1 when the service failed, or what was asked cannot be done now; 2 for bad input, not allowed, not reached."""
    return 1 if error.status >= 500 or error.status == 409 else 2


def value_of(text: str) -> int | float | str:
    """A number where it is one, else the text: quantities such as 16Gi are for the service to read."""
    if WHOLE.match(text):
        return int(text)
    return float(text) if DECIMAL.match(text) else text


def quantities(text: str, option: str) -> dict[str, int | float | str]:
    """gpu=1,cpu=4,memory=16Gi by resource."""
    out: dict[str, int | float | str] = {}
    for part in text.split(","):
        name, equals, amount = (word.strip() for word in part.partition("="))
        if not name or not equals or not amount:
            raise InputError(
                f"{option} {text!r}: {part.strip()!r} is no amount; expected such as gpu=1,cpu=4,memory=16Gi"
            )
        if name in out:
            raise InputError(f"{option} {text!r}: {name!r} is given twice; keep one")
        out[name] = value_of(amount)
    return out


def job_table(jobs: Sequence[JobStatus]) -> Table:
    """A row for each job; times in slots."""
    columns = ["id", "name", *(["tenant"] if any(job.tenant for job in jobs) else []), "state"]
    heads = [numbers("submitted", 2), numbers("start"), numbers("end"), numbers("workers", 3), numbers("worth", 1)]
    rows = []
    for job in jobs:
        words = {"id": job.id, "name": job.name, "tenant": job.tenant, "state": job.state}
        worth = None if job.worth is None else f"{job.worth:.4g}"
        end = job.finish if job.finish is not None else job.end
        figures = [job.submitted, job.start, end, job.workers or None, worth]
        rows.append([*(words[name] for name in columns), *figures, job.why])
    return table_of([*columns, *heads, "why"], rows)
