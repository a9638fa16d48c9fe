"""Blocks of a page as Markdown, for the documentation. Figures are left out."""

from collections.abc import Iterable

from equipoise.present.values import Block, Bullets, Cell, Chapter, Section, Table, Text, cell_text


def markdown(blocks: Iterable[Block]) -> str:
    """The words and tables of these blocks."""
    return "\n".join(text for block in blocks if (text := _block(block)))


def _block(block: Block) -> str:
    if isinstance(block, Chapter):
        return f"## {block.title}\n" + (f"\n{plain(block.words)}\n" if block.words else "")
    if isinstance(block, Section):
        mark = f"**{plain(block.mark)}**\n\n" if block.mark else ""
        return f"### {block.title}\n\n{mark}{markdown(block.blocks)}"
    if isinstance(block, Text):
        strong = f"**{plain(block.strong)}** " if block.strong else ""
        return f"{strong}{plain(block.words)}\n"
    if isinstance(block, Table):
        return table(block)
    if isinstance(block, Bullets):
        return "".join(f"- {plain(item)}\n" for item in block.items)
    return ""


def table(value: Table) -> str:
    """Its columns and rows, and the note below."""
    rules = ["---:" if column.justify == "right" else "---" for column in value.columns]
    lines = [_line(_escaped(column.name) for column in value.columns), f"|{'|'.join(rules)}|"]
    lines += [_line(_cell(cell) for cell in row) for row in value.rows]
    return "\n".join(lines) + "\n" + (f"\n{plain(value.note)}\n" if value.note else "")


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: str | Cell) -> str:
    text = _escaped(cell_text(cell, "; "))
    return f"[{text}]({cell.link})" if isinstance(cell, Cell) and cell.link else text


def _escaped(words: str) -> str:
    return plain(words).replace("|", "\\|")


def plain(words: str) -> str:
    """Text that Markdown leaves as it is."""
    for sign in "\\*_<[$":
        words = words.replace(sign, f"\\{sign}")
    return words
