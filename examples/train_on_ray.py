"""The same training run in this process and on Ray actors: the same shares, models and bits, to the last bit.

python examples/train_on_ray.py                              a Ray of this machine, two workers
python examples/train_on_ray.py --address 10.0.0.1:6379      your cluster; or ray://HOST:10001, or auto
"""

import argparse

import numpy as np

from equipoise.engine import Workers
from equipoise.train import LeastSquares, Network, Problem, Quadratic, solve

CENTRES = 40


def problem() -> Problem:
    """A regression over 40 centres that also share 800 CPUs."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(5)
    shards = []
    for _ in range(CENTRES):
        X = rng.standard_normal((50, 5))
        shards.append((X, X @ truth + 0.1 * rng.standard_normal(50)))
    cost = Quadratic(a=rng.uniform(0.5, 2, CENTRES), c=rng.uniform(10, 40, CENTRES), lo=5.0, hi=60.0)
    return Problem(cost=cost, budget=800.0, model=LeastSquares(shards, reg=0.1))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--address", help="of a Ray cluster; a Ray of this machine unless given")
    options.add_argument("--workers", type=int, default=2)
    asked = options.parse_args()

    network = Network.erdos_renyi(CENTRES, 0.2, seed=1)
    alone = solve(problem(), network, rounds=300)
    with Workers(asked.workers, on="ray", address=asked.address) as workers:
        spread = solve(problem(), network, rounds=300, engine=workers)
        print("played on", workers.says)
    print("shares the same:", bool((alone.shares == spread.shares).all()))
    print("models the same:", bool((alone.models == spread.models).all()))
    print(f"bits over all links: {alone.bits:,} and {spread.bits:,}")
    print("certificate passed:", spread.certificate().passed)


if __name__ == "__main__":
    main()
