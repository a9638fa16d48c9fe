"""What a run on a hostile network leaves behind, and its certificate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise.certificate import Certificate, Check
from equipoise.document import Plain
from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.audit import disagreement, kkt_violation, largest
from equipoise.train.book import pins
from equipoise.train.codec import bits_per_number, mantissa_bits
from equipoise.train.dynamics._gift_kernels import SCALE_BITS, SUM_BITS
from equipoise.train.exchange.lossy import HEADER_BITS
from equipoise.train.grid import exact_sum
from equipoise.train.hostile.faults import Faults
from equipoise.train.hostile.membership import Event
from equipoise.train.models._base import Model
from equipoise.train.problem import Subset
from equipoise.train.quantize import FLOAT_BITS
from equipoise.train.run import Run, message_of

OWN_WORDS = "a dynamics of one's own"
WORDS = {
    "gifts": "gifts over links, booked so that a later packet makes up for a lost one",
    "pushed": "pushed along one-way links",
    "links": "models over links, each with its own memory",
    "trackers": "models pulled and trackers pushed",
}


@dataclass(frozen=True, eq=False, repr=False)
class HostileRun(Run):
    """The outcome of `solve` with faults or one-way links. Gaps are against the survivors' optimum."""

    faults: Faults = field(default_factory=Faults)
    events: tuple[Event, ...] = ()
    present: AnyArray = field(default_factory=lambda: np.empty(0, dtype=np.bool_))  # who is there at the end
    known: AnyArray = field(default_factory=lambda: np.empty(0, dtype=np.bool_))  # who the others count on
    counted: AnyArray = field(default_factory=lambda: np.empty(0, dtype=np.bool_))  # whose share counts
    in_flight: float = 0.0  # CPUs in nobody's share at the end
    trouble: tuple[str, ...] = ()  # what kept the survivors from their optimum, by name
    model_scale: float = 1.0  # what the models' gaps are a part of at the end
    packets: int = 0  # handed to the network
    links_passed: tuple[int, int] = (0, 0)  # by packets about CPU, all together; about models
    lost: int = 0

    def certificate(self) -> Certificate:
        checks = super().certificate().checks
        if self.trouble:
            checks = *checks, Check("reach", float(len(self.trouble)), 0.0, False, "; ".join(self.trouble))
        return Certificate(checks)

    @property
    def _tracks(self) -> bool:
        """Whether models were learnt by trackers; over links that carry both ways most need none."""
        return "tracker" in self.history

    @property
    def _pushes(self) -> bool:
        """Whether CPU was pushed along one-way links, and not given."""
        return self.network.directed and self.faults.none and self.market is not None and not self.market.boxed

    def dynamics(self) -> dict[str, Plain]:
        cpu = None if self.shares is None else "pushed" if self._pushes else "gifts"
        learning = None if self.models is None else "trackers" if self._tracks else "links"
        if learning is not None and isinstance(self.method.learning, type):
            learning = self.method.learning.__name__
        said = [] if cpu is None else [f"CPU by {cpu} ({WORDS[cpu]})"]
        said += [] if learning is None else [f"models by {learning} ({WORDS.get(learning, OWN_WORDS)})"]
        one_way = self.network.directed
        because = "links carry one way" if one_way else "messages may be lost or late, or centres go and come"
        return {"cpu": cpu, "learning": learning, "why": f"{'; '.join(said)}; for {because}"}

    def _message(self) -> dict[str, Plain]:
        return message_of(self.method, self.network, self.problem, hostile=True)

    def _since(self) -> str:
        return "the last event, or to equal shares and first models" if self.events else "the start"

    def _first_model_gap(self) -> float:
        return self.model_scale

    def _sum_checks(self, target: float) -> list[Check]:
        cancel = self.method.learning == "links" or isinstance(self.method.learning, type)
        return super()._sum_checks(target) if self._tracks or cancel else []

    def _budget_checks(self) -> list[Check]:
        assert self.shares is not None and self.budget is not None
        off = abs(float(np.sum(self.shares)) + self.in_flight - self.budget)
        both = f"largest |shares + in flight - budget| over {self.worst.rounds} rounds, in CPUs"
        alone = "most by which shares alone ever exceeded the budget, in CPUs"
        return [
            Check.at_most("budget", largest(self.worst.budget, off), 0.0, both),
            Check.at_most("overdraft", max(self.worst.over, 0.0), 0.0, alone),
        ]

    def _largest_kkt(self) -> float:
        """After an event gaps are a part of what equal shares would have, whose prices no round has shown."""
        return float(np.inf) if self.events else super()._largest_kkt()

    def _counted(self) -> AnyArray:
        return self.counted

    def _priced(self) -> tuple[Floats, float, Floats, Floats]:
        """Those who are not known to be there are pinned, with what they hold in addition to the survivors' budget."""
        assert self.market is not None and self.shares is not None and self.budget is not None
        lo, hi = self.market.inner
        pinned, known = pins(lo, hi), self.known
        room = exact_sum(self.market.high[known]) * self.market.grid.unit  # boxes that are too small end up full
        budget = min(self.budget, room) + float(pinned[~known].sum())
        lo, hi = np.where(known, lo, pinned), np.where(known, hi, pinned)
        return np.where(self.counted, self.shares, pinned), budget, lo, hi

    def _learnt(self) -> tuple[Model, Floats]:
        model, Y = super()._learnt()
        there = self.present & self.known if self.convex else self.present
        return Subset(model, np.flatnonzero(self.known)), Y[there]

    def _inflated(self, gaps: dict[str, tuple[float, float]]) -> str:
        return ""  # gaps are a part of the one at the last event, of which no record is kept

    def _kkt(self) -> float:
        assert self.market is not None and self.shares is not None
        there, market = self.present, self.market
        lo, hi = market.inner
        x = self.shares[there]
        prices = market.cost.derivative(np.clip(self.shares, market.lo, market.hi))[there]
        return kkt_violation(x, prices, market.curvature[there], lo[there], hi[there])

    def _disagreement(self) -> float:
        assert self.models is not None
        return disagreement(self.models[self.present], self.worst.model)

    def _recount(self) -> tuple[int, int]:
        """Every packet has its number, perhaps a ledger, and codes or floats; around one-way links it is sent many times."""
        m = 0 if self.models is None else self.models.shape[1] * (2 if self._tracks else 1)
        if m and isinstance(self.method.learning, type):
            m = int(self.method.learning.numbers(m))  # type: ignore[attr-defined]
        low, high = sorted((bits_per_number(mantissa_bits(self.method.quantizer)), FLOAT_BITS))
        cpu_links, model_links = self.links_passed
        least, most = model_links * m * low, model_links * m * high
        if self.shares is not None:
            ledger = (FLOAT_BITS, FLOAT_BITS) if self._pushes else (SUM_BITS + 1, SUM_BITS + 1 + SCALE_BITS)
            least += cpu_links * (low + ledger[0])
            most += cpu_links * (high + ledger[1])
        apart = self.network.directed and self.shares is not None and cpu_links != model_links
        headers = HEADER_BITS * (cpu_links + model_links * (m > 0) if apart else max(cpu_links, model_links))
        return least + headers, most + headers

    def summary(self) -> dict[str, Any]:
        found = super().summary()
        found |= {
            "events": [{"round": e.round, "kind": e.kind, "nodes": list(e.nodes), "text": str(e)} for e in self.events],
            "present": np.flatnonzero(self.present).tolist(),
            "packets": self.packets,
            "packets_lost": self.lost,
            "trouble": list(self.trouble),
        }
        if self.shares is not None:
            found["in_flight"] = self.in_flight
        if "optimal_shares" in found:
            best = zip(found["optimal_shares"], self.present, strict=True)
            found["optimal_shares"] = [share if there else 0.0 for share, there in best]
        return found
