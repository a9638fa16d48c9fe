"""The equations P of docs/mathematics.md, evaluated by hand and held against the code of place."""

import math

import numpy as np
import pytest

from equipoise.place import Cluster, Deadline, Job, Linear, Machine, Sigmoid, bound, prices
from equipoise.place.execution import Execution
from equipoise.place.job import Workload
from equipoise.place.planner.rounding import stretch
from equipoise.place.prices._posted import clearing
from equipoise.place.prices.fixed import Level


def job(**changes):
    given = {
        "id": "j",
        "arrival": 0,
        "work": 1e6,
        "batch": 100,
        "time_per_sample": 5e-5,
        "gradient": 3e8,
        "workers_per_server": 4,
        "inside": 9e12,
        "between": 4.5e11,
        "worker": {"gpu": 1, "cpu": 2},
        "server": {"cpu": 3},
        "utility": Sigmoid(80, 0.5, 6),
    }
    return Job(**(given | changes))


def test_utilities():
    """P1: Three kinds at a few times."""
    assert [Sigmoid(80, 0.5, 6)(d) for d in (0, 6, 9)] == pytest.approx(
        [80 / (1 + math.exp(0.5 * (d - 6))) for d in (0, 6, 9)]
    )
    assert [Deadline(7, 3)(d) for d in (0, 3, 4)] == [7, 7, 0]
    assert [Linear(10, 4)(d) for d in (0, 1, 4, 9)] == pytest.approx([10, 7.5, 0, 0])


def test_rates():
    """P2, P3: Parameter servers and all-reduce, on one machine and apart."""
    served, ring = job(), job(server=None)
    for w in (1, 5, 9):
        for together, b in ((True, 9e12), (False, 4.5e11)):
            sigma = 5e-5 + 4 / 100 * 2 * 3e8 / b
            assert served.rate(w, together=together) == pytest.approx(w / sigma)
            assert ring.rate(w, together=together) == pytest.approx(100 / (5e-5 * 100 / w + 2 * (w - 1) / w * 3e8 / b))
        assert served.servers(w) == math.ceil(w / 4)


def test_prices_from_history():
    """P7, P8, P9: Recalled constants, densities and the clearing price, from two jobs by hand; a level with its lead."""
    cluster = Cluster((Machine({"gpu": 8, "cpu": 64}, count=2),))
    past = Workload((job(), job(id="k", work=4e6, utility=Linear(30, 40), worker={"gpu": 2, "cpu": 1})))
    run = Execution(cluster, past, None, 20)
    total = {"gpu": 16, "cpu": 128}
    high, lows, mus, density, need = {"gpu": 0.0, "cpu": 0.0}, [], [], [], []
    for each, gpu, cpu, widest in ((past[0], 1, 2, 8), (past[1], 2, 1, 4)):
        # alone: all workers and their servers on one machine, or as many as the cluster holds, apart
        fastest = max(each.rate(widest, together=True), each.rate(2 * widest, together=False))
        slots = math.ceil(each.work / fastest)
        share = {"gpu": gpu / total["gpu"], "cpu": (cpu + 3) / total["cpu"]}
        for r in high:
            high[r] = max(high[r], each.utility(slots - 1) / share[r])
        apart, together = (math.ceil(each.work / each.rate(1, together=t)) for t in (False, True))
        mus.append(20 * 2 / (together * sum(share.values())))
        lows.append((each.utility(20), apart * sum(share.values())))
        need.append(each.work / each.rate(1, together=True) * max(gpu / 16, (cpu + 3 / 4) / 128))
        density.append(each.utility(slots - 1) / need[-1])
    low = min(worth / (2 * max(mus) * slots) for worth, slots in lows)
    posted = prices.Recalled(past).post(run)
    assert posted.note["L"] == pytest.approx(low)
    assert posted.note["U"] == pytest.approx(high)
    order = np.argsort(-np.array(density))
    filled = np.cumsum(np.array(need)[order]) >= 1  # the history lasts one slot
    expected = np.array(density)[order][min(int(np.argmax(filled)) if filled.any() else 1, 1)]
    assert clearing(run, [past]) == pytest.approx(expected)
    level = Level(5.0, 30.0, lead=4.0).post(run)
    assert level.base[0] == pytest.approx([5 / 16000, 5 / 128000])
    assert level.growth == pytest.approx([math.log(30)] * 2)
    assert level.lead[:3] == pytest.approx([1 - math.exp(-(k + 1) / 4) for k in range(3)])


def test_the_stretch_of_a_fractional_placement():
    """P15: G is where the Chernoff exponents reach what delta asks: (G - 1)^2 a / (2 G) = ln(3/delta), and likewise."""
    G = stretch("covering", 0.1, 7.0, 1.0, 1)
    assert math.log(3 / 0.1) == pytest.approx((G - 1) ** 2 / (2 * G) * 7.0)
    G = stretch("packing", 0.1, 1.0, 9.0, 40)
    assert math.log(3 * 40 / 0.1) == pytest.approx((1 - G) ** 2 / (3 * G) * 9.0)
    assert G < 1 < stretch("covering", 0.1, 7.0, 1.0, 1)


def test_the_bound_is_above_the_optimum():
    """P5, P17: Two jobs for one machine that holds one of them: the optimum by hand, and a bound not below it."""
    cluster = Cluster((Machine({"gpu": 2}),))
    each = {"work": 4.0, "batch": 2, "time_per_sample": 1.0, "gradient": 0.0, "worker": {"gpu": 1}, "server": None}
    jobs = [job(**each, id="a", utility=Deadline(10, 1)), job(**each, id="b", utility=Deadline(7, 1))]
    exact = bound(cluster, jobs, slots=2, exact=True).utility  # 2 GPUs, 2 slots, 4 worker-slots a job: one of the two
    assert exact == pytest.approx(10)
    assert bound(cluster, jobs, slots=2).utility >= exact - 1e-9
