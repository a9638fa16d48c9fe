"""Estimators of the work a task still is. One file each."""

from equipoise.share.estimators._base import Estimate, Estimator, Fit
from equipoise.share.estimators.analogue import Analogue
from equipoise.share.estimators.bayes import Bayes
from equipoise.share.estimators.familiar import Familiar
from equipoise.share.estimators.log_linear import LogLinear
from equipoise.share.estimators.power_offset import PowerOffset
from equipoise.share.estimators.truth import TrueWork

__all__ = ["Analogue", "Bayes", "Estimate", "Estimator", "Familiar", "Fit", "LogLinear", "PowerOffset", "TrueWork"]
