"""Numbers, sentences and verdicts as people read them."""

import math

from equipoise.certificate import Certificate
from equipoise.document import Document
from equipoise.units import count as count

NOTHING = "–"  # stands where there is no number
FOLD, MOST_FOLD = 9, 1000  # relative gains from which they are told as a factor, and only as a large one


def number(value: float | None, digits: int = 4) -> str:
    """About `digits` significant digits: 1,234,567 and 23.41 and 3.2e-7; a dash for what is no finite number."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if 10 ** (digits - 1) <= abs(value) < 1e7:
        return f"{value:,.0f}"
    if 1e-3 <= abs(value) < 1e7:
        return f"{value:,.{digits}g}"
    mantissa, exponent = f"{value:.{digits - 2}e}".split("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(exponent)}"


def scaled(value: float, unit: str) -> str:
    """With a decimal prefix: 1.23 Mbit, 154 kB."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor * 0.9995:  # so that 999,999 reads 1 M and not 1000 k
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def prefix(largest: float) -> tuple[float, str]:
    """A factor and its word, so that the largest value has few digits: 62,210 bits are 62.21 thousand."""
    for size, word in ((1e9, "billion "), (1e6, "million "), (1e3, "thousand ")):
        if largest >= 10 * size or (largest >= size and size > 1e3):
            return size, word
    return 1.0, ""


def percent(part: float | None) -> str:
    """0.9611 as 96.1 %."""
    return NOTHING if part is None or not math.isfinite(part) else f"{100 * part:.1f} %"


def fixed(value: float | None, digits: int, sign: str = "") -> str:
    """So many digits after the point; `sign` "+" shows it for what is positive too."""
    return NOTHING if value is None or not math.isfinite(value) else f"{value:{sign},.{digits}f}".replace("-", "−")


def with_error(value: float | None, error: float | None, digits: int, sign: str = "") -> str:
    """57.0 ± 0.6; without the error where none is known."""
    shown = fixed(value, digits, sign)
    return shown if error is None or shown == NOTHING else f"{shown} ±\N{NO-BREAK SPACE}{fixed(error, digits)}"


def tight(value: float | None, error: float | None, digits: int, sign: str = "") -> str:
    """57.0 ±0.6, where room is short."""
    return with_error(value, error, digits, sign).replace("±\N{NO-BREAK SPACE}", "±")


def power(value: float | None) -> str:
    """Two digits and a power of ten: 3.2e-7, 1.0e3; 0 for nothing at all."""
    if value is None or not math.isfinite(value):
        return NOTHING
    mantissa, exponent = f"{value:.1e}".split("e")
    return "0" if value == 0 else mantissa if int(exponent) == 0 else f"{mantissa}e{int(exponent)}"


def joined(*sentences: object) -> str:
    """Sentences one after the other; one that is empty or False is left out."""
    return " ".join(str(sentence) for sentence in sentences if sentence)


def signed(value: float, digits: int | None = None) -> str:
    """+441.7, −3, 0; with `digits` so many after the point."""
    size = number(abs(value)) if digits is None else f"{abs(value):,.{digits}f}"
    return f"+{size}" if value > 0 else f"−{size}" if value < 0 else size


def relative(change: float | None) -> str:
    """0.31 as +31.0 %; 250-fold where percents say nothing, a dash over nothing."""
    if change is None:
        return NOTHING
    if change >= FOLD:
        return f"{number(1.0 + change, 3)}-fold" if change < MOST_FOLD else f"over {MOST_FOLD:,}-fold"
    return f"{signed(100 * change, 1)} %"


def duration(seconds: float) -> str:
    """600 as 10 min, 3600 as 1 h."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{number(seconds / size, 3)} {unit}"
    return f"{number(seconds, 3)} s"


def verdict(certificate: Certificate) -> str:
    """The whole certificate in a word: passed, FAILED or incomplete (nothing failed, but a check was not made)."""
    if certificate.passed:
        return "passed"
    return "FAILED" if any(check.passed is False for check in certificate) else "incomplete"


def outcome(document: Document) -> str:
    """For the end of a page's title: ": certificate passed"."""
    return "" if document.certificate is None else f": certificate {verdict(document.certificate)}"
