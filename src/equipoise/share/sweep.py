"""Policies x loads x seeds: everyone meets the same tasks, so that differences are paired and have standard errors."""

import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from equipoise.certificate import Certificate
from equipoise.document import Document, Row, look_of
from equipoise.errors import InputError, refuse_if
from equipoise.kernels import Floats, Ints
from equipoise.parallel import THREADS, parts
from equipoise.result import Result
from equipoise.share.audit import AUDITED, recompute
from equipoise.share.oracle import bounds_of
from equipoise.share.published import PUBLISHED_LOAD, PUBLISHED_TABLE
from equipoise.share.simulate import Run, life_rows, play, site_rows, telling_task
from equipoise.share.site import Site
from equipoise.share.view import Policy, is_frugal, name_of
from equipoise.share.workload import Workload, seed_numbers
from equipoise.spec import Spec
from equipoise.statistics import Paired, difference, mean_and_error, ratio_and_error

CELLS = 24_000  # seeds x tasks in one batch: its arrays stay in the cache
BOUNDED = 20  # seeds whose bounds are one part of the work
BASELINE = "Uniform"  # the robust policy
AVERAGED = ("network", "idle_while_work", "unplaced", "moves", "switches")  # a row holds the mean without an error
MEASURES = ("successes", "success", "energy", "latency", *AVERAGED)
Progress = Callable[[int, int], None]  # steps of work done, and in all


class Timeline(NamedTuple):
    """Whose life a page shows; None: at the largest load, with the first seed, the task on which policies differ most."""

    load: int | None = None
    seed: int | None = None
    task: int | None = None


@dataclass(frozen=True)
class Sweep(Result):
    """What every policy did at every load with every seed."""

    names: tuple[str, ...]
    loads: tuple[int, ...]
    seeds: Ints
    site: Site
    workload: Workload
    measured: dict[tuple[str, int], dict[str, Floats]]  # (policy, load) -> measure -> a value per seed
    bounds: dict[int, Floats]  # load -> tasks that the oracle could finish, nan for seeds it was not asked about
    policies: tuple[Policy, ...] = field(default=(), compare=False, repr=False)
    timeline: Timeline = field(default=Timeline(), compare=False, repr=False)
    spec: Spec | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        loads = f"{min(self.loads)} to {max(self.loads)}" if len(self.loads) > 1 else f"{self.loads[0]}"
        return f"<Sweep: {len(self.names)} policies, {loads} tasks, {len(self.seeds)} seeds>"

    @property
    def rows(self) -> list[Row]:
        """One plain dict per policy and load."""
        return [self._row(name, load) for load in self.loads for name in self.names]

    def _row(self, name: str, load: int) -> Row:
        cell = self.measured[name, load]
        row: Row = {"policy": name, "load": load, "seeds": len(self.seeds)}
        for measure in ("success", "energy", "efficiency", "latency"):
            ratio = measure == "efficiency"
            mean, error = ratio_and_error(cell["success"], cell["energy"]) if ratio else mean_and_error(cell[measure])
            row |= {measure: mean, f"{measure}_se": error}
        row |= {measure: float(cell[measure].mean()) for measure in AVERAGED}
        row["oracle"], row["of_oracle"] = self._against_oracle(cell, load)
        return row

    def _against_oracle(self, cell: dict[str, Floats], load: int) -> tuple[float | None, float | None]:
        """The bound as percent of tasks, and the share of it that was reached on the same seeds."""
        bound = self.bounds[load]
        asked = np.isfinite(bound)
        if not asked.any():
            return None, None
        best = float(bound[asked].sum())
        return 100.0 * best / (int(asked.sum()) * load), float(cell["successes"][asked].sum()) / best if best else None

    @property
    def seed_rows(self) -> list[Row]:
        """One plain dict per policy, load and seed: the raw numbers behind every mean."""
        return [row for load, name in product(self.loads, self.names) for row in self._seed_rows(name, load)]

    def _seed_rows(self, name: str, load: int) -> Iterator[Row]:
        cell, heads = self.measured[name, load], ("policy", "load", "seed", *MEASURES, "oracle")
        columns = [map(_plain, values.tolist()) for values in (*(cell[m] for m in MEASURES), self.bounds[load])]
        for values in zip(self.seeds.tolist(), *columns, strict=True):
            yield dict(zip(heads, (name, load, *values), strict=True))

    @property
    def baseline(self) -> str:
        """The policy that others are compared with: Uniform where it takes part, else the first."""
        return BASELINE if BASELINE in self.names else self.names[0]

    @property
    def differences(self) -> list[Paired]:
        """How much better every policy is than the baseline, in success and in efficiency."""
        others = [name for name in self.names if name != self.baseline]
        pairs = product(others, ("success", "efficiency"))
        return [gap for name, measure in pairs for gap in self.paired(name, self.baseline, measure)]

    @cached_property
    def _lives(self) -> dict[str, Run]:
        """A traced run of the timeline's seed for each policy."""
        load = self.timeline.load or max(self.loads)
        seed = int(self.seeds[0]) if self.timeline.seed is None else self.timeline.seed
        batch = self.workload.draw(load, [seed], self.site)
        prior = self.workload.prior
        return {name_of(policy): play(policy, batch, self.site, prior, trace=True) for policy in self.policies}

    def document(self, *, certify: bool = True) -> Document:
        """Plain values: means with their errors, differences from the baseline, every seed, and the lives of some tasks."""
        result: dict[str, object] = {"rows": self.rows, "baseline": self.baseline}
        result["paired"] = [asdict(gap) for gap in self.differences]
        if published := self._published():
            result["published"] = published
        tables: dict[str, list[Row]] = {"history": self.seed_rows}
        if self.policies:
            lives = self._lives
            runs = list(lives.values())
            task = telling_task(lives) if self.timeline.task is None else self.timeline.task
            seeds, load = runs[0].batch.seeds, runs[0].batch.shape[1]
            result["timeline"] = {"load": load, "seed": int(seeds[0]), "task": task}
            tables |= {"lives": life_rows(runs, task), "site": site_rows(runs)}
        certificate = self.certificate() if certify and self.policies else None
        looks = {name_of(policy): look_of(policy) for policy in self.policies}
        return Document("share", result, certificate, self.settings() or self._given(), tables, looks=looks)

    def _published(self) -> list[Row]:
        """The numbers that the paper printed, of policies here, where its workload is played on its site at its load."""
        authors = Workload.authors()
        same = self.workload.but(prior=authors.prior) == authors and self.site == authors.site
        if not same or PUBLISHED_LOAD not in self.loads:
            return []
        here = {name: paper for name, paper in PUBLISHED_TABLE.items() if name in self.names}
        return [{"policy": name, "load": PUBLISHED_LOAD, **paper._asdict()} for name, paper in here.items()]

    def _given(self) -> dict[str, object]:
        """The settings of a sweep that no spec made."""
        given = {"policies": list(self.names), "loads": list(self.loads), "seeds": self.seeds.tolist()}
        return given | {"site": asdict(self.site), "workload": self.workload.as_dict()}

    def certificate(self) -> Certificate:
        """Recomputed from traced runs of the first seeds of every policy and load, and from the oracle's bounds."""
        return self._certificate

    @cached_property
    def _certificate(self) -> Certificate:
        return certify(self, self.policies)

    def paired(self, one: str, other: str, measure: str = "success") -> list[Paired]:
        """How much better `one` is than `other` on the same seeds, load by load, with its standard error.

        Parameters
        ----------
        one, other
            Names of policies.
        measure
            Any of the columns; "efficiency" is the difference of the ratios of means.
        """
        for name in (one, other):
            if name not in self.names:
                raise InputError(f"no policy {name!r} in this sweep; it has {', '.join(self.names)}", code="unknown")
        if measure not in (*MEASURES, "efficiency"):
            raise InputError(f"no measure {measure!r}; there are {', '.join(MEASURES)} and efficiency", code="unknown")
        found = self.measured
        return [difference(one, other, measure, load, found[one, load], found[other, load]) for load in self.loads]

    def gap(self, one: str, other: str, measure: str, load: int) -> Paired:
        """`paired` at one load."""
        return next(gap for gap in self.paired(one, other, measure) if gap.load == load)

    def table(self) -> str:
        """A plain table, one line for each policy and load; standard errors after ±."""
        heads = ("load", "policy", "success %", "energy", "efficiency", "latency", "network %", "idle %", "oracle %")
        rows = [heads, *map(_cells, self.rows)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(f"{t:{'<' if k == 1 else '>'}{widths[k]}}" for k, t in enumerate(row)) for row in rows]
        return "\n".join(line.rstrip() for line in (lines[0], "-" * len(lines[0]), *lines[1:]))


def _cells(row: Row) -> tuple[str, ...]:
    def with_error(name: str, digits: int) -> str:
        if row[name] is None:
            return "-"
        error = row[name + "_se"]
        return f"{row[name]:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")

    told = (with_error("success", 1), f"{row['energy']:.0f}", with_error("efficiency", 4), with_error("latency", 1))
    oracle = "-" if row["oracle"] is None else f"{row['oracle']:.1f}"
    return str(row["load"]), row["policy"], *told, f"{row['network']:.1f}", f"{row['idle_while_work']:.1f}", oracle


def _plain(value: float) -> float | int | None:
    """A number as JSON and CSV have it; nothing for nan."""
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() else value


def certify(result: Sweep, policies: Sequence[Policy]) -> Certificate:
    """Play the first seeds of every policy and load again, traced, and have the audit recompute what was reported."""
    frugal = [name_of(policy) for policy in policies if is_frugal(policy)]
    seeds, site, prior = result.seeds[:AUDITED].tolist(), result.site, result.workload.prior
    batches = (result.workload.draw(load, seeds, site) for load in result.loads)
    # One traced run at a time: traces are large.
    runs = (play(policy, batch, site, prior, trace=True) for batch in batches for policy in policies)
    return recompute(runs, result.measured, result.bounds, frugal)


def sweep(
    policies: Policy | Sequence[Policy],
    workload: Workload | None = None,
    *,
    loads: int | Sequence[int] = (10, 20, 30, 40, 50, 60),
    seeds: int | Iterable[int] = 200,
    site: Site | None = None,
    oracle: bool | int = False,
    progress: Progress | None = None,
    workers: int | None = None,
) -> Sweep:
    """Play every policy at every load with every seed, on all cores, or where joblib's active backend runs.

    The same numbers come out wherever it runs.

    Parameters
    ----------
    policies
        One policy or several, no two of one name.
    workload
        What arrives; the authors' preset if None.
    loads
        Numbers of tasks.
    seeds
        A count, or the seeds themselves.
    site
        The servers and the uplink; the workload's own if None.
    oracle
        Whether to compute the bound that no policy can beat: for all seeds (True), or for the first so many.
    progress
        Called with parts done and parts in all.
    workers
        Parts that run at once; all cores if None.
    """
    workload = workload or Workload.authors()
    site = site or workload.site
    players = list(policies) if isinstance(policies, Iterable) else [policies]
    refuse_if(not players, "no policies to compare; expected at least one", code="policies.none")
    chosen, names = seed_numbers(seeds), tuple(map(name_of, players))
    refuse_equal_names(names)
    why = f"oracle is {oracle!r} and workers {workers!r}; expected 0 seeds or more, and 1 worker or more"
    refuse_if(oracle < 0 or (workers is not None and workers < 1), why, code="sweep.range")
    loads = (len(workload.tasks),) if workload.tasks else _loads(loads)
    asked = len(chosen) if oracle is True else min(int(oracle), len(chosen))
    calls: list[tuple[bool, int, slice]] = []  # a bound or not, load, seeds
    for load in sorted(loads, reverse=True):  # the long ones first
        for bounding, many, size in ((True, asked, BOUNDED), (False, len(chosen), max(1, CELLS // load))):
            calls += [(bounding, load, slice(at, min(at + size, many))) for at in range(0, many, size)]
    measured = {(n, load): {m: np.full(len(chosen), np.nan) for m in MEASURES} for n in names for load in loads}
    bounds = {load: np.full(len(chosen), np.nan) for load in loads}
    shared = (players, workload, site, chosen)
    for done, (number, found) in enumerate(parts(_part, shared, calls, workers=workers, prefer=THREADS), start=1):
        bounding, load, some = calls[number]
        if bounding:
            bounds[load][some] = found
        else:
            for name, values in zip(names, found, strict=True):
                for measure in MEASURES:
                    measured[name, load][measure][some] = values[measure]
        if progress is not None:
            progress(done, len(calls))
    return Sweep(names, tuple(loads), chosen, site, workload, measured, bounds, tuple(players))


def _part(
    players: Sequence[Policy], workload: Workload, site: Site, seeds: Ints, bounding: bool, load: int, some: slice
) -> Floats | list[dict[str, Floats]]:
    """The oracle's bounds, or every policy's measures, of some seeds. Kernels and the LP hold no lock."""
    batch = workload.draw(load, seeds[some].tolist(), site)
    if bounding:
        return bounds_of(batch, site)
    runs = (play(policy, batch, site, workload.prior) for policy in players)
    return [{measure: np.asarray(getattr(run, measure), dtype=float) for measure in MEASURES} for run in runs]


def refuse_equal_names(names: Sequence[str]) -> None:
    """Tables and charts tell policies apart by their names."""
    for name in names:
        why = f"two policies are called {name!r}; give one of them another `label`, or ours a `called=...`"
        refuse_if(names.count(name) > 1, why, code="policies.twice")


def _loads(loads: int | Sequence[int]) -> tuple[int, ...]:
    given = list(loads) if isinstance(loads, Iterable) else [loads]
    if not given or not all(isinstance(load, numbers.Real) and load >= 1 and load == int(load) for load in given):
        raise InputError(f"loads {given!r}; expected whole numbers of tasks, each at least 1", code="loads.range")
    return tuple(dict.fromkeys(int(load) for load in given))
