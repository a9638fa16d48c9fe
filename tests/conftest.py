"""What all tests share: real data, one BLAS thread, no time limits on properties, and markers of what tests need."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
from fnmatch import fnmatch
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


# What tests need beside Python packages of `dev`, by marker: how it is found, and how it is installed.
NEEDS = {
    "browser": (
        lambda: _program("chromium", "chromium-browser", "google-chrome"),
        "Chromium: apt-get install chromium",
    ),
    "postgres": (
        lambda: _program("initdb") or any(Path("/usr/lib/postgresql").glob("*/bin/initdb")),
        "PostgreSQL: apt-get install postgresql",
    ),
    "ray": (lambda: importlib.util.find_spec("ray") is not None, "Ray: pip install 'equipoise[ray]'"),
    "torch": (lambda: importlib.util.find_spec("torch") is not None, "torch: pip install 'equipoise[torch]'"),
}
FIXTURES = {"browser": "browser", "postgres": "postgres", "postgres_url": "postgres", "two_nodes": "ray"}
# Files, folders and tests that belong to a marker, by pattern; `make check` runs what has none. "slow" by measured time:
# with its files left out the rest takes under three minutes on two cores.
MARKED = {
    "browser": ("*_in_browser.py", "serve/test_page.py", "test_site.py"),
    "ray": (
        "engine/test_workers_ray.py",
        "engine/test_ray_cluster.py",
        "engine/test_spread.py",
        "cli/test_spread_cli.py",
    ),
    "torch": ("train/test_torch_model.py", "train/test_deep.py"),
    "postgres": ("serve/test_store_postgres.py",),
    "slow": (
        "claims/*",
        "engine/*",
        "cli/test_cli_*.py",
        "cli/test_client_cli.py",
        "cli/test_columns.py",
        "cli/test_doctor_cli.py",
        "cli/test_interrupt.py",
        "cli/test_place_cli.py",
        "cli/test_prices_cli.py",
        "cli/test_report_cli.py",
        "cli/test_share*_cli.py",
        "cli/test_train_hostile_cli.py",
        "place/test_ray_groups.py",
        "serve/test_api.py::test_a_process_stopped_and_started_again*",
        "serve/test_certify.py::test_a_day_of_many_clients_verifies*",
        "serve/test_client.py",
        "serve/test_kill.py",
        "serve/test_operate.py",
        "serve/test_schema.py",
        "serve/test_store.py::test_what_is_read_back_is_what_a_plain_python_model_holds",
        "serve/test_store_recovery.py",
        "test_bench.py",
        "test_docs.py",
        "test_docs_commands.py",
        "test_examples.py",
        "test_kernels.py",
        "test_readme.py",
        "test_recorded.py",
        "test_run_folders.py",
        "train/test_baselines.py",
        "train/test_fault_schedules.py",
        "train/test_method_comparison.py",
        "train/test_trade.py::test_the_budget_holds_to_the_last_bit_in_200_000_rounds",
    ),
}


def _program(*names: str) -> bool:
    return any(shutil.which(name) for name in names)


@functools.cache
def _missing(need: str) -> str:
    """What is not installed for tests of this marker; empty if all is there."""
    found, install = NEEDS[need]
    return "" if found() else install


def pytest_configure(config: pytest.Config) -> None:
    for name in (*NEEDS, "slow"):
        config.addinivalue_line("markers", f"{name}: by the table in tests/conftest.py; `make check` leaves it out")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Markers by file and by fixture."""
    home = Path(__file__).parent
    for item in items:
        file = item.path.relative_to(home).as_posix()
        test = f"{file}::{item.name}"
        marks = {
            mark
            for mark, patterns in MARKED.items()
            if any(fnmatch(test if "::" in pattern else file, pattern) for pattern in patterns)
        }
        marks |= {FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES}
        for mark in marks:
            item.add_marker(mark)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Where a program is missing its tests are skipped; in CI, which installs all of them, they fail."""
    for need in NEEDS:
        if item.get_closest_marker(need) and (install := _missing(need)):
            if os.environ.get("CI"):
                pytest.fail(f"CI must not skip tests of {install}", pytrace=False)
            pytest.skip(f"not installed here: {install}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for need in NEEDS:
        if install := _missing(need):
            terminalreporter.write_line(f"tests of {need} were left out; to run them install {install}")
