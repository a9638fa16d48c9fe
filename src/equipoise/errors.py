"""What a user can get wrong: one line that names the value, what was expected, and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input. The message is one line for the user; the command line prints it and exits with 2."""


def unknown_name(kind: str, given: str, known: Iterable[str]) -> InputError:
    """An error for a name nobody knows, with the nearest right one."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return InputError(f"unknown {kind} {given!r}{hint} (known: {', '.join(names)})")
