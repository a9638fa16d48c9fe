"""The same site on LEAF (leafsim): its nodes, links, tasks, flows and power meter, over the processes of simpy_site.

LEAF places tasks of a fixed demand on nodes and measures power; it has no progress, no deadline and no policy that divides
a node. So a task's process is SimPy's, which LEAF itself runs on, and what is granted in a slot is a LEAF task of that many
compute units on the node and a LEAF flow of that rate on the link, placed anew in every slot. Its power models are linear
in use; the site's cubic one is written as a model of its kind. Imports nothing of ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from leaf.application import DataFlow, Task
from leaf.infrastructure import Infrastructure, Link, Node
from leaf.power import PowerMeasurement, PowerMeter, PowerModel, PowerModelLink
from line import Request, listen, timed
from simpy_site import Power, SimPySite, simulate_with_simpy

CRUMB = 1e-7  # a task and a flow that are always there: sums of floats may fall below zero, which LEAF refuses


class Cubic(PowerModel):
    """idle + busy u^3 for each server."""

    def __init__(self, power: Power, capacity: float) -> None:
        self.power, self.capacity = power, capacity

    def set_parent(self, parent: Any) -> None:
        self.node = parent

    def measure(self) -> PowerMeasurement:
        use = (self.node.used_cu - CRUMB) / self.capacity
        return PowerMeasurement(
            dynamic=self.power.servers * self.power.busy * use**3, static=self.power.servers * self.power.idle
        )


@dataclass
class LeafSite(SimPySite):
    """What is granted is placed on LEAF's node and link; its meter reads the power once a slot."""

    placed: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        gate = Node("gate")
        model = Cubic(self.power, self.capacity)
        self.pool = Node("site", cu=self.capacity + 3 * CRUMB)
        self.pool.power_model = model
        model.set_parent(self.pool)
        self.uplink = Link(gate, self.pool, self.bandwidth + 3 * CRUMB, PowerModelLink(0.0))
        infrastructure = Infrastructure()
        infrastructure.add_link(self.uplink)
        Task(CRUMB).allocate(self.pool)
        DataFlow(CRUMB).allocate([self.uplink])
        self.meter = PowerMeter(infrastructure, callback=self.read)
        self.env.process(self.meter.run(self.env, delay=0.75))

    def read(self, measured: PowerMeasurement) -> None:
        self.energy += float(measured)

    def pay(self) -> None:
        """Last slot's tasks and flows go, this slot's come; the meter does the paying."""
        for one in self.placed:
            one.deallocate()
        self.placed = []
        for job in self.computing:
            task = Task(job.granted)
            task.allocate(self.pool)
            self.placed.append(task)
        for job in self.sending:
            flow = DataFlow(job.granted)
            flow.allocate([self.uplink])
            self.placed.append(flow)


def play(request: Request) -> Request:
    """As simpy_site's."""
    tasks = np.load(request["file"])
    (done, energy), spent = timed(
        lambda: simulate_with_simpy(tasks, request["horizon"], request["policy"], kind=LeafSite, **request["site"])
    )
    return {**spent, "done": done, "energy": energy}


if __name__ == "__main__":
    listen(play)
