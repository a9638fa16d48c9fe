"""A slot as Ray's placement groups: by hand, and on a real two-node Ray."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from equipoise.place import placers
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Job, Linear
from equipoise.place.schedule import LABEL, amounts, nodes, placement_groups
from equipoise.place.simulate import Result, simulate
from refusals import refused

SCRIPT = Path(__file__).with_name("ray_cluster.py")
CLUSTER = Cluster(
    (
        Machine({"cpu": 4, "gpu": 2, "memory": "2Gi", "disk": 10}, name="left"),
        Machine({"cpu": 4, "gpu": 2, "memory": "2Gi", "disk": 10}, name="right"),
    )
)
WORKER = {"cpu": 1, "gpu": 1, "memory": "256Mi", "disk": 1.5}


def job(name: str, work: float, width: int, **more: Any) -> Job:
    given: dict[str, Any] = {"arrival": 0, "worker": WORKER, "utility": Linear(100.0, 1000.0)} | more
    return Job(id=name, work=work, batch=width, time_per_sample=1.0, requested=width, **given)


def five() -> Result:
    """Slot 0: a on the left machine, b on the right, c of CPUs alone; 1: b alone; 2: d spread over both; 3: e alone."""
    server = {"worker": {"cpu": 1}, "server": {"cpu": "500m"}, "workers_per_server": 1}
    first = [job("a", 2, 2), job("b", 4, 2), job("c", 1, 1, **server)]
    jobs = [*first, job("d", 4, 4, arrival=2), job("e", 2, 2, arrival=3)]
    return simulate(CLUSTER, jobs, placers.FIFO(), slots=5)


def test_bundles_by_hand():
    """A bundle a worker, then one per server, each with the machine the schedule has; the spread job is on both."""
    result = five()
    groups = {group.job: group for group in placement_groups(result, 0)}
    assert set(groups) == {"a", "b", "c"}
    assert groups["a"].bundles == ({"CPU": 1, "GPU": 1, "memory": 256 * 2**20, "disk": 1.5},) * 2
    assert (groups["a"].machines, groups["b"].machines) == (("left",) * 2, ("right",) * 2)
    assert [g.machines for t in (1, 3) for g in placement_groups(result, t)] == [("right",) * 2, ("left",) * 2]
    assert (groups["c"].roles, groups["c"].bundles) == (("worker", "server"), ({"CPU": 1}, {"CPU": 0.5}))
    (spread,) = placement_groups(result, 2)
    assert spread.machines == ("left", "left", "right", "right")
    assert spread.arguments() == {
        "bundles": [{"CPU": 1, "GPU": 1, "memory": 256 * 2**20, "disk": 1.5}] * 4,
        "strategy": "PACK",
        "name": "d@2",
        "bundle_label_selector": [{LABEL: "left"}] * 2 + [{LABEL: "right"}] * 2,
    }
    assert placement_groups(result, 4) == []
    assert json.loads(json.dumps(spread.as_dict())) == spread.as_dict()


def test_groups_hold_what_the_schedule_holds():
    """In every slot and on every machine, bundles are the schedule's workers and servers."""
    result = five()
    for slot in range(result.end):
        wanted = {
            (result.jobs[j].id, result.cluster.names[h], role): count
            for j, t, h, w, s in result.schedule.tolist()
            for role, count in (("worker", w), ("server", s))
            if t == slot and count
        }
        found: dict[tuple[str, str, str], int] = {}
        for group in placement_groups(result, slot):
            for role, machine in zip(group.roles, group.machines, strict=True):
                found[group.job, machine, role] = found.get((group.job, machine, role), 0) + 1
        assert found == wanted


def test_nodes_by_hand():
    """Ray's own words for CPUs, GPUs and memory; disk is a custom resource; the label says which machine."""
    node = {"num_cpus": 4, "num_gpus": 2, "memory": 2 * 2**30, "resources": {"disk": 10}}
    assert nodes(CLUSTER) == [{**node, "labels": {LABEL: "left"}}, {**node, "labels": {LABEL: "right"}}]


def test_memory_in_another_unit():
    """A cluster in plain gigabytes: 16 of them are 16 GiB for Ray. Parts of a byte round up."""
    assert amounts({"memory": 16_000}, memory_unit=2**30) == {"memory": 16 * 2**30}
    assert amounts({"memory": 1}) == {"memory": 1}


def test_a_server_that_asks_for_nothing_still_has_a_bundle():
    """Ray refuses an empty bundle: it is given the least CPU that is counted."""
    one = job("a", 1, 1, worker={"cpu": 1}, server={})
    (group,) = placement_groups(simulate(CLUSTER, [one], placers.FIFO(), slots=2), 0)
    assert group.bundles == ({"CPU": 1}, {"CPU": 0.001})


def test_what_ray_cannot_take_is_refused():
    result = five()
    for slot in (-1, 5, True, 1.0):
        with refused("slot.range", 4):
            placement_groups(result, slot)  # type: ignore[arg-type]
    with refused("ray.gpus", 1.5):
        amounts({"gpu": 1500})
    with refused("ray.resource", "'GPU'"):
        amounts({"gpu": 1000, "GPU": 1000})
    for name in ("rack 7", "-node", "n" * 64):
        with refused("ray.label"):
            nodes(Cluster((Machine({"cpu": 1}, name=name),)))


def test_bundles_land_on_the_planned_machines():
    """Two real Ray nodes, slot after slot: every group is ready, on the nodes whose labels the schedule names.

    b alone is on the right and e alone on the left, though both had room for either: no strategy tells that apart. An
    actor in a bundle is on the bundle's node.
    """
    result = five()
    slots = [placement_groups(result, slot) for slot in range(4)]
    given = {"nodes": nodes(CLUSTER), "slots": [[group.arguments() for group in groups] for groups in slots]}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], input=json.dumps(given), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for groups, found in zip(slots, json.loads(done.stdout.splitlines()[-1]), strict=True):
        for group, one in zip(groups, found, strict=True):
            assert one["ready"], group.job
            assert one["table"] == list(group.machines), group.job
            assert one["sat"] == [group.machines[0], group.machines[-1]], group.job
