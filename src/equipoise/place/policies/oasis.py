"""OASiS (after Bao et al.): prices and promises as PDORS', as if workers and servers never met on one machine.

The original hosts them on disjoint sets of machines. Here they share the machines, and a parameter-server job is planned
at the between-machines rate wherever it sits, which keeps the original's loss without leaving half the GPUs among
servers. Should a job land on one machine after all, it truly runs faster and is done before its plan. Bad at jobs with
large gradients on slow networks, which it thinks hopeless; all-reduce jobs it plans as PDORS does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np

from equipoise.place.desk import Desk
from equipoise.place.policies.pdors import PDORS, Session
from equipoise.place.prices import Prices


def _recalled() -> Prices:
    from equipoise.place.prices.recalled import Recalled

    return Recalled()


@dataclass(frozen=True)
class OASiS(PDORS):
    prices: Prices = field(default_factory=_recalled)
    backfill: bool = False
    label: str = "OASiS"
    colour: ClassVar[str] = "#0891b2"
    family: ClassVar[str] = "oasis"

    def start(self, desk: Desk, seed: int) -> Session:
        return Session(self, cast(Desk, Apart(desk)), seed)


class Apart:
    """A desk on which being together gains a parameter-server job nothing; all else is the desk's own."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.shapes = [
            shape._replace(together=np.minimum(shape.apart, shape.together)) if shape.per_server else shape
            for shape in desk.shapes
        ]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._desk, name)
