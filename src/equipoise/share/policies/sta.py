"""STA: LaiRA without its look-ahead, a baseline of its authors. Nobody is given up: hopeless tasks get slices too."""

from dataclasses import dataclass
from typing import ClassVar

from equipoise.share.policies.laira import LaiRA


@dataclass(frozen=True)
class STA(LaiRA):
    label: ClassVar[str] = "STA"
    colour: ClassVar[str] = "#e879a0"
    marker: ClassVar[str] = "emptyTriangle"
    rank: ClassVar[int] = 22  # in tables and charts
    looks_ahead: ClassVar[bool] = False
