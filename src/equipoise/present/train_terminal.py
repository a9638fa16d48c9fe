"""What a training run prints at its end, and what theory says of one before it is made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from equipoise.certificate import Certificate
from equipoise.document import Document, Plain, Row
from equipoise.present.network import events_of, hostile, present
from equipoise.present.text import count
from equipoise.present.train import columns, convex, headline, model_of, since
from equipoise.present.train_advice import advice
from equipoise.present.train_beside import beside_table
from equipoise.present.train_data import data_lines, left_table, scores_table
from equipoise.present.train_nodes import allocation_table, rivals_table
from equipoise.present.values import Cell, Cells, Column, KeyNumber, KeyNumbers, Table, Text

EVENTS, NAMED = 12, 8  # events said one by one, and centres that are gone
STABLE = 1e-9  # real parts up to this count as 0
NEVER = ("crossing", "rounds", "conditioning")  # in names of quantities: infinite ones are never reached
Analysis = Mapping[str, Plain]  # the fields of an Analysis: numbers may be infinite, which no document can say
Line = tuple[str, str]  # what, and how much


def terminal_parts(document: Document) -> list[Text | KeyNumbers | Table | Certificate]:
    """What a run prints at its end: what was done, the few numbers worth a line each, tables, the certificate."""
    result = document.result
    found: list[Text | KeyNumbers | Table | Certificate] = [
        Text(result["reason"], f"{headline(document)}:"),
        KeyNumbers([KeyNumber(*line) for line in _run_lines(document)]),
    ]
    if "allocations" in result:
        found += [allocation_table(result["allocations"], equal) for equal in (False, True)]
    if "rivals" in result:
        found.append(rivals_table(result["rivals"]))
    if "data" in result:
        found += [table for table in (left_table(document), scores_table(document)) if table is not None]
    side_by_side = beside_table(document)
    if side_by_side is not None:
        found.append(side_by_side)
    if document.certificate is not None:
        found.append(document.certificate)
    words = advice(document)
    return [*found, Text(words, soft=True)] if words else found


def verified_numbers(document: Document) -> list[KeyNumbers]:
    """What `train verify` looked at."""
    told = document.result
    rounds = f"{told['rounds']:,}, {told['status']}"
    numbers = {"nodes": f"{told['nodes']:,}", "links": f"{told['links']:,}", "rounds": rounds}
    if told["rounds_of_shares"]:
        numbers["shares"] = f"of {count(told['rounds_of_shares'], 'moment')}, the start among them"
    return [KeyNumbers([KeyNumber(name, value) for name, value in numbers.items()])]


def _run_lines(document: Document) -> Iterator[Line]:
    """What came out of it, a line for each thing."""
    result, seconds = document.result, document.arrays.get("seconds")
    yield from data_lines(document)
    yield "network", result["network"]["description"]
    yield "rounds", f"{result['rounds']:,}" + ("" if seconds is None else f" in {float(seconds):.1f} s")
    yield from _progress_lines(document)
    if "dynamics" in result:
        yield "dynamics", result["dynamics"]["why"].replace("; models by", "\nmodels by")
    bits = f"{result['message']['bits']} bits per number"
    bits += ", 64 where no recent packet was acknowledged" if hostile(document) else ""
    yield "messages", f"{bits}, {result['bits'] / 8e6:,.1f} MB over {result['links']} directed links"
    if "engine" in result:
        yield from _engine_lines(result["engine"])
    if "shares" in result:
        shares = np.array(result["shares"], dtype=float)
        own = shares[present(document)]
        yield "shares", f"{own.min():.2f} to {own.max():.2f} CPUs, sum {np.sum(shares):.10g}"
    if hostile(document):
        yield from _hostile_lines(document)
    if "accuracy" in result:
        worst, best = result["accuracy"]["worst"], result["accuracy"].get("centralised")
        central = "" if best is None else f", {best:.2%} centralised"
        yield "test accuracy", f"{worst:.2%} at the worst centre{central}"
    if "test_error" in result:
        worst, best = result["test_error"]["worst"], result["test_error"]["centralised"]
        yield "test error", f"{worst:.4g} at the worst centre, {best:.4g} centralised (root mean square)"
    tallies = {name: tally for name, tally in result["quantizer"].items() if tally["saturated"]}
    clipped = [f"{t['saturated']:,} of {t['sent']:,} {name} were clipped" for name, t in tallies.items()]
    if clipped:
        yield "out of range", ", ".join(clipped)


def _progress_lines(document: Document) -> Iterator[Line]:
    """The gap, and the loss where that is all there is to go by."""
    result, known = document.result, convex(document)
    gap, losses = result.get("relative_gap"), columns(document).get("loss", np.empty(0))
    if gap is not None:
        worse = " (the worse half)" if "shares" in result and model_of(document) and known else ""
        target = document.config.get("target") if hostile(document) else None
        asked = f"; asked for {target:g}" if isinstance(target, float) else ""
        yield "gap", f"{gap:.2e} of the gap {'' if known else 'of the CPU cost '}{since(document)}{worse}{asked}"
    if len(losses):
        yield "loss", f"{losses[-1]:.4g} at the worst centre, on everybody's data; {losses[0]:.4g} at the start"


def _hostile_lines(document: Document) -> Iterator[Line]:
    """What happened, who is left, and what is on its way."""
    result, events, there = document.result, events_of(document), present(document)
    if events:
        said = [event["text"] for event in events[:EVENTS]]
        more = [f"and {len(events) - EVENTS} more, all in result.json"] if len(events) > EVENTS else []
        yield "events", "\n".join(said + more)
    gone = [str(node) for node, here in enumerate(there) if not here]
    named = ", ".join(gone[:NAMED]) + (", ..." if len(gone) > NAMED else "")
    yield "centres", f"{sum(there)} of {len(there)} are there" + (f"; gone: {named}" if gone else "")
    packets, lost = result["packets"], result["packets_lost"]
    yield "packets", f"{packets:,} sent, {lost:,} lost ({lost / packets if packets else 0.0:.1%})"
    if "in_flight" in result:
        yield "in flight", f"{result['in_flight']:.6g} CPUs in nobody's share at the end"
    if result["trouble"]:
        yield "trouble", "\n".join(result["trouble"])


def _engine_lines(engine: Row) -> Iterator[Line]:
    """Where rounds were played, who died, and what CPU workers took."""
    yield "engine", f"{engine['where']}, {engine['bytes_a_round']:,.0f} bytes per round between them"
    if "lost" in engine:
        died = [
            f"worker {row['worker']} (process {row['process']}) died in round {row['round']}, and its "
            f"{len(row['centres'])} centres with it"
            for row in engine["lost"]
        ]
        yield "lost", "\n".join(died)
    if "held" in engine:
        timed = [row for row in engine["held"]["workers"] if row["wall_seconds"] > 0]
        cores = [[row[key] / row["wall_seconds"] for key in ("cpu_seconds", "asked_cpu_seconds")] for row in timed]
        each = ", ".join(f"{took:.2f} of {asked:.2f}" for took, asked in cores)
        yield "held", f"{engine['held']['limiter']}\ntook, of the cores each was given: {each}"


# What theory says.


def theory_tables(found: Analysis) -> list[Text | Table]:
    """The network, one line per quantity with its value and what it means, and alpha where it was varied."""
    columns = [Column("quantity", "left"), Column("value"), Column("meaning", "left", wrap=True)]
    lines = [*_market_lines(found), *([] if found["parameters"] is None else _learning_lines(found))]
    swept = [] if found["swept"] is None else [sweep_table(found["swept"], found)]
    return [Text("", found["description"]), Table("", columns, lines), *swept]


def sweep_table(rows: list[dict[str, float]], found: Analysis) -> Table:
    """Spectral radius of a round, and the largest real part in continuous time, over alpha; unstable ones in red."""
    crossing, crossed = found["crossing_alpha"] or found["tracking_crossing"] or 0.0, False
    body: list[Cells] = []
    for row in rows:
        at = not crossed and row["alpha"] >= crossing * (1.0 - 1e-4)
        crossed = crossed or at
        radius = Cell(f"{row['radius']:.6f}", tone="bad" if crossed else "")
        real = Cell(f"{row['abscissa']:.3g}", tone="bad" if row["abscissa"] > STABLE else "")
        body.append([f"{row['alpha']:.4g}", radius, real, "rounds become unstable here" if at else ""])
    heads = [Column("alpha"), Column("radius of a round"), Column("real part in time"), Column("", "left")]
    paper = "" if found["learning"] == "mixing" else "paper: "
    return Table(f"{paper}alpha at step {found['step']:.4g}, on the graph that crosses first", heads, body)


def _market_lines(found: Analysis) -> Iterator[Cells]:
    """Name, value and meaning of what is known of the network, the messages and the CPU."""
    line, residual, target = partial(_line, found), found["node_residual"], found["target"]
    graphs = "one graph" if found["graphs"] == 1 else f"mean of {found['graphs']} graphs taken in turn"
    if found["graphs"] is None:
        graphs = "each round has another graph; numbers are of the first few"
    yield line("nodes", "nodes", "computing centres")
    yield line("edges", "edges", graphs)
    yield "degrees", f"{found['smallest_degree']} to {found['largest_degree']}", "neighbours of a centre"
    yield line("diameter", "diameter", "hops between the farthest two")
    if found["rho"] > 0:
        sector = f"{found['sector_low']:.4f} to {found['sector_high']:.4f}"
        yield "sector", sector, f"heard value / true value, at rho {found['rho']:g}"
    yield line("bits per number", "bits_a_number", "on the wire")
    yield line("bits per round", "bits_a_round", "over all links; boxes and first contact come on top")
    if found["link_gap"] is not None:
        yield line("gap", "link_gap", "1 - second eigenvalue of the links: rounds grow as one over its square root")
    if found["cpu_theta"] is not None:
        yield line(
            "CPU theta", "cpu_theta", "chosen, weights of a centre's links in its elasticities: stable whatever it is"
        )
        yield line("CPU relax", "cpu_relax", "chosen, of a round's way that prices go: stable below 1")
    if found["inertia"] is not None:
        yield line("theta", "inertia", "chosen, inertia of the markets: stable whatever it is")
    if found["cpu_top"] is not None:
        yield line("step", "step", "chosen, of CPU flows along edges")
        yield line("lambda_max(L H)", "cpu_top", "of prices: Laplacian times steepest curvature")
        yield line("step limit", "cpu_step_limit", "CPU flows descend below it: 2 e^(-rho/2) / lambda_max(L H)")
        for delay, limit in found["delay_limits"].items():
            yield f"step limit, delay {delay}", _number(limit), f"with prices {count(delay, 'round')} old, no momentum"
    if found["cpu_rounds"] is not None or "cpu_rounds" in found["notes"]:
        until = "" if residual is None or residual <= target else ", or until the residual"
        yield line("CPU rounds", "cpu_rounds", f"predicted, to a gap of {target:g}{until}")
    if residual is not None and math.isfinite(residual):
        yield line("residual", "node_residual", "node-wise codes may stand still at any gap up to this")
    elif residual is not None:
        yield "residual", "-", "node-wise codes leave one; known for quadratic costs with no share at a bound"


def _learning_lines(found: Analysis) -> Iterator[Cells]:
    """Name, value and meaning of what is known of the model and its steps."""
    line, averaged, linked = partial(_line, found), found["momentum"] is not None, found["learning"] == "links"
    yield line("parameters", "parameters", "of the model")
    yield line("L", "smoothness", "largest curvature of a centre's loss")
    yield line("convexity", "convexity", "smallest curvature of the sum of losses")
    yield line("conditioning", "conditioning", "largest / smallest curvature of the sum")
    if linked:
        yield line("model theta", "model_theta", "chosen, weights of a centre's links in L: stable whatever it is")
        yield line("model relax", "model_relax", "chosen, of a round's way that models go: stable below 1")
        yield line("local steps", "local_steps", "of a centre's own gradient in a round; 1 is an exact answer")
    elif not averaged and found["cpu_top"] is None:
        yield line("step", "step", "chosen, of consensus")
    if not linked:
        yield line("alpha", "alpha", "chosen, of the descent along the tracked gradient")
    if averaged:
        yield line("alpha limit", "alpha_limit", "1 / (2 L): safe for convex losses, any graph, any momentum")
        yield line("momentum", "momentum", "chosen, of the averaged models: beta")
    elif not linked:
        yield line("alpha limit", "alpha_limit", "(2 - step lambda_max)^2 / (2 step L): safe for convex losses")
    if not linked:
        yield line("alpha crossing", "crossing_alpha", "where rounds without momentum become unstable")
    yield line("learning rounds", "learning_rounds", f"predicted, to a gap of {found['target']:g}")
    paper = "paper: " if averaged or linked else ""
    yield line(f"{paper}lambda_2", "mixing_second", "of mixing: how fast centres agree along edges")
    yield line(f"{paper}lambda_max", "mixing_top", "of mixing")
    yield line(f"{paper}lambda_2 / L", "paper_alpha", "its bound on alpha: sufficient and slow, not a boundary")
    if averaged or linked:
        yield line(f"{paper}limit", "tracking_limit", f"of alpha in its rounds at step {found['step']:.4g}, safe")
        yield line(f"{paper}crossing", "tracking_crossing", "where its rounds become unstable")
    yield line(f"{paper}in time", "crossing_alpha_in_time", "where its equations do")


def _line(found: Analysis, name: str, field: str, meaning: str) -> Cells:
    """A quantity with its meaning; a remark on where its number comes from follows, or stands there without a number."""
    value, note = found[field], found["notes"].get(field)
    if value is None or not math.isfinite(value):
        endless = "never" if any(word in field for word in NEVER) else "none"
        return name, "-" if value is None else endless, note or meaning
    shown = math.ceil(value) if field.endswith("rounds") else value
    return name, _number(shown), meaning + (f" ({note})" if note else "")


def _number(value: float) -> str:
    """Four digits; whole numbers stay whole."""
    if not math.isfinite(value):
        return "none"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1e4 else f"{value:.4g}"
