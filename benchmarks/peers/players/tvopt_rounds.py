"""Gradient tracking by tvopt: Aug-DGM, two consensus steps per round, with the descent inside the consensus."""

from __future__ import annotations

import numpy as np
from line import Request, listen, timed
from tvopt.costs import Quadratic, SeparableCost
from tvopt.distributed_solvers import aug_dgm
from tvopt.networks import Network


def play(request: Request) -> Request:
    """`rounds` rounds from zero on the instance in `file`; models go to `answer`."""
    given = np.load(request["file"])

    def build() -> dict[str, object]:
        n = len(given["s"])
        network = Network((given["W"] != 0) & ~np.eye(n, dtype=bool), weights=given["W"])
        return {
            "network": network,
            "f": SeparableCost([Quadratic(H, -s[:, None]) for H, s in zip(given["H"], given["s"], strict=True)]),
        }

    problem, start = timed(build)
    # Its first round is the start: a gradient and one consensus step, counted as a round.
    models, spent = timed(lambda: aug_dgm(problem, step=float(given["rate"]), num_iter=request["rounds"]))
    np.save(request["answer"], models[:, 0, :].T)
    return {**spent, "start": start["wall"]}


if __name__ == "__main__":
    listen(play)
