"""The OpenAPI document is true: whatever it allows is answered with a status and a body that it names, and never with 5xx."""

from __future__ import annotations

import os

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from live import JOB, live
from schemathesis import GenerationMode

EXAMPLES = int(os.environ.get("EQUIPOISE_SCHEMA_EXAMPLES", "6"))  # of every route, in and against the document each
# A stream does not end, so there is no whole answer to compare with the document; test_api reads the stream itself.
ENDLESS = ("/v1/events",)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A service with a few jobs, so that ids and names meet something."""
    with live(tmp_path_factory.mktemp("schema"), tokens={"root": ("admin", "")}) as running:
        with running.client("root") as client:
            for k in range(6):
                assert client.post("/v1/jobs", json=JOB | {"workers": 1 + k, "name": f"job {k}"}).status_code == 201
        yield running


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value)
def test_every_route_answers_as_documented(one, mode):
    """All of schemathesis' own checks on every route: no 5xx, no status, header or body that the document does not name."""
    headers = {"Host": "127.0.0.1", "Authorization": f"Bearer {one.secrets['root']}"}
    document = schemathesis.openapi.from_asgi("/openapi.json", one.app, headers=headers)
    wrong, tried = [], 0
    for found in document.get_all_operations():
        operation = found.ok()
        if operation.path in ENDLESS:
            continue
        tried += 1
        try:
            _ask(operation, mode, headers)
        except BaseExceptionGroup as group:
            wrong += [f"{operation.label}: {problem}" for problem in group.exceptions]
        except Exception as problem:
            wrong.append(f"{operation.label}: {problem}")
    assert tried > 25
    assert not wrong, "\n\n".join(wrong)


def _ask(operation, mode, headers) -> None:
    strategy = operation.as_strategy(generation_mode=mode)
    if strategy.is_empty:
        return

    @seed(7)
    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate),
    )  # fmt: skip
    @given(case=strategy)
    def asked(case):
        case.call_and_validate(headers=headers)

    asked()
