"""Moving a store and backing it up."""

from __future__ import annotations

import sqlite3

from store_model import Model, submission
from store_server import StoreServer

from equipoise.serve.store import Batch, Snapshot, TenantRow, TokenRow, backup, copy_store, open_store, peek_store
from refusals import refused


def filled(url: str) -> Model:
    """A store with something in every table, and its model."""
    model = Model()
    with open_store(url) as store:
        for n in range(1, 31):
            batch = submission(n, tenant=("", "red")[n % 2])
            if n % 10 == 0:
                batch.snapshot = Snapshot(2 * n, f"{n:064x}", {"now": n})
            store.append(batch)
            model.add(batch)
        store.add_token(TokenRow("ada", "1" * 64, "admin", "", 1.5))
        store.put_tenant(TenantRow("red", {"gpu": 4000}))
    return model


def test_a_copy_holds_everything(tmp_path):
    """All tables arrive, and a server can go on with the copy."""
    source, target = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    model = filled(source)
    copied = copy_store(source, target)
    assert copied == {
        "events": 60,
        "jobs": 30,
        "job_counts": 2,
        "answers": 30,
        "snapshots": 3,
        "tokens": 1,
        "tenants": 1,
    }
    with open_store(target) as store:
        model.check(store)
        assert [row.name for row in store.tokens()] == ["ada"]
        assert store.tenants() == [TenantRow("red", {"gpu": 4000})]
        store.append(submission(31))
        assert store.last() == 62


def test_a_copy_never_mixes_two_stores(tmp_path):
    """A target with rows is refused and left as it was; so is a source that is not there, which is not made either."""
    source, target = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    filled(source)
    with open_store(target) as store:
        store.append(submission(1))
    with refused("store.full", "b.db", "'events'"):
        copy_store(source, target)
    with peek_store(target) as store:
        assert store.last() == 2
    with refused("store.none", "c.db"):
        copy_store(f"sqlite:///{tmp_path}/c.db", target)
    assert not (tmp_path / "c.db").exists()


def test_a_store_is_not_copied_under_a_running_server(tmp_path):
    """What the server would append after the copy would be missing from it: it must be ended first."""
    url = f"sqlite:///{tmp_path}/a.db"
    with open_store(url), refused("store.busy", "a.db"):
        copy_store(url, f"sqlite:///{tmp_path}/b.db")


def test_a_backup_is_taken_while_a_server_writes(tmp_path):
    """A process appends without pause. The backup is one sound file with whole batches, and continues as a store."""
    url = f"sqlite:///{tmp_path}/a.db"
    with StoreServer(url) as server:
        server.hear()
        server.tell("forever")
        heard = int([server.hear() for _ in range(20)][-1])
        last = backup(url, tmp_path / "b.db")
        server.kill()
    assert last >= heard
    with sqlite3.connect(tmp_path / "b.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("b.db")) == ["b.db"]
    model = Model()
    for n in range(1, last // 2 + 1):
        model.add(submission(n))
    with open_store(f"sqlite:///{tmp_path}/b.db") as store:
        model.check(store)
        store.append(Batch(submission(last // 2 + 1).events))


def test_a_backup_overwrites_nothing(tmp_path):
    """Neither an existing file nor a missing folder nor a missing store; PostgreSQL has its own tool."""
    url = f"sqlite:///{tmp_path}/a.db"
    with refused("store.none", url):
        backup(url, tmp_path / "b.db")
    filled(url)
    (tmp_path / "b.db").write_text("mine")
    with refused("backup.exists", "b.db"):
        backup(url, tmp_path / "b.db")
    with refused("backup.folder", tmp_path / "no"):
        backup(url, tmp_path / "no" / "b.db")
    with refused("backup.kind", "pg_dump"):
        backup("postgresql://ada:hunter2@db/x", tmp_path / "c.db")
