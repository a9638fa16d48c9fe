"""To and from pandas frames. pandas is loaded when a frame is asked for, and only then."""

from collections.abc import Iterable, Mapping
from typing import Any

from equipoise.document import Row, plain
from equipoise.errors import InputError

Frame = Any  # a pandas.DataFrame; pandas is an extra


def frame_of(rows: Iterable[Mapping[str, Any]], **attrs: Any) -> Frame:
    """Rows as a frame, a column per name; what holds for all of them goes to `frame.attrs`."""
    try:
        import pandas
    except ImportError:
        raise InputError(
            "a frame needs pandas, which is not installed: pip install 'equipoise[pandas]'", code="library.missing"
        ) from None
    frame = pandas.DataFrame(list(rows))
    frame.attrs |= attrs
    return frame


def rows_of(frame: Frame, what: str) -> list[Row]:
    """Plain values row by row; an empty cell (None, nan, NaT, NA) is left out."""
    if not (hasattr(frame, "to_dict") and hasattr(frame, "columns")):
        raise InputError(f"{what} is {type(frame).__name__}; expected a pandas DataFrame", code="frame.type")
    twice = [str(name) for name in frame.columns[frame.columns.duplicated()]]
    if twice:
        raise InputError(f"{what}: two columns are called {twice[0]!r}; rename one")
    return [
        {str(name): plain(value) for name, value in row.items() if not _empty(value)}
        for row in frame.to_dict(orient="records")
    ]


def need_columns(frame: Frame, names: Iterable[str], what: str) -> None:
    """Refuse a frame that lacks a column, naming those it has."""
    known = [str(name) for name in frame.columns]
    for name in names:
        if name not in known:
            raise InputError(
                f"{what}: no column {name!r}; the frame has {', '.join(known) or 'none'}", code="frame.column"
            )


def _empty(value: Any) -> bool:
    """Whether pandas would call it missing; a list in a cell is not."""
    if value is None:
        return True
    try:
        return bool(value != value)  # nan and NaT differ from themselves
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"
