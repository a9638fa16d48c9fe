"""share: tasks with learning curves and deadlines crowd one site; a policy decides, every step, who gets what."""

from equipoise.share import policies
from equipoise.share.curve import Curve
from equipoise.share.simulate import PolicyError, Run, simulate
from equipoise.share.site import Server, Site
from equipoise.share.split import count, equal, first, greedy, share_out
from equipoise.share.task import Task
from equipoise.share.view import Decision, Policy, Prior, Scene, View
from equipoise.share.workload import Workload

__all__ = [
    "Curve", "Decision", "Policy", "PolicyError", "Prior", "Run", "Scene", "Server", "Site", "Task", "View", "Workload",
    "count", "equal", "first", "greedy", "policies", "share_out", "simulate",
]  # fmt: skip
