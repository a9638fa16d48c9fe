"""Gradient tracking by tvopt, played in tvopt's own environment: speed.py starts this script there and speaks to it.

It reads an instance (.npz: W, H, s, rate) and then lines with a number of rounds; to each it answers with the seconds that
these rounds took and the file that holds the models afterwards. tvopt's gradient tracking is Aug-DGM: two consensus steps
a round, like ours, with the descent inside the consensus. Imports nothing of ours.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from tvopt.costs import Quadratic, SeparableCost
from tvopt.distributed_solvers import aug_dgm
from tvopt.networks import Network


def main(instance: str, answer: str) -> None:
    given = np.load(instance)
    n = len(given["s"])
    adjacency = (given["W"] != 0) & ~np.eye(n, dtype=bool)
    network = Network(adjacency, weights=given["W"])
    cost = SeparableCost([Quadratic(H, -s[:, None]) for H, s in zip(given["H"], given["s"], strict=True)])
    problem = {"network": network, "f": cost}
    for line in sys.stdin:
        began = time.perf_counter()
        # Its first round is the start: a gradient and one consensus step, counted as a round.
        models = aug_dgm(problem, step=float(given["rate"]), num_iter=int(line))
        seconds = time.perf_counter() - began
        np.save(answer, models[:, 0, :].T)
        print(seconds, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
