"""The parts that every page shares: numbers as words, safe JSON, rows of charts, log axes."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from equipoise.present.echarts import line, log_range
from equipoise.present.figures import Drawing, hues, thinned
from equipoise.present.html import embedded, in_rows
from equipoise.present.text import count, number, percent, scaled


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (500.0, "500"),
        (1234567.0, "1,234,567"),
        (23.41234, "23.41"),
        (0.0137746, "0.01377"),
        (8.55e-5, "8.55e-5"),
        (1e-6, "1e-6"),
        (-3.2e-7, "-3.2e-7"),
        (12345.6, "12,346"),
        (9999.99, "10,000"),
        (999.99, "1,000"),
        (4.2971e13 + 0.5, "4.3e13"),
        (1e20, "1e20"),
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_numbers_are_short_and_never_nan(value: float | None, text: str) -> None:
    assert number(value) == text


@given(st.floats(-1e300, 1e300))
def test_a_number_in_words_is_still_that_number(value: float) -> None:
    """Read back, it is within a percent (three digits are kept at least)."""
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=0.01, abs=1e-310)


def test_amounts_have_units_and_plurals() -> None:
    amounts = [scaled(v, "bit") for v in (0, 12, 999_999, 2.05e6, 3.974e9)]
    assert amounts == ["0 bit", "12 bit", "1 Mbit", "2.05 Mbit", "3.97 Gbit"]
    assert (count(1, "link"), count(1234, "link")) == ("1 link", "1,234 links")
    assert (percent(0.9611), percent(None)) == ("96.1 %", "–")


@given(st.text())
def test_no_text_can_close_the_script_it_stands_in(text: str) -> None:
    """Whatever the text, the JSON holds no tag, and reads back as what went in."""
    made = embedded({"name": text + "</script><!--"})
    assert "<" not in made
    assert json.loads(made) == {"name": text + "</script><!--"}


def test_json_holds_no_number_that_json_does_not_have() -> None:
    assert json.loads(embedded([1.5, math.nan, {"x": (math.inf, -math.inf)}])) == [1.5, None, {"x": [None, None]}]


@given(st.lists(st.booleans(), max_size=8))
def test_no_row_of_charts_has_a_hole(wide: list[bool]) -> None:
    """Between two wide charts, and at the end, narrow ones come in pairs; wide ones stay wide."""
    placed = in_rows([Drawing(str(k), "", "", "", {}, wide=w) for k, w in enumerate(wide)])
    assert [chart.key for chart in placed] == [str(k) for k in range(len(wide))]
    assert all(after.wide for after, before in zip(placed, wide, strict=True) if before)
    runs = "".join("W" if chart.wide else "n" for chart in placed).split("W")
    assert all(len(run) % 2 == 0 for run in runs)


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=20), st.integers(2, 9))
def test_a_log_axis_covers_its_values_with_few_even_labels(values: list[float], labels: int) -> None:
    made = log_range([*values, None, 0.0], labels)
    assert made["min"] <= min(values) * (1 + 1e-8)
    assert made["max"] >= max(values) * (1 - 1e-8)
    decades = round(math.log10(made["max"]) - math.log10(made["min"]))
    assert decades % made["interval"] == 0
    assert 1 <= decades // made["interval"] <= labels - 1


@given(st.integers(0, 5000), st.integers(2, 300))
def test_thinning_keeps_order_and_ends(amount: int, most: int) -> None:
    rows = thinned(amount, most)
    assert len(rows) == min(amount, most)
    assert (np.diff(rows) > 0).all()
    if amount:
        assert (rows[0], rows[-1]) == (0, amount - 1)


def test_a_point_between_two_holes_is_shown() -> None:
    """A line needs two points: one alone would be invisible without a symbol."""
    assert line("x", [[0, None], [1, 5.0], [2, None]], "@ink")["showSymbol"] is True
    assert line("x", [[0, None], [1, 5.0], [2, 6.0]], "@ink")["showSymbol"] is False


@pytest.mark.parametrize("amount", [1, 7, 8, 40])
def test_bands_have_different_colours(amount: int) -> None:
    assert len(set(hues(amount))) == amount
