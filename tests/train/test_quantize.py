"""Quantisers: the sector is exact, codes are integers that fit their bits, and what leaves the range is counted."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from equipoise.train import Exact, LogQuantizer, Method, Network, Problem, Quadratic, UniformQuantizer, solve
from refusals import refused

RHOS = (0.01, 0.125, 0.5, 1.0)


def values_in_range(quantizer: LogQuantizer, count: int) -> np.ndarray:
    """Signed values spread over the logarithm of the quantiser's range, half a cell inside it."""
    rng = np.random.default_rng(1)
    low, high = (math.log(v) for v in quantizer.range)
    size = np.exp(rng.uniform(low + quantizer.rho, high - quantizer.rho, count))
    return size * rng.choice([-1.0, 1.0], count)


@pytest.mark.parametrize("rho", RHOS)
def test_the_sector_is_e_to_half_rho(rho):
    """A million values: every ratio q(v)/v lies in [e^-rho/2, e^rho/2], and the ends are nearly reached."""
    quantizer = LogQuantizer(rho=rho, mode="node")
    v = values_in_range(quantizer, 1_000_000)
    ratio = quantizer(v) / v
    assert ratio.min() >= math.exp(-rho / 2) - 1e-12
    assert ratio.max() <= math.exp(rho / 2) + 1e-12
    assert ratio.max() > math.exp(rho / 2) * (1 - rho * 1e-3)


def test_published_sector_bounds_are_violated():
    """At rho = 0.125 some ratio exceeds 1 + rho/2 = 1.0625, so that bound (and 1 + rho^2/4) cannot be right."""
    quantizer = LogQuantizer(rho=0.125, mode="node")
    v = values_in_range(quantizer, 1_000_000)
    assert (quantizer(v) / v).max() > 1.0625


@pytest.mark.parametrize("rho", RHOS)
def test_it_is_odd_and_keeps_zero(rho):
    """q(-v) = -q(v) exactly, and q(0) = 0."""
    quantizer = LogQuantizer(rho=rho)
    v = values_in_range(quantizer, 10_000)
    assert np.array_equal(quantizer(-v), -quantizer(v))
    assert quantizer(0.0) == 0.0


@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.125, 0.5, 1.0, 2.5])
@pytest.mark.parametrize("rounding", ["nearest", "floor"])
@pytest.mark.parametrize("mode", ["innovation", "node"])
def test_codes_found_by_table_are_those_of_the_logarithm(rho, rounding, mode):
    """100,000 values over the range and beyond: round(ln|v| / rho), counted from the lowest level, wherever |v| is not
    within 1e-9 cells of a border; levels are their own codes."""
    quantizer = LogQuantizer(rho=rho, mode=mode, rounding=rounding)
    rng = np.random.default_rng(2)
    low, high = (math.log(v) for v in quantizer.range)
    size = np.exp(rng.uniform(low - 5 * rho - 1, high + 5 * rho + 1, 100_000))
    v = size * rng.choice([-1.0, 1.0], len(size))
    top = quantizer.coder().top
    highest = round(high / rho)  # level of the top code: the multiple of rho nearest to the end of the range
    cells = np.log(size) / rho + (0.5 if rounding == "nearest" else 0.0)
    code = np.clip(np.floor(cells) - highest + top, 0, top).astype(int)
    clear = np.abs(cells - np.round(cells)) > max(1e-9, 1e-13 / rho)
    assert clear.mean() > 0.999
    assert np.array_equal(quantizer.encode(v)[clear], (np.sign(v).astype(int) * code)[clear])
    if rounding == "nearest":
        assert np.array_equal(quantizer.encode(quantizer.decode(np.arange(-top, top + 1))), np.arange(-top, top + 1))


@pytest.mark.parametrize("value", [0.0, -0.0, 5e-324, -2e-308, 1e308, -1e308])
def test_extreme_values_have_codes(value):
    """Zeros, subnormals and the largest floats: 0 below the range, the top code above it."""
    quantizer = LogQuantizer()
    top = quantizer.coder().top
    assert int(quantizer.encode(value)) == (0 if abs(value) < 1 else int(math.copysign(top, value)))


def test_floor_never_exceeds_the_value():
    """The floor variant has the sector (e^-rho, 1]."""
    quantizer = LogQuantizer(rho=0.125, mode="node", rounding="floor")
    v = values_in_range(quantizer, 200_000)
    ratio = quantizer(v) / v
    assert ratio.max() <= 1 + 1e-12
    assert ratio.min() > math.exp(-0.125) - 1e-12
    assert ratio.min() < math.exp(-0.124)


@pytest.mark.parametrize(
    ("rho", "low", "high", "bits"), [(0.125, 1e-6, 64.0, 9), (0.125, 1e-12, 64.0, 9), (1.0, 1e-3, 1e3, 5)]
)
def test_bits_follow_from_the_range(rho, low, high, bits):
    """K = ln(max/min)/rho cells make 2(K+1)+1 codes: 9 bits at rho = 0.125 over 1e-6..64 (by hand)."""
    quantizer = LogQuantizer(rho=rho, smallest=low, largest=high)
    assert quantizer.bits == bits
    codes = quantizer.encode(
        np.concatenate([[0.0], np.geomspace(low / 10, high * 10, 5000), -np.geomspace(low, high, 5000)])
    )
    assert codes.max() - codes.min() + 1 <= 2**bits


@given(st.floats(1e-5, 1e5), st.sampled_from(RHOS))
def test_a_code_read_back_gives_the_same_code(value, rho):
    """Encoding is idempotent: what was heard would be sent by the same integer."""
    quantizer = LogQuantizer(rho=rho, mode="node")
    code = quantizer.encode(value)
    assert quantizer.encode(quantizer.decode(code)) == code


def test_beyond_the_range_it_saturates_and_below_it_vanishes():
    """Honest ends: at most the largest level, and 0 below the smallest."""
    quantizer = LogQuantizer(rho=0.5, mode="node", smallest=1e-3, largest=10.0)
    top = quantizer(10.0)
    assert quantizer(1e9) == top == -quantizer(-np.inf)
    assert quantizer(1e-5) == 0.0


def test_uniform_levels():
    """9 bits over ±64: 511 levels, a step of 64/255, rounding to the nearest, clipping outside."""
    quantizer = UniformQuantizer(bits=9, largest=64.0)
    v = np.random.default_rng(0).uniform(-64, 64, 10_000)
    assert np.abs(quantizer(v) - v).max() <= 64 / 255 / 2 + 1e-12
    assert quantizer(1e6) == pytest.approx(64.0)
    assert np.abs(quantizer.encode(v)).max() <= 255


def test_exact_is_the_identity():
    """The ideal channel changes nothing and costs 64 bits."""
    v = np.random.default_rng(0).standard_normal(100)
    assert np.array_equal(Exact()(v), v)
    assert Exact().bits == 64


def test_a_run_counts_what_leaves_the_range():
    """A channel whose range is far too small saturates and underflows, says so, and still keeps the budget."""
    problem = Problem(Quadratic(1.0, [0.0, 100.0, 200.0, 900.0]), 100.0)
    narrow = LogQuantizer(rho=0.5, mode="node", smallest=1.0, largest=4.0)
    run = solve(problem, Network.ring(4), Method(quantizer=narrow), rounds=50)
    assert run.tallies["prices"].saturated > 0
    assert run.certificate()["budget"].value == 0
    wide = solve(problem, Network.ring(4), Method(quantizer=LogQuantizer(mode="node")), rounds=50)
    assert wide.tallies["prices"].saturated == 0


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda: LogQuantizer(rho=0.0), ("quantizer.rho", 0.0)),
        (lambda: LogQuantizer(rho=-1.0), ("quantizer.rho", -1.0)),
        (lambda: LogQuantizer(rho=float("nan")), ("quantizer.rho", "nan")),
        (lambda: LogQuantizer(mode="inovation"), ("unknown", "'innovation'")),
        (lambda: LogQuantizer(rounding="ceil"), ("unknown", "'ceil'")),
        (lambda: LogQuantizer(smallest=2.0, largest=1.0), ("quantizer.order", 2, 1)),
        (lambda: UniformQuantizer(bits=1), ("quantizer.bits", 1)),
        (lambda: UniformQuantizer(largest=0.0), ("quantizer.largest", 0.0)),
    ],
)
def test_bad_quantisers_are_refused(make, refusal):
    """One line that names the value and the way out."""
    with refused(*refusal):
        make()


def test_edge_mode_counts_what_leaves_the_range_too():
    """Differences far outside 1..4 saturate, and small ones vanish; the trajectory is not the ideal one."""
    problem = Problem(Quadratic(1.0, [0.0, 100.0, 200.0, 900.0]), 100.0)
    narrow = LogQuantizer(rho=0.5, mode="edge", smallest=1.0, largest=4.0)
    run = solve(problem, Network.ring(4), Method(quantizer=narrow), rounds=400)
    assert run.tallies["prices"].saturated > 0
    assert run.tallies["prices"].underflowed > 0
    fine = solve(problem, Network.ring(4), Method(quantizer=LogQuantizer(mode="edge")), rounds=3)
    ideal = solve(problem, Network.ring(4), Method(quantizer=Exact(), step=fine.steps.step), rounds=3)
    assert not np.array_equal(fine.shares, ideal.shares)
