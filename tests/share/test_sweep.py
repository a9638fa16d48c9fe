"""Sweeps: the same tasks for everyone, means and standard errors that can be recomputed, whatever the cores."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from equipoise.share import Site, Task, Workload, greedy, oracle, policies, simulate, sweep
from equipoise.statistics import ratio_and_error
from refusals import refused

PLAYERS = [policies.Uniform(), policies.SDF(), policies.UARALARA()]
PRESETS = pytest.mark.parametrize("workload", [Workload.described(), Workload.authors()], ids=["described", "authors"])


@PRESETS
def test_rows_are_the_means_of_single_runs(workload):
    """Success, energy, latency and idle of a row, recomputed from simulate() and plain numpy."""
    seeds = [3, 1, 40]
    found = sweep(PLAYERS, workload, loads=[10, 30], seeds=seeds)
    assert [(row["load"], row["policy"]) for row in found.rows] == [
        (load, name) for load in (10, 30) for name in ("Uniform", "SDF", "UARA+LARA")
    ]
    for row in found.rows:
        run = simulate(policies.named(row["policy"]), workload, load=row["load"], seeds=seeds)
        done = [(run.done_at[k] - 1 - run.batch.arrival[k])[run.state[k] == 4] for k in range(3)]
        assert row["success"] == pytest.approx(np.mean([100 * len(d) / row["load"] for d in done]))
        assert row["success_se"] == pytest.approx(np.std([100 * len(d) / row["load"] for d in done], ddof=1) / 3**0.5)
        assert row["latency"] == pytest.approx(np.mean([d.mean() for d in done]))
        assert row["energy"] == pytest.approx(run.energy.mean())
        assert row["efficiency"] == pytest.approx(run.success.mean() / run.energy.mean())
        assert row["oracle"] is None


@PRESETS
def test_cores_and_batches_change_nothing(monkeypatch, workload):
    """One worker or three, batches of a few seeds or all at once: the same bits, also for a policy with a memory."""
    players = [policies.LARA(), policies.DescribedLARA(), policies.Hybrid()]
    whole = sweep(players, workload, loads=[20], seeds=30, workers=1)
    monkeypatch.setattr(sys.modules["equipoise.share.sweep"], "CELLS", 20 * 7)
    parts = sweep(players, workload, loads=[20], seeds=30, workers=3)
    for key, cell in whole.measured.items():
        for measure, values in cell.items():
            np.testing.assert_array_equal(values, parts.measured[key][measure])


def test_paired_differences_are_paired():
    """Mean and standard error of the differences seed by seed, from the raw rows; far smaller than unpaired."""
    found = sweep(PLAYERS, loads=[30], seeds=50)
    by = {(row["policy"], row["seed"]): row for row in found.seed_rows}
    gaps = np.array([by["Uniform", s]["success"] - by["SDF", s]["success"] for s in range(50)])
    (gap,) = found.paired("Uniform", "SDF")
    assert gap.difference == pytest.approx(gaps.mean())
    assert gap.standard_error == pytest.approx(gaps.std(ddof=1) / math.sqrt(50))
    (again,) = found.paired("SDF", "Uniform")
    assert again.difference == -gap.difference
    assert "30 tasks: Uniform - SDF in success" in str(gap)


def test_the_error_of_a_ratio_agrees_with_the_bootstrap():
    """Efficiency is a ratio of means: its standard error against 4000 resamples of the same seeds."""
    found = sweep([policies.Uniform(), policies.Hybrid()], loads=[20], seeds=120)
    rng = np.random.default_rng(0)
    picks = rng.integers(0, 120, (4000, 120))
    ratios = {}
    for name in found.names:
        cell = found.measured[name, 20]
        ratios[name] = cell["success"][picks].mean(axis=1) / cell["energy"][picks].mean(axis=1)
        _, error = ratio_and_error(cell["success"], cell["energy"])
        assert error == pytest.approx(ratios[name].std(), rel=0.15)
    (gap,) = found.paired("Hybrid", "Uniform", "efficiency")
    assert gap.standard_error == pytest.approx((ratios["Hybrid"] - ratios["Uniform"]).std(), rel=0.15)


@PRESETS
def test_the_oracle_is_asked_for_all_seeds_or_some(workload):
    """True: every seed. A number: the first so many, and the share is of those seeds only."""
    bound = oracle(workload, load=20, seeds=8)
    every = sweep([policies.SDF()], workload, loads=[20], seeds=8, oracle=True)
    assert every.bounds[20].tolist() == bound.bound.tolist()
    assert every.rows[0]["oracle"] == pytest.approx(bound.percent.mean())
    some = sweep([policies.SDF()], workload, loads=[20], seeds=8, oracle=3)
    assert np.isfinite(some.bounds[20]).tolist() == [True] * 3 + [False] * 5
    reached = simulate(policies.SDF(), workload, load=20, seeds=3).successes.sum() / bound.bound[:3].sum()
    assert some.rows[0]["of_oracle"] == pytest.approx(reached)


def test_given_tasks_are_one_load():
    """Workload.of: the load is the number of tasks, whatever was asked."""
    tasks = [Task(arrival=0, deadline=30, data=10, target=0.5, delay=1) for _ in range(4)]
    found = sweep([policies.SDF()], Workload.of(tasks), loads=[10, 60], seeds=2, oracle=True)
    assert found.loads == (4,)
    assert found.rows[0]["success"] == 100.0 and found.rows[0]["of_oracle"] == 1.0


def test_a_single_seed_has_no_standard_error_and_prints():
    """None instead of a number, in rows, pairs and the table."""
    found = sweep(PLAYERS, loads=[10], seeds=[7])
    assert all(row["success_se"] is None for row in found.rows)
    assert found.paired("SDF", "Uniform")[0].standard_error is None
    assert "UARA+LARA" in found.table()


def test_nobody_succeeds():
    """Targets that no curve reaches: zero success, no latency, efficiency 0, and a bound of 0."""
    found = sweep(
        [policies.Hybrid(), policies.DescribedUniform()],
        Workload.described(target=(1e-6, 2e-6)),
        loads=[10],
        seeds=3,
        oracle=True,
    )
    for row in found.rows:
        assert row["success"] == 0 and row["latency"] is None and row["oracle"] == 0 and row["of_oracle"] is None
        assert row["efficiency"] == 0
    assert "-" in found.table()


def test_progress_counts_up_to_the_end():
    """Called after each part, ending with all of them."""
    seen: list[tuple[int, int]] = []
    sweep(
        [policies.DescribedUniform()],
        loads=[10, 20],
        seeds=5,
        oracle=2,
        progress=lambda done, all_: seen.append((done, all_)),
    )
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[-1][0] == seen[-1][1]


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"policies": []}, ("policies.none",)),
        ({"policies": [policies.SDF(), policies.SDF()]}, ("policies.twice", "'SDF'")),
        ({"loads": []}, ("loads.range",)),
        ({"loads": [0]}, ("loads.range",)),
        ({"seeds": 0}, ("seeds.none",)),
        ({"seeds": [-1]}, ("seed.range", -1)),
        ({"seeds": [2, 2]}, ("seed.twice",)),
        ({"seeds": [1.7]}, ("seed.whole", 1.7)),
        ({"seeds": 1.5}, ("seed.whole", 1.5)),
        ({"seeds": [2**63]}, ("seed.range", 2**63)),
        ({"loads": [10.5]}, ("loads.range",)),
        ({"loads": math.nan}, ("loads.range",)),
        ({"oracle": -3}, ("sweep.range", "oracle is -3")),
        ({"workers": 0}, ("sweep.range", "workers 0")),
    ],
)
def test_what_cannot_be_swept_is_refused(arguments, refusal):
    """One line that names what was given."""
    with refused(*refusal):
        sweep(**({"policies": [policies.SDF()], "loads": [10], "seeds": 1} | arguments))


def test_unknown_names_in_a_pair_are_refused():
    """A policy or a measure that this sweep does not have."""
    found = sweep([policies.SDF()], loads=[10], seeds=1)
    with refused("unknown", "'EDF'"):
        found.paired("SDF", "EDF")
    with refused("unknown", "'joy'"):
        found.paired("SDF", "SDF", "joy")


def test_a_policy_that_fails_in_a_worker_fails_the_sweep():
    """The error of one part is the error of the whole, with the policy's name."""

    class Bad:
        def decide(self, view):
            return None

    with refused("decision.type", "Bad, step 0"):
        sweep([Bad()], loads=[10], seeds=100, workers=2)


def test_two_settings_of_one_policy_can_be_compared():
    """`called` names one of them; it changes nothing else."""
    players = [policies.Hybrid(), policies.Hybrid(trust=0.0, called="Hybrid, racing"), policies.SRTF(called="mine")]
    found = sweep(players, Workload.described(), loads=[10], seeds=3)
    assert found.names == ("Hybrid", "Hybrid, racing", "mine")
    assert found.rows[1]["energy"] > found.rows[0]["energy"]


def test_a_policy_that_starts_itself_is_not_shared_between_threads():
    """start() resets and returns self, as many do: four workers give the bits of one."""

    class Itself:
        def start(self, scene):
            self.seen = np.zeros((scene.seeds, scene.tasks))
            return self

        def decide(self, view):
            self.seen += view.computing
            return (
                policies.SDF()
                .decide(view)
                ._replace(compute=greedy(self.seen, view.computing, view.task_cap, view.capacity))
            )

    one = sweep([Itself()], loads=[20, 30], seeds=600, workers=1)
    four = sweep([Itself()], loads=[20, 30], seeds=600, workers=4)
    for load in (20, 30):
        np.testing.assert_array_equal(one.measured["Itself", load]["energy"], four.measured["Itself", load]["energy"])


def test_a_load_named_twice_counts_once_and_a_number_is_a_list():
    """loads=[10, 10] and loads=10 are the same; so are one policy and a list of one."""
    twice, once = sweep([policies.SDF()], loads=[10, 10], seeds=2), sweep(policies.SDF(), loads=10, seeds=2)
    assert twice.rows == once.rows and len(once.rows) == 1


def test_far_times_do_not_wrap_around():
    """A deadline of a thousand million steps, and a delay as long: nobody fails for lack of time, nobody ever computes."""
    never_late = sweep(policies.Uniform(), Workload.described(deadline=(1e9, 1e9), horizon=200), loads=5, seeds=2)
    assert never_late.rows[0]["success"] > 80
    for delay in (1e6, 1e9):
        assert sweep(policies.SDF(), loads=5, seeds=2, site=Site(delay=delay, jitter=0.0)).rows[0]["success"] == 0
