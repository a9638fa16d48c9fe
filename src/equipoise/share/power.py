"""What one step of the site costs in energy, under three laws (docs/share.md, 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.compiled import kernel

Floats = NDArray[np.float64]
POOLED, PER_NODE, LINEAR = range(3)


@kernel
def step_energy(law: int, idle: float, busy: float, capacity: Floats, total: float, load: Floats) -> float:
    """Energy of one step that computes `total`; `load` is what each server runs, and is what "per_node" is charged by."""
    nodes = len(capacity)
    if law == PER_NODE:
        energy = 0.0
        for j in range(nodes):
            use = load[j] / capacity[j]
            energy += idle + busy * use * use * use
        return energy
    use = total / capacity.sum()
    return float(nodes * (idle + busy * (use if law == LINEAR else use * use * use)))


@kernel
def cheapest_loads(rates: Floats, n: int, load: Floats) -> None:
    """Speeds of like servers that serve rates[:n] at the least sum of cubes, moving tasks within the step.

    A task faster than the mean of the rest needs a server to itself; the others are spread evenly (McNaughton).
    `rates` is sorted in place, descending.
    """
    nodes = len(load)
    rest = 0.0
    for k in range(n):
        rest += rates[k]
    part = rates[:n]
    part.sort()
    alone = 0
    for k in range(n - 1, -1, -1):
        if alone >= nodes - 1 or part[k] <= rest / (nodes - alone):
            break
        load[alone] = part[k]
        rest -= part[k]
        alone += 1
    for j in range(alone, nodes):
        load[j] = max(rest, 0.0) / (nodes - alone)
