"""share on the real clock: the same policies on real training processes held to their shares, beside the simulation.

Names are loaded when they are used: the server of task processes starts from this package and loads only its own.
"""

from typing import TYPE_CHECKING

from equipoise._lazy import lazy

if TYPE_CHECKING:
    from equipoise.engine.real_clock.audit import certify as certify
    from equipoise.engine.real_clock.comparison import (
        Pair as Pair,
        RealComparison as RealComparison,
        compare as compare,
    )
    from equipoise.engine.real_clock.execute import Executed as Executed, Fault as Fault
    from equipoise.engine.real_clock.scene import RealPlan as RealPlan, RealScene as RealScene
    from equipoise.engine.real_clock.spec import ExecuteSpec as ExecuteSpec
    from equipoise.engine.real_clock.task_processes import (
        KINDS as KINDS,
        Work as Work,
        partial_fit_work as partial_fit_work,
        torch_work as torch_work,
    )
else:
    lazy(__name__)
