"""Prices found by replaying history: a level, how steeply it rises with use, and how it falls as a slot comes near."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from equipoise.place.execution import Execution
from equipoise.place.prices._posted import History, Posted, Trial, clearing, history_of, replay_key, trials
from equipoise.place.prices.fixed import Level

if TYPE_CHECKING:
    from equipoise.place.placers.pdors import PDORS

STEPS = (0.0, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0, 5.0, 8.0)  # of the clearing density
FINE = (0.8, 1.25)
RATIOS = (3.0, 30.0)
SLIGHT = 1e-3  # of the utility: candidates this near the best are as good
LEADS = (0.0, 2.0, 5.0, 12.0)  # slots


def _level(trial: Trial) -> float:
    return trial.prices.level if isinstance(trial.prices, Level) else 0.0


def gentlest(table: list[Trial]) -> Trial:
    """The lowest level among the candidates that earned as good as the most: a price nobody needs only delays."""
    enough = max(trial.utility for trial in table) * (1.0 - SLIGHT)
    return min((trial for trial in table if trial.utility >= enough), key=lambda trial: (_level(trial), -trial.utility))


@dataclass(frozen=True)
class Replay:
    """Calibrated on `history` (a workload, or several) with the policy that asks; the jobs being scored are never seen."""

    history: History | None = None
    name: ClassVar[str] = "replay"
    rank: ClassVar[int] = 2
    _found: dict[object, list[Trial]] = field(init=False, default_factory=dict, repr=False, compare=False)

    def post(self, run: Execution, policy: PDORS | None = None) -> Posted:
        table = self.trials(run, policy)
        best = gentlest(table)
        posted = best.prices.post(run)
        return replace(posted, note={**posted.note, "kind": self.name, "trials": len(table)})

    def trials(self, run: Execution, policy: PDORS | None) -> list[Trial]:
        """Every candidate and its score, in the order tried; made once for a cluster and a horizon."""
        key = (replay_key(policy), run.cluster, run.slots, run.horizon, run.pace)
        if key not in self._found:
            self._found[key] = list(self._search(run, policy))
        return list(self._found[key])

    def _search(self, run: Execution, policy: PDORS | None) -> Iterator[Trial]:
        """One setting at a time: the level, the lead with the level, the rise with use, the level again."""
        pasts = history_of(self.history, self.name)
        anchor = clearing(run, pasts)
        score = trials(run, policy, pasts)
        level, ratio, lead = 1.0, 10.0, 0.0
        follow = None if run.slots is not None else (anchor, pasts[-1])  # the load of days with an end does not change
        seen: dict[tuple[float, float, float], Trial] = {}

        def best_of(options: list[tuple[float, float, float]]) -> tuple[float, float, float]:
            for option in options:
                if option not in seen:
                    seen[option] = score(Level(option[0] * anchor, option[1], option[2], follow))
            return max(options, key=lambda option: seen[option].utility)

        level, ratio, lead = best_of([(step, ratio, lead) for step in STEPS])
        if level > 0.0:
            level, ratio, lead = best_of(
                [(level * up, ratio, k) for k in LEADS if k < run.horizon for up in ((1.0,) if k == 0 else (1.0, 1.5))]
            )
            level, ratio, lead = best_of([(level, r, lead) for r in (ratio, *RATIOS)])
            best_of([(level, ratio, lead), *((level * f, ratio, lead) for f in FINE)])
        return iter(seen.values())
