"""What all tests share: where real data lies, one BLAS thread, and no time limits on properties (machines are busy)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Tests run side by side, one worker per core: BLAS threads beyond that wait in loops, and cost more than the products.
# Set before NumPy is loaded, and inherited by every process that a test starts.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

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
