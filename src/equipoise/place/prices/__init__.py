"""Kinds of prices, one file each, found by being in this folder: what a placer can post, most of it from history only.

A file states its class's `name` and `rank`; `needs_history = False` says that it takes no past jobs.
"""

from __future__ import annotations

from equipoise.place.prices._posted import Posted, Prices, densities
from equipoise.place.prices.best import Best
from equipoise.place.prices.bid import Bid
from equipoise.place.prices.fixed import Fixed, Level
from equipoise.place.prices.recalled import Recalled
from equipoise.place.prices.replay import Replay
from equipoise.place.spec import PRICES

__all__ = ["PRICES", "Best", "Bid", "Fixed", "Level", "Posted", "Prices", "Recalled", "Replay", "densities"]
