"""What finishing is worth: a value that falls with the slots from arrival to finish (spec, section 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError, refuse_words, unknown_name
from equipoise.kernels import kernel

Floats = NDArray[np.float64]
SIGMOID, DEADLINE, LINEAR = 0, 1, 2
MOST = 1e12  # a worth or a time beyond this is a slip


@kernel
def worth(kind: int, value: float, rate: float, when: float, slots: float) -> float:
    """u(d): th1 / (1 + exp(th2 (d - th3))), or a step at `when`, or a line that reaches 0 at `when`."""
    if kind == SIGMOID:
        exponent = rate * (slots - when)
        return value / (1.0 + math.exp(exponent)) if exponent < 700.0 else 0.0
    if kind == DEADLINE:
        return value if slots <= when else 0.0
    return value * max(0.0, 1.0 - slots / when)


@kernel
def worth_over(kind: int, value: float, rate: float, when: float, first: int, count: int) -> Floats:
    """u(first), u(first + 1), ..., `count` of them."""
    out = np.empty(count)
    for k in range(count):
        out[k] = worth(kind, value, rate, when, float(first + k))
    return out


class Utility:
    """One of the kinds below; u(0) is for finishing in the slot of arrival."""

    kind: ClassVar[int]
    name: ClassVar[str]

    @property
    def parameters(self) -> tuple[float, float, float]:
        raise NotImplementedError

    def __call__(self, slots: float) -> float:
        """The worth of finishing `slots` after arrival."""
        return float(worth(self.kind, *self.parameters, float(slots)))

    def as_dict(self) -> dict[str, Any]:
        """Plain values that `utility()` reads back."""
        return {"kind": self.name, **self.__dict__}


def _check(kind: str, *, positive: tuple[str, ...] = (), **values: float) -> None:
    refuse_words(kind, **values)
    for name, number in values.items():
        if not 0.0 <= number <= MOST or (name in positive and number == 0.0):
            wanted = "a positive number" if name in positive else "zero or more"
            raise InputError(f"{kind}: {name} is {number!r}; expected {wanted}, at most {MOST:g}")


@dataclass(frozen=True)
class Sigmoid(Utility):
    """th1 / (1 + exp(th2 (d - th3))): near th1 before th3 slots, near 0 after. th2 = 0 is th1 / 2 for every d."""

    value: float
    steepness: float
    middle: float
    kind: ClassVar[int] = SIGMOID
    name: ClassVar[str] = "sigmoid"

    def __post_init__(self) -> None:
        _check("Sigmoid", value=self.value, steepness=self.steepness, middle=self.middle)

    @property
    def parameters(self) -> tuple[float, float, float]:
        return float(self.value), float(self.steepness), float(self.middle)


@dataclass(frozen=True)
class Deadline(Utility):
    """`value` when finished within `slots` of arrival, else nothing."""

    value: float
    slots: float
    kind: ClassVar[int] = DEADLINE
    name: ClassVar[str] = "deadline"

    def __post_init__(self) -> None:
        _check("Deadline", value=self.value, slots=self.slots)

    @property
    def parameters(self) -> tuple[float, float, float]:
        return float(self.value), 0.0, float(self.slots)


@dataclass(frozen=True)
class Linear(Utility):
    """`value` at arrival, falling on a line to nothing at `slots`."""

    value: float
    slots: float
    kind: ClassVar[int] = LINEAR
    name: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        _check("Linear", positive=("slots",), value=self.value, slots=self.slots)

    @property
    def parameters(self) -> tuple[float, float, float]:
        return float(self.value), 0.0, float(self.slots)


KINDS: dict[str, type[Utility]] = {"sigmoid": Sigmoid, "deadline": Deadline, "linear": Linear}


def utility(values: dict[str, Any]) -> Utility:
    """A utility from plain values, as {"kind": "sigmoid", "value": 80, "steepness": 0.5, "middle": 6}."""
    rest = dict(values)
    name = rest.pop("kind", None)
    if not isinstance(name, str) or name not in KINDS:
        raise unknown_name("utility", str(name), KINDS)
    try:
        return KINDS[name](**rest)
    except TypeError:
        wanted = ", ".join(field.name for field in fields(KINDS[name]))  # type: ignore[arg-type]
        got = ", ".join(map(str, rest)) or "nothing"
        raise InputError(f"utility {name}: got {got}; expected {wanted}") from None
