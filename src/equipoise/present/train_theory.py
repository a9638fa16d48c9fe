"""What theory says of a training run, as tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from equipoise.present.values import Cell, Cells, Column, Table, Text

Values = Mapping[str, Any]  # the fields of an Analysis: numbers may be infinite, which no document can say
STABLE = 1e-9  # real parts up to this count as 0


def tables(found: Values) -> list[Text | Table]:
    """The network, one line per quantity with its value and what it means, and alpha where it was varied."""
    columns = [Column("quantity", "left"), Column("value"), Column("meaning", "left", wrap=True)]
    main = Table("", columns, list(_lines(found, found["node_residual"])))
    rows = found["swept"]
    return [Text("", found["description"]), main, *([] if rows is None else [sweep_table(rows, found)])]


def sweep_table(rows: list[dict[str, float]], found: Values) -> Table:
    """Spectral radius of a round, and the largest real part in continuous time, over alpha; unstable ones in red."""
    crossing, crossed = found["crossing_alpha"] or 0.0, False
    body: list[Cells] = []
    for row in rows:
        at = not crossed and row["alpha"] >= crossing * (1.0 - 1e-4)
        crossed = crossed or at
        radius = Cell(f"{row['radius']:.6f}", tone="bad" if crossed else "")
        real = Cell(f"{row['abscissa']:.3g}", tone="bad" if row["abscissa"] > STABLE else "")
        body.append([f"{row['alpha']:.4g}", radius, real, "rounds become unstable here" if at else ""])
    heads = [Column("alpha"), Column("radius of a round"), Column("real part in time"), Column("", "left")]
    return Table(f"alpha {_given(found)}, on the graph that crosses first", heads, body)


def _lines(found: Values, residual: float | None) -> Iterator[tuple[str, str, str]]:
    """Name, value and meaning of what is there."""
    if found["graphs"] is None:
        graphs = "each round has another graph; numbers are of the first few"
    else:
        graphs = "one graph" if found["graphs"] == 1 else f"mean of {found['graphs']} graphs taken in turn"
    yield "nodes", f"{found['nodes']:,}", "computing centres"
    yield "edges", _number(found["edges"]), graphs
    yield "degrees", f"{found['smallest_degree']} to {found['largest_degree']}", "neighbours of a centre"
    yield from _noted(found, "diameter", "diameter", "hops between the farthest two")
    if found["rho"] > 0:
        yield (
            "sector",
            f"{found['sector_low']:.4f} to {found['sector_high']:.4f}",
            f"heard value / true value, at rho {found['rho']:g}",
        )
    if found["rho"] > 0 and found["rho_limit"] is not None:
        yield "rho limit", _number(found["rho_limit"]), "2 ln 2: coarser innovation codes need not settle"
    yield "bits per number", str(found["bits_a_number"]), "on the wire"
    yield "bits per round", _number(found["bits_a_round"]), "over all links; boxes and first contact come on top"
    if found["market_gap"] is not None:
        yield (
            "market gap",
            _number(found["market_gap"]),
            "1 - tau: how far the slowest mode of prices or models moves a round",
        )
    if found["inertia"] is not None:
        yield "theta", _number(found["inertia"]), "chosen, inertia of the markets: stable whatever it is"
    if found["cpu_top"] is not None:
        yield "step", _number(found["step"]), "chosen, of CPU flows along edges"
        yield "lambda_max(L H)", _number(found["cpu_top"]), "of prices: Laplacian times steepest curvature"
        yield (
            "step limit",
            _number(found["cpu_step_limit"]),
            "CPU flows descend below it: 2 e^(-rho/2) / lambda_max(L H)",
        )
        for delay, limit in found["delay_limits"].items():
            rounds = "1 round" if delay == 1 else f"{delay} rounds"
            yield f"step limit, delay {delay}", _number(limit), f"with prices {rounds} old, no momentum"
    if found["cpu_rounds"] is not None or "cpu_rounds" in found["notes"]:
        until = "" if residual is None or residual <= found["target"] else ", or until the residual"
        yield from _noted(found, "cpu_rounds", "CPU rounds", f"predicted, to a gap of {found['target']:g}{until}")
    if residual is not None:
        known = math.isfinite(residual)
        meaning = "node-wise codes may stand still at any gap up to this"
        unknown = "node-wise codes leave one; known for quadratic costs with no share at a bound"
        yield "residual", _number(residual) if known else "-", meaning if known else unknown
    if found["parameters"] is not None:
        yield from _learning_lines(found)


def _learning_lines(found: Values) -> Iterator[tuple[str, str, str]]:
    averaged = found["momentum"] is not None
    yield "parameters", f"{found['parameters']:,}", "of the model"
    yield "L", _number(found["smoothness"]), "largest curvature of a centre's loss"
    yield from _noted(found, "convexity", "convexity", "smallest curvature of the sum of losses")
    yield from _noted(found, "conditioning", "conditioning", "largest / smallest curvature of the sum")
    if not averaged and found["cpu_top"] is None:
        yield "step", _number(found["step"]), "chosen, of consensus"
    yield "alpha", _number(found["alpha"]), "chosen, of the descent along the tracked gradient"
    if averaged:
        yield "alpha limit", _number(found["alpha_limit"]), "1 / (2 L): safe for convex losses, any graph, any momentum"
        yield "momentum", _number(found["momentum"]), "chosen, of the averaged models: beta"
        yield from _noted(found, "crossing_alpha", "alpha crossing", "where rounds with this momentum become unstable")
    else:
        yield (
            "alpha limit",
            _number(found["alpha_limit"]),
            "(2 - step lambda_max)^2 / (2 step L): safe for convex losses",
        )
        yield from _noted(found, "crossing_alpha", "alpha crossing", "where rounds without momentum become unstable")
    yield from _noted(found, "learning_rounds", "learning rounds", f"predicted, to a gap of {found['target']:g}")
    paper = "paper: " if averaged else ""
    yield paper + "lambda_2", _number(found["mixing_second"]), "of mixing: how fast centres agree along edges"
    yield paper + "lambda_max", _number(found["mixing_top"]), "of mixing"
    yield (
        paper + "lambda_2 / L",
        _number(found["paper_alpha"]),
        "its bound on alpha: sufficient and slow, not a boundary",
    )
    if averaged:
        yield (
            paper + "limit",
            _number(found["tracking_limit"]),
            f"of alpha in its rounds at step {found['step']:.4g}, safe",
        )
        yield from _noted(found, "tracking_crossing", paper + "crossing", "where its rounds become unstable")
    yield from _noted(found, "crossing_alpha_in_time", paper + "in time", "where its equations do")


def _given(found: Values) -> str:
    """What alpha is varied at."""
    return f"at step {found['step']:.4g}" if found["momentum"] is None else f"at momentum {found['momentum']:.4g}"


def _noted(found: Values, field: str, name: str, meaning: str) -> Iterator[tuple[str, str, str]]:
    """A quantity that may have no number, or a remark on where it comes from."""
    value, note = found[field], found["notes"].get(field)
    if value is None or not math.isfinite(value):
        yield name, "-" if value is None else "never", note or meaning
    else:
        shown = f"{math.ceil(value):,}" if field.endswith("rounds") else _number(value)
        yield name, shown, meaning + (f" ({note})" if note else "")


def _number(value: float | None) -> str:
    """Four digits; whole numbers stay whole."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "none"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1e4 else f"{value:.4g}"
