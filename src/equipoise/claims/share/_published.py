"""What the claims about the site share: who is played, on which seeds, and findings made from paired differences."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from equipoise.claims import Finding, Interval, at_least, at_most
from equipoise.present.figures import Axis, Figure, Series
from equipoise.share import Site, Sweep, Workload, policies, sweep
from equipoise.share.plain import Streams
from equipoise.share.published import play_plainly
from equipoise.share.view import Policy, name_of
from equipoise.statistics import Paired

Floats = NDArray[np.float64]

SOURCE = "Hasan and Peña, Robustness–Efficiency Trade-offs in Learning-Aware Distributed Scheduling"
FIRST_SEED = 20_000  # nothing here was tuned on the seeds from this one on
SEED_BY_SEED = "the authors' generator draws tasks, jitter and noise of every seed, the same for all"
LOADS = (10, 20, 30, 40, 50, 60)  # tasks, as in the paper's panels
PER_1000 = 1000.0  # efficiency is told as success percent per 1000 energy
UNITS = {  # of each measure, and the factor it is told with
    "success": ("points", 1.0),
    "energy": ("energy", 1.0),
    "efficiency": ("% per 1000 energy", PER_1000),
    "latency": ("steps", 1.0),
}
TIE = 1e-6  # whatever its unit: a lead is more than this, so that two policies that do the same are not ahead
AHEAD, BEHIND = at_least(TIE), at_most(-TIE)
WITHIN = 2.0  # standard deviations of a single run; the paper's numbers are one run
TINY = 1e-12  # a standard error of zero divides nothing
PUBLISHED = ("Uniform", "SDF", "LARA", "UARA", "UARA+LARA")
SUCCESS = "percent of tasks"


def seeds(count: int) -> range:
    """The first so many."""
    return range(FIRST_SEED, FIRST_SEED + count)


def told(count: int) -> str:
    """The seeds in words, for a protocol."""
    return f"seeds {FIRST_SEED}-{FIRST_SEED + count - 1}"


def paired(count: int) -> str:
    """What a finding about pairs at 60 tasks was taken over."""
    return f"60 tasks, paired, mean of {count} seeds"


def played(
    names: Sequence[str | Policy],
    count: int,
    *,
    loads: Sequence[int] = (60,),
    workload: Workload | None = None,
    site: Site | None = None,
    oracle: int = 0,
) -> Sweep:
    """Policies, by name or themselves, on the same tasks."""
    players = [policies.named(name) if isinstance(name, str) else name for name in names]
    return sweep(players, workload, loads=loads, seeds=seeds(count), site=site, oracle=oracle)


def same_tasks(players: Sequence[Policy], count: int, load: int = 60) -> dict[str, dict[str, Floats]]:
    """Policies on the same tasks by the authors' generator, a value per seed: success, latency, energy, efficiency, lucky.

    Tasks of seed k are drawn with seed k, jitter with 2,000,000 + k and noise with 4,000,000 + k.
    """
    workload, columns = Workload.authors(), ("success", "latency", "energy", "efficiency", "lucky")
    found = {name_of(policy): {column: np.empty(count) for column in columns} for policy in players}
    for seed in range(count):
        batch = workload.draw(load, [seed])
        for policy in players:
            draws = Streams(RandomState(2_000_000 + seed), RandomState(4_000_000 + seed))
            one = play_plainly(policy, batch, workload.site, workload.prior, draws)
            for column in columns:
                found[name_of(policy)][column][seed] = getattr(one, column)
    return found


def _error(gap: Paired) -> float:
    """One seed alone says nothing of how sure it is."""
    return math.inf if gap.standard_error is None else gap.standard_error


def lead(quantity: str, gap: Paired, bound: Interval = AHEAD, *, percent_of: float = 0.0, **more: Any) -> Finding:
    """A paired difference as a finding, in the unit of its measure or in percent of a value, with its standard error."""
    unit, scale = UNITS[gap.measure]
    scale = 100.0 / percent_of if percent_of else scale
    return Finding(quantity, scale * gap.difference, bound, error=scale * _error(gap), **({"unit": unit} | more))


def points(found: Sweep, quantity: str, one: str, other: str, bound: Interval = AHEAD, **more: Any) -> Finding:
    """The points of success by which one policy leads another at 60 tasks."""
    return lead(quantity, found.gap(one, other, "success", 60), bound, **more)


def farthest(column: str, far: Mapping[str, float | np.floating[Any]], when: str) -> Finding:
    """How far a published number lies from the mean of the same tasks, of the policy where it is farthest."""
    worst = max(far, key=lambda name: far[name])
    what, over = f"largest distance of a published {column} from the mean of the same tasks", "worst of five policies"
    return Finding(what, float(far[worst]), at_most(WITHIN), "sd of a single run", over=f"{over}: {worst}", when=when)


def least_sure(gaps: Iterable[Paired]) -> Paired:
    """The smallest of several leads in its own standard errors: if it is clear of zero, all are."""
    return min(gaps, key=lambda gap: gap.difference / max(_error(gap), TINY))


def mean_of(found: Sweep, name: str, measure: str, load: int = 60) -> float:
    """A mean over seeds; efficiency as the ratio of means."""
    return float(next(row for row in found.rows if row["policy"] == name and row["load"] == load)[measure])


def curves(found: Sweep, measure: str, names: Sequence[str], scale: float = 1.0) -> list[Series]:
    """A line per policy over the loads, with its standard error."""
    lines = []
    for name in names:
        rows = [row for row in found.rows if row["policy"] == name]
        errors = [scale * (row.get(f"{measure}_se") or 0.0) for row in rows]
        lines.append(Series(name, found.loads, [scale * row[measure] for row in rows], error=errors))
    return lines


def over_tasks(title: str, y: str | Axis, series: Sequence[Series], caption: str) -> Figure:
    """Lines over the number of tasks."""
    return Figure(title, Axis("tasks"), Axis(y) if isinstance(y, str) else y, series, caption=caption)


def by_name(
    title: str, names: Sequence[str], *series: Series, caption: str, x: str = "policy", y: str = SUCCESS, **more: Any
) -> Figure:
    """Bars for each policy, or whatever x is called."""
    return Figure(title, Axis(x, groups=tuple(names)), Axis(y), series, caption=caption, **more)
