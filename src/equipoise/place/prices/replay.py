"""Prices found by replaying history: a level, how steeply it rises with use, and how it falls as a slot comes near."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from equipoise.document import Row
from equipoise.errors import InputError
from equipoise.place.execution import Execution
from equipoise.place.job import Workload
from equipoise.place.prices._posted import History, Posted, clearing, history_of, replayed
from equipoise.place.prices.fixed import Level

if TYPE_CHECKING:
    from equipoise.place.placers.pdors import PDORS

STEPS = (0.0, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0, 5.0, 8.0)  # of the clearing density
FINE = (0.8, 1.25)
RATIOS = (3.0, 30.0)
SLIGHT = 1e-3  # of the utility: candidates this near the best are as good
LEADS = (0.0, 2.0, 5.0, 12.0)  # slots
NUMBERS = ("level", "ratio", "lead")  # of a level, as rows and files have them


@dataclass(frozen=True)
class Trial:
    """A candidate; its utility and completed jobs are summed over the histories."""

    prices: Level
    utility: float
    completed: int


def tried(prices: Level, run: Execution, policy: PDORS, pasts: Sequence[Workload]) -> Trial:
    """What the prices earn on history as `policy` would use them, without re-planning (it only refines)."""
    runs = replayed(run, replace(policy, prices=prices, replan=0), pasts)
    return Trial(prices, sum(one.utility for one in runs), sum(one.completed for one in runs))


def gentlest(table: Sequence[Trial]) -> Trial:
    """The lowest level among the candidates that earned as good as the most: a price nobody needs only delays."""
    enough = max(trial.utility for trial in table) * (1.0 - SLIGHT)
    return min((trial for trial in table if trial.utility >= enough), key=lambda t: (t.prices.level, -t.utility))


@dataclass(frozen=True)
class Replay:
    """Calibrated on `history` (a workload, or several) with the policy that asks; the jobs being scored are never seen."""

    history: History | None = None
    name: ClassVar[str] = "replay"
    rank: ClassVar[int] = 2
    _found: dict[object, list[Trial]] = field(init=False, default_factory=dict, repr=False, compare=False)

    def post(self, run: Execution, policy: PDORS | None = None) -> Posted:
        table = self.trials(run, policy)
        posted = gentlest(table).prices.post(run)
        return replace(posted, note={**posted.note, "kind": self.name, "trials": len(table)})

    def trials(
        self, run: Execution, policy: PDORS | None, begun: Callable[[int], None] = lambda number: None
    ) -> list[Trial]:
        """Every candidate and its score, in the order tried; made once for a cluster and a horizon.

        `begun` is told the number of each as its replay begins; how many there will be is not known before.
        """
        if policy is None:
            raise InputError("nobody to replay history with; give the policy that asks: post(run, policy)")
        asks = policy.family, policy.packing, policy.method, policy.backfill, policy.caution  # what changes a replay
        key = (asks, run.cluster, run.slots, run.horizon, run.pace)
        if key not in self._found:
            self._found[key] = self._search(run, policy, begun)
        return list(self._found[key])

    def _search(self, run: Execution, policy: PDORS, begun: Callable[[int], None]) -> list[Trial]:
        """One setting at a time: the level, the lead with the level, the rise with use, the level again."""
        pasts = history_of(self.history, self.name)
        anchor = clearing(run, pasts)
        level, ratio, lead = 1.0, 10.0, 0.0
        follow = None if run.slots is not None else (anchor, pasts[-1])  # the load of days with an end does not change
        seen: dict[tuple[float, float, float], Trial] = {}

        def best_of(options: list[tuple[float, float, float]]) -> tuple[float, float, float]:
            for option in options:
                if option not in seen:
                    begun(len(seen) + 1)
                    seen[option] = tried(Level(option[0] * anchor, *option[1:], follow), run, policy, pasts)
            return max(options, key=lambda option: seen[option].utility)

        level, ratio, lead = best_of([(step, ratio, lead) for step in STEPS])
        if level > 0.0:
            level, ratio, lead = best_of(
                [(level * up, ratio, k) for k in LEADS if k < run.horizon for up in ((1.0,) if k == 0 else (1.0, 1.5))]
            )
            level, ratio, lead = best_of([(level, r, lead) for r in (ratio, *RATIOS)])
            best_of([(level, ratio, lead), *((level * f, ratio, lead) for f in FINE)])
        return list(seen.values())


def trial_rows(label: str, table: Sequence[Trial]) -> list[Row]:
    """A row for every candidate of the placer of this label; chosen is the one that is posted."""
    chosen = gentlest(table)
    return [
        {
            "policy": label,
            **{name: float(getattr(trial.prices, name)) for name in NUMBERS},
            "utility": float(trial.utility),
            "completed": int(trial.completed),
            "chosen": trial is chosen,
        }
        for trial in table
    ]
