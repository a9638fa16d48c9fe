"""The site: servers with capacities and power caps, one uplink, and what a step of them costs in energy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from equipoise._short import short_repr
from equipoise.errors import InputError, refuse_negative, unknown_name
from equipoise.kernels import Floats, kernel

Law = Literal["pooled", "per_node", "linear"]
Migration = Literal["within", "between"]
LAWS: tuple[Law, ...] = get_args(Law)
MOST = 1e9  # steps, or energy per step; more is a slip
MIGRATIONS: tuple[Migration, ...] = get_args(Migration)


@dataclass(frozen=True)
class Server:
    """One machine: samples per step, and the power it may draw (None: no cap)."""

    capacity: float = 30.0
    power_cap: float | None = None

    def __post_init__(self) -> None:
        refuse_negative("Server", zero=False, capacity=self.capacity)
        if self.power_cap is not None:
            refuse_negative("Server", zero=False, power_cap=self.power_cap)


@dataclass(frozen=True)
class Site:
    """Servers behind one uplink. Rates are samples per step, delays steps, energies per server and step.

    `power` says what a step costs: "pooled" (idle + busy u^3 with u the whole site's utilisation), "per_node" (the same
    with each server's own), "linear" (idle + busy u). `migration` says when a task may change server: "within" a step,
    so that the pool is fluid, or only "between" steps.
    """

    servers: tuple[Server, ...] = (Server(),) * 5
    bandwidth: float = 100.0
    delay: float = 3.0
    jitter: float = 1.0
    task_cap: float | None = None  # the most one task may get; None: the fastest server's speed
    power: Law = "pooled"
    idle_power: float = 0.25
    busy_power: float = 7.5
    migration: Migration = "within"
    switch_cost: float = 0.0  # steps of the only server that are lost when another task takes it over

    def __repr__(self) -> str:
        return short_repr(self)

    def __post_init__(self) -> None:
        if not isinstance(self.servers, tuple | list) or not self.servers:
            raise InputError(
                f"Site: servers is {self.servers!r}; expected one Server or more, as (Server(30), Server(60))",
                code="site.servers",
            )
        for server in self.servers:
            if not isinstance(server, Server):
                raise InputError(f"Site: a server is {server!r}; expected Server({server!r})", code="site.server")
        refuse_negative("Site", zero=False, finite=False, bandwidth=self.bandwidth)
        for name in ("delay", "jitter", "idle_power", "busy_power", "switch_cost"):
            refuse_negative("Site", **{name: getattr(self, name)})
            if getattr(self, name) > MOST:
                raise InputError(
                    f"Site: {name} is {getattr(self, name):g}; expected at most {MOST:g}", code="number.range"
                )
        if self.task_cap is not None:
            refuse_negative("Site", zero=False, task_cap=self.task_cap)
        if self.power not in LAWS:
            raise unknown_name("power law", self.power, LAWS)
        if self.migration not in MIGRATIONS:
            raise unknown_name("migration", self.migration, MIGRATIONS)
        if self.switch_cost > 0 and len(self.servers) > 1:
            raise InputError(
                f"Site: switch_cost is {self.switch_cost:g} and there are {len(self.servers)} servers;"
                " expected one server, or no switch_cost: switches are counted where one server is shared in time",
                code="site.switch",
            )
        for k, server in enumerate(self.servers):
            if server.power_cap is not None and server.power_cap <= self.idle_power:
                raise InputError(
                    f"Site: server {k} has a power_cap of {server.power_cap:g} but draws {self.idle_power:g} when idle",
                    code="site.power",
                )

    def but(self, **changes: Any) -> Site:
        """The same site with some settings changed."""
        return replace(self, **changes)

    @cached_property
    def speeds(self) -> Floats:
        """What each server may do in a step: its capacity, or less under its power cap."""
        return np.array([self._speed(server) for server in self.servers])

    def _speed(self, server: Server) -> float:
        if server.power_cap is None or self.busy_power == 0.0:
            return server.capacity
        room = (server.power_cap - self.idle_power) / self.busy_power
        use = room if self.power == "linear" else room ** (1 / 3)
        return server.capacity * min(1.0, use)

    @cached_property
    def capacities(self) -> Floats:
        return np.array([server.capacity for server in self.servers])

    @property
    def capacity(self) -> float:
        """Samples per step of the whole site."""
        return float(self.speeds.sum())

    @property
    def most_per_task(self) -> float:
        fastest = float(self.speeds.max())
        return fastest if self.task_cap is None else min(self.task_cap, fastest)

    @property
    def alike(self) -> bool:
        """Whether all servers have one speed and one capacity: then the pool is fluid without being placed."""
        return bool((self.speeds == self.speeds[0]).all() and (self.capacities == self.capacities[0]).all())


POOLED, PER_NODE, LINEAR = range(3)


@kernel
def step_energy(law: int, idle: float, busy: float, capacity: Floats, total: float, load: Floats) -> float:
    """Energy of one step that computes `total`; `load` is what each server runs, and is what "per_node" is charged by."""
    nodes = len(capacity)
    if law == PER_NODE:
        energy = 0.0
        for j in range(nodes):
            use = load[j] / capacity[j]
            energy += idle + busy * use * use * use
        return energy
    use = total / capacity.sum()
    return float(nodes * (idle + busy * (use if law == LINEAR else use * use * use)))


@kernel
def cheapest_loads(rates: Floats, n: int, load: Floats) -> None:
    """Speeds of like servers that serve rates[:n] at the least sum of cubes, moving tasks within the step.

    A task faster than the mean of the rest needs a server to itself; the others are spread evenly (McNaughton).
    `rates` is sorted in place, descending.
    """
    nodes = len(load)
    rest = 0.0
    for k in range(n):
        rest += rates[k]
    part = rates[:n]
    part.sort()
    alone = 0
    for k in range(n - 1, -1, -1):
        if alone >= nodes - 1 or part[k] <= rest / (nodes - alone):
            break
        load[alone] = part[k]
        rest -= part[k]
        alone += 1
    for j in range(alone, nodes):
        load[j] = max(rest, 0.0) / (nodes - alone)
