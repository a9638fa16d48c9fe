"""The spec's synthetic workload: parameter-server jobs in slots of an hour, and the four regimes it is studied in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.errors import InputError, unknown_name, whole_number
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Demand, Job, Sigmoid, Workload
from equipoise.place.planner.job_arrays import alone, arrays_of
from equipoise.place.traces._rows import MIDDLE_RANGE, VALUE_RANGE, steepness

SLOT = 3600.0  # seconds
MACHINE = {"gpu": 36, "cpu": 99, "memory": 306, "disk": 135}  # memory and disk in whole GB
EPOCHS, SAMPLES, WIDEST = (50, 200), (20_000, 500_000), (1, 200)  # E, K, F; whole numbers, both ends included
SMALL_EPOCHS, SMALL_SAMPLES, SMALL_WIDEST = (50, 100), (20_000, 100_000), (1, 50)
GRADIENT = (30e6, 575e6)  # bytes
PER_SAMPLE = (1e-5, 1e-4)  # slots
PER_SERVER = (1, 10)
GPU, CPU, MEMORY, DISK = (0, 4), (1, 10), (2, 32), (5, 10)
BETWEEN, INSIDE = (100e6, 5e9), (10e9, 40e9)  # bits per second
REQUESTED = 30  # the most a job asks for under a fixed-width policy
ARRIVALS = ("uniform", "at_once")
PATIENCE = 10_000  # draws of one job before the horizon is called too short


@dataclass(frozen=True)
class Regime:
    """So many machines, jobs and slots."""

    machines: int
    jobs: int
    slots: int
    small: bool = False


REGIMES = {
    "20x40": Regime(20, 40, 20),
    "20x100-small": Regime(20, 100, 20, small=True),
    "50x50": Regime(50, 50, 20),
    "50x200": Regime(50, 200, 100),
}


def regime(name: str, seed: int) -> tuple[Cluster, Workload, int]:
    """One of the four: its cluster, a workload by seed, and its number of slots."""
    if name not in REGIMES:
        raise unknown_name("regime", str(name), REGIMES)
    one = REGIMES[name]
    return synthetic_cluster(one.machines), synthetic(one.jobs, seed=seed, slots=one.slots, small=one.small), one.slots


def synthetic_cluster(machines: int) -> Cluster:
    """Equal machines of 36 GPUs, 99 CPUs, 306 GB of memory and 135 GB of disk."""
    return Cluster((Machine(MACHINE, machines),))


ONE = synthetic_cluster(1)


def synthetic(jobs: int, *, seed: int, slots: int, small: bool = False, arrivals: str = "uniform") -> Workload:
    """Jobs drawn from the spec's ranges, uniformly, arriving in slots 0..slots-1; the same for the same arguments.

    A job that could not finish in slots / 2 with every machine it could use to itself is drawn again.

    Parameters
    ----------
    jobs
        How many.
    seed
        Of all draws.
    slots
        They arrive in slots 0 to slots - 1.
    small
        At most 100 epochs of 100,000 samples and 50 workers, instead of 200, 500,000 and 200.
    arrivals
        "uniform" over the slots, or "at_once".
    """
    for what, value, least in (("jobs", jobs, 1), ("seed", seed, 0), ("slots", slots, 1)):
        whole_number(value, f"synthetic: {what}", least)
    if arrivals not in ARRIVALS:
        raise unknown_name("arrivals", str(arrivals), ARRIVALS)
    rng = np.random.default_rng([seed, jobs, slots, int(small)])
    when = np.sort(rng.integers(0, slots, jobs)) if arrivals == "uniform" else np.zeros(jobs, dtype=np.int64)
    drawn = tuple(_feasible(rng, k, int(when[k]), slots, small) for k in range(jobs))
    note = f"synthetic jobs and utilities, seed {seed}" + (", small" if small else "")
    return Workload(drawn, SLOT, f"synthetic {jobs} jobs, {slots} slots", note)


def fastest(job: Job) -> float:
    """Slots the job needs with all the machines it could use: on one of them, or F workers over many."""
    width, _ = alone(arrays_of(job, ONE), ONE)
    inside = job.rate(width, together=True) if width else 0.0
    return job.work / max(inside, job.rate(job.widest, together=False))


def _feasible(rng: np.random.Generator, k: int, arrival: int, slots: int, small: bool) -> Job:
    for _ in range(PATIENCE):
        job = _job(rng, k, arrival, small)
        if np.ceil(fastest(job)) <= slots / 2:
            return job
    why = f"synthetic: none of {PATIENCE:,} jobs could finish in half of {slots} slots; expected more slots"
    raise InputError(why, code="slots.few")


def _job(rng: np.random.Generator, k: int, arrival: int, small: bool) -> Job:
    def whole(bounds: tuple[int, int]) -> int:
        return int(rng.integers(bounds[0], bounds[1] + 1))

    def real(bounds: tuple[float, float]) -> float:
        return float(rng.uniform(*bounds))

    def demand(gpu: bool) -> Demand:
        wants = {"gpu": whole(GPU)} if gpu else {}
        wants |= {"cpu": whole(CPU), "memory": whole(MEMORY), "disk": whole(DISK)}
        return Demand({r: v * 1000 for r, v in wants.items()})

    widest = whole(SMALL_WIDEST if small else WIDEST)
    return Job(
        id=f"job-{k}",
        arrival=arrival,
        work=float(whole(SMALL_EPOCHS if small else EPOCHS) * whole(SMALL_SAMPLES if small else SAMPLES)),
        batch=widest,
        time_per_sample=real(PER_SAMPLE),
        worker=demand(gpu=True),
        server=demand(gpu=False),
        workers_per_server=whole(PER_SERVER),
        gradient=real(GRADIENT),
        inside=real(INSIDE) / 8.0 * SLOT,
        between=real(BETWEEN) / 8.0 * SLOT,
        utility=Sigmoid(real(VALUE_RANGE), steepness(rng.random(), rng.random()), real(MIDDLE_RANGE)),
        requested=whole((1, min(widest, REQUESTED))),
    )
