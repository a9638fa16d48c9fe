"""What if there were a machine more, or another policy decided: the same jobs as it is and as it would be, job by job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from equipoise.document import Document, Row, look_of
from equipoise.errors import InputError, unknown_name
from equipoise.place.cluster import Cluster
from equipoise.place.compare import SAME, TIMES, TOLD, PlaceComparison, merged, moved
from equipoise.place.scene import PlaceScene, build
from equipoise.place.simulate import Result
from equipoise.place.slowdown import stated
from equipoise.place.spec import WhatIfSpec
from equipoise.result import Result as AnyResult
from equipoise.units import count

NOW, THEN = "now", "then"


@dataclass(frozen=True)
class WhatIf(AnyResult):
    """Two runs of the same jobs."""

    now: Result
    then: Result
    words: str  # what is other, such as "1 machine more (a100)"
    notes: tuple[str, ...] = ()
    spec: WhatIfSpec | None = None

    def __repr__(self) -> str:
        return f"<WhatIf {self.words}: {self.now.completed:,} jobs done now, {self.then.completed:,} then>"

    @cached_property
    def changes(self) -> list[Row]:
        """Jobs that earn more or less, end or are promised in another slot: gained and lost, the most first.

        A job gains when it earns more, or as much and sooner. A job: id, arrival, user; `utility_`, `finish_` and `due_`
        (the slot promised) now as `_before` and then as `_after`; what it is told then, and `change`: gained, lost or date.
        """
        rows = []
        for j, job in enumerate(self.now.jobs):
            row = moved(self.now, self.then, j) | {"user": job.user or None, "change": "date"}
            row |= {"due_before": self.now.due(j), "due_after": self.then.due(j)}
            more = row["utility_after"] - row["utility_before"]
            ends = [self.now.end if end is None else end for end in (row["finish_before"], row["finish_after"])]
            sooner = float(ends[0] - ends[1])
            if abs(more) <= SAME * max(1.0, row["utility_before"], row["utility_after"]):
                more = 0.0
            if more or sooner:
                row["change"] = "gained" if (more or sooner) > 0 else "lost"
            if more or sooner or row["due_before"] != row["due_after"]:
                rows.append((("gained", "lost", "date").index(row["change"]), -abs(more), -abs(sooner), j, row))
        return [row for *_, row in sorted(rows, key=lambda found: found[:4])]

    def document(self, *, certify: bool = True) -> Document:
        """Plain values: a row for each run, whose dates move, and every job that is other."""
        runs, changes = {NOW: self.now, THEN: self.then}, self.changes
        rows = []
        for case, run in runs.items():
            row = {name: value for name, value in run.row.items() if name not in TIMES}
            rows.append({"case": case, "machines": run.cluster.size} | row)
        both = [(row["due_before"], row["due_after"]) for row in changes]
        told = [(now, then) for now, then in both if now is not None and then is not None]
        dates = {"earlier": sum(then < now for now, then in told), "later": sum(then > now for now, then in told)}
        dates |= {"only then": sum(now is None and then is not None for now, then in both)}
        dates |= {"only now": sum(now is not None and then is None for now, then in both)}
        result: Row = {"words": self.words, "jobs": len(self.now.jobs), "slot": float(self.now.jobs.slot)}
        result |= {"stated": stated(self.now.jobs), "rows": rows, "dates": dates, "notes": list(self.notes)}
        for kind in ("gained", "lost"):
            found = [row for row in changes if row["change"] == kind]
            result |= {f"jobs_{kind}": len(found), kind: found[:TOLD]}
        certificate = merged({case: run.certificate() for case, run in runs.items()}, of="runs") if certify else None
        tables = {"changes": [{name: None if v == "" else v for name, v in row.items()} for row in changes]}
        looks = {run.policy.label: look_of(run.policy) for run in runs.values()}
        return Document("place whatif", result, certificate, self.settings(), tables, looks=looks)


def with_machines(cluster: Cluster, add: int, name: str | None) -> Cluster:
    """The cluster with so many machines more, or fewer where negative, of the entry of this name or type."""
    entries = list(cluster.machines)
    names = [{machine.name, machine.type} - {""} for machine in entries]
    if name is None and len(entries) > 1:
        known = ", ".join(machine.name for machine in entries)
        raise InputError(f"--add {add}: which machines? say --machine, one of {known}", code="machine.which")
    k = 0 if name is None else next((k for k, known in enumerate(names) if name in known), -1)
    if k < 0:
        raise unknown_name("machine", str(name), sorted(set().union(*names)))
    has = entries[k].count
    if has + add < 0 or cluster.size + add < 1:
        raise InputError(
            f"--add {add}: the cluster has {count(has, 'machine')} of {entries[k].name}", code="machine.count"
        )
    if add > 0:  # an entry of their own: the others keep their names, which a calendar may use
        entries.append(replace(entries[k], count=add, name=f"{entries[k].name}-more"))
    else:
        entries[k : k + 1] = [replace(entries[k], count=has + add)] if has + add else []
    return replace(cluster, machines=tuple(entries))


def whatif(spec: WhatIfSpec, *, compared: Callable[[PlaceScene], PlaceComparison] = PlaceScene.compare) -> WhatIf:
    """Play the jobs as it is, under the first of the spec's policies, and as it would be.

    Parameters
    ----------
    spec
        The scene, and what is other: `add` and `machine`, or `instead`.
    compared
        Runs one scene; where progress is to be shown.
    """
    names = list(dict.fromkeys([spec.policy[0], *([spec.instead] if spec.instead else [])]))
    add = spec.add if spec.add is not None else int(spec.machine is not None)
    told = spec.model_copy(update={"policy": names, "baseline": None, "bound": False})
    scene = build(told)
    cluster = with_machines(scene.cluster, add, spec.machine) if add else scene.cluster
    first, last = scene.placers[0], scene.placers[-1 if spec.instead else 0]
    if not add and last is first:
        raise InputError(
            "nothing is other: say --add COUNT of --machine NAME, or --instead POLICY", code="whatif.nothing"
        )
    runs = [
        compared(replace(scene, cluster=on, placers=(placer,), baseline=placer.label)).results[0]
        for on, placer in ((scene.cluster, first), (cluster, last))
    ]
    of = spec.machine or scene.cluster.machines[0].name
    words = [f"{count(abs(add), 'machine')} {'more' if add > 0 else 'fewer'} ({of})"] if add else []
    words += [f"{last.label} instead of {first.label}"] if last is not first else []
    return WhatIf(runs[0], runs[1], " and ".join(words), scene.notes, spec)
