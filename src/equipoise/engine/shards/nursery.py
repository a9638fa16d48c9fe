"""The nursery: a process that has loaded all that workers need, and forks one whenever it is asked.

It runs one thread and no parallel kernel, so that forking is safe. It ends when the coordinator does, and its workers too:
their sockets close however the coordinator dies.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import signal
import socket
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from equipoise.engine.shards.pipes import Pipes
from equipoise.engine.shards.worker import Worker

MOST = 4096  # bytes of an order
MOST_PEERS = 250  # descriptors that fit into a message


def main() -> None:
    """Arguments: the descriptor of the socket that orders come by, and where the coordinator finds its modules."""
    orders = socket.socket(fileno=int(sys.argv[1]))
    sys.path[:] = json.loads(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for workers: they leave no trace
    warm_up()
    gc.freeze()  # what is loaded stays shared
    orders.send(b'{"ready": true}')
    while True:
        text, descriptors, _, _ = socket.recv_fds(orders, MOST, MOST_PEERS)
        if not text:
            return
        orders.send(json.dumps(_fork(orders, json.loads(text), descriptors)).encode())


def warm_up() -> None:
    """Load the kernels by playing a little: whoever is forked has them."""
    import numpy as np

    from equipoise.engine.shards import rehearsal

    with np.errstate(all="ignore"):
        rehearsal.play()


def _fork(orders: socket.socket, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    try:
        pid = os.fork()
    except OSError as error:
        return {"failure": f"no process for worker {order['shard']}: {error.strerror}"}
    finally:
        if "pid" not in locals() or pid:
            for descriptor in descriptors:
                os.close(descriptor)
    if pid == 0:
        code = 1
        try:
            orders.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            peers = {peer: Connection(end) for peer, end in zip(order["peers"], descriptors[1:], strict=True)}
            serve(Connection(descriptors[0]), order["shard"], peers)
            code = 0
        finally:
            os._exit(code)
    return {"pid": pid}


def serve(control: Connection, shard: int, peers: dict[int, Connection]) -> None:
    """A worker's life: do what is asked until nobody asks any more."""
    post = Pipes(shard, control, peers)
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
                said = ("error", (type(error).__name__, str(error), traceback.format_exc(limit=-3)))
            control.send_bytes(pickle.dumps(said, protocol=pickle.HIGHEST_PROTOCOL))


def _drain_halts(control: Connection, answer: object) -> None:
    """A halt that stopped a play is still in the pipe."""
    while getattr(answer, "halted", False) and control.poll():
        control.recv_bytes()


if __name__ == "__main__":
    main()
