"""Prices of single tasks, as Hybrid's tiles give them."""

import numpy as np

from equipoise.kernels import Floats, kernel
from equipoise.share.policies import _prices as tile


@kernel
def _priced(t: Floats, free: Floats, part: float, look: bool) -> float:
    if look:
        tile.look_ahead(t, 1)
    tile.price_all(t, 1)
    return tile.price_mixed(t, 0, part, free) if t[tile.SURE] < 1.0 else 0.0


def price_of(left: Floats, free: Floats, sure: float, most: float, part: float) -> tuple[float, float, float]:
    """Price, the quantile `part` of the work left where that is not sure, and P(success in time)."""
    t, other = np.ones(tile.ROOM), np.ones(tile.ROOM)
    for row, amounts in ((t, left), (other, free)):
        row[: tile.WIDTH * len(left) : tile.WIDTH] = amounts
    t[tile.MOST], t[tile.SURE] = most, sure
    middle = _priced(t, other, part, False)
    return float(t[tile.PRICE]), middle, float(t[tile.HOPE])


def quantiles_of(mean: float, sd: float, done: float) -> Floats:
    """Of the work left."""
    t = np.ones(tile.ROOM)
    t[tile.MEAN], t[tile.SD], t[tile.DONE], t[tile.LEAST] = mean, sd, done, done
    _priced(t, t, 0.5, True)
    return t[: 8 * tile.WIDTH : tile.WIDTH]
