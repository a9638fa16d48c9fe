"""What the verbs that speak to a running service share: --url, --token, --json, exit codes, and how jobs are shown."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from equipoise.serve.client import Client, ServiceError
    from equipoise.serve.models import JobStatus

Url = Annotated[
    str | None,
    typer.Option("--url", help="The service. (default: EQUIPOISE_URL, else http://127.0.0.1:8321)", metavar="URL"),
]
Token = Annotated[
    str | None,
    typer.Option("--token", help="Who you are. (default: EQUIPOISE_TOKEN, which others cannot see)", metavar="TOKEN"),
]
Json = Annotated[bool, typer.Option("--json", help="Print only the answer, as JSON.")]

COLOURS = {"admitted": "green", "lent": "cyan", "pending": "yellow", "refused": "red", "up": "green", "down": "red"}
WHOLE = re.compile(r"^[+-]?\d{1,18}$", re.ASCII)
DECIMAL = re.compile(r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?$", re.ASCII)


def verb() -> typer.Typer:
    """The application of one verb."""
    return typer.Typer(
        pretty_exceptions_enable=False, add_completion=False, context_settings={"help_option_names": ["-h", "--help"]}
    )


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


def exit_code(error: ServiceError) -> int:
    """1 when the service failed, or what was asked cannot be done now; 2 for bad input, not allowed, not reached."""
    return 1 if error.status >= 500 or error.status == 409 else 2


def complain(message: str) -> None:
    print("error: " + " ".join(message.split()), file=sys.stderr)


def answer(content: Any, *, lines: bool = False) -> None:
    """Only JSON on standard output; on one line where more follow."""
    print(json.dumps(content, indent=None if lines else 2), flush=True)


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


# Tables. What others called their jobs is shown as text: no markup, nothing that steers a terminal.


def safe(words: object) -> str:
    return "".join(letter if letter.isprintable() else "·" for letter in str(words))


def table_of(heads: Sequence[str], words: Sequence[int] = (0,)) -> Table:
    """Columns of words to the left, of numbers to the right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for k, head in enumerate(heads):
        table.add_column(head, justify="left" if k in words else "right", overflow="fold")
    return table


def fill(table: Table, *cells: object, state: int | None = None) -> None:
    """A row; the cell number `state` in its colour."""
    from rich.text import Text

    shown = [Text("-" if cell is None or cell == "" else safe(cell)) for cell in cells]
    if state is not None:
        shown[state].stylize(COLOURS.get(str(cells[state]), ""))
    table.add_row(*shown)


def amount(units: Any) -> str:
    """4.0 as 4; bytes as 16Gi."""
    if not isinstance(units, int | float):
        return safe(units)
    return f"{units / 2**30:,.4g}Gi" if units >= 2**27 else f"{units:g}"


def show(*what: object) -> None:
    from rich.console import Console

    Console(highlight=False).print(*what)


def job_table(jobs: Sequence[JobStatus]) -> Table:
    """A row for each job; times in slots."""
    tenants = any(job.tenant for job in jobs)
    heads = ["id", "name", "tenant", "state", "sub-\nmitted", "start", "end", "work-\ners", "worth", "why"]
    shown = [k for k in range(len(heads)) if tenants or k != 2]
    table = table_of([heads[k] for k in shown], [shown.index(k) for k in (0, 1, 2, 3, 9) if k in shown])
    for job in jobs:
        worth = None if job.worth is None else f"{job.worth:.4g}"
        end = job.finish if job.finish is not None else job.end
        cells = [
            job.id,
            job.name,
            job.tenant,
            job.state,
            job.submitted,
            job.start,
            end,
            job.workers or None,
            worth,
            job.why,
        ]
        fill(table, *(cells[k] for k in shown), state=shown.index(3))
    return table
