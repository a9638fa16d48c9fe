"""Human quantities: what they mean, that milli-units are exact, and what is refused."""

import pytest
from hypothesis import given, strategies as st

from equipoise import units
from refusals import refused


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        (4, 4000),
        (1.5, 1500),
        ("1.5", 1500),
        ("500m", 500),
        ("1m", 1),
        (0, 0),
        ("16Gi", 17_179_869_184_000),
        ("16 GiB", 17_179_869_184_000),
        ("440MB", 440_000_000_000),
        ("2k", 2_000_000),
        ("1e3", 1_000_000),
    ],
)
def test_a_resource_is_whole_milli_units(text, milli):
    """By hand: half a gpu is 500, 16Gi is 16 x 2^30 bytes of 1000 milli each."""
    assert units.resource(text) == milli


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (units.size, "440MB", 4.4e8),
        (units.size, "1Gi", 1073741824.0),
        (units.size, "1GiB", 1073741824.0),
        (units.size, 12, 12.0),
        (units.seconds, "10m", 600.0),
        (units.seconds, "4ms/sample", 0.004),
        (units.seconds, "4 ms", 0.004),
        (units.seconds, "50us", 5e-5),
        (units.seconds, "50µs", 5e-5),
        (units.seconds, "2h", 7200.0),
        (units.seconds, "1.5d", 129600.0),
        (units.seconds, 30, 30.0),
        (units.bandwidth, "10Gbps", 1.25e9),
        (units.bandwidth, "10Gbit/s", 1.25e9),
        (units.bandwidth, "10Gb/s", 1.25e9),
        (units.bandwidth, "1.25GB/s", 1.25e9),
        (units.bandwidth, 1.25e9, 1.25e9),
    ],
)
def test_sizes_times_and_bandwidths(read, text, value):
    """By hand: bytes, seconds, bytes per second; a bit is an eighth of a byte."""
    assert read(text) == value


@pytest.mark.parametrize("read", [units.resource, units.size, units.seconds, units.bandwidth])
@pytest.mark.parametrize(
    ("code", "bad"),
    [
        *(("quantity.form", bad) for bad in ("", "fast", "1.2.3", "1,000", "nan", "inf", "--4", "4 -", "4\n4", "٣")),
        *(("quantity.form", bad) for bad in (True, None, [1], {"a": 1}, float("nan"), float("inf"))),
        *(("quantity.form", bad) for bad in ("1e999999999", "9" * 5000)),
        *(("quantity.range", bad) for bad in ("-1", -1, -0.5, "1e400", 10**400)),
        ("quantity.unit", "12 parsecs"),
    ],
)
def test_what_is_no_quantity_is_refused_in_one_line(read, code, bad):
    """Not a number, a unit nobody knows, less than nothing, or past counting: named, at once, in one line."""
    with refused(code, f"demand is {bad!r}"):
        read(bad, "demand")


@pytest.mark.parametrize("bad", ["0.0001", "0.4m", 1e-9])
def test_less_than_a_thousandth_is_not_rounded_to_nothing(bad):
    """A demand that would be counted as 0 would fit everywhere: it is refused."""
    with refused("quantity.small", repr(bad)):
        units.resource(bad)


@given(st.integers(0, units.MOST))
def test_milli_units_are_exact(milli):
    """However many, "<n>m" is n milli-units, and so is the same number written as units with three decimals."""
    assert units.resource(f"{milli}m") == milli
    assert units.resource(f"{milli // 1000}.{milli % 1000:03d}") == milli


@given(st.integers(0, 9 * 10**15))
def test_what_is_shown_reads_back_to_six_digits(milli):
    """`show` is for people: reading it back gives the same to the six digits shown."""
    assert units.resource(units.show(milli)) == pytest.approx(milli, rel=6e-6, abs=0.5)


@given(st.integers(1, 999), st.sampled_from(["", "Mi", "Gi", "Ti"]))
def test_round_quantities_are_shown_as_written(count, suffix):
    """1 to 999 of a binary unit, or plain units, come back in the same words."""
    if suffix == "Ti":
        count = 1 + count % 8
    assert units.show(units.resource(f"{count}{suffix}")) == f"{count}{suffix}"


@pytest.mark.parametrize(("milli", "text"), [(1500, "1.5"), (0, "0"), (17_179_869_184_000, "16Gi"), (2 * 10**12, "2G")])
def test_shown_for_people(milli, text):
    """By hand."""
    assert units.show(milli) == text


@given(st.floats(0, 1e299))
def test_a_number_without_a_unit_is_itself(number):
    """Bytes, seconds and bytes per second pass through to the last bit."""
    assert units.size(number) == units.seconds(number) == units.bandwidth(repr(number)) == number
