"""The engine of a training run: `solve(..., engine=Workers(4))` plays its rounds on four workers."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Self

from equipoise.engine.shards.crew import Crew, Threads
from equipoise.engine.shards.front import ShardedState
from equipoise.engine.shards.hostile_front import ShardedHostileState
from equipoise.engine.shards.processes import Processes
from equipoise.errors import InputError, unknown_name
from equipoise.train.hostile.faults import Faults
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Problem

PLACES = ("processes", "ray", "threads")


class Workers:
    """Workers that play rounds, each with a part of the centres and their data alone.

    count    how many; None: one for each core, at most one for each centre
    on       "processes" of this machine, "ray" actors, or "threads" of this process (to look inside)
    address  of a Ray cluster; None: Ray on this machine

    To be used in a `with` statement: workers end with it. What comes out is the same to the bit as in one process.
    """

    def __init__(self, count: int | None = None, *, on: str = "processes", address: str | None = None) -> None:
        if count is not None and (not isinstance(count, int) or count < 1):
            raise InputError(f"workers must be a whole number of at least 1, not {count!r}")
        if on not in PLACES:
            raise unknown_name("place for workers", on, PLACES)
        if address is not None and on != "ray":
            raise InputError(f"address {address!r} is that of a Ray cluster: it goes with on='ray', not {on!r}")
        self.count, self.on, self.address = count, on, address
        self.crew: Crew | None = None
        self.state: ShardedState | ShardedHostileState | None = None
        self._before: list[int] = []  # bytes a round of an earlier form of the run

    def ordinary(self, problem: Problem, network: Network, method: Method, **options: Any) -> ShardedState:
        """The state of a run without faults, for `solve`."""
        self._begin_anew()
        self.state = ShardedState(self._crew(), self._many(network), problem, network, method, **options)
        return self.state

    def hostile(
        self, problem: Problem, network: Network, method: Method, faults: Faults, **options: Any
    ) -> ShardedHostileState:
        """The state of a run with faults or one-way links."""
        self._begin_anew()
        return self.rescued(problem, network, method, faults, **options)

    def rescued(
        self, problem: Problem, network: Network, method: Method, faults: Faults, **options: Any
    ) -> ShardedHostileState:
        """The same on the workers that are left of a run without faults."""
        self._before = self.wire_bytes
        self.state = ShardedHostileState(
            self._crew(), self._many(network), problem, network, method, faults, **options
        )  # fmt: skip
        return self.state

    def _begin_anew(self) -> None:
        self.close()
        self._before = []

    def _many(self, network: Network) -> int:
        return min(self.count or os.cpu_count() or 1, network.n) if self.count is None else self.count

    def _crew(self) -> Crew:
        crew = self.crew
        if crew is None and self.on == "ray":
            from equipoise.engine.shards.ray_actors import RayCrew

            crew = RayCrew(self.address)
        elif crew is None:
            crew = Threads() if self.on == "threads" else Processes()
        self.crew = crew
        return crew

    @property
    def says(self) -> str:
        """Where rounds are played, in a line."""
        return "nowhere yet" if self.crew is None else self.crew.says

    @property
    def wire_bytes(self) -> list[int]:
        """Bytes between workers in each round."""
        return self._before + ([] if self.state is None else self.state.wire_bytes)

    def pids(self) -> dict[int, int]:
        """The process of each worker."""
        return {} if self.crew is None else self.crew.pids()

    def close(self) -> None:
        """End the workers."""
        if self.crew is not None:
            self.crew.close()
            self.crew = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
