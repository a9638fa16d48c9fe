"""What `equipoise share` does once its settings are known: compare with progress, write the folder, print the tables."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from equipoise.certificate import Certificate, Check
from equipoise.cli import share_tables
from equipoise.cli.output import Meter, metered
from equipoise.cli.policy_file import fault_in, load_policy
from equipoise.cli.run_folder import document, make_folder, run_folder, to_json, write_config
from equipoise.cli.share_config import Comparison, Job, ShareConfig, build, read_tasks
from equipoise.errors import InputError
from equipoise.share.ladder import Ladder, ladder
from equipoise.share.simulate import Run, simulate
from equipoise.share.sweep import Sweep, sweep
from equipoise.share.trace import telling_task
from equipoise.share.view import name_of
from equipoise.share.workload import PUBLISHED_LOAD

BASELINE = "UniformCorrected"  # the honest robust baseline, where it takes part
Result = TypeVar("Result")


def run_share(config: ShareConfig, out: Path, *, quiet: bool) -> bool:
    """One comparison from settings to folder; True when its certificate passes."""
    settings: dict[str, Any] = json.loads(config.model_dump_json(exclude_none=True))
    job = build(config)
    folder = run_folder(out, "share", settings)
    _warn_of_hopeless(config, job)
    result = _play(config, "comparing", quiet, lambda meter: _compare(config, job, meter))
    certificate = result.certificate()
    lives, timeline = _lives(config, job, result)
    content = document("share", settings, _summary(result, timeline), certificate)
    _write(folder, settings, content, result.seed_rows)
    from equipoise.report.share import share_page

    (folder / "report.html").write_text(share_page(result, job.policies, lives, content), encoding="utf-8")
    if quiet:
        print(to_json(content))
    else:
        _print(job, config, result, content, certificate)
        print(folder / "report.html")
    return certificate.passed


def run_ladder(config: Comparison, out: Path, *, quiet: bool) -> bool:
    """The ladder from settings to folder."""
    settings: dict[str, Any] = json.loads(config.model_dump_json(exclude_none=True))
    players = config.players()
    folder = run_folder(out, "share-ladder", settings)
    climbed = _play(
        config,
        "climbing",
        quiet,
        lambda meter: ladder(players, loads=config.loads, seeds=config.seed_numbers, progress=meter.show),
    )
    certificate = _certify_ladder(climbed)
    content = document("share ladder", settings, {"rows": climbed.rows, "verdict": climbed.verdict}, certificate)
    _write(folder, settings, content, climbed.seed_rows)
    if quiet:
        print(to_json(content))
        return certificate.passed
    from equipoise.present.terminal import certificate_table

    console = Console()
    console.print(share_tables.ladder_table(climbed))
    for sentence in climbed.verdict:
        console.print(sentence, highlight=False)
    console.print()
    console.print(certificate_table(certificate))
    print(folder / "result.json")
    return certificate.passed


def run_check(reference: str, *, quiet: bool) -> bool:
    """Check a user's policy, or one of ours by name, and print what was found."""
    from equipoise.present.terminal import certificate_table
    from equipoise.share import policies

    policy = load_policy(reference) if ".py" in reference else policies.named(reference)
    from equipoise.share import check_policy

    certificate: Certificate = check_policy(policy)
    if quiet:
        print(to_json(document("share check", {"policy": reference}, {"policy": name_of(policy)}, certificate)))
    else:
        console = Console()
        console.print(f"[bold]{name_of(policy)}[/]")
        console.print(certificate_table(certificate))
    return certificate.passed


def _play(config: Comparison, doing: str, quiet: bool, work: Callable[[Meter], Result]) -> Result:
    """With progress; a fault inside a user's policy becomes one line that names the place in her file."""
    files = [reference.rpartition(":")[0] for reference in config.policy_file or []]
    try:
        with metered(doing, "part", None, quiet=quiet) as meter:
            return work(meter)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        fault = fault_in(error, files)
        if fault:
            raise InputError(fault) from None
        raise


def _compare(config: ShareConfig, job: Job, meter: Meter) -> Sweep:
    return sweep(
        job.policies,
        job.workload,
        loads=config.loads,
        seeds=config.seed_numbers,
        site=job.site,
        oracle=config.oracle,
        progress=meter.show,
    )


def _warn_of_hopeless(config: ShareConfig, job: Job) -> None:
    """Tasks whose curve never reaches their target: by number when given, by count when drawn."""
    if config.tasks is not None:
        for k, task in enumerate(read_tasks(config.tasks)):
            if math.isinf(task.work):
                why = f"its target {task.target:g} is below its curve's floor {task.curve.floor:g}"
                if task.target > task.curve.floor:
                    why = f"its curve falls too slowly (b {task.curve.b:g}) to reach {task.target:g}"
                _warn(f"task {k} can never succeed: {why}")
        return
    for load in config.loads:
        work = job.workload.draw(load, config.seed_numbers, job.site).work
        hopeless = int((~(work < math.inf)).sum())
        if hopeless:
            _warn(f"{hopeless} of {work.size} drawn tasks at {load} can never succeed: their curves miss their targets")


def _warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


def _lives(config: ShareConfig, job: Job, result: Sweep) -> tuple[dict[str, Run], dict[str, int]]:
    """One seed of every policy with all its steps, and the task whose life is worth showing."""
    load = config.timeline_load or max(result.loads)
    seed = config.first_seed if config.timeline_seed is None else config.timeline_seed
    lives = {
        name_of(policy): simulate(policy, job.workload, load=load, seeds=[seed], site=job.site, trace=True)
        for policy in job.policies
    }
    task = telling_task(lives) if config.timeline_task is None else config.timeline_task
    return lives, {"load": load, "seed": seed, "task": task}


def _summary(result: Sweep, timeline: dict[str, int]) -> dict[str, Any]:
    """What result.json holds: no times, so that a repeated run is the same to the bit."""
    baseline = _baseline(result)
    paired = [
        asdict(gap)
        for name in result.names
        if name != baseline
        for measure in ("success", "efficiency")
        for gap in result.paired(name, baseline, measure)
    ]
    return {"rows": result.rows, "baseline": baseline, "paired": paired, "timeline": timeline}


def _baseline(result: Sweep) -> str:
    return BASELINE if BASELINE in result.names else result.names[0]


def _certify_ladder(climbed: Ladder) -> Certificate:
    """Every check once, with the worst value of all rungs."""
    rungs = [climbed.sweeps[rung.name].certificate() for rung in climbed.rungs]
    worst = [max((found[check.name] for found in rungs), key=_badness) for check in rungs[0]]
    return Certificate(tuple(replace(check, meaning=f"{check.meaning} (the worst of all rungs)") for check in worst))


def _badness(check: Check) -> tuple[bool, float]:
    return check.passed is not True, math.inf if check.value is None else check.value


def _write(
    folder: Path, settings: dict[str, Any], content: dict[str, Any], seed_rows: Iterable[dict[str, Any]]
) -> None:
    text = to_json(content) + "\n"
    rows = list(seed_rows)
    make_folder(folder)
    write_config(folder, settings)
    (folder / "result.json").write_text(text)
    with (folder / "history.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _print(job: Job, config: ShareConfig, result: Sweep, content: dict[str, Any], certificate: Certificate) -> None:
    from equipoise.present.terminal import certificate_table

    console = Console()
    largest = max(result.loads)
    console.print(f"[bold]{job.title}[/]", highlight=False)
    if len(result.loads) > 1:
        for table in share_tables.success_tables(result, console.width):
            console.print(table)
    console.print(share_tables.full_table(result, largest))
    if config.preset == "paper" and config.tasks is None and PUBLISHED_LOAD in result.loads:
        console.print(share_tables.published_table(result))
    if len(result.names) > 1:
        console.print(share_tables.paired_table(content["result"]["paired"], _baseline(result), largest))
    console.print()
    console.print(certificate_table(certificate))
