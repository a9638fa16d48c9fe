"""A store in plain Python lists and dicts, and random batches: what both databases are compared with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import strategies as st

from equipoise.serve.plan.events import Event
from equipoise.serve.store import Batch, JobRow, Snapshot, Store, StoredAnswer

TENANTS, STATES = ("", "red", "blue"), ("admitted", "lent", "pending", "refused", "finished", "cancelled")

LISTS = [  # states, part of the name, newest first
    ((), "", True),
    ((), "A_", False),
    (("admitted",), "", False),
    (("lent", "finished", "lent"), "", True),
    (("lent", "finished"), "%", False),
]


@dataclass
class Model:
    """What a store should hold after the batches given to `add`."""

    events: list[Event] = field(default_factory=list)
    jobs: dict[str, JobRow] = field(default_factory=dict)
    answers: dict[tuple[str, str], StoredAnswer] = field(default_factory=dict)
    shots: list[Snapshot] = field(default_factory=list)

    def add(self, batch: Batch) -> None:
        self.events += batch.events
        self.jobs |= {row.id: row for row in batch.jobs}
        self.answers |= {(answer.tenant, answer.key): answer for answer in batch.answers}
        self.shots += [batch.snapshot] if batch.snapshot else []

    def counts(self, tenant: str | None = None) -> dict[str, int]:
        return dict(Counter(row.state for row in self.jobs.values() if tenant in (None, row.tenant)))

    def listed(self, tenant: str | None, states: tuple[str, ...], name: str, newest_first: bool) -> list[JobRow]:
        found = [
            row
            for row in self.jobs.values()
            if tenant in (None, row.tenant) and (not states or row.state in states) and name.lower() in row.name.lower()
        ]
        return sorted(found, key=lambda row: row.n, reverse=newest_first)

    def check(self, store: Store) -> None:
        """Everything a store can be asked, asked."""
        assert store.last() == len(self.events)
        assert list(store.events()) == self.events
        for first, last in pairwise([0, len(self.events) // 3, len(self.events)]):
            assert list(store.events(first, last)) == self.events[first:last]
            assert list(store.events(first, limit=2)) == self.events[first : first + 2]
        for id in {event.job for event in self.events}:
            assert list(store.events(job=id)) == [event for event in self.events if event.job == id]
        for id, row in self.jobs.items():
            assert store.job(id) == row
        assert store.job("nobody") is None
        assert store.answers([*self.answers, ("red", "never used")]) == self.answers
        for tenant in (None, *TENANTS):
            assert store.counts(tenant) == self.counts(tenant)
            for states, name, newest_first in LISTS:
                found: list[JobRow] = []
                asked = {"tenant": tenant, "states": states, "name": name, "newest_first": newest_first, "limit": 3}
                while page := store.jobs(**asked, after=found[-1].n if found else None):
                    found += page
                assert found == self.listed(tenant, states, name, newest_first)
        assert store.snapshots() == [(shot.seq, shot.digest) for shot in self.shots]
        for upto in (None, 0, len(self.events) // 2, len(self.events)):
            before = [shot for shot in self.shots if upto is None or shot.seq <= upto]
            assert store.snapshot(upto) == (before[-1] if before else None)


words = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=12)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
documents = st.dictionaries(st.text(max_size=6), plain, max_size=4)
slots = st.integers(0, 2**40)


@st.composite
def batches(draw: st.DrawFn) -> list[Batch]:
    """Batches that continue each other: jobs come and change, keys are used once."""
    model, made = Model(), []
    for _ in range(draw(st.integers(0, 6))):
        batch = Batch()
        for _ in range(draw(st.integers(0, 4))):
            seq = len(model.events) + len(batch.events) + 1
            at = draw(st.floats(0, 2e9))
            job = draw(st.sampled_from(["", "j1", "j2"]))
            batch.events.append(Event(seq, draw(slots), at, draw(words), job, draw(words), draw(documents)))
        for n in draw(st.lists(st.integers(1, 9), max_size=5)):
            finish = draw(st.none() | slots)
            name = draw(st.text("aAb_%c", max_size=4))
            tenant, state = draw(st.sampled_from(TENANTS)), draw(st.sampled_from(STATES))
            batch.jobs.append(
                JobRow(n, f"j{n}", tenant, name, state, draw(words), draw(slots), finish, 0, draw(documents))
            )
        for pair in draw(st.lists(st.tuples(st.sampled_from(TENANTS), words), max_size=3, unique=True)):
            if pair not in model.answers:
                batch.answers.append(StoredAnswer(*pair, draw(words), draw(st.integers(200, 599)), draw(documents)))
        if batch.events and draw(st.booleans()):
            batch.snapshot = Snapshot(batch.events[-1].seq, draw(words), draw(documents))
        model.add(batch)
        made.append(batch)
    return made


def submission(n: int, *, seq: int | None = None, tenant: str = "red", state: str = "admitted") -> Batch:
    """What one submitted job leaves: two events, its row, its answer. Events are 2n-1 and 2n unless `seq` says otherwise."""
    first = 2 * n - 1 if seq is None else seq
    about = {"name": f"train-{n}", "worth": 3.5, "worker": {"gpu": 1.0}}
    return Batch(
        events=[
            Event(first, n, 1.75e9 + n, "submitted", f"j{n}", tenant, about),
            Event(first + 1, n, 1.75e9 + n, "decided", f"j{n}", tenant, {"state": state, "cells": [[n, 0, 2, 1]]}),
        ],
        jobs=[JobRow(n, f"j{n}", tenant, f"train-{n}", state, "", n, None, first + 1, about)],
        answers=[StoredAnswer(tenant, f"key-{n}", "0" * 64, 201, {"id": f"j{n}"})],
    )
