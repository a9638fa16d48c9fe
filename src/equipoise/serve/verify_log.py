"""Proof that a store is sound: its log is replayed from the first event and compared with all else it holds."""

from __future__ import annotations

from collections.abc import Callable

from equipoise.certificate import Certificate, Check
from equipoise.serve.certify import certify
from equipoise.serve.event import Event
from equipoise.serve.plan.state import State
from equipoise.serve.service import restored
from equipoise.serve.store import Store

Progress = Callable[[int, int], None]
Told = tuple[str, str, int | None, int]  # state, reason, finish, seq


def verify_log(store: Store, progress: Progress | None = None) -> tuple[Certificate, int]:
    """Replay, snapshot by snapshot; then the rows of jobs, the restart, and the certificate of the log itself."""
    last = store.last()
    state, told = State(), dict[str, Told]()
    snapshots = dict(store.snapshots())
    wrong: list[int] = []
    for event in store.events(0, last):
        state.apply(event)
        _remember(state, event, told)
        if event.seq in snapshots and state.digest() != snapshots[event.seq]:
            wrong.append(event.seq)
        if progress is not None and event.seq % 1000 == 0:
            progress(event.seq, last)
    again = restored(store, last)
    trouble = state.audit()
    checks = [
        Check.at_most("replay", float(state.seq != last), 0, f"{last:,} events applied one by one, from the first."),
        Check.at_most(
            "snapshots", len(wrong), 0,
            f"Snapshots that differ from the replay, of {len(snapshots):,}{f'; the first at {wrong[0]}' if wrong else ''}.",
        ),
        Check.at_most(
            "restart", float(again.digest() != state.digest()), 0,
            f"Whether a restart (snapshot and the events since) would differ from the replay; sha256 {state.digest()[:16]}.",
        ),
        _rows(store, told),
        Check.at_most("book", float(bool(trouble)), 0, trouble or "Machines hold what jobs were given, slot by slot."),
    ]  # fmt: skip
    own, _ = certify(store.events(0, last))
    return Certificate((*checks, *own)), last


def _remember(state: State, event: Event, told: dict[str, Told]) -> None:
    if event.job:
        held = state.jobs.get(event.job) or state.over[event.job]
        told[event.job] = (held.state, held.reason, held.finish, held.seq)
    state.over.clear()


def _rows(store: Store, told: dict[str, Told]) -> Check:
    """Rows of jobs that are not what the log says, missing ones and ones too many included."""
    wrong, after, seen = 0, None, 0
    while rows := store.jobs(after=after, newest_first=False, limit=1000):
        wrong += sum(told.get(row.id) != (row.state, row.reason, row.finish, row.seq) for row in rows)
        after, seen = rows[-1].n, seen + len(rows)
    wrong += max(0, len(told) - seen)
    return Check.at_most("rows", wrong, 0, f"Rows of jobs that the log contradicts; {len(told):,} jobs.")
