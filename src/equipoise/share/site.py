"""The site: servers with capacities and power caps, one uplink, and what a step of them costs in energy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from equipoise._short import short_repr
from equipoise.errors import InputError, refuse_if, refuse_negative, unknown_name
from equipoise.kernels import Floats, kernel

Law = Literal["pooled", "per_node", "linear", "per_sample"]
Migration = Literal["within", "between"]
Uplink = Literal["decided", "equal"]
Success = Literal["true", "observed"]
Observes = Literal["served", "ready"]
LAWS: tuple[Law, ...] = get_args(Law)
MOST = 1e9  # steps, or energy per step; more is a slip
CHOICES = {"power law": Law, "migration": Migration, "uplink": Uplink, "success rule": Success, "observes": Observes}


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
    with each server's own), "linear" (idle + busy u), "per_sample" (busy for each sample, idle for each server that is not
    needed, and nothing in steps in which nobody can compute). `migration` says when a task may change server: "within" a
    step, so that the pool is fluid, or only "between" steps.

    `uplink` says who divides it: "decided" by the policy, with a delay behind the last byte; or "equal" parts for all who
    have not sent everything, with the delay before the first byte, so that no policy has a say. A task succeeds when its
    "true" error reaches the target, or the noisy error that is "observed" after each step with compute. Errors are seen
    of tasks that were "served" in the last step, or of all that are "ready" to compute.
    """

    servers: tuple[Server, ...] = (Server(),) * 5
    bandwidth: float = 100.0
    delay: float = 3.0
    jitter: float = 1.0  # standard deviation of the delay
    rate_jitter: float = 0.0  # of an equal uplink: a task sends its part times 1 - this to 1 + this
    task_cap: float | None = None  # the most one task may get; None: the fastest server's speed
    power: Law = "pooled"
    idle_power: float = 0.25
    busy_power: float = 7.5
    migration: Migration = "within"
    uplink: Uplink = "decided"
    success: Success = "true"
    observes: Observes = "served"
    switch_cost: float = 0.0  # steps of the only server that are lost when another task takes it over

    def __repr__(self) -> str:
        return short_repr(self)

    def __post_init__(self) -> None:
        why = f"Site: servers is {self.servers!r}; expected one Server or more, as (Server(30), Server(60))"
        refuse_if(not isinstance(self.servers, tuple | list) or not self.servers, why, code="site.servers")
        for server in self.servers:
            if not isinstance(server, Server):
                raise InputError(f"Site: a server is {server!r}; expected Server({server!r})", code="site.server")
        refuse_negative("Site", zero=False, finite=False, bandwidth=self.bandwidth)
        for name in ("delay", "jitter", "rate_jitter", "idle_power", "busy_power", "switch_cost"):
            refuse_negative("Site", **{name: getattr(self, name)})
            why = f"Site: {name} is {getattr(self, name):g}; expected at most {MOST:g}"
            refuse_if(getattr(self, name) > MOST, why, code="number.range")
        if self.task_cap is not None:
            refuse_negative("Site", zero=False, task_cap=self.task_cap)
        why = f"Site: switch_cost is {self.switch_cost:g} and there are {len(self.servers)} servers"
        why += "; expected one server, or no switch_cost: switches are counted where one server is shared in time"
        refuse_if(self.switch_cost > 0 and len(self.servers) > 1, why, code="site.switch")
        given = (self.power, self.migration, self.uplink, self.success, self.observes)
        for (what, names), value in zip(CHOICES.items(), given, strict=True):
            if value not in get_args(names):
                raise unknown_name(what, str(value), get_args(names))
        why = f"Site: rate_jitter is {self.rate_jitter:g} with uplink {self.uplink!r}"
        why += "; expected 0 to 1, and 0 unless the uplink is 'equal'"
        refuse_if(self.rate_jitter and (self.uplink != "equal" or self.rate_jitter > 1.0), why, code="site.jitter")
        for k, server in enumerate(self.servers):
            cap = math.inf if server.power_cap is None else server.power_cap
            why = f"Site: server {k} has a power_cap of {cap:g} but draws {self.idle_power:g} when idle"
            refuse_if(cap <= self.idle_power, why, code="site.power")

    @classmethod
    def authors(cls, **changes: Any) -> Site:
        """The edge site of Hasan and Peña's own code (docs/share.md, 1)."""
        preset: dict[str, Any] = {"jitter": 0.0, "rate_jitter": 0.2, "uplink": "equal"}
        preset |= {"power": "per_sample", "idle_power": 0.1, "busy_power": 0.5}
        return cls(**(preset | {"success": "observed", "observes": "ready"} | changes))

    def but(self, **changes: Any) -> Site:
        """The same site with some settings changed."""
        return replace(self, **changes)

    @cached_property
    def speeds(self) -> Floats:
        """What each server may do in a step: its capacity, or less under its power cap."""
        return _fixed([self._speed(server) for server in self.servers])

    def _speed(self, server: Server) -> float:
        if server.power_cap is None or self.busy_power == 0.0:
            return server.capacity
        if self.power == "per_sample":
            return min(server.capacity, server.power_cap / self.busy_power)
        room = (server.power_cap - self.idle_power) / self.busy_power
        use = room if self.power == "linear" else room ** (1 / 3)
        return server.capacity * min(1.0, use)

    @cached_property
    def capacities(self) -> Floats:
        return _fixed([server.capacity for server in self.servers])

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


def _fixed(values: list[float]) -> Floats:
    """An array that nobody writes on: a policy is shown the site."""
    array = np.array(values)
    array.setflags(write=False)
    return array


POOLED, PER_NODE, LINEAR, PER_SAMPLE = range(4)


@kernel
def step_energy(law: int, idle: float, busy: float, capacity: Floats, total: float, load: Floats) -> float:
    """Energy of one step that computes `total`; `load` is what each server runs, and is what "per_node" is charged by."""
    nodes, whole = len(capacity), 0.0
    for j in range(nodes):
        whole += capacity[j]
    if law == PER_SAMPLE:
        return float(busy * total + idle * max(nodes - math.ceil(total * nodes / whole), 0))
    if law == PER_NODE:
        energy = 0.0
        for j in range(nodes):
            use = load[j] / capacity[j]
            energy += idle + busy * use * use * use
        return energy
    use = total / whole
    return float(nodes * (idle + busy * (use if law == LINEAR else use * use * use)))


@kernel
def cheapest_loads(rates: Floats, n: int, load: Floats) -> None:
    """Speeds of like servers that serve rates[:n] at the least sum of cubes, moving tasks within the step.

    A task faster than the mean of the rest needs a server to itself; the others are spread evenly (McNaughton).
    The fastest come to the front of `rates`.
    """
    nodes = len(load)
    rest = 0.0
    for k in range(n):
        rest += rates[k]
    alone = 0
    while alone < min(nodes - 1, n):
        for k in range(alone + 1, n):  # the fastest that is left comes to the front
            if rates[k] > rates[alone]:
                rates[k], rates[alone] = rates[alone], rates[k]
        if rates[alone] <= rest / (nodes - alone):
            break
        load[alone] = rates[alone]
        rest -= rates[alone]
        alone += 1
    for j in range(alone, nodes):
        load[j] = max(rest, 0.0) / (nodes - alone)
