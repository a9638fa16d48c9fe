"""What each node of a training run ended with, and other ways to share or to train beside it: charts and tables."""

from __future__ import annotations

import math

import numpy as np

from equipoise.document import Document, Row
from equipoise.present.echarts import Floats, Ints
from equipoise.present.figures import Axis, Figure, Mark, Series, thinned
from equipoise.present.network import present
from equipoise.present.text import count, number, percent
from equipoise.present.values import Cell, Cells, Column, Table

BARS, DOTS = 60, 500  # nodes up to which each has a bar, and how many dots are drawn at most
NARROW = 30  # nodes up to which a chart of all of them fits half a row
EQUAL = "These have the same speed, as much data and as much noise: there is little to gain. "
CUT = " The axis does not begin at zero."


def final_shares(document: Document) -> Figure | None:
    """What each node ended with, beside what a central planner would have given it."""
    got, wished = document.result.get("shares"), document.result.get("optimal_shares")
    if not got or not wished or None in got:
        return None
    shares, best = np.array(got, dtype=float), np.array(wished, dtype=float)
    there = np.flatnonzero(present(document))
    nodes = len(there)
    few = nodes <= BARS
    shown = there if few else _sorted(there, best)
    places, own, wish = np.arange(len(shown)), shares[shown], best[shown]
    if few:
        size = (16.0 if nodes <= 12 else 12.0 if nodes <= 24 else 9.0, 3.0)
        bars = Series("final share", places, own, "bars", colour="@blue", opacity=0.75)
        series = [bars, Series("optimal share", places, wish, "dots", colour="@ink", marker="rect", size=size)]
        meaning = "Where a bar ends at its mark, the node got what a central planner would have given it."
        label = "Bars of each node's final CPU share with a mark at the optimal one"
    else:
        dots = Series("final share", places, own, "dots", colour="@blue", opacity=0.75, size=5)
        series = [dots, Series("optimal share", places, wish, colour="@ink", width=1, marker="none")]
        amount = f"{len(shown)} of {nodes:,} nodes" if len(shown) < nodes else "Nodes"
        where = "where dots lie on the line, nodes got what a central planner would have given them"
        meaning, label = f"{amount}, sorted; {where}.", "Dots of final CPU shares and a line of the optimal ones"
    if nodes < len(best):
        meaning += f" Those who are gone {'have no bar' if few else 'are left out'}."
    meaning += f" The farthest is {number(float(np.abs(shares - best)[there].max()), 3)} CPUs away."
    x, y = _nodes(shown, "" if few else "optimal share"), Axis("CPUs", zero=few)
    title, wide = "Final shares against the optimum", nodes > NARROW
    return Figure(title, x, y, series, caption=meaning, key="final", label=label, legend=True, wide=wide)


def node_accuracy(accuracy: Row | None) -> Figure | None:
    """Test accuracy of each node's own model, with the centralised one's as a line."""
    nodes = np.array([] if accuracy is None else accuracy["nodes"], dtype=float)  # not a number: it is gone
    there = np.flatnonzero(np.isfinite(nodes))
    if accuracy is None or not len(there):
        return None
    central = accuracy.get("centralised")
    few = len(there) <= DOTS
    shown = there if few else _sorted(there, nodes)
    drawn = [*nodes[there].tolist(), *([] if central is None else [float(central)])]
    low, high = min(drawn), max(drawn)
    margin = max(0.01, 0.25 * (high - low))
    bottom, top = max(0.0, math.floor(100 * (low - margin)) / 100), min(1.0, math.ceil(100 * (high + margin)) / 100)
    meaning, label, marks = "Each dot is one node's own model on data that nobody trained on", "", []
    if central is not None:
        meaning += "; at the dashed line it is as good as a model trained on all data in one place"
        label = ", with the centralised model's as a dashed line"
        marks = [Mark("y", central, f"centralised {percent(central)}")]
    meaning += "." if len(there) == len(nodes) else ". Those who are gone have no dot."
    meaning += CUT if bottom > 0 else ""
    meaning += "" if few else f" {len(shown)} of {len(there):,} nodes are drawn, worst first."
    title, y = "Test accuracy of each node's own model", Axis("right answers", low=bottom, high=top, form="percent")
    x, dots = _nodes(shown, "" if few else "accuracy"), _dots("own model", nodes[shown], "@teal")
    label = f"Dots: test accuracy of each node{label}"
    return Figure(title, x, y, [dots], marks, caption=meaning, key="accuracy", label=label, wide=len(shown) > NARROW)


def node_losses(losses: Row | None) -> Figure | None:
    """Loss of each centre's own net on everybody's data."""
    if losses is None or None in losses["nodes"]:
        return None
    nodes = np.array(losses["nodes"], dtype=float)
    worst = f"most of which it has never seen. The worst is {number(losses['worst'])}."
    meaning = f"Each dot is one node's own net on everybody's training data, {worst}{CUT}"
    x, y, dots = _nodes(np.arange(len(nodes))), Axis("loss", zero=False), _dots("loss", nodes, "@violet")
    label = "Dots: loss of each node's own net on the data of all nodes"
    return Figure("Loss of each node's own net", x, y, [dots], caption=meaning, key="losses", label=label)


def _sorted(nodes: Ints, values: Floats) -> Ints:
    """At most so many as are drawn, by their values."""
    return nodes[np.argsort(values[nodes], kind="stable")[thinned(len(nodes), DOTS)]]


def _nodes(shown: Ints, by: str = "") -> Axis:
    return Axis(f"node, by {by}" if by else "node", groups=list(map(str, shown.tolist())), point="node {value}")


def _dots(name: str, values: Floats, colour: str) -> Series:
    size = 9 if len(values) <= BARS else 5
    return Series(name, np.arange(len(values)), values, "dots", colour=colour, opacity=0.9, size=size)


def rivals(rows: list[Row] | None) -> Figure | None:
    """Accuracy of the worst and of the mean centre under each way to train the same net."""
    if not rows or any("accuracy" not in row for row in rows):
        return None
    mean, worst, places = [row["accuracy"] for row in rows], [row["worst_accuracy"] for row in rows], range(len(rows))
    bottom = max(0.0, math.floor(20 * (min(worst) - 0.02)) / 20)
    series = [
        Series("mean node", mean, places, "dots", colour="@teal", size=13),
        Series("worst node", worst, places, "dots", colour="@bad", marker="diamond", size=13),
    ]
    sent = ", ".join(f"{row['label']} {row['bits'] / 8e6:,.1f} MB" for row in rows)
    meaning = (
        "Same net, first parameters, batches and rounds, each at a rate tuned for it. Ours ends at "
        f"{percent(worst[0])} at the worst node. Sent: {sent}.{CUT if bottom > 0 else ''}"
    )
    x, y = Axis("right answers", low=bottom, high=1, form="percent"), Axis(groups=[row["label"] for row in rows])
    label = "Dots: test accuracy of the worst and of the mean node for each way to train"
    title = "The same net, trained in other ways"
    return Figure(title, x, y, series, caption=meaning, key="rivals", label=label, tip="item", down=True, wide=True)


def rivals_table(rows: list[Row]) -> Table:
    """The same net on the same batches, trained in other ways."""
    body: list[Cells] = []
    for row in rows:
        right = [f"{row[key]:.2%}" if key in row else "-" for key in ("worst_accuracy", "accuracy")]
        body.append([row["label"], *right, f"{row['worst_loss']:.4g}", f"{row['bits'] / 8e6:,.1f}"])
    heads = [Column("", "left"), *map(Column, ("worst centre", "mean", "worst loss", "MB sent"))]
    return Table("test accuracy of the same net, trained on the same batches in other ways", heads, body)


def allocations(study: Row | None, equal: bool = False) -> Figure | None:
    """A lying bar for each allocation, the cheapest on top, with a standard error either side of its end."""
    rows = (study or {}).get("rows_of_equal_centres" if equal else "rows")
    if not study or not rows:
        return None
    means, errors = [row["mean"] for row in rows], [row["error"] for row in rows]
    colours = ["@blue" if row["allocation"] == "coupled" else "@grey" for row in rows]
    bars = Series("CPU-seconds", means, range(len(rows)), "bars", errors, colours=colours, values=True)
    longest = max(mean + (error or 0.0) for mean, error in zip(means, errors, strict=True))
    step = 10.0 ** math.floor(math.log10(max(longest, 1.0))) / 2
    x = Axis("CPU-seconds", low=0, high=float(step * math.ceil(longest / step)))  # a round number past the longest
    part = f"{100 * study['target']:.0f} %"
    missed = ", ".join(f"{row['label']} in {row['missed']}" for row in rows if row["missed"])
    meaning = (
        f"Shorter is better: what the centres spent until the mean accuracy of their models was {part} of the "
        "centralised one's. All have the same centres, budget and draws; only shares differ. "
        f"{EQUAL if equal else ''}Mean of {count(len(study['seeds']), 'seed')}"
        f"{', a standard error either side' if any(errors) else ''}."
    )
    meaning += f" Not reached, and counted with the whole run: {missed}." if missed else ""
    title = "The same on equal centres" if equal else "CPU-seconds to target accuracy per allocation"
    label = f"Bars: CPU-seconds until {part} of the centralised accuracy, for each way to divide the CPU"
    key, y = "allocations_equal" if equal else "allocations", Axis(groups=[row["label"] for row in rows])
    return Figure(title, x, y, [bars], caption=meaning, key=key, label=label, down=True)


def allocation_table(study: Row, equal: bool = False) -> Table:
    """CPU-seconds to the target accuracy for each way to divide the CPU, the cheapest first."""
    seeds = study["seeds"]
    body: list[Cells] = []
    for row in study["rows_of_equal_centres" if equal else "rows"]:
        saved = [
            "-" if row["allocation"] == base else _with_error(row, f"saved_against_{base}", ".1%")
            for base in ("equal", "data")
        ]
        missed = f"{row['missed']} of {len(seeds)}" if row["missed"] else ""
        own = Cell(row["label"], tone="blue" if row["allocation"] == "coupled" else "")
        body.append([own, _with_error(row, "mean", ",.0f"), *saved, missed])
    heads = ("CPU-seconds", "less than equal shares", "than by data", "not reached")
    columns = [Column("allocation", "left"), *(Column(name, drop=k) for k, name in enumerate(heads))]
    over = f"{count(len(seeds), 'seed')} from {seeds[0]}{', equal centres' if equal else ''}"
    return Table(f"CPU-seconds to {study['target']:.0%} of the centralised accuracy, {over}", columns, body)


def _with_error(row: Row, key: str, form: str) -> str:
    error = row["error" if key == "mean" else f"{key}_error"]
    return "-" if row[key] is None else f"{row[key]:{form}}" + ("" if error is None else f" ± {error:{form}}")
