"""Costs f_i(x_i) of a CPU share. One file each; a user's own needs value(x), derivative(x), lo and hi."""

from equipoise.train.costs._base import Cost, check_cost
from equipoise.train.costs.coupled import Coupled
from equipoise.train.costs.latency import Latency
from equipoise.train.costs.quadratic import Quadratic

__all__ = ["Cost", "Coupled", "Latency", "Quadratic", "check_cost"]
