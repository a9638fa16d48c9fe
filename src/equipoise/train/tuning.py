"""Fair tuning: every rival gets the parameters of its stated grid that do best on seeds no report uses.

The objective is the geometric mean of the relative distance after a fixed number of rounds, over all kinds of instances;
parameters with which a single instance diverges are out. `python benchmarks/train/tune.py` prints what the defaults are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.train.instances import Instances

SEEDS = range(900, 904)  # reports begin at seed 0
ROUNDS = 100
FLOOR = 1e-12  # distances below it are rounding, and count as it
KINDS = (
    Instances(),
    Instances(switching=5),
    Instances(boxes=True),
    Instances(cost="latency"),
    Instances(network="ring"),
    Instances(price=0.0),
    Instances(price=36.0, boxes=True),
    Instances(switching=5, boxes=True),
)


@dataclass(frozen=True)
class Trial:
    """One point of the grid with its score: the geometric mean distance, infinite if an instance diverged."""

    parameters: dict[str, Any]
    score: float


def tune(
    rival: Any, kinds: Sequence[Instances] = KINDS, seeds: Sequence[int] = SEEDS, rounds: int = ROUNDS
) -> list[Trial]:
    """Every point of the rival's grid, the best first. Kinds that it refuses are left out."""
    drawn = [kind(seed) for kind in kinds for seed in seeds]
    playable = [pair for pair in drawn if not (hasattr(rival, "refuses") and rival().refuses(*pair))]
    if not playable:
        raise InputError(f"{rival.name} refuses every instance it was to be tuned on")
    trials = []
    for values in itertools.product(*rival.grid.values()):
        parameters = dict(zip(rival.grid, values, strict=True))
        logs = []
        for problem, network in playable:
            track = rival(**parameters).play(problem, network, rounds, every=rounds)
            logs.append(math.log(max(track.at_round(rounds), FLOOR)))
            if math.isinf(logs[-1]):
                break
        trials.append(Trial(parameters, math.exp(float(np.mean(logs))) if math.isfinite(logs[-1]) else math.inf))
    return sorted(trials, key=lambda trial: trial.score)
