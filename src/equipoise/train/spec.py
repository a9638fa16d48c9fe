"""What a run of train is, and what a comparison of methods is: the command line's options, config.yaml, and Python."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import ValidationInfo, field_validator, model_validator

from equipoise.errors import InputError, unknown_name
from equipoise.registry import Registry
from equipoise.spec import Spec, setting
from equipoise.train.hostile import fault_texts
from equipoise.train.hostile.faults import NOTICE

if TYPE_CHECKING:
    from equipoise.document import Plain
    from equipoise.train.costs import Cost
    from equipoise.train.job import CompareJob, TrainJob
    from equipoise.train.models import Model
    from equipoise.train.theory.analysis import Analysis

Number = float | list[float]
GRAPHS = ("erdos_renyi", "geometric", "ring", "path", "star", "grid", "complete")


def _data_sets() -> list[str]:
    """Functions in the files of equipoise/data that return a Dataset, read from their source."""
    found = []
    for path in sorted((Path(__file__).parents[1] / "data").glob("[!_]*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name[0] != "_" and node.returns is not None:
                found += [node.name] if ast.unparse(node.returns).strip("'\"") == "Dataset" else []
    return found


DATA = (*_data_sets(), "none")
MODELS: Registry[Model] = Registry("equipoise.train.models", "model")
COSTS: Registry[Cost] = Registry("equipoise.train.costs", "cost")
COST_SETTINGS = ("a", "c", "work", "speed", "energy")
QUANTIZERS = ("log", "uniform", "exact")
METHODS = ("equipoise", "paper")
# A model is chosen by name if it says what answers it takes; a cost, if it says what is drawn by seed.
MODEL_NAMES = tuple(choice.stem for choice in MODELS.choices() if "task" in choice.facts)
COST_NAMES = tuple(choice.stem for choice in COSTS.choices() if "parameters" in choice.facts)
KNOWN = {
    "data": DATA,
    "model": ("auto", *MODEL_NAMES, "none"),
    "cost": (*COST_NAMES, "none"),
    "network": (*GRAPHS, "file"),
    "quantizer": QUANTIZERS,
    "method": METHODS,
    "engine": ("embedded", "processes", "ray"),
    "weights": ("auto", "laplacian", "metropolis"),
    "split": ("even", "label", "dirichlet"),
}
FAULTY, ENGINE = "Hostile networks", "Engine"  # panels of --help
PLACES = ("engine", "workers", "address", "cpus", "limiter")  # where a run is played: no part of what it is
DEEP_ROUNDS, DEEP_BATCH = 200, 16
COUPLED: dict[str, Plain] = {"rounds": 300, "target": 0.2, "every": 5}  # noise keeps models from coming much nearer
STUDIES = ("rho", "density", "alpha", "claim")
COMPARED = {"network": GRAPHS, "cost": ("quadratic", "latency")}
LARGEST_NUMBER = 2**53


def flag(name: str) -> str:
    """The option of a setting: crash as --crash."""
    return "--budget-at" if name == "budgets" else "--" + name.replace("_", "-")


class TrainSpec(Spec):
    """Everything that determines a run; the same file repeats it bit for bit. `build()` makes it real."""

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

    model: str = setting("auto", f"Model: {', '.join(KNOWN['model'])}.", "Problem")
    reg: float | None = setting(None, "Ridge of the model; each model has its own default.", "Problem")
    mu: float = setting(3.0, "Sharpness of the smooth hinge (smooth_svm).", "Problem")
    cost: str = setting(
        "latency", f"Cost of a CPU share: {', '.join(KNOWN['cost'])}; parameters drawn by seed.", "Problem"
    )
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
    batch: int | None = setting(
        None, f"Samples a centre draws each round; all it has unless given, {DEEP_BATCH} for mlp and cnn.", "Method"
    )
    fade: float | None = setting(None, "Rounds after which alpha has halved, for mini-batches.", "Method", "ROUNDS")

    directed: bool = setting(False, "Links carry one way only.", FAULTY)
    loss: float | str = setting(
        0.0,
        "Packets lost: 0.3, or in bursts: bursts:ENTER,LEAVE[,BAD[,GOOD]], such as bursts:0.05,0.3.",
        FAULTY,
        "PART|bursts:...",
    )
    delay: int = setting(0, "Rounds a packet takes: 0 to so many, drawn for each.", FAULTY, "ROUNDS")
    fixed_delay: bool = setting(False, "Every packet takes exactly --delay rounds.", FAULTY)
    crash: list[str] = setting(
        [], "Centres that die: 7@137, or 3,7@137; repeatable.", FAULTY, "NODES@ROUND", repeats=True
    )
    leave: list[str] = setting(
        [], "Centres that go and hand over their CPU: 3@50; repeatable.", FAULTY, "NODES@ROUND", repeats=True
    )
    join: list[str] = setting(
        [], "Centres that come later, or back: 9@200; repeatable.", FAULTY, "NODES@ROUND", repeats=True
    )
    straggle: list[str] = setting(
        [], "Centres that act in every k-th round: 4:5; repeatable.", FAULTY, "NODES:ROUNDS", repeats=True
    )
    partition: list[str] = setting(
        [],
        "The network splits and heals: 0-9@100..400; 0-9@100.. never does; repeatable.",
        FAULTY,
        "NODES@BEGIN..END",
        repeats=True,
    )
    notice: int = setting(NOTICE, "Rounds after a crash or a split until everybody knows of it.", FAULTY, "ROUNDS")

    couple: bool = setting(
        False,
        "CPU buys samples: batches follow shares; ends with CPU-seconds to a target accuracy per way to share.",
        "Coupling and deep models",
    )
    seeds: int = setting(
        2, "Seeds that --couple compares allocations on, from --seed on.", "Coupling and deep models", "COUNT"
    )
    passes: float | None = setting(
        None, "With --batch: passes through all data, instead of --rounds.", "Coupling and deep models"
    )
    rivals: bool = setting(
        False,
        "With mlp or cnn: also train it centrally, without trackers, and with a server.",
        "Coupling and deep models",
    )

    engine: str = setting(
        "embedded",
        "Where rounds are played: embedded (in this process), processes, ray. The result is the same.",
        ENGINE,
    )
    workers: int | None = setting(
        None, "Workers that the centres are divided over; one for each core unless given.", ENGINE, "COUNT"
    )
    address: str | None = setting(
        None,
        "Of a Ray cluster: HOST:PORT, ray://HOST:PORT or auto; Ray on this machine unless given.",
        ENGINE,
        "ADDRESS",
    )
    cpus: float | None = setting(
        None,
        "With --couple: cores that stand for the whole budget; all of this machine's unless given.",
        ENGINE,
        "CORES",
    )
    limiter: str = setting(
        "auto", "With --couple: how workers are held to their shares (see equipoise doctor).", ENGINE, "KIND"
    )

    rounds: int = setting(3000, "Rounds at most.", "Run")
    target: float | None = setting(
        1e-4, "Stop, and certify, at this part of the gap at the start; what noise allows with mini-batches.", "Run"
    )
    patience: int | None = setting(None, "Stop when the gap has not improved by 1% in so many rounds.", "Run")
    every: int | None = setting(None, "Record history each so many rounds.", "Run")
    seed: int = setting(0, "Of data split, costs and network.", "Run")

    @field_validator(*KNOWN)
    @classmethod
    def _known(cls, value: str, info: ValidationInfo) -> str:
        known = KNOWN[str(info.field_name)]
        if value not in known:
            raise unknown_name(str(info.field_name), value, known)
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

    @field_validator(*fault_texts.EXAMPLES, mode="before")
    @classmethod
    def _faults(cls, value: object, info: ValidationInfo) -> list[str]:
        return fault_texts.checked(str(info.field_name), value)

    @field_validator("loss", mode="before")
    @classmethod
    def _loss(cls, value: object) -> float | str:
        return fault_texts.checked_loss(value)

    @field_validator("delay", "notice")
    @classmethod
    def _rounds_of_delay(cls, value: int, info: ValidationInfo) -> int:
        if value < 0:
            raise InputError(f"{info.field_name} must be 0 rounds or more, not {value}")
        return value

    @field_validator("fade", "passes")
    @classmethod
    def _above_zero(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is not None and not 0 < value < float("inf"):
            raise InputError(f"{info.field_name} must be a number above 0, not {value:g}")
        return value

    @model_validator(mode="after")
    def _fitting_defaults(self) -> Self:
        """What was not said fits what was: written to config.yaml, so that the file says it all."""
        said = self.model_fields_set
        noisy = self.deep or self.batch is not None or self.couple
        defaults: dict[str, Plain] = {}
        if noisy:
            defaults["target"] = None
        if self.couple:
            defaults |= COUPLED if self.model != "mlp" else COUPLED | {"target": 0.5}
        elif self.deep:
            defaults |= {"rounds": DEEP_ROUNDS, "batch": DEEP_BATCH}
        for name, value in defaults.items():
            if name not in said:
                object.__setattr__(self, name, value)
        return self

    @property
    def deep(self) -> bool:
        """Whether the model is a net."""
        return self.model in MODEL_NAMES and bool(MODELS.find(self.model).facts.get("deep"))

    @field_validator("nodes", "rounds", "samples", "every", "patience", "batch", "seeds", "workers")
    @classmethod
    def _positive(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and value < 1:
            raise InputError(f"{info.field_name} must be at least 1, not {value}")
        return value

    def plain(self) -> dict[str, Any]:
        """JSON values, without where the run is played."""
        return {name: value for name, value in super().plain().items() if name not in PLACES}

    def build(self) -> TrainJob:
        """Load the data, split it, and put problem, network and method together; `.run()` plays it."""
        from equipoise.train.build import build

        return build(self)

    def analyse(self, *, sweep: bool = False) -> Analysis:
        """What theory says of this run before it is made: spectra, limits, chosen steps, bits and predicted rounds.

        Parameters
        ----------
        sweep
            Whether to add the eigenvalues over alpha, to past where they cross; for small problems only.
        """
        from equipoise.train.build import analyse

        return analyse(self, sweep=sweep)


class CompareSpec(Spec):
    """Everything that determines a comparison; the same file repeats it bit for bit. `build()` makes it real."""

    entrants: list[str] = setting("all", "Names with commas between, or all that can play.", "Comparison", "NAMES")
    study: str | None = setting(
        None,
        f"One knob at a time instead: {', '.join(STUDIES)}; claim is `equipoise reproduce fifty-percent-better`.",
        "Comparison",
        "STUDY",
    )
    rounds: int = setting(200, "Rounds that everybody plays.", "Comparison")
    seeds: int = setting(20, "Instances; every entrant plays the same.", "Comparison", "COUNT")
    first_seed: int = setting(0, "The first of them; rivals were tuned on 900 to 903.", "Comparison", "SEED")
    rho: float = setting(0.125, "Coarseness of log codes; uniform ones get the same bits.", "Comparison")
    target: float = setting(1e-6, "Relative gap at which ours must end.", "Comparison")

    nodes: int = setting(20, "Number of computing centres.", "Instances")
    network: str = setting("erdos_renyi", f"{', '.join(GRAPHS)}.", "Instances")
    p: float = setting(0.3, "Edge probability (erdos_renyi).", "Instances")
    radius: float | None = setting(None, "Reach of a link in the unit square (geometric).", "Instances")
    switching: int | Literal["fresh"] = setting(
        0, "Graphs taken in turn (0: one static graph), or `fresh`: a new one each round.", "Instances", "COUNT|fresh"
    )
    cost: str = setting("quadratic", "Cost of a CPU share: quadratic or latency; drawn by seed.", "Instances")
    budget: float | None = setting(None, "CPUs to share; 25 a centre unless given.", "Instances", "CPUS")
    price: float | None = setting(None, "Instead: the optimal price, which sets the budget.", "Instances")
    boxes: bool = setting(False, "Bounds on quadratic shares, so that about a quarter end full.", "Instances")

    @field_validator("entrants", mode="before")
    @classmethod
    def _entrants(cls, value: object) -> list[str]:
        words = [word.strip() for word in value.split(",")] if isinstance(value, str) else value
        if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
            raise InputError(f"expected names with commas between, not {value!r}")
        if words == ["all"]:
            return words
        from equipoise.train import baselines

        names = [baselines.named(word).name for word in words]
        if len(set(names)) < len(names):
            raise InputError(f"an entrant is named twice: {', '.join(words)}")
        return names

    @field_validator("study")
    @classmethod
    def _study(cls, value: str | None) -> str | None:
        if value is not None and value not in STUDIES:
            raise unknown_name("study", value, STUDIES)
        return value

    @field_validator(*COMPARED)
    @classmethod
    def _known(cls, value: str, info: ValidationInfo) -> str:
        known = COMPARED[str(info.field_name)]
        if value not in known:
            raise unknown_name(str(info.field_name), value, known)
        return value

    @field_validator("nodes", "rounds", "seeds", "first_seed")
    @classmethod
    def _whole(cls, value: int, info: ValidationInfo) -> int:
        least = {"first_seed": 0, "nodes": 2}.get(str(info.field_name), 1)
        if not least <= value <= LARGEST_NUMBER:
            raise InputError(f"{info.field_name} must be {least} or more, not {value}")
        return value

    @field_validator("target")
    @classmethod
    def _target(cls, value: float) -> float:
        if not 0 < value < 1:
            raise InputError(f"target must be between 0 and 1, a part of the gap at the start, not {value!r}")
        return value

    def build(self) -> CompareJob:
        """The instances and the entrants; `.run()` plays them."""
        from equipoise.train.build import build_comparison

        return build_comparison(self)
