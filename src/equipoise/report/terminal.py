"""Tables for the terminal."""

from __future__ import annotations

from rich.table import Table

from equipoise.certificate import Certificate, Check


def certificate_table(certificate: Certificate) -> Table:
    """Every check with its value, limit and meaning; failures in red and by name."""
    title = "certificate: passed" if certificate.passed else "certificate: FAILED"
    table = Table(title=title, title_style="bold green" if certificate.passed else "bold red", title_justify="left")
    for column, justify in (
        ("check", "left"),
        ("value", "right"),
        ("limit", "right"),
        ("", "left"),
        ("meaning", "left"),
    ):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for check in certificate:
        table.add_row(check.name, number(check.value), number(check.limit), _mark(check), check.meaning)
    return table


def _mark(check: Check) -> str:
    if check.passed is None:
        return "[yellow]not made[/]"
    return "[green]passed[/]" if check.passed else "[bold red]FAILED[/]"


def number(value: float | None) -> str:
    """Short and readable; whole numbers stay whole."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.3g}"


def key_numbers(numbers: dict[str, str]) -> Table:
    """Two columns: what, and how much."""
    table = Table.grid(padding=(0, 2))
    for name, value in numbers.items():
        table.add_row(f"[dim]{name}[/]", value)
    return table
