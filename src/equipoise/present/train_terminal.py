"""What a training run prints at its end."""

from __future__ import annotations

import numpy as np

from equipoise.certificate import Certificate
from equipoise.document import Document
from equipoise.present.echarts import Floats
from equipoise.present.network import events_of, hostile, present
from equipoise.present.train import Values, columns, convex, headline, model_of
from equipoise.present.train_nodes import allocation_table, rivals_table
from equipoise.present.values import KeyNumber, KeyNumbers, Table, Text

EVENTS, NAMED = 12, 8  # events said one by one, and centres that are gone


def terminal_parts(document: Document) -> list[Text | KeyNumbers | Table | Certificate]:
    """What a run prints at its end: what was done, the few numbers worth a line each, tables, the certificate."""
    result, history = document.result, columns(document)
    seconds = document.arrays.get("seconds")
    took = "" if seconds is None else f" in {float(seconds):.1f} s"
    numbers = {
        "network": result["network"]["description"],
        "rounds": f"{result['rounds']:,}{took}",
        **_progress(document, history),
        "messages": f"{_code(document)}, {result['bits'] / 8e6:,.1f} MB over {result['links']} directed links",
        **_engine_lines(result.get("engine")),
    }
    if "shares" in result:
        shares = np.array([np.nan if x is None else x for x in result["shares"]], dtype=float)
        own = shares[present(document)]
        numbers["shares"] = f"{own.min():.2f} to {own.max():.2f} CPUs, sum {np.sum(shares):.10g}"
    numbers |= _hostile_lines(document)
    if "accuracy" in result:
        worst, best = result["accuracy"]["worst"], result["accuracy"].get("centralised")
        central = "" if best is None else f", {best:.2%} centralised"
        numbers["test accuracy"] = f"{worst:.2%} at the worst centre{central}"
    if "test_error" in result:
        worst, best = result["test_error"]["worst"], result["test_error"]["centralised"]
        numbers["test error"] = f"{worst:.4g} at the worst centre, {best:.4g} centralised (root mean square)"
    clipped = {name: tally for name, tally in result["quantizer"].items() if tally["saturated"]}
    if clipped:
        numbers["out of range"] = ", ".join(
            f"{tally['saturated']:,} of {tally['sent']:,} {name} were clipped" for name, tally in clipped.items()
        )
    found: list[Text | KeyNumbers | Table | Certificate] = [
        Text(result["reason"], f"{headline(document)}:"),
        KeyNumbers([KeyNumber(name, value) for name, value in numbers.items()]),
    ]
    if "allocations" in result:
        found += [allocation_table(result["allocations"], equal) for equal in (False, True)]
    if "rivals" in result:
        found.append(rivals_table(result["rivals"]))
    if document.certificate is not None:
        found.append(document.certificate)
    words = advice(document)
    return [*found, Text(words, soft=True)] if words else found


def advice(document: Document) -> str:
    """What a user can do about a failed certificate; empty where it passed."""
    result, certificate = document.result, document.certificate
    if certificate is None or certificate.passed:
        return ""
    if result["status"] == "diverged":
        return "The run diverged: leave --step, --alpha and --cap at auto, or lower --rho."
    if "box" in certificate and not certificate["box"].passed:
        return "Shares left their boxes: a penalty cannot hold them; use --box price."
    if result.get("trouble"):
        return "The survivors cannot reach their optimum: see trouble above; heal the split, or widen --hi."
    if "loss" in certificate and not certificate["loss"].passed:
        return "The net did not learn enough: raise --rounds, or give another --alpha."
    if result["status"] == "finished" and result["message"]["mode"] == "innovation":
        return "The rounds ran out: raise --rounds, or ask for less with --target."
    return "The gap does not close: these messages leave a residual; the default, --mode innovation, does not."


def _code(document: Document) -> str:
    """How numbers travel."""
    bits = f"{document.result['message']['bits']} bits per number"
    return f"{bits}, 64 where no recent packet was acknowledged" if hostile(document) else bits


def _progress(document: Document, history: dict[str, Floats]) -> dict[str, str]:
    """The gap, and the loss where that is all there is to go by."""
    result, found = document.result, {}
    gap, known = result.get("relative_gap"), convex(document)
    if gap is not None:
        halves = "shares" in result and bool(model_of(document)) and known
        since = "at the last event" if events_of(document) else "at the start"
        target = document.config.get("target") if hostile(document) else None
        asked = f"; asked for {target:g}" if isinstance(target, float) else ""
        part = "" if known else "of the CPU cost "
        found["gap"] = f"{gap:.2e} of the gap {part}{since}{' (the worse half)' if halves else ''}{asked}"
    losses = history.get("loss", np.empty(0))
    if len(losses):
        found["loss"] = f"{losses[-1]:.4g} at the worst centre, on everybody's data; {losses[0]:.4g} at the start"
    return found


def _hostile_lines(document: Document) -> dict[str, str]:
    """What happened, who is left, and what is on its way."""
    if not hostile(document):
        return {}
    result, events, there = document.result, events_of(document), present(document)
    found: dict[str, str] = {}
    if events:
        said = [event["text"] for event in events[:EVENTS]]
        if len(events) > EVENTS:
            said.append(f"and {len(events) - EVENTS} more, all in result.json")
        found["events"] = "\n".join(said)
    gone = [str(node) for node, here in enumerate(there) if not here]
    named = ", ".join(gone[:NAMED]) + (", ..." if len(gone) > NAMED else "")
    found["centres"] = f"{sum(there)} of {len(there)} are there" + (f"; gone: {named}" if gone else "")
    packets, lost = result["packets"], result["packets_lost"]
    found["packets"] = f"{packets:,} sent, {lost:,} lost ({lost / packets if packets else 0.0:.1%})"
    if "in_flight" in result:
        found["in flight"] = f"{result['in_flight']:.6g} CPUs in nobody's share at the end"
    if result["trouble"]:
        found["trouble"] = "\n".join(result["trouble"])
    return found


def _engine_lines(engine: Values | None) -> dict[str, str]:
    """Where rounds were played, who died, and what CPU workers took."""
    if engine is None:
        return {}
    found = {"engine": f"{engine['where']}, {engine['bytes_a_round']:,.0f} bytes per round between them"}
    if "lost" in engine:
        found["lost"] = "\n".join(
            f"worker {row['worker']} (process {row['process']}) died in round {row['round']}, and its "
            f"{len(row['centres'])} centres with it"
            for row in engine["lost"]
        )
    if "held" in engine:
        each = ", ".join(
            f"{row['cpu_seconds'] / row['wall_seconds']:.2f} of {row['asked_cpu_seconds'] / row['wall_seconds']:.2f}"
            for row in engine["held"]["workers"]
            if row["wall_seconds"] > 0
        )
        found["held"] = f"{engine['held']['limiter']}\ntook, of the cores each was given: {each}"
    return found
