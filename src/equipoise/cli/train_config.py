"""What `equipoise train` can be told, and how that becomes a problem, a network and a method."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, field_validator

from equipoise.cli.options import setting
from equipoise.errors import InputError, unknown_name

Number = float | list[float]
DATA = ("digits", "breast_cancer", "mnist", "csv", "none")
NETWORKS = ("erdos_renyi", "geometric", "ring", "path", "star", "grid", "complete", "file")
MODELS = ("auto", "softmax", "smooth_svm", "least_squares", "none")
COSTS = ("latency", "quadratic", "none")
QUANTIZERS = ("log", "uniform", "exact")
METHODS = ("equipoise", "paper")
NAMES = {
    "data": DATA,
    "model": MODELS,
    "cost": COSTS,
    "network": NETWORKS,
    "quantizer": QUANTIZERS,
    "method": METHODS,
    "weights": ("auto", "laplacian", "metropolis"),
    "split": ("even", "label", "dirichlet"),
}


class TrainConfig(BaseModel):
    """Everything that determines a run; the same file repeats it bit for bit."""

    model_config = ConfigDict(extra="forbid", validate_default=True, ser_json_inf_nan="strings")

    data: str = setting("digits", f"Data set: {', '.join(DATA)}.", "Data")
    data_dir: str | None = setting(None, "Folder with the four MNIST idx files (gzip or not).", "Data", "DIR")
    data_file: str | None = setting(
        None,
        "CSV file with one sample a row; text labels, or up to 20 different whole numbers, are classes.",
        "Data",
        "FILE",
    )
    label: str | None = setting(None, "Label column of the CSV file; the last one unless given.", "Data", "COLUMN")
    samples: int | None = setting(None, "Use only so many training samples, drawn by class.", "Data")
    split: str = setting("label", "How samples reach the centres: even, label (sorted), dirichlet.", "Data")
    concentration: float = setting(1.0, "Of the Dirichlet split; smaller is more unequal.", "Data")

    model: str = setting("auto", f"Model: {', '.join(MODELS)}.", "Problem")
    reg: float | None = setting(None, "Ridge of the model; each model has its own default.", "Problem")
    mu: float = setting(3.0, "Sharpness of the smooth hinge (smooth_svm).", "Problem")
    cost: str = setting("latency", f"Cost of a CPU share: {', '.join(COSTS)}; parameters drawn by seed.", "Problem")
    budget: float | None = setting(None, "CPUs to share; 25 a centre unless given.", "Problem", "CPUS")
    lo: Number | None = setting(None, "Least CPUs a centre can use; 10 unless given.", "Problem", "CPUS")
    hi: Number | None = setting(None, "Most CPUs a centre can use; 40 unless given.", "Problem", "CPUS")
    a: Number | None = setting(None, "Curvature of quadratic costs.", "Problem", only_in_file=True)
    c: Number | None = setting(None, "Wishes of quadratic costs.", "Problem", only_in_file=True)
    work: Number | None = setting(None, "Work of latency costs.", "Problem", only_in_file=True)
    speed: Number | None = setting(None, "Speed of latency costs.", "Problem", only_in_file=True)
    energy: Number | None = setting(None, "Energy factor of latency costs.", "Problem", only_in_file=True)
    budgets: dict[int, float] = setting({}, "Changes of budget: round to CPUs.", "Problem", only_in_file=True)

    nodes: int = setting(20, "Number of computing centres.", "Network")
    network: str = setting(
        "erdos_renyi", "erdos_renyi, geometric, ring, path, star, grid, complete, or file.", "Network"
    )
    network_file: str | None = setting(
        None, "Edge list, `i j` or `i j weight` a line (network=file).", "Network", "FILE"
    )
    p: float = setting(0.3, "Edge probability (erdos_renyi).", "Network")
    radius: float | None = setting(None, "Reach of a link in the unit square (geometric).", "Network")
    weights: str = setting(
        "auto", "Edge weights: auto, laplacian (the network's own, such as a file's) or metropolis.", "Network"
    )
    switching: int | Literal["fresh"] = setting(
        5, "Graphs taken in turn (0: one static graph), or `fresh`: a new one each round.", "Network", "COUNT|fresh"
    )

    quantizer: str = setting("log", f"Messages: {', '.join(QUANTIZERS)}; uniform ones leave a residual gap.", "Method")
    rho: float = setting(0.125, "Coarseness of the log quantiser; 9 bits at 0.125.", "Method")
    mode: str | None = setting(
        None,
        "innovation, node, or edge (a tool of analysis: no real channel can do it); each method has its own default.",
        "Method",
    )
    bits: int = setting(9, "Bits of the uniform quantiser.", "Method")
    method: str = setting("equipoise", f"{' or '.join(METHODS)} (the dynamics as published).", "Method")
    step: float | Literal["auto"] = setting(
        "auto", "Step of consensus and flows along edges; a number selects them.", "Method", "NUMBER|auto"
    )
    alpha: float | Literal["auto"] = setting(
        "auto", "Step along the tracked gradient; a number selects mixing along edges.", "Method", "NUMBER|auto"
    )
    momentum: bool | None = setting(
        None, "Off: the paper's dynamics along edges, one exchange a round; each method has its own default.", "Method"
    )
    box: str | None = setting(None, "price, limit or penalty; each method has its own default.", "Method")
    cap: float | Literal["auto"] = setting(
        "auto", "Momentum of the averaged models, below 1; auto follows their conditioning.", "Method", "NUMBER|auto"
    )

    rounds: int = setting(3000, "Rounds at most.", "Run")
    target: float = setting(1e-4, "Stop, and certify, at this part of the gap at the start.", "Run")
    patience: int | None = setting(None, "Stop when the gap has not improved by 1% in so many rounds.", "Run")
    every: int | None = setting(None, "Record history each so many rounds.", "Run")
    seed: int = setting(0, "Of data split, costs and network.", "Run")

    @field_validator(*NAMES)
    @classmethod
    def _known(cls, value: str, info: Any) -> str:
        known = NAMES[info.field_name]
        if value not in known:
            raise unknown_name(info.field_name, value, known)
        return value

    @field_validator("data_dir", "data_file", "network_file")
    @classmethod
    def _whole_path(cls, value: str | None) -> str | None:
        """Absolute, so that a config.yaml repeats its run from any folder."""
        return None if value is None else str(Path(value).absolute())

    @field_validator("seed")
    @classmethod
    def _not_negative(cls, value: int) -> int:
        if value < 0:
            raise InputError(f"seed must be 0 or more, not {value}")
        return value

    @field_validator("nodes", "rounds", "samples", "every", "patience")
    @classmethod
    def _positive(cls, value: int | None, info: Any) -> int | None:
        if value is not None and value < 1:
            raise InputError(f"{info.field_name} must be at least 1, not {value}")
        return value


@dataclass(frozen=True, eq=False)
class Job:
    """A configuration made real."""

    problem: Any
    network: Any
    method: Any
    test: tuple[Any, Any] | None  # held-out X and answers, in the model's own labels
    title: str


def build(config: TrainConfig) -> Job:
    """Load the data, split it, and put problem, network and method together."""
    from equipoise.train import Problem

    refuse_idle_settings(config)
    network = _network(config)
    shards, test, model, name = _model(config, network.n)
    cost, budget = _cost(config, network.n, shards)
    parts = []
    if model is not None:
        parts.append(f"trained {name} on {Path(config.data_file).name if config.data_file else config.data}")
    if cost is not None:
        last = config.budgets[max(config.budgets)] if config.budgets else budget
        parts.append(f"shared {last:g} CPUs" + (" in the end" if config.budgets else ""))
    centres = "1 centre" if network.n == 1 else f"{network.n} centres"
    return Job(Problem(cost, budget, model), network, _method(config), test, f"{centres} " + " and ".join(parts))


def refuse_idle_settings(config: TrainConfig) -> None:
    """A setting that was changed but can have no effect is a misunderstanding: say so."""
    no_model = config.data == "none" or config.model == "none"
    idle = {
        "p": config.network != "erdos_renyi" and f"network is {config.network}",
        "radius": config.network != "geometric" and f"network is {config.network}",
        "network_file": config.network != "file" and f"network is {config.network} (add --network file)",
        "nodes": config.network == "file" and "the network's file says how many nodes there are",
        "switching": config.network in ("complete", "file") and f"network is {config.network}, which is static",
        "data_file": config.data != "csv" and f"data is {config.data} (add --data csv)",
        "data_dir": config.data != "mnist" and f"data is {config.data} (add --data mnist)",
        "label": config.data != "csv" and f"data is {config.data}",
        "concentration": config.split != "dirichlet" and f"split is {config.split}",
        "mu": config.model != "smooth_svm" and "model is not smooth_svm",
        "reg": no_model and "there is no model",
        "alpha": no_model and "there is no model",
        "cap": no_model and "there is no model",
        "samples": no_model and "there is no model",
        "rho": config.quantizer != "log" and f"quantizer is {config.quantizer}",
        "bits": config.quantizer != "uniform" and f"quantizer is {config.quantizer}",
        "mode": config.quantizer == "exact" and "quantizer is exact",
        **dict.fromkeys(("budget", "lo", "hi", "box", "budgets"), config.cost == "none" and "cost is none"),
        **dict.fromkeys(("a", "c"), config.cost != "quadratic" and f"cost is {config.cost}"),
        **dict.fromkeys(("work", "speed", "energy"), config.cost != "latency" and f"cost is {config.cost}"),
    }
    for name, reason in idle.items():
        if reason and getattr(config, name) != TrainConfig.model_fields[name].default:
            flag = "--budget-at" if name == "budgets" else "--" + name.replace("_", "-")
            raise InputError(f"{flag} has no effect: {reason}")


def _network(config: TrainConfig) -> Any:
    from equipoise.train import Network

    if config.network == "file":
        if config.network_file is None:
            raise InputError("network is file, but no file is named: give --network-file FILE")
        return Network.from_file(config.network_file)
    # Too few nodes, or every link there: no second graph to switch to, so the default becomes static.
    only_one = config.nodes < 5 or (config.network == "erdos_renyi" and config.p == 1)
    by_default = config.switching == TrainConfig.model_fields["switching"].default
    options: dict[str, Any] = {"seed": config.seed, "switching": 0 if only_one and by_default else config.switching}
    if config.network == "erdos_renyi":
        options["p"] = config.p
    if config.network == "geometric":
        options["radius"] = config.radius
    if config.network == "complete":
        options = {}
    return Network.by_name(config.network, config.nodes, **options)


def _model(config: TrainConfig, nodes: int) -> tuple[Any, Any, Any, str]:
    """Shards, held-out data, the model, and its name."""
    if config.data == "none" or config.model == "none":
        return None, None, None, "none"
    from equipoise import data
    from equipoise.train import LeastSquares, SmoothSVM, Softmax

    given = {"folder": config.data_dir, "path": config.data_file, "label": config.label}
    if config.data == "csv" and config.model == "least_squares" and config.data_file is not None:
        dataset = data.csv(config.data_file, label=config.label, task="regression", seed=config.seed)
    else:
        dataset = data.load(config.data, seed=config.seed, **{k: v for k, v in given.items() if v is not None})
    if config.samples is not None:
        dataset = dataset.limited(config.samples, config.seed)
    name = config.model
    if name == "auto":
        name = "softmax" if dataset.classes else "least_squares"
    answers, test_answers = dataset.y, dataset.y_test
    if name == "smooth_svm":
        if dataset.classes != 2:
            raise InputError(
                f"smooth_svm needs two classes; {config.data} has {dataset.classes or 'a number to predict'}: use softmax"
            )
        answers, test_answers = 2 * answers - 1, 2 * test_answers - 1
    if name == "least_squares" and dataset.classes:
        raise InputError(f"least_squares needs a number to predict; {config.data} has classes: use softmax")
    if name == "softmax" and not dataset.classes:
        raise InputError(f"softmax needs classes; {config.data} has a number to predict: use least_squares")
    X, X_test = dataset.X, dataset.X_test
    if name == "least_squares":
        ones = np.ones((len(X), 1)), np.ones((len(X_test), 1))
        X, X_test = np.hstack([X, ones[0]]), np.hstack([X_test, ones[1]])
        answers = answers.astype(np.float64)
    shards = data.split(X, answers, nodes, config.split, concentration=config.concentration, seed=config.seed)
    reg = {} if config.reg is None else {"reg": config.reg}
    model: Any
    if name == "softmax":
        model = Softmax(shards, classes=dataset.classes, **reg)
    elif name == "smooth_svm":
        model = SmoothSVM(shards, mu=config.mu, **reg)
    else:
        model = LeastSquares(shards, **reg)
    test = (X_test, test_answers) if len(X_test) else None
    return shards, test, model, name


def _cost(config: TrainConfig, nodes: int, shards: Any) -> tuple[Any, float | None]:
    """Costs with what the file says, and the rest drawn by seed."""
    if config.cost == "none":
        return None, None
    from equipoise.train import Latency, Quadratic

    rng = np.random.default_rng([config.seed, 1])
    box = {"lo": 10.0 if config.lo is None else config.lo, "hi": 40.0 if config.hi is None else config.hi}
    budget = 25.0 * nodes if config.budget is None else config.budget

    def told(given: Number | None, drawn: Any) -> Any:
        return drawn if given is None else given

    if config.cost == "quadratic":
        a, c = rng.uniform(0.5, 3.0, nodes), rng.uniform(10.0, 60.0, nodes)
        return Quadratic(told(config.a, a), told(config.c, c), **box), budget
    work = np.full(nodes, 1000.0) if shards is None else np.array([float(len(y)) for _, y in shards])
    speed = np.exp(0.5 * rng.standard_normal(nodes)) * work.mean() / 500.0
    energy = np.full(nodes, 1e-4)
    return Latency(told(config.work, work), told(config.speed, speed), told(config.energy, energy), **box), budget


def _method(config: TrainConfig) -> Any:
    from equipoise.train import Exact, LogQuantizer, Method, UniformQuantizer

    mode = config.mode or ("node" if config.method == "paper" else "innovation")
    quantizer: Any
    if config.quantizer == "log":
        quantizer = LogQuantizer(rho=config.rho, mode=mode)  # type: ignore[arg-type]
    elif config.quantizer == "uniform":
        quantizer = UniformQuantizer(bits=config.bits, mode=config.mode or "node")  # type: ignore[arg-type]
    else:
        quantizer = Exact()
    changes: dict[str, Any] = {"quantizer": quantizer, "step": config.step, "alpha": config.alpha, "cap": config.cap}
    if config.weights != "auto":
        changes |= {"cpu_weights": config.weights, "model_weights": config.weights}
    changes |= {
        name: value for name, value in (("momentum", config.momentum), ("box", config.box)) if value is not None
    }
    return Method.paper(**changes) if config.method == "paper" else Method(**changes)
