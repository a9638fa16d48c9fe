"""Training and sharing CPU on networks that lose, delay and split, with centres that crash, leave and join."""

from equipoise.train.hostile.faults import Bursts, Faults, Partition

__all__ = ["Bursts", "Faults", "Partition"]
