"""The paper's ladder as a study: from no network to delay, jitter and energy, who leads, and does watching curves pay?

Every rung plays the same tasks: only the site between them and their compute changes, or what success is judged by.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from equipoise.certificate import Certificate, Check
from equipoise.document import Document, Row, look_of
from equipoise.errors import InputError
from equipoise.result import Result
from equipoise.share import policies as shelf
from equipoise.share.site import Site
from equipoise.share.sweep import Progress, Sweep, sweep
from equipoise.share.view import Policy, is_blind, name_of
from equipoise.share.workload import Workload
from equipoise.spec import Spec
from equipoise.statistics import Paired

SURE = 2.0  # standard errors beyond which a difference counts


@dataclass(frozen=True)
class Rung:
    """One more thing between a task and its success."""

    name: str
    site: Row
    workload: Row
    measure: str = "success"


WIRED = {"delay": 0.0, "jitter": 0.0}
RUNGS = (
    Rung("no network", WIRED | {"bandwidth": float("inf")}, {"data": (0.0, 0.0)}),
    Rung("+ transfer", WIRED, {}),
    Rung("+ delay", {"jitter": 0.0}, {}),
    Rung("+ jitter", {}, {}),
    Rung("+ energy, pooled", {"power": "pooled"}, {}, "efficiency"),
    Rung("+ energy, per_node", {"power": "per_node"}, {}, "efficiency"),
    Rung("+ energy, linear", {"power": "linear"}, {}, "efficiency"),
)


@dataclass(frozen=True)
class Ladder(Result):
    """A sweep per rung, and what is read off them."""

    rungs: tuple[Rung, ...]
    sweeps: dict[str, Sweep]
    learners: tuple[str, ...]  # policies that watch learning curves
    published: tuple[str, ...]  # policies of the paper
    spec: Spec | None = field(default=None, compare=False, repr=False)

    @property
    def loads(self) -> tuple[int, ...]:
        return self.sweeps[self.rungs[0].name].loads

    @property
    def rows(self) -> list[Row]:
        """Rung by rung and load by load: the leader and its lead, and the best learner against the best other."""
        return [self._row(rung, load) for rung in self.rungs for load in self.loads]

    def _row(self, rung: Rung, load: int) -> Row:
        found = self.sweeps[rung.name]
        ranked = self._ranked(rung, load, found.names)
        cell = next(row for row in found.rows if row["policy"] == ranked[0] and row["load"] == load)
        lead = found.gap(ranked[0], ranked[1], rung.measure, load) if len(ranked) > 1 else None
        return {
            "rung": rung.name,
            "load": load,
            "measure": rung.measure,
            "leader": ranked[0],
            "value": cell[rung.measure],
            "value_se": cell[f"{rung.measure}_se"],
            "runner_up": ranked[1] if len(ranked) > 1 else None,
            **_gap_cells("lead", lead),
            **self._gain(rung, load, found.names, ""),
            **self._gain(rung, load, self.published, "published_"),
        }

    def _gain(self, rung: Rung, load: int, names: Sequence[str], prefix: str) -> Row:
        """The best that watches curves, the best that does not, and what watching gains."""
        learner = self._ranked(rung, load, [name for name in names if name in self.learners])[:1]
        other = self._ranked(rung, load, [name for name in names if name not in self.learners])[:1]
        found = self.sweeps[rung.name]
        gap = found.gap(learner[0], other[0], rung.measure, load) if learner and other else None
        return {
            f"{prefix}learner": learner[0] if learner else None,
            f"{prefix}other": other[0] if other else None,
            **_gap_cells(f"{prefix}gain", gap),
        }

    def _ranked(self, rung: Rung, load: int, names: Sequence[str]) -> list[str]:
        """Best first; ties in the order they were given."""
        rows = {row["policy"]: row[rung.measure] for row in self.sweeps[rung.name].rows if row["load"] == load}
        return sorted(names, key=lambda name: -rows[name])

    @property
    def seed_rows(self) -> Iterator[Row]:
        """The raw numbers: one plain dict per rung, policy, load and seed."""
        for rung in self.rungs:
            for row in self.sweeps[rung.name].seed_rows:
                yield {"rung": rung.name} | {name: value for name, value in row.items() if name != "oracle"}

    @property
    def verdict(self) -> list[str]:
        """Where watching learning curves pays and where it stops, in sentences made from the numbers."""
        rows = self.rows
        sentences = []
        if set(self.published) & set(self.learners) and set(self.published) - set(self.learners):
            sentences.append(_sentence("Among the published policies", rows, "published_gain"))
        if set(self.learners) - set(self.published):
            sentences.append(_sentence("With all policies here", rows, "gain"))
        return sentences

    def certificate(self) -> Certificate:
        """Every check once, with the worst value of all rungs."""
        return self._certificate

    @cached_property
    def _certificate(self) -> Certificate:
        rungs = [self.sweeps[rung.name].certificate() for rung in self.rungs]
        worst = [max((found[check.name] for found in rungs), key=_badness) for check in rungs[0]]
        meaning = "(the worst of all rungs)"
        return Certificate(tuple(replace(check, meaning=f"{check.meaning} {meaning}") for check in worst))

    def document(self, *, certify: bool = True) -> Document:
        """Plain values: who leads on each rung at each load, the verdict, and every seed behind them."""
        top = self.sweeps[self.rungs[-1].name]
        given = {"policies": list(top.names), "loads": list(self.loads), "seeds": top.seeds.tolist()}
        return Document(
            "share ladder",
            {"rows": self.rows, "verdict": self.verdict},
            self.certificate() if certify else None,
            self.settings() or given,
            {"history": list(self.seed_rows)},
            looks={name_of(policy): look_of(policy) for policy in top.policies},
        )


def _badness(check: Check) -> tuple[bool, float]:
    return check.passed is not True, math.inf if check.value is None else check.value


def _gap_cells(name: str, gap: Paired | None) -> dict[str, float | None]:
    if gap is None:
        return {name: None, f"{name}_se": None}
    return {name: gap.difference, f"{name}_se": gap.standard_error}


def pays(row: Row, gain: str = "gain") -> bool | None:
    """Whether the best learner is surely ahead of the best other (True), surely behind (False), or neither (None)."""
    value, error = row[gain], row[f"{gain}_se"]
    if value is None or error is None or abs(value) <= SURE * error:
        return None
    return bool(value > 0)


def _sentence(who: str, rows: list[Row], gain: str) -> str:
    """On which rungs, and at which loads, watching curves pays, and where it costs; a rung in neither list is even."""
    loads = list(dict.fromkeys(row["load"] for row in rows))
    words = []
    for verb, wanted in (("pays", True), ("costs", False)):
        places: dict[str, list[int]] = {}
        for row in rows:
            if pays(row, gain) is wanted:
                places.setdefault(row["rung"], []).append(row["load"])
        if not places:
            words.append(f"{verb} on no rung")
        else:
            words.append(f"{verb} on " + ", ".join(f'"{rung}" ({_at(at, loads)})' for rung, at in places.items()))
    return f"{who}, watching learning curves {'; it '.join(words)}."


def _at(some: list[int], loads: list[int]) -> str:
    return "every load" if len(some) == len(loads) else f"{', '.join(map(str, some))} tasks"


def competitors() -> list[Policy]:
    """The published policies, and ours."""
    return [policy() for policy in (*shelf.PUBLISHED, shelf.Hybrid)]


def ladder(
    policies: Sequence[Policy] | None = None,
    *,
    loads: Sequence[int] = (10, 20, 40, 60),
    seeds: int | Iterable[int] = 200,
    progress: Progress | None = None,
    site: Site | None = None,
    workload: Workload | None = None,
) -> Ladder:
    """Play every rung with the same tasks.

    Parameters
    ----------
    policies
        Two or more; the published ones and Hybrid if None.
    loads
        Numbers of tasks.
    seeds
        A count, or the seeds themselves.
    progress
        Called with parts done and parts in all.
    site
        What the top rung has.
    workload
        What the top rung has.
    """
    chosen = list(competitors() if policies is None else policies)
    if len(chosen) < 2:
        raise InputError("a ladder needs two policies or more: there is no lead over nobody", code="policies.few")
    workload = workload or Workload.described()
    site = site or workload.site
    numbers = seeds if isinstance(seeds, int) else list(seeds)
    sweeps = {
        rung.name: sweep(
            chosen,
            workload.but(**rung.workload),
            loads=loads,
            seeds=numbers,
            site=site.but(**rung.site),
            progress=_part(progress, k),
        )
        for k, rung in enumerate(RUNGS)
    }
    learners = tuple(name_of(policy) for policy in chosen if isinstance(policy, shelf.Learning) or not is_blind(policy))
    published = tuple(name_of(policy) for policy in chosen if type(policy) in shelf.PUBLISHED)
    return Ladder(RUNGS, sweeps, learners, published)


def _part(progress: Progress | None, rung: int) -> Progress | None:
    """Progress of one rung as a part of the whole climb; every rung is as much work as the others."""
    if progress is None:
        return None
    return lambda done, total: progress(rung * total + done, len(RUNGS) * total)
