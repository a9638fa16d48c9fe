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

from equipoise.place.execution import Execution
from equipoise.place.placers.pdors import PDORS, PDORSSession
from equipoise.place.prices import Prices, Recalled


@dataclass(frozen=True)
class OASiS(PDORS):
    prices: Prices = field(default_factory=Recalled)
    backfill: bool = False
    label: str = "OASiS"
    colour: ClassVar[str] = "#0891b2"
    rank: ClassVar[int] = 2
    candidate: ClassVar[bool] = False  # never recommended
    family: ClassVar[str] = "oasis"
    settings: ClassVar[tuple[str, ...]] = ("prices", "packing")
    kind: ClassVar[str] = "recalled"

    def start(self, run: Execution, seed: int) -> PDORSSession:
        return PDORSSession(self, cast(Execution, Apart(run)), seed)


class Apart:
    """A run on which being together gains a parameter-server job nothing; all else is the run's own."""

    def __init__(self, run: Execution) -> None:
        self._run = run
        self.arrays = [
            one._replace(together=np.minimum(one.apart, one.together)) if one.per_server else one for one in run.arrays
        ]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked of a copy that is not filled yet
            raise AttributeError(name)
        return getattr(self._run, name)
