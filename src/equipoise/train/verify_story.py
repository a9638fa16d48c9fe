"""Whether the files of a run folder tell one story, as far as what config.yaml gives and kept shares can tell it again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from equipoise.certificate import Check
from equipoise.document import ARRAYS, CONFIG
from equipoise.train.verify_optimum import SAME, TINY, apart, like, said

if TYPE_CHECKING:
    from equipoise.train.verify import Seen

INPUT = 1e-12  # of a cost's setting: what another machine may round otherwise
COARSEST = 1e-9  # of the budget: the most that a unit may be
KEPT = 10_000_000  # nodes x rounds up to which a run keeps the shares of every round


class Story:
    """What is written of one run, in several places."""

    def __init__(self, seen: Seen) -> None:
        self.seen, self.files = seen, seen.files
        self.market, self.model, self.models, self.convex = seen.market, seen.model, seen.models, seen.convex

    def check(self) -> Check:
        """Whether the files tell one story."""
        wrong = [*self._of_result(), *([] if self.market is None else self._of_shares()), *self._of_history()]
        meaning = f"places where result.json, history.csv, {ARRAYS} and {CONFIG} do not tell the same story"
        return Check.at_most("files", len(wrong), 0.0, meaning, said(wrong))

    def _of_result(self) -> list[str]:
        files = self.files
        result, history = files.result, files.history
        total = int(np.sum(files.arrays["link_bits"], dtype=object))
        links = {"links": len(files.arrays["link_bits"]), "bits": total}
        facts = {
            f"{CONFIG} is not the config of result.json": files.spec.plain() == files.document.config,
            "result.json counts other links or bits than link_bits": all(result[k] == v for k, v in links.items()),
            "bits_for of result.json do not add up": sum(result["bits_for"].values()) == total,
            "the history ends with other bits": files.diverged or history["bits"][-1] == total,
            "the history ends in another round": files.diverged or files.recorded[-1] == files.rounds,
            "the history ends at another gap": files.diverged
            or all(like(result[k], history[k][-1]) for k in ("gap", "relative_gap")),
            "more rounds than asked for": files.rounds <= files.job.rounds,
            "it finished before the last round": result["status"] != "finished" or files.rounds == files.job.rounds,
            "it converged without its target": result["status"] != "converged"
            or not self.convex
            or history["relative_gap"][-1] <= self.seen.target,
        }
        if not files.played and not files.diverged:
            flood = int(self.seen.count.flood.sum())
            facts["bits_for of result.json has other overhead"] = result["bits_for"].get("overhead") == flood
        if self.models is not None:
            facts["models are missing, or of another shape"] = bool(np.isfinite(self.models).all()) or files.diverged
            if not files.events and "consensus" in result and not files.diverged:
                facts["result.json has another consensus"] = (
                    result["consensus"] <= (1 + SAME) * apart(self.models) + TINY
                )
            if self.convex and "optimal_loss" in result and not files.events:
                least, own = self.seen.least, files.arrays.get("optimal_model", np.empty(0))
                losses = [
                    result["optimal_loss"],
                    *(least.model.total(own)[:1] if own.shape == (least.model.size,) else ()),
                ]
                room = SAME * self.seen.target * least.scale + least.off + least.noise
                facts["the best model of the files is not the best"] = all(abs(x - least.loss) <= room for x in losses)
        return [what for what, fine in facts.items() if not fine]

    def _of_history(self) -> list[str]:
        """Row by row: gaps of kept shares, their sum, and bits that the protocol allows."""
        files, history, market, wrong = self.files, self.files.history, self.market, []
        if (self.market is None and not self.convex) or files.diverged:
            return []
        steady = not (files.events or files.spec.couple)
        known = not files.played
        for row, number in enumerate(files.recorded):
            told = {name: float(column[row]) for name, column in history.items()}
            if row and (number <= files.recorded[row - 1] or told["bits"] < history["bits"][row - 1]):
                wrong.append(f"history, round {number}: rounds or bits run backwards")
            if known:
                least, most = self.seen.count.total(number)
                if not least <= told["bits"] <= most:
                    wrong.append(
                        f"history, round {number}: {told['bits']:,.0f} bits, allowed are {least:,} to {most:,}"
                    )
            parts = []
            if market is not None and steady:
                part = sum(at < number for at in market.changes)
                x, scale = market.at_end_of(number), market.scale(part)
                if x is not None:
                    gap, spread = market.best(part).gap(x), self.seen.spreads[number]
                    room = TINY * scale if math.isfinite(scale) else market.best(part).noise
                    if not (
                        like(gap, told["cpu_gap"], room)
                        and like(spread, told["kkt"], TINY * max(self.seen.spreads.values()))
                    ):
                        wrong.append(f"history, round {number}: another cpu_gap or kkt than these shares have")
                parts.append(told["cpu_gap"] / scale)
            if self.model is not None and self.convex and steady:
                parts.append(told["model_gap"] / self.seen.least.scale)
                if number == 0 and not like(parts[-1], 1.0):
                    wrong.append("history, round 0: another model_gap than the first models have")
            gaps = told.get("cpu_gap", 0.0) + (told["model_gap"] if self.model is not None and self.convex else 0.0)
            fits = not parts or math.isnan(sum(parts)) or like(max(parts), told["relative_gap"], TINY) or min(parts) < 0
            if not like(gaps, told["gap"]) or not fits:
                wrong.append(f"history, round {number}: gap and relative_gap are not those of its halves")
        return wrong

    def _of_shares(self) -> list[str]:
        """Shares, costs, boxes and budgets wherever they stand."""
        files, market = self.files, self.market
        assert market is not None
        arrays, history, unit = files.arrays, files.history, market.unit
        facts = {
            "units has no row for every round": market.fits,
            "shares of every round are missing": market.whole
            or bool(files.played)
            or "engine" in files.result
            or market.kept
            or files.n * files.job.rounds > KEPT,
            "the last shares are not the last units": np.array_equal(market.units[-1] * unit, market.last),
            "result.json has other shares": np.array_equal(np.array(files.result["shares"]), market.last),
            "result.json has another budget": files.result["budget"] == market.budgets[-1] * unit,
            "the unit is no small power of two": math.frexp(unit)[0] == 0.5
            and unit <= COARSEST * max(abs(market.asked[0]), float(np.abs(market.last).max())),
        }
        if not (files.events or files.spec.couple or files.diverged):
            best, last = np.array(files.result["optimal_shares"]), len(market.budgets) - 1
            room = TINY * np.nan_to_num(market.scale(last)) + market.best(last).noise
            facts["the best shares of result.json are not the best"] = abs(market.best(last).gap(best)) <= room
        own = {name: value for name, value in vars(market.cost).items() if isinstance(value, np.ndarray)}
        for name, value in own.items() if not files.spec.couple else ():
            there = arrays.get(f"cost_{name}", np.empty(0))
            alike = there.shape == value.shape and np.allclose(there, value, rtol=INPUT, atol=0.0)
            facts[f"cost_{name} is not what {CONFIG} gives"] = alike
        in_force = [market.budgets[part] for part in market.parts]
        if market.kept:
            facts["unit_budgets are not the budgets in force"] = arrays["unit_budgets"].tolist() == in_force
        wrong = [what for what, fine in facts.items() if not fine]
        for row, number in enumerate(files.recorded):
            x, part = market.at_end_of(number), sum(at < number for at in market.changes)
            kept = arrays["share_history"][row] if len(arrays.get("share_history", ())) > row else None
            written = np.array([history[name][row] for name in history if name.startswith("share_")])
            found = [some for some in (kept, written) if some is not None and len(some)]
            if x is not None and any(not np.array_equal(some, x) for some in found):
                wrong.append(f"history, round {number}: other shares than its units")
            if history["budget_residual"][row] != 0.0:
                wrong.append(f"history, round {number}: its shares are said to miss the budget")
            if history["budget"][row] != market.budgets[part] * unit:
                wrong.append(f"history, round {number}: another budget than that of {CONFIG}")
        return wrong
