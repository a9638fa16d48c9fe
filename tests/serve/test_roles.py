"""Who may do what: every role on every route, and what a tenant sees of another (nothing but how full machines are)."""

from __future__ import annotations

import re

import pytest
from live import JOB, live

TOKENS = {
    "root": ("admin", ""),
    "sub": ("submit", ""),
    "eye": ("read", ""),
    "ann": ("submit", "anna"),
    "ann-eye": ("read", "anna"),
    "ben": ("submit", "ben"),
    "ann-root": ("admin", "anna"),
}
ORDER = ("read", "submit", "admin")
NOBODY = "nobody"  # no token is asked for

# The least role that each route asks for. A new route must be entered here.
ROUTES = {
    "POST /v1/jobs": "submit",
    "GET /v1/jobs": "read",
    "GET /v1/jobs/{id}": "read",
    "GET /v1/jobs/{id}/explain": "read",
    "GET /v1/jobs/{id}/history": "read",
    "DELETE /v1/jobs/{id}": "submit",
    "POST /v1/jobs/{id}/progress": "submit",
    "POST /v1/jobs/{id}/finish": "submit",
    "POST /v1/forecast": "read",
    "GET /v1/cluster": "read",
    "POST /v1/machines": "admin",
    "POST /v1/machines/{name}/drain": "admin",
    "POST /v1/machines/{name}/down": "admin",
    "POST /v1/machines/{name}/up": "admin",
    "GET /v1/prices": "read",
    "PUT /v1/prices": "admin",
    "GET /v1/schedule": "read",
    "GET /v1/status": "read",
    "POST /v1/clock": "admin",
    "GET /v1/certificate": "read",
    "GET /v1/events": "read",
    "GET /v1/log": "read",
    "POST /v1/login": NOBODY,
    "POST /v1/logout": "read",
    "GET /v1/me": "read",
    "GET /v1/tokens": "admin",
    "POST /v1/tokens": "admin",
    "DELETE /v1/tokens/{name}": "admin",
    "GET /v1/tenants": "admin",
    "PUT /v1/tenants/{name}": "admin",
    "DELETE /v1/tenants/{name}": "admin",
    "GET /metrics": "read",
    "GET /health": NOBODY,
    "GET /": NOBODY,
    "GET /static/{name}": NOBODY,
    "GET /openapi.json": "read",
}
WHOLE = ("GET /metrics",)  # told of all tenants together, so not to who has one
BODIES = {
    "POST /v1/jobs": JOB,
    "POST /v1/forecast": JOB,
    "POST /v1/jobs/{id}/progress": {"fraction": 0.1},
    "POST /v1/machines": {"name": "new", "capacity": {"gpu": 1}},
    "PUT /v1/prices": {"base": {"gpu": 0.0}},
    "POST /v1/clock": {"advance": 1},
    "POST /v1/login": {"token": "eq_no"},
    "POST /v1/tokens": {"name": "fresh"},
    "PUT /v1/tenants/{name}": {"quota": {}},
}


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    with live(tmp_path_factory.mktemp("roles"), tokens=TOKENS) as running:
        yield running


def routes(app) -> set[str]:
    """METHOD path of everything the application answers to, in its document or not."""
    found, waiting = set(), list(app.app.app.routes)  # behind the guard and the quick way
    while waiting:
        route = waiting.pop()
        inner = getattr(route, "original_router", None)
        waiting += inner.routes if inner is not None else []
        found |= {f"{method} {route.path}" for method in getattr(route, "methods", None) or () if method != "HEAD"}
    return found


def send(client, route: str, **how):
    method, path = route.split(" ")
    path = path.replace("{id}", "j999").replace("{name}", "missing")
    if route == "GET /v1/events":
        path += "?after=-1"  # refused at once where the role suffices: the stream itself would not end
    return client.request(method, path, json=BODIES.get(route), **how)


def test_every_route_has_its_role_written_down_here(one):
    """A route that nobody thought about fails here before it is open to anybody."""
    assert routes(one.app) == set(ROUTES)


@pytest.mark.parametrize("route", [r for r, role in ROUTES.items() if role != NOBODY])
def test_without_a_token_or_with_a_wrong_one_nobody_gets_in(one, route):
    for headers in ({}, {"Authorization": "Bearer eq_" + "a" * 43}, {"Authorization": "Basic YTpi"}):
        client = one.client()
        answer = send(client, route, headers=headers)
        assert answer.status_code == 401 and list(answer.json()) == ["error"]
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("name", ["eye", "sub", "root", "ann-eye", "ann"])
def test_a_role_may_do_what_it_says_and_no_more(one, name):
    """403 exactly where the route asks for more; where the role suffices the answer is anything but 401 and 403."""
    role = TOKENS[name][0]
    client = one.client(name)
    for route, least in ROUTES.items():
        if least == NOBODY:
            continue
        answer = send(client, route)
        if ORDER.index(role) < ORDER.index(least):
            assert answer.status_code == 403, route
            assert least in answer.json()["error"] and "\n" not in answer.json()["error"]
        elif route in WHOLE and TOKENS[name][1]:
            assert answer.status_code == 403 and "tenant" in answer.json()["error"]
        else:
            assert answer.status_code not in (401, 403) and answer.status_code < 500, (route, answer.text)


# Two tenants.


@pytest.fixture(scope="module")
def tenants(tmp_path_factory):
    """Jobs of anna (j1, j2), ben (j3) and nobody (j4), all promised; anna's second one runs two slots."""
    with live(tmp_path_factory.mktemp("tenants"), tokens=TOKENS) as running:
        for name, job in (("ann", "a1"), ("ann", "a2"), ("ben", "b1"), ("sub", "n1")):
            client = running.client(name)
            answer = client.post("/v1/jobs", json=JOB | {"name": job, "tags": {"secret": job}})
            assert answer.status_code == 201 and answer.json()["state"] == "admitted"
        yield running


@pytest.mark.parametrize("id", ["j3", "j4"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/jobs/{id}", None),
        ("GET", "/v1/jobs/{id}/explain", None),
        ("GET", "/v1/jobs/{id}/history", None),
        ("DELETE", "/v1/jobs/{id}", None),
        ("POST", "/v1/jobs/{id}/finish", None),
        ("POST", "/v1/jobs/{id}/progress", {"fraction": 0.5}),
    ],
)
def test_a_tenant_cannot_reach_a_job_of_others(tenants, id, method, path, body):
    """The answer is the same as for a job that is not there, and nothing happened to it."""
    client = tenants.client("ann")
    answer = client.request(method, path.format(id=id), json=body)
    missing = client.request(method, path.format(id="j999"), json=body)
    assert answer.status_code == missing.status_code == 404
    assert answer.json()["error"].replace(id, "j999") == missing.json()["error"]
    client = tenants.client("root")
    seen = client.get(f"/v1/jobs/{id}").json()
    assert (seen["state"], seen["done"], seen["seq"]) == ("admitted", 0.0, {"j3": 7, "j4": 9}[id])


def test_lists_and_counts_are_a_tenants_own(tenants):
    client = tenants.client("ann-eye")
    assert [job["name"] for job in client.get("/v1/jobs").json()["jobs"]] == ["a2", "a1"]
    assert client.get("/v1/jobs?tenant=ben").json() == {"jobs": [], "next": None}
    assert client.get("/v1/jobs?tenant=").json() == {"jobs": [], "next": None}
    assert client.get("/v1/jobs?name=b1").json()["jobs"] == []
    assert client.get("/v1/status").json()["jobs"] == {"admitted": 2}
    for name in ("eye", "ann-root"):
        client = tenants.client(name)
        assert len(client.get("/v1/jobs").json()["jobs"]) == 4
        assert client.get("/v1/status").json()["jobs"] == {"admitted": 4}


def test_the_schedule_shows_others_only_as_occupancy(tenants):
    """Each job holds 2 of 4 GPUs for two slots: of the two boxes anna sees her own half and that the rest is taken."""
    client = tenants.client("ann")
    seen = client.get("/v1/schedule").json()
    assert {bar["job"] for bar in seen["bars"]} == {"j1", "j2"}
    assert seen["others"] and all(set(other) == {"machine", "first", "last", "share"} for other in seen["others"])
    held = sum(other["share"] * (other["last"] - other["first"] + 1) for other in seen["others"])
    assert held == pytest.approx(2.0)  # j3 and j4: half a box for two slots each
    assert seen["utilisation"]["gpu"][0] == pytest.approx(1.0)
    client = tenants.client("root")
    whole = client.get("/v1/schedule").json()
    assert {bar["job"] for bar in whole["bars"]} == {"j1", "j2", "j3", "j4"} and whole["others"] == []


def test_the_certificate_tells_a_tenant_what_was_checked_and_not_over_how_much(tenants):
    """The same checks with the same outcome; "4 given" and "16 cells" are for those who see all tenants."""
    seen, whole = (tenants.client(name).get("/v1/certificate").json() for name in ("ann", "root"))
    assert [c | {"meaning": ""} for c in seen["checks"]] == [c | {"meaning": ""} for c in whole["checks"]]
    for mine, theirs in zip(seen["checks"], whole["checks"], strict=True):
        assert theirs["meaning"].startswith(mine["meaning"].removesuffix("."))
        if mine["name"] in ("capacity", "ratio", "arrival", "outages", "promise", "room", "work", "locality"):
            assert ";" not in mine["meaning"] and mine["meaning"] != theirs["meaning"]


def test_the_log_leaves_out_what_happened_to_others(tenants):
    client = tenants.client("ann")
    log = client.get("/v1/log?limit=1000").json()["events"]
    assert {event["job"] for event in log} == {"", "j1", "j2"}
    assert {event["tenant"] for event in log} == {"", "anna"}


READS = [r.split(" ")[1] for r in ROUTES if r.startswith("GET") and "{" not in r]


@pytest.mark.parametrize("path", sorted({*READS} - {"/", "/v1/events"}))  # test_api reads the stream, and ends it
def test_no_read_of_a_tenant_names_a_job_of_others(tenants, path):
    """Names, ids and tags of ben's and nobody's jobs stand in no answer that anna gets."""
    assert not re.search(r"\bj[34]\b|\bb1\b|\bn1\b|\bben\b", tenants.client("ann").get(path).text)


def test_a_tenant_submits_for_itself_only(tenants):
    client = tenants.client("ann")
    answer = client.post("/v1/jobs?dry_run=true&tenant=ben", json=JOB)
    assert answer.status_code == 403 and "anna" in answer.json()["error"]
    assert client.post("/v1/jobs?dry_run=true&tenant=", json=JOB).status_code == 422  # no name of a tenant
    assert client.post("/v1/jobs?dry_run=true&tenant=anna", json=JOB).json()["tenant"] == "anna"
    client = tenants.client("sub")
    assert client.post("/v1/jobs?dry_run=true&tenant=ben", json=JOB).json()["tenant"] == "ben"


def test_the_same_key_of_two_tenants_is_two_keys(tenants):
    """An idempotency key is a tenant's own: nobody is answered with another tenant's job."""
    seen = {}
    for name in ("ann", "ben"):
        client = tenants.client(name)
        big = JOB | {"name": f"big of {name}", "duration": "30h"}
        answer = client.post("/v1/jobs", json=big, headers={"Idempotency-Key": "mine"})
        seen[name] = answer.json()["tenant"]
    assert seen == {"ann": "anna", "ben": "ben"}


def test_a_quota_binds_its_tenant_alone(tenants):
    """anna may have 2 unfinished jobs: the next is refused, ben's is not."""
    tenants.quota("anna", jobs=2)
    bodies = {}
    for name in ("ann", "ben"):
        client = tenants.client(name)
        bodies[name] = client.post("/v1/jobs?dry_run=true", json=JOB).json()
    assert (bodies["ann"]["state"], bodies["ann"]["reason"]) == ("refused", "over_jobs")
    assert bodies["ben"]["reason"] != "over_jobs"
