"""The engine of a training run: `solve(..., engine=Workers(4))` plays its rounds on four workers."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Self

import numpy as np

from equipoise.document import Row
from equipoise.engine.cpu_limit import Usage
from equipoise.engine.lossy_sharded import ShardedLossy, refuse_schedules
from equipoise.engine.sharded import Sharded
from equipoise.engine.shards.crew import Crew, Report, Threads
from equipoise.engine.shards.keeper import Hold, Keeper, nodes_of, told
from equipoise.engine.shards.processes import Processes
from equipoise.errors import InputError, unknown_name
from equipoise.train.hostile.faults import Faults
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Problem

PLACES = ("processes", "ray", "threads")
LOOK_EVERY = 5  # rounds after which workers are held to what has been negotiated since


class Workers:
    """Workers that play rounds, each with a part of the centres and their data alone.

    count    how many; None: one for each core, at most one for each centre
    on       "processes" of this machine, "ray" actors, or "threads" of this process (to look inside)
    address  of a Ray cluster; None: Ray on this machine
    hold     hold every worker to the CPU that its centres have negotiated, in parts of Hold(cpus=...)

    To be used in a `with` statement: workers end with it. What comes out is the same to the bit as in one process.
    """

    def __init__(
        self, count: int | None = None, *, on: str = "processes", address: str | None = None, hold: Hold | None = None
    ) -> None:
        if count is not None and (not isinstance(count, int) or count < 1):
            raise InputError(f"workers must be a whole number of at least 1, not {count!r}", code="workers.range")
        if on not in PLACES:
            raise unknown_name("place for workers", on, PLACES)
        if address is not None and on != "ray":
            raise InputError(
                f"address {address!r} is that of a Ray cluster: it goes with on='ray', not {on!r}",
                code="workers.address",
            )
        self.count, self.on, self.address, self.hold = count, on, address, hold
        self.keeper: Keeper | None = None
        self.crew: Crew | None = None
        self.state: Sharded | ShardedLossy | None = None

    def ordinary(self, problem: Problem, network: Network, method: Method, **options: Any) -> Sharded:
        """The state of a run without faults, for `solve`."""
        self._begin_anew(network)
        self.state = Sharded(self._crew(), self._many(network), problem, network, method, **options)
        self._hold(self.state)
        return self.state

    def hostile(
        self, problem: Problem, network: Network, method: Method, faults: Faults, **options: Any
    ) -> ShardedLossy:
        """The state of a run with loss, delay or one-way links, for `solve`. Schedules are refused by name."""
        refuse_schedules(faults)
        self._begin_anew(network)
        self.state = ShardedLossy(self._crew(), self._many(network), problem, network, method, faults, **options)
        self._hold(self.state)
        return self.state

    def _hold(self, state: Sharded | ShardedLossy) -> None:
        """From now on every worker gets what its centres hold, looked at every few rounds."""
        hold = self.hold
        if hold is None or self.crew is None:
            return
        if self.keeper is None:
            self.keeper = self.crew.keeper(hold.limiter)
        keeper, nodes = self.keeper, nodes_of(state.shard_of)

        def set_shares(reports: list[Report]) -> None:
            units = {report.shard: int(report.units[-1]) for report in reports if report.units}
            if len(units) == len(reports):
                keeper.set(hold.shares(units, {shard: nodes[shard] for shard in units}))

        state.at_once, state.played = LOOK_EVERY, set_shares
        first: dict[int, int] = {}
        if state.allocation is not None and state.market is not None and state.shares is not None:
            units = np.round(state.shares / state.market.grid.unit).astype(np.int64)
            first = {shard: int(units[state.shard_of == shard].sum()) for shard in nodes}
        keeper.set(hold.shares(first, nodes))

    def usage(self) -> dict[int, Usage]:
        """CPU that each worker was given and got, where they are held."""
        return {} if self.keeper is None else self.keeper.usage()

    def _begin_anew(self, network: Network) -> None:
        """Another run: the same workers, if they are all there."""
        if self.crew is not None and (not self.crew.sound or len(self.crew.living) != self._many(network)):
            self.close()
        self.state = None

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
        return [] if self.state is None else self.state.wire_bytes

    @property
    def losses(self) -> list[dict[str, Any]]:
        """Workers that died: each with its process, the round, and its centres."""
        return [] if self.state is None else self.state.losses

    def report(self) -> Row:
        """Plain values for a result: where rounds were played, bytes between workers, CPU that each was given and got."""
        sent = self.wire_bytes
        found: Row = {"where": self.says, "bytes_between_workers": sum(sent)}
        found["bytes_a_round"] = sum(sent) / max(1, len(sent))
        if self.losses:
            found["lost"] = self.losses
        if self.keeper is not None:
            found["held"] = {"limiter": self.keeper.says} | told(self.usage())
        return found

    def pids(self) -> dict[int, int]:
        """The process of each worker."""
        return {} if self.crew is None else self.crew.pids()

    def close(self) -> None:
        """End the workers."""
        keeper, crew = self.keeper, self.crew
        self.keeper = self.crew = None
        try:
            if keeper is not None:
                keeper.close()
        finally:
            if crew is not None:
                crew.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
