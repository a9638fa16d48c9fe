"""Recorded curves: kept on disk, split in two halves, drawn as tasks, and turned into a prior."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from equipoise.share import Prior, Workload, policies, simulate
from equipoise.share.recording import Name, Recording, fit_lines, fit_prior, shipped
from refusals import refused

Floats = NDArray[np.float64]
GRID = np.geomspace(1, 4000, 40)


def named(kind: int, seed: int = 0) -> Name:
    return Name("model", "data", f"kind={kind}", str(seed))


def power_laws(kinds: int, seeds: int = 1) -> Recording:
    """Exact power laws, each kind with its own a and b, all its seeds the same."""
    rng = np.random.default_rng(5)
    laws = [(rng.uniform(0.5, 1.0), rng.uniform(0.2, 0.5)) for _ in range(kinds)]
    names = [named(kind, seed) for kind in range(kinds) for seed in range(seeds)]
    return Recording.of(
        [(GRID, laws[int(n.settings[5:])][0] * GRID ** -laws[int(n.settings[5:])][1]) for n in names], names
    )


def test_the_shipped_recording_has_many_kinds_of_curves():
    """At least 120 curves from at least 100 different settings, each measured at 50 to 60 places, none beyond chance."""
    recording = shipped()
    assert len(recording) >= 120
    assert len({name[:3] for name in recording.names}) >= 100
    assert 50 <= recording.samples.shape[1] <= 60
    assert len(set(recording.names)) == len(recording)
    assert recording.errors.min() > 0 and recording.errors.max() < 1


def test_the_line_through_a_curve_is_the_least_squares_line():
    """ln a, b and R^2 of every shipped curve as numpy's polyfit and corrcoef have them."""
    recording = shipped()
    for k, line in enumerate(fit_lines(recording)):
        x, y = np.log(recording.samples[k]), np.log(recording.errors[k])
        slope, level = np.polyfit(x, y, 1)
        assert (line.log_a, line.b) == pytest.approx((level, -slope), abs=1e-9)
        assert line.r_squared == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2, abs=1e-9)


def test_real_curves_are_not_power_laws():
    """A power law explains most of the typical curve and hardly anything of some: policies are tested on both."""
    fits = np.array([line.r_squared for line in fit_lines(shipped())])
    assert np.median(fits) > 0.7
    assert 0.05 < np.mean(fits < 0.5) < 0.3


def test_a_file_gives_back_what_was_saved(tmp_path: Path):
    """Curves of two lengths, names with commas, quotes and line ends, targets: the same after reading; bytes repeat."""
    names = [Name("a,b", 'c\n"d"', "", "0"), Name("e", "f", "g=1 h=2", "x")]
    curves = [([1.0, 2.5, 7.0], [0.5, 0.3, 1 / 3]), ([2, 1000], [0.1, 1e-7])]
    recording = Recording.of(curves, names, targets=(0.25, 0.75))
    recording.save(tmp_path / "one.csv.gz")
    read = Recording.load(tmp_path / "one.csv.gz")
    assert read.names == tuple(names) and read.targets == (0.25, 0.75)
    np.testing.assert_array_equal(read.samples, recording.samples)
    np.testing.assert_array_equal(read.errors, recording.errors)
    read.save(tmp_path / "two.csv.gz")
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()


@given(st.lists(st.floats(1e-12, 1e3), min_size=2, max_size=20), st.floats(1, 1e6))
def test_no_digit_is_lost_on_disk(tmp_path_factory: pytest.TempPathFactory, errors: list[float], first: float):
    """Any positive numbers come back bit by bit."""
    path = tmp_path_factory.mktemp("curves") / "any.csv.gz"
    samples = first * np.arange(1, len(errors) + 1)
    Recording.of([(samples, errors)], [named(0)]).save(path)
    read = Recording.load(path)
    assert read.errors[0].tolist() == errors and read.samples[0].tolist() == samples.tolist()


HEAD = "# equipoise recording 1\n# targets 0.5 1.0\nmodel,data,settings,seed,samples,errors\n"
GOOD = "m,d,s,0,1 2 3,.3 .2 .1\n"


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (b"not packed at all", ("file.damaged",)),
        (gzip.compress((HEAD + GOOD).encode(), mtime=0)[:-20], ("file.damaged",)),
        (gzip.compress(b"\xff\xfe\x00", mtime=0), ("file.damaged",)),
        ("", ("file.damaged",)),
        ("model,data\n1,2\n3,4\n", ("file.damaged",)),
        (HEAD, ("curves.none",)),
        (HEAD.replace("0.5 1.0", "0.5"), ("recording.row", "line 2")),
        (HEAD.replace("0.5 1.0", "0.9 0.5") + GOOD, ("recording.targets", "line 2", 0.9, 0.5)),
        (HEAD + GOOD + "m,d,s,1,1 2 3\n", ("recording.row", "line 5: 5 cells", 6)),
        (HEAD + GOOD + "m,d\n", ("recording.row", "line 5: 2 cells", 6)),
        (HEAD + GOOD + "m,d,s,1,1 2 x,.3 .2 .1\n", ("recording.row", "line 5", "numbers")),
        (HEAD + GOOD + "m,d,s,1,1 2 3,.3 .2\n", ("recording.row", "line 5: 3 sample counts", "2 errors")),
        (HEAD + GOOD + "m,d,s,1,1 3 3,.3 .2 .1\n", ("recording.row", "line 5", "rise strictly")),
        (HEAD + GOOD + "m,d,s,1,0 2 3,.3 .2 .1\n", ("recording.row", "line 5", "rise strictly")),
        (HEAD + GOOD + "m,d,s,1,1 2 3,.3 0 .1\n", ("recording.row", "line 5: error 0")),
        (HEAD + GOOD + "m,d,s,1,1 2 3,.3 nan .1\n", ("recording.row", "line 5", "finite")),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, text: str | bytes, refusal: tuple[object, ...]):
    """The message names the file, the line and what is wrong there."""
    path = tmp_path / "bad.csv.gz"
    path.write_bytes(text if isinstance(text, bytes) else gzip.compress(text.encode()))
    with refused(*refusal, path):
        Recording.load(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    """Reading nothing and writing nowhere are mistakes of the user, in one line."""
    with refused("file.read", "none.csv.gz"):
        Recording.load(tmp_path / "none.csv.gz")
    with refused("file.write", "a.csv.gz"):
        power_laws(2).save(tmp_path / "no" / "a.csv.gz")


def test_a_short_curve_is_padded_without_changing_it():
    """Between, at and beyond its points the padded row is the curve that was measured; the padding can be told apart."""
    short, long = ([2.0, 9.0, 30.0], [0.5, 0.4, 0.1]), (GRID, 1 / GRID)
    recording = Recording.of([short, long], [named(0), named(1)])
    assert recording.lengths.tolist() == [3, len(GRID)]
    assert recording.curve(0).samples == (2.0, 9.0, 30.0) and recording.curve(0).errors == (0.5, 0.4, 0.1)
    places = np.array([1.0, 2.0, 5.0, 9.0, 20.0, 30.0, 31.0, 5000.0])
    padded = np.interp(np.log(places), np.log(recording.samples[0]), recording.errors[0])
    np.testing.assert_allclose(padded, np.interp(np.log(places), np.log(short[0]), short[1]), rtol=1e-12)


def test_no_curve_and_no_near_duplicate_is_on_both_sides():
    """The halves share no model, data and settings, lose nothing, and are as good as equal in size."""
    recording = shipped()
    fitting, replayed = recording.split(seed=3)
    assert {name[:3] for name in fitting.names}.isdisjoint(name[:3] for name in replayed.names)
    assert sorted(fitting.names + replayed.names) == sorted(recording.names)
    assert abs(len(fitting) - len(replayed)) <= 2 * 3
    row = recording.names.index(replayed.names[0])
    np.testing.assert_array_equal(replayed.errors[0], recording.errors[row])


def test_seeds_of_one_kind_stay_together():
    """Seven kinds with three seeds each, split by twenty seeds: every kind is whole, and the split depends on the seed."""
    recording = power_laws(kinds=7, seeds=3)
    splits = [recording.split(seed)[0] for seed in range(20)]
    for half in splits:
        assert sorted(half.names) == sorted(
            n for n in recording.names if n.settings in {m.settings for m in half.names}
        )
    assert len({half.names for half in splits}) > 1
    with refused("recording.kinds", "kind=0"):
        power_laws(kinds=1, seeds=3).split()


def numbers(prior: Prior) -> tuple[object, ...]:
    return prior.mean, prior.variance, prior.surprise


def test_the_prior_is_fitted_on_curves_that_are_not_replayed():
    """Mean and covariance of polyfit over the fitting half; spoiling every replayed curve changes nothing."""
    recording = shipped()
    fitting, replayed = recording.split()
    workload = Workload.recorded()
    assert workload.curves is not None and workload.curves.names == replayed.names
    lines = np.array(
        [np.polyfit(np.log(s), np.log(e), 1) for s, e in zip(fitting.samples, fitting.errors, strict=True)]
    )
    found = np.column_stack([lines[:, 1], -lines[:, 0]])
    assert workload.prior.mean == pytest.approx(found.mean(axis=0))
    vaa, vab, vbb = workload.prior.variance
    np.testing.assert_allclose([[vaa, vab], [vab, vbb]], np.cov(found.T, bias=True), atol=1e-5)
    spoilt = np.array([name in replayed.names for name in recording.names])
    errors = np.where(spoilt[:, None], 0.5 * recording.errors[:, ::-1], recording.errors)
    spared = Workload.recorded(replace(recording, errors=errors)).prior
    assert numbers(spared) == numbers(workload.prior)
    for prior in (spared, workload.prior):  # the curves that a policy may look at, too, are those of the fitting half
        assert prior.curves is not None and prior.curves.names == fitting.names
        np.testing.assert_array_equal(prior.curves.errors, fitting.errors)
    errors = np.where(spoilt[:, None], recording.errors, 0.5 * recording.errors)
    assert numbers(Workload.recorded(replace(recording, errors=errors)).prior) != numbers(workload.prior)


def belief(x: Floats, y: Floats, goal: float, mean: Floats, variance: Floats, noise: float) -> tuple[float, float]:
    """Bayesian linear regression from the textbook, all points at once."""
    design = np.column_stack([np.ones_like(x), -x])
    covariance = np.linalg.inv(np.linalg.inv(variance) + design.T @ design / noise)
    log_a, b = covariance @ (np.linalg.solve(variance, mean) + design.T @ y / noise)
    b = max(b, 0.05)
    work = (log_a - goal) / b
    gradient = np.array([1 / b, -work / b])
    return min(max(work, 0), 9), min(np.sqrt(gradient @ covariance @ gradient), 1.5)


def test_surprise_is_how_far_early_estimates_stray():
    """Recomputed one task at a time, from definitions: 10 samples per step, the third estimate against the sixth and on."""
    recording = shipped().take(range(0, len(shipped()), 12))
    prior, lines, moves = fit_prior(recording), fit_lines(recording), []
    (vaa, vab, vbb), noise = prior.variance, np.mean([line.noise for line in lines])
    for k in range(len(recording)):
        x, y = np.log(recording.samples[k]), recording.errors[k]
        level = np.exp(IsotonicRegression(increasing=False).fit_transform(x, np.log(y)))
        for part in np.linspace(*recording.targets, 8):
            target = np.interp(part * x[-1], x, level)
            seen = [10.0 * step for step in range(1, 37)]
            unfinished = [s for s in seen if np.interp(np.log(s), x, level) > target * (1 + 1e-9)]
            if len(unfinished) < 6:
                continue
            lx, ly = np.log(unfinished), np.log(np.interp(np.log(unfinished), x, y))
            beliefs = [
                belief(lx[:n], ly[:n], np.log(target), np.array(prior.mean), np.array([[vaa, vab], [vab, vbb]]), noise)
                for n in range(3, len(lx) + 1)
            ]
            early, spread = beliefs[0]
            moves.append(max(min(25, ((later - early) / max(spread, 0.05)) ** 2) for later, _ in beliefs[3:]))
    assert len(moves) > 20
    assert prior.surprise == pytest.approx(np.mean(moves), rel=1e-6)


def test_power_laws_do_not_surprise_and_bends_do():
    """Exact power laws: hardly any move. Curves that are level for long and then fall: far more than one deviation."""
    laws = power_laws(kinds=30)
    bend = np.where(GRID < 60, 1.0, (GRID / 60) ** -1.5)
    bent = replace(laws, errors=np.maximum(laws.errors[:, :1] * bend, 1e-3))
    assert fit_prior(laws).surprise < 0.1
    assert fit_prior(bent).surprise > 1.5


def test_a_target_is_what_the_curve_reaches_at_the_drawn_place():
    """s^-1/2 from 1 to 10,000, targets at half its length in ln s: the place is 100, so the target .1 and the work 100."""
    grid = np.geomspace(1, 1e4, 2001)
    recording = Recording.of([(grid, grid**-0.5)], [named(0)], targets=(0.5, 0.5))
    rows, targets = recording.draw(np.random.default_rng(0), 4)
    assert rows.tolist() == [0] * 4 and rows.dtype == np.int64
    assert targets == pytest.approx([0.1] * 4)
    assert recording.curve(0).work(targets[0]) == pytest.approx(100.0)


def test_a_curve_that_got_worse_again_asks_for_its_level():
    """Errors .5, .2, .4, .3: the nearest falling curve in ln error is level at (.2 x .4 x .3)^(1/3) from 10 samples on."""
    recording = Recording.of([([1, 10, 100, 1000], [0.5, 0.2, 0.4, 0.3])], [named(0)], targets=(1.0, 1.0))
    rows, targets = recording.draw(np.random.default_rng(0), 1)
    assert targets[0] == pytest.approx((0.2 * 0.4 * 0.3) ** (1 / 3), rel=1e-12)
    assert recording.work(rows, targets)[0] == pytest.approx(10.0, rel=1e-9)


def test_errors_scatter_around_what_a_target_is_held_against():
    """What is observed are the measured points; success is decided by the falling level through them."""
    workload = Workload.recorded()
    batch = workload.draw(20, 5)
    assert workload.curves is not None
    for row, i in np.ndindex(batch.shape):
        k, target, work = batch.table[row, i], batch.target[row, i], batch.work[row, i]
        x = np.log(workload.curves.samples[k])
        level = np.exp(IsotonicRegression(increasing=False).fit_transform(x, np.log(workload.curves.errors[k])))
        assert np.interp(np.log(work), x, level) <= target * (1 + 1e-6)
        assert work <= 1.0 + 1e-9 or np.interp(np.log(work * 0.999), x, level) >= target * (1 - 1e-9)
    assert (batch.table_errors == workload.curves.errors).all()


def test_seeds_decide_the_tasks():
    """The same seed draws the same curves and targets, another seed others; all curves get their turn."""
    workload = Workload.recorded()
    first, again, other = (workload.draw(60, [seed]) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first.table, again.table)
    np.testing.assert_array_equal(first.target, again.target)
    assert (first.table != other.table).any() and (first.target != other.target).any()
    assert workload.curves is not None
    assert set(np.unique(workload.draw(100, 40).table)) == set(range(len(workload.curves)))


def test_every_task_can_be_done_given_time_and_a_good_part_not_before_its_deadline():
    """No work is infinite; three in ten tasks need more than 35 steps of 30 samples; those between are spread widely."""
    work = Workload.recorded().draw(100, 100).work
    assert np.isfinite(work).all()
    assert 0.2 < np.mean(work > 35 * 30) < 0.4
    assert np.mean((work > 50) & (work < 1700)) > 0.6


def test_a_recorded_workload_takes_changes():
    """Its own noise is in the curve, so sigma is 0 unless asked for; other settings and a prior pass through."""
    workload = Workload.recorded(power_laws(8))
    assert workload.sigma == 0.0
    changed = Workload.recorded(power_laws(8), sigma=0.01, horizon=50, prior=Workload.described().prior)
    assert (changed.sigma, changed.horizon, changed.prior) == (0.01, 50, Workload.described().prior)


def test_knowing_the_work_helps_on_real_curves():
    """At 60 tasks the clairvoyant SRTF finishes at least ten points more than equal shares."""
    workload = Workload.recorded()
    knowing = simulate(policies.clairvoyant(policies.SRTF()), workload, load=60, seeds=20)
    equal = simulate(policies.Uniform(), workload, load=60, seeds=20)
    assert knowing.success.mean() > equal.success.mean() + 10


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"targets": (0.9, 0.2)}, ("recording.targets", 0.9, 0.2)),
        ({"names": ()}, ("curves.none",)),
        ({"names": (named(0),)}, ("recording.shape", 1)),
        ({"errors": np.zeros((3, 40))}, ("recording.curve", "kind=0", "error 0")),
        ({"samples": np.ones((3, 40))}, ("recording.curve", "kind=0", "rise strictly")),
    ],
)
def test_a_recording_that_makes_no_sense_is_refused(change: dict[str, object], refusal: tuple[object, ...]):
    """The constructor names the curve and what is wrong with it."""
    with refused(*refusal):
        replace(power_laws(3), **change)


def test_a_name_that_a_file_could_not_hold_is_refused():
    """Text has letters, not a model, data, settings and a seed; a tuple of four becomes a Name."""
    curve = ([1.0, 10.0], [0.9, 0.1])
    with refused("recording.name", "'S0'"):
        Recording.of([curve], ["S0"])
    assert Recording.of([curve], [("S", "mine", "", 0)]).names[0].model == "S"
