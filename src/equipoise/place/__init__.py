"""place: jobs arrive at a cluster; admit them or not, size them, put them on machines and in slots."""

from typing import TYPE_CHECKING

from equipoise._moved import old_names
from equipoise.place import placers, prices, traces
from equipoise.place.bound import Bound, bound
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.comparison import Comparison, compare
from equipoise.place.explain import Explanation, explain
from equipoise.place.job import Deadline, Job, Linear, Sigmoid, Workload
from equipoise.place.simulate import Placer, Result, Session, simulate
from equipoise.place.verify import verify

__all__ = [
    "Bound",
    "Cluster",
    "Comparison",
    "Deadline",
    "Explanation",
    "Job",
    "Linear",
    "Machine",
    "Placer",
    "Result",
    "Session",
    "Sigmoid",
    "Workload",
    "bound",
    "compare",
    "explain",
    "placers",
    "prices",
    "simulate",
    "traces",
    "verify",
]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)  # names of 0.1.0
