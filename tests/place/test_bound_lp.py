"""The compact program behind the bound: its modes, and that any prices bound it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from equipoise.place.bound_lp import INTERIOR, Program, Window, envelope, modes, pools_of, windows_of
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Deadline, Job, Linear, Sigmoid, Workload

approx = pytest.approx
MACHINE = Machine({"gpu": 3, "cpu": 6}, 3)


def job(**changes: object) -> Job:
    """An all-reduce job: one worker does a sample a slot."""
    plain: dict[str, object] = {
        "id": "a",
        "arrival": 0,
        "work": 4.0,
        "batch": 8,
        "time_per_sample": 1.0,
        "worker": {"gpu": 1},
        "utility": Deadline(10.0, 10.0),
    }
    return Job(**(plain | changes))  # type: ignore[arg-type]


def crowd(cluster: Cluster, slots: int = 20) -> list[Window]:
    """Forty jobs, far too many; half with servers."""
    rng = np.random.default_rng(9)
    jobs = [
        job(
            id=f"j{k}",
            arrival=int(rng.integers(0, 15)),
            work=float(rng.uniform(2, 20)),
            batch=int(rng.integers(1, 9)),
            server={"cpu": 1} if k % 2 else None,
            workers_per_server=2,
            worker={"gpu": 1, "cpu": int(rng.integers(0, 3))},
            gradient=float(rng.uniform(0, 1)),
            inside=5.0,
            between=2.0,
            utility=[Sigmoid(9, 0.7, 4), Linear(12, 9), Deadline(7, 5)][k % 3],
        )
        for k in range(40)
    ]
    return windows_of(cluster, Workload.of(jobs), slots, None)


def test_interior_points_and_the_simplex_value_alike() -> None:
    """Large programs take another road to the same bound, and its prices only lose a little."""
    cluster = Cluster((MACHINE,))
    windows = crowd(cluster)
    program = Program(cluster, windows, 1, pools_of(cluster, windows))
    exact, inner = program.solve(), program.solve(**INTERIOR)
    assert exact.utility - 1e-9 <= inner.utility <= exact.utility * (1 + 1e-4)


@pytest.mark.parametrize("period", [1, 3])
@pytest.mark.parametrize("seed", [1, 2])
def test_any_prices_give_a_bound(seed: int, period: int) -> None:
    """Weak duality: random prices of capacity and of work are never worth less than the optimum."""
    cluster = Cluster((MACHINE,))
    program = Program(cluster, crowd(cluster), period, [np.array([True])])
    best = program.solve().utility
    rng = np.random.default_rng(seed)
    for scale in (0.0, 0.1, 1.0, 10.0):
        price = scale * rng.random((program.periods, 2))
        assert program.value_of(price, 10.0 * rng.normal(size=len(program.worth))) >= best


def test_twice_the_machines_serve_twice_the_crowd() -> None:
    """Every job twice on capacity times two is worth twice as much."""
    cluster, wide = Cluster((MACHINE,)), Cluster((replace(MACHINE, count=2 * MACHINE.count),))
    windows, pool = crowd(cluster), [np.array([True])]
    once = Program(cluster, windows, 1, pool).solve().utility
    twice = Program(wide, windows + windows, 1, pool).solve().utility
    assert twice == approx(2 * once, rel=1e-6)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("gradient", [0.0, 1e-9, 0.1, 3.0, 200.0])
@pytest.mark.parametrize("widest", [1, 2, 6, 7, 40, 300])
def test_the_envelope_never_underestimates_a_rate(widest: int, gradient: float, together: bool) -> None:
    """At every whole width the hull of the modes is at least the true rate, and within 10% of the best of them."""
    one = job(batch=300, most=widest, gradient=gradient, inside=4.0, between=1.0)
    points = [(0.0, 0.0), *envelope(one, widest, together=together)]
    widths, rates = zip(*points, strict=True)
    true = one.rates(widest, together=together)
    hull = np.interp(np.arange(widest + 1), widths, rates)
    assert (hull >= true * (1 - 1e-12)).all()
    assert max(rates) <= true.max() * 1.1


def test_modes_keep_only_what_may_pay() -> None:
    """A job that fits one machine whole never does better apart; one that exchanges for ever keeps to a single worker."""
    cluster = Cluster((Machine({"gpu": 8}, 3),))
    workers, rates, _ = modes(cluster, job(gradient=1.0, inside=10.0, between=1.0, batch=2), 0)
    assert workers.tolist() == [1, 2] and rates[-1] == approx(2 / (1 + 0.1))
    workers, _, _ = modes(cluster, job(gradient=1e6, inside=10.0, between=1.0), 0)
    assert workers.tolist() == [1]
