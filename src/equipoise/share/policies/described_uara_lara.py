"""UARA+LARA as the text of Hasan and Peña describes it: 1.4 x an estimate's need, capped at capacity / everyone.

It starves: the cap counts tasks that cannot compute, and requests just in time fail whenever an estimate is optimistic. The
text's remedies are options: `corrected` counts only tasks that can compute, `floor` guarantees a minimum share.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from equipoise.errors import InputError
from equipoise.share.estimators import Estimate
from equipoise.share.policies._described import CAPPED, decision
from equipoise.share.policies._learning import Learning
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class DescribedUARALARA(Learning):
    """`floor` is the part of an equal share that is guaranteed."""

    corrected: bool = False
    floor: float = 0.0

    label, colour, marker, rank = "DescribedUARA+LARA", "#fb7185", "arrow", 9
    frugal = left_only = True  # leaves compute idle by design; of an estimate it reads the work left
    forms: ClassVar[dict[str, dict[str, object]]] = {  # NAME:form
        "corrected": {"corrected": True},
        "floor": {"corrected": True, "floor": 0.5},
    }

    def __post_init__(self) -> None:
        if not 0.0 <= self.floor <= 1.0:
            raise InputError(f"DescribedUARALARA: floor is {self.floor!r}; expected 0 to 1, a part of an equal share")

    def given(self, view: View, estimate: Estimate) -> Decision:
        # One that was hardly seen asks what the others do on average; if none was seen, for the cap.
        return decision(view, CAPPED, estimate.left, two=True, corrected=self.corrected, floor=self.floor)


corrected = partial(DescribedUARALARA, corrected=True, called="DescribedUARA+LARA:corrected")
with_floor = partial(DescribedUARALARA, corrected=True, floor=0.5, called="DescribedUARA+LARA:floor")
