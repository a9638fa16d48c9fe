"""Centres train one model by consensus and gradient tracking and negotiate a CPU budget in the same loop."""

from typing import TYPE_CHECKING

from equipoise._lazy import lazy

if TYPE_CHECKING:
    from equipoise.errors import InputError
    from equipoise.train import baselines
    from equipoise.train.comparison import MethodComparison, compare
    from equipoise.train.costs import Coupled, Latency, Quadratic, check_cost
    from equipoise.train.hostile import Bursts, Faults, Partition
    from equipoise.train.method import Method
    from equipoise.train.models import LeastSquares, Model, SmoothSVM, Softmax, check_model
    from equipoise.train.models.torch_model import TorchModel as TorchModel  # torch is loaded when it is asked for
    from equipoise.train.network import Network
    from equipoise.train.problem import Problem
    from equipoise.train.quantize import Exact, LogQuantizer, UniformQuantizer
    from equipoise.train.run import Run
    from equipoise.train.solve import Moment, solve
    from equipoise.train.spec import CompareSpec, TrainSpec
    from equipoise.train.steps import StepWarning
else:
    lazy(__name__)

__all__ = [
    "Bursts",
    "CompareSpec",
    "Coupled",
    "Exact",
    "Faults",
    "InputError",
    "Latency",
    "LeastSquares",
    "LogQuantizer",
    "Method",
    "MethodComparison",
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
    "TrainSpec",
    "UniformQuantizer",
    "baselines",
    "check_cost",
    "check_model",
    "compare",
    "solve",
]
