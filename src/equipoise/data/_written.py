"""How cells are written: what is missing, numbers, dates, and numbers that do not look like ones to a computer."""

from __future__ import annotations

import re

# What pandas.read_csv takes as missing.
MISSING = frozenset(
    (
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
        *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    )
)
_DAY, _MONTH = "(?:0?[1-9]|[12][0-9]|3[01])", "(?:0?[1-9]|1[0-2])"
_DATE = re.compile(
    rf"(?:[12]\d{{3}}([-/.]){_MONTH}\1{_DAY}"  # 2024-01-31
    rf"|{_DAY}([-/.]){_DAY}\2[12]\d{{3}}"  # 31.01.2024, 1/31/2024
    rf"|{_DAY}/{_DAY}/\d\d)"  # 1/31/24
    r"(?:(?:T|\s+)\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\s?[AaPp][Mm])?\s?(?:Z|UTC|[+-]\d\d(?::?\d\d)?)?)?"
)
_COMMA = re.compile(r"[+-]?(?:\d+,\d*|,\d+)(?:[eE][+-]?\d+)?")


def number(cell: str, commas: bool = False) -> float | None:
    """A stripped cell as a float; None if it is not one (Python's own 1_000 is not)."""
    if commas and _COMMA.fullmatch(cell):
        cell = cell.replace(",", ".")
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def is_number(cell: str, commas: bool) -> bool:
    """Whether a stripped cell is a number, and no name of a missing one."""
    value = number(cell, commas)
    return value is not None and value == value


def is_date(cell: str) -> bool:
    """Whether a stripped cell is written as a date, with or without a time."""
    return _DATE.fullmatch(cell) is not None


# Numbers as people write them. Between thousands stands a point, a comma, an apostrophe or a space.
_GROUPED = "|".join(
    rf"[1-9]\d{{0,2}}(?:{mark}\d{{3}})+(?:{decimal}\d+)?"
    for mark, decimal in ((r"\.", ","), (",", r"\."), ("['\u2019]", "[.,]"), ("[ \u00a0\u2009\u202f]", "[.,]"))
)
_AMOUNT = rf"(?:{_GROUPED}|(?:0|[1-9]\d*)(?:[.,]\d+)?|[.,]\d+)"
_CURRENCY = r"(?:US\$|R\$|[$€£¥₹]|zł|kr\.?|Fr\.|Euro|EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|HUF|CAD|AUD|BRL)"
_UNITS = (
    *(
        "%",
        "‰",
        "°[CF]?",
        "[kmcn]?m[23²³]?",
        "[km]?g",
        "lbs?",
        "oz",
        "ft",
        "mi",
        "[mcd]l",
        "[kM]W",
        "[kMG]?Wh",
        "[kMG]?Hz",
    ),
    *(
        "[kKMGT]B",
        "h?Pa",
        "m?bar",
        "mmHg",
        "mmol/l",
        "m[gl]/dl",
        "km/h",
        "mph",
        "kcal",
        "kJ",
        "ms",
        "min",
        "hrs?",
        "hours?",
    ),
    *("days?", "weeks?", "months?", "yrs?", "years?", "Tage?", "Monate?", "Jahre?", "Std", "Stk", "Stück", "pcs"),
)
_LETTERS = "[AVWJKNhsdl]"  # units only behind a space: 12A, 3d and 80s are names
_UNIT = rf"(?:\s?(?:{'|'.join(_UNITS)})\.?|\s{_LETTERS})"
_DISGUISED = re.compile(rf"[+-]?(?:{_CURRENCY}\s?[+-]?)?{_AMOUNT}(?:\s?{_CURRENCY}|{_UNIT})?")
# Groups of digits that are no number: telephone numbers, and addresses of machines.
_OTHER = re.compile(r"\+\d+[ \u00a0].*|\d{3} \d{3} \d{3}|(?:(?:1?\d?\d|2[0-4]\d|25[0-5])(?:\.|$)){4}")
_POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+")
_DECIMAL_COMMA = re.compile(rf"[+-]?(?:\d+|[1-9]\d{{0,2}}(?:\.\d{{3}})+),\d+(?:\s?{_CURRENCY}|{_UNIT})?")


def in_disguise(cell: str) -> bool:
    """Whether a stripped cell is a number to a reader: 1.234,56 or 2,500 or 12 kg or $5. Plain numbers are too."""
    return _DISGUISED.fullmatch(cell) is not None and _OTHER.fullmatch(cell) is None


def with_thousands(cell: str) -> bool:
    """Whether each point of a stripped cell stands before three digits, as in 3.036, and so may separate thousands."""
    return _POINTS.fullmatch(cell) is not None


def has_decimal_comma(cell: str) -> bool:
    """Whether a stripped cell is a number with a decimal comma, in a file whose cells commas do not separate."""
    return "," in cell and _DECIMAL_COMMA.fullmatch(cell) is not None
