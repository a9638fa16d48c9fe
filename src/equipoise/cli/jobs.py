"""equipoise jobs: submit jobs to a running service, list and show them, cancel them, say how far they are."""

from __future__ import annotations

import sys
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.options import application
from equipoise.cli.output import amount, answer, complain, numbers, safe, show, table_of
from equipoise.cli.service import DECIMAL, Json, exit_code, job_table, quantities, value_of, with_service
from equipoise.errors import InputError, unknown_name

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from equipoise.serve.client import Client
    from equipoise.serve.models import JobStatus

app = application(default="list")
STATES = ("admitted", "lent", "pending", "refused", "finished", "cancelled")
PANEL = "One job, without a file"
TEXTS = ("name", "user", "tags")  # never read as numbers
Id = Annotated[str, typer.Argument(help="The id of a job, such as j17.", metavar="ID")]


@app.callback()
def jobs() -> None:
    """Jobs of a running service. Without a command: list them.

    Exit 0 fine, 1 the service failed or cannot do it now, 2 bad input, not allowed, or no service there.
    """


@app.command("submit")
@with_service
def submit(
    client: Client,
    file: Annotated[
        str | None,
        typer.Argument(help="One job, or many under `jobs:`; YAML or JSON, - for standard input.", metavar="FILE"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be decided; nothing is stored.")] = False,
    key: Annotated[
        str | None, typer.Option(help="Names this submission: sent again with the same key, no job is added twice.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Return once the jobs are over.")] = False,
    timeout: Annotated[float | None, typer.Option(help="Wait at most this many seconds.", min=0, metavar="S")] = None,
    name: Annotated[str | None, typer.Option(help="What you call it.", rich_help_panel=PANEL)] = None,
    workers: Annotated[int | None, typer.Option(help="Workers at once, at most.", min=1, rich_help_panel=PANEL)] = None,
    worker: Annotated[
        str | None,
        typer.Option(help="What each worker needs.", metavar="gpu=1,cpu=4,memory=16Gi", rich_help_panel=PANEL),
    ] = None,
    duration: Annotated[
        str | None, typer.Option(help="How long it runs with that many workers.", metavar="2h", rich_help_panel=PANEL)
    ] = None,
    value: Annotated[
        float | None, typer.Option(help="What it is worth when it finishes.", rich_help_panel=PANEL)
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(help="Worth nothing after this time.", metavar="24h", rich_help_panel=PANEL)
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant of the jobs, when the token has none.")] = None,
    json: Json = False,
) -> None:
    """Submit jobs and print what was decided.

    Exit 0: every job was taken (admitted, lent or pending; with --wait finished).

    Exit 1: one was refused, or with --wait did not finish, or the service failed.

    Exit 2: bad input, not allowed, or no service there.
    """
    short = {
        "name": name,
        "workers": workers,
        "duration": duration,
        "value": value,
        "deadline": deadline,
        "worker": None if worker is None else quantities(worker, "--worker"),
    }
    given = {field: amount for field, amount in short.items() if amount is not None}
    if dry_run and wait:
        raise InputError("--dry-run and --wait are both given; keep one: what is not stored never ends")
    if timeout is not None and not wait:
        raise InputError(f"--timeout {timeout:g} has no effect without --wait")
    if file is not None:
        if given:
            raise InputError(f"a file and --{next(iter(given))} are both given; keep one: say it in the file")
        jobs, many, slot = read_jobs(file)
    else:
        missing = [f"--{field}" for field in ("worker", "duration") if field not in given]
        if missing:
            raise InputError(f"no FILE and no {missing[0]}; expected a file, or --worker gpu=1,cpu=4 --duration 2h")
        jobs, many, slot = [given], False, None
    keys = [f"{key}-{n}" if key is not None and many else key for n in range(1, len(jobs) + 1)]
    if slot is not None:
        _same_slot(slot, client.cluster().slot_seconds)
    done, code = _sent(client, jobs, keys, dry_run, tenant)
    if wait and not code:
        code = _awaited(client, done, timeout)
    if json and (many or done):
        answer({"jobs": [job.as_dict() for job in done]} if many else done[0].as_dict())
    elif done:
        show(job_table(done))
        if dry_run:
            print("dry run: nothing was stored")
    raise typer.Exit(code or (1 if any(job.state in ("refused", "cancelled") for job in done) else 0))


def _sent(
    client: Client, jobs: list[dict[str, Any]], keys: list[str | None], dry_run: bool, tenant: str | None
) -> tuple[list[JobStatus], int]:
    """Submit one after the other. A bad one ends it; those before it stay submitted, and are shown."""
    from equipoise.serve.client import ServiceError

    done: list[JobStatus] = []
    for job, key in zip(jobs, keys, strict=True):
        try:
            done.append(client.submit(job, key=key, dry_run=dry_run, tenant=tenant))
        except ServiceError as error:
            which = f"job {len(done) + 1} of {len(jobs)}: " if len(jobs) > 1 else ""
            complain(f"{which}{error}")
            return done, exit_code(error)
    return done, 0


def _awaited(client: Client, done: list[JobStatus], timeout: float | None) -> int:
    """Put each job's end in its place."""
    until = None if timeout is None else time.monotonic() + timeout
    for n, job in enumerate(done):
        try:
            done[n] = client.wait(job.id, None if until is None else max(0.0, until - time.monotonic()))
        except TimeoutError as error:
            complain(str(error))
            return 1
    return 0


def _same_slot(given: object, seconds: float) -> None:
    """Worths in a file may be told in slots, which mean something else where slots are longer."""
    from equipoise import units

    if units.seconds(given, "slot") != seconds:
        raise InputError(f"the file's slot is {given}, the service's {seconds:g} s; tell times with units, and no slot")


@app.command("list")
@with_service
def list_(
    client: Client,
    state: Annotated[str | None, typer.Option(help=f"Only these: {', '.join(STATES)}.", metavar="STATE")] = None,
    name: Annotated[str | None, typer.Option(help="Only jobs with this in their name.", metavar="TEXT")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many jobs.", min=1)] = 30,
    oldest: Annotated[bool, typer.Option("--oldest", help="Oldest first.")] = False,
    json: Json = False,
) -> None:
    """List jobs; times are in slots.

    Exit 0 fine, 1 the service failed, 2 bad input, not allowed or no service there.
    """
    if state is not None and state not in STATES:
        raise unknown_name("state", state, STATES)
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


@app.command("show")
@with_service
def show_(
    client: Client,
    id: Id,
    explain: Annotated[bool, typer.Option("--explain", help="Why: the prices it met, when it would fit.")] = False,
    history: Annotated[bool, typer.Option("--history", help="Everything that happened to it.")] = False,
    json: Json = False,
) -> None:
    """Show a job; times are in slots.

    Exit 0 fine, 1 the service failed, 2 no such job, not allowed or no service there.
    """
    found = client.job(id)
    why = client.explain(id) if explain else None
    events = client.history(id) if history else None
    if json:
        told: dict[str, Any] = found.as_dict()
        told |= {} if why is None else {"explain": why}
        told |= {} if events is None else {"history": [event.as_dict() for event in events]}
        answer(told)
        return
    from rich.console import Console

    Console(highlight=False).print(_sheet(found))
    if why is not None:
        print("\n" + "\n".join(safe(line) for line in str(why.get("text", "")).splitlines()))
    if events is not None:
        rows = [[event.seq, event.slot, event.kind, event.text] for event in events]
        print()
        show(table_of([numbers("event"), numbers("slot"), "kind", "what happened"], rows))


def _sheet(job: JobStatus) -> RichTable:
    """What is known of it, a line each; what is not known is left out."""
    from rich.markup import escape

    from equipoise.present.terminal import key_numbers

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
    return key_numbers({name: escape(safe(value)) for name, value in lines.items() if value not in (None, "")})


@app.command("cancel")
@with_service
def cancel(
    client: Client,
    ids: Annotated[list[str], typer.Argument(help="The ids of jobs, such as j17.", metavar="ID...")],
    json: Json = False,
) -> None:
    """Cancel jobs; when one cannot be cancelled, the others still are.

    Exit 0: all are cancelled.

    Exit 1: one was over already, or the service failed.

    Exit 2: no such job, not allowed, or no service there.
    """
    from equipoise.serve.client import ServiceError

    cancelled: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    code = 0
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


@app.command("progress")
@with_service
def progress(
    client: Client,
    id: Id,
    done: Annotated[
        float | None, typer.Option(help="So many samples (worker-slots, in the short form).", min=0.0)
    ] = None,
    percent: Annotated[float | None, typer.Option(help="So much of its work.", min=0.0, max=100.0)] = None,
    finished: Annotated[bool, typer.Option("--finished", help="It is done, early or late.")] = False,
    json: Json = False,
) -> None:
    """Tell the service how far a job is, from the script that runs it. A late one is planned again at its measured pace.

    Exit 0 fine, 1 the job is over already or the service failed, 2 bad input, not allowed, or no service there.
    """
    if (done is not None) + (percent is not None) + finished != 1:
        raise InputError("say one of --done SAMPLES, --percent PERCENT and --finished")
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


def read_jobs(file: str) -> tuple[list[dict[str, Any]], bool, object]:
    """The jobs of a file, whether it is a list of them, and its slot where it says one."""
    from equipoise.place.files import opened, with_defaults

    text = sys.stdin.read() if file == "-" else None
    found = opened(Path(file), "jobs", text=text, single=True)
    jobs = []
    for where, entry in found.entries:
        both = with_defaults(entry, found.defaults)
        both = (
            {"name": both["id"]} if "id" in both else {}
        ) | both  # `id` is a name, as in files for `equipoise place`
        jobs.append({name: _plain(name, value) for name, value in both.items() if name not in ("id", "arrival")})
        if not jobs[-1]:
            raise InputError(f"{file}, {where}: empty; expected the fields of a job")
    if any("arrival" in entry for _, entry in found.entries):
        print("note: arrival is not sent; a job arrives when it is submitted", file=sys.stderr)
    return jobs, found.listed, found.settings.get("slot")


def _plain(name: str, value: Any) -> Any:
    """YAML's text as numbers, where it is one."""
    if isinstance(value, dict):
        return {str(k): _plain(name if name in TEXTS else str(k), v) for k, v in value.items() if v is not None}
    if name in TEXTS:
        return value if isinstance(value, list) else str(value)
    return value_of(value) if isinstance(value, str) and DECIMAL.match(value) else value
