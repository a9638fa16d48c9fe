"""The store on SQLite: what goes in comes out, whole batches only, and every way to open it wrongly is named in one line."""

from __future__ import annotations

import math
import os
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from sqlalchemy import event
from store_model import Model, batches, submission

from equipoise.serve.plan.events import Event
from equipoise.serve.store import Batch, Snapshot, StoreLost, TenantRow, TokenRow, open_store, peek_store
from refusals import refused


@settings(max_examples=30)
@given(batches())
def test_what_is_read_back_is_what_a_plain_python_model_holds(made):
    """Random batches into SQLite and into lists and dicts; reopened, it answers every question as they do."""
    with tempfile.TemporaryDirectory() as folder:
        url, model = f"sqlite:///{folder}/a.db", Model()
        with open_store(url) as store:
            for batch in made:
                store.append(batch)
                model.add(batch)
        with peek_store(url) as store:
            model.check(store)


def test_a_long_log_is_read_in_pages(tmp_path):
    """4,100 events are more than two pages; all come once and in order, and a limit beyond a page holds."""
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        store.append(Batch([Event(seq, 0, 0.0, "tick", "", "", {}) for seq in range(1, 4101)]))
        assert [event.seq for event in store.events()] == list(range(1, 4101))
        assert [event.seq for event in store.events(50, limit=2500)] == list(range(51, 2551))
        assert [event.seq for event in store.events(4000, 4050)] == list(range(4001, 4051))


def test_a_reader_between_pages_sees_what_was_appended_meanwhile(tmp_path):
    """Reading holds no transaction open: events appended during the walk are met at its end."""
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        store.append(Batch([Event(seq, 0, 0.0, "tick", "", "", {}) for seq in range(1, 2001)]))
        walk = store.events()
        assert next(walk).seq == 1
        store.append(Batch([Event(2001, 0, 0.0, "tick", "", "", {})]))
        assert [event.seq for event in walk][-1] == 2001


@pytest.mark.parametrize("seq", [1, 2, 4])
def test_events_must_continue_the_log(tmp_path, seq):
    """After event 2 comes 3: a repeat or a gap is refused, and nothing of its batch stays."""
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        store.append(submission(1))
        with pytest.raises(ValueError, match=f"event {seq} does not continue the log; expected seq 3"):
            store.append(submission(2, seq=seq))
        assert (store.last(), store.job("j2"), store.counts()) == (2, None, {"admitted": 1})


def test_a_batch_that_fails_late_leaves_nothing(tmp_path):
    """An answer whose key was used makes the last statement fail; the events and the job before it go too."""
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        store.append(submission(1))
        batch = submission(2)
        batch.answers = submission(1).answers
        with pytest.raises(sqlite3.IntegrityError):
            store.append(batch)
        assert (store.last(), store.job("j2"), store.counts()) == (2, None, {"admitted": 1})
        store.append(submission(2))
        assert store.counts() == {"admitted": 2}


def test_a_full_disk_loses_the_batch_at_hand_and_nothing_else(tmp_path):
    """SQLite is told that the disk ends here: the append fails as a whole; with room again it succeeds."""
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        store.append(submission(1))
        with store.database.appending() as cursor:
            (pages,) = cursor.execute("PRAGMA page_count").fetchone()
            cursor.execute(f"PRAGMA max_page_count={pages}").fetchall()
        large = submission(2)
        large.snapshot = Snapshot(4, "", {"noise": [math.sin(k) for k in range(9000)]})
        with pytest.raises(StoreLost, match="database or disk is full"):
            store.append(large)
        assert (store.last(), store.counts(), store.snapshots()) == (2, {"admitted": 1}, [])
        with store.database.appending() as cursor:
            cursor.execute("PRAGMA max_page_count=100000").fetchall()
        store.append(large)
        assert (store.last(), store.snapshots()) == (4, [(4, "")])


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_number_that_json_lacks_is_never_written(tmp_path, number):
    """NaN and infinity are refused in events, jobs, answers and snapshots."""
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        for batch in (
            Batch([Event(1, 0, 0.0, "tick", "", "", {"x": [number]})]),
            Batch(snapshot=Snapshot(1, "", {"x": number})),
        ):
            with pytest.raises(ValueError, match="not JSON compliant"):
                store.append(batch)
        assert store.last() == 0 and store.snapshots() == []


def test_tokens_and_tenants_are_rows_beside_the_log(tmp_path):
    """Added, replaced, removed; from a second connection too, as the command line does while a server runs."""
    url = f"sqlite:///{tmp_path}/a.db"
    with open_store(url) as store, peek_store(url) as beside:
        ada, bob = TokenRow("ada", "1" * 64, "admin", "", 1.5), TokenRow("bob", "2" * 64, "read", "red", 2.5)
        store.add_token(bob)
        beside.add_token(ada)
        assert store.tokens() == beside.tokens() == [ada, bob]
        assert store.remove_token("ada") and not beside.remove_token("ada")
        assert beside.tokens() == [bob]
        beside.put_tenant(TenantRow("red", {"gpu": 8000}))
        store.put_tenant(TenantRow("red", {"gpu": 4000, "jobs": 3}))
        assert beside.tenants() == [TenantRow("red", {"gpu": 4000, "jobs": 3})]
        assert beside.remove_tenant("red") and not store.remove_tenant("red")
        assert store.tenants() == [] and store.last() == 0


def test_only_who_holds_the_store_may_append(tmp_path):
    """peek_store reads beside the server, sees what it appends, and cannot append itself."""
    url = f"sqlite:///{tmp_path}/a.db"
    with open_store(url) as store, peek_store(url) as beside:
        store.append(submission(1))
        assert [event.seq for event in beside.events()] == [1, 2]
        with pytest.raises(RuntimeError, match="use open_store to append"):
            beside.append(submission(2))


def test_readers_do_not_wait_for_the_writer(tmp_path):
    """Forty reads from twenty threads end while a write transaction is open, and see what was there before it."""
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        store.append(submission(1))
        with store.database.appending() as cursor, ThreadPoolExecutor(20) as threads:
            cursor.execute("DELETE FROM events")
            reads = [
                threads.submit(lambda: (store.last(), store.counts(), len(list(store.events())))) for _ in range(40)
            ]
            assert {repr(read.result(timeout=60)) for read in reads} == {"(2, {'admitted': 1}, 2)"}
            cursor.execute("ROLLBACK")


def test_every_commit_is_on_disk_before_it_is_acknowledged(tmp_path):
    """SQLite's own word on the connection that appends: a write-ahead log, synced at every commit (2 = FULL)."""
    with open_store(f"sqlite:///{tmp_path}/a.db") as store, store.database.appending() as cursor:
        found = [cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert found == ["wal", 2]


def test_a_database_that_cannot_be_durable_is_refused():
    """A database in memory has no write-ahead log: the check that every writing connection passes says so."""
    from equipoise.serve.store.database import _set_up_sqlite
    from equipoise.serve.store.open import read_address

    with refused("store.durable", "journal_mode=memory"):
        _set_up_sqlite(sqlite3.connect(":memory:"), read_address("sqlite:///a.db"), writes=True)


def test_the_migrations_lead_to_the_tables_of_the_code(tmp_path):
    """Alembic compares a migrated database with the tables the code uses, and finds nothing to do."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    from equipoise.serve.store.open import _config
    from equipoise.serve.store.schema import REVISION, VERSION_TABLE, metadata

    with open_store(f"sqlite:///{tmp_path}/a.db") as store, store.database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
    assert ScriptDirectory.from_config(_config()).get_heads() == [REVISION]


def test_reads_walk_along_an_index(tmp_path):
    """No read sorts or scans a whole table, however rare what it asks for: SQLite's plan for each names its index."""
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        ran: list[tuple[str, tuple[object, ...]]] = []
        event.listen(store.database._readers, "before_cursor_execute", lambda *given: ran.append(given[2:4]))
        for index, ask in {
            "jobs_of_tenant ": lambda: store.jobs(tenant="red", after=50),
            "jobs_in_state ": lambda: store.jobs(states=["lent"], newest_first=False),
            "jobs_of_tenant_in_state ": lambda: store.jobs(tenant="red", states=["lent"], after=50),
            "sqlite_autoindex_jobs_1 ": lambda: store.job("j1"),
            "events_of_job ": lambda: list(store.events(5, 90, job="j1")),
            "sqlite_autoindex_answers_1 ": lambda: store.answers([("red", "a"), ("", "b")]),
        }.items():
            ran.clear()
            ask()
            ((sql, parameters),) = ran
            with sqlite3.connect(tmp_path / "a.db") as connection:
                plan = "; ".join(row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + sql, parameters))
            connection.close()
            assert f"USING INDEX {index}" in plan and "TEMP B-TREE" not in plan, (index, plan)


def test_values_are_imported_without_sqlalchemy():
    """The client needs the rows, not the database: SQLAlchemy is loaded when a store is opened."""
    code = (
        "import sys, equipoise.serve.store as s; print(s.JobRow.__name__, {'sqlalchemy', 'psycopg'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "JobRow set()"


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("runs/a.db", ("'runs/a.db'", "sqlite:///file.db", "postgresql://")),
        ("mysql://root:hunter2@db/x", ("'mysql'",)),
        ("sqlite://", ("sqlite:///file.db",)),
        ("sqlite:///:memory:", ("sqlite:///file.db",)),
        ("sqlite:///a.db?mode=ro", ("'?'",)),
        ("postgresql://ada:hunter2@db:port/x", ("db:port",)),
        ("postgresql://ada:hunter2@db", ("postgresql://user:password@host/database",)),
    ],
)
def test_a_wrong_address_is_named_without_its_password(url, named):
    """One line that says what is wrong with the URL and never shows the password in it."""
    with refused("store.address", *named) as caught:
        open_store(url, timeout=0)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["postgresql://ada:hunter2@127.0.0.1:1/x", "postgresql://ada@127.0.0.1:1/x?password=hunter2"]
)
def test_a_database_that_is_away_is_lost_without_its_password(url):
    """It may be back later: no mistake of the user's."""
    with pytest.raises(StoreLost) as caught:
        open_store(url, timeout=0)
    assert "hunter2" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_folder_is_named(tmp_path):
    """A store is not made in a folder that is not there; nor is a folder a store."""
    with refused("store.folder", tmp_path / "nowhere"):
        open_store(f"sqlite:///{tmp_path}/nowhere/a.db")
    with refused("store.folder", tmp_path):
        open_store(f"sqlite:///{tmp_path}")


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    """Text, and a database of another program, are refused as they are; not a byte of them changes."""
    text, other = tmp_path / "text.db", tmp_path / "other.db"
    text.write_text("These are my notes.\n" * 100)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    before = text.read_bytes(), other.read_bytes()
    with refused("store.failed", text):
        open_store(f"sqlite:///{text}")
    with refused("store.foreign", "'recipes'"):
        open_store(f"sqlite:///{other}")
    assert (text.read_bytes(), other.read_bytes()) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.db", "text.db"]


def test_looking_never_makes_a_store_unless_asked(tmp_path):
    """A mistyped name is told and leaves no file; with create=True a token can be kept before the first start."""
    url = f"sqlite:///{tmp_path}/a.db"
    with refused("store.none", url):
        peek_store(url)
    assert list(tmp_path.iterdir()) == []
    with peek_store(url, create=True) as store:
        store.add_token(TokenRow("ada", "1" * 64, "admin", "", 1.5))
    with open_store(url) as store:
        assert [row.name for row in store.tokens()] == ["ada"]


def test_a_store_of_a_newer_version_is_refused(tmp_path):
    """Its tables may mean something else by then: neither opened nor looked at."""
    url = f"sqlite:///{tmp_path}/a.db"
    open_store(url).close()
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("UPDATE equipoise_schema SET version_num = '0099'")
    connection.close()
    for opened in (open_store, peek_store):
        with refused("newer", "0099"):
            opened(url)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become a user without rights")
def test_a_file_without_the_right_to_write_is_named():
    """As another user: a read-only folder, then a read-only file in a folder that may be written."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "a.db"
        open_store(f"sqlite:///{file}").close()
        (folder / "a.db.lock").unlink()
        folder.chmod(0o755)
        os.seteuid(65534)
        try:
            with refused("store.failed", file):
                open_store(f"sqlite:///{file}")
            os.seteuid(0)
            folder.chmod(0o777)
            os.seteuid(65534)
            with refused("store.failed", file):
                open_store(f"sqlite:///{file}")
        finally:
            os.seteuid(0)


def test_a_star_import_gives_what_is_ours():
    names: dict[str, object] = {}
    exec("from equipoise.serve.store import *", names)
    assert "open_store" in names and "Store" in names and not {"InputError", "import_module"} & set(names)
