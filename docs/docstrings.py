"""Docstrings as Markdown: `name   what it is`, aligned as our docstrings have it, becomes a list."""

from __future__ import annotations

import re
from typing import Any

import griffe

ENTRY = re.compile(r"(\w+(?:, \w+)*) {2,}(\S.*)")


def as_markdown(text: str) -> str:
    """The same words, with a list where the lines of a paragraph are `name   meaning`."""
    return "\n\n".join(listed(paragraph) for paragraph in text.split("\n\n"))


def listed(paragraph: str) -> str:
    lines = paragraph.strip("\n").split("\n")
    if not ENTRY.fullmatch(lines[0].rstrip()):
        return paragraph
    shown = []
    for line in lines:
        entry = ENTRY.fullmatch(line.rstrip())
        shown.append(f"- **{entry[1]}**: {entry[2]}" if entry else f"    {line.strip()}")
    return "\n".join(shown)


class AlignedLists(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
