"""Workers as processes of this machine, forked from a nursery that has loaded everything once."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle

from equipoise.engine.cpu_limit.process_tree import alive, facts
from equipoise.engine.shards.keeper import LocalKeeper
from equipoise.errors import Failure, InputError

ALONE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "EQUIPOISE_THREADS")
PATIENCE = 600.0  # seconds for the nursery to load: where kernels are compiled for the first time, minutes
GRACE = 2.0  # seconds for workers to end by themselves
SOCKET_BYTES = 1 << 20  # what a socket between workers can hold


class Processes:
    """One process a shard."""

    def __init__(self) -> None:
        self.sound = True
        self._controls: dict[int, Connection] = {}
        self._pids: dict[int, int] = {}
        self._births: dict[int, int] = {}  # when each began: with its pid, a name that is never used twice
        self._pairs: set[tuple[int, int]] = set()  # who can reach whom

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
        crossing = {(a.region.shard, b) for a in shards for b in a.region.peers if a.region.shard < b}
        if self._controls and crossing <= self._pairs:
            self.ask("replace", {s.region.shard: (s,) for s in shards if s.region.shard in self._controls})
            return
        self.close()  # of another network: they could not reach each other
        self._pairs = crossing
        numbers = [shard.region.shard for shard in shards]
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
            self._pids[number] = pid = nursery().fork(number, list(ends[number]), given)
            born = facts(pid)
            self._births[number] = -1 if born is None else born.start
            for end in given:
                end.close()
            self._controls[number] = Connection(here.detach())
        self.ask("begin", {shard.region.shard: (shard,) for shard in shards})
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
            for pipe in wait(list(waiting)):
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
            "functions, without locks, files or connections"
        ) from None


def raise_here(shard: int, kind: str, message: str, where: str) -> None:
    """What stopped a worker, as an error of this process."""
    if kind == "InputError":
        raise InputError(message)
    last = [line.strip() for line in where.strip().splitlines()]
    at = next((line for line in reversed(last) if line.startswith("File")), "")
    raise Failure(f"worker {shard} stopped: {kind}: {message}{' (' + at + ')' if at else ''}")


def _pair() -> tuple[socket.socket, socket.socket]:
    one, other = socket.socketpair()
    for end in (one, other):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
    return one, other


class Nursery:
    """The process that workers are forked from."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.orders, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "equipoise.engine.shards.nursery", str(there.fileno()), json.dumps(sys.path)]
        self.complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        environment = os.environ | dict.fromkeys(ALONE, "1")
        try:
            self.process = subprocess.Popen(
                command,
                pass_fds=[there.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.complaints,
                start_new_session=True,
            )
        except OSError as error:
            raise Failure(f"workers cannot be started: {' '.join(command[:3])}: {error.strerror}") from None
        finally:
            there.close()
        self.orders.settimeout(PATIENCE)
        self._answer("load")

    def fork(self, shard: int, peers: list[int], ends: list[socket.socket]) -> int:
        """A worker with these sockets; its process."""
        order = json.dumps({"shard": shard, "peers": peers}).encode()
        try:
            socket.send_fds(self.orders, [order], [end.fileno() for end in ends])
        except OSError:
            raise self._gone("fork") from None
        answer = self._answer("fork")
        if "failure" in answer:
            raise Failure(f"worker {shard} cannot be started: {answer['failure']}")
        return int(answer["pid"])

    def _answer(self, what: str) -> dict[str, Any]:
        try:
            text = self.orders.recv(4096)
        except TimeoutError:
            raise Failure(
                f"workers cannot be started: nothing in {PATIENCE:.0f} s from their nursery ({what})"
            ) from None
        except OSError:
            text = b""
        if not text:
            raise self._gone(what)
        answer: dict[str, Any] = json.loads(text)
        return answer

    def _gone(self, what: str) -> Failure:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE)
        self.complaints.seek(0)
        said = [line for line in self.complaints.read().splitlines() if line.strip()]
        last = said[-1] if said else f"it ended with {self.process.returncode}"
        return Failure(f"workers cannot be started ({what}): {last}")

    def close(self) -> None:
        if os.getpid() != self.owner:
            return
        self.orders.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE)
        self.complaints.close()


_nurseries: dict[int, Nursery] = {}


def nursery() -> Nursery:
    """The nursery of this process, started when first needed, and again should it have died."""
    known = _nurseries.get(os.getpid())
    if known is None or known.process.poll() is not None:
        known = _nurseries[os.getpid()] = Nursery()
        atexit.register(known.close)
    return known
