"""Certify a run from the files of its folder alone: nothing that the run counted is trusted, and no code of it is called.

What a run was given - data, split, costs, budgets, graphs - is built anew from config.yaml, by seed. Its shares, models and
bits are held against that. What the files cannot show is said by name, and does not pass.
"""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path

import numpy as np

from equipoise.certificate import Certificate, Check
from equipoise.document import CONFIG, Document
from equipoise.errors import InputError
from equipoise.kernels import Floats
from equipoise.train.verify_bits import LinkCount
from equipoise.train.verify_files import LINKS, RunFiles
from equipoise.train.verify_optimum import SAME, TINY, Least, apart, like, said, worst_loss
from equipoise.train.verify_story import Story

USUAL_TARGET = 1e-6  # of the gap at the start, where none was asked for
ONE_MODEL = 0.05  # of the largest: how far apart nets may lie and count as one
NEGATIVE = 1e-9  # of the gap at the start: a gap below minus this is no rounding
MOVED = "the costs moved with what batches showed, which is in no file"
CAME = "centres came or went, and what each had at its event is in no file"
NO_TARGET = "no target was given, and what mini-batches allow is the run's own estimate; give one"
UNRECORDED = "what it is made of, messages, trackers or steps, is in no file"
LARGER = 10.0  # times what it was at the start or is at the end: the most that models or gradients were on the way
RECORDED = {"box", "overdraft"}  # worst over all rounds: fewer are kept on some networks
LARGEST = {"gradient", "consensus", "loss"}  # relative to the largest of the run, or of few witnesses


def verify(folder: str | Path) -> Document:
    """Check the certificate of a run from its result.json, history.csv, arrays.npz and config.yaml.

    Parameters
    ----------
    folder
        A run folder of train, as the command line or `save` of a TrainSpec's run wrote it.
    """
    try:
        return _verified(Path(folder))
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        what = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{folder}: its files do not hold what a run writes ({what}); copy it again", code="verify.form"
        ) from None


def _verified(folder: Path) -> Document:
    seen = Seen(RunFiles(folder))
    files, checks = seen.files, [Story(seen).check(), *seen.cpu(), *seen.learning(), *seen.gap(), seen.bits()]
    made = {check.name: check for check in checks}
    left = [
        check.name for check in files.claimed if check.name not in made and check.name not in ("reach", "divergence")
    ]
    checks += [Check.not_made(name, UNRECORDED) for name in left]
    checks += [
        Check(c.name, c.value, c.limit, False, c.meaning) for c in files.claimed if c.name in ("reach", "divergence")
    ]
    checks.append(seen.claims(made))
    kept = 0 if files.market is None else len(files.market.numbers)
    result = {"status": files.result["status"], "rounds": files.rounds, "nodes": files.n, "rounds_of_shares": kept}
    result["links"] = len(files.arrays["link_bits"])
    return Document("train verify", result, Certificate(tuple(checks)), {"folder": str(folder)})


class Seen:
    """The checks of one run."""

    def __init__(self, files: RunFiles) -> None:
        self.files, self.market, self.model = files, files.market, files.model
        self.target = files.spec.target or USUAL_TARGET
        self.noisy = files.spec.target is None and (files.job.batch is not None or files.spec.couple)
        self.convex = self.model is None or self.model.convex
        self.models: Floats | None = None
        if self.model is not None:
            shape = files.n, self.model.size
            given = files.arrays.get("models", np.empty(0))
            self.models = np.asarray(given, dtype=float) if given.shape == shape else np.full(shape, np.nan)
            start = files.job.start
            self.start = np.zeros(self.model.size) if isinstance(start, str) else np.asarray(start, dtype=float)

    # shares

    def cpu(self) -> list[Check]:
        """Budget and boxes in every round that was kept, and prices at the end."""
        market = self.market
        if market is None:
            return []
        rows = list(zip(market.sums, market.flying, (market.budgets[part] for part in market.parts), strict=False))
        off = max((abs(total + flying - budget) for total, flying, budget in rows), default=1)
        meaning = f"largest |sum of shares - the budget of {CONFIG}|, in CPUs, {market.coverage}"
        checks = [Check.at_most("budget", off * market.unit, 0.0, meaning)]
        if self.files.hostile:
            over = max((total - budget for total, _, budget in rows), default=1)
            meaning = f"most by which shares alone exceeded the budget, in CPUs, {market.coverage}"
            checks.append(Check.at_most("overdraft", max(over, 0) * market.unit, 0.0, meaning))
        if self.files.events:
            return [*checks, Check.not_made("box", CAME), Check.not_made("kkt", CAME)]
        out = np.maximum(market.low - market.units, market.units - market.high).max(initial=0)
        meaning = f"farthest any share was outside the box of {CONFIG}, in CPUs, {market.coverage}"
        checks.append(Check.at_most("box", float(out) * market.unit, 0.0, meaning))
        return [*checks, Check.not_made("kkt", MOVED) if self.files.spec.couple else self._kkt()]

    def _kkt(self) -> Check:
        assert self.market is not None
        market, last = self.market, len(self.market.budgets) - 1
        most = 10 * math.sqrt(self.target) * max(market.spread(market.equal()), *self.spreads.values())
        limit = market.best(last).limit(market.last, self.target * market.scale(last), most)
        meaning = "farthest price of a node that could still act on it from the best common price, at the last shares"
        return Check.at_most("kkt", market.spread(market.last), limit, meaning)

    @cached_property
    def spreads(self) -> dict[int, float]:
        """How far prices differed at the end of every recorded round whose shares are known."""
        assert self.market is not None
        rows = {number: self.market.at_end_of(number) for number in self.files.recorded}
        return {number: self.market.spread(x) for number, x in rows.items() if x is not None}

    # models

    @cached_property
    def least(self) -> Least:
        assert self.model is not None and self.models is not None
        guess = self.files.arrays.get("optimal_model", np.empty(0))
        sound = guess.shape == self.start.shape and bool(np.isfinite(guess).all())
        return Least.find(self.model, self.start, np.asarray(guess) if sound else self.start)

    def learning(self) -> list[Check]:
        """Whether gradients cancel where the models are, and how far those lie apart."""
        model, Y = self.model, self.models
        if model is None or Y is None:
            return []
        if self.files.events:
            names = [name for name in ("consensus", "loss") if name in self.files.claimed]
            return [Check.not_made(name, CAME) for name in names]
        checks = []
        if not self.files.played:
            at, first = (model.gradients(rows) for rows in (Y, np.broadcast_to(self.start, Y.shape).copy()))
            rounding = TINY * float(model.smoothness().sum() * np.abs(Y).max())
            size = max(float(np.abs(some).sum(axis=0).max()) for some in (at, first))
            meaning = (
                "|sum of gradients at the nodes' own models|, as a part of the largest at the start and at the end"
            )
            off = float(np.abs(at.sum(axis=0)).max()) / max(size, rounding, 1e-300)
            checks.append(Check.at_most("gradient", off, math.sqrt(self.target), meaning))
        meaning = "farthest model from the average one, as a part of the largest at the end"
        limit = math.sqrt(self.target) if self.convex else ONE_MODEL
        together = Check.at_most("consensus", apart(Y), limit, meaning)
        checks.append(Check.not_made("consensus", NO_TARGET) if self.noisy and self.convex else together)
        if not self.convex:
            fallen = worst_loss(model, Y) / float(model.total(self.start)[0])
            meaning = "the worst centre's loss on everybody's data, as a part of the one at the start; it has to fall"
            limit = 1.0 if self.files.spec.target is None else self.target
            checks.append(Check("loss", fallen, limit, fallen < 1.0 and fallen <= limit, meaning))
        return checks

    # both

    def gap(self) -> list[Check]:
        """Shares and models against optima found here by other means than the run's."""
        if self.market is None and not self.convex:
            return []
        if self.files.events or self.files.spec.couple or (self.noisy and self.convex):
            why = CAME if self.files.events else MOVED if self.files.spec.couple else NO_TARGET
            return [Check.not_made("gap", why)]
        parts = []
        if self.market is not None:
            parts.append(self.market.part_of_start(self.market.last, len(self.market.budgets) - 1))
            if math.isnan(parts[0]):
                return [Check.not_made("gap", "the shares at the last change of budget were not kept")]
        if self.model is not None and self.convex:
            assert self.models is not None
            if self.least.off > TINY * self.least.scale + self.least.noise:
                return [Check.not_made("gap", "no best model was found that the gradient proves to be one")]
            parts.append(self.least.part_of_start(self.least.gap(self.models)))
        value = min(parts) if min(parts) < -NEGATIVE else max(parts)
        meaning = (
            f"shares and the worst centre's model against optima found anew from {CONFIG}, as a part of the start's"
        )
        check = Check.at_most("gap", value, self.target, meaning)
        return [check if value >= -NEGATIVE else Check("gap", check.value, self.target, False, "a gap below 0")]

    def bits(self) -> Check:
        """Link by link, from the graphs and the protocol."""
        played = self.files.played or ("a run that diverged" if self.files.diverged else "")
        if played:
            return Check.not_made("bits", f"not recounted: played by {played}")
        senders, receivers, bits = (self.files.arrays[name] for name in LINKS)
        wrong = self.count.wrong(senders, receivers, bits, self.files.rounds)
        least, most = self.count.total(self.files.rounds)
        meaning = (
            f"links whose bits the protocol does not allow on the graphs of {CONFIG}; {least:,} to {most:,} in all"
        )
        return Check.at_most("bits", len(wrong), 0.0, meaning, said(wrong))

    @cached_property
    def count(self) -> LinkCount:
        """What the protocol allows."""
        model, market = self.model, self.market
        half = {"cpu": market is not None, "boxed": market is not None and market.boxed}
        L = None if model is None else model.smoothness()
        size = 0 if model is None else model.size
        return LinkCount.of(self.files.network, self.files.method.quantizer.rho, **half, size=size, steepness=L)

    def claims(self, made: dict[str, Check]) -> Check:
        """Whether the certificate in result.json says what was found here."""
        wrong, compared = [], 0
        for claim in self.files.claimed:
            found = made.get(claim.name)
            if found is None or found.passed is None or claim.passed is None:
                continue
            compared += 1
            if claim.passed is not found.passed:
                wrong.append(f"{claim.name} is claimed to have {'passed' if claim.passed else 'failed'}")
            elif not self._as_claimed(claim, found):
                wrong.append(f"{claim.name} is claimed to be {claim.value}, it is {found.value}")
        if self.files.claimed.passed != all(claim.passed is True for claim in self.files.claimed) or not compared:
            wrong.append("the certificate as a whole is not that of its checks")
        meaning = f"checks of the certificate in result.json, of {compared} computed anew, that say otherwise"
        return Check.at_most("claims", len(wrong), 0.0, meaning, said(wrong))

    def _as_claimed(self, claim: Check, found: Check) -> bool:
        if claim.value is None or found.value is None:
            return claim.value is found.value
        if claim.name == "bits":
            return claim.value == float(self.files.result["bits"])
        if claim.name in LARGEST:  # of fewer rounds here: what is found is no smaller
            return found.value / LARGER <= claim.value * (1 + SAME) + TINY <= (1 + SAME) ** 2 * found.value + 2 * TINY
        if claim.name in RECORDED and self.market is not None and not self.market.whole:
            return claim.value >= found.value
        room = TINY * max(self.spreads.values(), default=1.0) if claim.name == "kkt" else TINY
        return like(claim.value, found.value, room) or (claim.name == "gap" and min(claim.value, found.value) < 0)
