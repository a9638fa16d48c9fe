"""From settings to a problem, a network and a method."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.cli.train_config import DEEP, Number, TrainConfig
from equipoise.cli.train_faults import faults_of, flag, refuse_faults
from equipoise.errors import InputError


@dataclass(frozen=True, eq=False)
class Job:
    """A configuration made real."""

    problem: Any
    network: Any
    method: Any
    test: tuple[Any, Any] | None  # held-out X and answers, in the model's own labels
    title: str
    rounds: int
    faults: Any = None
    batch: int | None = None
    start: Any = "zeros"


def build(config: TrainConfig) -> Job:
    """Load the data, split it, and put problem, network and method together."""
    from equipoise.train import Problem

    refuse_idle_settings(config)
    if config.couple:
        from equipoise.cli.train_coupling import coupled_job

        return coupled_job(config)
    refuse_unbuilt(config)
    faults = faults_of(config)
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
    job = Job(
        Problem(cost, budget, model),
        network,
        _method(config),
        test,
        f"{centres} " + " and ".join(parts),
        _rounds(config, model),
        faults,
        config.batch,
    )
    if config.deep:
        from equipoise.cli.train_deep import deep_job

        return deep_job(job, config)
    return job


def _rounds(config: TrainConfig, model: Any) -> int:
    """As told, or as many as it takes to draw all samples so many times."""
    if config.passes is None:
        return config.rounds
    assert config.batch is not None
    drawn = int(np.minimum(model.sizes, config.batch).sum())
    return max(1, round(config.passes * float(model.samples) / drawn))


def refuse_unbuilt(config: TrainConfig) -> None:
    """What has no sound form together."""
    if config.deep and config.rivals:
        refuse_faults(config, "--rivals", ", or drop --rivals")
    if config.deep and config.method == "paper":
        raise InputError(f"--method paper is built for convex models: drop it, or --model {config.model}")
    if config.quantizer == "uniform" and config.deep:
        raise InputError(f"--quantizer uniform is not built for --model {config.model}: use log or exact")


def refuse_idle_settings(config: TrainConfig) -> None:
    """A setting that was changed but can have no effect is a misunderstanding: say so."""
    no_model = config.data == "none" or config.model == "none"
    idle: dict[str, Any] = {
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
        **dict.fromkeys(("batch", "fade", "passes", "rivals"), no_model and "there is no model"),
        "fixed_delay": not config.delay and "no packet is late (add --delay)",
        "notice": not (config.crash or config.partition) and "nobody is lost (add --crash or --partition)",
        "workers": config.engine == "embedded" and "engine is embedded (add --engine processes, or ray)",
        "address": config.engine != "ray" and f"engine is {config.engine} (add --engine ray)",
        **dict.fromkeys(("cpus", "limiter"), _unheld(config)),
        "seeds": not config.couple and "it counts the seeds of --couple",
        "rho": config.quantizer != "log" and f"quantizer is {config.quantizer}",
        "bits": config.quantizer != "uniform" and f"quantizer is {config.quantizer}",
        "mode": config.quantizer == "exact" and "quantizer is exact",
        **dict.fromkeys(("budget", "lo", "hi", "box", "budgets"), config.cost == "none" and "cost is none"),
        **dict.fromkeys(("a", "c"), config.cost != "quadratic" and f"cost is {config.cost}"),
        **dict.fromkeys(("work", "speed", "energy"), config.cost != "latency" and f"cost is {config.cost}"),
    }
    if not no_model:
        idle["passes"] = config.batch is None and "every round sees all data (add --batch)"
        idle["rivals"] = not config.deep and f"model is {config.model}, which is no net (mlp, cnn)"
    for name, reason in idle.items():
        if reason and getattr(config, name) != TrainConfig.model_fields[name].default:
            raise InputError(f"{'--budget-at' if name == 'budgets' else flag(name)} has no effect: {reason}")


def _unheld(config: TrainConfig) -> str | bool:
    """Why no worker is held to a share."""
    if config.engine == "embedded":
        return "engine is embedded (add --engine processes, or ray)"
    return not config.couple and "shares are held where they buy samples (add --couple)"


def _network(config: TrainConfig) -> Any:
    from equipoise.train import Network

    if config.network == "file":
        if config.network_file is None:
            raise InputError("network is file, but no file is named: give --network-file FILE")
        return Network.from_file(config.network_file, directed=config.directed)
    # Too few nodes, or every link there: no second graph to switch to, so the default becomes static.
    only_one = config.nodes < 5 or (config.network == "erdos_renyi" and config.p == 1)
    by_default = config.switching == TrainConfig.model_fields["switching"].default
    options: dict[str, Any] = {"seed": config.seed, "switching": 0 if only_one and by_default else config.switching}
    if config.network == "erdos_renyi":
        options["p"] = config.p
    if config.network == "geometric":
        options["radius"] = config.radius
    if config.network == "complete":
        options = {"seed": config.seed} if config.directed else {}
    if config.directed:
        options["directed"] = True
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
    if name in ("softmax", *DEEP) and not dataset.classes:
        raise InputError(f"{name} needs classes; {config.data} has a number to predict: use least_squares")
    X, X_test = dataset.X, dataset.X_test
    if name == "least_squares":
        ones = np.ones((len(X), 1)), np.ones((len(X_test), 1))
        X, X_test = np.hstack([X, ones[0]]), np.hstack([X_test, ones[1]])
        answers = answers.astype(np.float64)
    shards = data.split(X, answers, nodes, config.split, concentration=config.concentration, seed=config.seed)
    reg = {} if config.reg is None else {"reg": config.reg}
    test = (X_test, test_answers) if len(X_test) else None
    if config.deep:
        from equipoise.cli.train_deep import net_model

        return shards, test, net_model(config, shards, dataset.classes), name
    model: Any
    if name == "softmax":
        model = Softmax(shards, classes=dataset.classes, **reg)
    elif name == "smooth_svm":
        model = SmoothSVM(shards, mu=config.mu, **reg)
    else:
        model = LeastSquares(shards, **reg)
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
    changes["fade"] = config.fade
    if config.weights != "auto":
        changes |= {"cpu_weights": config.weights, "model_weights": config.weights}
    changes |= {
        name: value for name, value in (("momentum", config.momentum), ("box", config.box)) if value is not None
    }
    return Method.paper(**changes) if config.method == "paper" else Method(**changes)
