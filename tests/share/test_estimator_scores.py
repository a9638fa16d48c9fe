"""benchmarks/share/estimators.py: measures against scipy and by hand, on tasks that nobody was told about."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "share"))
from estimators import AMOUNTS, CAP, Mean, between, log_density, main, outlook, score, steps_to, true_errors

from equipoise.share import Workload
from equipoise.share.estimators import ESTIMATORS, Analogue, Bayes, Estimate, LogLinear, TrueWork
from equipoise.share.estimators._base import PARTS
from equipoise.share.site import Site
from equipoise.share.step import empty_view, rules
from equipoise.share.task import COMPUTING, Curve
from equipoise.share.view import Scene, View
from refusals import refused

Floats = NDArray[np.float64]

LIGHT = Workload.described(a=(1.0, 1.0), b=(0.36, 0.36))  # works of 157 to 206 samples


@dataclass(frozen=True)
class Saying:
    """An estimator that says what it is told to."""

    log_work: Floats
    spread: float
    label: ClassVar[str] = "saying"
    needs_truth: ClassVar[bool] = False

    def start(self, scene: Scene) -> Saying:
        return self

    def learn(self, view: View) -> None:
        """Nothing."""

    def estimate(self, view: View) -> Estimate:
        left = np.maximum(np.exp(self.log_work) - view.samples, 0.0)
        return Estimate(left, self.log_work, np.full(left.shape, self.spread))


def told(workload: Workload, shift: Any, spread: float, amounts: tuple[float, ...] = (4.0,)) -> list[dict[str, Any]]:
    """Rows of an estimator that says the truth, shifted."""
    work = workload.draw(60, range(20)).work
    return score([Saying(np.log(work) + shift, spread)], workload, amounts=amounts)[len(amounts) :]


def test_a_shifted_truth_has_that_bias():
    """Every estimate .5 too high and sure of it: median, RMS and bias .5, and no truth in the interval."""
    (row,) = told(LIGHT, 0.5, 0.01)
    assert [row[name] for name in ("median", "rms", "bias")] == pytest.approx([0.5, 0.5, 0.5], abs=1e-3)
    assert row["covered"] == 0.0
    assert (row["tasks"], row["known"]) == (1200, 100.0)


def test_a_calibrated_estimator_covers_eighty_percent():
    """Errors drawn as wide as claimed: 80 of 100 truths in the 80 % interval; half as wide as claimed: nearly all."""
    noise = np.random.default_rng(2).standard_normal((20, 60))
    assert told(LIGHT, 0.3 * noise, 0.3)[0]["covered"] == pytest.approx(80.0, abs=4.0)
    assert told(LIGHT, 0.3 * noise, 0.6)[0]["covered"] > 95.0


def test_the_log_score_is_best_for_the_honest():
    """Claiming less or more than the true spread scores lower."""
    noise = 0.3 * np.random.default_rng(2).standard_normal((20, 60))
    timid, honest, bold = (told(LIGHT, noise, spread)[0]["log_score"] for spread in (0.9, 0.3, 0.1))
    assert honest > timid and honest > bold


def test_a_task_that_is_done_is_not_asked_about():
    """After 180 samples only those with more work are left; works lie on both sides."""
    (row,) = told(LIGHT, 0.0, 0.1, (180.0,))
    work = LIGHT.draw(60, range(20)).work
    assert row["tasks"] == (work > 180.0).sum()
    assert 0 < row["tasks"] < 1200


def test_a_task_is_observed_until_it_is_done_and_no_longer():
    """The step that finishes it is the last that brings an error: others of its seed learn no more from it."""
    work = LIGHT.draw(60, range(20)).work

    class Watching(Saying):
        def learn(self, view: View) -> None:
            seen.append((float(view.samples.max()), view.observed.copy()))

    seen: list[tuple[float, NDArray[np.bool_]]] = []
    score([Watching(np.log(work), 0.1)], LIGHT, amounts=(280.0,))
    before = [0.0, *(done for done, _ in seen)]
    for start, (_, observed) in zip(before, seen, strict=False):
        np.testing.assert_array_equal(observed, work > start)


def test_works_beyond_a_deadline_count_alike():
    """Truths and estimates beyond the cap are equal: said 10 times too much, but beyond the cap, is no error."""
    heavy = Workload.described(b=(0.2, 0.2))  # works from about 3000
    (row,) = told(heavy, np.log(10.0), 0.01)
    assert (row["median"], row["rms"], row["bias"], row["covered"]) == (0.0, 0.0, 0.0, 100.0)


def test_quantiles_between_those_of_an_outlook_are_nearly_the_normals():
    """Interpolated at .1, .5 and .9 between the eight of a standard normal: to .07 of scipy's."""
    eight = stats.norm.ppf((np.arange(PARTS) + 0.5) / PARTS)[None, :]
    for u in (0.1, 0.5, 0.9):
        assert between(eight, u)[0] == pytest.approx(stats.norm.ppf(u), abs=0.07)


def test_an_outlook_holds_the_quantiles_of_the_lognormal_beyond_what_is_done():
    """Against scipy's truncated normal, for an estimator that has no votes of its own; nothing where nothing is known."""
    view = empty_view((1, 2), rules(Site()))
    view.state[:], view.samples[:] = COMPUTING, 40.0
    said = Estimate(np.zeros((1, 2)), np.array([[4.0, np.nan]]), np.array([[0.6, np.inf]]))
    ahead = outlook(object(), view, said)[0]
    cut = stats.truncnorm((np.log(40.0) - 4.0) / 0.6, np.inf, 4.0, 0.6)
    assert ahead[0] == pytest.approx(np.exp(cut.ppf((np.arange(PARTS) + 0.5) / PARTS)) - 40.0, rel=1e-6)
    assert (ahead[1] == 0.0).all()


@pytest.mark.parametrize("done", [2.0, 5.0, 6.5])
def test_the_density_is_that_of_the_cut_normal(done: float):
    """scipy's truncated normal; with the chance beyond the cap it adds up to one."""
    log_work, spread = np.array([5.0]), np.array([0.8])
    cut = stats.truncnorm((done - 5.0) / 0.8, np.inf, 5.0, 0.8)

    def density(x: float) -> float:
        return float(np.exp(log_density(log_work, spread, done, np.array([x]))[0]))

    assert density(6.8) == pytest.approx(cut.pdf(6.8))
    inside, _ = integrate.quad(density, done, np.log(CAP) - 1e-9)
    assert inside + density(np.log(CAP)) == pytest.approx(1.0, abs=1e-6)


def test_errors_are_those_of_the_curves():
    """Recorded and power-law tasks, as the curve of each gives them; below one sample as at one."""
    for workload in (Workload.recorded(), Workload.described()):
        batch = workload.draw(5, [3])
        for done in (0.5, 7.0, 333.0):
            for i in range(5):
                curves = workload.curves
                curve = curves.curve(batch.table[0, i]) if curves else Curve(batch.a[0, i], batch.b[0, i])
                assert true_errors(batch, done)[0, i] == pytest.approx(curve.error(done))


def test_the_steps_pass_through_every_amount():
    """Four observations in the first four samples, then at most ten samples per step."""
    steps = steps_to(AMOUNTS)
    assert set(AMOUNTS) <= set(steps) and steps[:4] == [0.5, 1.0, 2.0, 4.0]
    assert max(np.diff(steps)) <= 10.0 and steps[-1] == max(AMOUNTS)


def test_no_replayed_curve_is_known_to_the_prior():
    """What the default is scored on and what the prior was fitted on have no kind of curve in common."""
    workload = Workload.recorded()
    assert workload.curves is not None and workload.prior.curves is not None
    assert not {name[:3] for name in workload.curves.names} & {name[:3] for name in workload.prior.curves.names}


@pytest.fixture(scope="module")
def scored() -> dict[str, dict[tuple[str, float], dict[str, Any]]]:
    """Everything at home and abroad, in a small run."""
    workloads = {"recorded": Workload.recorded(), "paper": Workload.described()}
    found = {}
    for name, workload in workloads.items():
        rows = score(workload=workload, seeds=6)
        found[name] = {(row["estimator"], row["samples"]): row for row in rows}
    return found


def test_bayes_is_at_home_on_power_laws(scored: dict[str, Any]):
    """The least RMS error and the best log score of all, at every amount."""
    rows = scored["paper"]
    for done in AMOUNTS:
        block = [row for (_, at), row in rows.items() if at == done]
        best = rows[Bayes.label, done]
        assert best["log_score"] == max(row["log_score"] for row in block)
        assert best["rms"] <= 1.1 * min(row["rms"] for row in block)


def test_analogues_are_at_home_on_real_curves(scored: dict[str, Any]):
    """There only they beat the mean of past tasks in RMS error and in log score at every amount."""
    rows = scored["recorded"]
    for done in AMOUNTS:
        mean = rows[Mean.label, done]
        ours = rows[Analogue.label, done]
        assert ours["rms"] < mean["rms"] and ours["log_score"] > mean["log_score"]
        for other in (LogLinear, Bayes):
            assert rows[other.label, done]["log_score"] < mean["log_score"]


def test_the_same_seed_gives_the_same_rows():
    """And another seed others."""
    first, again, other = (score([LogLinear()], LIGHT, seeds=2, seed=seed) for seed in (5, 5, 6))
    assert first == again != other


def test_what_an_estimator_cannot_know_yet_is_none():
    """A row for each estimator and amount; two observations are too few for a line and its noise."""
    rows = score([LogLinear()], LIGHT, amounts=(1.0, 16.0), seeds=1)
    assert len(rows) == 4
    assert [rows[2][name] for name in ("median", "rms", "bias", "covered", "log_score")] == [None] * 5


@pytest.mark.parametrize("amounts", [(), (0.0,), (4.0, 2000.0), (float("nan"),)])
def test_amounts_that_cannot_be_asked_about_are_refused(amounts: tuple[float, ...]):
    """None, nothing done, beyond the cap."""
    with refused("amounts.range"):
        score([LogLinear()], LIGHT, amounts=amounts)


def test_the_truth_is_not_scored():
    """It would be told the answers."""
    with refused("estimator.truth"):
        score([TrueWork()], LIGHT)


def test_the_script_prints_a_table_for_each_home(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Real curves with analogues among the estimators, power laws without; as JSON the same rows."""
    monkeypatch.setattr(sys, "argv", ["estimators.py", "--json"])
    main()
    rows = json.loads(capsys.readouterr().out)
    assert {row["estimator"] for row in rows["power laws"]} < {row["estimator"] for kind in rows for row in rows[kind]}
    monkeypatch.setattr(sys, "argv", ["estimators.py"])
    main()
    real, laws = capsys.readouterr().out.split("power laws\n")
    assert "analogues" in real and "analogues" not in laws
    assert "mean of past tasks" in real and "mean of past tasks" in laws


def test_an_estimator_that_is_gone_is_an_unknown_name():
    """The power law with an offset served no policy: its name is refused with those that are known."""
    with refused("unknown", "'PowerOffset'", "log-linear least squares"):
        ESTIMATORS.make("PowerOffset")
