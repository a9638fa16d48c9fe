"""CPU that buys learning: batches follow shares, and what they show moves shares (docs/train.md, 6)."""

from equipoise.train.coupling.link import CouplingLink

__all__ = ["CouplingLink"]
