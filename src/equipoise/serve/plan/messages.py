"""Jobs and events as users see them: plain values, and one sentence for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from equipoise.place.execution import ADMITTED, LENT, PENDING, REFUSED
from equipoise.place.planner.packing import MACHINE, SLOT, WORKERS
from equipoise.serve.plan import events as kinds
from equipoise.serve.plan.events import Body, Event, attributes
from equipoise.serve.plan.machines import Int32s
from equipoise.serve.plan.state import CANCELLED, FINISHED, Held, State
from equipoise.units import MILLI

MOST_NAMED = 4  # machines in a sentence
REASONS = {
    "infeasible_alone": "it does not fit this cluster even when nothing else runs",
    "beyond_horizon": "it cannot finish within its horizon even alone on all machines",
    "no_capacity": "there is no room for it to finish within its horizon",
    "priced_out": "there is room, but at the prices of the moment it would cost more than finishing it is worth",
    "too_late": "even alone it could not finish before its deadline, or before finishing is worth nothing",
    "over_quota": "its tenant holds as much as its quota allows",
    "over_jobs": "its tenant has as many unfinished jobs as its quota allows",
    "beyond_quota": "one worker needs more than its tenant's quota allows in all",
    "machine_down": "a machine it was on went down",
    "late": "it runs slower than stated, and was planned again at its measured pace",
    "overdue": "its plan is over, and it has not said that it is done",
    "expired": "it waited and can no longer finish within its horizon",
    "early": "it was done before its plan",
    "told": "as it reported",
    "unreported": "it never reported its end, and its horizon is over",
}


def iso(at: float) -> str:
    """Wall time of unix seconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Wall(NamedTuple):
    """How slots stand on the wall clock: unix seconds of slot 0, and the length of a slot."""

    start: float
    slot_seconds: float

    def begin(self, slot: int) -> str:
        return iso(self.start + slot * self.slot_seconds)

    def words(self, first: int, last: int) -> str:
        """ " (Mon 14:30 to 16:30 UTC)" of slots first..last."""
        a, b = (datetime.fromtimestamp(self.start + t * self.slot_seconds, UTC) for t in (first, last + 1))
        until = f"{b:%H:%M}" if a.date() == b.date() else f"{b:%a %H:%M}"
        return f" ({a:%a %H:%M} to {until} UTC)"


def wall_of(state: State) -> Wall | None:
    return Wall(state.start, state.slot_seconds) if state.clock == "real" else None


def job_out(held: Held, names: Sequence[str], wall: Wall | None = None) -> Body:
    """A job as the API answers, without its cells. `names` of machines; `wall` where the clock is real."""
    cells = held.cells if held.finish is None else held.last
    machines = [names[h] for h in dict.fromkeys(cells[:, MACHINE].tolist())] if len(cells) else []
    start = held.began if held.began is not None else int(cells[0, SLOT]) if len(cells) else None
    end = held.finish if held.finish is not None else int(cells[-1, SLOT]) if len(cells) else None
    own = ("id", "name", "tenant", "state", "reason", "worth", "cost", "finish", "done", "pace", "seq")
    return attributes(held, *own) | {
        "why": why(held, machines, wall),
        "submitted": held.job.arrival,
        "at": iso(held.at),
        "start": start,
        "end": end,
        "starts_at": wall.begin(start) if wall is not None and start is not None else None,
        "ends_at": wall.begin(end + 1) if wall is not None and end is not None else None,
        "work": held.job.work,
        "workers": _widest(cells),
        "machines": machines,
        "worker": {r: milli / MILLI for r, milli in held.job.worker.items()},
    }


def _widest(cells: Int32s) -> int:
    return int(np.bincount(cells[:, SLOT] - cells[0, SLOT], cells[:, WORKERS]).max()) if len(cells) else 0


def cells_out(held: Held, names: Sequence[str]) -> list[list[int | str]]:
    """A list of [slot, machine name, workers, servers]."""
    return [[t, names[h], w, s] for t, h, w, s in held.cells.tolist()]


def why(held: Held, machines: list[str], wall: Wall | None = None) -> str:
    """One sentence: what was decided and for what reason."""
    because = REASONS.get(held.reason, "")
    where = ", ".join(machines[:MOST_NAMED]) + (
        f" and {len(machines) - MOST_NAMED} more" if machines[MOST_NAMED:] else ""
    )
    cells = held.cells
    span = f"slots {cells[0, SLOT]} to {cells[-1, SLOT]}" if len(cells) else ""
    runs = len(np.unique(cells[:, SLOT])) if len(cells) else 0
    if runs and runs < cells[-1, SLOT] - cells[0, SLOT] + 1:
        span = f"{runs} of the {span}"
    if len(cells) and cells[0, SLOT] == cells[-1, SLOT]:
        span = f"slot {cells[0, SLOT]}"
    if len(cells) and wall is not None:
        span += wall.words(int(cells[0, SLOT]), int(cells[-1, SLOT]))
    if held.state == ADMITTED:
        note = f" ({because})" if because else ""
        return f"Promised: {span} on {where}; worth {held.worth:.4g} at a cost of {held.cost:.4g}{note}."
    if held.state == LENT:
        ran = f"lent {where} in {span}" if span else "lent idle machines"
        return f"Not promised: {because}. Meanwhile {ran}."
    if held.state == PENDING:
        return f"Waiting: {because}." if because else "Waiting."
    if held.state == REFUSED:
        return f"Refused: {because}."
    if held.state == FINISHED:
        return f"Finished in slot {held.finish}" + (f": {because}." if because else ".")
    return "Cancelled." if held.state == CANCELLED else ""


def event_text(event: Event) -> str:
    """One sentence for the feed."""
    data, kind = event.data, event.kind
    if kind == kinds.DECIDED:
        because = REASONS.get(data["reason"], "")
        return f"{event.job} is {data['state']}" + (f": {because}" if because else "")
    if kind == kinds.MACHINE:
        if data["status"] == "added":
            return f"{len(data['names'])} machine{'s' * (len(data['names']) > 1)} added: {', '.join(data['names'][:4])}"
        return f"machine {data['name']} is {data['status']}"
    if kind == kinds.PROGRESS:
        return f"{event.job} has done {data['reported']:.4g} samples, at {data['pace']:.0%} of the stated speed"
    if kind == kinds.FINISHED:
        because = REASONS.get(data["reason"], "")
        return f"{event.job} finished in slot {data['slot']}" + (f": {because}" if because else "")
    return {
        kinds.OPENED: "the service was opened",
        kinds.SUBMITTED: f"{event.job} was submitted" + (f" as {data['name']!r}" if data.get("name") else ""),
        kinds.TICK: f"slot {data.get('slot')} begins",
        kinds.CANCELLED: f"{event.job} was cancelled",
        kinds.PRICES: "prices were set",
    }[kind]


def event_out(event: Event) -> Body:
    """An event as the API answers."""
    name = event.data.get("name", "") if event.job else ""
    own = attributes(event, "seq", "slot", "kind", "job", "tenant", "data")
    return own | {"at": iso(event.at), "name": name, "text": event_text(event)}
