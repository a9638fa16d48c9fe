"""One learning task: when it arrives, what it must send, when it must be done, and how it learns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from equipoise.errors import InputError, refuse_words
from equipoise.share.curve import Curve

PENDING, SENDING, DELAYED, COMPUTING, DONE, FAILED = range(6)
STATES = ("pending", "sending", "delayed", "computing", "done", "failed")


@dataclass(frozen=True)
class Task:
    """A task given by hand. Times are steps; data is samples to send; it succeeds when its error reaches `target`."""

    arrival: int
    deadline: int
    data: float
    target: float
    curve: Curve = field(default_factory=Curve)
    delay: int | None = None  # steps between the last byte sent and the first that may compute; None draws the site's
    sigma: float = 0.0  # standard deviation of the noise in what is observed

    def __post_init__(self) -> None:
        for name in ("arrival", "deadline", "data", "target", "sigma"):
            value = getattr(self, name)
            refuse_words("Task", **{name: value})
            if not math.isfinite(value) or value < 0:
                raise InputError(f"Task: {name} is {value!r}; expected a number of zero or more")
        for name in ("arrival", "deadline", "delay"):
            value = getattr(self, name)
            if value is not None and (not math.isfinite(value) or value < 0 or value != int(value)):
                raise InputError(f"Task: {name} is {value!r}; expected a whole number of steps, zero or more")
        if self.deadline <= self.arrival:
            raise InputError(f"Task: deadline {self.deadline} is not after arrival {self.arrival}")

    @property
    def work(self) -> float:
        """Samples it must compute; infinite when its curve never reaches the target."""
        return self.curve.work(self.target)
