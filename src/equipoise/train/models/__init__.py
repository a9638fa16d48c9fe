"""Models g_i(y) that the centres train together. One file each; a user's own needs nodes, size, loss and gradient.

`TorchModel` is here too, and imports torch when it is asked for.
"""

from typing import Any

from equipoise.train.models._base import Model, check_model
from equipoise.train.models.least_squares import LeastSquares
from equipoise.train.models.smooth_svm import SmoothSVM
from equipoise.train.models.softmax import Softmax

__all__ = ["LeastSquares", "Model", "SmoothSVM", "Softmax", "check_model"]


def __getattr__(name: str) -> Any:
    if name != "TorchModel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from equipoise.train.models.torch_model import TorchModel

    return TorchModel
