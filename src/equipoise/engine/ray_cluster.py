"""Ray, started on this machine or joined at an address, which is tried first: `ray.init` waits minutes at a closed one."""

import contextlib
import logging
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

import psutil

from equipoise.errors import Failure, InputError

CONNECT_SECONDS = 3.0  # for the port to open
ANSWER_SECONDS = 8.0  # for what listens there to answer as Ray does: a busy head takes a second or two
END_SECONDS = 3.0  # for Ray's processes to end, once it was left
FORMS = "expected HOST:PORT such as 10.0.0.1:6379, ray://HOST:PORT such as ray://10.0.0.1:10001, or auto"
WAY_OUT = "start one there with `ray start --head`, or leave --address off to use this machine"
MISSING = "needs Ray: pip install 'equipoise[ray]'"
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent to anyone
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # as Ray will do by itself; unset, it warns of that on every start
}

# A question of Ray's own that needs no rights and changes nothing, for each kind of door. The empty message is valid.
HEAD = "/ray.rpc.NodeInfoGcsService/CheckAlive"
CLIENT = "/ray.rpc.RayletDriver/ClusterInfo"


@dataclass(frozen=True)
class RayCluster:
    """What was joined: `address` is None for a Ray of this machine alone."""

    address: str | None
    nodes: int
    cpus: int

    @property
    def says(self) -> str:
        """One line of where work goes."""
        where = f"Ray at {self.address}" if self.address else "Ray on this machine"
        return f"{where}: {self.nodes} node{'s' * (self.nodes != 1)}, {self.cpus} CPU{'s' * (self.cpus != 1)}"


@contextmanager
def connect(address: str | None = None, *, cpus: int | None = None) -> Iterator[RayCluster]:
    """A Ray of this machine with `cpus` (all) for None, else the user's cluster at `address`; left again on exit.

    A Ray that this process has joined already is used as it is and not left, if no other address is asked for.
    """
    ray = _ray()
    if ray.is_initialized():
        _refuse_another(ray, address)
        yield _describe(ray, address)
        return
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    given: dict[str, object] = {"address": "local", "num_cpus": cpus or os.cpu_count() or 1, "include_dashboard": False}
    if address is not None:
        given = {"address": reachable(address)}
    before, started = _descendants(), []
    try:
        try:
            _join(ray, given)
        finally:
            started = [process for process in _descendants() if process not in before]
        yield _describe(ray, address)
    finally:
        ray.shutdown()
        _end(started)


def _descendants() -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process().children(recursive=True)
    return found


def _end(started: list[psutil.Process]) -> None:
    """Ray ends its own processes, save some when it was interrupted while it started (tried with 2.60)."""
    _, left = psutil.wait_procs(started, timeout=END_SECONDS)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            if "ray" in " ".join(process.cmdline()).lower():  # another thread may have started something of its own
                process.kill()


def _join(ray: ModuleType, given: dict[str, object]) -> None:
    """Ray's own refusals (another version of Ray or Python, a node that is gone) as one line."""
    try:
        ray.init(**given, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        said = " ".join(str(error).split())
        if given["address"] == "local":
            raise Failure(f"Ray did not start on this machine: {said}") from None
        raise InputError(f"the Ray cluster at {given['address']} answers but cannot be joined: {said}") from None


def check_address(address: str | None) -> None:
    """Ray is installed, and at an address that is given something answers as Ray does."""
    _ray()
    if address is not None:
        reachable(address)


def reachable(address: str) -> str:
    """The address for `ray.init`, after something there has answered as Ray does; seconds, never minutes."""
    given = _found(address) if address == "auto" else address
    question, host, port = _parts(given)
    asked = given if given == address else f"{given} (from {address})"
    began = time.monotonic()
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        said = error.strerror or str(error) or type(error).__name__
        tried = f"tried to connect to {host} port {port} for {time.monotonic() - began:.1f} s: {said}"
        raise InputError(f"no Ray cluster at {asked}: {tried}; {WAY_OUT}", code="ray.unreachable") from None
    if fault := _fault(question, host, port):
        tried = f"{host} port {port} is open, but {fault}"
        ports = "; Ray's head answers on 6379 and its client on ray://HOST:10001 by default"
        raise InputError(f"no Ray cluster at {asked}: {tried}{ports}; {WAY_OUT}", code="ray.unreachable")
    return given


def _parts(address: str) -> tuple[str, str, int]:
    """The question to ask there, the host and the port."""
    question = CLIENT if address.startswith("ray://") else HEAD
    found = re.fullmatch(
        r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^\s:/@\[\]]+):(?P<port>[0-9]+)", address.removeprefix("ray://")
    )
    if found is None:
        raise InputError(f"--address {address!r} names no Ray cluster: {FORMS}", code="ray.address")
    port = int(found["port"])
    if not 1 <= port <= 65_535:
        raise InputError(f"--address {address!r}: port {port} is not one of 1 to 65535; {FORMS}", code="ray.address")
    return question, found["host"].strip("[]"), port


def _found(address: str) -> str:
    """What Ray takes `auto` for: RAY_ADDRESS, else the cluster that was started last on this machine."""
    from ray._private.services import canonicalize_bootstrap_address

    if (named := os.environ.get("RAY_ADDRESS", "")) not in ("", "auto", "local"):
        return named
    with contextlib.suppress(ConnectionError):
        if found := canonicalize_bootstrap_address(address):
            return str(found)
    raise InputError(
        f"no Ray cluster was found for --address auto: none runs on this machine and RAY_ADDRESS is not set; {WAY_OUT}"
    )


def _fault(question: str, host: str, port: int) -> str:
    """Why what listens there is not Ray; empty if it is. Any answer of Ray's counts, a refusal for lack of a token too."""
    try:
        import grpc
    except ImportError:  # ray[default] brings it, ray alone does not
        raise InputError(MISSING, code="library.missing") from None
    name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    options = [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(name, options=options) as channel:
        ask = channel.unary_unary(question, request_serializer=bytes, response_deserializer=bytes)
        try:
            ask(b"", timeout=ANSWER_SECONDS, wait_for_ready=False)
        except grpc.RpcError as error:
            code, silent = error.code(), f"did not answer as Ray does in {ANSWER_SECONDS:.0f} s"
            return {
                grpc.StatusCode.DEADLINE_EXCEEDED: silent,
                grpc.StatusCode.UNAVAILABLE: "what listens there does not speak Ray's protocol",
                grpc.StatusCode.UNIMPLEMENTED: "what listens there is another service (gRPC, without Ray's calls)",
            }.get(code, "")
    return ""


def _ray() -> ModuleType:
    try:
        import ray
    except ImportError:
        raise InputError(MISSING, code="library.missing") from None
    return ray


def _refuse_another(ray: ModuleType, address: str | None) -> None:
    """A process is in one cluster at a time."""
    if address in (None, "auto") or str(address).startswith("ray://"):
        return
    joined = str(ray.get_runtime_context().gcs_address)
    if int(joined.rpartition(":")[2]) != _parts(str(address))[2]:
        raise InputError(
            f"this process is in the Ray cluster at {joined} already, not {address}; ray.shutdown() first",
            code="ray.joined",
        )


def _describe(ray: ModuleType, address: str | None) -> RayCluster:
    nodes = sum(1 for node in ray.nodes() if node["Alive"])
    return RayCluster(address, nodes, int(ray.cluster_resources().get("CPU", 0)))
