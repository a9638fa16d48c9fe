"""The engine against a second simulator: objects, loops, one seed at a time, written from the model's text alone."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import LinearConstraint, minimize

from equipoise.share import Site, Workload, policies, simulate
from equipoise.share.site import cheapest_loads

NODES, SPEED, UPLINK, HORIZON = 5, 30.0, 100.0, 83
CAPACITY = NODES * SPEED
IDLE, BUSY = 0.25, 7.5


class ReferenceTask:
    """One task and its life."""

    def __init__(self, arrival, deadline, data, delay, work):
        self.arrival, self.deadline, self.delay = arrival, deadline, delay
        self.to_send, self.to_compute = data, work
        self.state, self.ready, self.done_at = "pending", None, -1

    def open(self, t):
        if self.state == "pending" and t >= self.arrival:
            self.state = "sending"
        if self.state == "delayed" and t >= self.ready:
            self.state = "computing"
        if self.state in ("sending", "delayed", "computing") and t >= self.deadline:
            self.state = "failed"

    def send(self, t, amount):
        amount = min(amount, self.to_send)
        self.to_send -= amount
        if self.to_send <= 1e-9:
            self.state, self.ready = "delayed", t + 1 + self.delay
        return amount

    def compute(self, t, amount):
        self.to_compute -= amount
        if self.to_compute <= 1e-9:
            self.state, self.done_at = "done", t + 1


def fair(demands, total):
    """Max-min fair parts of `total`: the smallest demand first, each at most an equal part of the rest."""
    parts, left = [0.0] * len(demands), total
    for rank, k in enumerate(sorted(range(len(demands)), key=lambda k: demands[k])):
        parts[k] = min(demands[k], left / (len(demands) - rank))
        left -= parts[k]
    return parts


def one_after_the_other(demands, total):
    parts = []
    for demand in demands:
        parts.append(min(demand, total))
        total -= parts[-1]
    return parts


def uniform(sending, delayed, computing):
    part = min(CAPACITY / max(len(sending) + len(delayed) + len(computing), 1), SPEED)
    return fair([task.to_send for task in sending], UPLINK), [part] * len(computing)


def uniform_corrected(sending, delayed, computing):
    part = min(CAPACITY / max(len(computing), 1), SPEED)
    return fair([task.to_send for task in sending], UPLINK), [part] * len(computing)


def shortest_deadline_first(sending, delayed, computing):
    sending.sort(key=lambda task: task.deadline)  # stable: ties go to the first
    computing.sort(key=lambda task: task.deadline)
    return (
        one_after_the_other([task.to_send for task in sending], UPLINK),
        one_after_the_other([SPEED] * len(computing), CAPACITY),
    )


def hull_speeds(rates, nodes):
    """Speeds of `nodes` like servers with the least sum of cubes that can run these rates, a task on one at a time.

    k servers can run k tasks only if their speeds add up to the k largest rates, so the sums of the sorted speeds lie on
    or above those of the rates: on their least concave majorant, which every convex cost prefers.
    """
    rates = sorted(rates, reverse=True)
    points = [(k, sum(rates[:k])) for k in range(nodes)] + [(nodes, sum(rates))]
    hull = []
    for x, y in points:
        while len(hull) >= 2 and (hull[-1][1] - hull[-2][1]) * (x - hull[-2][0]) <= (y - hull[-2][1]) * (
            hull[-1][0] - hull[-2][0]
        ):
            hull.pop()
        hull.append((x, y))
    return [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in itertools.pairwise(hull) for _ in range(x2 - x1)]


def energies(rates):
    """Energy of one step under the three laws."""
    use = sum(rates) / CAPACITY
    return {
        "pooled": NODES * (IDLE + BUSY * use**3),
        "linear": NODES * (IDLE + BUSY * use),
        "per_node": sum(IDLE + BUSY * (speed / SPEED) ** 3 for speed in hull_speeds(rates, NODES)),
    }


def reference(batch, seed, rule):
    """Done steps, energy under each law, samples sent, and compute that idled while a task could compute."""
    columns = (batch.arrival, batch.deadline, batch.data, batch.delay, batch.work)
    tasks = [ReferenceTask(*(column[seed, i].item() for column in columns)) for i in range(batch.shape[1])]
    energy, sent, idle = dict.fromkeys(("pooled", "per_node", "linear"), 0.0), 0.0, 0.0
    for t in range(HORIZON):
        for task in tasks:
            task.open(t)
        sending, delayed, computing = (
            [task for task in tasks if task.state == state] for state in ("sending", "delayed", "computing")
        )
        y, x = rule(sending, delayed, computing)
        for law, cost in energies([rate for rate in x if rate > 0]).items():
            energy[law] += cost
        idle += CAPACITY - sum(x) if computing else 0.0
        sent += sum(task.send(t, part) for task, part in zip(sending, y, strict=True))
        for task, part in zip(computing, x, strict=True):
            task.compute(t, part)
    return [task.done_at for task in tasks], energy, sent, idle


PAIRS = {
    "DescribedUniform": (policies.DescribedUniform(), uniform),
    "Uniform": (policies.Uniform(), uniform_corrected),
    "SDF": (policies.SDF(), shortest_deadline_first),
}


@pytest.mark.parametrize("load", [10, 60])
@pytest.mark.parametrize("name", PAIRS)
def test_the_engine_agrees_with_a_plain_simulator_seed_by_seed(name, load):
    """Same completions, energy under all three laws, samples sent and idle compute, on twenty seeds."""
    policy, rule = PAIRS[name]
    seeds = range(300, 320)
    runs = {
        law: simulate(policy, Workload.described(), load=load, seeds=seeds, site=Site(power=law))
        for law in ("pooled", "per_node", "linear")
    }
    for seed in range(len(seeds)):
        done_at, energy, sent, idle = reference(runs["pooled"].batch, seed, rule)
        for law, run in runs.items():
            assert_array_equal(run.done_at[seed], done_at)
            assert run.successes[seed] == sum(step >= 0 for step in done_at)
            assert run.energy[seed] == pytest.approx(energy[law], rel=1e-9)
            assert run.sent[seed] == pytest.approx(sent, rel=1e-9)
            assert run.idle[seed] == pytest.approx(idle, rel=1e-9, abs=1e-6)


def test_the_cheapest_server_speeds_are_those_of_a_numerical_minimiser():
    """Least sum of cubes over speeds that can run the rates (the k fastest servers run the k fastest tasks), by SLSQP."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        nodes, tasks = int(rng.integers(2, 6)), int(rng.integers(1, 9))
        rates = rng.uniform(0, 30, tasks) * rng.choice([0.1, 1.0], tasks)
        rates *= min(1.0, 30.0 * nodes / rates.sum())
        load = np.empty(nodes)
        cheapest_loads(rates.copy(), tasks, load)
        largest = [np.sort(rates)[::-1][:k].sum() for k in range(1, nodes)] + [rates.sum()]
        # with speeds in descending order, the sum of the first k must reach the k largest rates
        order = np.eye(nodes)[:-1] - np.eye(nodes)[1:]
        sums = np.tril(np.ones((nodes, nodes)))
        found = minimize(
            lambda v: (v**3).sum() / 1e3,
            np.full(nodes, rates.max()),
            jac=lambda v: 3 * v**2 / 1e3,
            constraints=[LinearConstraint(order, 0, np.inf), LinearConstraint(sums, largest, np.inf)],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert (load**3).sum() == pytest.approx(found.fun * 1e3, rel=1e-5, abs=1e-5)
        assert_allclose(np.sort(load)[::-1], hull_speeds(rates.tolist(), nodes), atol=1e-9)


def test_the_drawn_workload_is_the_presets_ranges():
    """Thirty thousand tasks: every constant inside its range, and the mean where a uniform draw puts it."""
    batch = Workload.described().draw(60, 500)
    relative = batch.deadline - batch.arrival
    for values, low, high in (
        (batch.arrival, 0, 35),
        (batch.data, 14, 35),
        (relative, 36, 46),
        (batch.a, 0.8, 1.2),
        (batch.b, 0.25, 0.467),
        (batch.target, 0.147, 0.162),
    ):
        assert low <= values.min() and values.max() <= high
        assert values.mean() == pytest.approx((low + high) / 2, abs=4 * (high - low) / np.sqrt(12 * values.size))
    assert_allclose(batch.work, (batch.a / batch.target) ** (1 / batch.b), rtol=1e-12)
    assert batch.delay.min() == 0 and batch.delay.mean() == pytest.approx(3, abs=0.05)
    assert batch.delay.std() == pytest.approx(np.sqrt(1 + 1 / 12), abs=0.03)  # of a rounded normal
