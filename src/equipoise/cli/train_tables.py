"""What a run says at its end, in lines and tables for the terminal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from equipoise.certificate import Certificate
from equipoise.cli.train_config import TrainConfig
from equipoise.cli.train_engine import lines
from equipoise.present.text import count
from equipoise.train.hostile.run import HostileRun
from equipoise.train.run import Run

EVENTS = 12  # said one by one
NAMED = 8  # centres that are gone


def advice(run: Run, certificate: Certificate) -> str:
    """What a user can do about a failed certificate."""
    if run.status == "diverged":
        return "[yellow]The run diverged: leave --step, --alpha and --cap at auto, or lower --rho.[/]"
    if "box" in certificate and not certificate["box"].passed:
        return "[yellow]Shares left their boxes: a penalty cannot hold them; use --box price.[/]"
    if isinstance(run, HostileRun) and run.trouble:
        return "[yellow]The survivors cannot reach their optimum: see trouble above; heal the split, or widen --hi.[/]"
    if "loss" in certificate and not certificate["loss"].passed:
        return "[yellow]The net did not learn enough: raise --rounds, or give another --alpha.[/]"
    if run.status == "finished" and run.method.quantizer.mode == "innovation":
        return "[yellow]The rounds ran out: raise --rounds, or ask for less with --target.[/]"
    return (
        "[yellow]The gap does not close: these messages leave a residual; the default, --mode innovation, does not.[/]"
    )


def key_lines(run: Run, result: dict[str, Any], config: TrainConfig) -> dict[str, str]:
    """The few numbers worth a line each."""
    links = len(run.link_bits.bits)
    numbers = {
        "network": run.network.description,
        "rounds": f"{run.rounds:,} in {run.seconds:.1f} s",
        **_progress(run, config),
        "messages": f"{codes_of(run)}, {run.bits / 8e6:,.1f} MB over {links} directed links",
    }
    if "engine" in result:
        numbers |= lines(result["engine"])
    if run.shares is not None:
        own = run.shares[run.present] if isinstance(run, HostileRun) else run.shares
        numbers["shares"] = f"{own.min():.2f} to {own.max():.2f} CPUs, sum {np.sum(run.shares):.10g}"
    if isinstance(run, HostileRun):
        numbers |= _hostile_lines(run)
    if "accuracy" in result:
        worst, best = result["accuracy"]["worst"], result["accuracy"].get("centralised")
        numbers["test accuracy"] = f"{worst:.2%} at the worst centre" + (
            "" if best is None else f", {best:.2%} centralised"
        )
    if "test_error" in result:
        worst, best = result["test_error"]["worst"], result["test_error"]["centralised"]
        numbers["test error"] = f"{worst:.4g} at the worst centre, {best:.4g} centralised (root mean square)"
    lost = {name: t for name, t in run.tallies.items() if t.saturated}
    if lost:
        numbers["out of range"] = ", ".join(
            f"{t.saturated:,} of {t.sent:,} {name} were clipped" for name, t in lost.items()
        )
    return numbers


def codes_of(run: Run) -> str:
    """How numbers travel."""
    bits = f"{run.method.quantizer.bits} bits a number"
    return f"{bits}, 64 where no recent packet was acknowledged" if isinstance(run, HostileRun) else bits


def _progress(run: Run, config: TrainConfig) -> dict[str, str]:
    """The gap, and the loss where that is all there is to go by."""
    found: dict[str, str] = {}
    if len(run.history["relative_gap"]) and math.isfinite(run.relative_gap):
        halves = run.shares is not None and run.models is not None and run.convex
        since = "at the last event" if isinstance(run, HostileRun) and run.events else "at the start"
        asked = f"; asked for {config.target:g}" if isinstance(run, HostileRun) and config.target is not None else ""
        part = "of the CPU cost " if not run.convex else ""
        found["gap"] = f"{run.relative_gap:.2e} of the gap {part}{since}{' (the worse half)' if halves else ''}{asked}"
    losses = run.history.get("loss", np.empty(0))
    if len(losses):
        found["loss"] = f"{losses[-1]:.4g} at the worst centre, on everybody's data; {losses[0]:.4g} at the start"
    return found


def _hostile_lines(run: HostileRun) -> dict[str, str]:
    """What happened, who is left, and what is on its way."""
    found: dict[str, str] = {}
    if run.events:
        said = [str(event) for event in run.events[:EVENTS]]
        if len(run.events) > EVENTS:
            said.append(f"and {len(run.events) - EVENTS} more, all in result.json")
        found["events"] = "\n".join(said)
    gone = np.flatnonzero(~run.present).tolist()
    named = ", ".join(map(str, gone[:NAMED])) + (", ..." if len(gone) > NAMED else "")
    there = f"{int(run.present.sum())} of {len(run.present)} are there"
    found["centres"] = f"{there}; gone: {named}" if gone else there
    share = run.lost / run.packets if run.packets else 0.0
    found["packets"] = f"{run.packets:,} sent, {run.lost:,} lost ({share:.1%})"
    if run.shares is not None:
        found["in flight"] = f"{run.in_flight:.6g} CPUs in nobody's share at the end"
    if run.trouble:
        found["trouble"] = "\n".join(f"[red]{text}[/]" for text in run.trouble)
    return found


def allocation_table(study: dict[str, Any], equal: bool = False) -> Table:
    """CPU-seconds to the target accuracy for each way to divide the CPU, the cheapest first."""
    seeds = study["seeds"]
    table = Table(
        title=f"CPU-seconds to {study['target']:.0%} of the centralised accuracy, "
        f"{count(len(seeds), 'seed')} from {seeds[0]}{', equal centres' if equal else ''}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    table.add_column("allocation", no_wrap=True)
    for head in ("CPU-seconds", "less than equal shares", "than by data", "not reached"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in study["rows_of_equal_centres" if equal else "rows"]:
        less, than_data = (
            "-"
            if row[saved] is None or row["allocation"] == own
            else f"{row[saved]:.1%}{_either_side(row[off], '.1%')}"
            for own, saved, off in (
                ("equal", "saved_against_equal", "saved_against_equal_error"),
                ("data", "saved_against_data", "saved_against_data_error"),
            )
        )
        missed = f"{row['missed']} of {len(seeds)}" if row["missed"] else ""
        took = f"{row['mean']:,.0f}{_either_side(row['error'], ',.0f')}"
        bold = "bold" if row["allocation"] == "coupled" else ""
        table.add_row(Text(row["label"], style=bold), took, less, than_data, missed)
    return table


def _either_side(error: float | None, form: str) -> str:
    return "" if error is None else f" ± {error:{form}}"


def rivals_table(rows: list[dict[str, Any]]) -> Table:
    """The same net on the same batches, trained in other ways."""
    table = Table(
        title="test accuracy of the same net, trained on the same batches in other ways",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    table.add_column("", no_wrap=True)
    for head in ("worst centre", "mean", "worst loss", "MB sent"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        right = [f"{row[key]:.2%}" if key in row else "-" for key in ("worst_accuracy", "accuracy")]
        table.add_row(row["label"], *right, f"{row['worst_loss']:.4g}", f"{row['bits'] / 8e6:,.1f}")
    return table
