"""What arrives at the site: drawn from ranges, replayed from recorded curves, or given task by task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from equipoise._short import short_repr
from equipoise.document import Plain, Row
from equipoise.errors import InputError, refuse_if, refuse_words, unknown_name
from equipoise.frames import Frame
from equipoise.kernels import Floats, Ints
from equipoise.share.site import Site
from equipoise.share.task import Task, least_work
from equipoise.share.view import Prior

if TYPE_CHECKING:
    from equipoise.share.recording import Recording

Range = tuple[float, float]
RANGES = ("arrival", "data", "deadline", "a", "b", "target")

DELAY_MOST = SPAN_MOST = 1e9  # steps, samples; more is a slip
SIGMA_MOST = 1e3
HORIZON_MOST = 100_000
SEED_MOST = 2**62
LOAD_MOST = 100_000
SEEDS_MOST = 10_000_000  # at once
DESCRIBED_PRIOR = Prior(mean=(-0.0134, 0.3585), variance=(0.0135, 0.0, 0.00392))
AUTHORS_PRIOR = Prior(mean=(0.1239, 0.45), variance=(0.0322, 0.0, 0.02083))
Draws = Literal["ranges", "authors"]
WORDS = 16  # of 32 bits that the authors' seven draws of a task take, on average 13
CELLS = 50_000  # seeds x tasks that are drawn at once


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
    speed: Floats  # own limits, samples per step; infinite: none
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
    speed: Range | None = None  # own limits of tasks, samples per step; None: none
    sigma: float = 0.005
    horizon: int = 0  # steps that are played; 0: until the last deadline there can be
    horizon_per_task: int = 0  # added to it for each task of the load
    prior: Prior = DESCRIBED_PRIOR
    site: Site = field(default_factory=Site)  # where it is played unless another is named
    draws: Draws = "ranges"  # "authors": their generator and its seven draws for each task; deadlines are floored
    curves: Recording | None = None  # replayed instead of power laws
    tasks: tuple[Task, ...] = ()  # given by hand instead of drawn

    def __repr__(self) -> str:
        return short_repr(self)

    def __post_init__(self) -> None:
        for name in (*RANGES, *(["speed"] if self.speed is not None else [])):
            _refuse_range(name, getattr(self, name))
        for name, (low, _) in {"speed": self.speed or (1.0, 1.0), "a": self.a}.items():
            refuse_if(low <= 0, f"Workload: {name} starts at {low:g}; expected a positive number", code="number.range")
        refuse_words("Workload", sigma=self.sigma)
        why = f"Workload: sigma is {self.sigma!r}; expected zero or more, at most {SIGMA_MOST:g}"
        refuse_if(not 0 <= self.sigma <= SIGMA_MOST, why, code="number.range")
        if self.horizon == 0 and isinstance(self.horizon, int):
            object.__setattr__(self, "horizon", self._whole_horizon)
        if not isinstance(self.horizon, int | np.integer) or not 1 <= self.horizon <= HORIZON_MOST:
            why = f"Workload: horizon is {self.horizon!r}; expected a whole number of steps, 1 to {HORIZON_MOST:,}"
            raise InputError(why, code="horizon.range")
        for name, kind in {"prior": Prior, "site": Site}.items():
            why = f"Workload: {name} is {getattr(self, name)!r}; expected a {kind.__name__}"
            refuse_if(not isinstance(getattr(self, name), kind), why, code=f"workload.{name}")
        why = "Workload: both tasks and curves; give each Task its own Curve.recorded(...) instead"
        refuse_if(self.tasks and self.curves is not None, why, code="workload.curves")
        if self.draws not in get_args(Draws):
            raise unknown_name("draws", str(self.draws), get_args(Draws))
        if self.draws == "authors" and self.curves is not None:
            raise InputError("Workload: curves with draws='authors', which draw power laws", code="workload.curves")
        why = f"Workload: horizon_per_task is {self.horizon_per_task!r}; expected a whole number of steps, 0 or more"
        refuse_if(not isinstance(self.horizon_per_task, int) or self.horizon_per_task < 0, why, code="horizon.range")
        why = f"Workload: deadline starts at {self.deadline[0]:g} steps after arrival; expected 1 or more"
        whole = math.floor if self.draws == "authors" else round
        refuse_if(whole(self.deadline[0]) < 1, why, code="workload.deadline")

    @classmethod
    def authors(cls, **changes: Any) -> Workload:
        """What the code of Hasan and Peña draws, on their site (docs/share.md, 1).

        A deadline here is the first step that is too late; theirs is the last in which a task may compute.
        """
        preset: Row = {"arrival": (0.0, 20.0), "data": (30.0, 100.0), "deadline": (21.0, 51.0), "a": (0.8, 1.5)}
        preset |= {"b": (0.2, 0.7), "target": (0.12, 0.22), "speed": (20.0, 50.0), "sigma": 0.02}
        preset |= {"horizon": 60, "horizon_per_task": 2, "prior": AUTHORS_PRIOR, "site": Site.authors()}
        return cls(**(preset | {"draws": "authors"} | changes))

    @classmethod
    def described(cls, **changes: Any) -> Workload:
        """A congested edge site made from the text of Hasan and Peña before their code was known (docs/share.md, 1)."""
        return cls(**changes)

    paper = described  # its name in 0.1.0

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
        refuse_if(not tasks, "Workload.of: no tasks; expected at least one", code="workload.empty")
        for task in tasks:
            why = f"Workload: a task is {task!r}; expected a Task(arrival=, deadline=, data=, target=)"
            refuse_if(not isinstance(task, Task), why, code="workload.task")
        preset: Row = {"tasks": tuple(tasks), "horizon": max(task.deadline for task in tasks) + 1}
        return cls(**(preset | changes))

    @classmethod
    def recorded(cls, curves: Recording | str | Path | None = None, **changes: Any) -> Workload:
        """Real learning curves, the shipped ones unless others are given: half are replayed, the prior is of the others."""
        from equipoise.share.recording import Recording, fit_prior, shipped

        if isinstance(curves, str | Path):
            curves = Recording.load(curves)
        fitting, replayed = (shipped() if curves is None else curves).split()
        preset: Row = {"curves": replayed, "sigma": 0.0, "prior": fit_prior(fitting)}  # a real curve has its own noise
        return cls(**(preset | changes))

    @classmethod
    def from_frame(cls, frame: Frame, **changes: Any) -> Workload:
        """The tasks of a pandas frame, a row each: arrival, deadline, data, target; if wanted a, b, floor, delay, sigma."""
        from equipoise.share.task import tasks_from

        return cls.of(tasks_from(frame), **changes)

    def to_frame(self, load: int = 60, seeds: int | Iterable[int] = 1, site: Site | None = None) -> Frame:
        """A pandas frame with a row per task: those given by hand, or drawn at this load with these seeds."""
        from equipoise.frames import frame_of
        from equipoise.share.task import drawn_rows, rows_from

        why = "Workload.to_frame: recorded curves are not columns; Recording.save keeps them"
        refuse_if(self.curves is not None, why, code="frame.curves")
        return frame_of(rows_from(self.tasks) if self.tasks else drawn_rows(self.draw(load, seeds, site)))

    def as_dict(self) -> dict[str, object]:
        """Its ranges as plain values, and how many tasks or curves were given."""
        found: dict[str, object] = {name: list(getattr(self, name)) for name in RANGES}
        if self.speed is not None:
            found["speed"] = list(self.speed)
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
        site = site or self.site
        if self.tasks:
            return self._given(numbers, site)
        load = _whole("a load", load)
        refuse_if(load > LOAD_MOST, f"a load of {load:,} tasks; expected at most {LOAD_MOST:,}", code="load.range")
        refuse_if(load < 1, f"a load of {load!r} tasks; expected at least one", code="load.range")
        if self.draws == "authors":
            size = max(1, CELLS // int(load))
            words = (partial(_first_words, numbers[at : at + size]) for at in range(0, len(numbers), size))
            seven = np.concatenate([_next_tasks(words_of, int(load), self._seven)[0] for words_of in words], axis=1)
            return self._batch(numbers, self._by_authors(seven, numbers, site))
        return self._batch(numbers, self._drawn(int(load), numbers, site))

    def draw_from(self, generator: RandomState, load: int) -> Batch:
        """The tasks that the authors' code would draw next from this generator, which moves on by these draws."""
        state, numbers = generator.get_state(), np.zeros(1, np.int64)

        def words_of(count: int) -> NDArray[np.uint32]:
            generator.set_state(state)
            return generator.randint(0, 2**32, (1, count), dtype=np.uint32)

        found, used = _next_tasks(words_of, load, self._seven)
        words_of(used[0])
        return self._batch(numbers, self._by_authors(found, numbers, self.site))

    @property
    def _seven(self) -> Floats:
        """The ranges of the authors' seven draws for a task, in their order."""
        return np.array([self.arrival, self.a, self.b, self.deadline, self.target, self.speed or (1.0, 1.0), self.data])

    def _by_authors(self, found: Floats, numbers: Ints, site: Site) -> Row:
        """What was drawn [draw, seed, task] as columns; tasks keep the order of their numbers."""
        arrival, a, b, slack, target, speed, data = found
        normal = np.zeros(a.shape)
        if site.jitter > 0.0:
            normal[:] = [np.random.default_rng([s, a.shape[1]]).standard_normal(a.shape[1]) for s in numbers.tolist()]
        drawn: Row = {"arrival": arrival.astype(np.int64), "deadline": (arrival + slack).astype(np.int64), "data": data}
        drawn |= {"a": a, "b": b, "target": target, "delay": _delays(site, normal)}
        return drawn | ({"speed": speed} if self.speed else {})

    def _drawn(self, load: int, numbers: Ints, site: Site) -> Row:
        """Every seed has a generator of its own, so that what it draws depends on no other."""
        shape = (len(numbers), load)
        uniform, normal = np.empty((len(numbers), 6, load)), np.empty(shape)
        table, replayed, speed = np.full(shape, -1), np.empty(shape), np.full(shape, np.inf)
        for row, seed in enumerate(numbers.tolist()):
            rng = np.random.default_rng([seed, load])
            rng.random(out=uniform[row])
            rng.standard_normal(out=normal[row])
            if self.curves is not None:
                table[row], replayed[row] = self.curves.draw(rng, load)
            if self.speed is not None:
                speed[row] = rng.uniform(*self.speed, load)
        ranges = enumerate(getattr(self, name) for name in RANGES)
        arrival, data, relative, a, b, target = (low + (high - low) * uniform[:, k] for k, (low, high) in ranges)
        come = np.sort(np.floor(arrival)).astype(np.int64)
        drawn: Row = {"arrival": come, "deadline": come + np.round(relative).astype(np.int64), "data": data}
        drawn |= {"target": target if self.curves is None else replayed, "delay": _delays(site, normal)}
        return drawn | {"a": a, "b": b, "table": table, "speed": speed}

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
        one["speed"] = np.array([np.inf if t.speed is None else float(t.speed) for t in self.tasks])
        one["table"] = np.array([tables.index(k) if k in tables else -1 for k in range(n)])
        columns = {name: np.tile(values, (len(numbers), 1)) for name, values in one.items()}
        return self._batch(numbers, columns | {"delay": np.array(delays, dtype=np.int64)}, samples, errors)

    def _batch(self, numbers: Ints, columns: Row, samples: Floats | None = None, errors: Floats | None = None) -> Batch:
        if self.curves is not None:
            samples, errors = self.curves.samples, self.curves.errors
        samples = np.ones((1, 2)) if samples is None else samples
        errors = np.ones((1, 2)) if errors is None else errors
        shape = columns["a"].shape
        usual = {"table": np.full(shape, -1), "floor": np.zeros(shape), "sigma": np.full(shape, self.sigma)}
        columns = usual | {"speed": np.full(shape, np.inf)} | columns
        a, b, floor, target, table = (columns[name] for name in ("a", "b", "floor", "target", "table"))
        truth = errors if self.curves is None else self.curves.levels
        work = work_of_curves(a, b, floor, target, table, samples, truth)
        horizon = min(self.horizon + self.horizon_per_task * shape[1], HORIZON_MOST)
        return Batch(seeds=numbers, work=work, horizon=horizon, table_samples=samples, table_errors=errors, **columns)


def _delays(site: Site, normal: Floats) -> Ints:
    """Steps: the mean delay and its jitter, whole, never negative."""
    return np.clip(np.round(site.delay + site.jitter * normal), 0, DELAY_MOST).astype(np.int64)


def _first_words(seeds: Ints, count: int) -> NDArray[np.uint32]:
    """The first words of 32 bits of NumPy's legacy generator (MT19937), as the authors use it, with each seed."""
    generator, words = RandomState(0), np.empty((len(seeds), count), np.uint32)
    for row, seed in enumerate(seeds.tolist()):
        generator.seed(seed if seed < 2**32 else [seed % 2**32, seed // 2**32])
        words[row] = generator.randint(0, 2**32, count, dtype=np.uint32)
    return words


def _next_tasks(
    words_of: Callable[[int], NDArray[np.uint32]], load: int, ranges: Floats, words_each: int = WORDS
) -> tuple[Floats, Ints]:
    """The authors' next seven draws for each task [draw, seed, task], and how many words of 32 bits each seed takes.

    As `randint` (draws 0 and 3) and `uniform` of the legacy generator make them of the words [seed, word] of each: whole
    numbers of the lowest bits of a word, again until they are in range; others of 53 bits of two words.
    """
    lows, count = np.floor(ranges[[0, 3], 0]), words_each * load + 100
    spans = np.maximum(np.floor(ranges[[0, 3], 1]) - lows - 1.0, 0.0).astype(int).tolist()
    masks, takes = [2 ** span.bit_length() - 1 for span in spans], np.minimum(spans, 1)  # one alone takes no word
    words = words_of(count).ravel()
    begin, every = np.arange(0, words.size, count), np.arange(words.size)
    # Where the next word in range is, from each word on. One in the row of another seed shows that there were too few.
    fits = [np.where((words & mask) <= span, every, words.size) for mask, span in zip(masks, spans, strict=True)]
    fits = [np.minimum.accumulate(fit[::-1])[::-1].copy() for fit in fits]
    at, found = begin, np.empty((2, len(begin), load), np.int64)
    for i in range(load):
        for k, others in ((0, 4), (1, 6)):
            found[k, :, i] = fits[k].take(at, mode="clip")
            at = found[k, :, i] + (takes[k] + others)
    if (at - begin).max() > count:
        return _next_tasks(words_of, load, ranges, 2 * words_each)
    arrival, slack = (low + (words[at] & mask) for low, at, mask in zip(lows, found, masks, strict=True))
    pairs = [found[k] + takes[k] + after for k, after in ((0, 0), (0, 2), (1, 0), (1, 2), (1, 4))]
    parts = [((words[at] >> 5) * 67108864.0 + (words[at + 1] >> 6)) / 9007199254740992.0 for at in pairs]
    real = [low + (high - low) * part for (low, high), part in zip(ranges[[1, 2, 4, 5, 6]], parts, strict=True)]
    return np.array([arrival, *real[:2], slack, *real[2:]]), at - begin


def work_of_curves(
    a: Floats, b: Floats, floor: Floats, target: Floats, table: Ints, samples: Floats, errors: Floats
) -> Floats:
    """Samples that every task must compute."""
    work, nobody = np.full(a.size, np.inf), np.zeros(a.size, np.uint64)
    laws = np.array([a, b, floor, target, np.zeros(a.shape), np.full(a.shape, np.inf)]).reshape(6, -1)  # without noise
    least_work(nobody, np.ones(a.size, np.int64), laws, table.ravel(), samples, errors, work)
    return work.reshape(a.shape)


def seed_numbers(seeds: int | Iterable[int]) -> Ints:
    """A count means 0, 1, ... count - 1."""
    if not isinstance(seeds, Iterable):
        seeds = range(_whole("a count of seeds", seeds))
    if isinstance(seeds, range) and len(seeds) > SEEDS_MOST:
        raise InputError(f"{len(seeds):,} seeds; expected at most {SEEDS_MOST:,}", code="seeds.many")
    numbers = [_whole("a seed", seed) for seed in seeds]
    refuse_if(not numbers, "no seeds; expected a count of at least one, or some seeds", code="seeds.none")
    refuse_if(min(numbers) < 0, f"seed {min(numbers)} is negative; expected zero or more", code="seed.range")
    if max(numbers) >= SEED_MOST:
        raise InputError(f"seed {max(numbers)} is too large; expected less than 2^62", code="seed.range")
    refuse_if(len(set(numbers)) < len(numbers), "a seed is named twice; every seed counts once", code="seed.twice")
    return np.array(numbers, dtype=np.int64)


def _whole(what: str, value: Plain) -> int:
    """Refuse what would be cut to a whole number."""
    try:
        whole = int(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} is {value!r}; expected a whole number", code="seed.whole") from None
    refuse_if(whole != value, f"{what} is {value!r}; expected a whole number", code="seed.whole")
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
