"""A browser for the tests that open pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pages import CHROMIUM, FLAGS


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser test")
    with playwright.sync_playwright() as engine:
        running = engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()
