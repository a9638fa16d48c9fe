"""The certificate of a comparison: was it fair, and did our own method keep what it promises?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from equipoise.certificate import Certificate, Check
from equipoise.train.audit import kkt_violation
from equipoise.train.comparison import OURS, MethodComparison
from equipoise.train.costs._base import curvature

OPTIMUM_LIMIT = 1e-9  # of the spread of prices at the start


def certify(result: MethodComparison, target: float) -> Certificate:
    """Recomputed from instances and tracks. What is said of ours is checked only where ours takes part."""
    checks = [_same(result), _optimum(result), _ledger(result)]
    if OURS in result.tracks:
        checks += _promises(result, target)
    return Certificate(tuple(checks))


def worst_of(comparisons: Sequence[MethodComparison], target: float) -> Certificate:
    """Every check once, with the worst value of several comparisons."""
    found = [certify(one, target) for one in comparisons]
    worst = [max((each[check.name] for each in found), key=_badness) for check in found[0]]
    return Certificate(tuple(replace(check, meaning=f"{check.meaning} (the worst of all settings)") for check in worst))


def _badness(check: Check) -> tuple[bool, float]:
    return check.passed is not True, math.inf if check.value is None else check.value


def _same(result: MethodComparison) -> Check:
    apart = 0.0
    for tracks in zip(*result.tracks.values(), strict=True):
        for track in tracks[1:]:
            for one, other in ((track.start, tracks[0].start), (track.optimum.shares, tracks[0].optimum.shares)):
                apart = max(apart, float(np.abs(one - other).max()))
    meaning = "largest difference between entrants in where they start and in the optimum they are held against, CPUs"
    return Check.at_most("same instances", apart, 0.0, meaning)


def _optimum(result: MethodComparison) -> Check:
    worst = 0.0
    for (problem, network), track in zip(result.instances, result.tracks[result.reference], strict=True):
        market = problem.market(network.n)
        assert market is not None
        _, steepest = curvature(market.cost, market.lo, market.hi)
        best, slope = track.optimum.shares, market.cost.derivative
        off = kkt_violation(best, slope(best), steepest, market.lo, market.hi)
        worst = max(worst, off / max(float(np.ptp(slope(track.start))), 1e-300))
    meaning = "KKT violation of the centralised optimum, as a part of the spread of prices at the start"
    return Check.at_most("optimum", worst, OPTIMUM_LIMIT, meaning)


def _ledger(result: MethodComparison) -> Check:
    wrong = 0
    for tracks in result.tracks.values():
        for t in tracks:
            wrong += int((np.diff(t.bits) < 0).sum() + (np.diff(t.messages) < 0).sum() + (t.bits < t.messages).sum())
    meaning = "recorded rounds in which sums of bits or messages fell, or a message had less than one bit"
    return Check.at_most("ledger", wrong, 0.0, meaning)


def _promises(result: MethodComparison, target: float) -> list[Check]:
    budget = box = gap = 0.0
    for (problem, network), track in zip(result.instances, result.tracks[OURS], strict=True):
        market = problem.market(network.n)
        assert market is not None
        x = track.shares
        off = abs(float(np.sum(x)) - market.budget * market.grid.unit)
        outside = float(np.maximum(market.lo - x, x - market.hi).max())
        budget = max(budget, off, track.largest_violation, float(track.violation.max()))
        box = max(box, outside, track.largest_box_violation, float(track.box_violation.max()))
        gap = max(gap, np.inf if track.diverged else float(track.relative_gap[-1]))
    return [
        Check.at_most("budget", budget, 0.0, "ours: largest |sum of shares - budget| in any round of any seed, CPUs"),
        Check.at_most("box", max(box, 0.0), 0.0, "ours: farthest any share ever was outside its box, CPUs"),
        Check.at_most("gap", gap, target, "ours: |F - F*| in the last round as a part of the first, the worst seed"),
    ]
