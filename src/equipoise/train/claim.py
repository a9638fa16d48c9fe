""" "More than 50% better than existing CPU scheduling": true or not, protocol by protocol.

Two candidates, the paper's node-wise log code and our method, against every rival; at equal rounds, at equal bits and to a
target; at optimal prices from 0 to 36; with and without boxes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equipoise.train import baselines
from equipoise.train.arrays import Floats
from equipoise.train.comparison import ARRIVED, Comparison, Progress, better_share, compare, finite
from equipoise.train.instances import Instances

LEVELS = (0.0, 1.0, 5.0, 18.0, 36.0)  # optimal price
CANDIDATES = ("LaplacianLog", "Ours")
RIVALS = ("LaplacianUniform", "LaplacianExact", "ADMM", "DualTracking", "PrimalDual", "RatioConsensus")
TOOLS = ("LaplacianEdge",)  # beside them, as a tool of analysis: no verdict counts it
CODES = ("LaplacianLog", "LaplacianEdge", "Ours")  # node by node, edge by edge, by innovation
TARGET = 1e-3
CLAIMED = 50.0  # percent
EARLY, LATE = 40, 150  # rounds: before most methods have arrived, and after
PROTOCOLS = (
    f"{EARLY} rounds",
    f"{LATE} rounds",
    f"bits of {EARLY} rounds",
    f"bits of {LATE} rounds",
    f"rounds to {TARGET:g}",
    f"bits to {TARGET:g}",
)


@dataclass(frozen=True, eq=False)
class Claim:
    """The table: cells by protocol, price, boxes, candidate and rival; and a verdict for each row of it."""

    cells: list[dict[str, Any]]
    verdicts: list[dict[str, Any]]
    codes: list[dict[str, Any]]  # how often each log code is nearer than the uniform one of the same bits
    comparisons: dict[tuple[float, bool], Comparison]

    def cell(self, protocol: str, price: float, boxes: bool, candidate: str, rival: str) -> dict[str, Any]:
        """One of them; a cell that is not there is a KeyError."""
        wanted = {"protocol": protocol, "price": price, "boxes": boxes, "candidate": candidate, "rival": rival}
        for cell in self.cells:
            if all(cell[key] == value for key, value in wanted.items()):
                return cell
        raise KeyError(f"no cell {wanted}")


def claim_table(
    kind: Instances,
    *,
    seeds: int = 10,
    first_seed: int = 0,
    levels: Sequence[float] = LEVELS,
    progress: Progress | None = None,
) -> Claim:
    """Play all rows. `kind` gives the nodes and the network; price and boxes are the table's."""
    comparisons: dict[tuple[float, bool], Comparison] = {}
    settings = [(level, boxes) for boxes in (False, True) for level in levels]
    entrants = [baselines.named(name) for name in (*CANDIDATES, *RIVALS, *TOOLS)]
    plays = len(entrants) * seeds
    for k, (level, boxes) in enumerate(settings):
        drawn = replace(kind, price=level, budget=None, boxes=boxes, cost="quadratic")

        def told(done: int, _: int, before: int = k * plays) -> None:
            if progress is not None:
                progress(before + done, plays * len(settings))

        comparisons[level, boxes] = compare(
            drawn, entrants=entrants, rounds=LATE, seeds=seeds, first_seed=first_seed, targets=(TARGET,), progress=told
        )
    cells = [
        _cell(comparisons[level, boxes], protocol, level, boxes, candidate, rival)
        for protocol in PROTOCOLS
        for level, boxes in settings
        for candidate in CANDIDATES
        for rival in (*RIVALS, *CANDIDATES, *TOOLS)
        if rival != candidate
    ]
    verdicts = [
        _verdict(cells, protocol, level, boxes, candidate)
        for protocol in PROTOCOLS
        for level, boxes in settings
        for candidate in CANDIDATES
    ]
    codes = [
        {"code": code, "rounds": number, "price": level, "boxes": boxes, "better": _nearer(found, code, number)}
        for code in CODES
        for number in (EARLY, LATE)
        for (level, boxes), found in comparisons.items()
    ]
    return Claim(cells, verdicts, codes, comparisons)


def _nearer(found: Comparison, code: str, number: int) -> float:
    return better_share(found.after_rounds(code, number), found.after_rounds("LaplacianUniform", number))


def _cell(found: Comparison, protocol: str, level: float, boxes: bool, candidate: str, rival: str) -> dict[str, Any]:
    one, other = (_measured(found, protocol, candidate, name) for name in (candidate, rival))
    gains = improvement(one, other)
    cell: dict[str, Any] = {
        "protocol": protocol,
        "price": level,
        "boxes": boxes,
        "candidate": candidate,
        "rival": rival,
    }
    cell |= {"improvement": finite(float(np.median(gains))), "better": float((gains > 0).mean())}
    cell["tied"] = float((np.isfinite(other) & (gains == 0)).mean())  # both have arrived
    cell["neither"] = float((np.isinf(one) & np.isinf(other)).mean())  # gets to the target
    if not protocol.endswith(f"to {TARGET:g}"):
        gap, other_gap = (_measured(found, protocol, candidate, name, "relative_gap") for name in (candidate, rival))
        cell["gap_improvement"] = finite(float(np.median(improvement(gap, other_gap, ARRIVED**2))))
    return cell


def _measured(found: Comparison, protocol: str, payer: str, name: str, measure: str = "distance") -> Floats:
    """Distances at equal rounds, or at the bits the payer spent in them; or what it takes to the target."""
    if protocol.endswith(f"to {TARGET:g}"):
        return found.needed(name, TARGET, "round" if protocol.startswith("rounds") else "bits")
    number = EARLY if f"{EARLY} rounds" in protocol else LATE
    if protocol.startswith("bits"):
        return found.after_bits(name, number, measure, payer)
    return found.after_rounds(name, number, measure)


def improvement(one: Floats, other: Floats, arrived: float = ARRIVED) -> Floats:
    """100 (1 - one / other) percent per instance; minus infinity where only `one` never gets there, 0 where none does."""
    one, other = np.maximum(one, arrived), np.maximum(other, arrived)
    gains = np.zeros(len(one))
    both = np.isfinite(one) & np.isfinite(other)
    gains[both] = 100.0 * (1.0 - one[both] / other[both])
    gains[np.isfinite(one) & np.isinf(other)] = 100.0
    gains[np.isinf(one) & np.isfinite(other)] = -math.inf
    return gains


def _verdict(cells: list[dict[str, Any]], protocol: str, level: float, boxes: bool, candidate: str) -> dict[str, Any]:
    """True only if the median improvement is above 50% over every rival; else who stands in the way, and who ties."""
    row = {"protocol": protocol, "price": level, "boxes": boxes, "candidate": candidate}
    here = [cell for cell in cells if all(cell[key] == value for key, value in row.items()) and cell["rival"] in RIVALS]
    against = [cell["rival"] for cell in here if not (cell["improvement"] or -math.inf) > CLAIMED]
    tied = [cell["rival"] for cell in here if cell["rival"] in against and cell["tied"] > 0.5]
    return {**row, "true": not against, "false_against": against, "tied_with": tied}


def verdict_words(verdict: dict[str, Any]) -> str:
    """true, or over how many rivals it is, and with how many it ties because both have arrived: 4/6, 2 tie."""
    if verdict["true"]:
        return "true"
    won, tied = len(RIVALS) - len(verdict["false_against"]), len(verdict["tied_with"])
    return f"{won}/{len(RIVALS)}" + (f", {tied} tie" if tied else "")
