"""share: tasks with learning curves and deadlines crowd one site; a policy decides, every step, who gets what."""

from typing import TYPE_CHECKING

from equipoise._moved import old_names
from equipoise.share import estimators, policies
from equipoise.share.check import check_policy
from equipoise.share.divide import count, equal, first, greedy, share_out
from equipoise.share.oracle import Bound, oracle
from equipoise.share.record import read_lcdb, record
from equipoise.share.recording import Recording
from equipoise.share.simulate import PolicyError, Run, simulate
from equipoise.share.site import Server, Site
from equipoise.share.sweep import Sweep, sweep
from equipoise.share.task import Curve, Task
from equipoise.share.view import Decision, Policy, Prior, Scene, View
from equipoise.share.workload import Workload

__all__ = [
    "Bound",
    "Curve",
    "Decision",
    "Policy",
    "PolicyError",
    "Prior",
    "Recording",
    "Run",
    "Scene",
    "Server",
    "Site",
    "Sweep",
    "Task",
    "View",
    "Workload",
    "check_policy",
    "count",
    "equal",
    "estimators",
    "first",
    "greedy",
    "oracle",
    "policies",
    "read_lcdb",
    "record",
    "share_out",
    "simulate",
    "sweep",
]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)  # names of 0.1.0
