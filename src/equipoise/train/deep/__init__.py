"""Nets over centres: small ones to train, plain ways to train them, and a study that puts them side by side. Needs torch."""

from equipoise.train.deep.rivals import WAYS, Outcome, Plan, centralised, decentralised, local_averaging, tracking
from equipoise.train.deep.study import RATES, Row, compare_deep, rounds_of, tune_rate
from equipoise.train.models.torch_model import NETS, cnn, mlp, net

__all__ = [
    "NETS",
    "RATES",
    "WAYS",
    "Outcome",
    "Plan",
    "Row",
    "centralised",
    "cnn",
    "compare_deep",
    "decentralised",
    "local_averaging",
    "mlp",
    "net",
    "rounds_of",
    "tracking",
    "tune_rate",
]
