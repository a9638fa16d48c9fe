"""What a crash leaves of a SQLite store: exactly the batches whose last byte reached the disk, nothing of any other."""

from __future__ import annotations

import bisect
import random
import shutil
import sqlite3

from store_model import Model, submission

from equipoise.serve.plan.events import Event
from equipoise.serve.store import Batch, Snapshot, open_store, peek_store

BATCHES, CUTS = 300, 200


def history(rng: random.Random):
    """Batches as a server writes them: jobs arrive in groups, finish or are cancelled, time passes, snapshots are taken."""
    seq, n, running = 1, 0, []
    for _ in range(BATCHES):
        batch = Batch()
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            n += 1
            new = submission(n, seq=seq, tenant=rng.choice(("", "red")), state=rng.choice(("admitted", "refused")))
            batch.events += new.events
            batch.jobs += new.jobs
            batch.answers += new.answers
            running += [row for row in new.jobs if row.state == "admitted"]
            seq += 2
        if running and rng.random() < 0.5:
            row = running.pop(rng.randrange(len(running)))
            kind = rng.choice(("finished", "cancelled"))
            batch.events.append(Event(seq, n, 0.0, kind, row.id, row.tenant, {"slot": n}))
            batch.jobs.append(row.__class__(**{**vars(row), "state": kind, "finish": n, "seq": seq}))
            seq += 1
        if rng.random() < 0.05:
            batch.snapshot = Snapshot(seq - 1, f"{seq:064x}", {"now": n, "cells": [[n, 0, 1, 1]] * 200})
        yield batch


def test_recovery_from_a_log_cut_at_random_bytes_gives_a_prefix_of_the_acknowledged_history(tmp_path):
    """The log is cut at 200 random bytes. Its length when each batch was acknowledged says which must be there."""
    rng = random.Random(7)
    file, wal = tmp_path / "a.db", tmp_path / "a.db-wal"
    batches, lengths = list(history(rng)), []
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA page_size=512")  # small pages: more places to cut, less to copy
        connection.execute("VACUUM")
    connection.close()
    store = open_store(f"sqlite:///{file}")
    with store.database.appending() as cursor:
        cursor.execute("ROLLBACK")
        cursor.execute("PRAGMA wal_autocheckpoint=0")  # all batches stay in the log
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # the tables do not
    for batch in batches:
        store.append(batch)
        lengths.append(wal.stat().st_size)
    crashed, crashed_wal = tmp_path / "crashed.db", tmp_path / "crashed.db-wal"
    base, whole = file.read_bytes(), wal.read_bytes()
    assert len(whole) == lengths[-1] and lengths == sorted(set(lengths))

    # Anywhere, and just around the ends of batches, where one byte decides.
    cuts = [rng.randrange(len(whole) + 1) for _ in range(CUTS - 60)]
    cuts += [rng.choice(lengths) + by for by in (-1, 0, 1) for _ in range(20)]
    for cut in sorted(cuts):
        crashed.write_bytes(base)
        crashed_wal.write_bytes(whole[:cut])
        model = Model()
        for batch in batches[: bisect.bisect_right(lengths, cut)]:
            model.add(batch)
        with peek_store(f"sqlite:///{crashed}") as found:
            assert list(found.events()) == model.events, cut
            assert found.jobs(newest_first=False, limit=10_000) == list(model.jobs.values()), cut
            for tenant in (None, "", "red"):
                assert found.counts(tenant) == model.counts(tenant), cut
            assert found.answers(list(model.answers)) == model.answers, cut
            assert found.answers([(a.tenant, a.key) for a in batches[-1].answers] if cut < lengths[-1] else []) == {}, (
                cut
            )
            assert found.snapshots() == [(shot.seq, shot.digest) for shot in model.shots], cut
    store.close()


def test_a_store_goes_on_after_a_torn_log(tmp_path):
    """Cut in the middle of a batch, opened to serve: the log continues behind the last whole batch."""
    file, wal = tmp_path / "a.db", tmp_path / "a.db-wal"
    store = open_store(f"sqlite:///{file}")
    store.append(submission(1))
    kept = wal.stat().st_size
    store.append(submission(2))
    (tmp_path / "torn.db-wal").write_bytes(wal.read_bytes()[: (kept + wal.stat().st_size) // 2])
    shutil.copyfile(file, tmp_path / "torn.db")
    store.close()
    with open_store(f"sqlite:///{tmp_path}/torn.db") as torn:
        assert torn.last() == 2
        torn.append(submission(2))
        assert torn.counts() == {"admitted": 2}
