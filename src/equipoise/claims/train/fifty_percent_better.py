"""More than 50% better than existing CPU scheduling: at which optimal price, against whom, at equal what?

The claim measures seven findings. `claim_table` plays the whole table of docs/compare-methods.md: two candidates, the
paper's node-wise log code and our method, against every rival; at equal rounds, at equal bits and to a target; at optimal
prices from 0 to 36; with and without boxes. `python -m equipoise.claims.train.fifty_percent_better` prints it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.claims import Finding, Measured, Scale, at_least, claim
from equipoise.document import plain
from equipoise.present.figures import Axis, Figure, Series
from equipoise.train import baselines
from equipoise.train.arrays import Floats
from equipoise.train.comparison import ARRIVED, MethodComparison, Progress, better_share, compare
from equipoise.train.instances import Instances

PAPER, UNIFORM, OURS = "LaplacianLog", "LaplacianUniform", "Ours"
MOST = 50.0  # percent: the typical instance shows it
NAMES = {"LaplacianLog": "node by node (the paper's)", "LaplacianEdge": "edge by edge", "Ours": "ours, by innovation"}
NEAR, FAR = 0.0, 18.0  # optimal prices
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


def better(
    found: MethodComparison, candidate: str, rivals: tuple[str, ...], equal: str = "rounds"
) -> NDArray[np.bool_]:
    """The instances in which the candidate's gap is more than half smaller than every rival's."""
    gains = []
    for rival in rivals:
        one, other = (
            found.after_rounds(name, EARLY, "relative_gap")
            if equal == "rounds"
            else found.after_bits(name, EARLY, "relative_gap", candidate)
            for name in (candidate, rival)
        )
        gains.append(improvement(one, other, ARRIVED**2))
    return np.asarray(np.min(gains, axis=0) > CLAIMED)


@claim(
    "The optimality gap of the cost is more than 50% better than with existing CPU scheduling solutions.",
    source="arXiv 2510.25176, abstract",
    effort=200.0,
)
def measure(scale: Scale) -> Measured:
    seeds = scale.pick(40, 160)
    prices = scale.pick((NEAR, 5.0, FAR), (NEAR, 1.0, 5.0, FAR, 36.0))
    entrants = [baselines.named(name) for name in (*CODES, *RIVALS)]
    played = {
        price: compare(Instances(20, price=price), entrants=entrants, rounds=EARLY, seeds=seeds) for price in prices
    }
    over = f"of {seeds} instances, after {EARLY} rounds"

    def finding(price: float, who: str, rivals: tuple[str, ...], equal: str, when: str) -> Finding:
        return Finding.share(
            f"instances whose cost gap is more than {CLAIMED:g}% smaller{'' if who == PAPER else ', ours'}",
            better(played[price], who, rivals, equal),
            at_least(MOST),
            over=over,
            when=when,
            about="paper" if who == PAPER else "ours",
        )

    by_price = {code: [better(found, code, (UNIFORM,)) for found in played.values()] for code in CODES}
    figure = Figure(
        "Where a log code is more than half nearer than a uniform one of the same bits",
        x=Axis("optimal price"),
        y=Axis("% of instances"),
        series=[
            Series(NAMES[code], prices, [100.0 * float(sample.mean()) for sample in samples])
            for code, samples in by_price.items()
        ],
        caption="Node-wise log codes are fine near 0, where their cells are fine, and coarse far from it.",
    )
    return Measured(
        protocol=f"Twenty centres on Erdős–Rényi graphs (p = 0.3), quadratic costs, budgets that put the optimal price at "
        f"{', '.join(f'{price:g}' for price in prices)}; {seeds} instances each. The paper's node-wise log code against a "
        "uniform code of the same bits, floats, ADMM, dual tracking, primal-dual and ratio consensus, all tuned on other "
        f"seeds; cost gaps against a centralised solver after {EARLY} rounds, or after the bits that the candidate "
        "spends in them. It holds where more than half of the instances show it.",
        findings=(
            finding(NEAR, PAPER, (UNIFORM,), "rounds", f"over a uniform code, optimal price {NEAR:g}"),
            finding(FAR, PAPER, (UNIFORM,), "rounds", f"over a uniform code, optimal price {FAR:g}"),
            finding(NEAR, PAPER, RIVALS, "bits", f"over all rivals at equal bits, optimal price {NEAR:g}"),
            finding(NEAR, PAPER, RIVALS, "rounds", f"over all rivals at equal rounds, optimal price {NEAR:g}"),
            finding(FAR, PAPER, RIVALS, "bits", f"over all rivals at equal bits, optimal price {FAR:g}"),
            finding(FAR, OURS, RIVALS, "bits", f"over all rivals at equal bits, optimal price {FAR:g}"),
            finding(FAR, OURS, RIVALS, "rounds", f"over all rivals at equal rounds, optimal price {FAR:g}"),
        ),
        figures=(figure,),
        notes=(
            "What the paper compares with is called existing CPU scheduling; the rivals here are those of its kind that "
            "could be built from their own sources.",
        ),
    )


@dataclass(frozen=True, eq=False)
class ClaimTable:
    """The table: cells by protocol, price, boxes, candidate and rival; and a verdict for each row of it."""

    cells: list[dict[str, Any]]
    verdicts: list[dict[str, Any]]
    codes: list[dict[str, Any]]  # how often each log code is nearer than the uniform one of the same bits
    comparisons: dict[tuple[float, bool], MethodComparison]

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
) -> ClaimTable:
    """Play all rows. `kind` gives the nodes and the network; price and boxes are the table's."""
    comparisons: dict[tuple[float, bool], MethodComparison] = {}
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
    return ClaimTable(cells, verdicts, codes, comparisons)


def _nearer(found: MethodComparison, code: str, number: int) -> float:
    return better_share(found.after_rounds(code, number), found.after_rounds("LaplacianUniform", number))


def _cell(
    found: MethodComparison, protocol: str, level: float, boxes: bool, candidate: str, rival: str
) -> dict[str, Any]:
    one, other = (_measured(found, protocol, candidate, name) for name in (candidate, rival))
    gains = improvement(one, other)
    row = {"protocol": protocol, "price": level, "boxes": boxes, "candidate": candidate, "rival": rival}
    cell: dict[str, Any] = row | {"improvement": plain(np.median(gains)), "better": float((gains > 0).mean())}
    cell["tied"] = float((np.isfinite(other) & (gains == 0)).mean())  # both have arrived
    cell["neither"] = float((np.isinf(one) & np.isinf(other)).mean())  # gets to the target
    if not protocol.endswith(f"to {TARGET:g}"):
        gap, other_gap = (_measured(found, protocol, candidate, name, "relative_gap") for name in (candidate, rival))
        cell["gap_improvement"] = plain(np.median(improvement(gap, other_gap, ARRIVED**2)))
    return cell


def _measured(found: MethodComparison, protocol: str, payer: str, name: str, measure: str = "distance") -> Floats:
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


def main(seeds: int = 10) -> None:
    """Print a verdict for each candidate, protocol, price and boxes."""
    table = claim_table(Instances(), seeds=seeds)
    for candidate in CANDIDATES:
        print(f"{candidate}: more than {CLAIMED:g}% nearer (or cheaper) than every rival?")
        for protocol in PROTOCOLS:
            for boxes in (False, True):
                row = (protocol, boxes, candidate)
                found = [v for v in table.verdicts if (v["protocol"], v["boxes"], v["candidate"]) == row]
                cells = "".join(f"{verdict_words(v):>13s}" for v in found)
                print(f"  {protocol:20s}{'boxes' if boxes else '':6s}{cells}")


if __name__ == "__main__":
    main()
