"""Tokens and tenants over REST."""

import pytest
from guarded import LIMIT, Scene

from equipoise.serve.access import Limits, digest
from equipoise.serve.store import open_store
from equipoise.serve.store.rows import TenantRow


@pytest.fixture
def scene():
    return Scene()


@pytest.fixture(scope="module")
def same():
    """One scene for all tests that only look, and ask too often for any limit."""
    return Scene(limits=Limits(body=LIMIT, rate=0, stranger_rate=0))


def test_a_token_is_made_shown_once_used_and_revoked(scene):
    made = scene.ask("POST", "/v1/tokens", "admin", json={"name": "ci", "role": "submit", "tenant": "red"})
    token = made.json()["token"]
    assert made.status_code == 201 and made.json()["role"] == "submit"
    assert scene.store.by_name["ci"].digest == digest(token)
    mine = {"Authorization": f"Bearer {token}"}
    assert scene.ask("GET", "/v1/me", headers=mine).json() == {
        "name": "ci",
        "role": "submit",
        "tenant": "red",
        "open": False,
    }
    listed = scene.ask("GET", "/v1/tokens", "admin")
    assert [row["name"] for row in listed.json()["tokens"]] == ["my-read", "my-submit", "my-admin", "ci"]
    assert token not in listed.text and digest(token) not in listed.text
    assert scene.ask("POST", "/v1/tokens", "admin", json={"name": "ci"}).status_code == 409
    assert scene.ask("DELETE", "/v1/tokens/ci", "admin").json() == {"removed": "ci"}
    assert scene.ask("GET", "/v1/me", headers=mine).status_code == 401
    assert scene.ask("DELETE", "/v1/tokens/ci", "admin").status_code == 404


def test_the_last_admin_is_not_revoked_over_the_network(scene):
    """Nobody could undo it over the network."""
    answer = scene.ask("DELETE", "/v1/tokens/my-admin", "admin")
    assert answer.status_code == 409 and "my-admin" in scene.store.by_name


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "a/b"},
        {"name": ".."},
        {"name": "x" * 65},
        {"name": "a\n"},
        {"name": "é"},
        {"name": 5},
        {"name": "a", "role": "root"},
        {"name": "a", "tenant": "a b"},
        {"name": "a", "digest": "0" * 64},
    ],
)
def test_tokens_that_are_refused(same, body):
    assert same.ask("POST", "/v1/tokens", "admin", json=body).status_code == 422
    assert len(same.store.by_name) == 3


def test_a_tenants_quota_is_set_listed_and_removed(scene):
    """Units in and out, milli-units in the store."""
    quota = {"gpu": 16, "memory": "1Ti", "cpu": 0.5, "jobs": 50}
    put = scene.ask("PUT", "/v1/tenants/red", "admin", json={"quota": quota})
    shown = {"name": "red", "quota": {"gpu": 16, "memory": 2**40, "cpu": 0.5, "jobs": 50}}
    assert put.status_code == 200 and put.json() == shown
    assert scene.store.quotas == {"red": {"gpu": 16_000, "memory": 2**40 * 1000, "cpu": 500, "jobs": 50}}
    assert scene.ask("GET", "/v1/tenants", "admin").json() == {"tenants": [shown]}
    assert scene.ask("DELETE", "/v1/tenants/red", "admin").json() == {"removed": "red"}
    assert scene.ask("DELETE", "/v1/tenants/red", "admin").status_code == 404


@pytest.mark.parametrize(
    "quota",
    [{"gpu": -1}, {"gpu": "many"}, {"gpu": None}, {"gpu": True}, {"jobs": 1.5}, {"a b": 1}, [], 5, {"gpu": [1]}],
)
def test_quotas_that_are_refused(same, quota):
    """In one line that names the resource."""
    answer = same.ask("PUT", "/v1/tenants/red", "admin", json={"quota": quota})
    assert answer.status_code == 422 and list(answer.json()) == ["error"]
    assert same.store.quotas == {}


def test_it_all_holds_on_a_real_store(tmp_path):
    """SQLite instead of dictionaries: make, use, double and revoke a token, set and remove a quota, race for a name."""
    with open_store(f"sqlite:///{tmp_path / 'plan.db'}") as store:
        scene = Scene(store=store)
        made = scene.ask("POST", "/v1/tokens", "admin", json={"name": "ci", "role": "read", "tenant": "red"})
        mine = {"Authorization": "Bearer " + made.json()["token"]}
        assert scene.ask("GET", "/v1/me", headers=mine).json()["tenant"] == "red"
        assert scene.ask("POST", "/v1/tokens", "admin", json={"name": "ci"}).status_code == 409
        assert (
            scene.ask("PUT", "/v1/tenants/red", "admin", json={"quota": {"gpu": "1500m", "jobs": 3}}).status_code == 200
        )
        assert store.tenants() == [TenantRow("red", {"gpu": 1500, "jobs": 3})]
        assert scene.ask("DELETE", "/v1/tenants/red", "admin").status_code == 200
        store.remove_token("ci")
        scene.clock.now += 1.5
        assert scene.ask("GET", "/v1/me", headers=mine).status_code == 401

        first_look, seen = store.tokens, []

        def too_early():
            """The first look does not see what another process is about to write."""
            seen.append(1)
            return [row for row in first_look() if len(seen) > 1 or row.name != "my-read"]

        scene.clock.now -= 0.5  # the guard itself does not look now
        store.tokens = too_early
        assert scene.ask("POST", "/v1/tokens", "admin", json={"name": "my-read"}).status_code == 409
