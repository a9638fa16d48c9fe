"""Estimators of the work a task still is, one file each, found by being in this folder.

A file states its class's `label`, its `rank` among the others, and what it needs (`needs_truth`, `needs_curves`).
"""

from typing import Any

from equipoise.registry import Registry
from equipoise.share.estimators._base import Estimate as Estimate, Estimator as Estimator, Fit as Fit

ESTIMATORS: Registry[Estimator] = Registry("equipoise.share.estimators", "estimator")


def __getattr__(name: str) -> Any:
    """The class of an estimator when it is asked for."""
    return ESTIMATORS.attribute(name, ("ESTIMATORS", "Estimate", "Estimator", "Fit"))
