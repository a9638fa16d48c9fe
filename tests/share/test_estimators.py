"""Estimators against textbook fits, Monte Carlo and plain NumPy; and what all of them must survive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from called import called
from equipoise.share import Prior, Site, View, Workload, simulate
from equipoise.share.estimators import Analogue, Bayes, Estimate, Familiar, LogLinear, TrueWork
from equipoise.share.estimators._base import PARTS
from equipoise.share.estimators.analogue import DOUBT, FIRST, GOAL, LEFT_LEAST, NOW, PATH, STEP, TARGETS
from equipoise.share.estimators.bayes import NOISE, work_of
from equipoise.share.policies._learning import clairvoyant
from equipoise.share.policies.srtf import SRTF
from equipoise.share.recording import Name, Recording
from equipoise.share.task import COMPUTING, SENDING
from equipoise.share.view import Scene, Truth
from equipoise.share.workload import DESCRIBED_PRIOR
from refusals import refused

Floats = NDArray[np.float64]

PAST = Recording.of(
    [
        (at := np.exp(STEP * np.arange(0, 55.0, 2.0)), 0.05 + 0.1 * k + (0.8 - 0.1 * k) * at ** -(0.25 + 0.1 * k))
        for k in range(4)
    ],
    [Name("model", "data", f"kind={k}", "0") for k in range(4)],
)
WITH_PAST = replace(DESCRIBED_PRIOR, curves=PAST)
ESTIMATORS = [LogLinear(), Bayes(), Bayes(population=False), Analogue(), Familiar()]
names = {
    "ids": lambda estimator: f"{type(estimator).__name__}{'' if getattr(estimator, 'population', True) else '-told'}"
}


def seen(samples: ArrayLike, error: ArrayLike, target: ArrayLike, count: int = 1, observed: bool = True) -> View:
    """A step in which every task computes and has just been observed."""
    done = np.atleast_2d(np.asarray(samples, float))
    shape, none = done.shape, np.zeros(done.shape)
    return View(
        step=count,
        state=np.full(shape, COMPUTING, np.int8),
        arrival=np.zeros(shape, np.int64),
        deadline=np.full(shape, 99),
        data=none,
        data_left=none,
        target=np.broadcast_to(np.asarray(target, float), shape).copy(),
        samples=done,
        error=np.broadcast_to(np.asarray(error, float), shape).copy(),
        observations=np.full(shape, count),
        observed=np.full(shape, observed),
        first_error=np.ones(shape),
        ready=np.zeros(shape, np.int64),
        task_cap=np.full(shape, 30.0),
        capacity=150.0,
        bandwidth=100.0,
        servers=5,
        part=0.2,
        delay=3.0,
    )


def scene_for(shape: tuple[int, ...], prior: Prior = WITH_PAST, truth: Truth | None = None) -> Scene:
    return Scene(Site(), prior, shape[0], shape[1], 99, truth)


def watched(
    estimator: Any, samples: ArrayLike, errors: ArrayLike, target: ArrayLike, prior: Prior = WITH_PAST
) -> tuple[Estimate, Any, View]:
    """One seed: errors[k, i] of task i seen after samples[k] samples. What is said after the last, by whom, of what."""
    table = np.asarray(errors, float)
    table = table[:, None] if table.ndim == 1 else table
    fit, said, view = estimator.start(scene_for((1, table.shape[1]), prior)), None, None
    for k, (done, row) in enumerate(zip(np.asarray(samples, float), table, strict=True)):
        view = seen(np.full((1, len(row)), done), row, target, k + 1)
        fit.learn(view)
        said = fit.estimate(view)
    assert said is not None and view is not None
    return said, fit, view


def work_and_spread(mean: Floats, covariance: Floats, goal: float) -> tuple[float, float]:
    """ln work = (ln a - goal) / b and its standard deviation by the delta method."""
    log_a, b = mean
    slope = np.array([1.0 / b, -(log_a - goal) / b**2])
    return (log_a - goal) / b, float(np.sqrt(slope @ covariance @ slope))


# Log-linear least squares


def test_log_linear_is_the_least_squares_line():
    """ln work and its spread as they follow from numpy's polyfit and its covariance; work left is what is not done."""
    rng = np.random.default_rng(1)
    samples = np.array([2.0, 5.0, 9.0, 14.0, 22.0, 40.0])
    errors = 0.9 * samples**-0.4 * np.exp(0.05 * rng.standard_normal(6))
    said, _, _ = watched(LogLinear(), samples, errors, 0.15)
    (slope, level), covariance = np.polyfit(np.log(samples), np.log(errors), 1, cov=True)
    turned = np.array([[covariance[1, 1], -covariance[0, 1]], [-covariance[0, 1], covariance[0, 0]]])
    log_work, spread = work_and_spread(np.array([level, -slope]), turned, np.log(0.15))
    assert said.log_work[0, 0] == pytest.approx(log_work, abs=1e-7)
    assert said.spread[0, 0] == pytest.approx(spread, rel=1e-6)
    assert said.left[0, 0] == pytest.approx(np.exp(log_work) - 40.0, rel=1e-6)


@pytest.mark.parametrize(("slope", "taken"), [(2.5, 1.5), (0.01, 0.05), (-0.3, 0.05)])
def test_log_linear_turns_a_line_that_is_too_steep_or_flat_about_its_middle(slope: float, taken: float):
    """The paper's bounds on b: the clipped line still passes through the mean point."""
    samples = np.array([2.0, 4.0, 8.0, 16.0])
    errors = 0.3 * samples**-slope
    said, _, _ = watched(LogLinear(), samples, errors, 0.2)
    by_hand = (np.log(errors).mean() + taken * np.log(samples).mean() - np.log(0.2)) / taken
    assert said.log_work[0, 0] == pytest.approx(np.clip(by_hand, 0.0, 15.0), abs=1e-7)


def test_log_linear_does_not_know_before_three_observations():
    """Nor while they are all at the same place, where there is no line."""
    for samples in ([2.0, 4.0], [0.2, 0.5, 0.9, 1.0]):
        said, _, _ = watched(LogLinear(), samples, np.full(len(samples), 0.5), 0.15)
        assert not said.known.any()


# Bayesian log-linear


def regress(x: Floats, y: Floats, weights: Floats, prior: Prior) -> tuple[Floats, Floats]:
    """Textbook Bayesian linear regression, all points at once: y = la - b x with known noise variances."""
    vaa, vab, vbb = prior.variance
    known = np.linalg.inv(np.array([[vaa, vab], [vab, vbb]]))
    design = np.stack([np.ones_like(x), -x], axis=1)
    covariance = np.linalg.inv(known + design.T @ np.diag(weights) @ design)
    return covariance @ (known @ np.array(prior.mean) + design.T @ (weights * y)), covariance


def test_bayes_is_the_textbook_regression():
    """A told population and fixed noise: ln error is known to sigma / error, with the error expected before it is seen."""
    prior = Prior(mean=(-0.1, 0.3), variance=(0.03, 0.004, 0.01))
    samples = np.array([1.0, 3.0, 6.0, 10.0, 20.0, 35.0])
    errors = np.array([0.95, 0.81, 0.66, 0.62, 0.55, 0.51])
    x, y = np.log(samples), np.log(errors)
    weights = np.empty(0)
    for k in range(len(x)):
        mean, _ = regress(x[:k], y[:k], weights, prior)
        weights = np.append(weights, (np.exp(mean[0] - mean[1] * x[k]) / NOISE) ** 2)
    said, fit, _ = watched(Bayes(population=False), samples, errors, 0.4, prior)
    log_work, spread = work_and_spread(*regress(x, y, weights, prior), np.log(0.4))
    assert said.log_work[0, 0] == pytest.approx(log_work, abs=1e-9)
    assert said.spread[0, 0] == pytest.approx(spread, rel=1e-9)
    assert fit.surprise.tolist() == [1.0]


def test_an_unseen_task_is_believed_to_be_as_the_prior():
    """No observation at all: the prior's mean, and its spread by the delta method."""
    prior = Prior(mean=(0.0, 0.36), variance=(0.02, 0.001, 0.0005))
    fit = Bayes().start(scene_for((1, 1), prior))
    said = fit.estimate(seen(0.0, 1.0, 0.15, 0, observed=False)._replace(state=np.full((1, 1), SENDING, np.int8)))
    covariance = np.array([[0.02, 0.001], [0.001, 0.0005]])
    expected = work_and_spread(np.array(prior.mean), covariance, np.log(0.15))
    assert (said.log_work[0, 0], said.spread[0, 0]) == pytest.approx(expected)


def paper_tasks(count: int, seed: int, sigma: float = 0.005) -> tuple[Floats, Floats]:
    """Samples done after each of 20 steps, and the errors of power laws as the paper draws them."""
    rng = np.random.default_rng(seed)
    samples = 6.0 * np.arange(1, 21)
    a, b = rng.uniform(0.8, 1.2, count), rng.uniform(0.25, 0.467, count)
    return samples, a * samples[:, None] ** -b + sigma * rng.standard_normal((20, count))


def test_a_wrong_prior_is_unlearnt_from_other_tasks():
    """b told .1 too low: after forty tasks a new one is expected to need nearly the work that tasks do need."""
    told = replace(DESCRIBED_PRIOR, mean=(DESCRIBED_PRIOR.mean[0], DESCRIBED_PRIOR.mean[1] - 0.1))
    samples, errors = paper_tasks(40, seed=3)
    fit = Bayes().start(scene_for((1, 41), told))
    for k in range(20):
        view = seen(np.full((1, 41), samples[k]), np.append(errors[k], 1.0), 0.15, k + 1)
        view.observed[0, 40] = False  # the new one
        fit.learn(view)
    true, wrong = ((mean[0] - np.log(0.15)) / mean[1] for mean in (DESCRIBED_PRIOR.mean, told.mean))
    assert abs(fit.estimate(view).log_work[0, 40] - true) < 0.2 * abs(wrong - true)


def test_without_a_population_the_told_prior_stands():
    """The same forty tasks teach nothing about a new one."""
    samples, errors = paper_tasks(40, seed=3)
    fit = Bayes(population=False).start(scene_for((1, 41), DESCRIBED_PRIOR))
    before = fit.estimate(seen(np.zeros((1, 41)), 1.0, 0.15, 0, observed=False)).log_work[0, 40]
    for k in range(20):
        view = seen(np.full((1, 41), samples[k]), np.append(errors[k], 1.0), 0.15, k + 1)
        view.observed[0, 40] = False
        fit.learn(view)
    assert fit.estimate(view).log_work[0, 40] == before


def test_surprise_stays_near_one_on_power_laws_and_grows_on_bent_curves():
    """Early estimates move as far as they said they might; curves that level off at .14 fool them by far more."""
    samples, errors = paper_tasks(60, seed=4)
    bent = 0.14 + 0.86 * errors
    surprises = []
    for table in (errors, bent):
        _, fit, _ = watched(Bayes(), samples, table, 0.15, DESCRIBED_PRIOR)
        surprises.append(fit.surprise[0])
    assert surprises[0] < 1.5
    assert surprises[1] > 2.0 * surprises[0]


def test_the_delta_method_agrees_with_monte_carlo():
    """Standard deviation of (ln a - ln target) / b over 200,000 draws of (ln a, b), spreads as a run has them."""
    mean, covariance = np.array([0.0, 0.36]), np.array([[4e-4, 9e-5], [9e-5, 6e-5]])
    log_a, b = np.random.default_rng(0).multivariate_normal(mean, covariance, 200_000).T
    drawn = (log_a - np.log(0.15)) / b
    log_work, spread = called(work_of)(*mean, covariance[0, 0], covariance[0, 1], covariance[1, 1], np.log(0.15))
    assert log_work == pytest.approx(drawn.mean(), abs=0.01)
    assert spread == pytest.approx(drawn.std(), rel=0.03)


@pytest.mark.parametrize("variance", [(0.0, 0.0, 0.005), (0.02, 0.01, 0.005), (0.02, 0.0, 0.0), (np.nan, 0.0, 0.005)])
def test_a_prior_that_is_sure_of_a_or_b_is_refused(variance: tuple[float, float, float]):
    """A covariance without inverse would turn every estimate into nan; one line says which and what is expected."""
    with refused("prior.form", "Prior"):
        Prior(variance=variance)


SAMPLES = np.array([1.0, 2.0, 4.0, 8.0, *np.arange(14.0, 120.0, 6.0)])


def law(s: Floats, c: float, a: float, b: float) -> Floats:
    return np.asarray(c + a * s**-b)


# Analogues


def votes_by_hand(samples: Floats, errors: Floats, target: float) -> tuple[Floats, Floats]:
    """Works of the past tasks that are heavier than what is done, and their votes, in plain NumPy."""
    x, y, aim = np.log(samples), np.log(errors), np.log(target)
    walked = np.append(FIRST, np.diff(x))
    works, votes = [], []
    for k in range(len(PAST)):
        past = np.interp(x, *map(np.log, PAST.points(k)))
        for part in np.linspace(*PAST.targets, TARGETS):
            goal = PAST.target_at(np.array([k]), np.array([part]))
            apart = (y - aim) - (past - np.log(goal))  # errors relative to targets
            far = (walked * apart**2).sum() / PATH**2 + apart[-1] ** 2 / NOW**2 + (np.log(goal[0]) - aim) ** 2 / GOAL**2
            works.append(PAST.work(np.array([k]), goal)[0])
            votes.append(np.exp(-0.5 * far))
    heavier = np.array(works) > samples[-1]
    return np.array(works)[heavier], np.array(votes)[heavier] / max(votes) + DOUBT


@pytest.mark.parametrize("target", [0.2, 0.3])
def test_analogues_are_a_kernel_regression(target: float):
    """Mean and spread of ln work, mean work left, and its quantiles, as votes by hand give them."""
    samples = np.exp(STEP * np.array([2.0, 5.0, 9.0, 14.0, 20.0]))
    errors = np.array([0.8, 0.71, 0.55, 0.47, 0.4])
    said, fit, view = watched(Analogue(), samples, errors, target)
    works, votes = votes_by_hand(samples, errors, target)
    middle = np.average(np.log(works), weights=votes)
    spread = np.sqrt(np.average((np.log(works) - middle) ** 2, weights=votes))
    assert said.log_work[0, 0] == pytest.approx(middle, abs=1e-3)
    assert said.spread[0, 0] == pytest.approx(np.clip(spread, 0.1, 1.5), rel=1e-3)
    assert said.left[0, 0] == pytest.approx(max(np.average(works, weights=votes) - samples[-1], LEFT_LEAST), rel=1e-3)
    order = np.argsort(works)
    passed = np.cumsum(votes[order]) / votes.sum()
    quantiles = [works[order][np.searchsorted(passed, (k + 0.5) / PARTS)] - samples[-1] for k in range(PARTS)]
    assert fit.outlook(view, said)[0, 0] == pytest.approx(quantiles, rel=1e-6)


def test_a_curve_seen_before_is_recognised():
    """A task that repeats a past curve towards one of its targets is told that curve's work."""
    samples, errors = (column[:14] for column in PAST.points(2))
    goal = PAST.target_at(np.array([2]), np.array([PAST.targets[0]]))
    said, _, _ = watched(Analogue(widths=(0.02, 0.02, 0.02)), samples, errors, goal[0])
    assert said.log_work[0, 0] == pytest.approx(np.log(PAST.work(np.array([2]), goal)[0]), abs=0.02)


def test_analogues_without_past_curves_are_refused():
    """One line that says what is missing, and which workload has it."""
    with refused("estimator.curves", "Analogue", "Workload.recorded()"):
        simulate(SRTF(Analogue()), Workload.described(), load=3)


def test_the_familiar_choice_follows_the_prior():
    """Analogues where curves were seen before, Bayes where none were."""
    samples, errors = SAMPLES, law(SAMPLES, 0.1, 0.9, 0.5)
    for prior, alone in ((WITH_PAST, Analogue()), (DESCRIBED_PRIOR, Bayes())):
        chosen, expected = (watched(one, samples, errors, 0.2, prior)[0] for one in (Familiar(), alone))
        assert chosen.log_work[0, 0] == expected.log_work[0, 0]


# True work


def test_true_work_is_refused_without_the_truth():
    """Only a run gives it, and only to a clairvoyant policy."""
    with refused("estimator.truth", "TrueWork"):
        TrueWork().start(scene_for((1, 1)))
    assert clairvoyant(SRTF()).clairvoyant and not SRTF().clairvoyant


def test_true_work_says_what_is_left_and_no_more():
    """Work less what is done, never below zero; a task that can never succeed is finite all the same."""
    fit = TrueWork().start(scene_for((1, 3), truth=Truth(np.array([[100.0, 10.0, np.inf]]))))
    said = fit.estimate(seen(np.full((1, 3), 40.0), 0.5, 0.15))
    assert said.left[0, :2].tolist() == [60.0, 0.0]
    assert np.isfinite(said.left).all() and said.left[0, 2] > 1e8


# What all of them must survive

STEPS = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 26.0, 36.0, 46.0])
HARD = {
    "no noise": (STEPS, np.maximum(STEPS, 1.0) ** -0.36, 0.15),
    "errors that are negative or zero": (STEPS, np.where(np.arange(9) % 2, -0.02, 0.0), 0.15),
    "rising errors": (STEPS, 0.1 * np.maximum(STEPS, 1.0) ** 0.4, 0.15),
    "constant errors above the target": (STEPS, np.full(9, 0.5), 0.15),
    "constant errors at the target": (STEPS, np.full(9, 0.15), 0.15),
    "a single observation": (STEPS[:1], np.array([0.7]), 0.15),
    "never more than a sample": (np.linspace(0.1, 1.0, 9), np.full(9, 0.8), 0.15),
    "a target of zero": (STEPS, np.maximum(STEPS, 1.0) ** -0.36, 0.0),
    "a curve that is finished": (1e3 * STEPS, 0.9 * (1e3 * STEPS) ** -0.5, 0.5),
    "far beyond all past tasks": (np.geomspace(1.0, 1e6, 9), np.full(9, 0.4), 0.15),
    "huge errors": (STEPS, np.full(9, 1e6), 0.15),
}


@pytest.mark.parametrize("hard", HARD)
@pytest.mark.parametrize("estimator", ESTIMATORS, **names)
def test_whatever_is_observed_what_is_said_is_finite(estimator: Any, hard: str):
    """After every observation: work left finite and not negative, a spread that is a number, quantiles that ascend."""
    samples, errors, target = HARD[hard]
    for n in range(1, len(samples) + 1):
        said, fit, view = watched(estimator, samples[:n], errors[:n], target)
        if said.known[0, 0]:
            assert np.isfinite(said.left).all() and (said.left >= 0.0).all()
            assert np.isfinite(said.spread).all() and (said.spread >= 0.0).all()
            ahead = getattr(fit, "outlook", lambda *_: np.zeros(1))(view, said)  # of those who have votes
            assert np.isfinite(ahead).all() and (np.diff(ahead) >= 0.0).all()
        else:
            assert np.isnan(said.left).all()


@pytest.mark.parametrize("estimator", ESTIMATORS, **names)
def test_the_truth_is_not_needed(estimator: Any):
    """A scene without truth is enough, and the estimator says so."""
    assert not estimator.needs_truth
    assert estimator.label


@pytest.mark.parametrize("estimator", ESTIMATORS, **names)
def test_a_seed_does_not_depend_on_its_batch(estimator: Any):
    """Row 3 of five seeds is what that seed alone gives, to the last bit."""
    rng = np.random.default_rng(8)
    shape = (5, 7)
    a, b, target = rng.uniform(0.8, 1.2, shape), rng.uniform(0.2, 0.5, shape), rng.uniform(0.14, 0.3, shape)
    fits = {rows: estimator.start(scene_for((rows, 7))) for rows in (5, 1)}
    samples = np.zeros(shape)
    for step in range(15):
        computed = rng.random(shape) < 0.7
        samples = samples + np.where(computed, rng.uniform(0.5, 10.0, shape), 0.0)
        errors = a * np.maximum(samples, 1.0) ** -b + 0.01 * rng.standard_normal(shape)
        view = seen(samples, errors, target, step)._replace(observed=computed)
        alone = view._replace(
            **{name: value[3:4].copy() for name, value in view._asdict().items() if isinstance(value, np.ndarray)}
        )
        for fit, shown in ((fits[5], view), (fits[1], alone)):
            fit.learn(shown)
        together, single = fits[5].estimate(view), fits[1].estimate(alone)
        for whole, part in zip(together, single, strict=True):
            np.testing.assert_array_equal(whole[3:4], part)
