"""Which dynamics a run plays: the first whose needs the problem and the network give, half by half, with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from equipoise.train import LeastSquares, Method, Network, Problem, Quadratic, solve
from refusals import refused

RNG = np.random.default_rng(0)
MODEL = LeastSquares([(RNG.standard_normal((12, 3)), RNG.standard_normal(12)) for _ in range(10)])
WIDE = Problem(Quadratic(1.0, RNG.uniform(10, 40, 10), lo=0.0, hi=60.0), 250.0, MODEL)
PINNED = Problem(Quadratic(1.0, RNG.uniform(10, 40, 10), lo=[0.0] * 9 + [20.0], hi=[60.0] * 9 + [20.0]), 250.0, MODEL)


@pytest.mark.parametrize(
    ("problem", "network", "settings", "pair"),
    [
        (WIDE, Network.ring(10), {}, ("links", "links")),
        (WIDE, Network.erdos_renyi(10, 0.4, switching=6), {}, ("links", "links")),
        (WIDE, Network.erdos_renyi(10, 0.4, switching=7), {}, ("markets", "links")),
        (WIDE, Network.erdos_renyi(10, 0.4, switching="fresh"), {}, ("markets", "averages")),
        (PINNED, Network.ring(10), {}, ("markets", "links")),
        (WIDE, Network.ring(10), {"cap": 0.5}, ("markets", "averages")),
        (WIDE, Network.ring(10), {"momentum": False}, ("flows", "mixing")),
    ],
    ids=["static", "six", "seven", "fresh", "pinned", "cap", "paper"],
)
def test_the_first_form_whose_needs_are_given_is_taken(
    problem: Problem, network: Network, settings: dict[str, Any], pair: tuple[str, str]
) -> None:
    """And it converges there, whatever the two halves are."""
    method = Method.auto(problem, network, **settings)
    assert (method.cpu, method.learning) == pair
    run = solve(problem, network, Method(**settings), rounds=3000, target=1e-4)
    assert run.status == "converged" and run.certificate().passed
    assert (run.method.cpu, run.method.learning) == pair


def test_more_graphs_cost_markets_no_more_rounds() -> None:
    """Forty graphs in turn: prices over links would need hundreds of rounds."""
    problem = Problem(WIDE.cost, WIDE.budget)
    few, many = (
        solve(problem, Network.erdos_renyi(10, 0.4, switching=k), rounds=400, target=1e-6, every=1) for k in (7, 40)
    )
    assert many.status == "converged" and many.rounds <= 2 * few.rounds


def test_an_impossible_one_is_refused_with_what_it_needs() -> None:
    for network, need in (
        (Network.erdos_renyi(10, 0.4, switching=7), "few"),
        (Network.ring(10, switching="fresh"), "repeating"),
    ):
        with refused(f"need.{need}"):
            solve(WIDE, network, Method(cpu="links"), rounds=5)
    with refused("need.roomy"):
        solve(PINNED, Network.ring(10), Method(cpu="links"), rounds=5)
