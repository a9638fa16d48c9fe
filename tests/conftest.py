"""What all tests share: where real data lies, and no time limits on properties (the machine may be busy)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("equipoise", deadline=None)
settings.load_profile("equipoise")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data: EQUIPOISE_DATA, or ../shared/data beside the repository; the test skips without it."""
    folder = Path(os.environ.get("EQUIPOISE_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(
            f"no real data: {folder} is not a folder; set EQUIPOISE_DATA to the one that holds mnist/ and traces/"
        )
    return folder
