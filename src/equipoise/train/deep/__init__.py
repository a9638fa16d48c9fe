"""Nets over centres: small ones to train, and plain ways to train them, to be held against ours. Needs torch."""

from equipoise.train.deep.rivals import (
    RATES as RATES,
    WAYS as WAYS,
    Outcome as Outcome,
    Plan as Plan,
    centralised as centralised,
    decentralised as decentralised,
    local_averaging as local_averaging,
    tracking as tracking,
)
from equipoise.train.models.torch_model import NETS as NETS, cnn as cnn, mlp as mlp, net as net
