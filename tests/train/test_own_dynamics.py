"""A learning half of one's own plays in one process, on workers, and under loss, by what it tells and hears alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from equipoise.engine import Workers
from equipoise.train import Dynamics, Exact, Faults, LeastSquares, Method, Network, Problem, Quadratic, solve
from refusals import refused

NODES = 12


class Extra(Dynamics):
    """x_{k+1} = (I + W) x_k - (I + W) / 2 x_{k-1} - a (grad_k - grad_{k-1}), W by Metropolis weights."""

    needs = frozenset({"symmetric", "repeating", "reliable"})
    node_arrays = ("before", "mixed", "slope", "last")

    def begin(self) -> None:
        self.step, self.weight = 0.5 / self.L, self.metropolis()[:, None]
        self.before, self.mixed = self.models.copy(), np.zeros_like(self.models)
        self.slope = self.first_gradient()
        self.last = np.zeros_like(self.slope)

    def move(self, number: int) -> None:
        apart = self.sums(self.weight * (self.heard - self.told))  # (W - I) x
        x = self.models.copy()
        if number == 0:
            self.models += apart - self.step * self.slope
        else:
            self.models += x + apart - self.before - self.mixed / 2 - self.step * (self.slope - self.last)
        self.before, self.mixed, self.last = x, apart, self.slope
        self.slope = self.gradient(number)


class Gossip(Dynamics):
    """Averages of what was heard last, and down the gradient: bears loss. A sum is kept per link."""

    node_arrays, link_arrays = ("slope",), ("total",)

    def begin(self) -> None:
        self.weight, self.slope, self.total = (
            self.metropolis()[:, None],
            self.first_gradient(),
            np.zeros_like(self.heard),
        )

    def move(self, number: int) -> None:
        apart = np.where(self.met[:, None], self.weight * (self.heard - self.told), 0.0)
        self.total[self.fresh] += apart[self.fresh]
        self.models += self.sums(apart) - 0.1 / self.L * self.slope
        self.slope = self.gradient(number)


def problem() -> Problem:
    rng = np.random.default_rng(0)
    data = [(rng.standard_normal((20, 4)), rng.standard_normal(20)) for _ in range(NODES)]
    cost = Quadratic(rng.uniform(0.5, 3, NODES), rng.uniform(10, 60, NODES), lo=5.0, hi=50.0)
    return Problem(cost, 400.0, LeastSquares(data, reg=0.01))


STATIC, TURNS = Network.erdos_renyi(NODES, 0.4), Network.erdos_renyi(NODES, 0.4, switching=3)


def test_extra_is_its_formula() -> None:
    """Exact numbers, twenty rounds, a static graph: the models are those of three lines of dense NumPy."""
    model, graph = problem().model, STATIC.topology(0)
    degree = graph.degree
    W = np.zeros((NODES, NODES))
    W[graph.tails, graph.heads] = 1 / (1 + np.maximum(degree[graph.tails], degree[graph.heads]))
    W += W.T
    W += np.diag(1 - W.sum(axis=1))
    step, half = 0.5 / model.smoothness().max(), (np.eye(NODES) + W) / 2
    before = np.zeros((NODES, 4))
    x = W @ before - step * model.gradients(before)
    for _ in range(19):
        slopes = model.gradients(x) - model.gradients(before)
        x, before = 2 * half @ x - half @ before - step * slopes, x
    run = solve(Problem(model=model), STATIC, Method(learning=Extra, quantizer=Exact()), rounds=20)
    assert_allclose(run.models, x, atol=1e-12)


def test_it_converges_in_codes_and_its_certificate_passes() -> None:
    run = solve(problem(), STATIC, Method(learning=Extra), rounds=400, target=1e-6)
    assert run.status == "converged"
    assert run.certificate().passed
    assert run.dynamics()["learning"] == "Extra"


@pytest.mark.parametrize("network", [STATIC, TURNS], ids=["static", "turns"])
@pytest.mark.parametrize("faults", [None, Faults(loss=0.3, delay=2, seed=1)], ids=["reliable", "lossy"])
def test_workers_give_the_bits_of_one_process(network: Network, faults: Faults | None) -> None:
    given: dict[str, Any] = {"rounds": 40, "faults": faults}
    alone = solve(problem(), network, Method(learning=Gossip), **given)
    for count in (2, 3):
        with Workers(count, on="threads") as workers:
            spread = solve(problem(), network, Method(learning=Gossip), engine=workers, **given)
        assert_array_equal(spread.models, alone.models)
        assert_array_equal(spread.shares, alone.shares)
        assert_array_equal(spread.link_bits.bits, alone.link_bits.bits)
    assert alone.certificate()["bits"].passed


@pytest.mark.parametrize("faults", [None, Faults(loss=0.3, seed=1)], ids=["reliable", "lossy"])
def test_a_checkpoint_goes_on_to_the_bit_on_workers_too(tmp_path: Any, faults: Faults | None) -> None:
    whole = solve(problem(), TURNS, Method(learning=Gossip), rounds=40, faults=faults)
    for first, then in ((1, 2), (2, 1)):
        file = tmp_path / f"{first}.npz"
        for count, given in (
            (first, {"checkpoint": file, "callback": lambda m: m.number == 17}),
            (then, {"resume": file}),
        ):
            with Workers(count, on="threads") as workers:
                run = solve(
                    problem(), TURNS, Method(learning=Gossip), rounds=40, faults=faults, engine=workers, **given
                )
        assert_array_equal(run.models, whole.models)
        assert run.bits == whole.bits


def test_older_words_are_heard_where_packets_are_lost() -> None:
    """Loss delays the same descent, and it still gets there."""
    fine, lossy = (
        solve(problem(), STATIC, Method(learning=Gossip), rounds=300, faults=faults)
        for faults in (None, Faults(loss=0.3, seed=2))
    )
    assert fine.relative_gap < 0.2 and lossy.relative_gap < 0.3  # descent with a step that stays has a bias
    assert lossy.lost > 0 and not np.array_equal(fine.models, lossy.models)


def test_what_it_needs_is_asked_for() -> None:
    with refused("need.reliable", "Extra"):
        solve(problem(), STATIC, Method(learning=Extra), rounds=5, faults=Faults(loss=0.1))
    with refused("need.repeating", "Extra"):
        solve(problem(), Network.erdos_renyi(NODES, 0.4, switching="fresh"), Method(learning=Extra), rounds=5)
    with refused("learning.type"):
        Method(learning=int)


def made(**members: Any) -> type:
    return type("Made", (Gossip,), members)


@pytest.mark.parametrize(
    ("members", "refusal"),
    [
        ({"tell": lambda self, number: self.models[:1]}, ("dynamics.tell", (1, 4), (12, 4))),
        ({"tell": lambda self, number: self.models[:, 0]}, ("dynamics.tell",)),
        ({"needs": frozenset({"symetric"})}, ("dynamics.needs", "symetric")),
        ({"needs": frozenset()}, ("dynamics.needs",)),
        ({"move": Dynamics.move}, ("dynamics.move", "move(number)")),
        ({"node_arrays": ("slope", "memory")}, ("dynamics.names", "memory")),
        ({"node_arrays": "slope"}, ("dynamics.names",)),
        ({"node_arrays": ("slope", "missing")}, ("dynamics.arrays", "missing")),
    ],
)
def test_what_is_wrong_with_a_class_is_said_by_name(members: dict[str, Any], refusal: tuple[object, ...]) -> None:
    with refused(*refusal):
        solve(problem(), STATIC, Method(learning=made(**members)), rounds=5)


def test_steps_of_a_method_are_not_those_of_a_class() -> None:
    with refused("need.own", "alpha"):
        solve(problem(), STATIC, Method(learning=Gossip, alpha=0.1), rounds=5)
    with refused("learning.type"):
        Method(learning=len)  # type: ignore[arg-type]


def test_what_is_no_number_ends_the_run() -> None:
    """In what is told, and in where models move to: the run has diverged, and the advice names the class."""
    for members in (
        {"tell": lambda self, number: self.models * (np.nan if number == 7 else 1.0)},
        {"begin": lambda self: (Gossip.begin(self), self.slope.fill(np.inf))},
    ):
        run = solve(problem(), STATIC, Method(learning=made(**members)), rounds=20)
        assert run.status == "diverged" and "Made" in run.reason


def test_mini_batches_are_drawn_for_it() -> None:
    given: dict[str, Any] = {"rounds": 30, "batch": 5}
    alone = solve(problem(), STATIC, Method(learning=Gossip), **given)
    assert alone.history["samples"][-1] == 31 * 5 * NODES
    with Workers(2, on="threads") as workers:
        spread = solve(problem(), STATIC, Method(learning=Gossip), engine=workers, **given)
    assert_array_equal(spread.models, alone.models)
