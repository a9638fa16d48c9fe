"""Tunes every rival on seeds that no report uses, and says whether its defaults are what came out.

python benchmarks/train/tune.py               # all of them, about three minutes
python benchmarks/train/tune.py ADMM          # these alone
"""

from __future__ import annotations

import argparse
import sys
import warnings

from equipoise.train import baselines
from equipoise.train.tuning import KINDS, ROUNDS, SEEDS, tune

SHOWN = 4  # best points of each grid


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
