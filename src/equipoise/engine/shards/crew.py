"""What a worker does when it is asked; workers as their coordinator sees them, wherever they are; and threads as workers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from equipoise.engine.shards.keeper import Keeper
from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray


class Crew(Protocol):
    """Workers that answer by the number of their shard."""

    @property
    def says(self) -> str:
        """One line of where they are."""
        ...

    def start(self, shards: Sequence[Any]) -> None:
        """One worker per shard; workers that are there already take up these shards instead of theirs."""
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
        """The process of each worker that lives."""
        ...

    def process_of(self, shard: int) -> int | None:
        """The process of a worker, alive or not."""
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
        self._halt = threading.Event()

    def start(self, shards: Sequence[Any]) -> None:
        if self.workers:
            self.ask("replace", {s.number: (s,) for s in shards if s.number in self.workers})
            return
        mail = {(a.number, b.number): SimpleQueue() for a in shards for b in shards}  # type: ignore[var-annotated]
        self.workers = {s.number: Worker(s, _Queues(s.number, mail, self._halt)) for s in shards}
        self._pool = ThreadPoolExecutor(max(1, len(shards)))

    def ask(self, method: str, arguments: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        assert self._pool is not None
        asked = {self._pool.submit(getattr(self.workers[s], method), *given): s for s, given in arguments.items()}
        self.sound, answers = False, {}
        for future in as_completed(asked):
            if future.exception() is not None or getattr(future.result(), "diverged", None):
                self._halt.set()  # it plays no more, and the others would wait for it
            answers[asked[future]] = future.result()
        self.sound = not self._halt.is_set()
        return dict(sorted(answers.items()))

    @property
    def living(self) -> tuple[int, ...]:
        return tuple(self.workers)

    def pids(self) -> dict[int, int]:
        return {}

    def process_of(self, shard: int) -> int | None:
        return None

    def keeper(self, kind: str) -> Keeper:
        raise InputError("threads of this process cannot be held to shares: use processes or Ray")

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


class _Queues:
    """Mail between threads."""

    def __init__(self, shard: int, mail: dict[tuple[int, int], Any], halt: threading.Event) -> None:
        self.shard, self.mail, self.halt = shard, mail, halt

    def renew(self) -> None:
        """Threads are never halted and asked again."""

    @property
    def halted(self) -> bool:
        return self.halt.is_set()

    def exchange(self, number: int, phase: int, packets: Packets) -> Packets:
        for peer, packet in packets.items():
            self.mail[self.shard, peer].put((number, phase, packet))
        came: Packets = {}
        for peer in packets:
            *when, packet = self._next(peer)
            if tuple(when) != (number, phase):
                raise Halted(f"shard {peer} is in round {when[0]}, phase {when[1]}, not {number}, {phase}")
            came[peer] = packet
        return came

    def _next(self, peer: int) -> Any:
        while not self.halt.is_set():
            with contextlib.suppress(Empty):
                return self.mail[peer, self.shard].get(timeout=0.1)
        raise Halted("another worker has stopped")


Memory = dict[str, AnyArray]
Packets = dict[int, bytes]  # by the number of the other worker


class Halted(Exception):
    """A peer is gone, or the coordinator wants everybody to stop."""


class Post(Protocol):
    """How a worker reaches its peers."""

    def exchange(self, number: int, phase: int, packets: Packets) -> Packets:
        """Send each peer its packet, and wait for theirs of the same round and phase. Raises Halted."""
        ...

    def renew(self) -> None:
        """Nothing that was sent before counts any more."""
        ...

    @property
    def halted(self) -> bool:
        """Whether the coordinator wants everybody to stop: for those who have no peers to wait for."""
        ...


@dataclass
class Report:
    """What came of a play."""

    shard: int
    played: int = 0  # rounds that were finished
    diverged: str | None = None
    halted: bool = False
    units: list[int] = field(default_factory=list)  # that own nodes hold after each round
    outside: list[float] = field(default_factory=list)  # the farthest outside a box after each round, CPUs
    sent: list[int] = field(default_factory=list)  # bytes to other shards in each round
    beside: list[tuple[int, ...]] = field(default_factory=list)  # units in flight and owed, where packets are lost


class Worker:
    """A shard and its post."""

    def __init__(self, shard: Any, post: Post) -> None:
        self.shard, self.post = shard, post

    def play(self, begin: int, count: int) -> Report:
        """These rounds, or fewer: until one diverges or a peer is gone."""
        report = Report(self.shard.number)
        try:
            for number in range(begin, begin + count):
                if self.post.halted:
                    raise Halted
                report.sent.append(0)
                report.diverged = self._round(number, report)
                units, outside, *more = self.shard.audit()
                report.units.append(units)
                report.outside.append(outside)
                report.beside.append(tuple(more))
                report.played += 1
                if report.diverged:
                    break
        except Halted:
            report.halted = True
        return report

    def _round(self, number: int, report: Report) -> str | None:
        talk, phase = self.shard.play(number), 0
        try:
            packets = next(talk)
            while True:
                report.sent[-1] += sum(map(len, packets.values()))
                packets = talk.send(self.post.exchange(number, phase, packets))
                phase += 1
        except StopIteration as end:
            diverged: str | None = end.value
            return diverged

    def take_up(self, memory: Memory) -> None:
        """Go on from here."""
        self.shard.take_up(memory)
        self.post.renew()

    def look(self) -> Memory:
        """What changes every round."""
        found: Memory = self.shard.look()
        return found

    def memory(self) -> Memory:
        """Everything."""
        found: Memory = self.shard.memory()
        return found

    def replace(self, shard: Any) -> None:
        """Another shard in place of this one: a run goes on in another form."""
        self.shard = shard
        self.post.renew()
