"""The OpenAPI document is true: whatever is sent is answered with a status and a body that it names, and never with 5xx."""

from __future__ import annotations

import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from live import JOB, live
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

EXAMPLES = int(os.environ.get("EQUIPOISE_SCHEMA_EXAMPLES", "10"))  # of every route, in and against the document each
# A stream does not end, so there is no whole answer to compare with the document; test_api reads the stream itself.
ENDLESS = ("/v1/events",)
# Quantities ("16Gi"), names of resources and what goes together are more than JSON Schema says: 422 is documented for them.
LEFT_OUT = [positive_data_acceptance]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A service with a few jobs, so that ids and names meet something."""
    with live(tmp_path_factory.mktemp("schema"), tokens={"root": ("admin", "")}) as running:
        client = running.client("root")
        for k in range(6):
            assert client.post("/v1/jobs", json=JOB | {"workers": 1 + k, "name": f"job {k}"}).status_code == 201
        yield running


def without_tuples(node: Any) -> Any:
    """prefixItems as anyOf: the version of schemathesis in use turns tuples into what JSON Schema does not know."""
    if isinstance(node, list):
        return [without_tuples(one) for one in node]
    if not isinstance(node, dict):
        return node
    node = {name: without_tuples(value) for name, value in node.items()}
    if "prefixItems" in node:
        node["items"] = {"anyOf": node.pop("prefixItems")}
    return node


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value)
def test_every_route_answers_as_documented(one, mode):
    """Schemathesis' own checks on every route: no 5xx, no status, header or body that the document does not name."""
    headers = {"Host": "127.0.0.1", "Authorization": f"Bearer {one.secrets['root']}"}
    client = one.client("root")
    document = schemathesis.openapi.from_dict(without_tuples(client.get("/openapi.json").json()))
    document.app, document.location = one.app, "/openapi.json"
    document.config.generation.with_security_parameters = False  # the token is ours; test_roles has wrong ones
    wrong, tried = [], 0
    for found in document.get_all_operations():
        operation = found.ok()
        if operation.path in ENDLESS:
            continue
        tried += 1
        try:
            _ask(operation, mode, headers)
        except Unsatisfiable:
            continue  # a route without parameters and body has nothing to get wrong
        except BaseExceptionGroup as group:
            wrong += [f"{operation.label}: {problem}" for problem in group.exceptions]
        except Exception as problem:
            wrong.append(f"{operation.label}: {problem}")
    assert tried > 25
    assert not wrong, "\n\n".join(wrong)


def _ask(operation: Any, mode: GenerationMode, headers: dict[str, str]) -> None:
    @seed(7)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def asked(case: Any) -> None:
        case.call_and_validate(headers=headers, excluded_checks=LEFT_OUT)

    asked()
