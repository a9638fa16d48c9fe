"""How good estimators are: what they say of a task's work after so many samples, against what it turned out to be.

    python benchmarks/share/estimators.py            real curves and power laws, a table of each; seconds
    python benchmarks/share/estimators.py --seed 7   other tasks
    python benchmarks/share/estimators.py --json     the rows

Every task computes the same amounts step by step, and after some of them every estimator is asked about the tasks that
are not done. Recorded curves are those that the prior was not fitted on. Middle and interval are those of its outlook,
on which policies act. Works count as CAP samples at most, more than can be computed before a deadline. A table has a
block for each amount of samples done: how many tasks an estimator says anything of, the errors of ln work, how many
truths lie in its interval, and the log score; the best of a block are marked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from equipoise.cli.output import show
from equipoise.document import Row
from equipoise.errors import InputError
from equipoise.kernels import Bools, Floats
from equipoise.present.text import fixed
from equipoise.present.values import Cell, Cells, Column, Table, Text
from equipoise.share.estimators import ESTIMATORS, Estimate, Estimator
from equipoise.share.estimators._base import PARTS, Fit
from equipoise.share.site import Site
from equipoise.share.step import empty_view, rules
from equipoise.share.task import COMPUTING, DONE, table_error
from equipoise.share.view import Scene, View, name_of
from equipoise.share.workload import Batch, Workload

CAP = 1500.0  # samples; 46 steps at 30 are 1380
AMOUNTS = (4.0, 16.0, 40.0, 100.0, 280.0)  # samples done when estimators are asked
PROBES = (0.5, 1.0, 2.0)  # samples done after the first steps; then doubled, until a step brings PACE
PACE = 10.0  # samples per step
TASKS, SEEDS = 60, 20
PAST = 2000  # tasks whose mean the baseline knows
SURE = 0.8  # claimed by the interval whose coverage is measured
SPREAD_LEAST = 1e-3  # of ln work; nobody is taken to be surer
LOG_SCORE_LEAST = -10.0  # nats that one estimate can lose
MEASURES = ("median", "rms", "bias", "covered", "log_score")  # of estimates that are known
NOTE = (
    f"errors are of ln work (0.7: a factor of two), works counted up to {CAP:g} samples\n"
    f"covered: by the claimed {SURE:.0%} interval, open above where it reaches {CAP:g} (there 90% is honest)\n"
    "log score: higher is better"
)


@dataclass(frozen=True)
class Mean:
    """The baseline: every task is as long as the mean of past tasks, whatever its errors."""

    log_work: float
    spread: float
    label: ClassVar[str] = "mean of past tasks"
    needs_truth: ClassVar[bool] = False

    @classmethod
    def of(cls, workload: Workload, seed: int = 0) -> Mean:
        """Past tasks are drawn from the curves of the prior; without any, from the workload under another seed."""
        rng, past = np.random.default_rng([seed, PAST]), workload.prior.curves
        work = workload.draw(PAST, [seed + 10**6]).work if past is None else past.work(*past.draw(rng, PAST))
        log_work = np.log(np.minimum(work, CAP))
        return cls(float(log_work.mean()), float(log_work.std()))

    def start(self, scene: Scene) -> Mean:
        return self

    def learn(self, view: View) -> None:
        """Nothing to learn."""

    def estimate(self, view: View) -> Estimate:
        said, spread = np.full(view.state.shape, self.log_work), np.full(view.state.shape, self.spread)
        return Estimate(np.maximum(np.exp(said) - view.samples, 0.0), said, spread)


def usual(workload: Workload) -> list[Estimator]:
    """The estimators that can work here: some need curves of past tasks, and one that is told the truth is no rival."""
    lacking = {"needs_truth", "chooses"} | ({"needs_curves"} if workload.prior.curves is None else set())
    fit = [choice for choice in ESTIMATORS.choices() if not any(choice.facts.get(need) for need in lacking)]
    return [ESTIMATORS.make(choice.stem) for choice in fit]


def score_kinds(seed: int = 0) -> dict[str, list[Row]]:
    """The scores of the usual estimators on real curves and on power laws, by what the curves are."""
    kinds = {"real curves, not those of the prior": Workload.recorded(), "power laws": Workload.described()}
    return {title: score(workload=workload, seed=seed) for title, workload in kinds.items()}


def score(
    estimators: Sequence[Estimator] | None = None,
    workload: Workload | None = None,
    *,
    amounts: Sequence[float] = AMOUNTS,
    tasks: int = TASKS,
    seeds: int = SEEDS,
    seed: int = 0,
) -> list[Row]:
    """A row for each estimator and amount of samples done; the baseline comes first. Recorded curves unless told.

    `known`: percent of the tasks of which it says anything; the rest is over those. `median` and `rms` of the error of
    ln work, `bias` its mean; `covered`: percent of truths in the claimed 80 % interval (open above where it reaches the
    cap: there 90 is honest); `log_score`: mean ln density, in nats, of the lognormal beyond what is done.
    """
    if not amounts or not all(0.0 < amount < CAP for amount in amounts):
        raise InputError(
            f"score: amounts are {list(amounts)}; expected samples between 0 and {CAP:g}, at least one",
            code="amounts.range",
        )
    workload = Workload.recorded() if workload is None else workload
    batch = workload.draw(tasks, range(seed, seed + seeds))
    views = list(_watch(batch, amounts, seed))
    rows = []
    for estimator in [Mean.of(workload, seed), *(usual(workload) if estimators is None else estimators)]:
        if estimator.needs_truth:
            raise InputError(
                f"{name_of(estimator)} is told the truth: there is nothing to score", code="estimator.truth"
            )
        fit = estimator.start(Scene(Site(), workload.prior, *batch.shape, len(views)))
        for view in views:
            fit.learn(view)
            said, done = fit.estimate(view), float(view.samples.max())
            if done in amounts:
                ahead = outlook(fit, view, said)
                rows.append(_row(name_of(estimator), done, said, ahead, batch.work, view.computing))
    return rows


def outlook(fit: Fit, view: View, estimate: Estimate) -> Floats:
    """Quantiles of the samples still needed, [seeds, tasks, PARTS]; of a lognormal unless the fit knows better."""
    own = getattr(fit, "outlook", None)
    if own is not None:
        return np.asarray(own(view, estimate))
    u, said, spread = (np.arange(PARTS) + 0.5) / PARTS, estimate.log_work[..., None], estimate.spread[..., None]
    known, spread = view.active & estimate.known, np.maximum(spread, SPREAD_LEAST)
    with np.errstate(invalid="ignore"):  # of tasks of which nothing is known
        z = (np.log(np.maximum(view.samples, 1e-9))[..., None] - said) / spread
        work = np.exp(said - spread * ndtri_exp(np.log1p(-u) + log_ndtr(-z)))
    return np.where(known[..., None], np.maximum(work - view.samples[..., None], 0.0), 0.0)


def steps_to(amounts: Sequence[float]) -> list[float]:
    """Samples done after each step: small probes, then doubled, then PACE a step; every amount is one of them."""
    last = max(amounts)
    found = [*PROBES]
    while found[-1] < last:
        found.append(found[-1] + min(found[-1], PACE))
    return sorted({done for done in found if done <= last} | set(amounts))


def _watch(batch: Batch, amounts: Sequence[float], seed: int) -> Iterator[View]:
    """What estimators see, step by step. A task that reached its work is done, and not observed any more."""
    rng, shape = np.random.default_rng([seed, batch.shape[1]]), batch.shape
    steps = steps_to(amounts)
    nothing = empty_view(shape, rules(Site()))
    for step, done in enumerate(steps):
        before = steps[step - 1] if step else 0.0
        yield nothing._replace(
            step=step,
            state=np.where(batch.work > done, COMPUTING, DONE).astype(np.int8),
            deadline=np.full(shape, batch.horizon),
            data=batch.data,
            target=batch.target,
            samples=np.full(shape, done),
            error=true_errors(batch, done) + batch.sigma * rng.standard_normal(shape),
            observations=np.full(shape, step + 1),
            observed=batch.work > before,
        )


def true_errors(batch: Batch, done: float) -> Floats:
    """The error of every task after so many samples, without noise; fewer than one count as one."""
    s = max(done, 1.0)
    laws = batch.a * s**-batch.b + batch.floor
    replayed = np.array([table_error(*curve, s) for curve in zip(batch.table_samples, batch.table_errors, strict=True)])
    return np.where(batch.table >= 0, replayed[np.maximum(batch.table, 0)], laws)


def _row(name: str, done: float, said: Estimate, ahead: Floats, work: Floats, asked: Bools) -> Row:
    """What one estimator's word was worth after so many samples."""
    known = asked & said.known
    row: Row = {
        "estimator": name,
        "samples": done,
        "tasks": int(asked.sum()),
        "known": 100.0 * int(known.sum()) / max(int(asked.sum()), 1),
    } | dict.fromkeys(MEASURES)
    if known.any():
        truth = np.log(np.minimum(work[known], CAP))
        row |= _misses(np.log(done + ahead[known]), truth)
        spread = np.clip(said.spread[known], SPREAD_LEAST, None)
        scores = log_density(said.log_work[known], spread, float(np.log(done)), truth)
        row["log_score"] = float(np.maximum(scores, LOG_SCORE_LEAST).mean())
    return row


def _misses(believed: Floats, truth: Floats) -> dict[str, float]:
    """Measures of the middle and the interval; `believed` has a task's quantiles of ln work in a row."""
    ends = ((1.0 - SURE) / 2.0, 0.5, (1.0 + SURE) / 2.0)
    low, middle, high = (np.minimum(between(believed, u), np.log(CAP)) for u in ends)
    miss = middle - truth
    return {
        "median": float(np.median(np.abs(miss))),
        "rms": float(np.sqrt(np.mean(miss**2))),
        "bias": float(miss.mean()),
        "covered": 100.0 * float(np.mean((low <= truth) & (truth <= high))),
    }


def between(quantiles: Floats, u: float) -> Floats:
    """The u-quantile of each row of an outlook, which has those of (k + 1/2) / PARTS: linear between two of them."""
    place = u * PARTS - 0.5
    k = min(max(int(place), 0), PARTS - 2)
    return np.asarray(quantiles[:, k] + (place - k) * (quantiles[:, k + 1] - quantiles[:, k]))


def log_density(log_work: Floats, spread: Floats, done: float, truth: Floats) -> Floats:
    """ln of the density of ln W at the truth, given W beyond `done`; at the cap, of the chance to be there or beyond."""
    cap, z = np.log(CAP), (truth - log_work) / spread
    inside = -0.5 * z * z - np.log(spread * np.sqrt(2.0 * np.pi))
    return np.asarray(np.where(truth < cap, inside, log_ndtr(-z)) - log_ndtr((log_work - done) / spread))


def score_table(title: str, rows: Sequence[Row]) -> Table:
    """How good estimators are: a block for each amount of samples done; the best of a block marked."""
    columns = [Column("samples done"), Column("estimator", "left", wrap=True)]
    columns += map(Column, ("knows %", "median error", "RMS error", "bias", "covered %", "log score"))
    body: list[Cells] = []
    sections: list[int] = []
    for done in sorted({row["samples"] for row in rows}):
        block = [row for row in rows if row["samples"] == done]
        judged = [row for row in block if row["rms"] is not None]
        best = {name: min((row[name] for row in judged), default=None) for name in ("median", "rms")}
        best["log_score"] = max((row["log_score"] for row in judged), default=None)
        sections.append(len(body))
        for k, row in enumerate(block):
            marked = {name: Cell(fixed(row[name], 2), best=row[name] == best[name]) for name in best}
            samples = f"{done:g}" if k == 0 else ""
            cells = [samples, row["estimator"], fixed(row["known"], 0), marked["median"], marked["rms"]]
            body.append([*cells, fixed(row["bias"], 2, "+"), fixed(row["covered"], 0), marked["log_score"]])
    return Table(title, columns, body, sections=sections[1:])


def main() -> None:
    """Print the tables, or the rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="draws the tasks")
    parser.add_argument("--json", action="store_true", help="the rows instead of tables")
    chosen = parser.parse_args()
    scores = score_kinds(chosen.seed)
    if chosen.json:
        print(json.dumps(scores))
    else:
        show(*(score_table(title, rows) for title, rows in scores.items()), Text(NOTE, soft=True))


if __name__ == "__main__":
    main()
