"""Tiresias' tables: jobs (num_gpu, submit_time, duration and more, in seconds) and the cluster they ran on."""

from __future__ import annotations

from pathlib import Path

from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Workload
from equipoise.place.traces import _rows as rows
from equipoise.place.traces._rows import Mapped, TraceRow

COLUMNS = ("num_gpu", "submit_time", "duration")
EXPECTED = "a Tiresias table: job_id,num_gpu,submit_time,iterations,model_name,duration,interval"
CLUSTER_COLUMNS = ("num_switch", "num_node_p_switch", "num_gpu_p_node", "num_cpu_p_node", "mem_p_node")
CLUSTER_EXPECTED = "a Tiresias cluster: " + ",".join(CLUSTER_COLUMNS)
matches = rows.header(COLUMNS)


def tiresias(
    path: str | Path,
    *,
    slot: str | float = "1m",
    seed: int = 0,
    elasticity: float = 1,
    gpus_per_machine: int = 4,
    sized_utility: bool = True,
    worth: str = "none",
) -> Workload:
    """All-reduce jobs; slot 0 is the trace's own zero and lasts a minute. The parameters are those of `philly`."""
    mapped = Mapped.of(slot, seed, elasticity, sized_utility, gpus_per_machine, worth=worth)
    return mapped.read(path, rows.table(path, COLUMNS, EXPECTED), _row, calendar=False)


def _row(line: int, cells: dict[str, str]) -> TraceRow:
    return TraceRow(
        line=line,
        id=f"tiresias-{line}",
        width=rows.whole(cells["num_gpu"], "num_gpu"),
        submit=rows.number(cells["submit_time"], "submit_time", zero=True),
        duration=rows.lasting(cells["duration"]),
        tags={"network": cells["model_name"]} if cells.get("model_name") else {},
    )


def tiresias_cluster(path: str | Path) -> Cluster:
    """The machines of a cluster table, such as n32g4.csv; memory in GB."""
    return Cluster(tuple(rows.every(path, CLUSTER_COLUMNS, CLUSTER_EXPECTED, _machines)))


def _machines(line: int, cells: dict[str, str]) -> Machine:
    switches, nodes, gpus, cpus, memory = (rows.whole(cells[name], name) for name in CLUSTER_COLUMNS)
    capacity = {"gpu": gpus, "cpu": cpus, "memory": f"{memory}G"}
    return Machine(capacity, switches * nodes, "node" if line == 2 else f"node-{line}")
