"""Every public object says in a line what it is; results and certificates also as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from equipoise import place, share, train
from equipoise.data import load as load_data
from equipoise.place import placers

CLUSTER = place.Cluster([place.Machine({"gpu": 4, "cpu": 16}, 2, "m0")])
COST = train.Quadratic(a=np.linspace(1, 2, 12), c=np.linspace(10, 50, 12), lo=0.0, hi=50.0)
RNG = np.random.default_rng(0)
SHARDS = [(RNG.standard_normal((6, 2)), RNG.choice([-1, 1], 6)) for _ in range(12)]


def jobs() -> place.Workload:
    return place.traces.synthetic(4, slots=6, seed=0)


def a_run() -> train.Run:
    return train.solve(train.Problem(cost=COST, budget=300.0), train.Network.ring(12), rounds=20)


def a_comparison() -> object:
    drawn = place.traces.synthetic(3, slots=5, seed=0)
    return place.compare(place.traces.synthetic_cluster(2), drawn, [placers.FIFO()], slots=5)


PLAIN: dict[str, Callable[[], object]] = {
    "Quadratic": lambda: COST,
    "Latency": lambda: train.Latency(work=np.ones(12), lo=0.1, hi=50.0),
    "Problem": lambda: train.Problem(cost=COST, budget=300.0),
    "Network": lambda: train.Network.ring(12),
    "Method": lambda: train.Method(step=0.1),
    "Faults": lambda: train.Faults(loss=0.1),
    "LogQuantizer": lambda: train.LogQuantizer(rho=0.125),
    "SmoothSVM": lambda: train.SmoothSVM(SHARDS, mu=3.0),
    "LeastSquares": lambda: train.LeastSquares(SHARDS),
    "TrainSpec": lambda: train.TrainSpec(),
    "Dataset": lambda: load_data("digits"),
    "Site": lambda: share.Site(),
    "share.Workload": lambda: share.Workload(sigma=0.1),
    "Task": lambda: share.Task(arrival=0, deadline=10, data=5.0, target=0.2, curve=share.Curve(1.0, 0.3)),
    "Hybrid": lambda: share.policies.Hybrid(),
    "ShareSpec": lambda: share.ShareSpec(),
    "Machine": lambda: place.Machine({"gpu": 4, "cpu": 16}, 2, "m0"),
    "Cluster": lambda: CLUSTER,
    "place.Workload": jobs,
    "Job": lambda: next(iter(jobs())),
    "PDORS": lambda: placers.PDORS(),
    "PlaceSpec": lambda: place.PlaceSpec(),
}
SHOWN: dict[str, Callable[[], object]] = {
    "Run": a_run,
    "Certificate": lambda: a_run().certificate(),
    "Sweep": lambda: share.sweep([share.policies.SDF()], loads=[4], seeds=2, oracle=0),
    "share.Run": lambda: share.simulate(share.policies.SDF(), load=4, seeds=2),
    "PlaceComparison": a_comparison,
}


@pytest.mark.parametrize("name", [*PLAIN, *SHOWN])
def test_a_representation_is_one_short_line(name: str) -> None:
    """No address, no array, no list of hundreds."""
    text = repr((PLAIN | SHOWN)[name]())
    assert len(text) <= 160 and "\n" not in text and " object at 0x" not in text, text


@pytest.mark.parametrize("name", SHOWN)
def test_a_result_shows_itself_in_a_notebook(name: str) -> None:
    """A table in HTML, with nothing unescaped from outside."""
    shown = SHOWN[name]()._repr_html_()  # type: ignore[attr-defined]
    assert "<table" in shown and "<script" not in shown
