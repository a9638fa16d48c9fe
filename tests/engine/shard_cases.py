"""Problems, networks and methods that a run on workers is compared on, and the comparison."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.train import (
    Coupled,
    Exact,
    Latency,
    LeastSquares,
    LogQuantizer,
    Method,
    Network,
    Problem,
    Quadratic,
    SmoothSVM,
    Softmax,
    UniformQuantizer,
)

NODES = 20


class Cubic:
    """A user's cost, of a kind that no kernel knows: f = x^3 / 3 - w x."""

    def __init__(self, wish: Any) -> None:
        self.wish, self.lo, self.hi = wish, 0.5, 20.0

    def value(self, x: Any) -> Any:
        return x**3 / 3 - self.wish * x

    def derivative(self, x: Any) -> Any:
        return x**2 - self.wish


class Hills:
    """A user's model: |y - w_i|^2 / 2 with a bump, node by node."""

    def __init__(self, nodes: int, size: int) -> None:
        self.nodes, self.size = nodes, size
        self.wish = np.random.default_rng(7).standard_normal((nodes, size))

    def loss(self, node: int, y: Any) -> float:
        return float(0.5 * np.sum((y - self.wish[node]) ** 2) + np.sum(np.log(np.cosh(y))))

    def gradient(self, node: int, y: Any) -> Any:
        return y - self.wish[node] + np.tanh(y)


def problem(kind: str, n: int = NODES) -> Problem:
    rng = np.random.default_rng(0)
    data = [(rng.standard_normal((12, 3)), rng.standard_normal(12)) for _ in range(n)]
    signs = [(X, np.where(y > 0, 1, 0)) for X, y in data]
    a, c = rng.uniform(0.5, 2, n), rng.uniform(5, 15, n)
    if kind == "boxed":
        return Problem(Quadratic(a, c, lo=8.0, hi=13.0), 10.0 * n, LeastSquares(data, reg=0.1))
    if kind == "open":
        return Problem(Quadratic(a, c), 10.0 * n, Softmax(signs, reg=0.1))
    if kind == "latency":
        return Problem(
            Latency(rng.uniform(1, 9, n), energy=0.01, lo=0.1, hi=15.0),
            5.0 * n,
            SmoothSVM([(X, 2 * y - 1) for X, y in signs]),
        )
    if kind == "coupled":
        speed = rng.uniform(1, 3, n)
        return Problem(Coupled(speed, sizes=[12] * n, lo=0.3, hi=3.0), 1.5 * n, Softmax(signs, reg=0.1))
    assert kind == "own"
    return Problem(Cubic(c), 4.0 * n, Hills(n, 4))


NETWORKS = {
    "static": Network.erdos_renyi(NODES, 0.2, seed=1),
    "switching": Network.erdos_renyi(NODES, 0.2, switching=5, seed=1),
    "fresh": Network.erdos_renyi(NODES, 0.2, switching="fresh", seed=1),
    "one-way": Network.erdos_renyi(NODES, 0.3, switching=3, seed=1, directed=True),
}
METHODS = {
    "log": Method(),
    "exact": Method(quantizer=Exact()),
    "coarse": Method(quantizer=LogQuantizer(rho=1.0)),
    "paper": Method.paper(),
    "edge": Method(quantizer=LogQuantizer(mode="edge")),
    "uniform": Method(quantizer=UniformQuantizer()),
    "limit": Method(box="limit"),
}
KINDS: dict[str, dict[str, Any]] = {
    "undirected": {"network": NETWORKS["switching"], "method": METHODS["exact"]},
    "quantised": {"network": NETWORKS["switching"], "method": METHODS["log"]},
}


def differences(one: Any, other: Any) -> list[str]:
    """What of two runs is not the same to the bit."""
    found = [
        name for name in ("shares", "models", "share_history") if not _same(getattr(one, name), getattr(other, name))
    ]
    found += [name for name in one.history if not _same(one.history[name], other.history[name])]
    found += [
        name
        for name in ("status", "reason", "rounds", "tallies", "bit_parts", "worst")
        if getattr(one, name) != getattr(other, name)
    ]
    found += [
        f"link {name}"
        for name in ("senders", "receivers", "bits")
        if not _same(getattr(one.link_bits, name), getattr(other.link_bits, name))
    ]
    return found


def _same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()
