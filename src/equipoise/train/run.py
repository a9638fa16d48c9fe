"""What a run leaves behind: shares, models, history, bits - and the certificate made from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from equipoise.certificate import Certificate, Check
from equipoise.data.schema import Schema
from equipoise.document import Array, Document, Plain, Row, plain, write_table
from equipoise.result import Result
from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.audit import (
    NEGATIVE,
    Extremes,
    as_part,
    cost_noise,
    cpu_gap,
    disagreement,
    kkt_violation,
    largest,
    loss_noise,
    model_gap,
    worst_part,
)
from equipoise.train.book import worst_loss
from equipoise.train.codec import Tally, bits_per_number, mantissa_bits
from equipoise.train.costs._base import second
from equipoise.train.exchange import LinkBits
from equipoise.train.exchange.rows import LONG_BITS, SINGLE_BITS
from equipoise.train.method import Method
from equipoise.train.models._base import Model
from equipoise.train.network import Network
from equipoise.train.own_data import OwnData
from equipoise.train.prediction import kind_of, scores_of
from equipoise.train.problem import Market, Problem
from equipoise.train.quantize import FLOAT_BITS
from equipoise.train.recount import Sent
from equipoise.train.scores import HeldOut
from equipoise.train.spec import TrainSpec
from equipoise.train.steps import Steps
from equipoise.train.truth import CpuOptimum, ModelOptimum, why_not_best, why_not_least

Status = Literal["finished", "converged", "stagnated", "diverged", "stopped"]

DEFAULT_TARGET = 1e-6  # relative gap that a certificate asks for when the run was given no target
TRACKER_LIMIT = 1e-9
GRADIENT_NOISE = 1e-9  # of L times the model: gradients smaller than this are rounding
NOISE_ROOM = 4.0  # times the expected gap of mini-batches that a certificate allows: the worst node, in any one round
TOO_NOISY = 0.1  # of the gap at the start: where noise allows more, a small gap says nothing
ONE_MODEL = 0.05  # of the largest model: farthest apart that models which are not convex may lie and count as one
SHARES_IN_CSV = 100
NOTEWORTHY = 1e-3  # of the optimum: a gap beyond is told, however small a part of the start's it is
SAME = 1e-6  # of a gap: how well the end of the history and the outputs must agree
DRAWN_NODES = 400  # up to which a page draws the network


@dataclass(frozen=True, eq=False, repr=False)
class Run(Result):
    """The outcome of `solve`. Gaps are against a centralised solver, never against the run's own best; a model that is not
    convex has none, and its loss is held against the one at the start."""

    problem: Problem
    network: Network
    method: Method
    seed: int
    status: Status
    reason: str
    rounds: int
    target: float | None
    budget: float | None  # CPUs in force at the end, snapped to the grid
    asked: float | None  # CPUs the user asked for, before snapping
    shares: Floats | None
    models: Floats | None
    cpu_optimum: CpuOptimum | None
    model_optimum: ModelOptimum | None
    history: dict[str, Floats]
    share_history: Floats | None  # one row per row of the history
    link_bits: LinkBits
    bit_parts: dict[str, int]  # prices, models, overhead: what the bits were for
    tallies: dict[str, Tally]
    steps: Steps
    worst: Extremes
    market: Market | None
    seconds: float
    start_seconds: float  # of which: before the first round (data, eigenvalues, the centralised solver)
    scales: dict[str, float] = field(
        default_factory=dict
    )  # "cpu", "model": what each half's gap is a part of at the end
    units: AnyArray | None = (
        None  # shares of every round in whole units of the grid, [round, node], where they were kept
    )
    unit_budgets: AnyArray | None = None  # and the budget in force in each
    beside: dict[str, Plain] = field(default_factory=dict)  # scores on held-out data, rivals, the engine: plain values
    beside_history: list[Row] = field(default_factory=list)  # of another dynamics that played the same problem
    spec: TrainSpec | None = None  # what it was built from
    own: OwnData | None = None  # of own files: what their centres agreed on
    held_out: HeldOut | None = None  # rows that nobody trained on

    @property
    def schema(self) -> Schema | None:
        """Of own files: what their centres agreed that columns mean."""
        return None if self.own is None else self.own.schema

    @property
    def bits(self) -> int:
        """Bits sent over all links."""
        return self.link_bits.total

    @property
    def gap(self) -> float:
        """F - F* at the end."""
        return float(self.history["gap"][-1])

    @property
    def relative_gap(self) -> float:
        """The worse half's gap at the end, as a part of its gap at the start."""
        return float(self.history["relative_gap"][-1])

    def certificate(self) -> Certificate:
        """Checks recomputed from inputs and outputs alone."""
        target = DEFAULT_TARGET if self.target is None else self.target
        checks: list[Check] = []
        if self.market is not None and self.shares is not None and self.budget is not None:
            checks += self._cpu_checks(target)
        if self.models is not None:
            checks += self._sum_checks(target)
            checks.append(
                Check.at_most(
                    "consensus",
                    self._disagreement(),
                    np.sqrt(np.fmax(self._noisy(target), target)) if self.convex else ONE_MODEL,
                    "farthest model from the average one, as a part of the largest model of the run",
                )
            )
        if self.convex or self.shares is not None:
            checks.append(self._gap_check(target))
        if not self.convex:
            checks.append(self._loss_check())
        if self.own is not None:
            checks.append(self.own.check())
        if self.held_out is not None and (scores := self.held_out_scores()):
            checks.append(self.held_out.check(scores))
        limited = self.steps.cpu_limit is not None or self.steps.alpha is not None
        if (not self.steps.links or limited) and (self.convex or self.steps.cpu_limit is not None):
            checks.append(self._steps_check())
        checks.append(self._bits_check())
        if self.status == "diverged":
            checks.append(Check("divergence", None, None, False, self.reason))
        return Certificate(tuple(checks))

    def held_out_scores(self) -> list[Floats]:
        """Of every centre that is there at the end, its model's scores of the held-out rows; none where it has no scores."""
        if self.held_out is None or self.models is None or self.problem.model is None:
            return []
        there = getattr(self, "present", np.empty(0))
        rows = self.models[there] if len(there) else self.models
        found = [scores_of(self.problem.model, y, self.held_out.X) for y in rows]
        return [scores for scores in found if scores is not None]

    def _sum_checks(self, target: float) -> list[Check]:
        """Trackers are the sum of gradients all the way; over links no sum is kept, and what counts is that the gradients
        cancel where the models are."""
        assert self.models is not None and self.problem.model is not None
        if self.method.learning != "links" and not isinstance(self.method.learning, type):
            meaning = "largest |sum z - sum grad g| over the recorded rounds, as a part of the largest gradients"
            return [Check.at_most("tracker", self.worst.tracker, TRACKER_LIMIT, meaning)]
        sums = self.problem.model.gradients(self.models)
        model = self.problem.model
        rounding = GRADIENT_NOISE * float(model.smoothness().sum() * np.abs(self.models).max())
        size = max(self.worst.gradient, float(np.abs(sums).sum(axis=0).max()), rounding, 1e-300)
        off = float(np.abs(sums.sum(axis=0)).max()) / size
        meaning = "|sum of gradients at the nodes' own models|, computed anew, as a part of the largest gradients"
        return [Check.at_most("gradient", off, float(np.sqrt(target)), meaning)]

    @property
    def convex(self) -> bool:
        """Whether there is an optimum to compare with: a model that is not convex has none."""
        return self.problem.model is None or self.problem.model.convex

    def _noisy(self, target: float) -> float:
        """Where no target was given, mini-batches are held to what their noise allows, as a part of the gap at the start."""
        noise = self.history.get("noise")
        if self.target is not None or not self.convex or noise is None or not len(noise):
            return target
        allowed = NOISE_ROOM * float(noise[-1]) / max(self._first_model_gap(), 1e-300)
        return max(allowed, target)  # not a number where it is not known

    def _loss_check(self) -> Check:
        """A model that is not convex has no optimum: its loss is held against the one at the start."""
        losses = self.history.get("loss", np.empty(0))
        if self.status == "diverged" or not len(losses):
            return Check("loss", None, self.target, False, "the run diverged: no loss")
        meaning = "the worst centre's loss on everybody's data, as a part of the one at the start"
        fallen = worst_loss(*self._learnt()) / float(losses[0])
        if abs(fallen - float(losses[-1] / losses[0])) > SAME * abs(fallen):
            return Check("loss", fallen, self.target, False, "the history ends at another loss than the models have")
        if self.target is not None:
            return Check.at_most("loss", fallen, self.target, meaning)
        return Check(
            "loss",
            fallen,
            1.0,
            fallen < 1.0,
            f"{meaning}; no target was given, and no optimum is known: it has to fall",
        )

    def _cpu_checks(self, target: float) -> list[Check]:
        assert self.market is not None and self.shares is not None
        here, market = self._counted(), self.market
        outside = np.maximum(market.lo - self.shares, self.shares - market.hi)[here]
        return [
            *self._budget_checks(),
            Check.at_most(
                "box",
                largest(self.worst.box, 0.0, *outside[~(outside <= 0.0)].tolist()),
                0.0,
                "farthest any share ever was outside its box, in CPUs",
            ),
            Check.at_most(
                "kkt",
                self._kkt() if np.isfinite(self.shares).all() else np.nan,
                self._kkt_limit(target),
                "farthest price of a node that could still act on it from the best common price",
            ),
        ]

    def _kkt_limit(self, target: float) -> float:
        """How far prices may differ: a gap g allows sqrt(2 a g) (co-coercivity) where a is the largest f'' between shares
        and best shares; and prices that rounding or the grid cannot tell apart. Nodes that are at a bound, and should be,
        can be of any steepness, and have no say; one that should be and is d away counts for up to curvature x d."""
        assert self.market is not None and self.shares is not None and self.cpu_optimum is not None
        market, best = self.market, self.cpu_optimum.shares
        lo, hi = market.inner
        x = np.clip(self.shares, market.lo, market.hi)
        there = self._counted() & ~((x == best) & ((best == lo) | (best == hi)))
        with np.errstate(all="ignore"):
            bends = np.maximum(second(market.cost, x, market.lo, market.hi), second(market.cost, best, lo, hi))
            price = float(np.abs(market.cost.derivative(x)[there]).max(initial=0.0))
            bends = np.where((best == lo) | (best == hi), np.maximum(bends, market.curvature), bends)
        steepest = float(bends[there].max(initial=0.0))
        noise = cost_noise(market, self.cpu_optimum)
        limit = min(np.sqrt(2 * steepest * target * self._scale("cpu")), 10 * np.sqrt(target) * self._largest_kkt())
        alike = max(np.sqrt(2 * steepest * noise), 8 * market.grid.unit * steepest, 64 * np.spacing(price))
        return float(max(limit, alike))

    def _largest_kkt(self) -> float:
        """How far prices ever differed."""
        return float(self.history["kkt"].max(initial=0.0))

    def _scale(self, half: str) -> float:
        """What the gap of a half is a part of."""
        return self.scales[half] if half in self.scales else float(self.history[f"{half}_gap"][0])

    def _first_model_gap(self) -> float:
        return float(self.history["model_gap"][0])

    def _counted(self) -> AnyArray:
        """Whose shares count at the end."""
        assert self.shares is not None
        return np.ones(len(self.shares), dtype=np.bool_)

    def _priced(self) -> tuple[Floats, float, Floats, Floats]:
        """Shares to hold against the best ones; and the budget and the boxes that those are for."""
        assert self.market is not None and self.shares is not None and self.budget is not None
        return self.shares, self.budget, *self.market.inner

    def _learnt(self) -> tuple[Model, Floats]:
        """The model on the data of those who are there, and the parameters that each of them has."""
        assert self.problem.model is not None and self.models is not None
        return self.problem.model, self.models

    def _gaps(self) -> dict[str, tuple[float, float]]:
        """ "cpu" and "model": F - F* of the shares and of the models as they are, and what of it may be rounding."""
        found: dict[str, tuple[float, float]] = {}
        if self.market is not None and self.cpu_optimum is not None and self.shares is not None:
            gap = cpu_gap(self.market.cost, self._priced()[0], self.cpu_optimum)
            found["cpu"] = gap, cost_noise(self.market, self.cpu_optimum)
        if self.model_optimum is not None and self.models is not None:
            found["model"] = model_gap(*self._learnt(), self.model_optimum), loss_noise(self.model_optimum)
        return found

    def _doubt(self, gaps: dict[str, tuple[float, float]], value: float) -> str:
        """Why nothing should be concluded from a gap of this value, in words: the optimum is none, or the history tells
        another story than shares and models do. "" if there is no such reason."""
        if "cpu" in gaps:
            assert self.market is not None and self.cpu_optimum is not None
            _, budget, lo, hi = self._priced()
            why = why_not_best(self.cpu_optimum, self.market.cost, budget, lo, hi, self.market.grid.unit)
            if why:
                return why
        if "model" in gaps:
            assert self.model_optimum is not None
            why = why_not_least(self.model_optimum, self._learnt()[0])
            if why:
                return why
        told = float(self.history["relative_gap"][-1])
        noise = sum(noise / self._scale(half) for half, (_, noise) in gaps.items())
        if abs(told - value) > SAME * max(abs(told), abs(value)) + noise:
            return f"the history ends at {told:.3g}, not at the gap of these shares and models"
        return self._inflated(gaps)

    def _inflated(self, gaps: dict[str, tuple[float, float]]) -> str:
        """A start that was made to look worse than it was makes any end look good: hold it against the start itself."""
        most = {half: float(self.history[f"{half}_gap"][0]) for half in gaps}
        if "cpu" in gaps:
            assert self.market is not None and self.cpu_optimum is not None
            if len(set(self.history["budget"].tolist())) > 1 or getattr(self.market.cost, "moves", False):
                del most["cpu"]  # the gap at the last change of budget is not known to anybody any more
            else:
                start = self.market.grid.floats(self.market.start())
                most["cpu"] = cpu_gap(self.market.cost, start, self.cpu_optimum)
        for half, gap in most.items():
            if self._scale(half) > (1 + SAME) * max(gap, gaps[half][1]):
                return "the gap at the start was less than what gaps are a part of"
        return ""

    def _since(self) -> str:
        """What gaps are a part of."""
        return "the start"

    def _budget_checks(self) -> list[Check]:
        assert self.market is not None and self.shares is not None and self.budget is not None
        off = abs(float(np.sum(self.shares)) - self.budget)
        if self.asked is not None and abs(self.asked - self.budget) > (len(self.shares) + 1) * self.market.grid.unit:
            off = max(off, abs(self.asked - self.budget))  # snapping may cost a unit a node, not more
        meaning = f"largest |sum of shares - budget| over {self.worst.rounds} rounds, in CPUs"
        return [Check.at_most("budget", largest(self.worst.budget, off), 0.0, meaning)]

    def _kkt(self) -> float:
        assert self.market is not None and self.shares is not None
        market, x = self.market, self.shares
        return kkt_violation(x, market.cost.derivative(x), market.curvature, *market.inner)

    def _disagreement(self) -> float:
        assert self.models is not None
        return disagreement(self.models, self.worst.model)

    def _gap_check(self, target: float) -> Check:
        if self.status == "diverged" or not len(self.history["relative_gap"]):
            return Check("gap", None, target, False, "the run diverged: no gap")
        if self.model_optimum is not None and not self.model_optimum.trusted:
            return Check.not_made("gap", "the centralised solver did not arrive at an optimum to compare with")
        gaps = self._gaps()
        if not gaps:
            return Check.not_made("gap", "no centralised optimum to compare with")
        value = worst_part([as_part(gap, self._scale(half), noise) for half, (gap, noise) in gaps.items()])
        doubt = self._doubt(gaps, value)
        if doubt:
            return Check("gap", value if np.isfinite(value) else None, target, False, doubt)
        parts = ["the cost of the shares"] * (self.shares is not None) + ["the worst node's loss"] * (
            self.model_optimum is not None
        )
        limit_text = f"{' and '.join(parts)} against a centralised solver, relative to {self._since()}"
        worst_negative = min(value, float(np.min(self.history["relative_gap"])))
        if worst_negative < -NEGATIVE:
            return Check(
                "gap",
                worst_negative,
                target,
                False,
                "a negative gap: shares left their boxes, or the centralised solver did not reach the optimum",
            )
        limit = target if self.models is None else self._noisy(target)
        if not np.isfinite(limit):
            return Check.not_made("gap", "batches of one sample show no variance to hold it against: give a target")
        if limit > max(target, TOO_NOISY):
            return Check.not_made(
                "gap",
                f"the noise of mini-batches allows {limit:.2g} of the gap at the start: give a target, or larger ones",
            )
        if limit > target:
            limit_text += "; no target was given, so what the noise of mini-batches allows"
        return Check.at_most("gap", value, limit, limit_text + self._beside_optimum(gaps, value))

    def _beside_optimum(self, gaps: dict[str, tuple[float, float]], value: float) -> str:
        """A start that was very bad, as one steep node can make it, makes a small part of its gap a large one beside the
        optimum itself: then this is said too."""
        totals = {"model": 0.0 if self.model_optimum is None else abs(self.model_optimum.loss)}
        if self.market is not None and self.cpu_optimum is not None:
            best = self.market.cost.value(self.cpu_optimum.shares)
            totals["cpu"] = abs(float(best[self._counted()].sum()))
        parts = [gap / totals[half] for half, (gap, _) in gaps.items() if totals[half] > 0]
        worst = max(parts, default=0.0)
        return f"; relative to the optimum itself it is {worst:.1e}" if worst > max(NOTEWORTHY, value) else ""

    def _steps_check(self) -> Check:
        if not self.convex:
            assert self.steps.cpu_limit is not None
            part = self.steps.step / self.steps.cpu_limit
            return Check.at_most("steps", part, 1.0, "the step of CPU as a part of its stability limit")
        return Check.at_most(
            "steps", self.steps.worst(), 1.0, "largest step as a part of its stability limit (step and alpha)"
        )

    def _bits_check(self) -> Check:
        least, most = self._recount()
        meaning = f"bits sent over all links; a recount from the graphs allows {least:,} to {most:,}"
        misfits = self.worst.words
        if misfits:
            meaning += f"; {misfits:,} numbers were heard that such codes cannot tell, or over no link of their round"
        return Check("bits", float(self.bits), float(most), least <= self.bits <= most and not misfits, meaning)

    def _recount(self) -> tuple[int, int]:
        """The fewest and the most bits that the protocol allows on these graphs."""
        width = 0 if self.models is None else self.models.shape[1]
        boxed = self.market is not None and self.market.boxed
        sent = Sent(self.network, self.method, self.market is not None, boxed, width, len(self.link_bits.bits))
        least, most = sent.allowed(self.rounds, self.worst.rounds, self.worst.links)
        return (least, most) if self.rounds else (0, most)  # before the first round nobody has met

    def __repr__(self) -> str:
        verdict = "passed" if self.certificate().passed else "failed"
        loss = self.history.get("loss", np.empty(0))
        reached = f"gap {self.relative_gap:.2e}" if self.convex or not len(loss) else f"loss {loss[-1]:.3g}"
        return f"<Run: {self.status} after {self.rounds} rounds, {reached}, certificate {verdict}>"

    def save_history(self, path: str | Path) -> None:
        """history.csv: one row per recorded round; the shares of every node at its end, for up to 100 nodes."""
        write_table(Path(path), self.history_rows(), list(self.history))

    def history_rows(self) -> list[dict[str, Plain]]:
        """What stands in history.csv."""
        names = list(self.history)
        columns: list[AnyArray] = [self.history[name] for name in names]
        if self.share_history is not None and self.share_history.shape[1] <= SHARES_IN_CSV:
            names += [f"share_{i}" for i in range(self.share_history.shape[1])]
            columns += list(self.share_history.T)
        plain = [
            [int(v) for v in c] if n in ("round", "bits") else c.tolist() for n, c in zip(names, columns, strict=True)
        ]
        return [dict(zip(names, row, strict=True)) for row in zip(*plain, strict=True)]

    def document(self, *, certify: bool = True) -> Document:
        """Plain values: the summary, what was measured beside the run, the network; the history; arrays of shares, models,
        boxes, costs and optimum, and the links of the last round."""
        return Document(
            "train",
            self.summary() | self.beside | self._facts(),
            self.certificate() if certify else None,
            self.settings() or self._settings(),
            {"history": self.history_rows()} | ({"beside_history": self.beside_history} if self.beside_history else {}),
            arrays={name: array for name, array in self._arrays().items() if array is not None},
            files={} if self.own is None else self.own.texts(),
        )

    def _facts(self) -> dict[str, Plain]:
        """What a page says of the network, the messages and the model."""
        network, model = self.network, self.problem.model
        repeats = "static" if network.static else "never" if network.period is None else "periodic"
        found: dict[str, Plain] = {
            "network": {
                "nodes": network.n,
                "description": network.description,
                "repeats": repeats,
                "directed": network.directed,
            },
            "dynamics": self.dynamics(),
            "message": self._message(),
        }
        if model is not None:
            own = getattr(model, "wrapped", model)  # a user's own model comes wrapped
            found["model"] = {
                "words": getattr(own, "words", "") or type(own).__name__,
                "convex": model.convex,
                "kind": kind_of(model),
                "reg": float(getattr(own, "reg", 0.0)),
                "samples": int(np.sum(0 if model.sizes is None else model.sizes)),
                "classes": int(getattr(own, "classes", 0)),
            }
        if self.own is not None:
            found |= {"data": self.own.facts, "left": self.own.left}
        return found

    def dynamics(self) -> dict[str, Plain]:
        """What was played: "cpu" and "learning" by name, None where there is no such half, and "why"."""
        method, problem = self.method, self.problem
        learning = method.learning.__name__ if isinstance(method.learning, type) else method.learning
        cpu = None if problem.cost is None else method.cpu
        return {"cpu": cpu, "learning": None if problem.model is None else learning, "why": method.why}

    def _message(self) -> dict[str, Plain]:
        return message_of(self.method, self.network, self.problem)

    def _arrays(self) -> dict[str, Array | None]:
        found: dict[str, Array | None] = {
            "shares": self.shares,
            "models": self.models,
            "share_history": self.share_history,
            "seconds": np.array(self.seconds),
        }
        bits = self.link_bits
        found |= {"link_senders": bits.senders, "link_receivers": bits.receivers, "link_bits": bits.bits}
        if self.market is not None:
            found |= {"lo": self.market.lo, "hi": self.market.hi, "unit": np.array(self.market.grid.unit)}
            found |= {"units": self.units, "unit_budgets": self.unit_budgets}
            own = vars(self.market.cost).items()
            found |= {f"cost_{name}": value for name, value in own if isinstance(value, np.ndarray)}
        if self.model_optimum is not None:
            found["optimal_model"] = self.model_optimum.parameters
        if self.network.n <= DRAWN_NODES:
            found["edges"] = self._last_edges()
        return found

    def _last_edges(self) -> Array:
        """Both ends of every link of the last round, one per row; the sender first where links carry one way."""
        last = max(self.rounds - 1, 0)
        if self.network.directed:
            arcs = self.network.arcs(last)
            return np.column_stack([arcs.senders, arcs.receivers])
        topology = self.network.topology(last)
        return np.column_stack([topology.tails, topology.heads])

    def _settings(self) -> dict[str, Plain]:
        """What was solved, in words."""
        cost, model = self.problem.cost, self.problem.model
        return {
            "nodes": self.network.n,
            "network": self.network.description,
            "seed": self.seed,
            "target": self.target,
            "cost": None if cost is None else type(cost).__name__,
            "budget": self.asked,
            "model": None if model is None else type(model).__name__,
            "quantizer": repr(self.method.quantizer),
        }

    def to_sklearn(self, centre: int | None = None, classes: Any = None) -> Any:
        """A fitted scikit-learn estimator that predicts as this run's model does; of own files, the whole pipeline.

        Softmax becomes LogisticRegression, SmoothSVM LinearSVC, LeastSquares LinearRegression. The model is that of this
        centre, or the average over centres. `classes` names the labels 0, 1, ... (or -1 and +1).
        """
        from equipoise.train.as_sklearn import to_sklearn

        return to_sklearn(self, centre, classes)

    def summary(self) -> dict[str, Any]:
        """The result as plain values: what stands in result.json. Repeats bit for bit; holds no times."""
        found: dict[str, Any] = {
            "status": self.status,
            "reason": self.reason,
            "rounds": self.rounds,
            "gap": plain(self.gap) if len(self.history["gap"]) else None,
            "relative_gap": plain(self.relative_gap) if len(self.history["gap"]) else None,
            "bits": self.bits,
            "bits_for": self.bit_parts,
            "links": len(self.link_bits.bits),
            "steps": self.steps.used(self.method),
            "quantizer": {name: tally._asdict() for name, tally in self.tallies.items()},
        }
        if self.shares is not None and self.cpu_optimum is not None:
            found |= {
                "budget": self.budget,
                "shares": self.shares.tolist(),
                "optimal_shares": self.cpu_optimum.shares.tolist(),
                "price": self.cpu_optimum.price,
            }
        if self.models is not None:
            if self.model_optimum is not None:
                found["optimal_loss"] = self.model_optimum.loss
            elif len(self.history.get("loss", [])):
                found["loss"] = plain(self.history["loss"][-1])
            found["consensus"] = self._disagreement()
        return found


def message_of(method: Method, network: Network, problem: Problem, *, hostile: bool = False) -> dict[str, Plain]:
    """Bits of one number as they are sent, how it is coded, and what is told."""
    quantizer = method.quantizer
    if network.period is None and quantizer.mode == "innovation" and not hostile:
        return {"bits": LONG_BITS if problem.model is None else SINGLE_BITS, "mode": "node", "code": "short float"}
    if hostile or quantizer.mode == "innovation" or quantizer.bits == FLOAT_BITS:
        bits = bits_per_number(mantissa_bits(quantizer))
        return {"bits": bits, "mode": quantizer.mode, "code": "float" if bits == FLOAT_BITS else "minifloat"}
    kind = type(quantizer).__name__.removesuffix("Quantizer").lower()
    return {"bits": quantizer.bits, "mode": quantizer.mode, "code": "float" if kind == "exact" else kind}
