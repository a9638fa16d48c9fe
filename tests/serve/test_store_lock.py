"""One server per SQLite store: a second is refused by name, and nothing acknowledged is lost when the first is killed."""

from __future__ import annotations

import os

import pytest
from store_model import Model, submission
from store_server import StoreServer

from equipoise.serve.store import Fenced, open_store, peek_store
from refusals import refused


def test_a_second_server_is_told_who_holds_the_store(tmp_path):
    """While a process holds it, opening names its pid; looking is free; after kill -9 the store is open to the next."""
    url = f"sqlite:///{tmp_path}/a.db"
    with StoreServer(url) as first:
        assert first.hear() == "open 1" and first.ask("append 3") == "6"
        with refused("store.busy", "a.db", f"pid {first.pid};"):
            open_store(url)
        with peek_store(url) as beside:
            assert beside.last() == 6
        first.kill()
        with open_store(url) as second:
            assert (second.epoch, second.last()) == (2, 6)


def test_a_second_name_of_the_file_leads_to_the_same_lock(tmp_path):
    """A symbolic link to the database is no way round the lock; the pid named is this very process."""
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")
    with open_store(f"sqlite:///{tmp_path}/a.db"), refused("store.busy", f"pid {os.getpid()};"):
        open_store(f"sqlite:///{tmp_path}/link.db")


def test_a_failed_opening_gives_the_lock_back(tmp_path, monkeypatch):
    """Had it kept the lock, the second try would find the store in use."""
    from equipoise.serve.store import open as opening

    url = f"sqlite:///{tmp_path}/a.db"
    with monkeypatch.context() as patch:
        patch.setattr(opening, "migrate", lambda database: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            open_store(url)
    open_store(url).close()


@pytest.mark.parametrize("acknowledged", [1, 20, 60])
def test_kill_9_loses_nothing_acknowledged(tmp_path, acknowledged):
    """A process appends without pause and says each seq it was told is kept; killed, the log holds all of them, whole."""
    url = f"sqlite:///{tmp_path}/a.db"
    with StoreServer(url) as server:
        server.hear()
        server.tell("forever")
        heard = [server.hear() for _ in range(acknowledged)] + server.kill()
    model = Model()
    with peek_store(url) as store:
        assert store.last() >= int(heard[-1]) and store.last() % 2 == 0
        for n in range(1, store.last() // 2 + 1):
            model.add(submission(n))
        model.check(store)


def test_who_was_overtaken_is_fenced(tmp_path):
    """The epoch decides, not the lock: should the lock file be deleted and a second server start, the first must stop."""
    url = f"sqlite:///{tmp_path}/a.db"
    with open_store(url) as first:
        first.append(submission(1))
        (tmp_path / "a.db.lock").unlink()
        with open_store(url) as second:
            with pytest.raises(Fenced, match=r"epoch 2, ours is 1"):
                first.append(submission(2))
            second.append(submission(2))
            assert second.last() == 4
