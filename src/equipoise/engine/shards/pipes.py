"""Mail between worker processes: one socket for each two of them, and one to the coordinator, which may call a halt."""

from __future__ import annotations

import contextlib
import pickle
import struct
import traceback
from collections import deque
from multiprocessing.connection import Connection, wait
from typing import Any

from equipoise.engine.shards.worker import Halted, Packets, Worker

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
                    _drain_halts(control, answer)
                said = ("answer", answer)
            except Exception as error:
                said = ("error", told(error))
            control.send_bytes(pickle.dumps(said, protocol=pickle.HIGHEST_PROTOCOL))


def told(error: Exception) -> tuple[str, str, str, str]:
    """What `raise_here` of the owner makes an error of again."""
    return type(error).__name__, str(error), traceback.format_exc(limit=-3), getattr(error, "code", "")


def _drain_halts(control: Connection, answer: object) -> None:
    """A halt that stopped a play is still in the pipe."""
    while getattr(answer, "halted", False) and control.poll():
        control.recv_bytes()
