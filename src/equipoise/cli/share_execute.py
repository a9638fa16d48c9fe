"""What `equipoise share execute` does: simulate and execute with progress, write the folder, print the tables."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from equipoise.cli.progress import Meter, metered
from equipoise.cli.run_folder import document, make_folder, run_folder, to_json, write_config
from equipoise.cli.share_execute_config import ExecuteConfig
from equipoise.engine.real_clock import RealComparison, RealScene, certify, compare
from equipoise.errors import InputError
from equipoise.share.site import Server, Site


def run_execute(config: ExecuteConfig, out: Path, *, quiet: bool) -> bool:
    """One comparison of simulated and executed from settings to folder; True when its certificate passes."""
    settings: dict[str, Any] = json.loads(config.model_dump_json(exclude_none=True))
    scene, players = _scene(config), config.players()
    folder = run_folder(out, "share-execute", settings)
    with metered("executing", "part", None, quiet=quiet) as meter:
        whole = _Whole(config, len(players), meter)
        result = compare(
            players,
            scene,
            kinds=_kinds(config),
            tasks=config.tasks,
            seeds=config.seed_numbers,
            limit=config.limiter,
            units=config.units,
            progress=whole.show,
        )
    certificate = certify(result)
    settings["units"] = result.units
    content = document("share execute", settings, _summary(result), certificate)
    _write(folder, settings, content, result)
    from equipoise.report.execute import execute_page

    (folder / "report.html").write_text(execute_page(result, players, content), encoding="utf-8")
    for line in _warnings(result):
        print(f"warning: {line}", file=sys.stderr)
    if quiet:
        print(to_json(content))
        return certificate.passed
    from equipoise.present.terminal import certificate_table

    console = Console()
    _print(console, config, result)
    console.print(certificate_table(certificate))
    print(folder / "report.html")
    return certificate.passed


class _Whole:
    """Progress over all parts: tasks recorded and steps executed."""

    def __init__(self, config: ExecuteConfig, policies: int, meter: Meter) -> None:
        steps = int(config.arrival[1] + config.deadline[1]) + 1  # at most
        self.total = config.repeats * (config.tasks + policies * steps)
        self.meter, self.before, self.now, self.doing = meter, 0, 0, ""

    def show(self, doing: str, done: int, total: int) -> None:
        if doing != self.doing:
            self.before, self.now, self.doing = self.before + self.now, 0, doing
        self.now = done
        self.meter.show(self.before + done, max(self.total, self.before + done), doing=doing, note=doing)


def _kinds(config: ExecuteConfig) -> list[str]:
    if config.work is None:
        return config.kinds
    if config.kinds != ExecuteConfig().kinds:
        raise InputError("--kinds has no effect: --work names the function that every task runs")
    return [config.work]


def _scene(config: ExecuteConfig) -> RealScene:
    servers = tuple(Server(machine.capacity, machine.power_cap) for machine in config.servers)
    site = Site(
        servers,
        bandwidth=config.bandwidth,
        delay=config.delay,
        jitter=config.jitter,
        power=config.power,  # type: ignore[arg-type]  # the site refuses what is not a law
    )
    return RealScene(
        cpus=config.cpus,
        step=config.step,
        site=site,
        arrival=config.arrival,
        data=config.data,
        deadline=config.deadline,
        work=config.length,
        target=config.target,
        patience=config.patience,
        trial=config.trial,
    )


def _summary(result: RealComparison) -> dict[str, Any]:
    """What result.json holds: the table, every run, every task."""
    return {
        "rows": result.rows,
        "same_order": result.same_order,
        "disturbed": result.disturbed,
        "limiter": result.says,
        "runs": [pair.row() for pair in result.pairs],
        "tasks": [row for pair in result.pairs for row in pair.task_rows()],
    }


def _write(folder: Path, settings: dict[str, Any], content: dict[str, Any], result: RealComparison) -> None:
    """history.csv has a row a policy, seed, step and task that was there: what was decided and what was done."""
    text = to_json(content) + "\n"
    make_folder(folder)
    write_config(folder, settings)
    (folder / "result.json").write_text(text)
    heads = ("policy", "seed", "step", "task", "state", "bandwidth", "compute", "cpu_samples", "samples", "error")
    from equipoise.share.task import STATES

    with (folder / "history.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heads)
        for pair in result.pairs:
            trace = pair.executed.run.trace
            assert trace is not None
            for step, states in enumerate(trace.state[:, 0].tolist()):
                for task, state in enumerate(states):
                    if STATES[state] in ("sending", "delayed", "computing"):
                        numbers = (
                            trace.bandwidth[step, 0, task],
                            trace.compute[step, 0, task],
                            pair.executed.took[step, task],
                            trace.samples[step, 0, task],
                            trace.error[step, 0, task],
                        )
                        writer.writerow([pair.policy, pair.plan.seed, step, task, STATES[state], *map(float, numbers)])


def _warnings(result: RealComparison) -> list[str]:
    lines = []
    for pair in result.pairs:
        for fault in pair.executed.faults:
            work = pair.plan.works[fault.task]
            why = fault.why.strip().splitlines()[-1]
            lines.append(
                f"{pair.policy}, seed {pair.plan.seed}, step {fault.step}: task {fault.task} ({work.kind}) failed: {why}"
            )
    if result.disturbed:
        lines.append(
            "the machine was busy: tasks missed more than 5 % of their CPU, or its speed changed since they were recorded;"
            " differences from the simulation say more of the machine than of the policies"
        )
    return lines


def _print(console: Console, config: ExecuteConfig, result: RealComparison) -> None:
    seeds = "1 seed" if config.repeats == 1 else f"{config.repeats} seeds"
    console.print(
        f"[bold]{config.tasks} training processes on {config.cpus:g} CPUs, steps of {config.step:g} s, {seeds}[/]",
        highlight=False,
    )
    console.print(f"held by {result.says}", highlight=False)
    console.print(success_table(result))
    for line in sentences(result):
        console.print(line, highlight=False)
    console.print()


def success_table(result: RealComparison) -> Table:
    """Simulated and executed beside each other, a row a policy."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    heads = (
        "\npolicy",
        "success\nsim",
        "at\nspeed",
        "%\nexec",
        "latency\nsim",
        "\nexec",
        "done\napart",
        "energy\nsim",
        "\nexec",
        "CPU %\nmissed",
    )
    for k, head in enumerate(heads):
        table.add_column(head, justify="right" if k else "left", no_wrap=True)
    for row in result.rows:
        table.add_row(
            row["policy"],
            _text(row["success_simulated"], 1),
            _text(row["success_at_speed"], 1),
            _text(row["success_executed"], 1),
            _text(row["latency_simulated"], 1),
            _text(row["latency_executed"], 1),
            _text(row["completion_apart"], 2),
            _text(row["energy_simulated"], 0),
            _text(row["energy_executed"], 0),
            _text(row["shortfall"], 1),
        )
    return table


def sentences(result: RealComparison) -> list[str]:
    """The finding in words."""
    rows = result.rows
    worst = max(rows, key=lambda row: abs(row["success_apart"]))
    order = "in the same order" if result.same_order else "in another order"
    found = [
        f"executed success is at most {abs(worst['success_apart']):.1f} points from simulated ({worst['policy']}), {order}"
    ]
    apart = [row["completion_apart"] for row in rows if row["completion_apart"] is not None]
    if apart:
        found.append(f"tasks that both finish end {sum(apart) / len(apart):.2f} steps apart on average (done apart)")
    speeds = [row["speed"] for row in rows if row["speed"]]
    if speeds:
        found.append(f"a unit of work took {len(speeds) / sum(speeds):.2f} times the CPU that it took when recorded")
    return found


def _text(value: float | None, digits: int, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.{digits}f}"
