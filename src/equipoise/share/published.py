"""The published table at 60 tasks (Hasan and Peña, "Robustness–Efficiency Trade-offs in Learning-Aware Distributed
Scheduling", comparison at 60 tasks). It is one run: every success is a whole number of tasks out of 60."""

from __future__ import annotations

from typing import NamedTuple

LOAD = 60


class Published(NamedTuple):
    success: float  # percent of 60 tasks
    energy: float

    @property
    def efficiency(self) -> float:
        """Percent per unit of energy, as the table divides."""
        return self.success / self.energy


TABLE = {
    "Uniform": Published(50.0, 1852.0),
    "SDF": Published(48.3, 3080.0),
    "LARA": Published(30.0, 2485.0),
    "UARA": Published(46.7, 1940.0),
    "UARA+LARA": Published(33.3, 1101.0),
}
