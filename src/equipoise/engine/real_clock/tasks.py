"""What a task can be: a generator that does a unit of work, yields its error, and so on.

Ours train scikit-learn estimators or a torch module on data that comes with scikit-learn; a user may name a function.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError, unknown_name
from equipoise.registry import is_reference, load_reference

if TYPE_CHECKING:
    from equipoise.data.dataset import Dataset

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Errors = Iterator[float]


@dataclass(frozen=True)
class TaskKind:
    """A family of tasks: (model, which of its settings, data) of share's recorder, and real samples in a unit."""

    trained: tuple[tuple[str, int, str], ...]
    rows: int
    needs: str = "sklearn"


# Those whose errors still fall after seconds of training; naive Bayes learns fast, so it is fed slowly.
KINDS: dict[str, TaskKind] = {
    "sgd": TaskKind((("sgd", 2, "digits-blurred"), ("sgd", 5, "digits"), ("sgd", 8, "digits-blurred")), rows=16),
    "mlp": TaskKind((("mlp", 1, "digits"), ("mlp", 3, "digits-blurred"), ("mlp", 4, "digits")), rows=16),
    "nb": TaskKind(
        (("naive-bayes-bernoulli", 0, "digits-wrong-labels"), ("naive-bayes-multinomial", 0, "digits-blurred")), rows=2
    ),
    "torch": TaskKind((("torch", 0, "digits"), ("torch", 0, "digits-blurred")), rows=16, needs="torch"),
}


@dataclass(frozen=True)
class Work:
    """One task's work: a kind of ours, or FILE.py:function; its seed decides everything else about it."""

    kind: str
    seed: int

    def open(self) -> Errors:
        """The generator; what it costs to make it is not the task's."""
        if is_reference(self.kind):
            return _users(self.kind, self.seed)
        rng = np.random.default_rng(self.seed)
        return _ours(KINDS[self.kind], int(rng.integers(len(KINDS[self.kind].trained))), rng)


def _ours(kind: TaskKind, which: int, rng: np.random.Generator) -> Errors:
    """One of a kind, its data, order and weights drawn."""
    model, setting, material = kind.trained[which]
    recorder = importlib.import_module("equipoise.share.record")
    data = recorder.prepare(recorder.DATA[material], rng)
    if model == "torch":
        return torch_work(_perceptron(data, int(rng.integers(2**31))), data, rows=kind.rows, rng=rng)
    known = recorder.MODELS[model]
    estimator = known.build(known.settings[setting], int(rng.integers(2**31)))
    return partial_fit_work(estimator, data, rows=kind.rows, rng=rng)


def partial_fit_work(estimator: Any, data: Dataset, *, rows: int, rng: np.random.Generator) -> Errors:
    """Work that trains a scikit-learn estimator; yields its error on held-out data after each unit.

    Parameters
    ----------
    estimator
        Anything with `partial_fit` and `predict`.
    data
        What it learns from; the order of its rows is drawn anew for each pass.
    rows
        Samples of a unit.
    rng
        Draws the order.
    """
    classes = np.arange(data.classes)
    with np.errstate(divide="ignore"):  # naive Bayes takes ln 0 for a class not yet seen
        for chosen in _chunks(len(data.y), rows, rng):
            estimator.partial_fit(data.X[chosen], data.y[chosen], classes=classes)
            yield data.error_of(estimator.predict(data.X_test))


def torch_work(
    module: Any, data: Dataset, *, rows: int, rng: np.random.Generator, optimizer: Any = None, loss: Any = None
) -> Errors:
    """Work that trains a torch module; yields its error on held-out data after each unit.

    Parameters
    ----------
    module
        It maps rows of data to a score for each class.
    data
        What it learns from; the order of its rows is drawn anew for each pass.
    rows
        Samples of a unit.
    rng
        Draws the order.
    optimizer
        SGD with a step of 0.05 unless given.
    loss
        Cross-entropy unless given.
    """
    import torch

    torch.set_num_threads(1)
    descend = optimizer or torch.optim.SGD(module.parameters(), lr=0.05)
    measure = loss or torch.nn.CrossEntropyLoss()
    X, held = (torch.as_tensor(part, dtype=torch.float32) for part in (data.X, data.X_test))
    y = torch.as_tensor(data.y)
    for chosen in _chunks(len(data.y), rows, rng):
        descend.zero_grad()
        measure(module(X[chosen]), y[chosen]).backward()
        descend.step()
        with torch.no_grad():
            yield data.error_of(module(held).argmax(1).numpy())


def _perceptron(data: Dataset, seed: int) -> Any:
    """One hidden layer of 32."""
    import torch

    torch.manual_seed(seed)
    inputs = int(data.X.shape[1])
    return torch.nn.Sequential(torch.nn.Linear(inputs, 32), torch.nn.ReLU(), torch.nn.Linear(32, data.classes))


def _chunks(samples: int, rows: int, rng: np.random.Generator) -> Iterator[Ints]:
    """Row numbers, `rows` at a time, pass after pass, shuffled for each pass."""
    left: Ints = np.empty(0, np.int64)
    while True:
        while len(left) < rows:
            left = np.concatenate([left, rng.permutation(samples)])
        yield left[:rows]
        left = left[rows:]


def refuse_unknown(kinds: list[str]) -> None:
    for kind in kinds:
        if not is_reference(kind) and kind not in KINDS:
            raise unknown_name("kind of task", kind, KINDS)


def preload(kinds: list[str]) -> None:
    """Import, read and run once all that the tasks of these kinds need, so that it costs them nothing."""
    for kind in kinds:
        if is_reference(kind):
            load_function(kind)
        else:
            try:
                importlib.import_module(KINDS[kind].needs)
            except ImportError:
                needs = KINDS[kind].needs
                raise InputError(
                    f"tasks of kind {kind!r} need {needs}, which is not installed: pip install 'equipoise[{needs}]'",
                    code="library.missing",
                ) from None
            for which in range(len(KINDS[kind].trained)):
                next(_ours(KINDS[kind], which, np.random.default_rng(which)))


@cache
def load_function(reference: str) -> Callable[[int], object]:
    """`FILE.py:function`, the file run once; a mistake in it is one line that says where."""
    found = load_reference(reference, "function")
    if not callable(found):
        path, _, name = reference.rpartition(":")
        raise InputError(f"{Path(path).name}: {name} is a {type(found).__name__}; expected a function of a seed")
    return found


def _users(reference: str, seed: int) -> Errors:
    """The user's function, called with the task's seed; it must return something that yields errors."""
    found = load_function(reference)(seed)
    if not isinstance(found, Iterable):
        name = reference.rpartition(":")[2]
        raise TypeError(
            f"{name}({seed}) returned {type(found).__name__}; expected a generator that yields an error after each unit"
        )
    return iter(found)
