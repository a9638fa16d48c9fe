"""The auditor watches what is heard: a float counted as ten bits, and a link that the round does not have, are noticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from equipoise.train import LeastSquares, LogQuantizer, Method, Network, Problem, Quadratic, solve
from equipoise.train.audit import fits
from equipoise.train.dynamics import summed
from equipoise.train.exchange.rows import Site, Voice

RNG = np.random.default_rng(0)
DATA = [(RNG.standard_normal((20, 3)), RNG.standard_normal(20)) for _ in range(10)]
PROBLEM = Problem(Quadratic(RNG.uniform(1, 3, 10), RNG.uniform(10, 40, 10), lo=0.0, hi=60.0), 200.0, LeastSquares(DATA))
STATIC, FRESH = Network.erdos_renyi(10, 0.4), Network.erdos_renyi(10, 0.4, switching="fresh")
TURNS = Network.erdos_renyi(10, 0.4, switching=3)
ROWS = Method(cpu="markets", learning="averages")


def bits_pass(network: Network, method: Method | None = None) -> bool:
    return bool(solve(PROBLEM, network, method, rounds=20).certificate()["bits"].passed)


@pytest.mark.parametrize("rho", [0.05, 0.125, 1.0])
@pytest.mark.parametrize("network", [STATIC, TURNS, FRESH], ids=["one", "turns", "fresh"])
def test_honest_codes_fit(network: Network, rho: float) -> None:
    for method in (Method(quantizer=LogQuantizer(rho=rho)), Method(quantizer=LogQuantizer(rho=rho), momentum=False)):
        assert bits_pass(network, method)


@pytest.mark.parametrize("network", [STATIC, FRESH], ids=["static", "fresh"])
def test_a_float_that_is_counted_as_a_code_is_noticed(network: Network, monkeypatch: Any) -> None:
    """By rows: the voice tells its numbers as they are, and counts as before."""
    assert bits_pass(network, ROWS)

    def cheat(self: Voice, values: Any, number: int) -> None:
        self.at(number)[self.site.own] = values

    monkeypatch.setattr(Voice, "say", cheat)
    assert not bits_pass(network, ROWS)


def test_a_float_over_links_is_noticed(monkeypatch: Any) -> None:
    """Models are said as they are where codes are counted."""
    assert bits_pass(STATIC)
    burst = summed.Summed.burst

    def cheat(self: Any, number: int, count: int) -> int:
        done = burst(self, number, count)
        self.table.said[number % self.layout.graphs] *= 1.0 + 1e-9
        return done

    monkeypatch.setattr(summed.Summed, "burst", cheat)
    assert not bits_pass(STATIC)


def test_a_link_that_the_round_does_not_have_is_noticed(monkeypatch: Any) -> None:
    """In round 5 nodes hear each other along the graph of round 0."""
    network = Network.erdos_renyi(10, 0.4, switching=7)
    near = Site.near
    monkeypatch.setattr(Site, "near", lambda self, number: near(self, 0 if number == 5 else number))
    run = solve(Problem(model=PROBLEM.model), network, ROWS, rounds=20)
    assert "no link of their round" in run.certificate()["bits"].meaning


def test_what_fits_by_hand() -> None:
    """Ten bits: a sign, six of exponent, three of mantissa behind a leading one. 1.125 is a code, 1.1 is not."""
    before = np.array([[0.0, 2.0, 5.0, 1e9]])
    told = np.array([[1.125, 1.1, 0.0, 1e-12]])  # the last is lost in the rounding of a sum
    assert fits(before, before + told, 10, True).tolist() == [[True, False, True, True]]
    assert fits(before, np.array([[0.5, 0.1, float(np.float32(0.1)), -3.0]]), 32, False).tolist() == [
        [True, False, True, True]
    ]
