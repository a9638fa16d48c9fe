"""Tunes every rival on seeds that no report uses, and says whether its defaults are what came out.

python benchmarks/train/tune.py [NAME ...]    about three minutes for all
"""

from __future__ import annotations

import sys
import warnings

from equipoise.train import baselines
from equipoise.train.tuning import KINDS, ROUNDS, SEEDS, tune

SHOWN = 4  # best points of each grid


def main(names: list[str]) -> None:
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
