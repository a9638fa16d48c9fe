"""Contestants take turns on the same work, so that a busy machine slows all of them; ratios are medians over the turns."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Spent:
    """Seconds of one turn, and how much work was done in them (rounds, task-steps, decisions)."""

    wall: float
    cpu: float
    work: float

    def rate(self, clock: str) -> float:
        return self.work / max(getattr(self, clock), 1e-9)


@dataclass(frozen=True)
class Row:
    """One contestant on one piece of work."""

    part: str  # train, share, place
    work: str  # what all contestants of this name did
    size: int  # for the picture: centres, task-steps, machines
    who: str
    ours: bool
    unit: str  # of work
    rate_cpu: float | None = None  # per CPU second, median over the turns
    rate_wall: float | None = None
    faster_cpu: float | None = None  # the reference's rate over this one's, median of the turns' ratios
    faster_wall: float | None = None
    spread_cpu: tuple[float, float] | None = None  # least and largest of those ratios
    turns: int = 0
    same: bool | None = None  # whether it did the same work; None where that was not to be checked
    check: str = ""  # how that was seen, or why there is no figure
    more: Mapping[str, Any] = field(default_factory=dict)


Play = Callable[[], Spent]


def clocked(work: Callable[[], object], amount: float, least: float = 0.0) -> Spent:
    """Do the work again and again for at least so many CPU seconds."""
    wall, cpu, times = time.perf_counter(), time.process_time(), 0
    while True:
        work()
        times += 1
        spent = time.process_time() - cpu
        if spent >= least:
            return Spent(time.perf_counter() - wall, spent, amount * times)


class PeerFailed(Exception):
    """A peer that ended, or did not answer; the message is its last word."""


def in_turns(
    contestants: Mapping[str, Play], turns: int, absent: dict[str, str], patience: float = math.inf
) -> dict[str, list[Spent]]:
    """Everyone once, then everyone again; who has had `patience` wall seconds sits out the turns that are left.

    Who fails is out, and stands in `absent` with the reason.
    """
    spent: dict[str, list[Spent]] = {who: [] for who in contestants}
    for _ in range(turns):
        for who in list(spent):
            if sum(one.wall for one in spent[who]) < patience:
                try:
                    spent[who].append(contestants[who]())
                except PeerFailed as failed:
                    absent[who] = f"failed: {failed}"
                    del spent[who]
    return spent


def figures(spent: Mapping[str, list[Spent]], who: str, reference: str) -> dict[str, Any]:
    """The rates of one contestant, and how many times as fast the reference was in the same turns."""
    ratios = {
        clock: [a.rate(clock) / b.rate(clock) for a, b in zip(spent[reference], spent[who], strict=False)]
        for clock in ("cpu", "wall")
    }
    return {
        "rate_cpu": statistics.median(one.rate("cpu") for one in spent[who]),
        "rate_wall": statistics.median(one.rate("wall") for one in spent[who]),
        "faster_cpu": statistics.median(ratios["cpu"]),
        "faster_wall": statistics.median(ratios["wall"]),
        "spread_cpu": (min(ratios["cpu"]), max(ratios["cpu"])),
        "turns": len(spent[who]),
    }
