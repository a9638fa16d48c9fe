"""STA: LaiRA without its look-ahead, a baseline of its authors. Nobody is given up: hopeless tasks get slices too."""

from dataclasses import dataclass

from equipoise.share.policies.laira import LaiRA


@dataclass(frozen=True)
class STA(LaiRA):
    label, colour, marker, rank = "STA", "#e879a0", "emptyTriangle", 22
    looks_ahead = False
