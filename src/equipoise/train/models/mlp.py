"""A net with one hidden layer of ReLUs; needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.train.models._base import Shard

if TYPE_CHECKING:
    from equipoise.train.models.torch_model import TorchModel

words = "a net with one hidden layer"
task = "classes"
deep = True


def mlp(
    shards: Sequence[Shard], *, classes: int, reg: float = 1e-4, seed: int = 0, class_weight: Any = None
) -> TorchModel:
    """Over these shards, with first parameters by seed."""
    from equipoise.train.models.torch_model import TorchModel, net

    made = TorchModel(
        net("mlp", int(np.shape(shards[0][0])[1]), classes), shards, reg=reg, seed=seed, class_weight=class_weight
    )
    made.words, made.kind, made.classes = words, "mlp", classes
    return made
