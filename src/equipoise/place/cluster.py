"""The cluster: machines of some types, each with a capacity of every resource in whole milli-units."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise import units
from equipoise.errors import InputError, refuse_if, unknown_name, whole_number
from equipoise.kernels import Bools, Floats, Ints
from equipoise.units import MILLI

MOST_MACHINES = 1_000_000
DEVICE = "gpu"  # the resource that a machine has in whole devices, also as "nvidia.com/gpu"
# Of a device, in milli-units, what its parts are rounded up to: each divides the next, so the largest first always pack.
PARTS = 1, 5, 25, 125, 250, 500, 1000


def is_device(resource: str) -> bool:
    """Whether machines have it in whole devices: a part of one sits on one."""
    return resource.rpartition("/")[2] == DEVICE


@dataclass(frozen=True)
class Machine:
    """`count` equal machines. `capacity` takes human quantities and holds milli-units: {"gpu": 8, "memory": "512Gi"}.

    `type` is what jobs state their speeds for, as "a100"; "" is a type like any other. `rack` is where they stand.
    """

    capacity: Mapping[str, int] = field(hash=False)
    count: int = 1
    name: str = "machine"
    type: str = ""
    rack: str = ""

    def __init__(
        self, capacity: Mapping[str, object], count: int = 1, name: str = "machine", type: str = "", rack: str = ""
    ) -> None:
        who, held = f"Machine {name!r}", capacity
        why = f'{who}: capacity is {capacity!r}; expected resources, as {{"gpu": 8, "cpu": 64}}'
        refuse_if(not isinstance(capacity, Mapping) or not capacity, why, code="machine.capacity")
        whole_number(count, f"{who}: count", 1, MOST_MACHINES, code="machine.count")
        if not isinstance(capacity, units.Demand):
            held = units.Demand({str(r): units.resource(v, f"{who}: {r}") for r, v in capacity.items()})
        why = f"{who}: every capacity is zero; expected some of at least one resource"
        refuse_if(not any(held.values()), why, code="machine.capacity")
        self.__dict__.update(capacity=held, count=count, name=str(name), type=str(type), rack=str(rack))


@dataclass(frozen=True)
class Cluster:
    """Machines in order; machine ids 0..H-1 run through the entries. Bandwidths in bytes per second."""

    machines: tuple[Machine, ...]
    inside: float = 2.5e9  # 20 Gbps: what a job without its own numbers has inside a machine
    between: float = 1.25e8  # 1 Gbps: and between machines
    across: float | None = None  # and between racks; None: as between machines

    def __post_init__(self) -> None:
        machines = (self.machines,) if isinstance(self.machines, Machine) else self.machines
        good = isinstance(machines, Sequence) and machines and all(isinstance(m, Machine) for m in machines)
        why = f"Cluster: machines is {self.machines!r}; expected one Machine or more"
        refuse_if(not good, why, code="cluster.machines")
        object.__setattr__(self, "machines", tuple(machines))
        if sum(m.count for m in machines) > MOST_MACHINES:
            raise InputError(f"Cluster: more than {MOST_MACHINES:,} machines; that is a slip", code="machine.count")
        for name in ("inside", "between", "across") if self.across is not None else ("inside", "between"):
            given = getattr(self, name)
            rate = units.bandwidth(given, f"Cluster: {name}")
            why = f"Cluster: {name} is {given!r}; expected a positive bandwidth"
            refuse_if(rate <= 0, why, code="bandwidth.range")
            object.__setattr__(self, name, rate)

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """Every resource any machine has, in the order they first appear."""
        return tuple(dict.fromkeys(r for m in self.machines for r in m.capacity))

    @cached_property
    def size(self) -> int:
        """How many machines."""
        return int(self.counts.sum())

    @cached_property
    def type_of(self) -> NDArray[np.int32]:
        """The entry (index into `machines`) of every machine id."""
        return np.repeat(np.arange(len(self.machines), dtype=np.int32), self.counts)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types of machines, in the order they first appear."""
        return tuple(dict.fromkeys(m.type for m in self.machines))

    @cached_property
    def entry_types(self) -> NDArray[np.int32]:
        """The type (index into `types`) of every entry."""
        return np.array([self.types.index(m.type) for m in self.machines], dtype=np.int32)

    @cached_property
    def machine_types(self) -> NDArray[np.int32]:
        """The type of every machine id."""
        return self.entry_types[self.type_of]

    @cached_property
    def domains(self) -> tuple[tuple[str, str | None], ...]:
        """Where a job may sit in a slot: on a type, in one rack or (None) in any. Racks count if `across` does."""
        out: list[tuple[str, str | None]] = []
        for name in self.types:
            racks = list(dict.fromkeys(m.rack for m in self.machines if m.type == name))
            out += [(name, rack) for rack in racks if self.across is not None and len(racks) > 1]
            out.append((name, None))
        return tuple(out)

    @cached_property
    def within(self) -> Bools:
        """Of each domain, whether a machine id is in it."""
        held = [[m.type == name and rack in (None, m.rack) for m in self.machines] for name, rack in self.domains]
        return np.ascontiguousarray(np.array(held)[:, self.type_of])

    @cached_property
    def machine_racks(self) -> NDArray[np.int32]:
        """A number for the rack of every machine id; one for all where racks do not count."""
        racks = [m.rack if self.across is not None else "" for m in self.machines]
        return np.unique(racks, return_inverse=True)[1].astype(np.int32)[self.type_of]

    @cached_property
    def capacity(self) -> Ints:
        """Milli-units, an array of shape (entries, resources)."""
        return np.array([[m.capacity.get(r, 0) for r in self.resources] for m in self.machines], dtype=np.int64)

    @cached_property
    def total(self) -> Floats:
        """Milli-units of each resource in the whole cluster (as floats: ten thousand terabytes pass 64 bits)."""
        return np.array([float(sum(m.count * m.capacity.get(r, 0) for m in self.machines)) for r in self.resources])

    @cached_property
    def counts(self) -> Ints:
        """How many machines each entry is."""
        return np.array([m.count for m in self.machines], dtype=np.int64)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A name for every machine id: the type's own, with a number where several have it."""
        own = [m.name for m in self.machines for _ in range(m.count)]
        often, numbers = Counter(own), defaultdict[str, Iterator[int]](count)
        return tuple(f"{name}-{next(numbers[name])}" if often[name] > 1 else name for name in own)

    @cached_property
    def machine_ids(self) -> dict[str, int]:
        """The machine id of every name; two machines of one name are refused."""
        found = {name: h for h, name in enumerate(self.names)}
        if len(found) < len(self.names):
            twice = next(name for h, name in enumerate(self.names) if found[name] != h)
            why = "give the machine types of the cluster different names"
            raise InputError(f"two machines have the name {twice!r}; {why}", code="machine.twice")
        return found

    def demand(self, wants: Mapping[str, int], who: str) -> Ints:
        """A demand in milli-units as a row in the cluster's order of resources; a resource nobody has is refused."""
        for r, amount in wants.items():
            if r not in self.resources and amount:
                known = ", ".join(self.resources)
                raise InputError(f"{who}: unknown resource {r!r}; this cluster has {known}", code="unknown")
        return np.array([wants.get(r, 0) for r in self.resources], dtype=np.int64)

    def packed(self, demand: Ints) -> Ints:
        """A demand as it is planned: a part of a device is rounded up, so that what fits in sum fits device by device."""
        out = demand.copy()
        for r, name in enumerate(self.resources):
            if (asked := int(demand[r])) % MILLI and is_device(name):
                out[r] = next(p for p in PARTS if p >= asked) if asked < MILLI else -(-asked // MILLI) * MILLI
        return out

    def typed(self, types: Iterable[str], who: str) -> None:
        """Refuse a type that no machine has."""
        for name in types:
            if self.types == ("",) and name:
                why = "the machines have no types; give them some (type: a100), or leave the speeds out"
                raise InputError(f"{who} has a speed on type {name!r}: {why}", code="unknown")
            if name not in self.types:
                raise unknown_name(f"type of machines in {who}:", name, self.types)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Cluster:
        """A cluster from a YAML or JSON file (see `read_cluster`)."""
        from equipoise.place.files import read_cluster

        return read_cluster(path)

    @classmethod
    def from_frame(
        cls, frame: Any, *, inside: str | float | None = None, between: str | float | None = None
    ) -> Cluster:
        """Machines from a pandas frame: columns name, count, and one for every resource ("gpu", "memory")."""
        from equipoise.place.tables import cluster_from

        return cluster_from(frame, inside=inside, between=between)

    def to_frame(self) -> Any:
        """A pandas frame with a row for every type of machines; `from_frame` reads an equal cluster from it."""
        from equipoise.place.tables import cluster_frame

        return cluster_frame(self)
