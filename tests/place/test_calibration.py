"""What prices from history are worth: far more than the recalled ones under load, and nothing lost when idle."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.place import Cluster, Linear, Machine, Workload, compare, placers, prices, simulate
from equipoise.place.job import Job
from equipoise.place.prices import replay as replaying
from equipoise.place.traces.synthetic import regime, synthetic, synthetic_cluster

HISTORY = [regime("20x40", seed)[1] for seed in (900, 901)]
REPLAY = prices.Replay(HISTORY)  # calibrated once for all tests here


@pytest.mark.parametrize("backfill", [False, True])
@pytest.mark.parametrize("seed", [500, 502, 503])
def test_under_overload_replay_earns_half_as_much_again_as_recalled(seed: int, backfill: bool):
    """Spec, section 7. Both know the same two other seeds; neither has seen this one."""
    cluster, jobs, slots = regime("20x40", seed)
    ours, recalled = (
        simulate(cluster, jobs, placers.PDORS(prices=kind, backfill=backfill), slots=slots)
        for kind in (REPLAY, prices.Recalled(HISTORY))
    )
    assert ours.utility >= 1.5 * recalled.utility > 0
    assert ours.certificate().passed and recalled.certificate().passed


@pytest.mark.parametrize("seed", range(3))
def test_on_an_idle_cluster_nobody_is_ahead(seed: int):
    """Eight small jobs on sixty machines: PDORS with prices from as idle a history, DRF and Dorm, all within 1%."""
    jobs, past = (synthetic(8, seed=k, slots=20, small=True) for k in (seed, seed + 100))
    given = [placers.PDORS(prices=prices.Replay(past)), placers.DRF(), placers.Dorm()]
    runs = [simulate(synthetic_cluster(60), jobs, policy, slots=30) for policy in given]
    best = max(run.utility for run in runs)
    assert [run.completed for run in runs] == [8, 8, 8]
    assert min(run.utility for run in runs) >= 0.99 * best > 0


@pytest.mark.parametrize("seed", range(2))
def test_on_an_idle_cluster_nobody_is_ahead_with_all_reduce_jobs(seed: int):
    """As above, with jobs that more workers make slower: nobody may give them more than they can use."""
    cluster = Cluster((Machine({"gpu": 8}, 20),))

    def some(start: int) -> Workload:
        return Workload(
            tuple(
                Job(
                    f"{start}-{k}",
                    2 * k,
                    20.0 + 7 * k,
                    64,
                    1.0,
                    {"gpu": 1},
                    Linear(10.0 + k, 60.0),
                    gradient=20.0,
                    inside=60.0,
                    between=4.0 + seed,
                    requested=8,
                )
                for k in range(start, start + 6)
            )
        )

    given = [placers.PDORS(prices=prices.Replay(some(1))), placers.DRF(), placers.Dorm()]
    runs = [simulate(cluster, some(0), policy, slots=60) for policy in given]
    assert [run.completed for run in runs] == [6, 6, 6]
    assert min(run.utility for run in runs) >= 0.99 * max(run.utility for run in runs)


def searches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Counts calibrations."""
    made: list[Any] = []
    search = replaying.Replay._search

    def spy(self: Any, *given: Any) -> Any:
        made.append(given)
        return search(self, *given)

    monkeypatch.setattr(replaying.Replay, "_search", spy)
    return made


def test_history_is_replayed_once_for_a_cluster_and_horizon(monkeypatch: pytest.MonkeyPatch):
    """Several workloads and seeds share a calibration; another number of slots, or lending or not, is another."""
    made = searches(monkeypatch)
    cluster, _, slots = regime("20x40", 1)
    kind = prices.Replay(regime("20x40", 900)[1][:10])
    for seed in (1, 2):
        simulate(cluster, regime("20x40", seed)[1][:5], placers.PDORS(prices=kind), slots=slots, seed=seed)
    assert len(made) == 1
    simulate(cluster, regime("20x40", 1)[1][:5], placers.PDORS(prices=kind), slots=slots - 1)
    simulate(cluster, regime("20x40", 1)[1][:5], placers.PDORS(prices=kind, backfill=False), slots=slots)
    assert len(made) == 3


def test_a_comparison_tells_every_trial_and_which_was_chosen():
    """The rows of `Comparison.calibration`: one chosen, none better, and its level is the one the run posted."""
    cluster, jobs, slots = regime("20x40", 3)
    past = regime("20x40", 900)[1]
    found = compare(cluster, jobs, [placers.PDORS(prices=prices.Replay(past))], slots=slots, bound=False)
    (chosen,) = [row for row in found.calibration if row["chosen"]]
    assert chosen["utility"] == max(row["utility"] for row in found.calibration)
    note = found.results[0].detail["prices"]
    assert (chosen["level"], chosen["ratio"], chosen["lead"]) == (note["level"], note["ratio"], note["lead"])
    assert note["trials"] == len(found.calibration)
