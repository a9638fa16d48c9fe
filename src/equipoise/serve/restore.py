"""The state that a store tells of: a snapshot, and the events since."""

from __future__ import annotations

from equipoise.serve.plan.state import FORM, State, digest_of
from equipoise.serve.store import Snapshot, Store


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
    state = State.restored(kept.state) if kept is not None else State()
    for event in store.events(state.seq, upto):
        state.apply(event)
    state.over.clear()
    return state


def resources_kept(store: Store) -> set[str]:
    """What the machines of a store have, as its last snapshot or its first event tells; nothing when it is new."""
    kept = usable_snapshot(store)
    first = next(iter(store.events(0, 1)), None) if kept is None else None
    floor = kept.state["floor"] if kept is not None else first.data["floor"] if first is not None else {"machines": []}
    return {resource for machine in floor["machines"] for resource in machine["capacity"]}


class Twin:
    """A second state that follows the store, to be asked what the first must not stand still for; one thread at a time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._state: State | None = None

    def now(self) -> State:
        """As of the last event stored."""
        state, self._state = self._state, None  # if it fails halfway, begin anew
        if state is None:
            state = restored(self.store)
        else:
            for event in self.store.events(state.seq):
                state.apply(event)
            state.over.clear()
        self._state = state
        return state
