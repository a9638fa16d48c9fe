"""place: jobs arrive at a cluster; admit them or not, size them, put them on machines and in slots."""

from equipoise.place import policies, prices, traces
from equipoise.place.bound import Bound, bound
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Job, Workload
from equipoise.place.simulate import Result, simulate
from equipoise.place.utility import Deadline, Linear, Sigmoid

__all__ = [
    "Bound", "Cluster", "Deadline", "Job", "Linear", "Machine", "Result", "Sigmoid", "Workload", "bound", "policies",
    "prices", "simulate", "traces",
]  # fmt: skip
