"""A model of your own: robust regression (Huber's loss) over centres, one of which has spoilt data.

python examples/train_your_own_model.py
"""

import numpy as np

from equipoise.train import LeastSquares, Model, Network, Problem, check_model, solve


class Huber(Model):
    """Squares near zero, absolute values beyond `width`: outliers pull with a bounded force."""

    def __init__(self, shards, width=1.0, reg=1e-2):
        self.shards, self.width, self.reg = shards, width, reg
        self.nodes, self.size = len(shards), shards[0][0].shape[1]
        self.samples = sum(len(y) for _, y in shards)

    def loss(self, node, y):
        X, targets = self.shards[node]
        off = np.abs(X @ y - targets)
        each = np.where(off <= self.width, off**2 / 2, self.width * (off - self.width / 2))
        return each.sum() / self.samples + self.reg / (2 * self.nodes) * y @ y

    def gradient(self, node, y):
        X, targets = self.shards[node]
        pull = np.clip(X @ y - targets, -self.width, self.width)
        return X.T @ pull / self.samples + self.reg / self.nodes * y


def main() -> None:
    rng, truth = np.random.default_rng(0), np.array([2.0, -1.0, 0.5])
    shards = []
    for node in range(8):
        X = rng.standard_normal((60, 3))
        y = X @ truth + 0.1 * rng.standard_normal(60)
        shards.append((X, y + (30.0 if node == 3 else 0.0)))  # centre 3 measures 30 too much

    check_model(Huber(shards))  # says in a line what is wrong with it, if anything is
    network = Network.erdos_renyi(8, 0.4, switching=3, seed=0)
    for name, model in {"least squares": LeastSquares(shards, reg=1e-2), "Huber": Huber(shards)}.items():
        run = solve(Problem(model=model), network, rounds=4000, target=1e-6)
        found = run.models.mean(axis=0)
        print(f"{name:14}{found.round(3)}, {np.abs(found - truth).max():.3f} from the truth at most")
        print(f"{'':14}certificate passed: {run.certificate().passed}")


if __name__ == "__main__":
    main()
