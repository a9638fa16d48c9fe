"""Values of a page in the terminal, by rich. A table fits the width without cutting a number: columns drop instead."""

import textwrap
from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text as RichText

from equipoise.certificate import Certificate
from equipoise.present.figures import Figure
from equipoise.present.text import number
from equipoise.present.values import Block, Bullets, Cell, KeyNumbers, Section, Table, Text, cell_text

GAP = 2  # between columns
MOST_LINES = 5  # of a head
FOLDED = 30  # width that words in a column which may wrap keep at least
COLOURS = {"good": "green", "bad": "red", "warn": "yellow", "blue": "blue", "soft": "dim"}
MARKS = {None: "[yellow]not made[/]", True: "[green]passed[/]", False: "[bold red]FAILED[/]"}


def show(console: Console, *values: Block | Certificate) -> None:
    """Print these values one below the other."""
    for value in values:
        if not isinstance(value, Figure):
            console.print(drawn(value, console.width))


def drawn(value: Block | Certificate, width: int) -> RenderableType:
    """A value for a terminal of so many columns."""
    if isinstance(value, Table):
        return table(value, width)
    if isinstance(value, KeyNumbers):
        return key_numbers({item.name: ", ".join(filter(None, (item.value, item.note))) for item in value.numbers})
    if isinstance(value, Certificate):
        return certificate_table(value)
    if isinstance(value, Bullets):
        return RichText("\n".join(value.items))
    if isinstance(value, Section):
        mark = RichText(f": {value.mark}" if value.mark else "", style=COLOURS.get(value.tone, ""))
        inner = [drawn(block, width) for block in value.blocks if not isinstance(block, Figure)]
        return Group(RichText(), RichText.assemble((value.title, "bold"), mark), *inner)
    if not isinstance(value, Text):
        raise TypeError(f"{type(value).__name__} has no form in the terminal")
    style = "bold red" if value.banner else "dim" if value.soft else ""
    return RichText(" ".join(filter(None, (value.strong, value.words))), style=style)


def table(value: Table, width: int) -> Group:
    """A title, the columns that fit, and a note. Those with the largest `drop` leave first; then others stand below, and
    only then names are broken."""
    kept = list(range(len(value.columns))) if value.split else _kept(value, width)
    shown = _split(value, kept, width) if kept else [kept]
    gone = [column.name for k, column in enumerate(value.columns) if not any(k in kept for kept in shown)]
    notes = [value.note, f"a wider terminal also shows {', '.join(gone)}" if gone else ""]
    title = [RichText(), RichText(value.title, style="bold")] if value.title else []
    below = [RichText(note, style="dim") for note in notes if note]
    parts: list[RenderableType] = []
    for kept in shown:
        parts += [*title, _columns(value, kept, width)]
    return Group(*parts, *below)


def _columns(value: Table, kept: Sequence[int], width: int) -> RichTable:
    made = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    tight = _needs(value, kept) > width
    heads = _heads(value, kept, width)
    for k in kept:
        column = value.columns[k]
        loose = column.wrap or (k == 0 and tight)
        head = textwrap.fill(column.name, heads[k])
        made.add_column(head, justify=column.justify, no_wrap=not loose, overflow="fold")
    for n, row in enumerate(value.rows):
        if n in value.sections:
            made.add_section()
        made.add_row(*(_cell(row[k]) for k in kept if k < len(row)))
    return made


def fits(value: Table, width: int) -> bool:
    """Whether all columns fit beside each other."""
    return _needs(value, range(len(value.columns))) <= width


def _needs(value: Table, columns: Sequence[int]) -> int:
    return sum(_width(value, k) for k in columns) + GAP * (len(columns) - 1)


def _heads(value: Table, kept: Sequence[int], width: int) -> dict[int, int]:
    """How wide each head is: the fewest lines for all of them that the terminal has room for."""
    needed = {k: max(_content(value, k), _longest_word(value, k), 1) for k in kept}
    for most in range(1, MOST_LINES):
        found = {k: max(needed[k], _narrowest(value.columns[k].name, most)) for k in kept}
        if sum(max(found[k], _width(value, k)) for k in kept) + GAP * (len(kept) - 1) <= width:
            return found
    return needed


def _narrowest(words: str, most: int) -> int:
    """The width at which these words need no more than so many lines."""
    return next(
        wide for wide in range(1, len(words) + 2) if len(textwrap.wrap(words, wide, break_long_words=False)) <= most
    )


def _kept(value: Table, width: int) -> list[int]:
    """Columns that fit beside each other."""
    kept = list(range(len(value.columns)))
    while _needs(value, kept) > width and any(value.columns[k].drop for k in kept):
        kept.remove(max(kept, key=lambda k: (value.columns[k].drop, k)))
    return kept


def _split(value: Table, columns: Sequence[int], width: int) -> list[list[int]]:
    """The columns of each table, as many as fit; the first column is in all of them."""
    found = [[columns[0]]]
    for k in columns[1:]:
        if len(found[-1]) > 1 and _needs(value, [*found[-1], k]) > width:
            found.append([columns[0]])
        found[-1].append(k)
    return found


def _width(value: Table, k: int) -> int:
    """What a column needs: its widest field, and no word of its head broken."""
    content = min(_content(value, k), FOLDED) if value.columns[k].wrap else _content(value, k)
    return max(content, _longest_word(value, k))


def _content(value: Table, k: int) -> int:
    return max(
        (len(line) for row in value.rows for cell in row[k : k + 1] for line in cell_text(cell).splitlines()), default=0
    )


def _longest_word(value: Table, k: int) -> int:
    return max(map(len, value.columns[k].name.split()), default=0)


def _cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return escape(cell)
    style = "bold green" if cell.best else "dim" if cell.faint else COLOURS.get(cell.tone, "")
    return f"[{style}]{escape(cell_text(cell))}[/]" if style else escape(cell_text(cell))


def certificate_table(certificate: Certificate) -> RichTable:
    """Every check with its value, limit and meaning; failures in red and by name."""
    colour = "bold green" if certificate.passed else "bold red"
    title = f"certificate: {'passed' if certificate.passed else 'FAILED'}"
    made = RichTable(title=title, title_style=colour, title_justify="left")
    made.add_column("check", no_wrap=True)
    for name in ("value", "limit"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("", no_wrap=True)
    made.add_column("meaning")
    for check in certificate:
        made.add_row(check.name, number(check.value, 3), number(check.limit, 3), MARKS[check.passed], check.meaning)
    return made


def key_numbers(numbers: dict[str, str]) -> RichTable:
    """Two columns: what, and how much."""
    made = RichTable.grid(padding=(0, 2))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in numbers.items():
        made.add_row(f"[dim]{name}[/]", value)
    return made
