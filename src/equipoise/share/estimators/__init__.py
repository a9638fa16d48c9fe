"""Estimators of the work a task still is. One file each."""

from equipoise.share.estimators.estimator import Estimate, Estimator, Fit
from equipoise.share.estimators.log_linear import LogLinear
from equipoise.share.estimators.truth import TrueWork

__all__ = ["Estimate", "Estimator", "Fit", "LogLinear", "TrueWork"]
