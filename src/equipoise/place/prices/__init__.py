"""Kinds of prices, one file each, found by being in this folder: what a placer can post, most of it from history only.

A file states its class's `name` and `rank`; `needs_history = False` says that it takes no past jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise._moved import old_names
from equipoise.place.prices._posted import Posted, Prices, densities
from equipoise.place.prices.fixed import Fixed, Level
from equipoise.place.prices.recalled import Recalled
from equipoise.place.prices.replay import Replay
from equipoise.place.spec import PRICES

__all__ = ["PRICES", "Fixed", "Level", "Posted", "Prices", "Recalled", "Replay", "densities"]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)  # names of 0.1.0
