"""What arrives at the site: drawn from ranges, replayed from recorded curves, or given task by task."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equipoise._short import short_repr
from equipoise.document import Plain, Row
from equipoise.errors import InputError, refuse_words
from equipoise.frames import Frame
from equipoise.kernels import Floats, Ints, kernel
from equipoise.share.site import Site
from equipoise.share.task import Task, power_work, table_work
from equipoise.share.view import Prior

if TYPE_CHECKING:
    from equipoise.share.recording import Recording

Range = tuple[float, float]

DELAY_MOST = SPAN_MOST = 1e9  # steps, samples; more is a slip
SIGMA_MOST = 1e3
HORIZON_MOST = 100_000
SEED_MOST = 2**62
LOAD_MOST = 100_000
SEEDS_MOST = 10_000_000  # at once
PAPER_PRIOR = Prior(mean=(-0.0134, 0.3585), variance=(0.0135, 0.0, 0.00392))


@dataclass(frozen=True)
class Batch:
    """Tasks of many seeds as arrays, one row for each seed: what the loop knows and policies do not."""

    seeds: Ints
    arrival: Ints
    deadline: Ints
    data: Floats
    target: Floats
    sigma: Floats
    delay: Ints
    a: Floats
    b: Floats
    floor: Floats
    table: Ints  # the row of the recorded curve, or -1: a power law
    table_samples: Floats
    table_errors: Floats
    work: Floats
    horizon: int

    @property
    def shape(self) -> tuple[int, int]:
        return (self.arrival.shape[0], self.arrival.shape[1])

    def rows(self, start: int, stop: int) -> Batch:
        """Some of the seeds."""
        part = slice(start, stop)
        whole = ("table_samples", "table_errors", "horizon")
        return replace(self, **{f.name: getattr(self, f.name)[part] for f in fields(self) if f.name not in whole})


@dataclass(frozen=True)
class Workload:
    """Ranges from which tasks are drawn, uniformly. The draw depends on the seed and the load, never on the policy.

    Times are steps, data and work samples, errors fractions. `arrival` is floored; `deadline` is relative, rounded.
    """

    arrival: Range = (0.0, 36.0)
    data: Range = (14.0, 35.0)
    deadline: Range = (36.0, 46.0)
    a: Range = (0.8, 1.2)
    b: Range = (0.25, 0.467)
    target: Range = (0.147, 0.162)
    sigma: float = 0.005
    horizon: int = 0  # steps that are played; 0: until the last deadline there can be
    prior: Prior = PAPER_PRIOR
    curves: Recording | None = None  # replayed instead of power laws
    tasks: tuple[Task, ...] = ()  # given by hand instead of drawn

    def __repr__(self) -> str:
        return short_repr(self)

    def __post_init__(self) -> None:
        for name in ("arrival", "data", "deadline", "a", "b", "target"):
            _refuse_range(name, getattr(self, name))
        refuse_words("Workload", sigma=self.sigma)
        if not 0 <= self.sigma <= SIGMA_MOST:
            raise InputError(
                f"Workload: sigma is {self.sigma!r}; expected zero or more, at most {SIGMA_MOST:g}", code="number.range"
            )
        if self.horizon == 0 and isinstance(self.horizon, int):
            object.__setattr__(self, "horizon", self._whole_horizon)
        if not isinstance(self.horizon, int | np.integer) or not 1 <= self.horizon <= HORIZON_MOST:
            raise InputError(
                f"Workload: horizon is {self.horizon!r}; expected a whole number of steps, 1 to {HORIZON_MOST:,}",
                code="horizon.range",
            )
        if not isinstance(self.prior, Prior):
            raise InputError(f"Workload: prior is {self.prior!r}; expected a Prior", code="workload.prior")
        if self.a[0] <= 0:
            raise InputError(f"Workload: a starts at {self.a[0]:g}; expected a positive number", code="number.range")
        if self.tasks and self.curves is not None:
            raise InputError(
                "Workload: both tasks and curves; give each Task its own Curve.recorded(...) instead",
                code="workload.curves",
            )
        if round(self.deadline[0]) < 1:
            raise InputError(
                f"Workload: deadline starts at {self.deadline[0]:g} steps after arrival; expected 1 or more",
                code="workload.deadline",
            )

    @classmethod
    def paper(cls, **changes: Any) -> Workload:
        """The congested edge site of the paper (docs/share.md, 1)."""
        return cls(**changes)

    @classmethod
    def network_heavy(cls, **changes: Any) -> Workload:
        """Data so large that the uplink, not the servers, is the bottleneck."""
        preset: Row = {"data": (78.0, 144.0)}
        if not changes.keys() & {"arrival", "deadline"}:
            preset["horizon"] = 100
        return cls(**(preset | changes))

    @classmethod
    def of(cls, tasks: Sequence[Task], **changes: Any) -> Workload:
        """Exactly these tasks, whatever the seed; the seed still draws noise and delays left open."""
        if not tasks:
            raise InputError("Workload.of: no tasks; expected at least one", code="workload.empty")
        for task in tasks:
            if not isinstance(task, Task):
                raise InputError(
                    f"Workload: a task is {task!r}; expected a Task(arrival=, deadline=, data=, target=)",
                    code="workload.task",
                )
        preset: Row = {"tasks": tuple(tasks), "horizon": max(task.deadline for task in tasks) + 1}
        return cls(**(preset | changes))

    @classmethod
    def recorded(cls, curves: Recording | str | Path | None = None, **changes: Any) -> Workload:
        """Real learning curves, the shipped ones unless others are given; the prior comes from curves not replayed."""
        from equipoise.share.recording import Recording, recorded_workload

        if isinstance(curves, str | Path):
            curves = Recording.load(curves)
        return recorded_workload(cls, curves, **changes)

    @classmethod
    def from_frame(cls, frame: Frame, **changes: Any) -> Workload:
        """The tasks of a pandas frame, a row each: arrival, deadline, data, target; if wanted a, b, floor, delay, sigma."""
        from equipoise.share.task import tasks_from

        return cls.of(tasks_from(frame), **changes)

    def to_frame(self, load: int = 60, seeds: int | Iterable[int] = 1, site: Site | None = None) -> Frame:
        """A pandas frame with a row per task: those given by hand, or drawn at this load with these seeds."""
        from equipoise.frames import frame_of
        from equipoise.share.task import drawn_rows, rows_from

        if self.curves is not None:
            raise InputError(
                "Workload.to_frame: recorded curves are not columns; Recording.save keeps them", code="frame.curves"
            )
        return frame_of(rows_from(self.tasks) if self.tasks else drawn_rows(self.draw(load, seeds, site)))

    def as_dict(self) -> dict[str, object]:
        """Its ranges as plain values, and how many tasks or curves were given."""
        names = ("arrival", "data", "deadline", "a", "b", "target")
        found: dict[str, object] = {name: list(getattr(self, name)) for name in names}
        found |= {"sigma": self.sigma, "horizon": int(self.horizon)}
        return found | {"tasks": len(self.tasks), "recorded": self.curves is not None}

    @property
    def _whole_horizon(self) -> int:
        """Steps until the last deadline that can be drawn has passed."""
        return min(math.ceil(self.arrival[1]) + math.ceil(self.deadline[1]) + 1, HORIZON_MOST)

    def but(self, **changes: Any) -> Workload:
        """The same workload with some settings changed; a horizon that was not chosen follows the deadlines."""
        if self.horizon == self._whole_horizon:
            changes = {"horizon": 0} | changes
        return replace(self, **changes)

    def draw(self, load: int, seeds: int | Iterable[int], site: Site | None = None) -> Batch:
        """The tasks of every seed; `seeds` is a count or the seeds themselves. Tasks are numbered as they arrive."""
        numbers = seed_numbers(seeds)
        site = site or Site()
        if self.tasks:
            return self._given(numbers, site)
        load = _whole("a load", load)
        if load > LOAD_MOST:
            raise InputError(f"a load of {load:,} tasks; expected at most {LOAD_MOST:,}", code="load.range")
        if load < 1:
            raise InputError(f"a load of {load!r} tasks; expected at least one", code="load.range")
        return self._batch(numbers, self._drawn(int(load), numbers, site))

    def _drawn(self, load: int, numbers: Ints, site: Site) -> dict[str, Floats | Ints]:
        """Every seed has a generator of its own, so that what it draws depends on no other."""
        shape = (len(numbers), load)
        uniform, normal = np.empty((len(numbers), 6, load)), np.empty(shape)
        table, replayed = np.full(shape, -1), np.empty(shape)
        for row, seed in enumerate(numbers.tolist()):
            rng = np.random.default_rng([seed, load])
            rng.random(out=uniform[row])
            rng.standard_normal(out=normal[row])
            if self.curves is not None:
                table[row], replayed[row] = self.curves.draw(rng, load)
        ranges = (self.arrival, self.data, self.deadline, self.a, self.b, self.target)
        arrival, data, relative, a, b, target = (
            low + (high - low) * uniform[:, k] for k, (low, high) in enumerate(ranges)
        )
        come = np.sort(np.floor(arrival)).astype(np.int64)
        return {
            "arrival": come,
            "data": data,
            "deadline": come + np.round(relative).astype(np.int64),
            "a": a,
            "b": b,
            "target": target if self.curves is None else replayed,
            "table": table,
            "floor": np.zeros(shape),
            "delay": _delays(site, normal),
            "sigma": np.full(shape, self.sigma),
        }

    def _given(self, numbers: Ints, site: Site) -> Batch:
        n = len(self.tasks)
        delays = []
        for seed in numbers:
            drawn = _delays(site, np.random.default_rng([int(seed), n]).standard_normal(n))
            delays.append([int(d) if t.delay is None else t.delay for t, d in zip(self.tasks, drawn, strict=True)])
        tables = [k for k, task in enumerate(self.tasks) if task.curve.samples]
        points = max((len(self.tasks[k].curve.samples) for k in tables), default=2)
        samples, errors = np.ones((max(len(tables), 1), points)), np.ones((max(len(tables), 1), points))
        for row, k in enumerate(tables):
            curve = self.tasks[k].curve
            samples[row], errors[row] = curve.samples[-1], curve.errors[-1]
            samples[row, : len(curve.samples)], errors[row, : len(curve.errors)] = curve.samples, curve.errors
            samples[row, len(curve.samples) :] += np.arange(1, points - len(curve.samples) + 1)
        one: Row = {name: np.array([int(getattr(t, name)) for t in self.tasks]) for name in ("arrival", "deadline")}
        one |= {name: np.array([float(getattr(t, name)) for t in self.tasks]) for name in ("data", "target", "sigma")}
        one |= {name: np.array([float(getattr(t.curve, name)) for t in self.tasks]) for name in ("a", "b", "floor")}
        one["table"] = np.array([tables.index(k) if k in tables else -1 for k in range(n)])
        columns = {name: np.tile(values, (len(numbers), 1)) for name, values in one.items()}
        return self._batch(numbers, columns | {"delay": np.array(delays, dtype=np.int64)}, samples, errors)

    def _batch(self, numbers: Ints, columns: Row, samples: Floats | None = None, errors: Floats | None = None) -> Batch:
        if self.curves is not None:
            samples, errors = self.curves.samples, self.curves.errors
        samples = np.ones((1, 2)) if samples is None else samples
        errors = np.ones((1, 2)) if errors is None else errors
        a, b, floor, target, table = (columns[name] for name in ("a", "b", "floor", "target", "table"))
        truth = errors if self.curves is None else self.curves.levels
        work = _work(a, b, floor, target, table, samples, truth)
        return Batch(
            seeds=numbers, work=work, horizon=self.horizon, table_samples=samples, table_errors=errors, **columns
        )


def _delays(site: Site, normal: Floats) -> Ints:
    """Steps: the mean delay and its jitter, whole, never negative."""
    return np.clip(np.round(site.delay + site.jitter * normal), 0, DELAY_MOST).astype(np.int64)


@kernel
def _work(a: Floats, b: Floats, floor: Floats, target: Floats, table: Ints, samples: Floats, errors: Floats) -> Floats:
    """Samples that every task must compute."""
    work = np.empty(a.shape)
    for row in range(a.shape[0]):
        for i in range(a.shape[1]):
            k = table[row, i]
            if k >= 0:
                work[row, i] = table_work(samples[k], errors[k], target[row, i])
            else:
                work[row, i] = power_work(a[row, i], b[row, i], floor[row, i], target[row, i])
    return work


def seed_numbers(seeds: int | Iterable[int]) -> Ints:
    """A count means 0, 1, ... count - 1."""
    if not isinstance(seeds, Iterable):
        seeds = range(_whole("a count of seeds", seeds))
    if isinstance(seeds, range) and len(seeds) > SEEDS_MOST:
        raise InputError(f"{len(seeds):,} seeds; expected at most {SEEDS_MOST:,}", code="seeds.many")
    numbers = [_whole("a seed", seed) for seed in seeds]
    if not numbers:
        raise InputError("no seeds; expected a count of at least one, or some seeds", code="seeds.none")
    if min(numbers) < 0:
        raise InputError(f"seed {min(numbers)} is negative; expected zero or more", code="seed.range")
    if max(numbers) >= SEED_MOST:
        raise InputError(f"seed {max(numbers)} is too large; expected less than 2^62", code="seed.range")
    if len(set(numbers)) < len(numbers):
        raise InputError("a seed is named twice; every seed counts once", code="seed.twice")
    return np.array(numbers, dtype=np.int64)


def _whole(what: str, value: Plain) -> int:
    """Refuse what would be cut to a whole number."""
    try:
        whole = int(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} is {value!r}; expected a whole number", code="seed.whole") from None
    if whole != value:
        raise InputError(f"{what} is {value!r}; expected a whole number", code="seed.whole")
    return whole


def _refuse_range(name: str, bounds: Range) -> None:
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise InputError(f"Workload: {name} is {bounds!r}; expected two numbers, (low, high)", code="workload.pair")
    low, high = bounds
    refuse_words("Workload", **{name: low})
    refuse_words("Workload", **{name: high})
    if high > SPAN_MOST:
        raise InputError(f"Workload: {name} goes up to {high:g}; expected at most {SPAN_MOST:g}", code="workload.range")
    if not (math.isfinite(low) and math.isfinite(high)) or low < 0 or high < low:
        raise InputError(f"Workload: {name} is {low!r} to {high!r}; expected 0 <= low <= high", code="workload.pair")


# The published table (Hasan and Peña, "Robustness–Efficiency Trade-offs in Learning-Aware Distributed Scheduling",
# comparison at 60 tasks). It is one run: every success is a whole number of tasks out of 60.
PUBLISHED_LOAD = 60


class Published(NamedTuple):
    success: float  # percent of 60 tasks
    energy: float

    @property
    def efficiency(self) -> float:
        """Percent per unit of energy, as the table divides."""
        return self.success / self.energy


PUBLISHED_TABLE = {
    "Uniform": Published(50.0, 1852.0),
    "SDF": Published(48.3, 3080.0),
    "LARA": Published(30.0, 2485.0),
    "UARA": Published(46.7, 1940.0),
    "UARA+LARA": Published(33.3, 1101.0),
}
