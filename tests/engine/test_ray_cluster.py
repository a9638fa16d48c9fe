"""Joining Ray: a wrong address fails in seconds and says what was tried; one that answers but is not Ray never hangs."""

from __future__ import annotations

import http.server
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from equipoise.engine import ray_cluster
from equipoise.engine.ray_cluster import connect, reachable
from equipoise.errors import InputError
from ray_nodes import need_ray, two_nodes  # noqa: F401
from refusals import refused


@pytest.fixture(autouse=True)
def _ray() -> None:
    need_ray()


@contextmanager
def listening() -> Iterator[int]:
    """A port that accepts and says nothing."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        yield door.getsockname()[1]


@contextmanager
def web() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@contextmanager
def other_grpc() -> Iterator[int]:
    from concurrent.futures import ThreadPoolExecutor

    import grpc

    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(None)


@contextmanager
def closed() -> Iterator[int]:
    with listening() as port:
        pass
    yield port


@pytest.mark.parametrize("scheme", ["", "ray://"])
@pytest.mark.parametrize(
    ("door", "words"),
    [
        (closed, "tried to connect to 127.0.0.1 port {port} for"),
        (listening, "port {port} is open, but did not answer as Ray does in 1 s"),
        (web, "port {port} is open, but what listens there does not speak Ray's protocol"),
        (other_grpc, "port {port} is open, but what listens there is another service"),
    ],
)
def test_an_address_without_ray_says_what_was_tried(door: Any, words: str, scheme: str, monkeypatch: Any):
    monkeypatch.setattr(ray_cluster, "ANSWER_SECONDS", 1.0)
    with door() as port, pytest.raises(InputError) as caught, connect(f"{scheme}127.0.0.1:{port}"):
        pass
    assert words.format(port=port) in str(caught.value)
    assert f"no Ray cluster at {scheme}127.0.0.1:{port}: " in str(caught.value)
    assert "`ray start --head`, or leave --address off" in str(caught.value)


@pytest.mark.parametrize(
    "address", ["nonsense", "host", "", "ray://", "http://host:1", "a b:1", "host:", ":6379", "host:x"]
)
def test_no_address_at_all_names_the_forms(address: str):
    with refused("ray.address", repr(address), "HOST:PORT", "ray://HOST:PORT", "auto"):
        reachable(address)


@pytest.mark.parametrize("port", [0, 99999])
def test_a_port_that_cannot_be(port: int):
    with refused("ray.address", f"port {port}"):
        reachable(f"127.0.0.1:{port}")


def test_a_name_nobody_knows():
    with refused("ray.unreachable", "nobody.invalid:6379"):
        reachable("nobody.invalid:6379")


def test_auto_takes_the_environments_address(monkeypatch: Any):
    with closed() as port:
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
        with refused("ray.unreachable", f"127.0.0.1:{port}", "auto"):
            reachable("auto")


def test_without_ray_the_way_out_is_named(monkeypatch: Any):
    monkeypatch.setitem(sys.modules, "ray", None)
    with refused("library.missing", "'equipoise[ray]'"), connect(None):
        pass


def test_a_cluster_is_joined_and_left_and_one_joined_already_is_kept(two_nodes: str):  # noqa: F811
    """Joined twice over: the inner one leaves nothing, and another address is refused."""
    import ray

    with connect(two_nodes) as cluster:
        assert (cluster.address, cluster.nodes, cluster.cpus) == (two_nodes, 2, 2)
        assert cluster.says == f"Ray at {two_nodes}: 2 nodes, 2 CPUs"
        with connect(two_nodes) as again, connect(None):
            assert again == cluster
        assert ray.is_initialized()
        with refused("ray.joined", two_nodes), connect("127.0.0.1:1"):
            pass
    assert not ray.is_initialized()


def test_an_error_inside_passes_through_and_the_cluster_is_left(two_nodes: str):  # noqa: F811
    import ray

    with pytest.raises(KeyError, match="mine"), connect(two_nodes):
        raise KeyError("mine")
    assert not ray.is_initialized()
