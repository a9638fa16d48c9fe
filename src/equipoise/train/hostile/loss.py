"""Centres that died while a run without faults was on its way."""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.train.arrays import Floats, Ints


@dataclass
class CentresLost(Exception):
    """Whoever plays the rounds has lost centres, and has gone back to a round that all survivors remember."""

    nodes: tuple[int, ...]
    round: int
    held: Ints | None  # units of every centre before that round; of the dead only their sum is known
    models: Floats | None
    samples: int = 0  # drawn so far
    cpu_seconds: float = 0.0  # spent so far, where shares buy samples
    known: bool = False  # the state has ledgers, knows of the loss, and goes on by itself

    def __str__(self) -> str:
        return f"round {self.round}: centres {', '.join(map(str, self.nodes))} are gone"
