"""Workers as their coordinator sees them, wherever they are; and the plainest kind, threads of this process."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, Protocol

from equipoise.engine.shards.crossing import Packets
from equipoise.engine.shards.keeper import Keeper
from equipoise.engine.shards.worker import Halted, Worker
from equipoise.errors import InputError


class Crew(Protocol):
    """Workers that answer by the number of their shard."""

    @property
    def says(self) -> str:
        """One line of where they are."""
        ...

    def start(self, shards: Sequence[Any]) -> None:
        """One worker a shard; workers that are there already take up these shards instead of theirs."""
        ...

    def ask(self, method: str, arguments: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Call a method of these workers side by side; who is gone has no answer."""
        ...

    @property
    def living(self) -> tuple[int, ...]:
        """Shards whose worker answers."""
        ...

    @property
    def sound(self) -> bool:
        """Whether nobody was left in the middle of an answer: else they cannot be asked again."""
        ...

    def pids(self) -> dict[int, int]:
        """Process of each worker, where it is on this machine."""
        ...

    def keeper(self, kind: str) -> Keeper:
        """Holds them to shares of the CPU, by a limiter of this kind."""
        ...

    def close(self) -> None:
        """End them all."""
        ...


class Threads:
    """Workers in this process: no faster than one, for tests and for looking inside."""

    says = "threads of this process"

    def __init__(self) -> None:
        self.sound = True
        self.workers: dict[int, Worker] = {}
        self._pool: ThreadPoolExecutor | None = None

    def start(self, shards: Sequence[Any]) -> None:
        if self.workers:
            self.ask("replace", {s.region.shard: (s,) for s in shards if s.region.shard in self.workers})
            return
        mail = {(a.region.shard, b.region.shard): SimpleQueue() for a in shards for b in shards}  # type: ignore[var-annotated]
        self.workers = {s.region.shard: Worker(s, _Queues(s.region.shard, mail)) for s in shards}
        self._pool = ThreadPoolExecutor(max(1, len(shards)))

    def ask(self, method: str, arguments: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        assert self._pool is not None
        asked = {s: self._pool.submit(getattr(self.workers[s], method), *given) for s, given in arguments.items()}
        self.sound = False
        answers = {s: future.result() for s, future in asked.items()}
        self.sound = True
        return answers

    @property
    def living(self) -> tuple[int, ...]:
        return tuple(self.workers)

    def pids(self) -> dict[int, int]:
        return {}

    def keeper(self, kind: str) -> Keeper:
        raise InputError("threads of this process cannot be held to shares: use processes or Ray")

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


class _Queues:
    """Mail between threads."""

    def __init__(self, shard: int, mail: dict[tuple[int, int], Any]) -> None:
        self.shard, self.mail = shard, mail

    def renew(self) -> None:
        """Threads are never halted in mid-round."""

    def exchange(self, number: int, phase: int, packets: Packets) -> Packets:
        for peer, packet in packets.items():
            self.mail[self.shard, peer].put((number, phase, packet))
        came: Packets = {}
        for peer in packets:
            *when, packet = self.mail[peer, self.shard].get(timeout=60)
            if tuple(when) != (number, phase):
                raise Halted(f"shard {peer} is in round {when[0]}, phase {when[1]}, not {number}, {phase}")
            came[peer] = packet
        return came
