"""The state of a store, from its log, and the proof that a store is sound.

The proof replays the log from its first event and compares the result with all else that the store holds. Whatever was
done to the database, the answer is a certificate: what cannot even be read is a check that failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from equipoise.certificate import Certificate, Check
from equipoise.serve.certify import certify
from equipoise.serve.plan.state import FORM, Held, State, digest_of
from equipoise.serve.store import JobRow, Snapshot, Store


def restored(store: Store, upto: int | None = None) -> State:
    """The state after event `upto` (or the last): the snapshot before it, and the events since."""
    return replayed(store, usable_snapshot(store, upto), upto)


def usable_snapshot(store: Store, upto: int | None = None) -> Snapshot | None:
    """The latest in the present form; after an upgrade there may be none, and the log is replayed from its beginning."""
    kept = store.snapshot(upto)
    while kept is not None and kept.state.get("form") != FORM:
        kept = store.snapshot(kept.seq - 1)
    return kept


def snapshot_of(state: State) -> Snapshot:
    plain = state.plain()
    return Snapshot(state.seq, digest_of(plain), plain)


def replayed(store: Store, kept: Snapshot | None, upto: int | None = None) -> State:
    """The state of a snapshot (or the empty one), and the events since applied to it."""
    return _followed(store, State.restored(kept.state) if kept is not None else State(), upto)


def _followed(store: Store, state: State, upto: int | None = None) -> State:
    for event in store.events(state.seq, upto):
        state.apply(event)
    state.over.clear()
    return state


def resources_kept(store: Store) -> set[str]:
    """The resources of a store's machines, from its last snapshot or its first event; none when it is new."""
    kept = usable_snapshot(store)
    told = [kept.state] if kept is not None else [first.data for first in store.events(0, 1)]
    return {name for data in told for machine in data["floor"]["machines"] for name in machine["capacity"]}


class Twin:
    """A second state that follows the store, for slow questions that must not stop the first; one thread at a time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._state: State | None = None

    def now(self) -> State:
        """As of the last event stored."""
        state, self._state = self._state, None  # if it fails halfway, begin anew
        self._state = restored(self.store) if state is None else _followed(self.store, state)
        return self._state


Progress = Callable[[int, int], None]
JobRecord = tuple[object, ...]  # of a job: what its row must say


def verify_log(store: Store, progress: Progress | None = None) -> tuple[Certificate, int]:
    """Replay, snapshot by snapshot; then the rows of jobs, the restart, and the certificate of the log itself."""
    last, told, digests = store.last(), dict[str, JobRecord](), dict[int, str]()
    wanted = {seq for seq, _ in store.snapshots()}
    state, why = State(), ""
    try:
        for event in store.events(0, last):
            state.apply(event)
            if event.job:
                told[event.job] = _of_held(state.jobs.get(event.job) or state.over[event.job])
            state.over.clear()
            if event.seq in wanted:
                digests[event.seq] = state.digest()
            if progress is not None and event.seq % 1000 == 0:
                progress(event.seq, last)
    except Exception as problem:  # whatever it is, it is a fact about the log
        why = f"event {state.seq + 1} cannot be applied ({type(problem).__name__}: {problem})"
    if state.seq != last and not why:
        why = f"the log ends at {state.seq}"
    meaning = why or f"{last:,} events applied one by one, from the first"
    checks = [Check.at_most("replay", float(bool(why)), 0, f"{meaning}.")]
    if why:
        return Certificate(tuple(checks)), last
    trouble = state.audit()
    checks += [
        _snapshots(store, digests, last),
        _restart(store, state, last),
        _rows(store, told),
        _counts(store, told),
        Check.at_most("book", float(bool(trouble)), 0, trouble or "Machines hold what jobs were given, slot by slot."),
    ]
    try:
        checks += certify(store.events(0, last))[0]
    except Exception as problem:
        checks.append(Check.at_most("log", 1, 0, f"The log cannot be walked ({type(problem).__name__}: {problem})."))
    return Certificate(tuple(checks)), last


def _of_held(held: Held) -> JobRecord:
    own = (held.id, held.tenant, held.name, held.state, held.reason, held.job.arrival, held.finish, held.seq)
    return (held.n, *own, held.worth, held.cost)


def _of_row(row: JobRow) -> tuple[JobRecord, JobRecord]:
    """What a row says of a job, in its columns and in the answer it keeps."""
    own = (row.id, row.tenant, row.name, row.state, row.reason, row.submitted, row.finish, row.seq)
    kept = ("id", "tenant", "name", "state", "reason", "submitted", "finish", "seq")
    rest = (row.data.get("worth"), row.data.get("cost"))
    return (row.n, *own, *rest), (row.n, *(row.data.get(name) for name in kept), *rest)


def _snapshots(store: Store, digests: dict[int, str], last: int) -> Check:
    """Every snapshot against its own digest and, in the present form, against the replay at its event."""
    wrong, older = [], 0
    for seq, digest in store.snapshots():
        try:
            kept = store.snapshot(seq)
            sound = kept is not None and kept.seq == seq <= last and digest_of(kept.state) == digest
            if kept is not None and kept.state.get("form") != FORM:
                older += 1
            else:
                sound = sound and digest == digests[seq]
        except Exception:  # cannot be read
            sound = False
        if not sound:
            wrong.append(seq)
    where = f"; the first at {wrong[0]}" if wrong else ""
    unused = f"; {older:,} of another version are not used" if older else ""
    meaning = f"Snapshots that differ from the replay, of {len(store.snapshots()):,}{where}{unused}."
    return Check.at_most("snapshots", len(wrong), 0, meaning)


def _restart(store: Store, state: State, last: int) -> Check:
    """Whether a server that starts now has the state of the replay."""
    digest = state.digest()
    try:
        differs = restored(store, last).digest() != digest
    except Exception as problem:
        return Check.at_most("restart", 1, 0, f"A restart would fail ({type(problem).__name__}: {problem}).")
    meaning = f"Whether a restart (snapshot and the events since) would differ from the replay; sha256 {digest[:16]}."
    return Check.at_most("restart", float(differs), 0, meaning)


def _rows(store: Store, told: dict[str, JobRecord]) -> Check:
    """Rows of jobs that are not what the log says, missing ones and ones too many included."""
    wrong, after, seen = 0, None, 0
    try:
        while rows := store.jobs(after=after, newest_first=False, limit=1000):
            wrong += sum(_of_row(row) != (told.get(row.id), told.get(row.id)) for row in rows)
            after, seen = rows[-1].n, seen + len(rows)
    except Exception as problem:
        return Check.at_most("rows", 1, 0, f"Rows of jobs cannot be read ({type(problem).__name__}: {problem}).")
    wrong += max(0, len(told) - seen)
    return Check.at_most("rows", wrong, 0, f"Rows of jobs that the log contradicts; {len(told):,} jobs.")


def _counts(store: Store, told: dict[str, JobRecord]) -> Check:
    """Counts of jobs by state, in all and by tenant."""
    tenants = {str(row[2]) for row in told.values()}
    wrong = 0
    for tenant in (None, *sorted(tenants)):
        expected = Counter(str(row[4]) for row in told.values() if tenant is None or row[2] == tenant)
        found = {state: count for state, count in store.counts(tenant).items() if count}
        wrong += found != dict(expected)
    meaning = f"Counts by state that are not those of the rows; {len(tenants):,} tenants."
    return Check.at_most("counts", wrong, 0, meaning)
