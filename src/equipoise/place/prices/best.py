"""Replay prices or bid prices, whichever earned more on history."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from equipoise.place.execution import Execution
from equipoise.place.prices._posted import History, Posted, Trial
from equipoise.place.prices.bid import Bid
from equipoise.place.prices.replay import Replay

if TYPE_CHECKING:
    from equipoise.place.placers.pdors import PDORS


@dataclass(frozen=True)
class Best:
    """Both kinds calibrated on the same history; the kind is chosen by their scores in it."""

    history: History | None = None
    name: ClassVar[str] = "best"
    rank: ClassVar[int] = 1
    _kinds: list[Replay | Bid] = field(init=False, default_factory=list, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._kinds.extend((Replay(self.history), Bid(self.history)))

    def trials(self, run: Execution, policy: PDORS | None) -> list[Trial]:
        return [trial for kind in self._kinds for trial in kind.trials(run, policy)]

    def post(self, run: Execution, policy: PDORS | None = None) -> Posted:
        best = [(max(trial.utility for trial in kind.trials(run, policy)), kind) for kind in self._kinds]
        return max(best, key=lambda scored: scored[0])[1].post(run, policy)
