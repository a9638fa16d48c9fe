"""A fifth of all packets is lost, one centre dies and the network splits for a while; no CPU is lost or spent twice.

python examples/train_on_a_hostile_network.py
"""

import numpy as np

from equipoise.train import Faults, LeastSquares, Network, Partition, Problem, Quadratic, solve

CENTRES, BUDGET = 10, 150.0


def main() -> None:
    rng, truth = np.random.default_rng(0), np.array([1.0, -2.0, 0.5])
    shards = []
    for _ in range(CENTRES):
        X = rng.standard_normal((40, 3))
        shards.append((X, X @ truth + 0.1 * rng.standard_normal(40)))
    cost = Quadratic(a=rng.uniform(0.5, 3, CENTRES), c=rng.uniform(0, 40, CENTRES), lo=2.0, hi=30.0)
    problem = Problem(cost=cost, budget=BUDGET, model=LeastSquares(shards))

    faults = Faults(
        loss=0.2,  # of all packets, each direction by itself
        delay=2,  # rounds a packet takes: 0, 1 or 2
        crash={7: 60},  # centre 7 dies before round 60
        partition=Partition({0, 1, 2}, 120, 160),  # these three are cut off for 40 rounds
    )
    network = Network.erdos_renyi(CENTRES, 0.4, switching=5, seed=0)
    run = solve(problem, network, faults=faults, rounds=2000, target=1e-6)

    print(*run.events, sep="\n")
    print(f"{run.status} after {run.rounds} rounds; {run.lost / run.packets:.0%} of {run.packets:,} packets lost")
    print("shares:", run.shares.round(2))
    print("shares + in flight == budget:", float(run.shares.sum()) + run.in_flight == BUDGET)
    print("certificate passed:", run.certificate().passed)


if __name__ == "__main__":
    main()
