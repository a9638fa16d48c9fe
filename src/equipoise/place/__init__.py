"""place: jobs arrive at a cluster; admit them or not, size them, put them on machines and in slots."""

from typing import TYPE_CHECKING

from equipoise._lazy import lazy

if TYPE_CHECKING:
    from equipoise.place import placers, prices, traces
    from equipoise.place.bound import Bound, bound
    from equipoise.place.calibrate import Calibration, calibrate
    from equipoise.place.cluster import Cluster, Machine
    from equipoise.place.compare import PlaceComparison, compare
    from equipoise.place.explain import Explanation, explain
    from equipoise.place.files import read_cluster, read_jobs, write_cluster, write_jobs
    from equipoise.place.from_files import bound_of, import_trace, verify_schedule
    from equipoise.place.job import Deadline, Job, Linear, Sigmoid, Workload
    from equipoise.place.job_spec import JobSpec, MachineSpec
    from equipoise.place.scene import PlaceScene
    from equipoise.place.simulate import Placer, Result, Session, simulate
    from equipoise.place.spec import PlaceSpec, SweepSpec
    from equipoise.place.sweep import Case, Sweep, sweep
    from equipoise.place.verify import verify
else:
    lazy(__name__)

__all__ = [
    "Bound",
    "Calibration",
    "Case",
    "Cluster",
    "Deadline",
    "Explanation",
    "Job",
    "JobSpec",
    "Linear",
    "Machine",
    "MachineSpec",
    "PlaceComparison",
    "PlaceScene",
    "PlaceSpec",
    "Placer",
    "Result",
    "Session",
    "Sigmoid",
    "Sweep",
    "SweepSpec",
    "Workload",
    "bound",
    "bound_of",
    "calibrate",
    "compare",
    "explain",
    "import_trace",
    "placers",
    "prices",
    "read_cluster",
    "read_jobs",
    "simulate",
    "sweep",
    "traces",
    "verify",
    "verify_schedule",
    "write_cluster",
    "write_jobs",
]
