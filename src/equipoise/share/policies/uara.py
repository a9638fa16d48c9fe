"""UARA, as published (Hasan and Peña's code): Uniform under caps that a price of the network divides.

Weights favour urgent tasks and those far ahead. The busier the uplink, the less it computes, which relieves nothing.
"""

from dataclasses import dataclass

from equipoise.share.policies._authors import EVEN, THOSE_WHO_COMPUTE, decision
from equipoise.share.view import Decision, View


@dataclass(frozen=True)
class UARA:
    label, colour, marker, rank = "UARA", "#0e7490", "diamond", 4
    frugal = True  # leaves compute idle by design
    published = True
    blind = True  # to errors

    def decide(self, view: View) -> Decision:
        return decision(view, EVEN, capped=THOSE_WHO_COMPUTE)
