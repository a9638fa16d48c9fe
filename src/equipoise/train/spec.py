"""What a run of train is, and what a comparison of methods is: the command line's options, config.yaml, and Python."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, ValidationInfo, field_validator, model_validator

from equipoise.errors import InputError
from equipoise.registry import Registry
from equipoise.spec import Spec, Whole, WholePath, known_names, panel, whole
from equipoise.train.hostile.faults import EXAMPLES, NOTICE, checked_loss, checked_texts

if TYPE_CHECKING:
    from equipoise.document import Plain
    from equipoise.train.costs import Cost
    from equipoise.train.job import CompareJob, TrainJob
    from equipoise.train.models import Model
    from equipoise.train.theory.analysis import Analysis

Number = float | list[float]
Count = Annotated[int, whole(1)]
SomeCount = Annotated[int | None, whole(1)]
Index = Annotated[int, whole(0)]
GRAPHS = ("erdos_renyi", "geometric", "ring", "path", "star", "grid", "complete")


def _data_sets() -> list[str]:
    """Functions in the files of equipoise/data that return a Dataset, read from their source."""
    found = []
    files = (Path(__file__).parents[1] / "data").glob("[!_]*.py")
    for path in sorted(files, key=lambda path: (path.stem != "dataset", path.stem)):  # those that need no file first
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
BESIDE = ("paper", "links", "markets", "flows")
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
    "cpu": ("auto", "links", "markets", "flows"),
    "learning": ("auto", "links", "averages", "mixing"),
    "beside": BESIDE,
    "engine": ("embedded", "processes", "ray"),
    "class_weight": ("balanced",),
    "weights": ("auto", "laplacian", "metropolis"),
    "split": ("even", "label", "dirichlet"),
}
# Panels of --help.
of_data, of_problem, of_network, of_method, of_run = map(panel, ("Data", "Problem", "Network", "Method", "Run"))
of_faults, of_coupling, of_engine = map(panel, ("Hostile networks", "Coupling and deep models", "Engine"))
of_comparison, of_instances = map(panel, ("Comparison", "Instances"))
PLACES = ("engine", "workers", "address", "cpus", "limiter")  # where a run is played: no part of what it is
OF_FILES = ("files", "drop", "text", "min_count", "numbers_only", "held_out")
DEEP_ROUNDS, DEEP_BATCH = 200, 16
COUPLED: dict[str, Plain] = {"rounds": 300, "target": 0.2, "every": 5}  # noise keeps models from coming much nearer
STUDIES = ("rho", "density", "alpha", "claim")
COMPARED = {"network": GRAPHS, "cost": ("quadratic", "latency"), "study": STUDIES}
LARGEST_NUMBER = 2**53


def _above_zero(value: float | None, info: ValidationInfo) -> float | None:
    if value is not None and not 0 < value < float("inf"):
        raise InputError(f"{info.field_name} must be a number above 0, not {value:g}", code=f"{info.field_name}.range")
    return value


def _below_one(part: float) -> float:
    if not 0 <= part < 1:
        raise InputError(f"held_out must be a part from 0 to below 1, not {part:g}", code="held_out.range")
    return part


def _expanded(files: list[str]) -> list[str]:
    """Folders as the files in them; what cannot be read is told when the run is built."""
    from equipoise.data.table import found_files

    try:
        return [str(path) for path in found_files(files)]
    except InputError:
        return files


Positive = Annotated[float | None, AfterValidator(_above_zero)]


def flag(name: str) -> str:
    """The option of a setting: crash as --crash."""
    return "--budget-at" if name == "budgets" else "--" + name.replace("_", "-")


class TrainSpec(Spec):
    """Everything that determines a run; the same file repeats it bit for bit. `build()` makes it real."""

    data: str = of_data("digits", f"Data set: {', '.join(DATA)}.")
    data_dir: WholePath = of_data(None, "Folder with the four MNIST idx files (gzip or not).", "DIR")
    files: list[Whole] = of_data([], "Own files, one for each centre; a folder is all files in it.", only_in_file=True)
    data_file: WholePath = of_data(
        None, "With --data csv: one own file, whose rows are dealt to --nodes centres (see --split).", "FILE"
    )
    label: str | None = of_data(
        None,
        "Label column of own files; the last one unless given. Text, or up to 20 different whole numbers, are classes.",
        "COLUMN",
    )
    drop: list[str] = of_data(
        [], "Column of own files to leave out, such as an id; repeatable.", "COLUMN", repeats=True
    )
    text: list[str] = of_data(
        [],
        "Column of own files to take as text though it holds numbers, such as a postcode; repeatable.",
        "COLUMN",
        repeats=True,
    )
    min_count: SomeCount = of_data(
        None,
        "Rows of a centre that must have a value of a text column before the centre names it to others; the rest are "
        "'other'. 10 unless given, 1 for a single file.",
        "ROWS",
    )
    numbers_only: bool = of_data(
        False, "Send no text: no names of columns, no values. Refuses columns and labels of text."
    )
    held_out: Annotated[float, AfterValidator(_below_one)] = of_data(
        0.2, "Part of the rows of each own file that no centre trains on, to score models.", "PART"
    )
    samples: SomeCount = of_data(None, "Use only so many training samples, drawn by class.")
    split: str = of_data("label", "How samples reach the centres: even, label (sorted), dirichlet.")
    concentration: float = of_data(1.0, "Of the Dirichlet split; smaller is more unequal.")

    model: str = of_problem("auto", f"Model: {', '.join(KNOWN['model'])}.")
    reg: float | None = of_problem(
        None, "Ridge of the model; each has its own default. Of classes in own files 1 / rows, but at least 1e-4."
    )
    mu: float = of_problem(3.0, "Sharpness of the smooth hinge (smooth_svm).")
    class_weight: str | None = of_problem(
        None, "balanced: every class weighs the same, however rare it is (softmax, smooth_svm, mlp).", "balanced"
    )
    cost: str = of_problem("latency", f"Cost of a CPU share: {', '.join(KNOWN['cost'])}; parameters drawn by seed.")
    budget: float | None = of_problem(None, "CPUs to share; 25 a centre unless given.", "CPUS")
    lo: Number | None = of_problem(None, "Least CPUs a centre can use; 10 unless given.", "CPUS")
    hi: Number | None = of_problem(None, "Most CPUs a centre can use; 40 unless given.", "CPUS")
    a: Number | None = of_problem(None, "Curvature of quadratic costs.", only_in_file=True)
    c: Number | None = of_problem(None, "Wishes of quadratic costs.", only_in_file=True)
    work: Number | None = of_problem(None, "Work of latency costs.", only_in_file=True)
    speed: Number | None = of_problem(None, "Speed of latency costs.", only_in_file=True)
    energy: Number | None = of_problem(None, "Energy factor of latency costs.", only_in_file=True)
    budgets: dict[int, float] = of_problem({}, "Changes of budget: round to CPUs.", only_in_file=True)

    nodes: Count = of_network(20, "Number of computing centres.")
    network: str = of_network("erdos_renyi", "erdos_renyi, geometric, ring, path, star, grid, complete, or file.")
    network_file: WholePath = of_network(None, "Edge list, `i j` or `i j weight` a line (network=file).", "FILE")
    p: float = of_network(0.3, "Edge probability (erdos_renyi).")
    radius: float | None = of_network(None, "Reach of a link in the unit square (geometric).")
    weights: str = of_network(
        "auto", "Edge weights: auto, laplacian (the network's own, such as a file's) or metropolis."
    )
    switching: int | Literal["fresh"] = of_network(
        5, "Graphs taken in turn (0: one static graph), or `fresh`: a new one each round.", "COUNT|fresh"
    )

    quantizer: str = of_method("log", f"Messages: {', '.join(QUANTIZERS)}; uniform ones leave a residual gap.")
    rho: float = of_method(
        0.125,
        "Coarseness of messages: a change is heard to a factor of e^(rho/2). At 0.125: minifloats of 10 bits where links "
        "return; codes node by node and along edges have 9.",
    )
    mode: str | None = of_method(
        None,
        "innovation, node, or edge (a tool of analysis: no real channel can do it); each method has its own default.",
    )
    bits: int = of_method(9, "Bits of the uniform quantiser.")
    method: str = of_method("equipoise", f"{' or '.join(METHODS)} (the dynamics as published).")
    cpu: str = of_method(
        "auto",
        "How CPU is traded: links (prices over links that return), markets (also where none does), flows (the paper's, "
        "along edges); auto: the first that the run allows.",
    )
    learning: str = of_method(
        "auto",
        "How models are learnt: links, averages (over neighbourhoods; also for mini-batches and nets), mixing (the "
        "paper's gradient tracking); auto: the first that the run allows.",
    )
    step: float | Literal["auto"] = of_method(
        "auto", "Step of consensus and flows along edges; a number selects them.", "NUMBER|auto"
    )
    alpha: float | Literal["auto"] = of_method(
        "auto", "Step along the tracked gradient; a number selects mixing along edges.", "NUMBER|auto"
    )
    momentum: bool | None = of_method(
        None, "Off: the paper's dynamics along edges, one exchange a round. On: ours. Each method has its own default."
    )
    box: str | None = of_method(None, "price, limit or penalty; each method has its own default.")
    cap: float | Literal["auto"] = of_method(
        "auto", "Momentum of the averaged models, below 1; auto follows their conditioning.", "NUMBER|auto"
    )
    batch: SomeCount = of_method(
        None, f"Samples a centre draws each round; all it has unless given, {DEEP_BATCH} for mlp and cnn."
    )
    fade: Positive = of_method(None, "Rounds after which alpha has halved, for mini-batches.", "ROUNDS")

    directed: bool = of_faults(False, "Links carry one way only.")
    loss: float | str = of_faults(
        0.0,
        "Packets lost: 0.3, or in bursts: bursts:ENTER,LEAVE[,BAD[,GOOD]], such as bursts:0.05,0.3.",
        "PART|bursts:...",
    )
    delay: Index = of_faults(0, "Rounds a packet takes: 0 to so many, drawn for each.", "ROUNDS")
    fixed_delay: bool = of_faults(False, "Every packet takes exactly --delay rounds.")
    crash: list[str] = of_faults([], "Centres that die: 7@137, or 3,7@137; repeatable.", "NODES@ROUND", repeats=True)
    leave: list[str] = of_faults(
        [], "Centres that go and hand over their CPU: 3@50; repeatable.", "NODES@ROUND", repeats=True
    )
    join: list[str] = of_faults([], "Centres that come later, or back: 9@200; repeatable.", "NODES@ROUND", repeats=True)
    straggle: list[str] = of_faults(
        [], "Centres that act in every k-th round: 4:5; repeatable.", "NODES:ROUNDS", repeats=True
    )
    partition: list[str] = of_faults(
        [],
        "The network splits and heals: 0-9@100..400; 0-9@100.. never does; repeatable.",
        "NODES@BEGIN..END",
        repeats=True,
    )
    notice: Index = of_faults(NOTICE, "Rounds after a crash or a split until everybody knows of it.", "ROUNDS")

    couple: bool = of_coupling(
        False, "CPU buys samples: batches follow shares; ends with CPU-seconds to a target accuracy per way to share."
    )
    seeds: Count = of_coupling(2, "Seeds that --couple compares allocations on, from --seed on.", "COUNT")
    passes: Positive = of_coupling(None, "With --batch: passes through all data, instead of --rounds.")
    rivals: bool = of_coupling(False, "With mlp or cnn: also train it centrally, without trackers, and with a server.")

    engine: str = of_engine(
        "embedded", "Where rounds are played: embedded (in this process), processes, ray. The result is the same."
    )
    workers: SomeCount = of_engine(
        None, "Workers that the centres are divided over; one for each core unless given.", "COUNT"
    )
    address: str | None = of_engine(
        None, "Of a Ray cluster: HOST:PORT, ray://HOST:PORT or auto; Ray on this machine unless given.", "ADDRESS"
    )
    cpus: float | None = of_engine(
        None, "With --couple: cores that stand for the whole budget; all of this machine's unless given.", "CORES"
    )
    limiter: str = of_engine(
        "auto", "With --couple: how workers are held to their shares (see equipoise doctor).", "KIND"
    )

    rounds: Count = of_run(3000, "Rounds at most.")
    target: float | None = of_run(
        1e-4, "Stop, and certify, at this part of the gap at the start; what noise allows with mini-batches."
    )
    patience: SomeCount = of_run(None, "Stop when the gap has not improved by 1% in so many rounds.")
    every: SomeCount = of_run(None, "Record history each so many rounds.")
    seed: Index = of_run(0, "Of data split, costs and network.")
    beside: str | None = of_run(
        None,
        "Also play the same problem by another dynamics, and draw both: paper (as published), links, markets (with "
        "averages), flows (with mixing).",
        "DYNAMICS",
    )

    _names = known_names(KNOWN)

    @field_validator(*EXAMPLES, mode="before")
    @classmethod
    def _faults(cls, value: object, info: ValidationInfo) -> list[str]:
        return checked_texts(str(info.field_name), value)

    @field_validator("loss", mode="before")
    @classmethod
    def _loss(cls, value: object) -> float | str:
        return checked_loss(value)

    @model_validator(mode="after")
    def _fitting_defaults(self) -> Self:
        """What was not said fits what was: written to config.yaml, so that the file says it all."""
        said = self.model_fields_set
        noisy = self.deep or self.batch is not None or self.couple
        defaults: dict[str, Plain] = {}
        if noisy:
            defaults["target"] = None
        if self.files:
            defaults |= {"data": "csv"}
            own = _expanded(self.files)
            object.__setattr__(self, "files", own)
            defaults |= {"nodes": len(own)} if len(own) > 1 else {}
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

    def plain(self) -> dict[str, Any]:
        """JSON values, without where the run is played, and of own files only what was set."""
        left_out = {
            *PLACES,
            *(name for name in OF_FILES if getattr(self, name) == type(self).model_fields[name].default),
        }
        return {name: value for name, value in super().plain().items() if name not in left_out}

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

    entrants: list[str] = of_comparison("all", "Names with commas between, or all that can play.", "NAMES")
    study: str | None = of_comparison(
        None,
        f"One knob at a time instead: {', '.join(STUDIES)}; claim is `equipoise reproduce fifty-percent-better`.",
        "STUDY",
    )
    rounds: Annotated[int, whole(1, LARGEST_NUMBER)] = of_comparison(200, "Rounds that everybody plays.")
    seeds: Annotated[int, whole(1, LARGEST_NUMBER)] = of_comparison(
        20, "Instances; every entrant plays the same.", "COUNT"
    )
    first_seed: Annotated[int, whole(0, LARGEST_NUMBER)] = of_comparison(
        0, "The first of them; rivals were tuned on 900 to 903.", "SEED"
    )
    rho: float = of_comparison(0.125, "Coarseness of log codes; uniform ones get the same bits.")
    target: float = of_comparison(1e-6, "Relative gap at which ours must end.")

    nodes: Annotated[int, whole(2, LARGEST_NUMBER)] = of_instances(20, "Number of computing centres.")
    network: str = of_instances("erdos_renyi", f"{', '.join(GRAPHS)}.")
    p: float = of_instances(0.3, "Edge probability (erdos_renyi).")
    radius: float | None = of_instances(None, "Reach of a link in the unit square (geometric).")
    switching: int | Literal["fresh"] = of_instances(
        0, "Graphs taken in turn (0: one static graph), or `fresh`: a new one each round.", "COUNT|fresh"
    )
    cost: str = of_instances("quadratic", "Cost of a CPU share: quadratic or latency; drawn by seed.")
    budget: float | None = of_instances(None, "CPUs to share; 25 a centre unless given.", "CPUS")
    price: float | None = of_instances(None, "Instead: the optimal price, which sets the budget.")
    boxes: bool = of_instances(False, "Bounds on quadratic shares, so that about a quarter end full.")

    _names = known_names(COMPARED)

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
