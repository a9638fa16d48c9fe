"""Figures for papers, made by matplotlib from plain results (`Document`): one file a verb, one style for all.

Nothing here touches pyplot or matplotlib's settings: a figure is an object that can be changed, shown and saved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import equipoise.plots.train as train
from equipoise import present
from equipoise.document import Document
from equipoise.errors import InputError
from equipoise.plots.plain import Plain
from equipoise.present.paper import PaperFigure

__all__ = ["PaperFigure", "draw"]

DRAWERS: dict[str, Callable[..., PaperFigure]] = {"train": train.run, "train compare": train.comparison}


def draw(saved: Plain, *, width: str = "column", **choices: Any) -> PaperFigure:
    """The figure of a result. `width` is "column" (3.5 inches), "page" (7.16) or a number of inches."""
    if saved.verb in present.SHEETS:
        return present.draw(cast(Document, saved), width=width, **choices)
    drawer = DRAWERS.get(saved.verb)
    if drawer is None:
        what = f"a result of {saved.verb!r}" if saved.verb else "a bare CSV table"
        raise InputError(
            f"no figure is known for {what}; there are figures for {', '.join([*DRAWERS, *present.SHEETS])}"
        )
    try:
        return drawer(saved, width=width, **choices)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise InputError(f"plot of {saved.verb!r}: {str(error).partition('() ')[2]}; see docs/interop.md") from None
