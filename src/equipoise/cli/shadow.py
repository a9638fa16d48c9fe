"""equipoise admin shadow: feed a service from a real cluster's export, read-only, and compare what each of them did."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.output import answer, complain, metered, numbers, show, table_of
from equipoise.cli.service import Json, Token, Url, service
from equipoise.errors import InputError
from equipoise.registry import Registry

if TYPE_CHECKING:
    from equipoise.serve.client import Client
    from equipoise.serve.shadow import Report, Traced

_FOUND = Registry("equipoise.place.traces", "format").choices()
_NAMES = [str(choice.facts.get("alias", choice.name)) for choice in _FOUND if "matches" in choice.facts]
FORMATS = ", ".join(sorted(_NAMES, key=lambda name: name != "sacct"))  # it is what most clusters export


def shadow(
    file: Annotated[Path, typer.Argument(help="An export or trace. It is only read.", metavar="FILE")],
    format: Annotated[str, typer.Option(help=f"What it is: {FORMATS}; auto looks at its first line.")] = "auto",
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on as the file grows, until stopped (Ctrl-C, SIGTERM).")
    ] = False,
    poll: Annotated[float, typer.Option(help="Look every so many seconds.", min=0.05, metavar="S")] = 5.0,
    every: Annotated[float, typer.Option(help="Report every so many seconds.", min=0.1, metavar="S")] = 60.0,
    lag: Annotated[
        str, typer.Option(help="Stay so far behind the newest row, for rows that come late.", metavar="1h")
    ] = "0s",
    finish: Annotated[bool, typer.Option("--finish", help="Then move the clock until every job is over.")] = False,
    seed: Annotated[int, typer.Option(help="Draws what the file does not say: worth, model.", min=0)] = 0,
    gpus_per_machine: Annotated[int, typer.Option(help="More ran on several machines.", min=1)] = 8,
    inside: Annotated[
        Path | None,
        typer.Option(help="Start a service for it, with these machines and a store for the moment.", metavar="CLUSTER"),
    ] = None,
    slot: Annotated[str, typer.Option(help="The length of a slot with --inside.", metavar="10m")] = "10m",
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """See what the service would have done with a real cluster's jobs.

    The service must be on a virtual clock with a store of its own; its clock is moved to the arrival of each job.

    Nothing is written but to that service. Started again, it goes on where it was.

    Exit 0 fine, 1 the service failed, 2 bad input, not allowed or no service there.
    """
    if follow and finish:
        raise InputError("--follow and --finish are both given; keep one: a clock that ran ahead makes new rows late")
    if inside is not None and url is not None:
        raise InputError("--inside and --url are both given; keep one")
    if not file.is_file():
        raise InputError(f"{file}: no such file (from {Path.cwd()}); expected an export of jobs: {FORMATS}")
    from equipoise import units
    from equipoise.serve.shadow import Traced, kind_of

    kind = _format(file, follow) if format == "auto" else kind_of(format)
    behind = units.seconds(lag, "--lag")
    if behind and not follow:
        raise InputError(f"--lag {lag} has no effect without --follow: a file that is whole is fed in order of arrival")
    with _stopped_gently(), _service(inside, slot, url, token) as client:
        from equipoise.serve.shadow import Shadow

        with metered("feeding", "job", None, quiet=json or follow) as meter:
            fed = Shadow(client, tell=meter.show)
            length = fed.cluster.slot_seconds
            traced = Traced(file, kind, length, seed=seed, gpus=gpus_per_machine, follow=follow)
            if not follow:
                reading = traced.read()
                if reading is not None:
                    fed.feed(reading)
                if finish:
                    fed.finish()
        if follow:
            with suppress(KeyboardInterrupt):
                fed.follow(
                    traced,
                    lag=int(-(-behind // length)),
                    poll=poll,
                    every=every,
                    report=lambda report: _print(report, traced, json, lines=True),
                    complain=complain,
                )
        _print(fed.report(), traced, json, lines=follow)


def _format(file: Path, follow: bool) -> str:
    """By its first line, which a file to follow may not have yet."""
    from equipoise.place.traces import format_of

    if follow and file.stat().st_size == 0:
        raise InputError(f"{file} is empty, so that its format is not known yet; say --format sacct")
    kind = format_of(file)
    if kind == "own":
        raise InputError(f"{file} is in our own format; submit its jobs with `equipoise jobs submit {file}`")
    return kind


@contextmanager
def _stopped_gently() -> Iterator[None]:
    """SIGTERM is as Ctrl-C: a last report, and a service started inside is ended too."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _service(inside: Path | None, slot: str, url: str | None, token: str | None) -> Iterator[Client]:
    """The service at this address, or one that is started for the moment."""
    if inside is None:
        with service(url, token) as client:
            yield client
        return
    from equipoise.serve.local import started

    with started(inside, slot) as address, service(address, token) as client:
        yield client


# What is told.


def _print(report: Report, traced: Traced, json: bool, *, lines: bool = False) -> None:
    """For people, or as JSON; `lines`: one line, for there will be more."""
    if json:
        told = report.as_dict() | {"file": str(traced.path), "format": traced.kind, "rewritten": traced.rewritten}
        answer(told, lines=lines)
        return
    for line in _lines(report, traced):
        print(line)
    rows: list[list[object]] = []
    if report.waits is not None:
        waits = report.waits
        rows.append([f"mean wait, of the {waits.jobs:,} jobs that both started", _time(waits.ours), _time(waits.real)])
        rows.append(["median wait", _time(waits.ours_median), _time(waits.real_median)])
    for resource, share in report.utilisation.items():
        real = None if share.real is None else f"{100 * share.real:.1f} %"
        used = f"{resource} in use, slots {report.first} to {report.now - 1}"
        rows.append([used, f"{100 * share.ours:.1f} %", real])
    if rows:
        show(table_of(["", numbers("ours"), numbers("the real one")], rows))
        print("ours is in whole slots; the real one has all these jobs, also those that ours refused")


def _lines(report: Report, traced: Traced) -> Iterator[str]:
    before = f" ({report.before:,} of them before)" if report.before else ""
    yield f"{traced.path.name}: {report.fed:,} jobs fed{before}, the service is in slot {report.now:,}"
    yield "of them " + (", ".join(f"{count:,} {state}" for state, count in sorted(report.states.items())) or "none")
    if report.late:
        yield f"- {report.late:,} came out of order: fed after their slot had passed (--lag waits for such rows)"
    if report.held_back:
        yield f"- {report.held_back:,} held back: they are of the last --lag"
    if traced.rewritten:
        yield f"- the file was cut or replaced {traced.rewritten:,} times; no job was fed twice"
    for what, counts in (("skipped", report.skipped), ("turned away by the service", report.rejected)):
        for reason, count in counts.items():
            yield f"- {what}: {count:,} rows: {reason}"
    if report.waits is None and report.fed:
        yield "- the file does not say when jobs started: nothing to compare waits with"


def _time(seconds: float) -> str:
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"
