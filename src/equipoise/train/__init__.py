"""Centres train one model by consensus and gradient tracking and negotiate a CPU budget in the same loop."""

from typing import Any

from equipoise._moved import old_names
from equipoise.errors import InputError
from equipoise.train import baselines
from equipoise.train.comparison import compare
from equipoise.train.costs import Coupled, Latency, Quadratic, check_cost
from equipoise.train.hostile import Bursts, Faults, Partition
from equipoise.train.method import Method
from equipoise.train.models import LeastSquares, Model, SmoothSVM, Softmax, check_model
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import Exact, LogQuantizer, UniformQuantizer
from equipoise.train.run import Run
from equipoise.train.solve import Moment, solve
from equipoise.train.steps import StepWarning

__all__ = [
    "Bursts",
    "Coupled",
    "Exact",
    "Faults",
    "InputError",
    "Latency",
    "LeastSquares",
    "LogQuantizer",
    "Method",
    "Model",
    "Moment",
    "Network",
    "Partition",
    "Problem",
    "Quadratic",
    "Run",
    "SmoothSVM",
    "Softmax",
    "StepWarning",
    "UniformQuantizer",
    "baselines",
    "check_cost",
    "check_model",
    "compare",
    "solve",
]


def __getattr__(name: str) -> Any:
    if name != "TorchModel":
        return old_names(__name__)(name)
    from equipoise.train.models.torch_model import TorchModel  # torch is loaded when it is asked for

    return TorchModel
