"""What `equipoise train analyse` does: everything theory says of a configuration, one line a quantity, without a run."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise import __version__
from equipoise.cli.run_folder import to_json
from equipoise.cli.train_build import Job, build
from equipoise.cli.train_config import TrainConfig
from equipoise.cli.train_faults import flag, refuse_faults
from equipoise.errors import InputError
from equipoise.train import Quadratic
from equipoise.train.baselines import Recorder
from equipoise.train.comparison import finite
from equipoise.train.run import DEFAULT_TARGET
from equipoise.train.theory.analysis import Analysis, analyse, sweep
from equipoise.train.theory.bounds import node_residual
from equipoise.train.theory.predict import DENSE_STATE


def run_analyse(config: TrainConfig, *, quiet: bool, swept: bool) -> None:
    """Analyse and print a table, or JSON; with a second table over alpha if asked for."""
    settings: dict[str, Any] = json.loads(config.model_dump_json(exclude_none=True))
    try:
        _run(config, settings, quiet=quiet, swept=swept)
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        raise


def _run(config: TrainConfig, settings: dict[str, Any], *, quiet: bool, swept: bool) -> None:
    refuse_faults(config, "analyse", ": its theory is of links that work")
    if config.deep:
        raise InputError(f"analyse needs a convex model, which {config.model} is not: use softmax")
    for name in ("couple", "batch", "fade"):
        if getattr(config, name):
            raise InputError(f"analyse knows no mini-batches: drop {flag(name)}")
    job = build(config)
    if swept:
        refuse_large_sweep(job)
    found = analyse(job.problem, job.network, job.method, target=config.target or DEFAULT_TARGET)
    rows = sweep(job.problem, job.network, job.method) if swept else None
    residual = relative_residual(job)
    if quiet:
        result = (
            found.as_dict()
            | {"node_residual": None if residual is None else finite(residual)}
            | ({} if rows is None else {"sweep": rows})
        )
        print(to_json({"verb": "train analyse", "version": __version__, "config": settings, "result": result}))
        return
    console = Console()
    console.print(Text(job.network.description, style="bold"))
    console.print(analysis_table(found, residual))
    if rows is not None:
        console.print(sweep_table(rows, found))


def refuse_large_sweep(job: Job) -> None:
    """Before anything is computed: what a sweep cannot do, and the largest network that it can."""
    model, nodes = job.problem.model, job.network.n
    if model is None:
        raise InputError("--sweep needs a model: it varies alpha, the step of learning")
    most = DENSE_STATE // model.size
    if nodes > most:
        way_out = f"at most {most} nodes with {model.size:,} parameters, not {nodes:,}"
        if most < 2:
            way_out = f"no network with {model.size:,} parameters; --data breast_cancer has 62 and allows 4 nodes"
        raise InputError(f"--sweep takes nodes x parameters up to {DENSE_STATE}: {way_out}")


def relative_residual(job: Job) -> float | None:
    """The largest gap at which node-wise log codes stand still, as a part of that at the start; None if not node-wise.

    Not a number where there is no formula: costs that are not quadratic, or a share at its bound.
    """
    quantizer, market = job.method.quantizer, job.problem.market(job.problem.sized(job.network.n))
    if market is None or quantizer.mode != "node" or not quantizer.rho:
        return None
    book = Recorder("residual", job.problem, job.network)
    best, start = book.optimum.shares, float(book.track().gap[0])
    if not isinstance(market.cost, Quadratic) or not ((book.lo < best) & (best < book.hi)).all() or start <= 0:
        return math.nan
    a = np.broadcast_to(market.cost.a, job.network.n)
    return node_residual(quantizer.rho, book.optimum.price, a) / start


def analysis_table(found: Analysis, residual: float | None = None) -> Table:
    """One line a quantity: its value and what it means."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("quantity", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("meaning", overflow="fold")
    for name, value, meaning in _lines(found, residual):
        table.add_row(name, value, meaning)
    return table


def sweep_table(rows: list[dict[str, float]], found: Analysis) -> Table:
    """Spectral radius of a round, and the largest real part in continuous time, over alpha; unstable ones in red."""
    table = Table(
        title=f"alpha {_given(found)}, on the graph that crosses first",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for head in ("alpha", "radius of a round", "real part in time", ""):
        table.add_column(head, justify="left" if not head else "right", no_wrap=True)
    crossing, crossed = found.crossing_alpha or 0.0, False
    for row in rows:
        at = not crossed and row["alpha"] >= crossing * (1.0 - 1e-4)
        crossed = crossed or at
        radius, real = f"{row['radius']:.6f}", f"{row['abscissa']:.3g}"
        table.add_row(
            f"{row['alpha']:.4g}",
            f"[red]{radius}[/]" if crossed else radius,
            f"[red]{real}[/]" if row["abscissa"] > 1e-9 else real,
            "rounds become unstable here" if at else "",
        )
    return table


def _lines(found: Analysis, residual: float | None) -> Iterator[tuple[str, str, str]]:
    """Name, value and meaning of what is there."""
    if found.graphs is None:
        graphs = "each round has another graph; numbers are of the first few"
    else:
        graphs = "one graph" if found.graphs == 1 else f"mean of {found.graphs} graphs taken in turn"
    yield "nodes", f"{found.nodes:,}", "computing centres"
    yield "edges", _number(found.edges), graphs
    yield "degrees", f"{found.smallest_degree} to {found.largest_degree}", "neighbours of a centre"
    yield from _noted(found, "diameter", "diameter", "hops between the farthest two")
    if found.rho > 0:
        yield (
            "sector",
            f"{found.sector_low:.4f} to {found.sector_high:.4f}",
            f"heard value / true value, at rho {found.rho:g}",
        )
    if found.rho > 0 and found.rho_limit is not None:
        yield "rho limit", _number(found.rho_limit), "2 ln 2: coarser innovation codes need not settle"
    yield "bits a number", str(found.bits_a_number), "on the wire"
    yield "bits a round", _number(found.bits_a_round), "over all links; boxes and first contact come on top"
    if found.market_gap is not None:
        yield (
            "market gap",
            _number(found.market_gap),
            "1 - tau: how far the slowest mode of prices or models moves a round",
        )
    if found.inertia is not None:
        yield "theta", _number(found.inertia), "chosen, inertia of the markets: stable whatever it is"
    if found.cpu_top is not None:
        yield "step", _number(found.step), "chosen, of CPU flows along edges"
        yield "lambda_max(L H)", _number(found.cpu_top), "of prices: Laplacian times steepest curvature"
        yield "step limit", _number(found.cpu_step_limit), "CPU flows descend below it: 2 e^(-rho/2) / lambda_max(L H)"
        for delay, limit in found.delay_limits.items():
            rounds = "1 round" if delay == 1 else f"{delay} rounds"
            yield f"step limit, delay {delay}", _number(limit), f"with prices {rounds} old, no momentum"
    if found.cpu_rounds is not None or "cpu_rounds" in found.notes:
        until = "" if residual is None or residual <= found.target else ", or until the residual"
        yield from _noted(found, "cpu_rounds", "CPU rounds", f"predicted, to a gap of {found.target:g}{until}")
    if residual is not None:
        known = math.isfinite(residual)
        meaning = "node-wise codes may stand still at any gap up to this"
        unknown = "node-wise codes leave one; known for quadratic costs with no share at a bound"
        yield "residual", _number(residual) if known else "-", meaning if known else unknown
    if found.parameters is not None:
        yield from _learning_lines(found)


def _learning_lines(found: Analysis) -> Iterator[tuple[str, str, str]]:
    averaged = found.momentum is not None
    yield "parameters", f"{found.parameters:,}", "of the model"
    yield "L", _number(found.smoothness), "largest curvature of a centre's loss"
    yield from _noted(found, "convexity", "convexity", "smallest curvature of the sum of losses")
    yield from _noted(found, "conditioning", "conditioning", "largest / smallest curvature of the sum")
    if not averaged and found.cpu_top is None:
        yield "step", _number(found.step), "chosen, of consensus"
    yield "alpha", _number(found.alpha), "chosen, of the descent along the tracked gradient"
    if averaged:
        yield "alpha limit", _number(found.alpha_limit), "1 / (2 L): safe for convex losses, any graph, any momentum"
        yield "momentum", _number(found.momentum), "chosen, of the averaged models: beta"
        yield from _noted(found, "crossing_alpha", "alpha crossing", "where rounds with this momentum become unstable")
    else:
        yield "alpha limit", _number(found.alpha_limit), "(2 - step lambda_max)^2 / (2 step L): safe for convex losses"
        yield from _noted(found, "crossing_alpha", "alpha crossing", "where rounds without momentum become unstable")
    yield from _noted(found, "learning_rounds", "learning rounds", f"predicted, to a gap of {found.target:g}")
    paper = "paper: " if averaged else ""
    yield paper + "lambda_2", _number(found.mixing_second), "of mixing: how fast centres agree along edges"
    yield paper + "lambda_max", _number(found.mixing_top), "of mixing"
    yield paper + "lambda_2 / L", _number(found.paper_alpha), "its bound on alpha: sufficient and slow, not a boundary"
    if averaged:
        yield paper + "limit", _number(found.tracking_limit), f"of alpha in its rounds at step {found.step:.4g}, safe"
        yield from _noted(found, "tracking_crossing", paper + "crossing", "where its rounds become unstable")
    yield from _noted(found, "crossing_alpha_in_time", paper + "in time", "where its equations do")


def _given(found: Analysis) -> str:
    """What alpha is varied at."""
    return f"at step {found.step:.4g}" if found.momentum is None else f"at momentum {found.momentum:.4g}"


def _noted(found: Analysis, field: str, name: str, meaning: str) -> Iterator[tuple[str, str, str]]:
    """A quantity that may have no number, or a remark on where it comes from."""
    value, note = getattr(found, field), found.notes.get(field)
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
