"""Centres train one model by consensus and gradient tracking and negotiate a CPU budget in the same loop."""

from typing import TYPE_CHECKING

from equipoise._lazy import lazy

if TYPE_CHECKING:
    from equipoise.errors import InputError as InputError
    from equipoise.train import baselines as baselines
    from equipoise.train.comparison import MethodComparison as MethodComparison, compare as compare
    from equipoise.train.costs import (
        Coupled as Coupled,
        Latency as Latency,
        Quadratic as Quadratic,
        check_cost as check_cost,
    )
    from equipoise.train.dynamics.own import Dynamics as Dynamics
    from equipoise.train.estimators import (
        DecentralisedClassifier as DecentralisedClassifier,
        DecentralisedRegressor as DecentralisedRegressor,
    )
    from equipoise.train.hostile import Bursts as Bursts, Faults as Faults, Partition as Partition
    from equipoise.train.instances import Instances as Instances
    from equipoise.train.method import Method as Method
    from equipoise.train.models import (
        LeastSquares as LeastSquares,
        Model as Model,
        SmoothSVM as SmoothSVM,
        Softmax as Softmax,
        check_model as check_model,
    )
    from equipoise.train.models.torch_model import TorchModel as TorchModel  # torch is loaded when it is asked for
    from equipoise.train.network import Network as Network
    from equipoise.train.problem import Problem as Problem
    from equipoise.train.quantize import (
        Exact as Exact,
        LogQuantizer as LogQuantizer,
        UniformQuantizer as UniformQuantizer,
    )
    from equipoise.train.run import Run as Run
    from equipoise.train.solve import Control as Control, Moment as Moment, solve as solve
    from equipoise.train.spec import CompareSpec as CompareSpec, TrainSpec as TrainSpec
    from equipoise.train.steps import StepWarning as StepWarning
else:
    lazy(__name__, extras=["TorchModel"])
