"""Centres train one digit classifier and split a CPU budget as they go; prints the certificate and draws the run.

python examples/train_digits.py              20 centres, to a gap of 1e-4
python examples/train_digits.py --quick      8 centres, to 1e-2
python examples/train_digits.py --figure digits.pdf
"""

import argparse

import numpy as np

from equipoise.data import digits, split
from equipoise.train import Latency, Network, Problem, Softmax, solve


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="fewer centres, a wider target")
    options.add_argument("--figure", help="where to draw the run, such as digits.pdf (needs equipoise[plots])")
    asked = options.parse_args()
    centres, target = (8, 1e-2) if asked.quick else (20, 1e-4)

    data, rng = digits(), np.random.default_rng(0)
    shards = split(data.X, data.y, centres, how="label")  # each centre sees only a few of the ten classes
    cost = Latency(
        work=[len(y) for _, y in shards],  # samples of a pass
        speed=rng.uniform(5, 20, centres),  # samples per CPU and second
        energy=1e-5,
        lo=10.0,
        hi=40.0,
    )
    model = Softmax(shards, classes=10, reg=0.01)
    problem = Problem(cost=cost, budget=25.0 * centres, model=model)
    network = Network.erdos_renyi(centres, 0.4, switching=5, seed=0)  # five graphs in turn
    run = solve(problem, network, rounds=5000, target=target)

    worst = min(model.accuracy(parameters, data.X_test, data.y_test) for parameters in run.models)
    print(f"{run.status} after {run.rounds} rounds and {run.bits / 8e6:.1f} MB; {worst:.1%} right at the worst centre")
    print(f"shares {run.shares.min():.1f} to {run.shares.max():.1f}, sum {run.shares.sum():g} CPUs")
    for check in run.certificate():
        print(f"  {check.name:10}{'passed' if check.passed else 'FAILED':8}{check.meaning}")
    print("certificate passed:", run.certificate().passed)
    if asked.figure:
        run.plot().savefig(asked.figure)
        print("drawn:", asked.figure)


if __name__ == "__main__":
    main()
