"""What `equipoise place sweep` does: the same comparison with many seeds, spread; a table of means with their errors."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from equipoise.cli.output import metered
from equipoise.cli.place_config import PlaceConfig, SweepConfig
from equipoise.cli.place_policies import baseline_of, needs_history, players
from equipoise.cli.place_run import _plain
from equipoise.cli.place_scene import ready
from equipoise.cli.policy_file import fault_in
from equipoise.cli.run_folder import document, make_folder, run_folder, to_json, write_config
from equipoise.errors import InputError
from equipoise.place.sweep import Case, Sweep, sweep


def run_sweep(config: SweepConfig, out: Path, *, quiet: bool) -> bool:
    """From settings to folder; True when the certificate of every seed passes."""
    settings: dict[str, Any] = json.loads(config.model_dump_json(exclude_none=True))
    cases = [_case(config.model_copy(update={"seed": config.seed + k})) for k in range(config.seeds)]
    baseline = baseline_of(config, [policy.label for policy in cases[0].policies])
    folder = run_folder(out, "place-sweep", settings)
    found = _play(config, cases, quiet=quiet)
    gains = found.paired(baseline)
    result = {"seeds": list(found.seeds), "rows": found.rows, "paired": gains, "seed_rows": found.seed_rows}
    content = document("place sweep", settings, _plain(result), found.certificate)
    make_folder(folder)
    write_config(folder, settings)
    (folder / "result.json").write_text(to_json(content) + "\n")
    with (folder / "history.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, found.seed_rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(found.seed_rows)
    if quiet:
        print(to_json(content))
    else:
        _print(found, gains, baseline)
        print(folder / "result.json")
    return found.certificate.passed


def _case(config: PlaceConfig) -> Case:
    scene = ready(config, history=needs_history(config))
    return Case(config.seed, scene.cluster, scene.jobs, tuple(players(config, scene)), scene.slots, scene.horizon)


def _play(config: PlaceConfig, cases: list[Case], *, quiet: bool) -> Sweep:
    files = [name.rpartition(":")[0] for name in config.policy if ".py" in name]
    try:
        with metered("comparing", "seed", len(cases), quiet=quiet) as meter:
            return sweep(cases, bound="auto" if config.bound else False, progress=meter.show)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        if fault := fault_in(error, files):
            raise InputError(fault) from None
        raise


def _print(found: Sweep, gains: list[dict[str, Any]], baseline: str) -> None:
    from equipoise.present.terminal import certificate_table

    ahead = {row["policy"]: row for row in gains}
    table = Table(title=f"{len(found.seeds)} seeds, mean ± standard error")
    table.add_column("policy")
    for head in ("utility", "completed", "of the bound", f"over {baseline}", "ahead"):
        table.add_column(head, justify="right")
    for row in found.rows:
        gap = ahead.get(row["policy"])
        won = "" if gap is None else f"{gap['ahead']} of {len(found.seeds)}"
        over = "" if gap is None else _number(gap, "utility", ".1f")
        table.add_row(
            row["policy"],
            _number(row, "utility", ".1f"),
            _number(row, "completed", ".1f"),
            _number(row, "share_of_bound", ".3f"),
            over,
            won,
        )
    console = Console()
    console.print(table)
    console.print(certificate_table(found.certificate))


def _number(row: dict[str, Any], name: str, form: str) -> str:
    if row[name] is None:
        return "-"
    error = row[f"{name}_se"]
    return f"{row[name]:{form}}" + ("" if error is None else f" ± {error:{form}}")
