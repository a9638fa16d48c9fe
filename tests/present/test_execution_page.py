"""The page of tasks on the real clock: from plain values alone, also those that 0.1.0 wrote."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import yaml
from rich.console import Console

import equipoise
from equipoise.engine.real_clock import ExecuteSpec
from equipoise.present import execution, report
from equipoise.present.figures import Figure
from equipoise.present.terminal import show
from equipoise.present.values import Table

RECORDED = Path(__file__).parents[1] / "recorded" / "0.1.0" / "share-execute"


@pytest.fixture
def document():
    return equipoise.load(RECORDED)


def test_a_result_of_the_first_version_has_its_page(document):
    """What it lacks, the site step by step, is left out; all else is there."""
    page = execution.page(document)
    keys = [block.name for block in page.blocks if isinstance(block, Figure | Table)]
    assert keys == ["beside", "success", "energy", "completions", "cpu", "ends"]
    assert "certificate" in page.title and page.title in report(document)


def test_dots_are_the_tasks_that_both_finished(document):
    """Counted from the rows, policy by policy."""
    figure = next(block for block in execution.page(document).blocks if getattr(block, "key", "") == "completions")
    for series in figure.series[:-1]:
        mine = [row for row in document.rows("tasks") if row["policy"] == series.look.key]
        both = [row for row in mine if row["done_simulated"] is not None and row["done_executed"] is not None]
        assert len(series.x) == len(both)
        assert list(series.y) == [round(row["finished"], 3) for row in both]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_fits_its_terminal_and_cuts_no_number(document, width):
    """Columns leave by priority; the success of both stays, whole."""
    console = Console(width=width, record=True, file=StringIO())
    show(console, execution.table(document))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width and "…" not in text
    for row in document.rows("rows"):
        assert f"{row['success_simulated']:.1f}" in text and f"{row['success_executed']:.1f}" in text


def test_a_task_that_failed_is_named_with_its_last_line(document):
    """In the warnings of the terminal, and with all its lines on the page."""
    tasks = [dict(row) for row in document.rows("tasks")]
    tasks[0] |= {"fault": "Traceback\nValueError: the table has no rows", "fault_step": 7}
    broken = replace(document, result=document.result | {"tasks": tasks})
    (line,) = [line for line in execution.warnings(broken) if "failed" in line]
    assert line.endswith("failed: ValueError: the table has no rows") and "step 7: task 0" in line
    assert "Tasks that failed by themselves" in report(broken)


def test_settings_of_the_first_version_are_read():
    """Its file states no version, so that Uniform is what it was; the costs of units repeat its targets."""
    with pytest.warns(UserWarning, match="Uniform is read as DescribedUniform"):
        spec = ExecuteSpec.from_yaml(RECORDED / "config.yaml")
    written = yaml.safe_load((RECORDED / "config.yaml").read_text())
    names = ["DescribedUniform" if name == "Uniform" else name for name in written["policies"]]
    assert spec.plain() == written | {"policies": names}
    assert spec.units is not None and spec.build().scene.step == spec.step
