"""Estimators of the work a task still is, one file each, found by being in this folder.

A file states its class's `label`, its `rank` among the others, and what it needs (`needs_truth`, `needs_curves`).
"""

from equipoise.registry import Registry
from equipoise.share.estimators._base import Estimate, Estimator, Fit
from equipoise.share.estimators.analogue import Analogue
from equipoise.share.estimators.bayes import Bayes
from equipoise.share.estimators.familiar import Familiar
from equipoise.share.estimators.log_linear import LogLinear
from equipoise.share.estimators.power_offset import PowerOffset
from equipoise.share.estimators.true_work import TrueWork

ESTIMATORS: Registry[Estimator] = Registry("equipoise.share.estimators", "estimator")

__all__ = [
    "ESTIMATORS",
    "Analogue",
    "Bayes",
    "Estimate",
    "Estimator",
    "Familiar",
    "Fit",
    "LogLinear",
    "PowerOffset",
    "TrueWork",
]
