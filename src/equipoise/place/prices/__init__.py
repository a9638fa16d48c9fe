"""Prices, one file each."""

from equipoise.place.prices.fixed import Fixed, Level
from equipoise.place.prices.posted import Posted, Prices, densities

__all__ = ["Fixed", "Level", "Posted", "Prices", "densities"]
