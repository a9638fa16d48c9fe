"""Recorded learning curves: a table of them, how tasks are drawn from it, and what a scheduler may believe beforehand.

A "sample" of the site stands for a small batch of real ones, the same for all curves of a recording (record.py says how
many), so that a curve that takes tens of thousands of real samples fits the tens of steps a task has.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError, refuse_if
from equipoise.kernels import Floats, Ints
from equipoise.share.task import Curve, table_error, table_fault, table_work
from equipoise.share.view import Prior

SHIPPED = Path(__file__).with_name("curves") / "recorded.csv.gz"
FORMAT = "# equipoise recording 1"
COLUMNS = ("model", "data", "settings", "seed", "samples", "errors")
# Parts of a curve, in ln samples, between which targets lie: so that three shipped tasks in ten cannot make their
# deadlines even alone, and the rest spreads over the works of the paper's preset.
LATE = (0.62, 1.0)
PADDING = 1e-9  # relative gap between points added to a short curve; no real points are so close

# How the surprise of a prior is measured (docs/share.md, 4).
PACE, STEPS = 10.0, 36  # samples per step, and the steps that a task can compute before its deadline
EARLY, JUDGED = 3, 6  # the estimate after so many observations is judged by those after so many and more
TARGETS = 8  # per curve
B_LEAST = 0.05  # a flatter belief would put the work at infinity
POOR_FIT = 0.5  # R^2 below which a power law says little about a curve
LOG_WORK_MOST, SPREAD_LEAST, SPREAD_MOST, MOVE_MOST = 9.0, 0.05, 1.5, 25.0


class Name(NamedTuple):
    """Where a curve comes from. Curves that differ in the seed only are near-duplicates."""

    model: str
    data: str
    settings: str
    seed: str

    def __str__(self) -> str:
        return ", ".join(part for part in (self.model, self.data, self.settings, f"seed {self.seed}") if part)


@dataclass(frozen=True, eq=False, repr=False)
class Recording:
    """Curves as rows of two tables: samples of the site, and the error there. Short rows are padded at their end.

    `targets`: a task must reach the level of its curve at a place drawn log-uniformly between these parts of it.
    """

    samples: Floats
    errors: Floats
    names: tuple[Name, ...]
    targets: tuple[float, float] = LATE

    def __post_init__(self) -> None:
        low, high = self.targets
        why = f"Recording: targets lie between {low!r} and {high!r}; expected 0 <= low <= high <= 1"
        refuse_if(not 0.0 <= low <= high <= 1.0, why, code="recording.targets")
        refuse_if(not self.names, "Recording: no curves; expected at least one", code="curves.none")
        shape = (len(self.names), self.samples.shape[-1])
        why = f"Recording: samples are {self.samples.shape} and errors {self.errors.shape} for {len(self.names)} names"
        wrong = self.samples.shape != shape or self.errors.shape != shape
        refuse_if(wrong, f"{why}; expected one row for each name in both", code="recording.shape")
        for name, samples, errors in zip(self.names, self.samples, self.errors, strict=True):
            fault = table_fault(samples, errors, positive=True)
            refuse_if(fault, f"Recording: {name}: {fault}", code="recording.curve")

    @classmethod
    def of(
        cls, curves: Sequence[tuple[ArrayLike, ArrayLike]], names: Sequence[Name], targets: tuple[float, float] = LATE
    ) -> Recording:
        """From (samples, errors) of each curve; they may differ in length."""
        pairs = [(np.asarray(s, dtype=float), np.asarray(e, dtype=float)) for s, e in curves]
        for name in names:
            why = f"Recording: a name is {name!r}; expected Name(model, data, settings, seed), four texts"
            refuse_if(isinstance(name, str) or len(name) != 4, why, code="recording.name")
        points = max((len(s) for s, _ in pairs), default=0)
        samples = np.array([_padded(s, points, PADDING) for s, _ in pairs])
        errors = np.array([_padded(e, points, 0.0) for _, e in pairs])
        return cls(samples, errors, tuple(Name(*map(str, name)) for name in names), targets)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Recording({len(self)} curves)"

    @cached_property
    def lengths(self) -> Ints:
        """How many points of each row were measured; the rest is padding."""
        real = np.diff(self.samples, axis=1) > 4 * PADDING * self.samples[:, 1:]
        return np.asarray(1 + real.sum(axis=1), dtype=np.int64)

    def points(self, k: int) -> tuple[Floats, Floats]:
        """Samples and errors of one curve as measured."""
        n = self.lengths[k]
        return self.samples[k, :n], self.errors[k, :n]

    def curve(self, k: int) -> Curve:
        """One curve, for a Task made by hand."""
        return Curve.recorded(*(column.tolist() for column in self.points(k)))

    def take(self, rows: ArrayLike) -> Recording:
        """Some of the curves."""
        chosen = np.asarray(rows, dtype=np.int64)
        names = tuple(self.names[k] for k in chosen)
        return Recording(self.samples[chosen], self.errors[chosen], names, self.targets)

    def split(self, seed: int = 0) -> tuple[Recording, Recording]:
        """One half to fit beliefs on, the other to replay. Curves that differ in the seed only stay together."""
        origins = sorted({name[:3] for name in self.names})
        why = f"Recording: all curves are of {self.names[0]}, or of other seeds; a split needs two kinds"
        refuse_if(len(origins) < 2, why, code="recording.kinds")
        order = np.random.default_rng(seed).permutation(len(origins))
        fitted = {origins[k] for k in order[: len(origins) // 2]}
        mine = np.array([name[:3] in fitted for name in self.names])
        return self.take(np.flatnonzero(mine)), self.take(np.flatnonzero(~mine))

    def draw(self, rng: np.random.Generator, load: int) -> tuple[Ints, Floats]:
        """For each task its curve's row and its target, an error level that the curve does reach."""
        rows = rng.integers(0, len(self), load)
        return rows, self.target_at(rows, rng.uniform(*self.targets, load))

    def target_at(self, rows: Ints, parts: Floats) -> Floats:
        """The level of each curve at this part of its length in ln samples."""
        first, last = self.samples[rows, 0], self.samples[rows, -1]
        return self.level_at(rows, first * (last / first) ** parts)

    def level_at(self, rows: Ints, samples: Floats) -> Floats:
        """The level of each curve after so many samples."""
        return np.array([table_error(self.samples[k], self.levels[k], at) for k, at in zip(rows, samples, strict=True)])

    @cached_property
    def levels(self) -> Floats:
        """What each model has learnt: the falling curve nearest to the measured one in ln error.

        Measured points scatter around it; they are what is observed, and this is what a target is held against, so
        that it is reached by learning and not by luck.
        """
        from scipy.optimize import isotonic_regression

        fits = [isotonic_regression(row, increasing=False).x for row in np.log(self.errors)]
        return np.exp(np.minimum.accumulate(np.array(fits), axis=1))

    def work(self, rows: Ints, targets: Floats) -> Floats:
        """Samples at which the level of each curve reaches the target."""
        pairs = zip(rows, targets, strict=True)
        return np.array([table_work(self.samples[k], self.levels[k], target) for k, target in pairs])

    def save(self, path: str | Path) -> None:
        """A compressed CSV with one row per curve, its points in two cells. The same recording gives the same bytes."""
        text = io.StringIO()
        text.write(f"{FORMAT}\n# targets {self.targets[0]!r} {self.targets[1]!r}\n")
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(COLUMNS)
        for k, name in enumerate(self.names):
            rows.writerow([*name, *(" ".join(map(_shortest, column)) for column in self.points(k))])
        packed = gzip.compress(text.getvalue().encode(), mtime=0)
        try:
            Path(path).write_bytes(packed)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}", code="file.write") from None

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """What `save` wrote; a damaged file is refused with the number of its first bad line."""
        lines, targets = _opening(path)
        curves, names = [], []
        reader = csv.reader(lines[3:])
        try:
            for row in reader:
                curves.append(_read_row(row, f"{path}, line {reader.line_num + 3}"))
                names.append(Name(*row[:4]))
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num + 3}: {error}", code="recording.row") from None
        why = f"{path}: no curves; expected at least one line below the column names"
        refuse_if(not curves, why, code="curves.none")
        return cls.of(curves, names, targets)


def _padded(values: Floats, points: int, gap: float) -> Floats:
    """Repeat the last value, rising by hardly anything (or nothing): the curve is level there anyway."""
    return np.concatenate([values, values[-1] * (1.0 + gap * np.arange(1, points - len(values) + 1))])


def _shortest(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return str(int(value)) if value == int(value) else repr(float(value))


def _opening(path: str | Path) -> tuple[list[str], tuple[float, float]]:
    """The lines of a recording, the first three checked, and its targets."""
    try:
        text = gzip.decompress(Path(path).read_bytes()).decode()
    except (gzip.BadGzipFile, EOFError, UnicodeDecodeError, zlib.error):
        raise InputError(f"{path} is not a recording, or is damaged: it does not unpack", code="file.damaged") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", code="file.read") from None
    lines = io.StringIO(text, newline="").readlines()
    why = f"{path} is not a recording: expected {FORMAT!r}, the targets, and columns {','.join(COLUMNS)}"
    sound = len(lines) >= 3 and lines[0].strip() == FORMAT and lines[2].strip() == ",".join(COLUMNS)
    refuse_if(not sound, why, code="file.damaged")
    second = lines[1].strip()
    try:
        low, high = (float(word) for word in second.removeprefix("# targets ").split())
    except ValueError:
        raise InputError(f"{path}, line 2: {second!r}; expected '# targets LOW HIGH'", code="recording.row") from None
    why = f"{path}, line 2: targets {low:g} to {high:g}; expected 0 <= low <= high <= 1"
    refuse_if(not 0.0 <= low <= high <= 1.0, why, code="recording.targets")
    return lines, (low, high)


def _read_row(row: list[str], where: str) -> tuple[Floats, Floats]:
    why = f"{where}: {len(row)} cells; expected {len(COLUMNS)} ({', '.join(COLUMNS)})"
    refuse_if(len(row) != len(COLUMNS), why, code="recording.row")
    try:
        samples, errors = (np.array(cell.split(), dtype=float) for cell in row[4:])
    except ValueError:
        why = f"{where}: samples and errors must be numbers with spaces between them"
        raise InputError(why, code="recording.row") from None
    fault = table_fault(samples, errors, positive=True)
    refuse_if(fault, f"{where}: {fault}", code="recording.row")
    return samples, errors


@cache
def shipped() -> Recording:
    """The recording that comes with the package: `equipoise share record` made it."""
    return Recording.load(SHIPPED)


class Line(NamedTuple):
    """ln error = ln a - b ln samples through one curve, by least squares, and how well it fits."""

    log_a: float
    b: float
    r_squared: float
    noise: float  # variance of ln error around the line


def fit_lines(recording: Recording) -> list[Line]:
    """The power law nearest to every curve."""
    return [_line(*map(np.log, recording.points(k))) for k in range(len(recording))]


def _line(x: Floats, y: Floats) -> Line:
    middle_x, middle_y = x.mean(), y.mean()
    slope = float((x - middle_x) @ (y - middle_y) / ((x - middle_x) @ (x - middle_x)))
    rest = y - middle_y - slope * (x - middle_x)
    total = float((y - middle_y) @ (y - middle_y))
    explained = 1.0 - float(rest @ rest) / total if total > 0 else 0.0
    return Line(float(middle_y - slope * middle_x), -slope, explained, float(rest @ rest) / max(len(x) - 2, 1))


def fit_prior(recording: Recording) -> Prior:
    """Mean and covariance of (ln a, b) over the curves, and how far power-law estimates of them stray."""
    lines = fit_lines(recording)
    found = np.array([(line.log_a, line.b) for line in lines])
    spread = np.atleast_2d(np.cov(found.T, bias=True)) + 1e-6 * np.eye(2)  # curves may be all alike
    noise = float(np.mean([line.noise for line in lines]))
    mean = (float(found[:, 0].mean()), float(found[:, 1].mean()))
    prior = Prior(mean, (float(spread[0, 0]), float(spread[0, 1]), float(spread[1, 1])))
    return replace(prior, surprise=_surprise(recording, prior, max(noise, 1e-6)), curves=recording)


def _surprise(recording: Recording, prior: Prior, noise: float) -> float:
    """Mean, over curves and their targets, of how far ln work moves after the third observation (docs/share.md, 4).

    The largest move while the task is not done, squared, in the spread that the estimate had then.
    """
    rows = np.repeat(np.arange(len(recording)), TARGETS)
    targets = recording.target_at(rows, np.tile(np.linspace(*recording.targets, TARGETS), len(recording)))
    samples, errors = recording.samples[rows], recording.errors[rows]
    work = recording.work(rows, targets)
    seen = PACE * np.arange(1, STEPS + 1)
    observed = np.array([np.interp(np.log(seen), np.log(s), e) for s, e in zip(samples, errors, strict=True)])
    log_work, spread = _beliefs(np.log(seen), np.log(observed), np.log(targets), prior, noise)
    moved = (log_work - log_work[:, [EARLY - 1]]) / np.maximum(spread[:, [EARLY - 1]], SPREAD_LEAST)
    judged = (np.arange(1, STEPS + 1) >= JUDGED) & (seen < work[:, None])
    largest = np.minimum(np.where(judged, moved**2, 0.0).max(axis=1), MOVE_MOST)[judged.any(axis=1)]
    return float(largest.mean()) if len(largest) else 1.0


def _beliefs(x: Floats, y: Floats, goals: Floats, prior: Prior, noise: float) -> tuple[Floats, Floats]:
    """A Bayesian line through each row of y at x: mean and spread of ln work = (ln a - goal) / b after each point."""
    vaa, vab, vbb = prior.variance
    known = np.linalg.inv(np.array([[vaa, vab], [vab, vbb]]))
    start = known @ np.array(prior.mean)
    # Precision and its product with the mean grow by every point: the design is (1, -x), the same for all rows.
    n, sx, sxx = np.arange(1, len(x) + 1), np.cumsum(x), np.cumsum(x * x)
    precision = known[:, :, None] + np.array([[n, -sx], [-sx, sxx]]) / noise
    covariance = np.linalg.inv(np.moveaxis(precision, 2, 0))
    sums = np.stack([start[0] + y.cumsum(axis=1) / noise, start[1] - (x * y).cumsum(axis=1) / noise], axis=2)
    log_a, b = np.moveaxis(np.einsum("pij,rpj->rpi", covariance, sums), 2, 0)
    b = np.maximum(b, B_LEAST)
    log_work = (log_a - goals[:, None]) / b
    slope = np.stack([1.0 / b, -log_work / b], axis=2)  # of ln work by (ln a, b): the delta method
    spread = np.sqrt(np.einsum("rpi,pij,rpj->rp", slope, covariance, slope))
    return np.clip(log_work, 0.0, LOG_WORK_MOST), np.minimum(spread, SPREAD_MOST)


def recording_numbers(recording: Recording) -> dict[str, str]:
    """What a recording is like, in a few lines."""
    lines = fit_lines(recording)
    fits, slopes = np.array([line.r_squared for line in lines]), np.array([line.b for line in lines])
    return {
        "curves": f"{len(recording)}, {len({name[:3] for name in recording.names})} kinds",
        "median R² of a power law": f"{np.median(fits):.2f}",
        f"R² below {POOR_FIT:g}": f"{np.mean(fits < POOR_FIT):.0%} of the curves",
        "slope b": f"{slopes.min():.2f} to {slopes.max():.2f}, median {np.median(slopes):.2f}",
    }
