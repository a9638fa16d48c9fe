"""The store on a real PostgreSQL server: the same answers as on SQLite, and a second server that takes over."""

from __future__ import annotations

import signal
import threading
import time

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from postgres import PASSWORD, USER, Server, free_port, postgres, postgres_url
from sqlalchemy.exc import OperationalError
from store_model import Model, batches, submission
from store_server import StoreServer

from equipoise.serve.store import (
    Fenced,
    Snapshot,
    StoreBusy,
    StoreLost,
    TenantRow,
    TokenRow,
    copy_store,
    lock,
    open_store,
    peek_store,
)
from equipoise.serve.store.database import plain_errors
from equipoise.serve.store.open import read_address
from refusals import refused

__all__ = ["postgres", "postgres_url"]  # fixtures, found by name

HOLDER = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"  # noqa: E501


def end_the_lock(postgres: Server, url: str) -> None:
    """What a network failure does: the holder's lock connection ends on the server's side, and the holder is not told."""
    assert postgres.do(HOLDER, url.rpartition("/")[2]) == [(True,)]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches())
def test_postgres_reads_back_what_a_plain_python_model_holds(postgres, made):
    """Random batches into PostgreSQL and into lists and dicts; reopened, it answers every question as they do."""
    url, model = postgres.fresh(), Model()
    with open_store(url) as store:
        for batch in made:
            store.append(batch)
            model.add(batch)
    with peek_store(url) as store:
        model.check(store)


def test_a_batch_postgres_refuses_leaves_nothing(postgres_url):
    """A used key, a gap, a repeat: each is an error at `append`, none is half kept, and the store goes on after each."""
    with open_store(postgres_url) as store:
        store.append(submission(1))
        used = submission(2)
        used.answers = submission(1).answers
        with pytest.raises(psycopg.errors.UniqueViolation):
            store.append(used)
        for seq in (1, 4):
            with pytest.raises(ValueError, match=f"event {seq} does not continue the log; expected seq 3"):
                store.append(submission(2, seq=seq))
        assert (store.last(), store.job("j2"), store.counts()) == (2, None, {"admitted": 1})
        store.append(submission(2))
        assert (store.last(), store.counts()) == (4, {"admitted": 2})


def test_tokens_and_tenants_on_postgres(postgres_url):
    """Rows beside the log, also from a second connection."""
    ada = TokenRow("ada", "1" * 64, "admin", "", 1.5)
    with open_store(postgres_url) as store, peek_store(postgres_url) as beside:
        beside.add_token(ada)
        store.put_tenant(TenantRow("red", {"gpu": 1}))
        beside.put_tenant(TenantRow("red", {"gpu": 2}))
        assert (store.tokens(), store.tenants()) == ([ada], [TenantRow("red", {"gpu": 2})])
        assert store.remove_token("ada") and not store.remove_token("ada")
        assert store.remove_tenant("red") and not store.remove_tenant("red")
        with pytest.raises(RuntimeError, match="use open_store"):
            beside.append(submission(1))


def test_a_store_moves_to_postgres_and_back(postgres_url, tmp_path):
    """SQLite to PostgreSQL to SQLite: the last answers as the first, snapshots and all."""
    first, last, model = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db", Model()
    with open_store(first) as store:
        for n in range(1, 21):
            batch = submission(n, tenant=("", "red")[n % 2])
            batch.snapshot = Snapshot(2 * n, "d", {"now": n, "price": 0.1 * n}) if n % 5 == 0 else None
            store.append(batch)
            model.add(batch)
    assert copy_store(first, postgres_url) == copy_store(postgres_url, last)
    with open_store(postgres_url) as store, open_store(last) as back:
        model.check(store)
        model.check(back)
        store.append(submission(21))
    with refused("store.full", "'events'") as refusal:
        copy_store(first, postgres_url)
    assert PASSWORD not in str(refusal.value)


def test_a_copy_that_fails_leaves_an_empty_target(postgres_url, tmp_path):
    """SQLite keeps a zero byte in a name and PostgreSQL refuses it: after the error the target has not one row."""
    source = f"sqlite:///{tmp_path}/a.db"
    with open_store(source) as store:
        store.append(submission(1))
        store.put_tenant(TenantRow("re\0d", {}))
    with refused("store.failed", "NUL"):
        copy_store(source, postgres_url)
    with peek_store(postgres_url) as store:
        assert (store.last(), store.counts(), store.answers([("red", "key-1")])) == (0, {}, {})


def test_the_migrations_lead_to_the_tables_of_the_code_on_postgres(postgres_url):
    """Alembic compares the migrated database with the tables the code uses, and finds nothing to do."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from equipoise.serve.store.schema import VERSION_TABLE, metadata

    with open_store(postgres_url) as store, store.database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []


def test_a_second_server_waits_and_takes_over_after_kill_9(postgres_url):
    """The first process is killed without warning: the second, waiting, opens with the next epoch and the whole log."""
    with StoreServer(postgres_url) as first:
        assert first.hear() == "open 1" and first.ask("append 3") == "6"
        with StoreServer(postgres_url) as second:
            assert second.hear() == "waiting"
            assert first.ask("append 1") == "8"  # the first serves on meanwhile
            first.kill()
            assert second.hear() == "open 2"
            assert second.ask("append 1") == "10"


def test_a_server_that_was_only_stuck_is_fenced(postgres, postgres_url):
    """The first process is frozen and its lock lost; the second takes over. Thawed, the first may append nothing."""
    with StoreServer(postgres_url) as first:
        assert first.hear() == "open 1" and first.ask("append 1") == "2"
        with StoreServer(postgres_url) as second:
            assert second.hear() == "waiting"
            first.signal(signal.SIGSTOP)
            end_the_lock(postgres, postgres_url)
            assert second.hear() == "open 2" and second.ask("append 1") == "4"
            first.signal(signal.SIGCONT)
            assert first.ask("append 1") == "fenced"
            assert second.ask("append 1") == "6"


def test_a_lost_lock_alone_does_not_stop_a_server(postgres, postgres_url):
    """The epoch decides: as long as no other server came, the one whose lock connection broke appends on."""
    with open_store(postgres_url) as store:
        store.append(submission(1))
        end_the_lock(postgres, postgres_url)
        store.append(submission(2))
        with open_store(postgres_url, timeout=0), pytest.raises(Fenced, match="epoch 2, ours is 1"):
            store.append(submission(3))


def test_a_server_stuck_inside_a_transaction_does_not_hold_up_the_next(postgres, postgres_url, monkeypatch):
    """It holds the epoch's row when it hangs. The next waits (here 200 ms), ends its session and so undoes its batch."""
    monkeypatch.setattr(lock, "PATIENCE_MS", 200)
    with open_store(postgres_url) as first:
        first.append(submission(1))
        with pytest.raises(psycopg.Error), first.database.appending() as cursor:  # noqa: PT012
            cursor.execute("SELECT epoch FROM ownership FOR UPDATE")
            cursor.execute("DELETE FROM events RETURNING seq")
            assert len(cursor.fetchall()) == 2
            end_the_lock(postgres, postgres_url)
            with open_store(postgres_url) as second:
                assert (second.epoch, second.last()) == (2, 2)
        with pytest.raises(Fenced):
            first.append(submission(2))


def test_a_broken_connection_is_told_and_the_next_append_uses_a_new_one(postgres, postgres_url):
    """All sessions end, as in a restart of PostgreSQL: the batch at hand is in doubt, `last` tells; then it goes on."""
    with open_store(postgres_url) as store:
        store.append(submission(1))
        name = postgres_url.rpartition("/")[2]
        postgres.do(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        with pytest.raises(StoreLost, match="failed") as loss:
            store.append(submission(2))
        assert PASSWORD not in str(loss.value)
        assert store.last() == 2
        store.append(submission(2))
        assert store.last() == 4


def test_who_does_not_want_to_wait_is_told_so(postgres_url):
    """With a timeout the second server gives up in one line; it asked to be told that it waits, and is, once."""
    told = []
    with open_store(postgres_url), refused("store.busy"):
        open_store(postgres_url, on_wait=lambda: told.append(1), timeout=0.6)
    assert told == [1]


@pytest.mark.parametrize("acknowledged", [1, 40])
def test_kill_9_loses_nothing_acknowledged_on_postgres(postgres_url, acknowledged):
    """A process appends without pause and says each seq it was told is kept; killed, the log holds all of them, whole."""
    with StoreServer(postgres_url) as server:
        server.hear()
        server.tell("forever")
        heard = [server.hear() for _ in range(acknowledged)] + server.kill()
    model = Model()
    with open_store(postgres_url) as store:  # waits until the dead server's last transaction has ended
        assert store.last() >= int(heard[-1]) and store.last() % 2 == 0
        for n in range(1, store.last() // 2 + 1):
            model.add(submission(n))
        model.check(store)


def test_a_server_that_does_not_sync_is_refused(postgres, postgres_url):
    """fsync off: PostgreSQL would acknowledge what a power cut takes away. Commits are synchronous whatever the default."""
    name = postgres_url.rpartition("/")[2]
    postgres.do(f"ALTER DATABASE {name} SET synchronous_commit = off")
    with open_store(postgres_url) as store, store.database.appending() as cursor:
        assert cursor.execute("SHOW synchronous_commit").fetchone() == ("on",)
    try:
        postgres.do("ALTER SYSTEM SET fsync = off")
        postgres.do("SELECT pg_reload_conf()")
        while postgres.do("SHOW fsync") != [("off",)]:
            pass
        with refused("store.durable", "synchronous_commit=on", "fsync=off"):
            open_store(postgres_url)
    finally:
        postgres.do("ALTER SYSTEM RESET fsync")
        postgres.do("SELECT pg_reload_conf()")
        while postgres.do("SHOW fsync") != [("on",)]:
            pass


def test_what_is_wrong_with_a_postgres_address_is_one_line_without_the_password(postgres, postgres_url):
    """A wrong password, a database that is not there, one of another program, one of a newer version, none of ours yet."""
    name = postgres_url.rpartition("/")[2]
    wrong = postgres_url.replace(PASSWORD, "hunter2")
    told = []
    with refused("store.failed", "password authentication failed") as caught:
        open_store(wrong)
    told.append(caught)
    with refused("store.failed", f'"{name}x"') as caught:
        open_store(postgres_url + "x")
    told.append(caught)
    with refused("store.none") as caught:
        peek_store(postgres_url)
    told.append(caught)
    open_store(postgres_url).close()
    postgres.do("UPDATE equipoise_schema SET version_num = '0099'", name)
    with refused("newer", "0099") as caught:
        open_store(postgres_url)
    told.append(caught)
    postgres.do("DROP TABLE equipoise_schema", name)
    with refused("store.foreign") as caught:
        open_store(postgres_url)
    told.append(caught)
    assert not any(secret in str(error.value) for error in told for secret in ("hunter2", PASSWORD))


def test_a_server_that_is_not_there_is_lost_and_one_that_says_no_is_bad_input(postgres, postgres_url):
    """While it connects the driver knows no SQLSTATE: what libpq's ping answers decides, and no words."""
    with pytest.raises(StoreLost):
        open_store(postgres_url.replace(str(postgres.port), str(free_port())))
    with refused("store.failed"):
        open_store(postgres_url.replace(PASSWORD, "hunter2"))


def test_a_server_that_was_starting_up_a_moment_ago_is_lost(postgres_url):
    """It refused, and is ready when it is asked again: to start once more helps, so it is no bad input."""
    starting = OperationalError("", {}, psycopg.OperationalError("the database system is starting up"))
    with pytest.raises(StoreLost), plain_errors(read_address(postgres_url)):
        raise starting
    with refused("store.failed"), plain_errors(read_address(postgres_url.replace(PASSWORD, "hunter2"))):
        raise starting


def test_a_server_without_room_for_a_connection_cannot_be_told_from_one_that_says_no(postgres, postgres_url):
    """As docs/operate.md states: a start then ends with 2."""
    postgres.do("CREATE ROLE crowded LOGIN PASSWORD 'word' CONNECTION LIMIT 0")
    try:
        with refused("store.failed", "too many connections"):
            open_store(postgres_url.replace(f"{USER}:{PASSWORD}", "crowded:word"))
    finally:
        postgres.do("DROP ROLE crowded")


def test_the_password_is_not_in_what_is_printed(postgres_url):
    """repr and str of a store name the database and its user, not the password."""
    with open_store(postgres_url) as store:
        assert PASSWORD not in f"{store!r} {store} {store.shown} {store.database.address!r}"
        assert store.kind == "postgresql"


def test_postgres_that_is_absent_fails_ci(monkeypatch):
    """Skipping quietly in CI would leave half of the store untested: there, no PostgreSQL is a failure."""
    import postgres as module

    monkeypatch.setattr(module, "server", lambda: "no PostgreSQL here")
    fixture = module.postgres._get_wrapped_function()
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match="no PostgreSQL here"):
        fixture()
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="no PostgreSQL here"):
        fixture()


def end_sessions(postgres, url, but=""):
    """As a restart of the server does to every session."""
    name = url.rpartition("/")[2]
    postgres.do(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' {but}")


def test_the_lock_is_taken_again_when_the_database_has_ended_its_session(postgres, postgres_url):
    """After a restart of PostgreSQL the lock is gone with its session; `hold_on` takes it again, so that a second server
    waits as before."""
    with open_store(postgres_url) as store:
        end_sessions(postgres, postgres_url)
        store.hold_on()
        with pytest.raises(StoreBusy):
            open_store(postgres_url, timeout=0)


def test_who_lost_the_lock_to_another_is_told_so(postgres, postgres_url):
    """The session ends and a second server is faster: the first is fenced."""
    with open_store(postgres_url) as first:
        end_sessions(postgres, postgres_url)
        with open_store(postgres_url, timeout=0), pytest.raises(Fenced):
            first.hold_on()


def test_a_standby_waits_through_the_end_of_its_own_session(postgres, postgres_url):
    """PostgreSQL ends the session it waits on; the standby connects again and gets the store when the first is done."""
    first, waits = open_store(postgres_url), threading.Event()
    found = []
    standby = threading.Thread(target=lambda: found.append(open_store(postgres_url, on_wait=waits.set, timeout=60)))
    standby.start()
    assert waits.wait(30)
    end_sessions(
        postgres, postgres_url, "AND pid NOT IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)"
    )
    time.sleep(1.0)
    assert standby.is_alive()
    first.close()
    standby.join(60)
    assert found[0].epoch == first.epoch + 1
    found[0].close()
