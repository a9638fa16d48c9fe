"""Holding workers to the CPU that their centres have negotiated."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from equipoise.engine.cpu_limit import CpuLimiter, Held, Usage, limiter
from equipoise.engine.cpu_limit.process_tree import facts
from equipoise.errors import InputError
from equipoise.train.arrays import Ints

LEAST = 0.01  # cores: whoever has less would never finish a round


@dataclass(frozen=True)
class Hold:
    """How workers are held: `cpus` (cores; all of this machine unless given) stand for the whole budget."""

    cpus: float | None = None
    limiter: str = "auto"

    def __post_init__(self) -> None:
        most = os.cpu_count() or 1
        if self.cpus is not None and not 0 < self.cpus <= most:
            raise InputError(
                f"cpus {self.cpus:g}: workers can be held to more than 0 and at most this machine's {most}"
            )

    @property
    def cores(self) -> float:
        return float(os.cpu_count() or 1) if self.cpus is None else self.cpus

    def shares(self, units: dict[int, int], nodes: dict[int, int]) -> dict[int, float]:
        """Cores of each worker: in proportion to the CPU of its centres, or to their number where none is negotiated."""
        parts = units if any(units.values()) else nodes
        whole = sum(parts.values())
        return {shard: max(LEAST, self.cores * part / whole) for shard, part in parts.items()}


class Keeper(Protocol):
    """Holds the workers of a crew."""

    says: str

    def set(self, shares: dict[int, float]) -> None: ...

    def usage(self) -> dict[int, Usage]: ...

    def close(self) -> None: ...


class LocalKeeper:
    """Holds processes of this machine."""

    def __init__(self, kind: str) -> None:
        self._limiter: CpuLimiter = limiter(kind).__enter__()
        self._pids: dict[int, int] = {}
        self._held: dict[int, Held] = {}
        self.says = self._limiter.says

    def hold(self, pids: dict[int, int]) -> None:
        """These processes, from the first share on."""
        self._pids |= pids

    def set(self, shares: dict[int, float]) -> None:
        """Cores of each worker from now on."""
        for shard, share in shares.items():
            cores = min(share, float(os.cpu_count() or 1))
            if shard in self._held:
                self._held[shard].set(cores)
            elif shard in self._pids:
                self._hold(shard, self._pids[shard], cores)

    def _hold(self, shard: int, pid: int, cores: float) -> None:
        """A worker that has died is a crash of its centres, and no error of its limiter's."""
        try:
            self._held[shard] = self._limiter.hold(pid, cores)
        except InputError:
            now = facts(pid)
            if now is not None and now.state not in "ZX":
                raise

    def usage(self) -> dict[int, Usage]:
        """What each got so far."""
        return {shard: held.usage() for shard, held in self._held.items()}

    def close(self) -> None:
        self._limiter.__exit__(None, None, None)


def told(usage: dict[int, Usage]) -> dict[str, Any]:
    """Plain values for a result."""
    rows = [{"worker": shard} | asdict(each) for shard, each in sorted(usage.items())]
    return {"workers": rows, "cpu_seconds": sum(row["cpu_seconds"] for row in rows)}


def nodes_of(shard_of: Ints) -> dict[int, int]:
    """How many centres each shard has."""
    return {int(shard): int((shard_of == shard).sum()) for shard in set(shard_of.tolist())}
