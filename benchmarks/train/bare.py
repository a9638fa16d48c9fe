"""The bare script to beat: gradient tracking for least squares in sparse NumPy/SciPy, no CPU, no quantiser, no audit.

What a competent NumPy user writes in an afternoon. `gradient_tracking` keeps models and trackers apart, as the equations
do; `gradient_tracking_side_by_side` keeps them in one buffer, so that each round is one sparse product. `products` holds
three ways to multiply a stack of small matrices; which is fastest depends on n, m and the machine, so a benchmark
measures (`fastest_product`) and takes the best.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

Floats = NDArray[np.float64]
Product = Callable[[Floats, Floats], Floats]

products: dict[str, Product] = {
    "einsum": lambda H, Y: np.einsum("nij,nj->ni", H, Y),
    "matmul": lambda H, Y: np.matmul(H, Y[:, :, None])[:, :, 0],
}
if hasattr(np, "matvec"):
    products["matvec"] = lambda H, Y: np.matvec(H, Y)


def mixing_matrix(n: int, tails: Any, heads: Any, step: float) -> Any:
    """W = I - step x Laplacian with Metropolis weights 1 / (1 + max degree), as CSR."""
    degree = np.bincount(tails, minlength=n) + np.bincount(heads, minlength=n)
    w = step / (1.0 + np.maximum(degree[tails], degree[heads]))
    kept = 1.0 - np.bincount(tails, w, n) - np.bincount(heads, w, n)
    rows, columns = np.concatenate([tails, heads, np.arange(n)]), np.concatenate([heads, tails, np.arange(n)])
    W = coo_array((np.concatenate([w, w, kept]), (rows.astype(np.int32), columns.astype(np.int32))), shape=(n, n))
    return W.tocsr()


def gradient_tracking(
    graphs: Sequence[Any], H: Floats, s: Floats, rate: float, rounds: int, product: Product
) -> tuple[Floats, Floats]:
    """y+ = W y - rate z; z+ = W z + grad(y+) - grad(y); the graphs take turns."""
    Y = np.zeros_like(s)
    G = product(H, Y) - s
    Z = G.copy()
    for W in islice(cycle(graphs), rounds):
        Y = W @ Y - rate * Z
        new = product(H, Y) - s
        Z = W @ Z + new - G
        G = new
    return Y, Z


def gradient_tracking_side_by_side(
    graphs: Sequence[Any], H: Floats, s: Floats, rate: float, rounds: int, product: Product
) -> tuple[Floats, Floats]:
    """The same on one buffer [Y | Z]."""
    m = s.shape[1]
    G = product(H, np.zeros_like(s)) - s
    YZ = np.hstack([np.zeros_like(s), G])
    for W in islice(cycle(graphs), rounds):
        mixed = W @ YZ
        mixed[:, :m] -= rate * YZ[:, m:]
        new = product(H, mixed[:, :m]) - s
        mixed[:, m:] += new - G
        YZ, G = mixed, new
    return YZ[:, :m], YZ[:, m:]


def fastest_product(H: Floats, s: Floats) -> tuple[str, Product]:
    """The best of a few tries of each."""
    tries, repeats = 5, max(1, 20_000 // len(s))
    spent = {}
    for name, product in products.items():
        turns = []
        for _ in range(tries):
            began = time.perf_counter()
            for _ in range(repeats):
                product(H, s)
            turns.append(time.perf_counter() - began)
        spent[name] = min(turns)
    best = min(spent, key=lambda name: spent[name])
    return best, products[best]
