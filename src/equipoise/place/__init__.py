"""place: jobs arrive at a cluster; admit them or not, size them, put them on machines and in slots."""

from typing import TYPE_CHECKING

from equipoise._lazy import lazy

if TYPE_CHECKING:
    from equipoise.place import placers as placers, prices as prices, traces as traces
    from equipoise.place.bound import Bound as Bound, bound as bound
    from equipoise.place.calendar import Calendar as Calendar, Window as Window
    from equipoise.place.calibrate import Calibration as Calibration, calibrate as calibrate
    from equipoise.place.cluster import Cluster as Cluster, Machine as Machine
    from equipoise.place.compare import Case as Case, PlaceComparison as PlaceComparison, compare as compare
    from equipoise.place.explain import Explanation as Explanation, explain as explain
    from equipoise.place.files import (
        read_calendar as read_calendar,
        read_cluster as read_cluster,
        read_jobs as read_jobs,
        write_cluster as write_cluster,
        write_jobs as write_jobs,
    )
    from equipoise.place.from_files import (
        bound_of as bound_of,
        import_trace as import_trace,
        verify_schedule as verify_schedule,
    )
    from equipoise.place.job import (
        Deadline as Deadline,
        Job as Job,
        Linear as Linear,
        Sigmoid as Sigmoid,
        Unstated as Unstated,
        Workload as Workload,
    )
    from equipoise.place.job_spec import JobSpec as JobSpec, MachineSpec as MachineSpec
    from equipoise.place.recommend import Recommendation as Recommendation, recommend as recommend
    from equipoise.place.scene import PlaceScene as PlaceScene
    from equipoise.place.schedule import nodes as nodes, placement_groups as placement_groups
    from equipoise.place.simulate import Placer as Placer, Result as Result, Session as Session, simulate as simulate
    from equipoise.place.spec import PlaceSpec as PlaceSpec, SweepSpec as SweepSpec, WhatIfSpec as WhatIfSpec
    from equipoise.place.sweep import Sweep as Sweep, sweep as sweep
    from equipoise.place.verify import verify as verify
    from equipoise.place.whatif import WhatIf as WhatIf, whatif as whatif
else:
    lazy(__name__)
