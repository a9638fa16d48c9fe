"""Workers as Ray actors, one per shard, on this machine or anywhere in a cluster. Their packets travel as calls of Ray's."""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from typing import Any

from equipoise.engine.cpu_limit import Usage
from equipoise.engine.ray_cluster import connect
from equipoise.engine.shards.crew import Halted, Packets, Worker
from equipoise.engine.shards.keeper import LocalKeeper
from equipoise.engine.shards.processes import packed, raise_here, told
from equipoise.errors import Failure

START_SECONDS = 180.0  # for actors to find a place and load; a full cluster makes them wait
ACTOR_CPUS = 0.01  # a share by name only: Ray's bookkeeping must not keep a third shard off two cores


class Mailbox:
    """An actor's end of the mail: packets wait here until they are asked for. Those of an earlier epoch are dropped."""

    def __init__(self, shard: int, peers: dict[int, Any]) -> None:
        self.shard, self.peers, self.epoch, self.ended = shard, peers, 0, -1  # ended: the last epoch that was halted
        self._here: dict[tuple[int, int, int, int], bytes] = {}
        self._news = threading.Condition()

    def deliver(self, epoch: int, number: int, phase: int, sender: int, packet: bytes) -> None:
        with self._news:
            if epoch >= self.epoch:
                self._here[epoch, number, phase, sender] = packet
                self._news.notify_all()

    def halt(self, epoch: int) -> None:
        """Nobody will answer any more in this epoch."""
        with self._news:
            self.ended = max(self.ended, epoch)
            self._news.notify_all()

    @property
    def halted(self) -> bool:
        return self.ended >= self.epoch

    def renew(self) -> None:
        with self._news:
            self.epoch += 1
            self._here = {key: packet for key, packet in self._here.items() if key[0] >= self.epoch}

    def exchange(self, number: int, phase: int, packets: Packets) -> Packets:
        for peer, packet in packets.items():
            self.peers[peer].deliver.remote(self.epoch, number, phase, self.shard, packet)
        wanted = {peer: (self.epoch, number, phase, peer) for peer in packets}
        with self._news:
            self._news.wait_for(lambda: self.halted or all(k in self._here for k in wanted.values()))
            if not all(key in self._here for key in wanted.values()):
                raise Halted("a worker is gone")
            return {peer: self._here.pop(key) for peer, key in wanted.items()}


@cache
def _actor() -> Any:
    """The actor's class: made when Ray is there."""
    import ray

    class Shard:
        """A worker that Ray keeps. Mail has a thread of its own: it arrives while rounds are played."""

        def __init__(self) -> None:
            from threadpoolctl import threadpool_limits

            os.environ["EQUIPOISE_THREADS"] = "1"
            self.limits = threadpool_limits(1, user_api="blas")
            self.box: Mailbox | None = None
            self.worker: Worker | None = None

        def where(self) -> tuple[str, int]:
            """Node and process."""
            return ray.get_runtime_context().get_node_id(), os.getpid()

        def begin(self, number: int, peers: dict[int, Any]) -> None:
            self.box = Mailbox(number, peers)

        @ray.method(concurrency_group="mail")
        def deliver(self, epoch: int, number: int, phase: int, sender: int, packet: bytes) -> None:
            if self.box is not None:
                self.box.deliver(epoch, number, phase, sender, packet)

        @ray.method(concurrency_group="mail")
        def halt(self, epoch: int) -> None:
            if self.box is not None:
                self.box.halt(epoch)

        def call(self, text: bytes) -> tuple[str, Any]:
            """Arguments come as bytes: arrays that Ray itself hands over cannot be written to."""
            try:
                assert self.box is not None
                method, given = pickle.loads(text)
                if method == "begin":
                    self.worker = Worker(given[0], self.box)
                    return "answer", None
                return "answer", getattr(self.worker, method)(*given)
            except Exception as error:
                return "error", told(error)

    remote: Any = ray.remote
    return remote(concurrency_groups={"mail": 1})(Shard)


class RayKeeper:
    """Holds actors, each from a small actor on its own node."""

    def __init__(self, kind: str, where: dict[int, tuple[str, int]]) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._of = {shard: node for shard, (node, _) in where.items()}
        make: Any = ray.remote(LocalKeeper)
        self._keepers = {
            node: make.options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
                kind
            )
            for node in set(self._of.values())
        }
        for node, keeper in self._keepers.items():
            here = {shard: pid for shard, (at, pid) in where.items() if at == node}
            ray.get(keeper.hold.remote(here))
        self.says = f"each node holds its own workers ({kind})"
        self._told: list[Any] = []

    def set(self, shares: dict[int, float]) -> None:
        self._heard()
        self._told = [
            keeper.set.remote({shard: share for shard, share in shares.items() if self._of[shard] == node})
            for node, keeper in self._keepers.items()
        ]

    def _heard(self) -> None:
        """What a node refused the last time comes out now: nobody waits for shares to be set."""
        import ray

        told, self._told = self._told, []
        for ref in told:
            with contextlib.suppress(ray.exceptions.RayActorError):
                ray.get(ref)

    def usage(self) -> dict[int, Usage]:
        import ray

        self._heard()
        found: dict[int, Usage] = {}
        for keeper in self._keepers.values():
            with contextlib.suppress(ray.exceptions.RayActorError):  # its node is gone
                found |= ray.get(keeper.usage.remote())
        return found

    def close(self) -> None:
        import ray

        for keeper in self._keepers.values():
            with contextlib.suppress(ray.exceptions.RayActorError):
                ray.get(keeper.close.remote())
                ray.kill(keeper)


class RayCrew:
    """One actor per shard, spread over the nodes of a cluster."""

    def __init__(self, address: str | None = None) -> None:
        self.address = address
        self.says, self.sound = "Ray", True
        self._open = ExitStack()
        self._actors: dict[int, Any] = {}
        self._where: dict[int, tuple[str, int]] = {}
        self._epoch = 0

    @property
    def living(self) -> tuple[int, ...]:
        return tuple(self._actors)

    def pids(self) -> dict[int, int]:
        return {shard: self._where[shard][1] for shard in self._actors}

    def process_of(self, shard: int) -> int | None:
        return self._where[shard][1] if shard in self._where else None

    def nodes(self) -> dict[int, str]:
        """The node of each worker."""
        return {shard: self._where[shard][0] for shard in self._actors}

    def keeper(self, kind: str) -> RayKeeper:
        return RayKeeper(kind, {shard: self._where[shard] for shard in self._actors})

    def start(self, shards: Sequence[Any]) -> None:
        import ray

        if self._actors:
            self.ask("replace", {s.number: (s,) for s in shards if s.number in self._actors})
            return
        cluster = self._open.enter_context(connect(self.address))
        make = _actor().options(scheduling_strategy="SPREAD", num_cpus=ACTOR_CPUS, max_restarts=0)
        self._actors = {shard.number: make.remote() for shard in shards}
        asked = {number: actor.where.remote() for number, actor in self._actors.items()}
        _, late = ray.wait(list(asked.values()), num_returns=len(asked), timeout=START_SECONDS)
        if late:
            raise Failure(
                f"{len(late)} of {len(asked)} workers did not start on {cluster.says} within {START_SECONDS:.0f} s: "
                "is there room, and is equipoise installed on its nodes?"
            )
        try:
            self._where = dict(zip(asked, ray.get(list(asked.values())), strict=True))
        except ray.exceptions.RayError as error:
            raise Failure(f"a worker did not start on {cluster.says}: {' '.join(str(error).split())[:300]}") from None
        ray.get([actor.begin.remote(number, self._actors) for number, actor in self._actors.items()])
        self.says = f"{len(shards)} actor{'s' * (len(shards) != 1)} on {cluster.says}"
        self.ask("begin", {shard.number: (shard,) for shard in shards})

    def ask(self, method: str, arguments: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Call a method of these workers side by side. When one dies, the others are halted; who is gone has no answer."""
        import ray

        waiting = {
            self._actors[shard].call.remote(packed(method, given)): shard
            for shard, given in arguments.items()
            if shard in self._actors
        }
        if len(waiting) < len(arguments):
            self._halt()
        answers: dict[int, Any] = {}
        self.sound = False
        while waiting:
            done, _ = ray.wait(list(waiting), num_returns=1)
            for ref in done:
                shard = waiting.pop(ref)
                try:
                    kind, answer = ray.get(ref)
                except ray.exceptions.RayActorError:
                    self._actors.pop(shard, None)
                    self._halt()
                    continue
                if kind == "error":
                    self._halt()
                    raise_here(shard, *answer)
                answers[shard] = answer
                if getattr(answer, "diverged", None):  # it plays no more, and the others would wait for it
                    self._halt()
        self.sound = True
        if method in ("take_up", "replace"):
            self._epoch += 1
        return dict(sorted(answers.items()))

    def _halt(self) -> None:
        for actor in self._actors.values():
            actor.halt.remote(self._epoch)

    def close(self) -> None:
        import ray

        for actor in self._actors.values():
            ray.kill(actor)
        self._actors = {}
        self._open.close()
