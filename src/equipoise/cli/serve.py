"""`equipoise serve`: the planner as a service."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.options import application
from equipoise.cli.service import DEFAULT_STORE
from equipoise.errors import InputError

app = application()
EXAMPLE = "8 machines of 8 GPUs"
KEPT, REACHED, CHECKED = "What the store keeps (said once)", "Who reaches it", "Instead of serving"


@app.command()
def serve(
    store: Annotated[
        str, typer.Option(envvar="EQUIPOISE_STORE", help="sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME")
    ] = DEFAULT_STORE,
    cluster: Annotated[
        Path | None, typer.Option(help=f"Machines, as YAML, JSON or CSV (default: {EXAMPLE})", rich_help_panel=KEPT)
    ] = None,
    clock: Annotated[
        str | None, typer.Option(help="real, or virtual: told by POST /v1/clock (default: real)", rich_help_panel=KEPT)
    ] = None,
    slot: Annotated[str | None, typer.Option(help="Length of a slot (default: 10m)", rich_help_panel=KEPT)] = None,
    horizon: Annotated[
        int | None, typer.Option(help="Slots ahead that a job is planned in (default: 168)", rich_help_panel=KEPT)
    ] = None,
    finish: Annotated[
        str, typer.Option(help="assumed: a job is done when its plan is; reported: when it says so")
    ] = "assumed",
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than this machine's need tokens", rich_help_panel=REACHED)
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any free one", rich_help_panel=REACHED)] = 8321,
    host_name: Annotated[
        list[str] | None,
        typer.Option(help="A name it may be called by, beside localhost; may be repeated", rich_help_panel=REACHED),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain, PEM", rich_help_panel=REACHED)] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Private key, PEM", rich_help_panel=REACHED)] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Requests per second of one caller (default: 1000; 0: no limit)", rich_help_panel=REACHED),
    ] = None,
    verify_log: Annotated[
        bool,
        typer.Option("--verify-log", help="Replay the log, prove the store sound, and end", rich_help_panel=CHECKED),
    ] = False,
    copy_to: Annotated[
        str | None, typer.Option(help="Copy the store to an empty one (URL), and end", rich_help_panel=CHECKED)
    ] = None,
    backup: Annotated[
        Path | None,
        typer.Option(help="Copy an SQLite store to a file, also while it is served, and end", rich_help_panel=CHECKED),
    ] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error")] = "info",
    log_json: Annotated[
        bool | None, typer.Option("--log-json/--log-text", help="Default: JSON unless on a terminal")
    ] = None,
    snapshot_every: Annotated[int, typer.Option(min=1, hidden=True, help="Events between snapshots")] = 5_000,
    json: Annotated[bool, typer.Option("--json", help="With --verify-log: only JSON on standard output")] = False,
) -> None:
    """Decide about jobs as they come, and lose nothing: REST under /v1, a live page at /.

    Every decision is on disk before it is answered.

    Exit 0: stopped as told; 1: a check failed or it could not go on; 2: bad input.
    """
    _needs_extra()
    from equipoise.serve.telemetry import hide_password, start_logs

    if log_level.lower() not in ("debug", "info", "warning", "error"):
        raise InputError(f"--log-level is {log_level!r}; expected debug, info, warning or error")
    hide_password(store)
    if sum((verify_log, copy_to is not None, backup is not None)) > 1:
        raise InputError("--verify-log, --copy-to and --backup are each done alone; keep one")
    if verify_log:
        raise typer.Exit(_verify(store, json))
    if copy_to is not None:
        _copy(store, copy_to)
        return
    if backup is not None:
        from equipoise.serve.store import backup as back_up

        back_up(store, backup)
        return
    start_logs(level=log_level, as_json=log_json)
    if (tls_cert is None) != (tls_key is None):
        raise InputError("--tls-cert and --tls-key go together; give both")
    from equipoise.place.files import read_cluster
    from equipoise.serve.run import serve_store

    given: dict[str, object] = {"clock": clock, "horizon": horizon, "finish": finish, "snapshot_every": snapshot_every}
    if slot is not None:
        from equipoise import units

        given["slot_seconds"] = units.seconds(slot, "--slot")
    code = serve_store(
        store,
        read_cluster(cluster) if cluster is not None else None,
        {name: value for name, value in given.items() if value is not None},
        host=host,
        port=port,
        names=host_name or [],
        tls=(str(tls_cert), str(tls_key)) if tls_cert and tls_key else None,
        rate=rate,
    )
    raise typer.Exit(code)


def _needs_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import sqlalchemy  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as missing:
        raise InputError(f"serve needs {missing.name}; pip install 'equipoise[serve]'") from None


def _verify(url: str, as_json: bool) -> int:
    import json

    from rich.console import Console

    from equipoise.cli.output import metered
    from equipoise.present.terminal import certificate_table
    from equipoise.serve.replay import verify_log
    from equipoise.serve.store import peek_store

    with peek_store(url) as store:
        if store.last() == 0:
            raise InputError(f"{store.shown}: the log is empty; nothing to verify")
        with metered("replaying the log", "event", store.last(), quiet=as_json) as meter:
            certificate, seq = verify_log(store, meter.show)
    if as_json:
        print(json.dumps({"verb": "serve", "seq": seq, "certificate": certificate.as_dict()}))
    else:
        Console().print(certificate_table(certificate))
    return 0 if certificate.passed else 1


def _copy(source: str, target: str) -> None:
    from equipoise.serve.store import copy_store
    from equipoise.serve.telemetry import hide_password

    hide_password(target)
    counts = copy_store(source, target)
    print(", ".join(f"{count:,} {name}" for name, count in counts.items()), file=sys.stderr)
