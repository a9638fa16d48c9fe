"""The OpenAPI document is true: whatever it allows is answered with a status and a body that it names, and never with 5xx."""

from __future__ import annotations

import logging

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from live import live
from schemathesis import GenerationMode

EXAMPLES = 12  # for every route
# A stream does not end, so there is no whole answer to compare with the document; test_api reads the stream itself.
ENDLESS = ("/v1/events",)

logging.getLogger("schemathesis").setLevel(logging.WARNING)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    with live(tmp_path_factory.mktemp("schema"), horizon=12) as running:
        yield running


@pytest.fixture(scope="module")
def document(one):
    schema = schemathesis.openapi.from_asgi("/openapi.json", one.app, headers={"Host": "127.0.0.1"})
    return schema.exclude(path=list(ENDLESS))


schema = schemathesis.pytest.from_fixture("document")


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate))
def test_every_route_answers_as_documented(case):
    """All of schemathesis' own checks, positive and negative examples."""
    case.call_and_validate(headers={"Host": "127.0.0.1"})
