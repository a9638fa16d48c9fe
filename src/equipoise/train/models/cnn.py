"""A convolutional net for images of 28 x 28 pixels; needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from equipoise.train.models._base import Shard

if TYPE_CHECKING:
    from equipoise.train.models.torch_model import TorchModel

words = "a convolutional net"
task = "classes"
deep = True


def cnn(shards: Sequence[Shard], *, classes: int, reg: float = 1e-4, seed: int = 0) -> TorchModel:
    """Over these shards, with first parameters by seed."""
    from equipoise.train.models.torch_model import TorchModel, net

    made = TorchModel(net("cnn", int(np.shape(shards[0][0])[1]), classes), shards, reg=reg, seed=seed)
    made.words = words
    return made
