"""What `equipoise share execute` does: run with progress, write the folder, print the tables."""

from __future__ import annotations

import sys
from pathlib import Path

from equipoise.cli.output import Meter, metered
from equipoise.engine.real_clock.spec import ExecuteSpec
from equipoise.result import drop_if_empty, new_folder


def run_execute(spec: ExecuteSpec, out: Path, *, quiet: bool) -> bool:
    """One comparison of simulated and executed from settings to folder; True when its certificate passes."""
    from rich.console import Console

    from equipoise.engine.real_clock import certify
    from equipoise.present import execution
    from equipoise.present.terminal import show
    from equipoise.present.values import Bullets

    scene = spec.build()
    folder = new_folder(out, "share execute", spec.plain())
    try:
        with metered("executing", "part", None, quiet=quiet) as meter:
            result = scene.run(_Whole(spec, len(scene.policies), meter).show)
        result.save(folder)
    finally:
        drop_if_empty(folder)
    document, certificate = result.document(certify=False), certify(result)
    for line in execution.warnings(document):
        print(f"warning: {line}", file=sys.stderr)
    if quiet:
        print(result.document().text(), end="")
    else:
        console = Console()
        console.print(f"[bold]{scene.title}[/]\nheld by {document.result['limiter']}", highlight=False)
        show(console, execution.table(document), Bullets(execution.sentences(document)), certificate)
        print(folder / "report.html")
    return certificate.passed


class _Whole:
    """Progress over all parts: tasks recorded and steps executed."""

    def __init__(self, spec: ExecuteSpec, policies: int, meter: Meter) -> None:
        steps = int(spec.arrival[1] + spec.deadline[1]) + 1  # at most
        self.total = spec.repeats * (spec.tasks + policies * steps)
        self.meter, self.before, self.now, self.doing = meter, 0, 0, ""

    def show(self, doing: str, done: int, total: int) -> None:
        if doing != self.doing:
            self.before, self.now, self.doing = self.before + self.now, 0, doing
        self.now = done
        self.meter.show(self.before + done, max(self.total, self.before + done), doing=doing, note=doing)
