"""Prices as given: so much per unit of each resource and slot, times a ratio when a machine is full."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from equipoise.errors import InputError, refuse_words
from equipoise.place.execution import Execution
from equipoise.place.job import Workload
from equipoise.place.prices._posted import LoadIndex, Posted
from equipoise.units import MILLI


@dataclass(frozen=True)
class Fixed:
    """`base` in utility per unit and slot on an empty machine; resources not named cost nothing."""

    base: Mapping[str, float] = field(default_factory=dict)
    ratio: float = 1.0
    name: ClassVar[str] = "fixed"
    rank: ClassVar[int] = 5
    needs_history: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.base, Mapping):
            raise InputError(f"Fixed: base is {self.base!r}; expected prices by resource, as {{'gpu': 2.0}}")
        refuse_words("Fixed", ratio=self.ratio)
        if not 1.0 <= self.ratio <= 1e300:
            why = "expected 1 or more: a full machine's price over an empty one's"
            raise InputError(f"Fixed: ratio is {self.ratio!r}; {why}", code="prices.ratio")
        for name, price in self.base.items():
            refuse_words("Fixed: the price", **{str(name): price})
            if not 0.0 <= price < math.inf:
                raise InputError(f"Fixed: the price of {name} is {price!r}; expected zero or more", code="prices.range")

    def post(self, run: Execution, policy: object = None) -> Posted:
        resources = run.cluster.resources
        run.cluster.demand(dict.fromkeys(self.base, 1), "Fixed")  # refuses a resource that the cluster lacks
        base = np.array([[self.base.get(r, 0.0) / MILLI for r in resources]])
        return Posted(base, np.full(len(resources), math.log(self.ratio)), {"kind": "fixed", "ratio": self.ratio})


@dataclass(frozen=True)
class Level:
    """All of the cluster costs `level` per slot when empty, spread over resources by their totals; x ratio when full."""

    level: float
    ratio: float
    lead: float = 0.0  # slots over which the price of a slot rises as it is further ahead; 0: none
    follow: tuple[float, Workload] | None = None  # the clearing price of a history: prices follow the load from there
    name: ClassVar[str] = "level"

    def post(self, run: Execution, policy: object = None) -> Posted:
        total = np.maximum(run.cluster.total, 1)
        note = {"kind": "level", "level": self.level, "ratio": self.ratio, "lead": self.lead}
        lead = 1.0 - np.exp(-(np.arange(1.0, 6.0 * self.lead + 1.0)) / self.lead) if self.lead > 0 else np.ones(1)
        load = None
        if self.follow is not None and self.level > 0.0:
            load = LoadIndex(run, self.follow[1], self.follow[0], run.horizon)
        return Posted((self.level / total)[None, :], np.full(len(total), math.log(self.ratio)), note, lead, load)
