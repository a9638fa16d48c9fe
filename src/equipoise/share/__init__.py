"""share: tasks with learning curves and deadlines crowd one site; a policy decides, every step, who gets what."""

from typing import TYPE_CHECKING

from equipoise._lazy import lazy

if TYPE_CHECKING:
    from equipoise.share import estimators, policies
    from equipoise.share.check import check_policy
    from equipoise.share.divide import count, equal, first, greedy, share_out
    from equipoise.share.ladder import Ladder, ladder
    from equipoise.share.oracle import Bound, oracle
    from equipoise.share.record import read_lcdb, record
    from equipoise.share.recording import Recording
    from equipoise.share.simulate import PolicyError, Run, simulate
    from equipoise.share.site import Server, Site
    from equipoise.share.spec import LadderSpec, ShareSpec
    from equipoise.share.sweep import Sweep, sweep
    from equipoise.share.task import Curve, Task
    from equipoise.share.view import Decision, Policy, Prior, Scene, View
    from equipoise.share.workload import Workload
else:
    lazy(__name__)

__all__ = [
    "Bound",
    "Curve",
    "Decision",
    "Ladder",
    "LadderSpec",
    "Policy",
    "PolicyError",
    "Prior",
    "Recording",
    "Run",
    "Scene",
    "Server",
    "ShareSpec",
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
    "ladder",
    "oracle",
    "policies",
    "read_lcdb",
    "record",
    "share_out",
    "simulate",
    "sweep",
]
