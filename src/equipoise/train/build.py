"""From a spec to a problem, a network and a method; from a CompareSpec to instances and entrants."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from equipoise.errors import InputError
from equipoise.train import baselines
from equipoise.train.baselines._track import Entrant
from equipoise.train.choose import choose, is_hostile
from equipoise.train.comparison import refusal
from equipoise.train.costs import Cost
from equipoise.train.hostile.faults import HOSTILE, faults_of
from equipoise.train.instances import Instances
from equipoise.train.job import CompareJob, TrainJob
from equipoise.train.method import Method
from equipoise.train.models import Model
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import Exact, LogQuantizer, Quantizer, UniformQuantizer
from equipoise.train.rows import Rows, Shards, own_files, rows_of
from equipoise.train.spec import BESIDE, COST_SETTINGS, COSTS, MODELS, OF_FILES, PLACES, CompareSpec, TrainSpec, flag
from equipoise.train.theory.analysis import Analysis

if TYPE_CHECKING:
    from equipoise.train.models.torch_model import TorchModel

Idle = dict[str, str | bool]  # settings, each with the reason why it has no effect, or False
STUDIED = {"auto": "softmax", "softmax": "softmax", "mlp": "mlp"}  # by --couple
PAIRS = {"links": ("links", "links"), "markets": ("markets", "averages"), "flows": ("flows", "mixing")}  # --beside
LEAST_REG = 1e-4  # of classes in own files: else as scikit-learn's C = 1, of which rounds grow with the root of rows
OF_MODEL = ("reg", "alpha", "cap", "samples", "batch", "fade", "passes", "rivals", "learning")
OF_COUPLE = ("couple", "seeds", "seed", "rounds", "model", "every", "patience", "target")


def analyse(spec: TrainSpec, *, sweep: bool) -> Analysis:
    """What theory says; what it is silent on is refused before anything is loaded."""
    refuse_faults(spec, "analyse", ": its theory is of links that work")
    if spec.deep:
        raise InputError(f"analyse needs a convex model, which {spec.model} is not: use softmax", code="model.convex")
    for name in ("couple", "batch", "fade"):
        if getattr(spec, name):
            raise InputError(f"analyse knows no mini-batches: drop {flag(name)}", code="option.batch")
    return build(spec).analyse(sweep=sweep)


def build(spec: TrainSpec) -> TrainJob:
    """Load the data, split it, and put problem, network and method together."""
    refuse_idle_settings(spec)
    if spec.couple:
        return _coupled_job(spec)
    _refuse_unbuilt(spec)
    faults = faults_of(spec)
    own = own_files(spec)
    network = _network(spec)
    rows = rows_of(spec, network, own)
    model = None if rows is None else _made(spec, rows)
    cost, budget = _cost(spec, network.n, None if rows is None else rows.shards)
    held_out, agreed = (None, None) if rows is None else (rows.held_out, rows.own)
    test = None if held_out is None else (held_out.X, held_out.truth)
    parts = Problem(cost, budget, model), network, _method(spec), test
    job = TrainJob(spec, *parts, _rounds(spec, model), faults, spec.batch, own=agreed, held_out=held_out)
    job = _deep_job(job) if spec.deep else job
    _refuse_named_dynamics(job)
    return job if spec.beside is None else replace(job, rival=_rival(job, spec.beside))


def build_comparison(spec: CompareSpec) -> CompareJob:
    """Draw the family of instances and make the entrants; one that was named and cannot play is refused."""
    refuse_idle_compare_settings(spec)
    names = ("nodes", "network", "p", "radius", "switching", "cost", "budget", "price", "boxes")
    kind = Instances(**{name: getattr(spec, name) for name in names})
    entrants, left_out = _entrants(spec, kind) if spec.study in (None, "density") else ([], [])
    return CompareJob(spec, kind, tuple(entrants), tuple(left_out))


def _entrants(spec: CompareSpec, kind: Instances) -> tuple[list[Entrant], list[str]]:
    """Those that play, and a sentence for each that `all` leaves out."""
    instance = kind(spec.first_seed)
    found: list[Entrant] = []
    left_out: list[str] = []
    for name in baselines.ALL if spec.entrants == ["all"] else spec.entrants:
        coded = "rho" in signature(baselines.ALL[name]).parameters
        player = baselines.named(name, **({"rho": spec.rho} if coded else {}))
        reason = refusal(player, *instance)
        if reason is None:
            found.append(player)
        elif spec.entrants == ["all"]:
            left_out.append(f"Left out: {reason}.")
        else:
            raise InputError(f"{reason}: leave it out of --entrants")
    return found, left_out


def _rounds(spec: TrainSpec, model: Model | None) -> int:
    """As told, or as many as it takes to draw all samples so many times."""
    if spec.passes is None:
        return spec.rounds
    assert spec.batch is not None and model is not None and model.sizes is not None
    drawn = int(np.minimum(model.sizes, spec.batch).sum())
    return max(1, round(spec.passes * float(model.sizes.sum()) / drawn))


def _refuse_unbuilt(spec: TrainSpec) -> None:
    """What has no sound form together."""
    if spec.deep and spec.rivals:
        refuse_faults(spec, "--rivals", ", or drop --rivals")
    if spec.deep and spec.method == "paper":
        raise InputError(f"--method paper is built for convex models: drop it, or --model {spec.model}")
    if spec.quantizer == "uniform" and spec.deep:
        raise InputError(f"--quantizer uniform is not built for --model {spec.model}: use log or exact")


def refuse_faults(spec: TrainSpec, command: str, way_out: str = "") -> None:
    """For what cannot be done on a hostile network: names every fault that was asked for."""
    asked = [flag(name) for name in HOSTILE if getattr(spec, name)]
    if asked:
        raise InputError(
            f"{command} knows no hostile networks: drop {', '.join(asked)}{way_out}", code="option.hostile"
        )


def refuse_idle_settings(spec: TrainSpec) -> None:
    """A setting that was changed but can have no effect is a misunderstanding: say so."""
    no_model = spec.data == "none" or spec.model == "none"
    taken = "" if spec.cost == "none" else str(COSTS.find(spec.cost).facts["parameters"])
    idle: Idle = {
        "p": spec.network != "erdos_renyi" and f"network is {spec.network}",
        "radius": spec.network != "geometric" and f"network is {spec.network}",
        "network_file": spec.network != "file" and f"network is {spec.network} (add --network file)",
        "nodes": spec.network == "file" and "the network's file says how many nodes there are",
        "split": len(spec.files) > 1 and "each file is a centre",
        "switching": spec.network in ("complete", "file") and f"network is {spec.network}, which is static",
        "data_file": (spec.files and "files are given without it")
        or (spec.data != "csv" and f"data is {spec.data} (add --data csv)"),
        "data_dir": spec.data != "mnist" and f"data is {spec.data} (add --data mnist)",
        **dict.fromkeys(("label", *OF_FILES), spec.data != "csv" and f"data is {spec.data}"),
        "class_weight": spec.model not in ("auto", "softmax", "smooth_svm", "mlp") and f"model is {spec.model}",
        "concentration": spec.split != "dirichlet" and f"split is {spec.split}",
        "mu": spec.model != "smooth_svm" and "model is not smooth_svm",
        **dict.fromkeys(OF_MODEL, no_model and "there is no model"),
        "fixed_delay": not spec.delay and "no packet is late (add --delay)",
        "notice": not (spec.crash or spec.partition) and "nobody is lost (add --crash or --partition)",
        "workers": spec.engine == "embedded" and "engine is embedded (add --engine processes, or ray)",
        "address": spec.engine != "ray" and f"engine is {spec.engine} (add --engine ray)",
        **dict.fromkeys(("cpus", "limiter"), _unheld(spec)),
        "seeds": not spec.couple and "it counts the seeds of --couple",
        "rho": spec.quantizer != "log" and f"quantizer is {spec.quantizer}",
        "bits": spec.quantizer != "uniform" and f"quantizer is {spec.quantizer}",
        "mode": spec.quantizer == "exact" and "quantizer is exact",
        **dict.fromkeys(("budget", "lo", "hi", "box", "budgets", "cpu"), spec.cost == "none" and "cost is none"),
        **dict.fromkeys((name for name in COST_SETTINGS if f"'{name}'" not in taken), f"cost is {spec.cost}"),
    }
    if not no_model:
        idle["passes"] = spec.batch is None and "every round sees all data (add --batch)"
        idle["rivals"] = not spec.deep and f"model is {spec.model}, which is no net (mlp, cnn)"
    _refuse(spec, idle)


def _refuse(spec: TrainSpec | CompareSpec, idle: Idle) -> None:
    """The first of these that is not as by default."""
    plain = type(spec)()
    for name, reason in idle.items():
        if reason and getattr(spec, name) != getattr(plain, name):
            raise InputError(f"{flag(name)} has no effect: {reason}", code="option.unused")


def _unheld(spec: TrainSpec) -> str | bool:
    """Why no worker is held to a share."""
    if spec.engine == "embedded":
        return "engine is embedded (add --engine processes, or ray)"
    return not spec.couple and "shares are held where they buy samples (add --couple)"


def _network(spec: TrainSpec) -> Network:
    if spec.network == "file":
        if spec.network_file is None:
            raise InputError("network is file, but no file is named: give --network-file FILE")
        return Network.from_file(spec.network_file, directed=spec.directed)
    # Too few nodes, or every link there: no second graph to switch to, so the default becomes static.
    only_one = spec.nodes < 5 or (spec.network == "erdos_renyi" and spec.p == 1)
    by_default = spec.switching == TrainSpec.model_fields["switching"].default
    options: dict[str, object] = {"seed": spec.seed, "switching": 0 if only_one and by_default else spec.switching}
    if spec.network == "erdos_renyi":
        options["p"] = spec.p
    if spec.network == "geometric":
        options["radius"] = spec.radius
    if spec.network == "complete":
        options = {"seed": spec.seed} if spec.directed else {}
    if spec.directed:
        options["directed"] = True
    return Network.by_name(spec.network, spec.nodes, **options)


def _made(spec: TrainSpec, rows: Rows) -> Model:
    """The model of the spec over these shards, with those of the settings that it takes."""
    if spec.deep and find_spec("torch") is None:
        raise InputError(f"--model {rows.model} needs torch: pip install 'equipoise[torch]'", code="library.missing")
    make = MODELS.load(rows.model)
    settings: dict[str, Any] = {"classes": rows.classes, "reg": spec.reg, "mu": spec.mu, "seed": spec.seed}
    if rows.own is not None and spec.reg is None and rows.classes:
        halves = 2.0 if rows.model == "softmax" and rows.classes == 2 else 1.0  # of the weights that scikit-learn has
        settings["reg"] = max(halves / rows.own.schema.rows, LEAST_REG)
    settings["class_weight"] = rows.class_weights if spec.class_weight == "balanced" else None
    taken = signature(make).parameters
    return make(rows.shards, **{key: value for key, value in settings.items() if key in taken and value is not None})


def _cost(spec: TrainSpec, nodes: int, shards: Shards | None) -> tuple[Cost | None, float | None]:
    """Costs with what the file says, and the rest drawn by seed; and the budget."""
    if spec.cost == "none":
        return None, None
    make = COSTS.load(spec.cost)
    samples = None if shards is None else np.array([float(len(y)) for _, y in shards])
    settings = make.drawn(np.random.default_rng([spec.seed, 1]), nodes, samples)  # type: ignore[attr-defined]
    settings |= {name: value for name in settings if (value := getattr(spec, name, None)) is not None}
    settings |= {"lo": 10.0 if spec.lo is None else spec.lo, "hi": 40.0 if spec.hi is None else spec.hi}
    return make(**settings), 25.0 * nodes if spec.budget is None else spec.budget


def _method(spec: TrainSpec) -> Method:
    mode = spec.mode or ("node" if spec.method == "paper" else "innovation")
    quantizer: Quantizer
    if spec.quantizer == "log":
        quantizer = LogQuantizer(rho=spec.rho, mode=mode)  # type: ignore[arg-type]
    elif spec.quantizer == "uniform":
        quantizer = UniformQuantizer(bits=spec.bits, mode=spec.mode or "node")  # type: ignore[arg-type]
    else:
        quantizer = Exact()
    changes: dict[str, Any] = {"quantizer": quantizer, "step": spec.step, "alpha": spec.alpha, "cap": spec.cap}
    changes |= {"fade": spec.fade, "cpu": spec.cpu, "learning": spec.learning}
    if spec.weights != "auto":
        changes |= {"cpu_weights": spec.weights, "model_weights": spec.weights}
    changes |= {name: value for name, value in (("momentum", spec.momentum), ("box", spec.box)) if value is not None}
    return Method.paper(**changes) if spec.method == "paper" else Method(**changes)


def _refuse_named_dynamics(job: TrainJob) -> None:
    """Faults and one-way links have dynamics of their own: one that was asked for by name would be left out silently."""
    asked = [flag(half) for half in ("cpu", "learning") if getattr(job.method, half) != "auto"]
    if asked and is_hostile(job.network, job.method, job.faults):
        raise InputError(
            f"{asked[0]} has no effect: faults and one-way links have dynamics of their own", code="option.unused"
        )


def _rival(job: TrainJob, name: str) -> Method:
    """The method that plays beside, with the run's own quantiser; what could not be played is refused now."""
    spec, ours = job.spec, job.method
    refuse_faults(spec, f"--beside {name}", ", or drop --beside")
    if spec.deep:
        raise InputError(f"--beside {name} is built for convex models: drop it, or --model {spec.model}")
    if name == "paper":
        found = Method.paper(quantizer=LogQuantizer(rho=spec.rho, mode="node"))
    else:
        own = ours.quantizer if isinstance(ours.quantizer, Exact) else LogQuantizer(rho=spec.rho)
        cpu, models = PAIRS[name]
        found = Method(quantizer=own, cpu=cpu, learning=models, name=name)
    parts = job.problem, job.network, job.faults, job.batch
    try:
        beside = choose(found, *parts)
    except InputError as error:
        raise InputError(f"--beside {name}: {error}", code=error.code) from None
    played = choose(ours, *parts)
    cpu = played.cpu if job.problem.cost is None else beside.cpu  # a half that is not there makes no difference
    learning = played.learning if job.problem.model is None else beside.learning
    if replace(beside, name=played.name, why=played.why, cpu=cpu, learning=learning) == played:
        others = ", ".join(other for other in BESIDE if other != name)
        raise InputError(f"--beside {name} is what this run plays anyway: name another ({others})")
    return beside


def _coupled_job(spec: TrainSpec) -> TrainJob:
    """The study's instance of this seed: batches follow shares, and what they show moves shares."""
    from equipoise.train.coupling.study import LINK_CHANCE, SETTINGS, Pace

    name = studied(spec)
    setting = SETTINGS[name]
    instance = setting.draw(spec.seed)
    n = len(instance.speed)
    return TrainJob(
        spec,
        Problem(cost=instance.cost(), budget=instance.budget, model=instance.model),
        Network.erdos_renyi(n, LINK_CHANCE, seed=spec.seed),
        setting.paces.get("coupled", Pace()).method(instance),
        (instance.X_test, instance.y_test),
        spec.rounds,
        start=instance.start,
        studied=name,
    )


def studied(spec: TrainSpec) -> str:
    """The model that --couple studies; a setting that the study draws itself is refused."""
    if spec.files:
        raise InputError(
            "--couple draws its own centres and trains on digits: leave out the files", code="option.unused"
        )
    plain = TrainSpec(couple=True, model=spec.model)
    for name in TrainSpec.model_fields:
        if name not in (*OF_COUPLE, *PLACES) and getattr(spec, name) != getattr(plain, name):
            raise InputError(
                f"{flag(name)} has no effect: --couple draws its own centres (digits, unequal speeds, shards and noise)",
                code="option.unused",
            )
    if spec.model not in STUDIED:
        raise InputError(
            f"--couple studies softmax and mlp, not {spec.model}: drop --model or name one of them",
            code="model.studied",
        )
    return STUDIED[spec.model]


def _deep_job(job: TrainJob) -> TrainJob:
    """From the net's own first parameters, at a rate that nets bear unless alpha is given."""
    from equipoise.train.deep.rivals import tracking_method

    spec, method, model = job.spec, job.method, cast("TorchModel", job.problem.model)
    if spec.alpha == "auto" and spec.step == "auto" and spec.cap == "auto":
        method = tracking_method(model, job.network, job.deep_plan("tracking"), method)
    return replace(job, method=method, start=model.start(spec.seed))


def refuse_idle_compare_settings(spec: CompareSpec) -> None:
    """A setting that was changed but can have no effect is a misunderstanding: say so."""
    study = spec.study
    idle: Idle = {
        "p": spec.network != "erdos_renyi" and f"network is {spec.network}",
        "radius": spec.network != "geometric" and f"network is {spec.network}",
        "boxes": spec.cost == "latency" and "latency costs always have boxes",
        "switching": spec.network == "complete" and "network is complete, which is static",
    }
    of_study: dict[str, tuple[str, ...]] = {
        "rho": ("rho", "entrants"),
        "density": ("p",),
        "alpha": ("entrants", "rounds", "target", "cost", "budget", "price", "boxes"),
    }
    idle |= dict.fromkeys(of_study.get(study or "", ()), f"study {study} sets it itself")
    _refuse(spec, idle)
