"""Workers as processes of this machine, forked from a server that has loaded everything once.

Their mail: one socket for each two of them, and one to the coordinator, which may call a halt.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import socket
import struct
import time
import traceback
from collections import deque
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle
import psutil

from equipoise.engine.cpu_limit.process_tree import alive, facts
from equipoise.engine.fork_server import ForkServer
from equipoise.engine.shards.crew import Halted, Packets, Worker
from equipoise.engine.shards.keeper import LocalKeeper
from equipoise.errors import Failure, InputError

PATIENCE = 600.0  # seconds for the fork server to load: where kernels are compiled for the first time, minutes
LOOK_EVERY, STOPPED_SECONDS = 2.0, 15.0  # between looks at workers that do not answer; until a stopped one is named
GRACE = 2.0  # seconds for workers to end by themselves
SOCKET_BYTES = 1 << 20  # what a socket between workers can hold


class Processes:
    """One process per shard."""

    def __init__(self) -> None:
        self.sound = True
        self._controls: dict[int, Connection] = {}
        self._pids: dict[int, int] = {}
        self._births: dict[int, int] = {}  # when each began: with its pid, a name that is never used twice
        self._pairs: set[tuple[int, int]] = set()  # who can reach whom
        self._still: dict[int, tuple[float, float]] = {}  # CPU time of a worker that is stopped, and since when

    @property
    def says(self) -> str:
        count = len(self._controls)
        return f"{count} process{'es' * (count != 1)} of this machine"

    @property
    def living(self) -> tuple[int, ...]:
        return tuple(self._controls)

    def pids(self) -> dict[int, int]:
        return {shard: self._pids[shard] for shard in self._controls}

    def process_of(self, shard: int) -> int | None:
        return self._pids.get(shard)

    def keeper(self, kind: str) -> LocalKeeper:
        keeper = LocalKeeper(kind)
        keeper.hold(self.pids())
        return keeper

    def start(self, shards: Sequence[Any]) -> None:
        """Fork the workers and hand them their shards."""
        crossing = {(a.number, b) for a in shards for b in a.peers if a.number < b}
        if self._controls and crossing <= self._pairs:
            self.ask("replace", {s.number: (s,) for s in shards if s.number in self._controls})
            return
        self.close()  # of another network: they could not reach each other
        self._pairs = crossing
        numbers = [shard.number for shard in shards]
        ends: dict[int, dict[int, socket.socket]] = {number: {} for number in numbers}
        try:
            for a, b in crossing:
                ends[a][b], ends[b][a] = _pair()
        except OSError as error:
            opened = sum(map(len, ends.values()))
            raise Failure(
                f"{len(numbers)} workers need {2 * len(crossing)} sockets between them, and only {opened} could be "
                f"opened ({error.strerror}): ask for fewer workers, or raise `ulimit -n`"
            ) from None
        for number in numbers:
            here, there = _pair()
            given = [there, *ends[number].values()]
            order = {"shard": number, "peers": list(ends[number])}
            self._pids[number] = pid = fork_server().fork(order, [end.fileno() for end in given])
            born = facts(pid)
            self._births[number] = -1 if born is None else born.start
            for end in given:
                end.close()
            self._controls[number] = Connection(here.detach())
        self.ask("begin", {shard.number: (shard,) for shard in shards})
        if len(self._controls) < len(numbers):
            gone = sorted(set(numbers) - set(self._controls))
            raise Failure(f"worker {gone[0]} died before its first round: is there memory for {len(numbers)} workers?")

    def ask(self, method: str, arguments: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Call a method of these workers side by side. When one dies, the others are halted; who is gone has no answer."""
        self.sound = False
        for shard, given in arguments.items():
            self._send(shard, method, given)
        waiting = {self._controls[shard]: shard for shard in arguments if shard in self._controls}
        if len(waiting) < len(arguments):
            self._halt(waiting.values())
        answers: dict[int, Any] = {}
        while waiting:
            for gone in [pipe for pipe in waiting if pipe.closed]:  # died as well, while another was mourned
                del waiting[gone]
            ready = wait(list(waiting), timeout=LOOK_EVERY)
            if not ready:
                self._notice_stopped(waiting.values())
            for pipe in ready:
                assert isinstance(pipe, Connection)
                shard = waiting.pop(pipe)
                try:
                    kind, answer = pickle.loads(pipe.recv_bytes())
                except (EOFError, OSError):
                    self._bury(shard)
                    self._halt(waiting.values())
                    continue
                if kind == "error":
                    self._halt(waiting.values())
                    raise_here(shard, *answer)
                answers[shard] = answer
                if getattr(answer, "diverged", None):  # it plays no more, and the others would wait for it
                    self._halt(waiting.values())
        self.sound = True
        return dict(sorted(answers.items()))

    def _notice_stopped(self, shards: Iterable[int]) -> None:
        """A worker that somebody has stopped would be waited for without end. One that is held to a share is stopped and
        continued all the time, and its CPU time grows."""
        now = time.monotonic()
        for shard in shards:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(self._pids[shard])
                spent = sum(process.cpu_times()[:2])
                if process.status() != psutil.STATUS_STOPPED or spent != self._still.get(shard, (-1.0, now))[0]:
                    self._still[shard] = spent, now
                elif now - self._still[shard][1] > STOPPED_SECONDS:
                    raise Failure(
                        f"worker {shard} (process {self._pids[shard]}) is stopped, and has used no CPU for "
                        f"{STOPPED_SECONDS:.0f} s: continue it (kill -CONT {self._pids[shard]}) and start anew, or go on "
                        "from a checkpoint with --resume"
                    )

    def _send(self, shard: int, method: str, given: tuple[Any, ...]) -> None:
        text = packed(method, given)
        try:
            self._controls[shard].send_bytes(text)
        except (OSError, KeyError):
            self._bury(shard)

    def _halt(self, shards: Any) -> None:
        """Those who play wait for one that will not speak."""
        for shard in list(shards):
            self._send(shard, "halt", ())

    def _bury(self, shard: int) -> None:
        pipe = self._controls.pop(shard, None)
        if pipe is not None:
            pipe.close()

    def close(self) -> None:
        """Hang up, which ends them wherever they listen; who does not hear it is killed."""
        left = list(self._controls)
        for shard in self.living:
            self._bury(shard)
        deadline = time.monotonic() + GRACE
        while left and time.monotonic() < deadline:
            time.sleep(0.005)
            left = [shard for shard in left if alive(self._pids[shard], self._births[shard])]
        for shard in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pids[shard], signal.SIGKILL)


def packed(method: str, given: tuple[Any, ...]) -> bytes:
    """A call as bytes."""
    try:
        return bytes(cloudpickle.dumps((method, given)))
    except (TypeError, pickle.PicklingError, AttributeError, NotImplementedError) as error:
        raise InputError(
            f"the problem cannot be sent to workers: {error}; what a cost or model holds must be made of data and "
            "functions, without locks, files or connections",
            code="process.unpicklable",
        ) from None


def raise_here(shard: int, kind: str, message: str, where: str, code: str) -> None:
    """What stopped a worker, as an error of this process."""
    if kind == "InputError":
        raise InputError(message, code=code)
    last = [line.strip() for line in where.strip().splitlines()]
    at = next((line for line in reversed(last) if line.startswith("File")), "")
    raise Failure(f"worker {shard} stopped: {kind}: {message}{' (' + at + ')' if at else ''}")


def _pair() -> tuple[socket.socket, socket.socket]:
    one, other = socket.socketpair()
    for end in (one, other):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
    return one, other


_servers: dict[int, ForkServer] = {}


def fork_server() -> ForkServer:
    """The fork server of this process, started when first needed, and again should it have died."""
    known = _servers.get(os.getpid())
    if known is None or not known.alive:
        target, preload = "equipoise.engine.shards.processes:serve", f"{__name__}:warm_up"
        known = _servers[os.getpid()] = ForkServer("workers", target, preload, patience=PATIENCE)
        atexit.register(known.close)
    return known


def warm_up() -> None:
    """Play a little in the fork server, two shards of a ring of four, with boxes that bind: loads every kernel that
    workers use, so that whoever is forked has them."""
    import numpy as np

    from equipoise.engine.lossy_sharded import LossyShard
    from equipoise.engine.sharded import Shard
    from equipoise.train.costs.quadratic import Quadratic
    from equipoise.train.hostile.faults import Faults
    from equipoise.train.hostile.state import HostileState
    from equipoise.train.method import Method
    from equipoise.train.models.least_squares import LeastSquares
    from equipoise.train.network import Network
    from equipoise.train.problem import Problem
    from equipoise.train.state import State

    with np.errstate(all="ignore"):
        shards = [(np.eye(2) + k, np.arange(2.0)) for k in range(4)]
        problem = Problem(Quadratic(np.arange(1.0, 5.0), 3.0, lo=0.0, hi=4.0), 9.0, LeastSquares(shards, reg=0.1))
        halves = np.array([0, 0, 1, 1])
        for network in (Network.ring(4), Network.sequence([Network.ring(4), Network.path(4)])):
            for method in (Method(cpu="links", learning="links"), Method(cpu="markets", learning="averages")):
                state = State(problem, network, method)
                in_step([Shard(state, shard, halves) for shard in range(2)], 0, 6)
        for network in (Network.ring(4), Network.ring(4, directed=True)):
            hostile = HostileState(problem, network, Method(), Faults(loss=0.1), rounds=3)
            in_step([LossyShard(hostile, shard, halves) for shard in range(2)], 0, 3)


def in_step(shards: list[Any], begin: int, count: int) -> list[str | None]:
    """Play rounds of all shards in one process, handing packets over phase by phase; what diverged in the last."""
    ends: list[str | None] = [None] * len(shards)
    for number in range(begin, begin + count):
        talks = [shard.play(number) for shard in shards]
        waiting: list[dict[int, bytes] | None] = [None] * len(shards)
        for k, talk in enumerate(talks):
            waiting[k] = _step(talk, None, ends, k)
        while any(packets is not None for packets in waiting):
            sent = {shard.number: packets or {} for shard, packets in zip(shards, waiting, strict=True)}
            for k, (shard, talk) in enumerate(zip(shards, talks, strict=True)):
                me = shard.number
                came = {peer: bytes(sent[peer][me]) for peer in sent[me]}
                waiting[k] = _step(talk, came, ends, k)
    return ends


def _step(talk: Any, came: dict[int, bytes] | None, ends: list[str | None], k: int) -> dict[int, bytes] | None:
    try:
        packets: dict[int, bytes] = next(talk) if came is None else talk.send(came)
        return packets
    except StopIteration as end:
        ends[k] = end.value
        return None


HEAD = struct.Struct("<III")  # epoch, round, phase: 12 bytes that go before every packet
SMALL = 32_768  # bytes: two such packets fit into a socket that nobody reads


class Pipes:
    """A worker's end of the mail. Packets of an earlier epoch, from before a halt, are thrown away."""

    def __init__(self, shard: int, control: Connection, peers: dict[int, Connection]) -> None:
        self.shard, self.control, self.peers, self.epoch = shard, control, peers, 0
        self.early: dict[int, deque[bytes]] = {peer: deque() for peer in peers}  # what came while nobody asked for it

    def renew(self) -> None:
        """Nothing that was sent before counts any more."""
        self.epoch += 1

    @property
    def halted(self) -> bool:
        """While rounds are played, the coordinator speaks for one reason only."""
        return self.control.poll()

    def wait_for_orders(self) -> None:
        """Until the coordinator speaks. Peers are read meanwhile: one that is about to be halted may be in the middle of a
        packet that no socket holds."""
        listening = {pipe: peer for peer, pipe in self.peers.items()}
        while self.control not in (ready := wait([self.control, *listening])):
            for pipe in ready:
                assert isinstance(pipe, Connection)
                try:
                    self.early[listening[pipe]].append(pipe.recv_bytes())
                except (EOFError, OSError):
                    del listening[pipe]

    def exchange(self, number: int, phase: int, packets: Packets) -> Packets:
        """Small packets go at once. Large ones in turn, or two workers would wait for each other to read: pair by pair in
        one order for all, the smaller number first."""
        head = HEAD.pack(self.epoch, number, phase)
        for peer, packet in packets.items():
            if len(packet) <= SMALL:
                self._send(peer, head + packet)
        came: Packets = {}
        for peer in sorted(packets, key=lambda p: (min(p, self.shard), max(p, self.shard))):
            large = len(packets[peer]) > SMALL
            if large and self.shard < peer:
                self._send(peer, head + packets[peer])
            came[peer] = self._receive(peer, head)
            if large and self.shard > peer:
                self._send(peer, head + packets[peer])
        return came

    def _send(self, peer: int, packet: bytes) -> None:
        try:
            self.peers[peer].send_bytes(packet)
        except OSError:
            raise Halted(f"worker {peer} is gone") from None

    def _receive(self, peer: int, head: bytes) -> bytes:
        pipe = self.peers[peer]
        while True:
            if self.early[peer]:
                packet = self.early[peer].popleft()
                if packet[:4] == head[:4]:
                    return packet[HEAD.size :]
                continue
            try:
                if not pipe.poll() and self.control in wait([pipe, self.control]) and not pipe.poll():
                    raise Halted("the coordinator calls a halt")
                packet = pipe.recv_bytes()
            except (EOFError, OSError):
                raise Halted(f"worker {peer} is gone") from None
            if packet[:4] == head[:4]:
                return packet[HEAD.size :]


def serve(order: dict[str, Any], descriptors: list[int]) -> None:
    """A worker's life: do what is asked until nobody asks any more."""
    control, *ends = [Connection(end) for end in descriptors]
    post = Pipes(order["shard"], control, dict(zip(order["peers"], ends, strict=True)))
    worker: Worker | None = None
    with contextlib.suppress(EOFError, OSError):
        while True:
            post.wait_for_orders()
            text = control.recv_bytes()
            try:
                method, given = pickle.loads(text)
                if method == "halt":  # it came when there was nothing to halt
                    continue
                if method == "stop":
                    return
                if method == "begin":
                    worker, answer = Worker(given[0], post), None
                else:
                    answer = getattr(worker, method)(*given)
                    while getattr(answer, "halted", False) and control.poll():
                        control.recv_bytes()  # the halt that stopped a play is still in the pipe
                said = ("answer", answer)
            except Exception as error:
                said = ("error", told(error))
            control.send_bytes(pickle.dumps(said, protocol=pickle.HIGHEST_PROTOCOL))


def told(error: Exception) -> tuple[str, str, str, str]:
    """What `raise_here` of the owner makes an error of again."""
    return type(error).__name__, str(error), traceback.format_exc(limit=-3), getattr(error, "code", "")
