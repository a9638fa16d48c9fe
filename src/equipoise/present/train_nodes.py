"""What each node of a training run ended with, and other ways to share or to train beside it: charts and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.document import Document
from equipoise.present.network import present
from equipoise.present.text import count, number, percent
from equipoise.present.values import Axis, Cell, Cells, Column, Figure, Mark, Series, Table, thinned

Values = dict[str, Any]  # of a result
BARS, DOTS = 60, 500  # nodes up to which each has a bar, and how many dots are drawn at most
NARROW = 30  # nodes up to which a chart of all of them fits half a row
EQUAL = "These have the same speed, as much data and as much noise: there is little to gain. "


def final_shares(document: Document) -> Figure | None:
    """What each node ended with, beside what a central planner would have given it."""
    result = document.result
    got, wished = result.get("shares"), result.get("optimal_shares")
    if not got or not wished or None in got:
        return None
    shares, best = np.array(got, dtype=float), np.array(wished, dtype=float)
    there = np.flatnonzero(present(document))
    nodes = len(there)
    few = nodes <= BARS
    shown = there if few else there[np.argsort(best[there], kind="stable")[thinned(nodes, DOTS)]]
    places = np.arange(len(shown))
    if few:
        width = 16.0 if nodes <= 12 else 12.0 if nodes <= 24 else 9.0
        series = [
            Series("final share", places, shares[shown], "bars", colour="@blue", opacity=0.75),
            Series("optimal share", places, best[shown], "dots", colour="@ink", marker="rect", size=(width, 3.0)),
        ]
        meaning = "Where a bar ends at its mark, the node got what a central planner would have given it."
    else:
        series = [
            Series("final share", places, shares[shown], "dots", colour="@blue", opacity=0.75, size=5),
            Series("optimal share", places, best[shown], colour="@ink", width=1, marker="none"),
        ]
        amount = f"{len(shown)} of {nodes:,} nodes" if len(shown) < nodes else "Nodes"
        meaning = (
            f"{amount}, sorted; where dots lie on the line, nodes got what a central planner would have given them."
        )
    if nodes < len(best):
        meaning += " Those who are gone have no bar." if few else " Those who are gone are left out."
    off = float(np.abs(shares - best)[there].max())
    return Figure(
        "Final shares against the optimum",
        _node_axis("node" if few else "node, by optimal share", shown.tolist()),
        Axis("CPUs", zero=few),
        series,
        caption=f"{meaning} The farthest is {number(off, 3)} CPUs away.",
        key="final",
        label="Bars of each node's final CPU share with a mark at the optimal one"
        if few
        else "Dots of final CPU shares and a line of the optimal ones",
        legend=True,
        wide=nodes > NARROW,
    )


def node_accuracy(accuracy: Values | None) -> Figure | None:
    """Test accuracy of each node's own model, with the centralised one's as a line."""
    if accuracy is None:
        return None
    nodes = np.array([math.nan if a is None else a for a in accuracy["nodes"]], dtype=float)  # None: it is gone
    there = np.flatnonzero(np.isfinite(nodes))
    if not len(there):
        return None
    central = accuracy.get("centralised")
    few = len(there) <= DOTS
    shown = there if few else there[np.argsort(nodes[there], kind="stable")[thinned(len(there), DOTS)]]
    drawn = [*nodes[there].tolist(), *([] if central is None else [float(central)])]
    low, high = min(drawn), max(drawn)
    margin = max(0.01, 0.25 * (high - low))
    bottom, top = max(0.0, math.floor(100 * (low - margin)) / 100), min(1.0, math.ceil(100 * (high + margin)) / 100)
    return Figure(
        "Test accuracy of each node's own model",
        _node_axis("node" if few else "node, by accuracy", shown.tolist()),
        Axis("right answers", low=bottom, high=top, form="percent"),
        [
            Series(
                "own model",
                np.arange(len(shown)),
                nodes[shown],
                "dots",
                colour="@teal",
                opacity=0.9,
                size=9 if len(shown) <= BARS else 5,
            )
        ],
        [] if central is None else [Mark("y", central, f"centralised {percent(central)}")],
        "Each dot is one node's own model on data that nobody trained on"
        + (
            "; at the dashed line it is as good as a model trained on all data in one place."
            if central is not None
            else "."
        )
        + ("" if len(there) == len(nodes) else " Those who are gone have no dot.")
        + (" The axis does not begin at zero." if bottom > 0 else "")
        + ("" if few else f" {len(shown)} of {len(there):,} nodes are drawn, worst first."),
        key="accuracy",
        label="Dots: test accuracy of each node"
        + (", with the centralised model's as a dashed line" if central is not None else ""),
        wide=len(shown) > NARROW,
    )


def node_losses(losses: Values | None) -> Figure | None:
    """Loss of each centre's own net on everybody's data."""
    if losses is None or None in losses["nodes"]:
        return None
    nodes = losses["nodes"]
    return Figure(
        "Loss of each node's own net",
        _node_axis("node", list(range(len(nodes)))),
        Axis("loss", zero=False),
        [
            Series(
                "loss",
                range(len(nodes)),
                nodes,
                "dots",
                colour="@violet",
                opacity=0.9,
                size=9 if len(nodes) <= BARS else 5,
            )
        ],
        caption="Each dot is one node's own net on everybody's training data, most of which it has never seen. The worst "
        f"is {number(losses['worst'])}. The axis does not begin at zero.",
        key="losses",
        label="Dots: loss of each node's own net on the data of all nodes",
    )


def _node_axis(name: str, nodes: Sequence[int]) -> Axis:
    return Axis(name, groups=[str(node) for node in nodes], point="node {value}")


def rivals(rows: list[Values] | None) -> Figure | None:
    """Accuracy of the worst and of the mean centre under each way to train the same net."""
    if not rows or any("accuracy" not in row for row in rows):
        return None
    low = min(row["worst_accuracy"] for row in rows)
    bottom = max(0.0, math.floor(20 * (low - 0.02)) / 20)
    sent = ", ".join(f"{row['label']} {row['bits'] / 8e6:,.1f} MB" for row in rows)
    places = range(len(rows))
    return Figure(
        "The same net, trained in other ways",
        Axis("right answers", low=bottom, high=1, form="percent"),
        Axis(groups=[row["label"] for row in rows]),
        [
            Series("mean node", [row["accuracy"] for row in rows], places, "dots", colour="@teal", size=13),
            Series(
                "worst node",
                [row["worst_accuracy"] for row in rows],
                places,
                "dots",
                colour="@bad",
                marker="diamond",
                size=13,
            ),
        ],
        caption="Same net, first parameters, batches and rounds, each at a rate tuned for it. Ours ends at "
        f"{percent(rows[0]['worst_accuracy'])} at the worst node. Sent: {sent}."
        + (" The axis does not begin at zero." if bottom > 0 else ""),
        key="rivals",
        label="Dots: test accuracy of the worst and of the mean node for each way to train",
        tip="item",
        down=True,
        wide=True,
    )


def rivals_table(rows: list[Values]) -> Table:
    """The same net on the same batches, trained in other ways."""
    heads = [Column("", "left"), Column("worst centre"), Column("mean"), Column("worst loss"), Column("MB sent")]
    body = [
        [
            row["label"],
            *(f"{row[key]:.2%}" if key in row else "-" for key in ("worst_accuracy", "accuracy")),
            f"{row['worst_loss']:.4g}",
            f"{row['bits'] / 8e6:,.1f}",
        ]
        for row in rows
    ]
    return Table("test accuracy of the same net, trained on the same batches in other ways", heads, body)


def allocations(study: Values | None, equal: bool = False) -> Figure | None:
    """A lying bar for each allocation, the cheapest on top, with a standard error either side of its end."""
    rows = (study or {}).get("rows_of_equal_centres" if equal else "rows")
    if not study or not rows:
        return None
    missed = [f"{row['label']} in {row['missed']}" for row in rows if row["missed"]]
    seeds, part = count(len(study["seeds"]), "seed"), f"{100 * study['target']:.0f} %"
    return Figure(
        "The same on equal centres" if equal else "CPU-seconds to target accuracy per allocation",
        Axis("CPU-seconds", low=0, high=_end(rows)),
        Axis(groups=[row["label"] for row in rows]),
        [
            Series(
                "CPU-seconds",
                [row["mean"] for row in rows],
                range(len(rows)),
                "bars",
                error=[row["error"] for row in rows],
                colours=["@blue" if row["allocation"] == "coupled" else "@grey" for row in rows],
                values=True,
            )
        ],
        caption=f"Shorter is better: what the centres spent until the mean accuracy of their models was {part} of the "
        "centralised one's. All have the same centres, budget and draws; only shares "
        f"differ. {EQUAL if equal else ''}Mean of {seeds}"
        + (", a standard error either side." if any(row["error"] for row in rows) else ".")
        + (f" Not reached, and counted with the whole run: {', '.join(missed)}." if missed else ""),
        key="allocations_equal" if equal else "allocations",
        label=f"Bars: CPU-seconds until {part} of the centralised accuracy, for each way to divide the CPU",
        down=True,
    )


def _end(rows: list[Values]) -> float:
    """A round number past the longest bar and its error."""
    longest = max(row["mean"] + (row["error"] or 0.0) for row in rows)
    step: float = 10.0 ** math.floor(math.log10(max(longest, 1.0))) / 2
    return float(step * math.ceil(longest / step))


def allocation_table(study: Values, equal: bool = False) -> Table:
    """CPU-seconds to the target accuracy for each way to divide the CPU, the cheapest first."""
    seeds = study["seeds"]
    body: list[Cells] = []
    for row in study["rows_of_equal_centres" if equal else "rows"]:
        saved = [
            "-"
            if row[key] is None or row["allocation"] == own
            else f"{row[key]:.1%}{_error(row[f'{key}_error'], '.1%')}"
            for own, key in (("equal", "saved_against_equal"), ("data", "saved_against_data"))
        ]
        missed = f"{row['missed']} of {len(seeds)}" if row["missed"] else ""
        own = Cell(row["label"], tone="blue" if row["allocation"] == "coupled" else "")
        body.append([own, f"{row['mean']:,.0f}{_error(row['error'], ',.0f')}", *saved, missed])
    names = ("CPU-seconds", "less than equal shares", "than by data", "not reached")
    return Table(
        f"CPU-seconds to {study['target']:.0%} of the centralised accuracy, "
        f"{count(len(seeds), 'seed')} from {seeds[0]}{', equal centres' if equal else ''}",
        [Column("allocation", "left"), *(Column(name, drop=k) for k, name in enumerate(names))],
        body,
    )


def _error(error: float | None, form: str) -> str:
    return "" if error is None else f" ± {error:{form}}"
