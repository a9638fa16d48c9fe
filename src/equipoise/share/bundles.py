"""Time sharing as a study: tasks with real curves hold one resource in turn. Who finishes most, and who switches most?

The protocol is that of CoRE learning (Wang, Liu and Zhou, AAAI 2026) with recorded curves: docs/share.md, 8.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from equipoise.certificate import Certificate
from equipoise.document import Document, Row, look_of
from equipoise.errors import refuse_if, said_of
from equipoise.kernels import Floats, Ints
from equipoise.result import Result
from equipoise.share import policies as shelf
from equipoise.share.recording import Recording, shipped
from equipoise.share.site import Server, Site
from equipoise.share.spec import TIME_SHARING
from equipoise.share.sweep import Progress, Sweep, sweep
from equipoise.share.view import Policy, Prior, is_blind, name_of
from equipoise.share.workload import Batch, Workload, seed_numbers
from equipoise.spec import Spec
from equipoise.statistics import mean_and_error

SPEED = 30.0  # samples of the engine in one unit of the whole resource, whatever the task
FALL = 1.6  # of a curve: its first level over its last, at least
DATA = (2.0, 10.0)  # that a task learns in one unit of the whole resource
EARLIEST = 1 / 6  # of all units: the earliest deadline
PART = (0.1, 0.6)  # of what it could learn alone by its deadline, a task must learn this much
HARD, LOWER = 0.3, (0.5, 0.8)  # so many tasks must reach this part of the level there instead
VAGUE = Prior(mean=(0.0, 0.3), variance=(1.0, 0.0, 0.05))  # policies are told next to nothing of the curves
LEAD = 3  # LaiRA finished 6 tasks and LARA 3 of the paper's one mixed bundle
OURS, THEIRS = "LaiRA", "LARA, reconstructed"  # whom the verdict compares


@dataclass(frozen=True, repr=False)
class BundleWorkload(Workload):
    """Every task is there from the start, with a recorded curve, a speed, a deadline and a target drawn for it."""

    def draw(self, load: int, seeds: int | Iterable[int], site: Site | None = None) -> Batch:
        """The bundle of every seed; it depends on the seed, the number of tasks and the units alone."""
        assert self.curves is not None
        curves, numbers = self.curves, seed_numbers(seeds)
        drawn = [self._bundle(np.random.default_rng([seed, load, self.horizon]), load) for seed in numbers.tolist()]
        row, data, due, part, lower = (np.array(column) for column in zip(*drawn, strict=True))
        shape, flat, scale = row.shape, row.reshape(-1), SPEED / data
        target = lower * curves.level_at(flat, (data * due * part).reshape(-1)).reshape(shape)
        work = scale * curves.work(flat, target.reshape(-1)).reshape(shape)
        columns: Row = dict.fromkeys(("data", "sigma", "b", "floor"), np.zeros(shape))
        columns |= dict.fromkeys(("arrival", "delay"), np.zeros(shape, np.int64))
        columns |= {"a": np.ones(shape), "speed": np.full(shape, np.inf), "table": np.arange(flat.size).reshape(shape)}
        columns |= {"table_samples": scale.reshape(-1, 1) * curves.samples[flat], "table_errors": curves.errors[flat]}
        return Batch(seeds=numbers, deadline=due, target=target, work=work, horizon=self.horizon, **columns)

    def _bundle(self, rng: np.random.Generator, load: int) -> tuple[Ints | Floats, ...]:
        """Curve, data per unit, deadline, part of the work that fits, and factor of the level, of every task."""
        there = len(self.curves or ())
        return (
            rng.choice(there, load, replace=there < load),
            rng.uniform(*DATA, load),
            rng.integers(max(1, round(EARLIEST * self.horizon)), self.horizon + 1, load),
            rng.uniform(*PART, load),
            np.where(rng.random(load) < HARD, rng.uniform(*LOWER, load), 1.0),
        )


def falling(curves: Recording | str | Path | None = None) -> Recording:
    """The curves that bundles are drawn from: those that fall enough, of a recording or of the shipped one."""
    with said_of("curves"):
        found = shipped() if curves is None else curves if isinstance(curves, Recording) else Recording.load(curves)
        rows = np.flatnonzero(found.levels[:, 0] >= FALL * found.levels[:, -1])
        why = f"none of {len(found)} curves falls by a factor of {FALL:g} from its first level to its last"
        refuse_if(not len(rows), why, code="curves.none")
        return found.take(rows)


@dataclass(frozen=True)
class Bundles(Result):
    """What every policy did with every bundle."""

    played: Sweep
    spec: Spec | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        return f"<Bundles: {len(self.played.names)} policies, {len(self.played.seeds)} bundles>"

    @cached_property
    def rows(self) -> list[Row]:
        """Policy by policy: tasks finished, switches, and the difference from the best policy that is blind to losses."""
        return [self._row(name, load) for load in self.played.loads for name in self.played.names]

    def _row(self, name: str, load: int) -> Row:
        cell, best = self.played.measured[name, load], self.simple(load)
        mean, error = mean_and_error(cell["successes"])
        gap = self.played.gap(name, best, "successes", load) if best and best != name else None
        row: Row = {"policy": name, "load": load, "bundles": len(self.played.seeds), "successes": mean}
        row |= {"successes_se": error, "switches": float(cell["switches"].mean()), "against": best}
        apart, apart_se = (gap.difference, gap.standard_error) if gap else (None, None)
        return row | {"difference": apart, "difference_se": apart_se}

    def simple(self, load: int) -> str | None:
        """The best of the policies that never look at losses."""
        names = [name_of(policy) for policy in self.played.policies if is_blind(policy)]
        return max(names, key=lambda name: self.played.measured[name, load]["successes"].mean(), default=None)

    @cached_property
    def verdict(self) -> list[str]:
        """Whether LaiRA leads as its paper says, in sentences made from the numbers; nothing unless both took part."""
        if not {OURS, THEIRS} <= set(self.played.names):
            return []
        return [sentence for load in self.played.loads for sentence in self._judged(load)]

    def _judged(self, load: int) -> list[str]:
        ours, theirs = (self.played.measured[name, load] for name in (OURS, THEIRS))
        gap, lead = self.played.gap(OURS, THEIRS, "successes", load), ours["successes"] - theirs["successes"]
        error = gap.standard_error
        sure = error is not None and abs(gap.difference) > 2.0 * error
        word = ("ahead of" if gap.difference > 0 else "behind") if sure else "not apart from"
        told = "" if error is None else f" ± {error:.2f}"
        many, switches = len(lead), [float(cell["switches"].mean()) for cell in (ours, theirs)]
        return [
            f"{OURS} less {THEIRS}: {gap.difference:+.2f}{told} of {load} tasks, over {many} bundles; it is {word} it.",
            f"A single bundle shows {OURS} ahead by {LEAD} or more, as in its paper, in {(lead >= LEAD).sum()} of {many},"
            f" and behind by {LEAD} or more in {(lead <= -LEAD).sum()}; the lead scatters by {lead.std():.1f} (one sd).",
            f"{OURS} switches {switches[0]:.0f} times, {THEIRS} {switches[1]:.0f}:"
            f" {switches[1] / max(switches[0], 1e-9):.0f} times as often.",
        ]

    def certificate(self) -> Certificate:
        """That of the sweep behind it: the first bundles are played again and recomputed."""
        return self.played.certificate()

    def document(self, *, certify: bool = True) -> Document:
        """Plain values: a row for each policy, the verdict, and every bundle behind them."""
        found = self.played
        given = {"policies": list(found.names), "loads": list(found.loads), "seeds": found.seeds.tolist()}
        given |= {"units": found.workload.horizon, "switch_cost": found.site.switch_cost}
        history = [{name: row[name] for name in HISTORY} for row in found.seed_rows]
        result, certificate = {"rows": self.rows, "verdict": self.verdict}, self.certificate() if certify else None
        looks = {name_of(policy): look_of(policy) for policy in found.policies}
        tables = {"history": history}
        return Document("share bundles", result, certificate, self.settings() or given, tables, looks=looks)


HISTORY = ("policy", "load", "seed", "successes", "latency", "switches")


def bundles(
    policies: Sequence[Policy] | None = None,
    *,
    loads: int | Sequence[int] = 10,
    seeds: int | Iterable[int] = 200,
    units: int = 600,
    switch_cost: float = 0.0,
    curves: Recording | str | Path | None = None,
    progress: Progress | None = None,
) -> Bundles:
    """Play every policy on the same bundles: one resource, shared in time.

    Parameters
    ----------
    policies
        One or more; those for time sharing, deadline order, even shares and Hybrid if None.
    loads
        Tasks of a bundle; several numbers are played one after the other.
    seeds
        A count, or the seeds themselves: a bundle each.
    units
        Steps that are played; deadlines lie between a sixth of them and all.
    switch_cost
        Steps that are lost when another task takes the resource over.
    curves
        A recording, or its file; the shipped one if None.
    progress
        Called with parts done and parts in all.
    """
    site = Site(servers=(Server(SPEED),), delay=0.0, jitter=0.0, switch_cost=switch_cost)
    workload = BundleWorkload(curves=falling(curves), sigma=0.0, horizon=units, prior=VAGUE)
    chosen = [shelf.named(name) for name in TIME_SHARING.split(",")] if policies is None else policies
    return Bundles(sweep(chosen, workload, loads=loads, seeds=seeds, site=site, progress=progress))
