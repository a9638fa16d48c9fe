"""The page of an execution: simulated and executed beside each other, the machine's part in it, and every task's end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.engine.real_clock import RealComparison
from equipoise.present.html import render, verdict
from equipoise.present.text import NOTHING, count
from equipoise.report.execute_charts import execute_charts
from equipoise.report.share_charts import Look, looks
from equipoise.share.view import Policy

Row = dict[str, Any]


def execute_page(result: RealComparison, policies: Sequence[Policy], document: dict[str, Any]) -> str:
    """The whole page as text; `document` stands in result.json."""
    styles = looks(policies)
    return render(
        "execute.html.j2",
        title=title(result, document),
        document=document,
        charts=execute_charts(result, styles),
        numbers=_key_numbers(result),
        heads=HEADS,
        table=_table(result, styles),
        faults=_faults(result),
        ends=_ends(result, styles),
        first=result.seeds[0],
        disturbed=result.disturbed,
        held=result.says,
    )


def title(result: RealComparison, document: dict[str, Any]) -> str:
    """24 training processes on 1 CPU, 5 seeds: executed success within 2.5 points of simulated: certificate passed."""
    tasks = len(result.pairs[0].plan.works)
    where = f"{count(tasks, 'training process', 'training processes')} on {result.scene.cpus:g} CPU"
    where += "s" if result.scene.cpus != 1 else ""
    worst = max(abs(row["success_apart"]) for row in result.rows)
    order = "" if len(result.names) < 2 else ", in the same order" if result.same_order else ", in another order"
    return (
        f"{where}, {count(len(result.seeds), 'seed')}: executed success within {worst:.1f} points of simulated{order}:"
        f" certificate {verdict(document['certificate'])}"
    )


def _key_numbers(result: RealComparison) -> list[dict[str, str]]:
    rows = result.rows
    best = max(rows, key=lambda row: row["success_executed"])
    worst = max(rows, key=lambda row: abs(row["success_apart"]))
    apart = [row["completion_apart"] for row in rows if row["completion_apart"] is not None]
    missed = max(rows, key=lambda row: row["shortfall"])
    slow = min(rows, key=lambda row: row["speed"] or 1.0)
    return [
        {
            "name": "most tasks finished, executed",
            "value": f"{best['success_executed']:.1f} %",
            "note": f"{best['policy']}; simulated {best['success_simulated']:.1f} %",
        },
        {
            "name": "success apart, at most",
            "value": f"{abs(worst['success_apart']):.1f} points",
            "note": f"{worst['policy']}: executed minus simulated is {_fixed(worst['success_apart'], 1, '+')}",
        },
        {
            "name": "completion times apart",
            "value": f"{sum(apart) / len(apart):.2f} steps" if apart else NOTHING,
            "note": f"mean over tasks that both finished; a step is {result.scene.step:g} s",
        },
        {
            "name": "CPU missed, at most",
            "value": f"{missed['shortfall']:.1f} %",
            "note": f"{missed['policy']}: not got; speed {_fixed(slow['speed'], 2)} of that recorded, at least",
        },
    ]


HEADS = (
    "success simulated, %",
    "at its speed, %",
    "executed, %",
    "apart, points",
    "latency simulated, steps",
    "executed, steps",
    "completion apart, steps",
    "energy simulated",
    "executed",
    "CPU missed, %",
    "speed",
)


def _table(result: RealComparison, styles: Sequence[Look]) -> list[dict[str, Any]]:
    rows = {row["policy"]: row for row in result.rows}
    return [{"look": look, "cells": _cells(rows[look.name])} for look in styles]


def _cells(row: Row) -> list[str]:
    apart = _fixed(row["success_apart"], 1, "+")
    if row["success_apart_se"] is not None:
        apart += f" ± {row['success_apart_se']:.1f}"
    return [
        _fixed(row["success_simulated"], 1),
        _fixed(row["success_at_speed"], 1),
        _fixed(row["success_executed"], 1),
        apart,
        _fixed(row["latency_simulated"], 1),
        _fixed(row["latency_executed"], 1),
        _fixed(row["completion_apart"], 2),
        _fixed(row["energy_simulated"], 0),
        _fixed(row["energy_executed"], 0),
        _fixed(row["shortfall"], 1),
        _fixed(row["speed"], 2),
    ]


def _faults(result: RealComparison) -> list[dict[str, str]]:
    """Tasks that failed by themselves, with the last lines they said."""
    return [
        {
            "where": f"{pair.policy}, seed {pair.plan.seed}, task {fault.task} ({pair.plan.works[fault.task].kind}),"
            f" step {fault.step}",
            "why": fault.why,
        }
        for pair in result.pairs
        for fault in pair.executed.faults
    ]


def _ends(result: RealComparison, styles: Sequence[Look]) -> list[dict[str, Any]]:
    """The first seed, a row a task: when it was done under each policy, simulated and executed."""
    mine = [pair for pair in result.pairs if pair.plan.seed == result.seeds[0]]
    lives = {pair.policy: list(pair.task_rows()) for pair in mine}
    rows = []
    for k, task in enumerate(lives[mine[0].policy]):
        ends = [
            f"{_end(lives[look.name][k], 'simulated')} · {_end(lives[look.name][k], 'executed')}" for look in styles
        ]
        told = [
            str(k),
            task["kind"].rpartition("/")[2],
            str(task["arrival"]),
            str(task["deadline"]),
            _fixed(task["target"], 3),
            _fixed(task["work"], 0),
        ]
        rows.append({"told": told, "ends": ends})
    return [{"names": [look.name for look in styles], "rows": rows}]


def _end(row: Row, which: str) -> str:
    if which == "executed" and row["fault"]:
        return "fault"
    return NOTHING if row[f"done_{which}"] is None else str(row[f"done_{which}"])


def _fixed(value: float | None, digits: int, sign: str = "") -> str:
    return NOTHING if value is None else f"{value:{sign},.{digits}f}".replace("-", "−")
