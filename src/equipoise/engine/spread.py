"""Where work runs. Sweeps: on threads or processes of this machine, or Ray; inside `spread(...)` joblib sends them there.
The rounds of a training run: in this process, or on the workers of `engine_of(spec)`.

The same numbers come out wherever: only the time differs.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from equipoise.errors import Failure, InputError, unknown_name
from equipoise.parallel import PROCESSES, THREADS

if TYPE_CHECKING:
    from equipoise.engine.shards.workers import Workers
    from equipoise.train.spec import TrainSpec

RAY = "ray"
KINDS = (THREADS, PROCESSES, RAY)
BACKENDS = {THREADS: "threading", PROCESSES: "loky", RAY: "equipoise-ray"}
MOST_PER_CORE = 8  # workers: beyond this they are in each other's way
COUPLED_CENTRES = 20  # of --couple, whose centres are drawn by the study


@contextmanager
def spread(kind: str | None = None, *, workers: int | None = None, address: str | None = None) -> Iterator[str]:
    """Sweeps inside run where this says; gives that place in words.

    Parameters
    ----------
    kind
        "threads", "processes" or "ray"; None for each verb's own choice.
    workers
        Parts that run at once; all cores unless given.
    address
        A Ray cluster, as `ray_cluster.connect` takes it; without one, ray is a Ray of this machine.
    """
    kind = RAY if kind is None and address is not None else kind
    _refuse(kind, workers, address)
    if kind is None:
        yield "this machine"
    elif kind == RAY:
        with _over_ray(workers, address) as where:
            yield where
    else:
        with _over_cores(kind, workers) as where:
            yield where


def _refuse(kind: str | None, workers: int | None, address: str | None) -> None:
    if kind is not None and kind not in KINDS:
        raise unknown_name("spread", kind, KINDS)
    if address is not None and kind != RAY:
        raise InputError(
            f"--address {address} has no effect: --spread is {kind}; say --spread ray, or leave one off",
            code="address.unused",
        )
    cores = os.cpu_count() or 1
    if workers is not None and not 1 <= workers <= MOST_PER_CORE * cores and address is None:
        most = f"{MOST_PER_CORE} for each of the {cores} cores of this machine"
        raise InputError(f"--workers {workers}: expected 1 to {MOST_PER_CORE * cores} ({most})", code="workers.range")
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers}: expected 1 or more", code="workers.range")


@contextmanager
def _over_cores(kind: str, workers: int | None) -> Iterator[str]:
    """Processes have one BLAS thread each: all cores are taken already."""
    from joblib import parallel_config

    count = workers or os.cpu_count() or 1
    if count == 1:
        with parallel_config(backend="sequential"):
            yield "this process"
        return
    inner = {"inner_max_num_threads": 1} if kind == PROCESSES else {}
    with parallel_config(backend=BACKENDS[kind], n_jobs=count, **inner):
        yield f"{count} {kind} of this machine"


@contextmanager
def _over_ray(workers: int | None, address: str | None) -> Iterator[str]:
    """One actor per CPU, so that all nodes take part; Ray gives each one BLAS thread."""
    from equipoise.engine.ray_cluster import connect

    with connect(address, cpus=workers) as cluster:
        ray: ModuleType = importlib.import_module("ray")
        from joblib import parallel_config, register_parallel_backend
        from ray.util.joblib.ray_backend import RayBackend

        class Unordered(RayBackend):
            """Results as they come: Ray's pool calls back for each, though joblib's pools of processes may not."""

            supports_return_generator = True

        register_parallel_backend(BACKENDS[RAY], Unordered)
        if workers is not None and workers > cluster.cpus:
            raise InputError(
                f"--workers {workers}: {cluster.says}; ask for at most {cluster.cpus}", code="workers.range"
            )
        free = int(ray.available_resources().get("CPU", 0))
        if free < 1:
            raise Failure(f"{cluster.says}, all in use: a worker needs one; wait, or leave --address off")
        count = min(workers or free, free)
        with parallel_config(backend=BACKENDS[RAY], n_jobs=count, ray_remote_args={"num_cpus": 1}):
            try:
                yield f"{count} worker{'s' * (count > 1)} of {cluster.says}"
            except ray.exceptions.RayError as error:
                said = " ".join(str(error).split())[:300]
                raise Failure(f"{cluster.says}: work sent there did not come back: {said}") from None


def check_engine(spec: TrainSpec) -> None:
    """Refuse before any work an address where nobody answers, more workers than centres, a share above the machine."""
    if spec.engine == "embedded":
        return
    from equipoise.engine.shards.keeper import Hold

    centres = COUPLED_CENTRES if spec.couple else spec.nodes
    if spec.workers is not None and spec.workers > centres and spec.network != "file":
        raise InputError(f"--workers {spec.workers}: there are {centres} centres, and each belongs to one worker")
    if spec.couple:
        Hold(spec.cpus, spec.limiter)
    if spec.engine == "ray":
        from equipoise.engine.ray_cluster import check_address

        check_address(spec.address)


@contextmanager
def engine_of(spec: TrainSpec) -> Iterator[Workers | None]:
    """Workers, held to their shares where CPU buys samples; None where rounds are played in this process."""
    if spec.engine == "embedded":
        yield None
        return
    from equipoise.engine import Hold, Workers

    hold = Hold(spec.cpus, spec.limiter) if spec.couple else None
    with Workers(spec.workers, on=spec.engine, address=spec.address, hold=hold) as workers:
        yield workers
