"""The same comparison with many seeds: how much of a placer's lead is the luck of one draw? Seeds run in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from equipoise.certificate import Certificate
from equipoise.document import Document, Row, look_of
from equipoise.errors import InputError
from equipoise.parallel import PROCESSES, parts
from equipoise.place.compare import Case, merged, usual_baseline
from equipoise.place.simulate import Placer
from equipoise.place.slowdown import WORTH, stated
from equipoise.result import Result as AnyResult
from equipoise.spec import Spec
from equipoise.statistics import mean_and_error

MEASURES = ("completed", "in_time", "mean_slowdown", "utility", "share_of_bound", "mean_completion")
Progress = Callable[[int, int], None]  # seeds done, and in all


@dataclass(frozen=True)
class Sweep(AnyResult):
    """`seed_rows`: a row per seed and placer, in the order given, as in `PlaceComparison.table`."""

    labels: tuple[str, ...]
    seeds: tuple[int, ...]
    seed_rows: list[Row]
    certificate: Certificate  # of each check the worst over all seeds, and whose
    policies: tuple[Placer, ...] = field(default=(), compare=False, repr=False)
    asked_baseline: str = ""
    spec: Spec | None = None
    stated: str = WORTH  # what the jobs state

    @property
    def baseline(self) -> str:
        """As asked, FIFO where it takes part, else the first."""
        return self.asked_baseline or usual_baseline(self.labels)

    def document(self, *, certify: bool = True) -> Document:
        """Plain values: means with their errors, gains over the baseline, and every seed behind them."""
        result = {"seeds": list(self.seeds), "rows": self.rows, "paired": self.paired(self.baseline)}
        result |= {"seed_rows": self.seed_rows, "stated": self.stated}
        looks = {policy.label: look_of(policy) for policy in self.policies}
        tables = {"history": self.seed_rows}
        return Document("place sweep", result, self.certificate, self.settings(), tables, looks=looks)

    def values(self, label: str, measure: str = "utility") -> list[float | None]:
        """A value for each seed."""
        if label not in self.labels:
            raise InputError(f"no policy {label!r} in this sweep; it has {', '.join(self.labels)}")
        return [row[measure] for row in self.seed_rows if row["policy"] == label]

    @property
    def rows(self) -> list[Row]:
        """A row for each placer: mean and standard error (`_se`) of each measure over the seeds that have it."""
        out = []
        for label in self.labels:
            row: Row = {"policy": label, "seeds": len(self.seeds)}
            for measure in MEASURES:
                row[measure], row[f"{measure}_se"] = mean_and_error(np.array(self.values(label, measure), dtype=float))
            out.append(row)
        return out

    def paired(self, baseline: str) -> list[Row]:
        """For every other policy: utility gained over the baseline on the same seeds, and on how many of them."""
        base, out = self.values(baseline), []
        for label in self.labels:
            if label == baseline:
                continue
            gaps = [a - b for a, b in zip(self.values(label), base, strict=True) if a is not None and b is not None]
            mean, error = mean_and_error(np.array(gaps, dtype=float))
            ahead = sum(gap > 0 for gap in gaps)
            out.append({"policy": label, "baseline": baseline, "utility": mean, "utility_se": error, "ahead": ahead})
        return out


def sweep(
    cases: Sequence[Case],
    *,
    bound: bool | str = "auto",
    workers: int | None = None,
    progress: Progress | None = None,
    baseline: str = "",
    spec: Spec | None = None,
) -> Sweep:
    """Compare the placers in every case, on all cores, or where joblib's active backend runs: the same comes out.

    Parameters
    ----------
    cases
        One for each seed.
    bound
        As in `compare`.
    workers
        Cases that run at once; None: as many as there are cores.
    progress
        Called with the seeds done and the seeds in all.
    baseline
        The label of the placer that gains are told against; FIFO or the first if "".
    spec
        What it was made from: config.yaml of its folder.
    """
    if not cases:
        raise InputError("no seeds to compare; expected one or more")
    labels = tuple(policy.label for policy in cases[0].policies)
    found: dict[int, tuple[list[Row], Certificate]] = {}
    calls = [(case,) for case in cases]
    for done, (k, one) in enumerate(parts(_compared, (bound,), calls, workers=workers, prefer=PROCESSES), start=1):
        found[k] = one
        if progress is not None:
            progress(done, len(cases))
    rows = [{"seed": case.seed} | row for k, case in enumerate(cases) for row in found[k][0]]
    certificate = merged({f"seed {case.seed}": found[k][1] for k, case in enumerate(cases)}, of="seeds")
    seeds = tuple(case.seed for case in cases)
    judged = stated(cases[0].jobs)
    return Sweep(labels, seeds, rows, certificate, tuple(cases[0].policies), baseline, spec, judged)


def _compared(bound: bool | str, case: Case) -> tuple[list[Row], Certificate]:
    run = case.compare(bound)
    return run.table, run.certificate
