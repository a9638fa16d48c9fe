"""A cost of CPU of your own: money for spot and on-demand cores, checked, and shared at the least price in all.

python examples/train_your_own_cost.py
"""

import numpy as np

from equipoise.train import Network, Problem, check_cost, solve


class Cloud:
    """Waiting for the work to end costs money, and so do cores: a rate, and a premium that grows with every core."""

    def __init__(self, work, hour, rate, premium, lo, hi):
        self.work, self.hour = np.asarray(work), np.asarray(hour)  # core-hours; cost of waiting an hour
        self.rate, self.premium = np.asarray(rate), np.asarray(premium)  # money a core, and how steeply more cost more
        self.lo, self.hi = np.asarray(lo, float), np.asarray(hi, float)  # cores a centre can use

    def value(self, x):
        """What each centre pays with x cores, one number per centre."""
        return self.hour * self.work / x + self.rate * x + self.premium * x**2 / 2

    def derivative(self, x):
        """The price of one core more: centres trade until it is the same for all who are free to."""
        return -self.hour * self.work / x**2 + self.rate + self.premium * x


def main() -> None:
    rng = np.random.default_rng(0)
    cost = Cloud(
        work=rng.uniform(50, 200, 12),
        hour=rng.uniform(1, 5, 12),
        rate=rng.uniform(0.1, 0.5, 12),
        premium=rng.uniform(0.01, 0.05, 12),
        lo=np.full(12, 2.0),
        hi=np.full(12, 30.0),
    )
    check_cost(cost)  # says in a line what is wrong with it, if anything is
    run = solve(Problem(cost=cost, budget=180.0), Network.ring(12), rounds=2000, target=1e-8)

    equal = cost.value(np.full(12, 15.0)).sum()
    print(f"equal shares cost {equal:.1f}, negotiated ones {cost.value(run.shares).sum():.1f}")
    print("shares:", run.shares.round(2), "sum", run.shares.sum())
    inside = (run.shares > cost.lo + 1e-6) & (run.shares < cost.hi - 1e-6)
    prices = cost.derivative(run.shares)[inside]
    print(f"price of a core at every centre inside its box: {prices.min():.4f} to {prices.max():.4f}")
    print("certificate passed:", run.certificate().passed)


if __name__ == "__main__":
    main()
