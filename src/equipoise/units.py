"""Human quantities: "16Gi", "440MB", "4ms/sample", "10m", "25Gbps". Resources are held as whole milli-units."""

import math
import re
from fractions import Fraction

from equipoise.errors import InputError

MILLI = 1000
MOST = 2**60  # milli-units on one machine: what 64 bits count with room to add
LONGEST = 64  # characters of a quantity
LARGEST = 1e300  # bytes or seconds: far past any use, and still a float
NUMBER = re.compile(r"^\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*([^\d\s.+-]\D*?)?\s*$", re.ASCII)

DECIMAL = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5}
SIZES = {s: Fraction(10) ** p for s, p in DECIMAL.items()} | {s: Fraction(1024) ** p for s, p in BINARY.items()}
TIMES = {
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "sec": Fraction(1),
    "m": Fraction(60),
    "min": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
    "w": Fraction(7 * 86400),
}


class Demand(dict[str, int]):
    """Milli-units by resource: already read, so that it is not read again."""


def _split(value: object, what: str, example: str) -> tuple[Fraction, str]:
    """The number and its suffix."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InputError(f"{what} is {value!r}; expected a quantity such as {example}", code="quantity.form")
    if isinstance(value, int):
        return Fraction(value), ""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{what} is {value!r}; expected a finite quantity such as {example}", code="quantity.form")
        return Fraction(repr(value)), ""
    found = NUMBER.match(value) if len(value) <= LONGEST else None
    if found is None:
        raise InputError(f"{what} is {value!r}; expected a quantity such as {example}", code="quantity.form")
    return Fraction(found.group(1)), found.group(2) or ""


def resource(value: object, what: str = "resource") -> int:
    """Whole milli-units of a resource: 1.5 -> 1500, "500m" -> 500, "16Gi" -> 16 * 2**30 * 1000 (bytes in milli)."""
    number, suffix = _split(value, what, '4, "500m" or "16Gi"')
    suffix = suffix[:-1] if suffix.endswith("B") else suffix
    scale = Fraction(1, MILLI) if suffix == "m" else SIZES.get(suffix)
    if scale is None:
        raise InputError(
            f'{what} is {value!r}; the unit {suffix!r} is not known (use 4, "500m", "16Gi" or "440MB")',
            code="quantity.unit",
        )
    milli = number * scale * MILLI
    if milli < 0:
        raise InputError(f"{what} is {value!r}; expected zero or more", code="quantity.range")
    if milli > MOST:
        raise InputError(
            f"{what} is {value!r}; that is more than can be counted exactly ({MOST // MILLI:.3g} units)",
            code="quantity.range",
        )
    if milli and not round(milli):
        raise InputError(
            f'{what} is {value!r}; the least that is counted is a thousandth ("1m")', code="quantity.small"
        )
    return round(milli)


def size(value: object, what: str = "size") -> float:
    """Bytes: "440MB" -> 4.4e8, "1Gi" or "1GiB" -> 2**30."""
    number, suffix = _split(value, what, '"440MB"')
    suffix = suffix[:-1] if suffix.endswith("B") else suffix
    if suffix not in SIZES:
        raise InputError(
            f'{what} is {value!r}; the unit {suffix!r} is not known (use "440MB" or "1Gi")', code="quantity.unit"
        )
    return _positive(number * SIZES[suffix], value, what)


def seconds(value: object, what: str = "time") -> float:
    """Seconds: "10m" -> 600, "4ms" or "4ms/sample" -> 0.004, a bare number is seconds."""
    number, suffix = _split(value, what, '"10m"')
    suffix = suffix.removesuffix("/sample").strip() or "s"
    if suffix not in TIMES:
        raise InputError(
            f'{what} is {value!r}; the unit {suffix!r} is not known (use "4ms", "10m", "1h")', code="quantity.unit"
        )
    return _positive(number * TIMES[suffix], value, what)


def bandwidth(value: object, what: str = "bandwidth") -> float:
    """Bytes per second: "10Gbps" and "10Gbit/s" -> 1.25e9, "1.25GB/s" -> 1.25e9, a bare number is bytes per second."""
    number, suffix = _split(value, what, '"10Gbps"')
    for ending, per_byte in (("bps", 8), ("bit/s", 8), ("b/s", 8), ("B/s", 1), ("", 1)):
        if suffix.endswith(ending) and suffix.removesuffix(ending) in SIZES:
            return _positive(number * SIZES[suffix.removesuffix(ending)] / per_byte, value, what)
    raise InputError(
        f'{what} is {value!r}; the unit {suffix!r} is not known (use "10Gbps" or "1.25GB/s")', code="quantity.unit"
    )


def _positive(number: Fraction, value: object, what: str) -> float:
    if number < 0:
        raise InputError(f"{what} is {value!r}; expected zero or more", code="quantity.range")
    if number > LARGEST:
        raise InputError(f"{what} is {value!r}; expected at most {LARGEST:g}", code="quantity.range")
    return float(number)


def exact(milli: int) -> int | str:
    """Milli-units as they are written, and read back exactly: 4, "500m" or "16Gi"."""
    for suffix, power in (("Ti", 4), ("Gi", 3), ("Mi", 2)):
        if milli and milli % (1024**power * MILLI) == 0:
            return f"{milli // (1024**power * MILLI)}{suffix}"
    return f"{milli}m" if milli % MILLI else milli // MILLI


def show(milli: int) -> str:
    """Milli-units for people: 1500 -> "1.5", 17179869184000 -> "16Gi"."""
    units = milli / MILLI
    for suffix, power in (("Ti", 4), ("Gi", 3), ("Mi", 2)):
        if milli and milli % (1024**power * MILLI) == 0:
            return f"{milli // (1024**power * MILLI)}{suffix}"
    for suffix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if units >= scale:
            return f"{units / scale:g}{suffix}"
    return f"{units:g}"


def count(amount: int, one: str, many: str | None = None) -> str:
    """1 node, 20 nodes."""
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"
