"""Prices, one file each: the kinds a policy can post, most of them from history only."""

from equipoise.place.prices._posted import Posted, Prices, densities
from equipoise.place.prices.best import Best
from equipoise.place.prices.bid import Bid
from equipoise.place.prices.fixed import Fixed, Level
from equipoise.place.prices.recalled import Recalled
from equipoise.place.prices.replay import Replay

__all__ = ["Best", "Bid", "Fixed", "Level", "Posted", "Prices", "Recalled", "Replay", "densities"]
