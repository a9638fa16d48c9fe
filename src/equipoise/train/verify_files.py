"""What the files of a run folder say, beside what its config.yaml gives: for whoever verifies a run from them."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from equipoise.certificate import Certificate
from equipoise.document import ARRAYS, CONFIG, Document, Plain, read
from equipoise.errors import InputError
from equipoise.kernels import Floats
from equipoise.train.arrays import AnyArray
from equipoise.train.costs._base import Cost, box, curvature
from equipoise.train.spec import TrainSpec
from equipoise.train.verify_optimum import Prices, price_spread

FIRST = ("", "0.1.0")  # versions that kept no shares of every round
OPEN = 2**61  # units: stands for the end of a box that has none
LINKS = ("link_senders", "link_receivers", "link_bits")


class RunFiles:
    """The document of a run folder, and the job that its config.yaml describes, built anew and never run."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder; name a run folder of train", code="file.missing")
        self.document: Document = read(folder)
        self.arrays: dict[str, AnyArray] = dict(self.document.arrays)
        self.result: dict[str, Plain] = self.document.result
        self._refuse(folder)
        self.spec = _spec(folder)
        self.job = self.spec.build()
        self.network, self.model, self.method = self.job.network, self.job.problem.model, self.job.method
        self.n = self.network.n
        self.history = {name: _floats(column) for name, column in self.document.columns("history").items()}
        self.recorded = [int(number) for number in self.history["round"]]
        self.rounds = int(self.result["rounds"])
        self.claimed = self.document.certificate or Certificate(())
        self.market = None if self.job.problem.cost is None else Shares(self, self.job.problem.cost)

    def _refuse(self, folder: Path) -> None:
        if self.document.verb != "train":
            raise InputError(f"{folder}: a result of {self.document.verb}, not of train", code="verify.verb")
        if self.document.version in FIRST:
            raise InputError(
                f"{folder}: written by 0.1.0, which kept neither the shares of every round nor the bits of every link; run "
                f"it again: equipoise train --config {folder / CONFIG}",
                code="verify.version",
            )
        missing = [name for name in LINKS if name not in self.arrays]
        if missing or not self.document.columns("history").get("round"):
            what = f"{ARRAYS} has no {missing[0]}" if missing else "history.csv has no rounds"
            raise InputError(
                f"{folder}: {what}; run it again: equipoise train --config {folder / CONFIG}", code="verify.folder"
            )

    @property
    def hostile(self) -> bool:
        """Whether ledgers were kept: with faults or one-way links; and also where workers were lost on the way."""
        return "packets" in self.result

    @property
    def events(self) -> bool:
        """Whether centres came or went."""
        return bool(self.result.get("events"))

    @property
    def diverged(self) -> bool:
        return bool(self.result["status"] == "diverged")

    @property
    def played(self) -> str:
        """By what the config has both halves played: "" over links that return."""
        job, method = self.job, self.method
        if self.hostile:
            return "ledgers, on a hostile network"
        exact = job.batch is None and not self.spec.couple and (self.model is None or self.model.convex)
        exact = exact and method.cap == "auto" and method.descent == 1.0 and method.ramp is None
        own = (self.market is None or method.own_prices) and (self.model is None or method.own_models)
        reliable = job.faults is None or job.faults.none
        if self.network.period is not None and self.n > 1 and reliable and exact and own:
            return ""
        cpu = [] if self.market is None else ["markets" if method.by_markets else "flows"]
        return " and ".join(cpu + ([] if self.model is None else ["averages" if method.by_meetings else "mixing"]))


class Shares:
    """The CPU half of a run: boxes and budgets of config.yaml in whole units, and the shares that the files hold."""

    def __init__(self, files: RunFiles, cost: Cost) -> None:
        arrays = files.arrays
        self.cost = cost
        if not {"unit", "shares"} <= arrays.keys():
            raise InputError(f"{ARRAYS} has no shares or no unit; run it again with its {CONFIG}", code="verify.folder")
        self.unit, self.last = float(arrays["unit"]), np.asarray(arrays["shares"], dtype=float)
        unit, (lo, hi) = self.unit, box(cost, files.n)
        low, high, near = np.ceil(lo / unit), np.floor(hi / unit), np.round(lo / unit)
        self.low, self.high = (
            np.clip(np.where(low > high, near, end), -OPEN, OPEN).astype(np.int64) for end in (low, high)
        )
        self.lo = np.where(np.isfinite(lo), self.low * unit, -np.inf)  # as the units have them
        self.hi = np.where(np.isfinite(hi), self.high * unit, np.inf)
        self.boxed = bool(np.isfinite(lo).any() or np.isfinite(hi).any())
        self.steepest = curvature(cost, lo, hi)[1]
        changes = sorted((at, cpus) for at, cpus in files.spec.budgets.items() if at < files.rounds)
        self.changes = [at for at, _ in changes]  # before these rounds the budget changed
        assert files.job.problem.budget is not None
        self.asked: list[float] = [files.job.problem.budget, *(cpus for _, cpus in changes)]
        least, most = sum(self.low.tolist()), sum(self.high.tolist())
        self.budgets: list[int] = [
            min(max(round(cpus / unit), least), most) for cpus in self.asked
        ]  # in force, one after the other
        self._keep(files)
        self._row: dict[int, int] = {
            number: k for k, number in reversed(list(enumerate(self.numbers)))
        }  # the first of each round
        self._best: dict[int, Prices] = {}
        self._scales: dict[int, float] = {}

    def _keep(self, files: RunFiles) -> None:
        """`units`, rows of shares; `numbers`, the round at whose end each was; `parts`, changes of budget before it."""
        numbers = [k for k in range(files.rounds + 1) for _ in range(1 + (k in self.changes))]
        parts = [sum(at < k for at in self.changes) + (j > 0 and numbers[j - 1] == k) for j, k in enumerate(numbers)]
        self.all = len(numbers)
        self.kept = "units" in files.arrays
        if self.kept and "engine" in files.result:  # workers keep the start alone
            self.kept = len(files.arrays["units"]) >= self.all
        if self.kept:
            self.units = files.arrays["units"].astype(np.int64)
            late = max(self.all - len(self.units), 0)  # a run that was resumed kept them from there on
        else:
            shares = files.arrays.get("share_history", self.last[None])
            self.units = np.round(shares / self.unit).astype(np.int64)
            numbers = files.recorded if "share_history" in files.arrays else [files.rounds]
            parts, late = [sum(at < k for at in self.changes) for k in numbers], 0
        self.numbers, self.parts = numbers[late:], parts[late:]
        flying = files.history.get("in_flight")  # units in nobody's share, on a hostile network
        self.flying = [0] * len(self.numbers) if flying is None else [round(x / self.unit) for x in flying]
        self.fits = len(self.units) == len(self.numbers) == len(self.flying) and self.units.shape[1:] == (files.n,)
        self.every = self.kept and late == 0  # also what a change of budget left
        self.whole = sorted(set(self.numbers)) == list(range(files.rounds + 1))

    @property
    def coverage(self) -> str:
        """Of which rounds shares are known."""
        if self.whole:
            return f"in all {self.numbers[-1]:,} rounds"
        return f"in {len(self.numbers):,} of {self.all:,} rounds, for the shares of the others were not kept"

    def at_end_of(self, number: int) -> Floats | None:
        """Shares at the end of a round, in CPUs, where they were kept."""
        return self._cpus(self._row[number]) if number in self._row else None

    def _cpus(self, row: int) -> Floats:
        return np.asarray(self.units[row] * self.unit, dtype=np.float64)

    def best(self, part: int) -> Prices:
        """After so many changes of budget."""
        if part not in self._best:
            budget = self.budgets[part] * self.unit
            self._best[part] = Prices.find(self.cost, self.lo, self.hi, self.unit, budget, self.last)
        return self._best[part]

    def scale(self, part: int) -> float:
        """The gap at the start, or right after that change of budget: what gaps are a part of; nan where nobody knows."""
        if part and not self.every:
            return math.nan
        if part not in self._scales:
            first = self._cpus(self._row[self.changes[part - 1]] + 1) if part else self.equal()
            self._scales[part] = max(self.best(part).gap(first), self.best(part).noise)
        return self._scales[part]

    def part_of_start(self, x: Floats, part: int) -> float:
        """The gap of shares, as a part of the gap at the start; what is rounding is none."""
        gap, noise, scale = self.best(part).gap(x), self.best(part).noise, self.scale(part)
        return 0.0 if abs(gap) <= noise and noise > 1e-9 * scale else gap / scale

    def equal(self) -> Floats:
        """Equal shares, as far as boxes allow."""
        budget, n = self.budgets[0] * self.unit, len(self.lo)
        ends = np.concatenate([self.lo, self.hi, [budget / n]])
        low, high = float(ends[np.isfinite(ends)].min()), float(ends[np.isfinite(ends)].max())

        def missing(level: float) -> float:
            return float(math.fsum(np.clip(level, self.lo, self.hi).tolist()) - budget)

        level = low if missing(low) >= 0 else high if missing(high) <= 0 else brentq(missing, low, high, xtol=1e-300)
        return np.asarray(np.clip(level, self.lo, self.hi))

    def spread(self, x: Floats) -> float:
        """How far prices differ where nodes could still act on it."""
        with np.errstate(all="ignore"):
            return price_spread(x, self.cost.derivative(x), self.steepest, self.lo, self.hi)

    @cached_property
    def sums(self) -> list[int]:
        """Of each row, as Python's integers: they neither round nor overflow."""
        return [sum(row) for row in self.units.tolist()]


def _spec(folder: Path) -> TrainSpec:
    """The settings; those of a run that no spec was made for are words only."""
    if not (folder / CONFIG).is_file():
        raise InputError(
            f"{folder}: no {CONFIG}, so nobody knows what it was given; save a run of a TrainSpec", code="verify.folder"
        )
    try:
        return TrainSpec.from_yaml(folder / CONFIG)
    except InputError as error:
        raise InputError(f"{error}; verify needs the {CONFIG} of a TrainSpec", code=error.code) from None


def _floats(column: list[Plain]) -> Floats:
    return np.array([math.nan if value is None else float(value) for value in column])
