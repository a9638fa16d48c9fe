"""What a user can get wrong: one line that names the value, what was expected, and the way out."""

import difflib
import math
import numbers
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """Bad input. The message is one line for the user; the command line prints it and exits with 2.

    Parameters
    ----------
    message
        The value, why it cannot work, the way out.
    code
        For programs and tests, which never look at the message: "subject.problem" in lower case, such as "budget.range"
        or "file.read", and the same for every check of the same mistake. "unknown" is a name nobody knows, "input" what
        has no code of its own.
    about
        Whom it is about, such as "Task": stands before the message. `what` is the message without it.
    """

    def __init__(self, message: str, *, code: str = "input", about: str = "") -> None:
        super().__init__(f"{about}: {message}" if about else message)
        self.code, self.about, self.what = code, about, message


class Failure(Exception):
    """Something outside failed and may be back later. The message is one line; the command line exits with 1."""


def unknown_name(kind: str, given: str, known: Iterable[str]) -> InputError:
    """An error for a name nobody knows, with the nearest right one."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return InputError(f"unknown {kind} {given!r}{hint} (known: {', '.join(names)})", code="unknown")


def refuse_if(wrong: object, why: str, *, code: str = "input", about: str = "") -> None:
    """One line for what is wrong."""
    if wrong:
        raise InputError(why, code=code, about=about)


def refuse_words(kind: str, **values: object) -> None:
    """One line for a setting that is not a number at all."""
    for name, value in values.items():
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise InputError(f"{name} is {value!r}; expected a number", code="number.form", about=kind)


def refuse_negative(kind: str, *, zero: bool = True, finite: bool = True, **values: float) -> None:
    """One line for a setting that is no number, below zero, at zero unless `zero`, or infinite if it must be `finite`."""
    refuse_words(kind, **values)
    for name, value in values.items():
        if math.isnan(value) or (finite and math.isinf(value)) or value < 0 or (value == 0 and not zero):
            wanted = "a number of zero or more" if zero else "a positive number"
            raise InputError(f"{name} is {value!r}; expected {wanted}", code="number.range", about=kind)


def whole_number(
    value: object, what: str, least: int = 1, most: float = math.inf, *, code: str = "number.whole"
) -> int:
    """The value as an int, or one line if it is no whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not least <= int(value) <= most:
        wanted = f"of {least} or more" if most == math.inf else f"from {least} to {most:,}"
        raise InputError(f"{what} is {value!r}; expected a whole number {wanted}", code=code)
    return int(value)


def refuse_unknown(kind: str, values: Iterable[str], known: Iterable[str]) -> None:
    """Raise for the first name that nobody knows."""
    for name in values:
        if name not in known:
            raise unknown_name(kind, name, known)


@contextmanager
def said_of(who: str) -> Iterator[None]:
    """Errors from inside say whom they are about, if `who` is anybody."""
    try:
        yield
    except InputError as error:
        raise InputError(str(error), code=error.code, about=who) from None
