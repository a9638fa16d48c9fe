"""More links carry prices faster, and each of them is paid for."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, claim
from equipoise.present.figures import Axis, Figure, Series
from equipoise.train import baselines
from equipoise.train.instances import Instances
from equipoise.train.studies import DENSITIES, TARGET, density_study

ROUNDS = 600
ENTRANTS = {
    "LaplacianExact": "the paper's flows, floats",
    "LaplacianEdge": "the paper's flows, edge codes",
    "Ours": "ours",
}
FEWER, MORE = 0.9, 1.1  # times: what counts as fewer rounds, and as more bits
PAPER = ("LaplacianExact",)


@claim(
    "A denser network converges in fewer rounds and communicates more.",
    source="arXiv 2510.25176",
    unread="where it is said",
    effort=40.0,
)
def measure(scale: Scale) -> Measured:
    seeds = scale.pick(3, 20)
    players = [baselines.named(name) for name in ENTRANTS]
    rows = density_study(Instances(20), players, rounds=ROUNDS, seeds=seeds).rows
    table = {name: [row for row in rows if row["entrant"] == name] for name in ENTRANTS}
    over = f"medians of {seeds} instances"
    findings = []
    for name, words in ENTRANTS.items():
        about = "paper" if name in PAPER else "ours"
        rounds, bits = (_ratio(table[name], column) for column in ("round", "bits"))
        to, find = f"to {TARGET:g} on the complete graph against the sparsest", partial(Finding, over=over, about=about)
        findings += [
            find(f"rounds {to}", rounds, at_most(FEWER), "times", when=f"fewer rounds, {words}"),
            find(f"bits {to}", bits, at_least(MORE), "times", when=f"more communication, {words}"),
        ]
    degrees = [row["degree"] for row in table["Ours"]]
    return Measured(
        protocol=f"Twenty centres on Erdős–Rényi graphs with p from {DENSITIES[0]:g} to {DENSITIES[-1]:g} (complete), "
        f"quadratic costs, {seeds} instances each, at most {ROUNDS} rounds: rounds and bits on all links until the "
        f"distance from the centralised optimum stays below {TARGET:g} of that at the start.",
        findings=findings,
        figures=[
            Figure(
                f"{title} to {TARGET:g}",
                x=Axis("links a centre has"),
                y=Axis(column + ("s" if column == "round" else ""), log=True),
                series=[
                    Series(words, degrees, [_number(row[column]) for row in table[name]])
                    for name, words in ENTRANTS.items()
                ],
                caption=caption,
            )
            for title, column, caption in (
                ("Rounds", "round", "Denser networks need fewer rounds."),
                ("Bits", "bits", "They pay for every link in every round; the cheapest network is a sparse one."),
            )
        ],
    )


def _ratio(rows: list[dict[str, Any]], column: str) -> float:
    return _number(rows[-1][column]) / _number(rows[0][column])


def _number(value: float | None) -> float:
    return math.nan if value is None else value
