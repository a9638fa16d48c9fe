"""share: tasks with learning curves and deadlines crowd one site; a policy decides, every step, who gets what."""

from typing import TYPE_CHECKING

from equipoise._lazy import lazy

if TYPE_CHECKING:
    from equipoise.share import estimators as estimators, policies as policies
    from equipoise.share.bundles import Bundles as Bundles, bundles as bundles
    from equipoise.share.check import check_policy as check_policy
    from equipoise.share.divide import (
        count as count,
        equal as equal,
        first as first,
        greedy as greedy,
        share_out as share_out,
    )
    from equipoise.share.oracle import Bound as Bound, oracle as oracle
    from equipoise.share.published import PublishedRun as PublishedRun, published_run as published_run
    from equipoise.share.record import read_lcdb as read_lcdb, record as record
    from equipoise.share.recording import Recording as Recording, fit_lines as fit_lines, shipped as shipped
    from equipoise.share.simulate import PolicyError as PolicyError, Run as Run, simulate as simulate
    from equipoise.share.site import Server as Server, Site as Site
    from equipoise.share.spec import BundlesSpec as BundlesSpec, ShareSpec as ShareSpec
    from equipoise.share.sweep import Sweep as Sweep, sweep as sweep
    from equipoise.share.task import Curve as Curve, Task as Task
    from equipoise.share.view import (
        Decision as Decision,
        Policy as Policy,
        Prior as Prior,
        Scene as Scene,
        View as View,
    )
    from equipoise.share.workload import Workload as Workload
else:
    lazy(__name__)
