"""Record real learning curves: train scikit-learn models sample by sample and measure the held-out error on the way.

Every combination of model, setting, data and seed is kept, whatever its curve looks like.
"""

import csv
import gzip
import importlib
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data import load
from equipoise.data.dataset import Dataset
from equipoise.data.split import Targets, hold_out
from equipoise.document import Row
from equipoise.errors import InputError, refuse_if, refuse_unknown
from equipoise.kernels import Floats, Ints
from equipoise.share.recording import Name, Recording

Progress = Callable[[int, int, Name], None]  # curves recorded, of how many, the one just recorded

MINI_BATCH = 4  # real samples in one sample of the site: what a task computes there is a small batch
LAST = 5000  # samples of the site; 20,000 real ones, 22 passes over half of the digits
REPEATS = 2
HELD_OUT = 0.5  # of each class, so that an error is measured on hundreds of samples
GRID: Ints = np.unique(np.round(np.geomspace(1, LAST, 66)).astype(np.int64))  # 57 places


@dataclass(frozen=True)
class Model:
    """A scikit-learn class with `partial_fit`, and the settings it is trained with."""

    module: str
    kind: str
    settings: tuple[Row, ...]
    fixed: Row = field(default_factory=dict)
    seeded: bool = True  # naive Bayes takes no random_state

    def build(self, settings: Row, seed: int) -> Any:
        made = getattr(importlib.import_module(f"sklearn.{self.module}"), self.kind)
        chance = {"random_state": seed} if self.seeded else {}
        return made(**self.fixed, **settings, **chance)


@dataclass(frozen=True)
class Material:
    """A data set, and what makes it harder: fewer classes, other questions, wrong labels, blurred features."""

    source: str
    only: tuple[int, ...] = ()
    parity: bool = False
    wrong_labels: float = 0.0  # of the training samples; held-out labels stay true
    blur: float = 0.0  # standard deviation of noise on features in [0, 1], training and held-out


STEADY = tuple(product(("hinge", "log_loss"), (0.1, 0.01, 0.001)))  # losses, and rates of learning that stay
MODELS: dict[str, Model] = {
    "sgd": Model(
        "linear_model",
        "SGDClassifier",
        (
            *({"loss": loss, "learning_rate": "constant", "eta0": rate} for loss, rate in STEADY),
            {"loss": "log_loss", "learning_rate": "invscaling", "eta0": 0.1},
            {"loss": "log_loss", "learning_rate": "constant", "eta0": 0.01, "alpha": 0.01},
            {"loss": "modified_huber", "learning_rate": "constant", "eta0": 0.003},
            {"loss": "hinge", "learning_rate": "optimal", "alpha": 0.001},
            {"loss": "hinge", "learning_rate": "constant", "eta0": 0.01, "average": True},
        ),
    ),
    "perceptron": Model("linear_model", "Perceptron", ({}, {"penalty": "l2", "alpha": 0.001})),
    "passive-aggressive": Model(
        "linear_model",
        "SGDClassifier",
        ({"eta0": 1.0}, {"eta0": 0.003}),
        fixed={"loss": "hinge", "penalty": None, "learning_rate": "pa1"},
    ),
    "naive-bayes-gaussian": Model(
        "naive_bayes", "GaussianNB", ({"var_smoothing": 1e-3}, {"var_smoothing": 0.1}), seeded=False
    ),
    "naive-bayes-bernoulli": Model("naive_bayes", "BernoulliNB", ({"binarize": 0.3},), seeded=False),
    "naive-bayes-multinomial": Model("naive_bayes", "MultinomialNB", ({"alpha": 1.0},), seeded=False),
    "mlp": Model(
        "neural_network",
        "MLPClassifier",
        (
            {"hidden_layer_sizes": (16,), "solver": "sgd", "learning_rate_init": 0.1, "batch_size": 8},
            {"hidden_layer_sizes": (16,), "solver": "sgd", "learning_rate_init": 0.01, "batch_size": 4},
            {"hidden_layer_sizes": (64,), "solver": "sgd", "learning_rate_init": 0.01, "batch_size": 16},
            {"hidden_layer_sizes": (64,), "solver": "sgd", "learning_rate_init": 0.003, "batch_size": 4},
            {"hidden_layer_sizes": (16,), "solver": "adam", "learning_rate_init": 0.001, "batch_size": 8},
            {"hidden_layer_sizes": (64,), "solver": "adam", "learning_rate_init": 0.0003, "batch_size": 16},
            {"hidden_layer_sizes": (32, 16), "solver": "adam", "learning_rate_init": 0.003, "batch_size": 16},
        ),
        fixed={"shuffle": False},
    ),
}

DATA: dict[str, Material] = {
    "digits": Material("digits"),
    "digits-look-alike": Material("digits", only=(1, 3, 5, 8, 9)),
    "digits-even-or-odd": Material("digits", parity=True),
    "digits-wrong-labels": Material("digits", wrong_labels=0.2),
    "digits-blurred": Material("digits", blur=0.3),
    "breast-cancer": Material("breast_cancer"),
    "breast-cancer-wrong-labels": Material("breast_cancer", wrong_labels=0.2),
    "breast-cancer-blurred": Material("breast_cancer", blur=0.2),
}


def record(
    models: Iterable[str] | None = None,
    data: Iterable[str] | None = None,
    repeats: int = REPEATS,
    progress: Progress | None = None,
    seed: int = 0,
) -> Recording:
    """Train every setting of these models on these data, and keep their learning curves.

    A curve depends on its own name only, not on what else is recorded. Errors are of held-out samples.

    Parameters
    ----------
    models
        Names of MODELS; all if None.
    data
        Names of DATA; all if None.
    repeats
        How often each is trained, with seeds `seed`, `seed` + 1, ...
    progress
        Called with curves done, curves in all and the name of the last.
    seed
        The first seed.
    """
    refuse_if(repeats < 1, f"record: repeats is {repeats}; expected 1 or more", code="repeats.range")
    refuse_if(seed < 0, f"record: seed is {seed}; expected zero or more", code="seed.range")
    plan = list(_plan(_known("model", models, MODELS), _known("data set", data, DATA), repeats, seed))
    errors = []
    for done, (name, settings) in enumerate(plan, 1):
        errors.append(train(name, settings))
        if progress is not None:
            progress(done, len(plan), name)
    return Recording.of([(GRID, found) for found in errors], [name for name, _ in plan])


def check_target(path: Path) -> None:
    """Refuse a file that cannot be written before hours are spent on what goes in it."""
    why = f"{path} is a folder: name a file to write, such as {path / 'curves.csv.gz'}"
    refuse_if(path.is_dir(), why, code="file.folder")
    if not path.absolute().parent.is_dir():
        raise InputError(f"cannot write {path}: {path.absolute().parent} is not a folder", code="file.folder")


def _known(kind: str, given: Iterable[str] | None, known: Mapping[str, object]) -> list[str]:
    names = list(dict.fromkeys(known if given is None else given))
    refuse_unknown(kind, names, known)
    refuse_if(not names, f"record: no {kind}; expected some of {', '.join(known)}", code="record.none")
    return names


def _plan(models: Sequence[str], data: Sequence[str], repeats: int, seed: int) -> Iterator[tuple[Name, Row]]:
    """What is trained, in order: every combination."""
    kinds = [(model, settings) for model in models for settings in MODELS[model].settings]
    for (model, settings), material, number in product(kinds, data, range(seed, seed + repeats)):
        spelled = " ".join(f"{key}={str(value).replace(' ', '')}" for key, value in settings.items()) or "as-is"
        yield Name(model, material, spelled, str(number)), settings


def train(name: Name, settings: Row) -> Floats:
    """One model from its first sample to its last; its held-out error at every place of the grid."""
    from threadpoolctl import threadpool_limits  # scikit-learn brings it

    rng = np.random.default_rng([int(name.seed), zlib.crc32(str(name[:3]).encode())])
    data = prepare(DATA[name.data], rng)
    model = MODELS[name.model].build(settings, int(rng.integers(2**31)))
    wanted, errors, seen = int(GRID[-1]) * MINI_BATCH, np.empty(len(GRID)), 0
    # Row numbers: pass after pass over the samples, shuffled anew each time.
    stream = np.concatenate([rng.permutation(len(data.y)) for _ in range(-(-wanted // len(data.y)))])
    # One thread adds up in one order everywhere; naive Bayes takes ln 0 for a class not yet seen.
    with threadpool_limits(1), np.errstate(divide="ignore"):
        for place, until in enumerate(GRID * MINI_BATCH):
            rows = stream[seen:until]
            _teach(model, data.X[rows], data.y[rows], data.classes)
            errors[place], seen = data.error_of(model.predict(data.X_test)), until
    return errors


def prepare(material: Material, rng: np.random.Generator) -> Dataset:
    """Features scaled to [0, 1], half of each class held out, and made harder as the material says."""
    X, y = _samples(material.source)
    if material.only:
        keep = np.isin(y, material.only)
        X, y = X[keep], np.searchsorted(material.only, y[keep])
    y = y % 2 if material.parity else y
    classes = int(y.max()) + 1
    if material.blur:
        X = np.clip(X + material.blur * rng.standard_normal(X.shape), 0.0, 1.0)  # counts must not be negative
    taught, held = hold_out(y, HELD_OUT, int(rng.integers(2**31)))
    labels = y[taught].copy()
    wrong = rng.random(len(labels)) < material.wrong_labels
    labels[wrong] = (labels[wrong] + rng.integers(1, classes, wrong.sum())) % classes
    return Dataset(material.source, X[taught], labels, X[held], y[held], classes)


@cache
def _samples(source: str) -> tuple[Floats, Ints]:
    """All samples of a data set, every feature scaled to [0, 1]."""
    data = load(source)
    X, y = np.vstack([data.X, data.X_test]), np.concatenate([data.y, data.y_test]).astype(np.int64)
    low, width = X.min(axis=0), np.ptp(X, axis=0)
    return (X - low) / np.where(width > 0, width, 1.0), y


def _teach(model: Any, X: Floats, y: Targets, classes: int) -> None:
    """One pass over these samples. A network takes them in batches, which may not be larger than what there is."""
    batch = getattr(model, "batch_size", None)
    if batch is not None:
        model.set_params(batch_size=min(batch, len(y)))
    model.partial_fit(X, y, classes=np.arange(classes))
    if batch is not None:
        model.set_params(batch_size=batch)


Key = tuple[str, str]  # learner, OpenML data set
Anchors = dict[int, tuple[float, float, int]]  # training size: sum of errors, sum of held-out sizes, rows

LCDB_COLUMNS = ("openmlid", "learner", "size_train", "size_test", "score_test")
FEWEST = 5  # anchors; a shorter curve shows no shape


def read_lcdb(path: str | Path, unit: float = 1.0) -> Recording:
    """The curves of LCDB, the learning curve database (Mohr et al., ECML 2022; PyPI `lcdb`, file database-accuracy.csv).

    Its curves are of another kind than ours: one model per training-set size ("anchor"), the mean over its outer and inner
    seeds; error = 1 - mean test score. A curve needs five anchors of a sample or more. A sample of the site is `unit`
    training samples. A perfect mean score counts as half a wrong answer in all its tests, so that it has a logarithm.

    Parameters
    ----------
    path
        The CSV file, plain or gzipped.
    unit
        Training samples in one sample of the site.
    """
    if not (np.isfinite(unit) and unit > 0):
        raise InputError(f"read_lcdb: unit is {unit!r} training samples; expected a positive number", code="unit.range")
    try:
        packed = Path(path).suffix == ".gz"
        with gzip.open(path, "rt", newline="") if packed else Path(path).open(newline="") as lines:
            tables = _sums(lines, str(path))
    except (OSError, EOFError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", code="file.read") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a CSV of LCDB: it is not text", code="file.read") from None
    usable = {key: {n: sums for n, sums in anchors.items() if n >= unit} for key, anchors in sorted(tables.items())}
    kept = {key: anchors for key, anchors in usable.items() if len(anchors) >= FEWEST}
    refuse_if(not kept, f"{path}: no curve with {FEWEST} training sizes or more", code="curves.none")
    names = [Name(learner, f"OpenML {data}", "", "mean of all") for learner, data in kept]
    return Recording.of([_curve(anchors, unit) for anchors in kept.values()], names)


def _sums(lines: Iterable[str], path: str) -> dict[Key, Anchors]:
    """One pass over the table, which has two million rows: sums per learner, data set and training size."""
    rows = csv.reader(lines)
    header = next(rows, [])
    missing = [column for column in LCDB_COLUMNS if column not in header]
    why = f"{path} is not an LCDB table: no column {', '.join(missing)}; expected database-accuracy.csv"
    refuse_if(missing, why, code="lcdb.column")
    data, learner, train, test, score = (header.index(column) for column in LCDB_COLUMNS)
    tables: dict[Key, Anchors] = defaultdict(dict)
    for row in rows:
        try:
            size, held, value = int(row[train]), int(row[test]), float(row[score])
            key = (row[learner], row[data])
        except (ValueError, IndexError):
            why = f"{path}, line {rows.line_num}: a training size, test size or score is missing"
            raise InputError(why, code="lcdb.row") from None
        if not (0.0 <= value <= 1.0 and size > 0 and held > 0):
            wanted = "an accuracy from 0 to 1 and sizes of 1 or more (database-accuracy.csv)"
            why = f"{path}, line {rows.line_num}: score {value:g} on {held} of {size}; expected {wanted}"
            raise InputError(why, code="lcdb.row")
        errors, tested, count = tables[key].get(size, (0.0, 0.0, 0))
        tables[key][size] = (errors + 1.0 - value, tested + held, count + 1)
    return tables


def _curve(anchors: Anchors, unit: float) -> tuple[Floats, Floats]:
    """Mean errors by size, in samples of the site."""
    sizes = sorted(anchors)
    errors, tested, counts = np.array([anchors[size] for size in sizes]).T
    return np.array(sizes) / unit, np.maximum(errors / counts, 0.5 / tested)
