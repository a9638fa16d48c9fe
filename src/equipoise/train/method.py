"""How a run is played: which dynamics, the quantiser, the steps, and what keeps shares in their boxes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from equipoise._short import short_repr
from equipoise.errors import InputError, unknown_name
from equipoise.train.quantize import Exact, LogQuantizer, Quantizer

if TYPE_CHECKING:
    from equipoise.train.hostile.faults import Faults
    from equipoise.train.network import Network
    from equipoise.train.problem import Problem

BOXES = ("price", "limit", "penalty")
WEIGHTS = ("curvature", "laplacian", "metropolis")
CPU = ("auto", "links", "markets", "flows")
LEARNING = ("auto", "links", "averages", "mixing")

AUTO_STEP = 0.6  # of the limit of curvature and Metropolis weights, times e^(-rho/2) (docs/train.md, 3.7)
AUTO_DESCENT = 0.3  # step * alpha * max L_i, times e^(-rho/2); 0.2 took a fifth more rounds
LEAST_RAMP = 0.02  # of alpha, at either end of a ramp
PENALTY = 10.0  # the paper's box penalty, in curvatures


@dataclass(frozen=True)
class Method:
    """Our method by default; `Method.paper()` is the paper's own form.

    cpu     "links": prices over links that return (relaxed ADMM); "markets": every node clears one among its neighbours,
            also where no link returns; "flows": the paper's, along edges; "auto" takes the first that the run allows
    learning  "links": models over links that return (the same, exact answers or local steps); "averages" of neighbourhoods,
            also for mini-batches and nets; "mixing": the paper's gradient tracking along edges; or a Dynamics of one's own
    step    of consensus and of CPU flows along edges, per unit of edge weight; a number selects the paper's dynamics, "auto"
            ours (by_markets, by_meetings) or a safe one
    alpha   of the descent along the tracked gradient; a number selects the paper's gradient tracking, where y moves by
            step * alpha * z
    momentum  False: the paper's dynamics, which have none; True alone changes nothing in them
    box     "price": flux limiter and a price for full nodes (exact); "limit": the limiter alone (stalls where full
            nodes separate the network); "penalty": the paper's, which leaves the box
    cap     momentum of the averaged models; "auto" follows the model's conditioning where its ridge tells it
    descent  times the automatic alpha, whose limit holds for convex losses only; nets bear more once they have warmed up
            (where messages are late or lost, what exceeds 1 becomes momentum instead)
    ramp    (a, b): alpha rises evenly over the first a rounds and falls evenly to a fiftieth in round b
    """

    quantizer: Quantizer = field(default_factory=LogQuantizer)
    step: float | Literal["auto"] = "auto"
    alpha: float | Literal["auto"] = "auto"
    momentum: bool = True
    box: Literal["price", "limit", "penalty"] = "price"
    cpu_weights: str = "curvature"
    model_weights: str = "metropolis"
    cap: float | Literal["auto"] = "auto"
    fade: float | None = None  # rounds after which alpha has halved, alpha / (1 + round / fade): for mini-batches
    descent: float = 1.0
    ramp: tuple[float, float] | None = None
    tracker_start: Literal["gradient", "zero"] = "gradient"  # "zero" converges to the wrong model: kept to show it
    name: str = "equipoise"
    cpu: str = "auto"
    learning: str | type = "auto"  # a name, or a Dynamics of one's own
    why: str = ""  # why `choose` took these two

    def __repr__(self) -> str:
        return short_repr(self)

    def __post_init__(self) -> None:
        if not isinstance(self.quantizer, Quantizer):
            raise InputError(
                f"quantizer must be Exact(), UniformQuantizer() or LogQuantizer(), not {self.quantizer!r}",
                code="quantizer.type",
            )
        for name in ("step", "alpha", "cap"):
            value = getattr(self, name)
            if isinstance(value, str):
                if value != "auto":
                    raise InputError(f'{name} must be a number > 0 or "auto", not {value!r}', code=f"{name}.range")
            elif not 0 < value < math.inf:
                raise InputError(f'{name} must be a number > 0 or "auto", not {value!r}', code=f"{name}.range")
        if self.fade is not None and not 0 < self.fade < math.inf:
            raise InputError(f"fade must be a number of rounds > 0, not {self.fade!r}", code="fade.range")
        if not 0 < self.descent < math.inf or (self.descent != 1.0 and self.alpha != "auto"):
            raise InputError(
                f"descent must be a number > 0 that the automatic alpha is taken times, not {self.descent!r}",
                code="descent.range",
            )
        if self.ramp is not None and (self.fade is not None or not 0 < self.ramp[0] < self.ramp[1] < math.inf):
            raise InputError(
                f"ramp must be two numbers of rounds, 0 < a < b, and no fade with it, not {self.ramp!r}",
                code="ramp.range",
            )
        if self.cap != "auto" and not self.cap < 1:
            raise InputError(f"cap must be below 1, not {self.cap!r}", code="cap.range")
        if self.box not in BOXES:
            raise unknown_name("box rule", self.box, BOXES)
        for kind in (self.cpu_weights, self.model_weights):
            if kind not in WEIGHTS:
                raise unknown_name("weights", kind, WEIGHTS)
        if self.model_weights == "curvature":
            raise InputError(
                'model_weights="curvature" speaks of CPU costs: use "metropolis" or "laplacian"', code="weights.model"
            )
        if not isinstance(self.cpu, str) or self.cpu not in CPU:
            raise unknown_name("dynamics", str(self.cpu), CPU)
        unfinished = getattr(self.learning, "refuse_unfinished", None)
        if isinstance(self.learning, type) and unfinished is not None:
            unfinished()
        elif not isinstance(self.learning, str):
            raise InputError(
                f"learning takes a name, or a class that extends equipoise.train.Dynamics, not {self.learning!r}",
                code="learning.type",
            )
        elif self.learning not in LEARNING:
            raise unknown_name("dynamics", self.learning, LEARNING)
        if self.tracker_start not in ("gradient", "zero"):
            raise unknown_name("tracker start", self.tracker_start, ("gradient", "zero"))

    @classmethod
    def paper(cls, **changes: Any) -> Method:
        """arXiv 2510.25176 as published: node-wise log quantisation, Laplacian weights, a box penalty."""
        published: dict[str, Any] = {
            "quantizer": LogQuantizer(mode="node"),
            "momentum": False,
            "box": "penalty",
            "cpu_weights": "laplacian",
            "model_weights": "laplacian",
            "name": "paper",
        }
        return cls(**(published | changes))

    @classmethod
    def auto(cls, problem: Problem, network: Network, faults: Faults | None = None, **settings: Any) -> Method:
        """The dynamics that suit this problem on this network, by name, with the reason in `why`."""
        from equipoise.train.choose import choose

        return choose(cls(**settings), problem, network, faults)

    @property
    def by_markets(self) -> bool:
        """Whether nodes make markets among their neighbours; else CPU flows along edges, as in the paper (Method.paper,
        messages node by node or edge by edge, no momentum, a step or weights of one's own, another rule for boxes)."""
        return self.own_prices if self.cpu == "auto" else self.cpu == "markets"

    @property
    def by_meetings(self) -> bool:
        """Whether models are averaged over neighbourhoods; else models and trackers mix along edges, as in the paper."""
        return self.own_models if self.learning == "auto" else self.learning == "averages"

    @property
    def own_prices(self) -> bool:
        """Whether no setting asks for the paper's flows of CPU."""
        return self._coded and not self.flows

    @property
    def own_models(self) -> bool:
        """Whether no setting asks for the paper's mixing of models."""
        own = self.alpha == "auto" and self.fade is None and self.model_weights == "metropolis"
        return self._coded and self._plain and own

    @property
    def flows(self) -> bool:
        """Whether the paper's own flows along edges were asked for: by name, or by a setting that only they have."""
        return not (self._plain and self.box == "price" and self.cpu_weights == "curvature")

    @property
    def _plain(self) -> bool:
        return self.momentum and self.step == "auto" and self.name != "paper"

    @property
    def _coded(self) -> bool:
        """Whether messages are changes since the last one, or exact."""
        quantizer = self.quantizer
        return isinstance(quantizer, Exact) or (isinstance(quantizer, LogQuantizer) and quantizer.mode == "innovation")

    def faded(self, number: int) -> float:
        """What is left of alpha in this round."""
        if self.ramp is not None:
            return ramped(number, *self.ramp)
        return 1.0 if self.fade is None else 1.0 / (1.0 + number / self.fade)

    @property
    def limits_boxes(self) -> bool:
        """Whether flows are limited so that no share ever leaves its box."""
        return self.box != "penalty"

    @property
    def curvature_factor(self) -> float:
        """How much steeper prices can be than the costs': a penalty adds its own slope outside the box."""
        return 1.0 if self.limits_boxes else 1.0 + PENALTY

    @property
    def sector(self) -> float:
        """e^(rho/2): the most a quantised value can exceed the true one (docs/train.md, 3.2)."""
        return math.exp(self.quantizer.rho / 2)


def ramped(number: int, rise: float, end: float) -> float:
    """1 at the top of a ramp, after `rise` rounds; less before and after."""
    return max(min((number + 1) / rise, (end - number) / (end - rise), 1.0), LEAST_RAMP)
