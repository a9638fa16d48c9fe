"""Alibaba's GPU cluster of 2023: pods (milli-CPUs, MiB, shares of a GPU, times in seconds) and the list of nodes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Demand, Ran, Workload
from equipoise.place.traces import _rows as rows
from equipoise.place.traces._rows import Mapped, TraceRow, Unmappable

COLUMNS = "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time"
EXPECTED = (
    "an Alibaba pod list: name,cpu_milli,memory_mib,num_gpu,gpu_milli,...,creation_time,deletion_time,scheduled_time"
)
CLUSTER_COLUMNS = ("cpu_milli", "memory_mib", "gpu", "model")
NODE_EXPECTED = "an Alibaba node list: sn,cpu_milli,memory_mib,gpu,model"
MIB = 2**20 * 1000  # milli-bytes
matches = rows.header(("creation_time", "gpu_milli"))


def alibaba(
    path: str | Path, *, slot: str | float = "10m", seed: int = 0, sized_utility: bool = True, worth: str = "none"
) -> Workload:
    """A job of one worker for each pod that was scheduled, lasting from then to its deletion; it arrives when created.

    A pod has all its GPUs, or a share of one, on one machine; pods without GPUs are kept. Which model of GPU a pod
    wanted is a tag, not a demand. Slot 0 is the trace's own zero. The parameters are those of `philly`.
    """
    mapped = Mapped.of(slot, seed, 1, sized_utility, worth=worth)
    return mapped.read(path, rows.table(path, COLUMNS, EXPECTED), _row, calendar=False)


def _row(line: int, cells: dict[str, str]) -> TraceRow:
    if not cells["scheduled_time"].strip():
        raise Unmappable("never scheduled")
    submit = rows.number(cells["creation_time"], "creation_time", zero=True)
    started = rows.number(cells["scheduled_time"], "scheduled_time", zero=True)
    ended = rows.number(cells["deletion_time"], "deletion_time", zero=True)
    if ended <= started:
        raise Unmappable(f"deletion_time is {ended:g}, not after scheduled_time {started:g}")
    gpus = rows.whole(cells["num_gpu"], "num_gpu", zero=True)
    worker = Demand(
        gpu=gpus * rows.whole(cells["gpu_milli"], "gpu_milli", zero=True),
        cpu=rows.whole(cells["cpu_milli"], "cpu_milli", zero=True),
        memory=rows.whole(cells["memory_mib"], "memory_mib", zero=True, most=2**22) * MIB,
    )
    if not any(worker.values()):
        raise Unmappable("asks for nothing")
    return TraceRow(
        line=line,
        id=cells["name"].strip() or "pod",
        submit=submit,
        duration=rows.lasting(repr(ended - started)),
        width=1,
        worker=worker,
        communicates=False,
        rigid=True,
        tags={tag: cells[tag] for tag in ("gpu_spec", "qos", "pod_phase") if cells.get(tag)},
        real=Ran(submit, started, ended),
    )


def alibaba_cluster(path: str | Path) -> Cluster:
    """The nodes of a node list, equal ones together: G2-8gpu-96cpu-384Gi-0, -1, ..."""
    kinds = Counter(rows.every(path, CLUSTER_COLUMNS, NODE_EXPECTED, _node))
    return Cluster(
        tuple(
            Machine(
                {"gpu": gpus, "cpu": f"{cpu}m", "memory": f"{memory}Mi"},
                count,
                f"{model}-{gpus}gpu-{cpu / 1000:g}cpu-{memory / 1024:g}Gi",
            )
            for (model, gpus, cpu, memory), count in kinds.items()
        )
    )


def _node(line: int, cells: dict[str, str]) -> tuple[str, int, int, int]:
    gpus, cpu = rows.whole(cells["gpu"], "gpu", zero=True), rows.whole(cells["cpu_milli"], "cpu_milli")
    return cells["model"].strip() or "node", gpus, cpu, rows.whole(cells["memory_mib"], "memory_mib", most=2**32)
