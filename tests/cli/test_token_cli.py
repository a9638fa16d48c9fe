"""`equipoise admin token` and `tenant` as a user meets them: output, exit code, and what the store then holds."""

import contextlib
import io
import json
import re
import sys

import pytest

from equipoise.cli import main
from equipoise.serve.access import Tokens, digest
from equipoise.serve.store import open_store, peek_store


@pytest.fixture
def url(tmp_path, monkeypatch):
    """A store in an empty folder, named by the environment as a service's would be."""
    monkeypatch.chdir(tmp_path)
    address = f"sqlite:///{tmp_path / 'plan.db'}"
    monkeypatch.setenv("EQUIPOISE_STORE", address)
    return address


def run(*args):
    """Exit code, standard output and standard error of `equipoise ARGS`."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["equipoise", *args]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as leaving:
            main()
    finally:
        sys.argv = before
    return leaving.value.code, out.getvalue(), err.getvalue()


def test_a_token_is_printed_once_and_opens_the_service(url):
    """Alone on standard output, so that a shell can keep it; the store has only its digest."""
    code, out, err = run("admin", "token", "add", "ci", "--role", "submit", "--tenant", "red")
    token = out.strip()
    assert code == 0 and re.fullmatch(r"eq_[\w-]{43}\n", out) and token not in err
    with peek_store(url) as store:
        (row,) = store.tokens()
        assert (row.name, row.digest, row.role, row.tenant) == ("ci", digest(token), "submit", "red")
        tokens = Tokens(store.tokens)
        tokens.reload()
        assert tokens.find(token).tenant == "red"
    for listing in (("admin", "token", "list"), ("admin", "token", "list", "--json")):
        code, out, err = run(*listing)
        assert code == 0 and "ci" in out and token not in out + err and digest(token) not in out + err


def test_the_token_is_in_no_file(url, tmp_path):
    """Neither in the database nor in its log."""
    token = run("admin", "token", "add", "ci")[1].strip()
    assert len(list(tmp_path.iterdir())) >= 1
    for file in tmp_path.iterdir():
        assert token.encode() not in file.read_bytes()


def test_json_is_all_there_is_on_standard_output(url):
    made = json.loads(run("admin", "token", "add", "root", "--role", "admin", "--json")[1])
    assert made["name"] == "root" and made["role"] == "admin" and made["token"].startswith("eq_")
    listed = json.loads(run("admin", "token", "list", "--json")[1])
    del made["token"]
    assert listed == {"tokens": [made]}
    assert json.loads(run("admin", "token", "revoke", "root", "--json")[1]) == {"removed": "root"}


def test_tokens_are_added_and_revoked_while_a_server_holds_the_store(url):
    """A server reads them again within a second; nothing needs to be stopped."""
    server = open_store(url)
    try:
        tokens = Tokens(server.tokens, every=0)
        token = run("admin", "token", "add", "ci", "--role", "read")[1].strip()
        tokens.reload()
        assert tokens.find(token).role == "read"
        code, out, _ = run("admin", "token", "revoke", "ci")
        assert code == 0 and "ci" in out
        tokens.reload()
        assert tokens.find(token) is None
        assert run("admin", "tenant", "set", "red", "--quota", "gpu=1")[0] == 0
        assert [row.name for row in server.tenants()] == ["red"]
    finally:
        server.close()


def test_a_server_has_the_store_after_the_command_made_it(url):
    """`token add` before the first start leaves no lock behind."""
    run("admin", "token", "add", "root", "--role", "admin")
    with open_store(url) as store:
        assert [row.name for row in store.tokens()] == ["root"]


def test_revoking_the_last_token_says_what_that_means(url):
    run("admin", "token", "add", "root", "--role", "admin")
    run("admin", "token", "add", "ci")
    assert "no token left is admin" in run("admin", "token", "revoke", "root")[2]
    assert "no token is left" in run("admin", "token", "revoke", "ci")[2]
    assert "no tokens" in run("admin", "token", "list")[1]


def test_the_store_is_named_by_an_option_too(url, tmp_path):
    other = f"sqlite:///{tmp_path / 'other.db'}"
    run("admin", "token", "add", "ci", "--store", other)
    assert "ci" in run("admin", "token", "list", "--store", other)[1]
    assert run("admin", "token", "list")[0] == 2


def test_quotas_are_kept_in_milli_units_and_shown_in_units(url):
    assert (
        run("admin", "tenant", "set", "red", "--quota", "gpu=16", "--quota", "memory=1Ti", "--quota", "jobs=50")[0] == 0
    )
    with peek_store(url) as store:
        assert store.tenants()[0].quota == {"gpu": 16_000, "memory": 2**40 * 1000, "jobs": 50}
    shown = run("admin", "tenant", "list")[1]
    assert "gpu=16" in shown and "memory=1Ti" in shown and "jobs=50" in shown
    listed = json.loads(run("admin", "tenant", "list", "--json")[1])
    assert listed == {"tenants": [{"name": "red", "quota": {"gpu": 16, "memory": 2**40, "jobs": 50}}]}
    assert run("admin", "tenant", "set", "red")[1] == "red: no limit\n"
    assert run("admin", "tenant", "remove", "red")[0] == 0
    assert run("admin", "tenant", "list")[1] == "no tenant has a quota\n"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("admin", "token", "add", "ci", "--role", "admn"), "did you mean 'admin'"),
        (("admin", "token", "add", "a b"), "'a b'"),
        (("admin", "token", "add", ".."), "'..'"),
        (("admin", "token", "add", "ci", "--tenant", "a/b"), "'a/b'"),
        (("admin", "token", "add", "here"), "there is a token 'here' already"),
        (("admin", "token", "revoke", "her"), "did you mean 'here'"),
        (("admin", "token", "list", "--store", "nowhere.db"), "not a URL"),
        (("admin", "token", "list", "--store", "sqlite:///absent.db"), "no store"),
        (("admin", "token", "add", "x", "--store", "sqlite:///no/such/folder/x.db"), "not a folder"),
        (("admin", "tenant", "set", "a b"), "'a b'"),
        (("admin", "tenant", "set", "red", "--quota", "gpu"), "'gpu'"),
        (("admin", "tenant", "set", "red", "--quota", "gpu=lots"), "'lots'"),
        (("admin", "tenant", "set", "red", "--quota", "gpu=-1"), "zero or more"),
        (("admin", "tenant", "set", "red", "--quota", "jobs=1.5"), "whole number"),
        (("admin", "tenant", "set", "red", "--quota", "gpu=1", "--quota", "gpu=2"), "twice"),
        (("admin", "tenant", "remove", "red"), "unknown tenant 'red'"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(url, args, told):
    run("admin", "token", "add", "here", "--role", "admin")
    code, out, err = run(*args)
    assert code == 2 and out == "" and told in err
    assert err.startswith("error: ") and err.count("\n") == 1
    with peek_store(url) as store:
        assert [row.name for row in store.tokens()] == ["here"] and store.tenants() == []


def test_a_password_is_not_repeated_when_the_database_is_not_there(url):
    """Nobody listens on port 1: the error names the place, not the password."""
    pytest.importorskip("psycopg")
    code, out, err = run("admin", "token", "list", "--store", "postgresql://plan:Tr0ub4dor@127.0.0.1:1/plan")
    assert code == 1 and "127.0.0.1" in err and "Tr0ub4dor" not in out + err


def test_help_names_every_command():
    for verb, commands in (("token", ("add", "list", "revoke")), ("tenant", ("set", "list", "remove"))):
        code, out, _ = run("admin", verb, "--help")
        assert code == 0 and all(command in out for command in commands)


def test_a_quota_on_what_no_machine_has_is_a_slip(url):
    """The store knows its machines: `gpus` would limit nothing, and is refused with the nearest right name."""
    from equipoise.place import Cluster, Machine
    from equipoise.serve.service import Service, Settings

    with open_store(url) as store:
        Service(store, Settings(clock="virtual"), Cluster((Machine({"gpu": 4}, 2),)))
    code, _, told = run("admin", "tenant", "set", "vision", "--quota", "gpus=8")
    assert code == 2 and "did you mean 'gpu'?" in told
    assert run("admin", "tenant", "set", "vision", "--quota", "gpu=8")[0] == 0
