"""The tables of share fit a terminal of 80 columns, and no number in them is cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from rich.console import Console

from equipoise.document import Document
from equipoise.present.share import comparison_tables
from equipoise.present.terminal import show
from equipoise.present.values import Table
from equipoise.share import policies, sweep

WIDTH = 80


@pytest.fixture(scope="module")
def document() -> Document:
    """Fifteen policies and their long names at nine loads."""
    players = [
        *(policy() for policy in policies.ALL),
        policies.clairvoyant(policies.named("DescribedUARALARA:corrected")),
    ]
    return sweep(players, loads=[*range(2, 10), 60], seeds=2, oracle=1).document(certify=False)


def shown(tables: Sequence[Table]) -> list[str]:
    console = Console(width=WIDTH, color_system=None)
    with console.capture() as capture:
        show(console, *tables)
    return capture.get().splitlines()


def test_a_comparison_fits_and_cuts_no_number(document: Document) -> None:
    """Every load is there, over several tables; success and energy of every policy stand whole."""
    tables = list(comparison_tables(document, WIDTH))
    lines = shown(tables)
    assert max(map(len, lines)) <= WIDTH and not any("…" in line for line in lines)
    heads = [column.name for table in tables for column in table.columns]
    assert {f"{load} tasks" for load in (*range(2, 10), 60)} <= set(heads)
    text = "\n".join(lines)
    for row in document.rows("rows"):
        assert f"{row['success']:.1f}" in text
        assert row["load"] != 60 or f"{row['energy']:,.0f}" in text
