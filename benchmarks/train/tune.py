"""Tunes every rival on seeds that no report uses, and says whether its defaults are what came out.

The objective is the geometric mean of the relative distance after a fixed number of rounds, over all kinds of instances;
parameters with which a single instance diverges are out.

python benchmarks/train/tune.py               # all of them, about three minutes
python benchmarks/train/tune.py ADMM          # these alone
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.train import baselines
from equipoise.train.instances import Instances

SHOWN = 4  # best points of each grid
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


def tuned_name(text: str) -> str:
    """A rival that has a grid, spelt as in the table of docs/compare-methods.md."""
    known = [rival.name for rival in baselines.CLASSES if rival.grid]
    found = next((name for name in known if name.lower() == text.lower()), None)
    if found is None:
        raise argparse.ArgumentTypeError(f"nothing to tune is called {text!r} (known: {', '.join(known)})")
    return found


def main(arguments: list[str]) -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("names", nargs="*", type=tuned_name, metavar="NAME", help="rivals to tune; all unless given")
    names = options.parse_args(arguments).names
    warnings.simplefilter("ignore")
    print(f"geometric mean distance after {ROUNDS} rounds, {len(KINDS)} kinds, seeds {SEEDS[0]} to {SEEDS[-1]}")
    for rival in baselines.CLASSES:
        if not rival.grid or (names and rival.name not in names):
            continue
        trials = tune(rival)
        best = trials[0].parameters
        standing = {name: getattr(rival(), name) for name in best}
        print(f"\n{rival.name}: {'defaults are the best' if best == standing else f'DEFAULTS DIFFER: {standing}'}")
        for trial in trials[:SHOWN]:
            print(f"  {trial.score:9.2e}  {', '.join(f'{name} {value}' for name, value in trial.parameters.items())}")
        lost = sum(trial.score == float("inf") for trial in trials)
        print(f"  {lost} of {len(trials)} points diverge somewhere")


if __name__ == "__main__":
    main(sys.argv[1:])
