"""What `equipoise train compare` does once its settings are known: play, write the folder, print the tables."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from equipoise.certificate import Certificate
from equipoise.cli import train_compare_tables as tables
from equipoise.cli.output import Meter, metered
from equipoise.cli.run_folder import document, make_folder, run_folder, to_json, write_config
from equipoise.cli.train_compare import CompareConfig, refuse_idle_settings
from equipoise.present.echarts import thinned
from equipoise.train.comparison import MethodComparison, compare
from equipoise.train.comparison_checks import certify, worst_of
from equipoise.train.studies import Study, alpha_certificate, alpha_study, density_study, rho_study

ROWS_KEPT = 200  # of each track in history.csv
COLUMNS = ("round", "distance", "gap", "relative_gap", "bits", "messages", "violation", "box_violation")
Row = dict[str, Any]


def run_compare(config: CompareConfig, out: Path, *, quiet: bool) -> bool:
    """One comparison or study from settings to folder; True when its certificate passes."""
    settings: dict[str, Any] = json.loads(config.model_dump_json(exclude_none=True))
    refuse_idle_settings(config)
    folder = run_folder(out, "train-compare", settings)
    try:
        return _run(config, settings, folder, quiet=quiet)
    except KeyboardInterrupt:
        written = f"{folder} is incomplete" if folder.exists() else "nothing was written"
        print(f"interrupted; {written}", file=sys.stderr)
        raise


def _run(config: CompareConfig, settings: dict[str, Any], folder: Path, *, quiet: bool) -> bool:
    with metered("playing", "play", None, quiet=quiet) as meter:
        found, left_out = _play(config, meter)
    certificate = _certify(found, config.target)
    content = document("train compare", settings, _result(found) | {"left_out": left_out}, certificate)
    make_folder(folder)
    write_config(folder, settings)
    (folder / "result.json").write_text(to_json(content) + "\n")
    _write_history(folder / "history.csv", _history(found))
    from equipoise.report.train_compare import compare_page

    (folder / "report.html").write_text(compare_page(found, content), encoding="utf-8")
    if quiet:
        print(to_json(content))
    else:
        _print(config, found, left_out, certificate)
        print(folder / "report.html")
    return certificate.passed


Found = MethodComparison | Study


def _play(config: CompareConfig, meter: Meter) -> tuple[Found, list[str]]:
    kind = config.kind()
    common: dict[str, Any] = {"seeds": config.seeds, "first_seed": config.first_seed, "progress": meter.show}
    if config.study == "alpha":
        return alpha_study(kind, rho=config.rho, **common), []
    if config.study == "rho":
        return rho_study(kind, rounds=config.rounds, **common), []
    players, left_out = config.players()
    if config.study == "density":
        return density_study(kind, players, rounds=config.rounds, **common), left_out
    return compare(kind, entrants=players, rounds=config.rounds, **common), left_out


def _certify(found: Found, target: float) -> Certificate:
    if isinstance(found, MethodComparison):
        return certify(found, target)
    return worst_of(found.comparisons, target) if found.comparisons else alpha_certificate(found)


def _result(found: Found) -> dict[str, Any]:
    """What result.json holds: no times, so that a repeated run is the same to the bit."""
    if isinstance(found, MethodComparison):
        return found.as_dict()
    return {"study": found.name, "rows": found.rows, "notes": list(found.notes)}


def _history(found: Found) -> list[Row]:
    """Every recorded round, thinned; of studies the rows."""
    if isinstance(found, Study):
        return found.rows
    rows = []
    for name, tracks in found.tracks.items():
        for seed, track in zip(found.seeds, tracks, strict=True):
            for k in thinned(len(track.round), ROWS_KEPT):
                values = {column: repr(float(getattr(track, column)[k])) for column in COLUMNS}
                whole = {column: int(float(values[column])) for column in ("round", "bits", "messages")}
                rows.append({"entrant": name, "seed": seed, **values, **whole})
    return rows


def _write_history(path: Path, rows: Sequence[Row]) -> None:
    heads = list(dict.fromkeys(key for row in rows for key in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, heads, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _print(config: CompareConfig, found: Found, left_out: list[str], certificate: Certificate) -> None:
    from equipoise.present.terminal import certificate_table

    console = Console()
    seeds = "1 instance" if config.seeds == 1 else f"{config.seeds} instances"
    console.print(f"[bold]{config.nodes} centres, {config.network}, {seeds}[/]", highlight=False)
    if isinstance(found, MethodComparison):
        for table in tables.comparison_tables(found):
            console.print(table)
    else:
        console.print(tables.study_table(found))
        for note in found.notes:
            console.print(note, highlight=False)
    for sentence in left_out:
        console.print(sentence, highlight=False)
    console.print(certificate_table(certificate))
