"""A PostgreSQL server for the tests: private, thrown away at the end, started once per process from Debian's package.

Import `postgres_url` into a test module; a test that takes it gets the URL of a fresh database.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

USER, PASSWORD = "equipoise", "s3cret-word"
_numbers = itertools.count(1)


class Server:
    """A cluster in a temporary folder. PostgreSQL refuses root, so as root it runs as `postgres` (or `nobody`)."""

    def __init__(self, binaries: Path) -> None:
        import psycopg

        self.folder = Path(tempfile.mkdtemp(prefix="equipoise-pg-"))
        self.port = free_port()
        account = "postgres" if any(entry.pw_name == "postgres" for entry in pwd.getpwall()) else "nobody"
        self._as = {"user": account, "extra_groups": []} if os.getuid() == 0 else {}
        word = self.folder / "word"
        word.write_text(PASSWORD)
        if self._as:
            for path in (self.folder, word):
                shutil.chown(path, account)
        data = self.folder / "data"
        rights = ("-U", USER, "-A", "scram-sha-256", "--pwfile", word)
        self._run(binaries / "initdb", "-D", data, *rights, "-E", "UTF8", "--no-sync")
        self._log = (self.folder / "log").open("wb")
        self._server = subprocess.Popen(
            [
                binaries / "postgres",
                "-D",
                data,
                "-k",
                self.folder,
                "-p",
                str(self.port),
                "-c",
                "listen_addresses=127.0.0.1",
            ],
            cwd=self.folder,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            **self._as,
        )
        atexit.register(self.stop)
        give_up = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if self._server.poll() is not None or time.monotonic() > give_up:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.05)

    def _run(self, *command: object) -> None:
        done = subprocess.run(
            [str(word) for word in command], cwd=self.folder, capture_output=True, text=True, **self._as
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {done.stderr}")

    def url(self, database: str) -> str:
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def do(self, sql: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run a statement as the owner, outside a transaction."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def fresh(self) -> str:
        """The URL of a new, empty database."""
        name = f"t{next(_numbers)}"
        self.do(f"CREATE DATABASE {name}")
        return self.url(name)

    def stop(self) -> None:
        self._server.send_signal(signal.SIGQUIT)  # leave at once, without a checkpoint
        self._server.wait(30)
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@functools.cache
def server() -> Server | str:
    """The server of this process, or why there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if not found and not on_path:
        return "no PostgreSQL: neither initdb on the path nor Debian's package postgresql; apt-get install postgresql"
    return Server(found[-1].parent if found else Path(str(on_path)).resolve().parent)


@pytest.fixture
def postgres() -> Server:
    """The server; without PostgreSQL the test is skipped, or fails where CI is set: there it must run."""
    found = server()
    if isinstance(found, str):
        if os.environ.get("CI"):
            pytest.fail(found)
        pytest.skip(found)
    return found


@pytest.fixture
def postgres_url(postgres: Server) -> str:
    """A fresh database; it goes when the server goes."""
    return postgres.fresh()
