"""Estimators of the work a task still is, one file each, found by being in this folder.

A file states its class's `label`, its `rank` among the others, and what it needs (`needs_truth`, `needs_curves`).
"""

from typing import TYPE_CHECKING, Any

from equipoise._lazy import lazy
from equipoise.registry import Registry
from equipoise.share.estimators._base import Estimate as Estimate, Estimator as Estimator, Fit as Fit

ESTIMATORS: Registry[Estimator] = Registry("equipoise.share.estimators", "estimator")

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # the class of an estimator
else:
    __all__ = ["ESTIMATORS", "Estimate", "Estimator", "Fit", *(choice.object_name for choice in ESTIMATORS.choices())]
    lazy(__name__, registry=ESTIMATORS)
