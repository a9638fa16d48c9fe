"""Certify a run from the files of its folder alone: nothing that the run counted is trusted, and no code of it is called.

What a run was given - data, split, costs, budgets, graphs - is built anew from config.yaml, by seed. Its shares, models and
bits are held against that. What the files cannot show is said by name, and does not pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, cached_property
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.certificate import Certificate, Check
from equipoise.document import ARRAYS, CONFIG, Document, Row, plain, read
from equipoise.errors import InputError
from equipoise.kernels import Floats
from equipoise.train.costs import Quadratic
from equipoise.train.costs._base import Cost, box, curvature
from equipoise.train.prediction import scores_of
from equipoise.train.spec import TrainSpec
from equipoise.train.verify_anew import (
    Least,
    LinkCount,
    Prices,
    apart,
    can_show,
    part_of,
    price_spread,
    worst_beside_constant,
    worst_loss,
)

FIRST = ("", "0.1.0")  # versions that kept no shares of every round
LINKS = ("link_senders", "link_receivers", "link_bits")
BASELINE = "baseline"
ENDED = ("reach", "divergence")  # checks that say why a run ended: never passed
OPEN = 2**61  # units: stands for the end of a box that has none
COARSEST = 1e-9  # of the budget: the most that a unit may be
KEPT = 10_000_000  # nodes x rounds up to which a run keeps the shares of every round
INPUT = 1e-12  # of a cost's setting: what another machine may round otherwise
USUAL_TARGET = 1e-6  # of the gap at the start, where none was asked for
ONE_MODEL = 0.05  # of the largest: how far apart nets may lie and count as one
NEGATIVE = 1e-9  # of the gap at the start: a gap below minus this is no rounding
SAME, TINY = 1e-6, 1e-9  # of a value; of the gap at the start: how well claims and findings must agree
LARGER = 10.0  # times what it was at the start or is at the end: the most that models or gradients were on the way
RECORDED = {"box", "overdraft"}  # worst over all rounds: fewer are kept on some networks
LARGEST = {"gradient", "consensus", "loss"}  # relative to the largest of the run, or of few witnesses
SHOWN = 2  # of what is wrong, said one by one
MOVED = "the costs moved with what batches showed, which is in no file"
CAME = "centres came or went, and what each had at its event is in no file"
NO_TARGET = "no target was given, and what mini-batches allow is the run's own estimate; give one"
UNRECORDED = "what it is made of, messages, trackers or steps, is in no file"


def verify(folder: str | Path) -> Document:
    """Check the certificate of a run from its result.json, history.csv, arrays.npz and config.yaml.

    Parameters
    ----------
    folder
        A run folder of train, as the command line or `save` of a TrainSpec's run wrote it.
    """
    try:
        run = Files(Path(folder))
        made = [_files(run), *_schema(run), *_cpu(run), *_models(run), *_gap(run), *_baseline(run), _bits(run)]
        names = {check.name for check in made}
        left = [
            Check(c.name, c.value, c.limit, False, c.meaning) if c.name in ENDED else Check.not_made(c.name, UNRECORDED)
            for c in run.claimed
            if c.name not in names
        ]
        checks = *made, *left, _claims(run, made)
        kept = 0 if run.shares is None else len(run.shares.rows)
        result = {"status": run.result["status"], "rounds": run.rounds, "nodes": run.n, "rounds_of_shares": kept}
        result["links"] = len(run.arrays["link_bits"])
        return Document("train verify", result, Certificate(checks), {"folder": str(folder)})
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = f"its files do not hold what a run writes ({type(error).__name__}: {error})"
        raise InputError(f"{folder}: {what}; copy it again", code="verify.form") from None


class Files:
    """The files of a run folder, and the job that its config.yaml describes, built anew and never run."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder; name a run folder of train", code="file.missing")
        self.document = document = read(folder)
        self.arrays: dict[str, NDArray[Any]] = dict(document.arrays)
        self.result = document.result
        again = f"run it again: equipoise train --config {folder / CONFIG}"
        if document.verb != "train":
            raise InputError(f"{folder}: a result of {document.verb}, not of train", code="verify.verb")
        if document.version in FIRST:
            what = "0.1.0 kept neither the shares of every round nor the bits of every link"
            raise InputError(f"{folder}: {what}; {again}", code="verify.version")
        missing = [f"{ARRAYS} has no {name}" for name in LINKS if name not in self.arrays]
        missing += [] if document.columns("history").get("round") else ["history.csv has no rounds"]
        if missing:
            raise InputError(f"{folder}: {missing[0]}; {again}", code="verify.folder")
        if not (folder / CONFIG).is_file():
            what = f"no {CONFIG}, so nobody knows what it was given; save a run of a TrainSpec"
            raise InputError(f"{folder}: {what}", code="verify.folder")
        self.history = {name: np.array(column, dtype=float) for name, column in document.columns("history").items()}
        self.recorded = [int(number) for number in self.history["round"]]
        self.claimed = document.certificate or Certificate(())
        self.rounds = int(self.result["rounds"])
        self.diverged = self.result["status"] == "diverged"
        self.events = bool(self.result.get("events"))  # centres came or went
        self.hostile = "packets" in self.result  # faults, one-way links, or workers lost on the way: with ledgers
        self.spec = TrainSpec.from_yaml(folder / CONFIG)
        self.job = job = self.spec.build()
        if job.own is not None:
            given, own = self.result.get("data", {}).get("digests", []), job.own.facts
            pairs = zip_longest(own["files"], own["digests"], given)
            if changed := [str(file) for file, now, then in pairs if now != then]:
                what = f"changed since the run: {', '.join(changed)}; bring back what it was made from"
                raise InputError(f"{folder}: {what}", code="verify.data")
        self.network, self.model, self.method, self.n = job.network, job.problem.model, job.method, job.network.n
        self.target = self.spec.target or USUAL_TARGET
        self.noisy = self.spec.target is None and (job.batch is not None or self.spec.couple)
        self.steady = not (self.events or self.spec.couple)
        self.convex = self.model is None or self.model.convex
        if self.model is not None:
            shape = self.n, self.model.size
            given = self.arrays.get("models", np.empty(0))
            self.models = np.asarray(given, dtype=float) if given.shape == shape else np.full(shape, np.nan)
            self.start = np.zeros(shape[1]) if isinstance(job.start, str) else np.asarray(job.start, dtype=float)
        self.shares = None if job.problem.cost is None else Shares(self, job.problem.cost)
        halves = {"cpu_theta": self.shares, "model_theta": self.model}  # steps that only a run over links names
        steps = [name in self.result["steps"] for name, half in halves.items() if half is not None]
        self.over_links = all(steps) and not self.hostile and self.network.period is not None

    @property
    def same_schema(self) -> bool:
        """Whether the files of the folder hold the schema that the data files lead to."""
        own = self.job.own
        if own is None:
            return True
        texts = own.texts()
        told = self.result.get("data") == plain(own.facts) and self.result.get("left") == plain(own.left)
        return told and all(self.document.files.get(name) == text for name, text in texts.items())

    @property
    def same_scores(self) -> bool:
        """Whether the table of scores is that of these models, on the rows that the settings hold out."""
        held, model, told = self.job.held_out, self.model, self.result.get("scores")
        if held is None or model is None or told is None:
            return told is None
        there = self.result.get("present", range(self.n))
        scores = [scores_of(model, y, held.X) for y in self.models[list(there)]]
        best = self.arrays.get("optimal_model")
        central = None if best is None else scores_of(model, best.astype(float), held.X)
        names = () if self.job.own is None else self.job.own.schema.classes
        rows = held.table([each for each in scores if each is not None], central, names)
        return len(rows) == len(told) and all(map(_alike, rows, told))

    @property
    def may_be_over_links(self) -> bool:
        """Whether config.yaml allows it: links that return and lose nothing, exact gradients, settings of our own method."""
        job, method = self.job, self.method
        returns = self.network.period is not None and self.n > 1 and not self.network.directed
        exact = job.batch is None and not self.spec.couple and self.convex and (job.faults is None or job.faults.none)
        own = (self.shares is None or method.own_prices) and (self.model is None or method.own_models)
        return returns and exact and own and method.cap == "auto" and method.descent == 1.0 and method.ramp is None

    @cached_property
    def spreads(self) -> dict[int, float]:
        """How far prices differed at the end of every recorded round whose shares are known."""
        assert self.shares is not None
        rows = {number: self.shares.at_end_of(number) for number in self.recorded}
        return {number: self.shares.spread(x) for number, x in rows.items() if x is not None}

    @cached_property
    def least(self) -> Least:
        """The best model for all."""
        assert self.model is not None
        guess = np.asarray(self.arrays.get("optimal_model", np.empty(0)))
        sound = guess.shape == self.start.shape and np.isfinite(guess).all()
        return Least.find(self.model, self.start, guess if sound else self.start)

    @cached_property
    def count(self) -> LinkCount:
        """What the protocol allows."""
        model, shares = self.model, self.shares
        cpu, size = shares is not None, 0 if model is None else model.size
        L = None if model is None else model.smoothness()
        boxed = shares is not None and bool(np.isfinite([shares.lo, shares.hi]).any())
        return LinkCount(self.network, self.method.quantizer.rho, cpu=cpu, boxed=boxed, size=size, steepness=L)


class Shares:
    """The CPU half of a run: boxes and budgets of config.yaml in whole units, and the shares that the files hold."""

    def __init__(self, run: Files, cost: Cost) -> None:
        if not {"unit", "shares"} <= run.arrays.keys():
            raise InputError(f"{ARRAYS} has no shares or no unit; run it again with its {CONFIG}", code="verify.folder")
        self.cost, self.last = cost, np.asarray(run.arrays["shares"], dtype=float)
        self.unit = unit = float(run.arrays["unit"])
        lo, hi = box(cost, run.n)
        low, high = np.ceil(lo / unit), np.floor(hi / unit)
        ends = (np.where(low > high, np.round(lo / unit), end) for end in (low, high))  # no unit inside: the nearest
        self.low, self.high = (np.clip(end, -OPEN, OPEN).astype(np.int64) for end in ends)
        self.lo = np.where(np.isfinite(lo), self.low * unit, -np.inf)  # as the units have them
        self.hi = np.where(np.isfinite(hi), self.high * unit, np.inf)
        self.steepest = curvature(cost, lo, hi)[1]
        changes = sorted((at, cpus) for at, cpus in run.spec.budgets.items() if at < run.rounds)
        self.changes = [at for at, _ in changes]  # before these rounds the budget changed
        assert run.job.problem.budget is not None
        self.asked: list[float] = [run.job.problem.budget, *(cpus for _, cpus in changes)]
        least, most = sum(self.low.tolist()), sum(self.high.tolist())
        self.budgets: list[int] = [min(max(round(cpus / unit), least), most) for cpus in self.asked]
        self._keep(run)
        self.best: Callable[[int], Prices] = cache(self._best)
        self.scale: Callable[[int], float] = cache(self._scale)

    def _keep(self, run: Files) -> None:
        """`units`, rows of shares; `rows`, for each the round at whose end it was, and the changes of budget before it."""
        turns = enumerate(pairwise([0, *self.changes, run.rounds]))
        rows = [(number, part) for part, (first, last) in turns for number in range(first, last + 1)]
        self.all = len(rows)
        kept = run.arrays.get("units", np.empty(0))
        self.kept = "units" in run.arrays and ("engine" not in run.result or len(kept) >= self.all)
        if self.kept:  # workers keep the start alone; a run that was resumed kept them from there on
            self.units, rows = kept.astype(np.int64), rows[max(self.all - len(kept), 0) :]
        else:
            shares = run.arrays.get("share_history", self.last[None])
            self.units = np.round(shares / self.unit).astype(np.int64)
            numbers = run.recorded if "share_history" in run.arrays else [run.rounds]
            rows = [(number, self.part(number)) for number in numbers]
        if not self.last.shape == self.units.shape[1:] == (run.n,):
            raise InputError(f"{ARRAYS} has shares of other nodes than the {run.n} of {CONFIG}", code="verify.form")
        self.rows, self._at = rows, dict(zip(rows, self.units, strict=False))
        self.sums = [sum(row) for row in self.units.tolist()]  # Python's integers: they neither round nor overflow
        flying = run.history.get("in_flight")  # units in nobody's share, on a hostile network
        self.flying = [0] * len(rows) if flying is None else [round(x / self.unit) for x in flying]
        self.fits = len(self.units) == len(rows) == len(self.flying)
        self.whole = {number for number, _ in rows} == set(range(run.rounds + 1))
        some = f"in {len(rows):,} of {self.all:,} rounds, for the shares of the others were not kept"
        self.coverage = f"in all {run.rounds:,} rounds" if self.whole else some

    def part(self, number: int) -> int:
        """How often the budget had changed by the end of a round."""
        return sum(at < number for at in self.changes)

    def at_end_of(self, number: int) -> Floats | None:
        """Shares at the end of a round, in CPUs, where they were kept."""
        units = self._at.get((number, self.part(number)))
        return None if units is None else np.asarray(units * self.unit, dtype=np.float64)

    def _best(self, part: int) -> Prices:
        """After so many changes of budget."""
        return Prices(self.cost, self.lo, self.hi, self.unit, self.budgets[part] * self.unit, self.last)

    def _scale(self, part: int) -> float:
        """The gap at the start, or right after that change of budget: what gaps are a part of; nan where nobody knows."""
        units = self._at.get((self.changes[part - 1], part)) if part else self.equal / self.unit
        return math.nan if units is None else max(self.best(part).gap(units * self.unit), self.best(part).noise)

    @cached_property
    def equal(self) -> Floats:
        """Equal shares, as far as boxes allow: the best where all costs are x^2 / 2."""
        alike = Quadratic(1.0, 0.0)
        return Prices(alike, self.lo, self.hi, self.unit, self.budgets[0] * self.unit, self.last).wanted

    def spread(self, x: Floats) -> float:
        """How far prices differ where nodes could still act on it."""
        with np.errstate(all="ignore"):
            return price_spread(x, self.cost.derivative(x), self.steepest, self.lo, self.hi)


# whether the files tell one story


def _files(run: Files) -> Check:
    facts = _result_facts(run) | _model_facts(run) | _share_facts(run)
    wrong = [what for what, fine in facts.items() if not fine]
    for row, number in enumerate(run.recorded):
        facts = _row_facts(run, row, number)
        wrong += [f"history, round {number}: {what}" for what, fine in facts.items() if not fine]
    meaning = f"places where result.json, history.csv, {ARRAYS} and {CONFIG} do not tell the same story"
    return Check.at_most("files", len(wrong), 0.0, meaning, _said(wrong))


def _result_facts(run: Files) -> dict[str, bool]:
    """What result.json says of the whole run."""
    result, history, rounds = run.result, run.history, run.job.rounds
    total = int(np.sum(run.arrays["link_bits"], dtype=object))
    counted = result["links"] == len(run.arrays["link_bits"]) and result["bits"] == total
    reached = not run.convex or history["relative_gap"][-1] <= run.target
    facts = {
        f"{CONFIG} is not the config of result.json": run.spec.plain() == run.document.config,
        "result.json counts other links or bits than link_bits": counted,
        "bits_for of result.json do not add up": sum(result["bits_for"].values()) == total,
        f"it cannot have been played over links by {CONFIG}": run.may_be_over_links or not run.over_links,
        "scores of result.json are not those of the models on held-out rows": run.same_scores,
        f"result.json and schema.json do not say what the files of {CONFIG} agree on": run.same_schema,
        "more rounds than asked for": run.rounds <= rounds,
        "it finished before the last round": result["status"] != "finished" or run.rounds == rounds,
        "it converged without its target": result["status"] != "converged" or reached,
    }
    if not run.diverged:
        gaps = (_like(result[name], history[name][-1]) for name in ("gap", "relative_gap"))
        facts["the history ends with other bits"] = history["bits"][-1] == total
        facts["the history ends in another round"] = run.recorded[-1] == run.rounds
        facts["the history ends at another gap"] = all(gaps)
        if run.over_links:
            flood = int(run.count.flood.sum())
            facts["bits_for of result.json has other overhead"] = result["bits_for"].get("overhead") == flood
    return facts


def _model_facts(run: Files) -> dict[str, bool]:
    if run.model is None:
        return {}
    result, facts = run.result, {}
    if not run.diverged:
        facts["models are missing, or of another shape"] = bool(np.isfinite(run.models).all())
        most = math.inf if run.events else (1 + SAME) * apart(run.models) + TINY
        facts["result.json has another consensus"] = result.get("consensus", 0.0) <= most
    if run.convex and "optimal_loss" in result and not run.events:
        losses, own = [result["optimal_loss"]], run.arrays.get("optimal_model", np.empty(0))
        losses += [run.model.total(own)[0]] if own.shape == run.start.shape else []
        room = SAME * run.target * run.least.scale + run.least.off + run.least.noise
        facts["the best model of the files is not the best"] = all(abs(x - run.least.loss) <= room for x in losses)
    return facts


def _share_facts(run: Files) -> dict[str, bool]:
    """Shares, costs and budgets wherever they stand."""
    shares, arrays, result = run.shares, run.arrays, run.result
    if shares is None:
        return {}
    unit, last = shares.unit, len(shares.budgets) - 1
    excused = shares.kept or not run.over_links or "engine" in result or run.n * run.job.rounds > KEPT
    small = unit <= COARSEST * max(abs(shares.asked[0]), float(np.abs(shares.last).max()))
    facts = {
        "units has no row for every round": shares.fits,
        "shares of every round are missing": shares.whole or excused,
        "the last shares are not the last units": np.array_equal(shares.units[-1] * unit, shares.last),
        "result.json has other shares": np.array_equal(np.array(result["shares"]), shares.last),
        "result.json has another budget": result["budget"] == shares.budgets[-1] * unit,
        "the unit is no small power of two": math.frexp(unit)[0] == 0.5 and small,
    }
    if run.steady and not run.diverged:
        best, room = shares.best(last), TINY * np.nan_to_num(shares.scale(last)) + shares.best(last).noise
        facts["the best shares of result.json are not the best"] = (
            abs(best.gap(np.array(result["optimal_shares"]))) <= room
        )
    for name, value in {} if run.spec.couple else vars(shares.cost).items():
        if isinstance(value, np.ndarray):
            there = arrays.get(f"cost_{name}", np.empty(0))
            alike = there.shape == value.shape and np.allclose(there, value, rtol=INPUT, atol=0.0)
            facts[f"cost_{name} is not what {CONFIG} gives"] = alike
    if shares.kept:
        in_force = [shares.budgets[part] for _, part in shares.rows]
        facts["unit_budgets are not the budgets in force"] = arrays["unit_budgets"].tolist() == in_force
    return facts


def _row_facts(run: Files, row: int, number: int) -> dict[str, bool]:
    """A row of the history: its shares, their gap and budget, and bits that the protocol allows."""
    shares, history, facts, parts = run.shares, run.history, {}, []
    told = {name: float(column[row]) for name, column in history.items()}
    solved = (shares is not None or run.convex) and not run.diverged
    if shares is not None:
        x, part = shares.at_end_of(number), shares.part(number)
        written = [np.array([told[name] for name in told if name.startswith("share_")])]
        written += list(run.arrays.get("share_history", np.empty((0, 0)))[row : row + 1])
        same = x is None or all(np.array_equal(some, x) for some in written if len(some))
        facts["other shares than its units"] = same
        facts["its shares are said to miss the budget"] = told["budget_residual"] == 0.0
        facts[f"another budget than that of {CONFIG}"] = told["budget"] == shares.budgets[part] * shares.unit
        if run.steady and solved:
            best, scale = shares.best(part), shares.scale(part)
            parts.append(told["cpu_gap"] / scale)
            if x is not None:
                alike = _like(best.gap(x), told["cpu_gap"], TINY * scale if math.isfinite(scale) else best.noise)
                alike = alike and _like(run.spreads[number], told["kkt"], TINY * max(run.spreads.values()))
                facts["another cpu_gap or kkt than these shares have"] = alike
    if not solved:
        return facts
    later = row == 0 or (number > run.recorded[row - 1] and told["bits"] >= history["bits"][row - 1])
    facts["rounds or bits run backwards"] = later
    if run.over_links:
        least, most = run.count.total(number)
        facts[f"{told['bits']:,.0f} bits, allowed are {least:,} to {most:,}"] = least <= told["bits"] <= most
    gap = told.get("cpu_gap", 0.0)
    if run.model is not None and run.convex:
        gap += told["model_gap"]
        if run.steady:
            parts.append(told["model_gap"] / run.least.scale)
            facts["another model_gap than the first models have"] = number > 0 or _like(parts[-1], 1.0)
    known = bool(parts) and not math.isnan(sum(parts)) and min(parts) >= 0
    fits = not known or _like(max(parts), told["relative_gap"], TINY)
    facts["gap and relative_gap are not those of its halves"] = fits and _like(gap, told["gap"])
    return facts


# the checks of a certificate, made anew


def _cpu(run: Files) -> list[Check]:
    """Budget and boxes in every round that was kept, and prices at the end."""
    shares = run.shares
    if shares is None:
        return []
    rows = list(zip(shares.sums, shares.flying, (shares.budgets[part] for _, part in shares.rows), strict=False))
    off = max((abs(total + flying - budget) for total, flying, budget in rows), default=1)
    meaning = f"largest |sum of shares - the budget of {CONFIG}|, in CPUs, {shares.coverage}"
    checks = [Check.at_most("budget", off * shares.unit, 0.0, meaning)]
    if run.hostile:
        over = max((total - budget for total, _, budget in rows), default=1)
        meaning = f"most by which shares alone exceeded the budget, in CPUs, {shares.coverage}"
        checks.append(Check.at_most("overdraft", max(over, 0) * shares.unit, 0.0, meaning))
    if run.events:
        return [*checks, Check.not_made("box", CAME), Check.not_made("kkt", CAME)]
    out = np.maximum(shares.low - shares.units, shares.units - shares.high).max(initial=0)
    meaning = f"farthest any share was outside the box of {CONFIG}, in CPUs, {shares.coverage}"
    checks.append(Check.at_most("box", float(out) * shares.unit, 0.0, meaning))
    if run.spec.couple:
        return [*checks, Check.not_made("kkt", MOVED)]
    last = len(shares.budgets) - 1
    most = 10 * math.sqrt(run.target) * max(shares.spread(shares.equal), *run.spreads.values())
    limit = shares.best(last).limit(shares.last, run.target * shares.scale(last), most, shares.steepest)
    meaning = "farthest price of a node that could still act on it from the best common price, at the last shares"
    return [*checks, Check.at_most("kkt", shares.spread(shares.last), limit, meaning)]


def _models(run: Files) -> list[Check]:
    """Whether gradients cancel where the models are, and how far those lie apart."""
    model = run.model
    if model is None:
        return []
    if run.events:
        return [Check.not_made(name, CAME) for name in ("consensus", "loss") if name in run.claimed]
    checks, Y = [], run.models
    if run.over_links:
        at, first = (model.gradients(rows) for rows in (Y, np.broadcast_to(run.start, Y.shape).copy()))
        rounding = TINY * float(model.smoothness().sum() * np.abs(Y).max())
        size = max(float(np.abs(some).sum(axis=0).max()) for some in (at, first))
        off = float(np.abs(at.sum(axis=0)).max()) / max(size, rounding, 1e-300)
        meaning = "|sum of gradients at the nodes' own models|, as a part of the largest at the start and at the end"
        checks.append(Check.at_most("gradient", off, math.sqrt(run.target), meaning))
    if run.noisy and run.convex:
        return [*checks, Check.not_made("consensus", NO_TARGET)]
    meaning = "farthest model from the average one, as a part of the largest at the end"
    checks.append(Check.at_most("consensus", apart(Y), math.sqrt(run.target) if run.convex else ONE_MODEL, meaning))
    if not run.convex:
        fallen = worst_loss(model, Y) / float(model.total(run.start)[0])
        limit = 1.0 if run.spec.target is None else run.target
        meaning = "the worst centre's loss on everybody's data, as a part of the one at the start; it has to fall"
        checks.append(Check("loss", fallen, limit, fallen < 1.0 and fallen <= limit, meaning))
    return checks


def _gap(run: Files) -> list[Check]:
    """Shares and models against optima found here by other means than the run's."""
    shares, parts = run.shares, []
    if shares is None and not run.convex:
        return []
    if not run.steady or (run.noisy and run.convex):
        return [Check.not_made("gap", CAME if run.events else MOVED if run.spec.couple else NO_TARGET)]
    if shares is not None:
        last = len(shares.budgets) - 1
        best, scale = shares.best(last), shares.scale(last)
        if math.isnan(scale):
            return [Check.not_made("gap", "the shares at the last change of budget were not kept")]
        parts.append(part_of(best.gap(shares.last), scale, best.noise))
    if run.model is not None and run.convex:
        least = run.least
        if least.off > TINY * least.scale + least.noise:
            return [Check.not_made("gap", "no best model was found that the gradient proves to be one")]
        parts.append(part_of(worst_loss(run.model, run.models) - least.loss, least.scale, least.noise))
    if min(parts) < -NEGATIVE:
        return [Check("gap", min(parts), run.target, False, "a gap below 0")]
    meaning = f"shares and the worst centre's model against optima found anew from {CONFIG}, as a part of the start's"
    return [Check.at_most("gap", max(parts), run.target, meaning)]


def _schema(run: Files) -> list[Check]:
    """Of own files: whether what centres agreed on is what the rows say."""
    return [] if run.job.own is None else [run.job.own.check()]


def _baseline(run: Files) -> list[Check]:
    """Whether the models know more of held-out rows than the most frequent class, or the mean."""
    held, model = run.job.held_out, run.model
    if held is None or model is None or (BASELINE not in run.claimed and run.job.own is None):
        return []
    mean = None if held.classes else held.constant
    if len(np.unique(held.truth)) < 2:
        return [Check.not_made(BASELINE, "all held-out rows have the same answer")]
    if not can_show(held.truth, mean):
        return [Check.not_made(BASELINE, "too few held-out rows to tell a model that is always right")]
    there = run.result.get("present")
    models = run.models if there is None else run.models[there]
    what = "balanced error" if held.classes else "mean square error, as a part of that of always saying the mean,"
    meaning = f"{what} of the worst centre's model on the rows that {CONFIG} holds out; to be below the limit"
    if not np.isfinite(models).all():
        return [Check(BASELINE, None, None, False, meaning)]
    value, limit = worst_beside_constant(model, models, held.X, held.truth, mean)
    return [Check(BASELINE, value, limit, value < limit, meaning)]


def _bits(run: Files) -> Check:
    """Link by link, from the graphs and the protocol."""
    if run.diverged or not run.over_links:
        why = "it diverged" if run.diverged else "it was not played over links that return and lose nothing"
        return Check.not_made("bits", why)
    senders, receivers, bits = (run.arrays[name] for name in LINKS)
    wrong = run.count.wrong(senders, receivers, bits, run.rounds)
    least, most = run.count.total(run.rounds)
    meaning = f"links whose bits the protocol does not allow on the graphs of {CONFIG}; {least:,} to {most:,} in all"
    return Check.at_most("bits", len(wrong), 0.0, meaning, _said(wrong))


def _claims(run: Files, made: list[Check]) -> Check:
    """Whether the certificate in result.json says what was found here."""
    wrong, compared = [], 0
    found = {check.name: check for check in made if check.passed is not None}
    for claim in run.claimed:
        if claim.passed is None or claim.name not in found:
            continue
        compared, here = compared + 1, found[claim.name]
        if claim.passed is not here.passed:
            wrong.append(f"{claim.name} is claimed to have {'passed' if claim.passed else 'failed'}")
        elif not _as_claimed(run, claim.name, claim.value, here.value):
            wrong.append(f"{claim.name} is claimed to be {claim.value}, it is {here.value}")
    if run.claimed.passed != all(claim.passed is True for claim in run.claimed) or not compared:
        wrong.append("the certificate as a whole is not that of its checks")
    meaning = f"checks of the certificate in result.json, of {compared} computed anew, that say otherwise"
    return Check.at_most("claims", len(wrong), 0.0, meaning, _said(wrong))


def _as_claimed(run: Files, name: str, claimed: float | None, found: float | None) -> bool:
    if claimed is None or found is None:
        return claimed is found
    if name == "bits":
        return claimed == float(run.result["bits"])
    if name in LARGEST:  # of fewer rounds here: what is found is no smaller
        return found / LARGER <= claimed * (1 + SAME) + TINY <= (1 + SAME) ** 2 * found + 2 * TINY
    if name in RECORDED and run.shares is not None and not run.shares.whole:
        return claimed >= found
    room = TINY * max(run.spreads.values(), default=1.0) if name == "kkt" else TINY
    return _like(claimed, found, room) or (name == "gap" and min(claimed, found) < 0)


def _alike(row: Row, told: Row) -> bool:
    """The same names, and numbers equal to rounding."""
    numbers = [key for key, value in row.items() if isinstance(value, float)]
    exact = all(told.get(key) == value for key, value in row.items() if key not in numbers)
    return row.keys() == told.keys() and exact and all(_like(row[key], told[key]) for key in numbers)


def _like(one: float | None, other: float | None, room: float = 0.0) -> bool:
    """Equal to rounding, and to this room; what is not a number is like nothing but itself."""
    pair = np.array([one, other], dtype=float)
    pair[~np.isfinite(pair)] = np.nan
    return bool(np.isclose(pair[0], pair[1], rtol=SAME, atol=room, equal_nan=True))


def _said(wrong: list[str]) -> str:
    """The first of what is wrong."""
    more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
    return "; ".join(wrong[:SHOWN]) + more
