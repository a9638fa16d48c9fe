"""Real Ray nodes on this machine, for tests of all folders: `from ray_nodes import two_nodes` and name it as a fixture."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
STORE = 80 * 2**20  # bytes of shared memory a node: the least that Ray takes


def need_ray() -> None:
    """Skip where Ray is absent, but never in CI."""
    if importlib.util.find_spec("ray") is None and not os.environ.get("CI"):
        pytest.skip("Ray is not installed: pip install 'equipoise[ray]'")


@contextmanager
def ray_nodes(nodes: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The address of a cluster with these nodes; all of it is gone afterwards."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        for node in nodes:
            cluster.add_node(object_store_memory=STORE, include_dashboard=False, **node)
        yield str(cluster.address)
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[str]:
    """The address of a Ray of two nodes with one CPU each."""
    need_ray()
    with ray_nodes([{"num_cpus": 1}, {"num_cpus": 1}]) as address:
        yield address
