"""What Ray needs to run a slot of a schedule: nodes with labels, and one placement group a job, as plain data.

Nothing here imports Ray. Bundles name the node they are planned on by its label (tried with Ray 2.60): a strategy alone,
STRICT_PACK included, says how close bundles are and never on which node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from equipoise.errors import InputError
from equipoise.place.cluster import Cluster
from equipoise.place.schedule import by_name
from equipoise.place.verify import JOB, MACHINE, SERVERS, SLOT, WORKERS
from equipoise.units import MILLI

if TYPE_CHECKING:
    from equipoise.place.simulate import Result

LABEL = "equipoise.io/machine"  # the label a Ray node carries to say which machine of the cluster it is
NAMES = {"gpu": "GPU", "cpu": "CPU", "memory": "memory"}  # resources Ray has a word for; all others are custom ones
PACK = "PACK"  # keep close where that can be: every bundle says itself where it must be
LEAST = {"CPU": 1 / MILLI}  # a bundle may not be empty: what one that asks for nothing is given
VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)  # what Ray takes as a label's value


@dataclass(frozen=True)
class PlacementGroup:
    """One job in one slot: a bundle a worker, then a bundle a server. `roles` and `machines` are in their order."""

    job: str
    slot: int
    bundles: tuple[Mapping[str, float], ...]
    roles: tuple[str, ...]  # worker, server
    machines: tuple[str, ...]
    strategy: str = PACK

    @property
    def bundle_label_selector(self) -> list[dict[str, str]]:
        """The node each bundle must be on."""
        return [{LABEL: name} for name in self.machines]

    def arguments(self) -> dict[str, Any]:
        """For ray.util.placement_group(**arguments)."""
        return {
            "bundles": [dict(bundle) for bundle in self.bundles],
            "strategy": self.strategy,
            "name": f"{self.job}@{self.slot}",
            "bundle_label_selector": self.bundle_label_selector,
        }

    def as_dict(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "slot": self.slot,
            "roles": list(self.roles),
            "machines": list(self.machines),
            **self.arguments(),
        }


def amounts(demand: Mapping[str, int], *, memory_unit: float = 1.0) -> dict[str, float]:
    """Milli-units by our names as units by Ray's: gpu -> GPU, cpu -> CPU, memory -> memory in bytes, others as they are.

    `memory_unit` is how many bytes the cluster calls one: 1 where it was given as "512Gi", 2**30 where as 512.
    """
    out: dict[str, float] = {}
    for name, milli in demand.items():
        if not milli:
            continue
        ray = NAMES.get(name, name)
        if ray in out:
            raise InputError(f"two resources are called {ray} in Ray, {name!r} and another; rename one of them")
        if ray == "memory":
            out[ray] = -(-milli * int(memory_unit) // MILLI)  # whole bytes
        else:
            out[ray] = milli // MILLI if milli % MILLI == 0 else milli / MILLI
        if ray == "GPU" and out[ray] > 1 and milli % MILLI:
            raise InputError(f"{out[ray]:g} GPUs for one worker: Ray gives parts of one GPU, or whole ones")
    return out


def nodes(cluster: Cluster, *, memory_unit: float = 1.0) -> list[dict[str, Any]]:
    """How to start the Ray node of every machine: num_cpus, num_gpus, memory, resources, labels.

    As ray.cluster_utils.Cluster.add_node takes them; for `ray start` they are --num-cpus, --num-gpus, --memory,
    --resources and --labels.
    """
    out = []
    for name, kind in zip(cluster.names, cluster.type_of, strict=True):
        has = amounts(cluster.machines[int(kind)].capacity, memory_unit=memory_unit)
        node: dict[str, Any] = {"num_cpus": has.pop("CPU", 0), "num_gpus": has.pop("GPU", 0)}
        for what in ("num_cpus", "num_gpus"):
            if node[what] != int(node[what]):
                raise InputError(f"machine {name!r}: {what} is {node[what]:g}; a Ray node has a whole number")
        if "memory" in has:
            node["memory"] = has.pop("memory")
        out.append({**node, "resources": has, "labels": {LABEL: _label(name)}})
    by_name(cluster.names)
    return out


def placement_groups(result: Result, slot: int, *, memory_unit: float = 1.0) -> list[PlacementGroup]:
    """A placement group for every job that runs in the slot, in order of arrival."""
    if isinstance(slot, bool) or not isinstance(slot, int) or not 0 <= slot < result.end:
        raise InputError(f"slot is {slot!r}; expected a whole number from 0 to {result.end - 1}, the run's last slot")
    names = result.cluster.names
    by_name(names)
    rows = result.schedule[result.schedule[:, SLOT] == slot]
    groups = []
    for j in dict.fromkeys(rows[:, JOB].tolist()):
        job, cells = result.jobs[j], rows[rows[:, JOB] == j]
        needs = {
            "worker": amounts(job.worker, memory_unit=memory_unit),
            "server": amounts(job.server or {}, memory_unit=memory_unit),
        }
        bundles, roles, machines = [], [], []
        for role, column in (("worker", WORKERS), ("server", SERVERS)):
            for cell in cells.tolist():
                for _ in range(cell[column]):
                    bundles.append(needs[role] or LEAST)
                    roles.append(role)
                    machines.append(_label(names[cell[MACHINE]]))
        groups.append(PlacementGroup(job.id, slot, tuple(bundles), tuple(roles), tuple(machines)))
    return groups


def _label(name: str) -> str:
    if not VALUE.fullmatch(name):
        raise InputError(
            f"machine {name!r}: Ray takes labels of up to 63 letters, digits, '-', '_' and '.', from a letter or digit to "
            "one; rename the machine"
        )
    return name
