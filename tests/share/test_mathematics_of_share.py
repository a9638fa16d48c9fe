"""The equations S of docs/mathematics.md, evaluated by hand and held against the code of share."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from called import called
from equipoise.share import Curve, Server, Site, Workload, policies, share_out, simulate
from equipoise.share._arithmetic import keys_of, mean_beyond, normal
from equipoise.share.estimators import bayes
from equipoise.share.site import LINEAR, PER_NODE, POOLED, cheapest_loads, step_energy
from equipoise.statistics import ratio_and_error
from hybrid_prices import price_of, quantiles_of


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_curve_and_work(rng):
    """S1: The work is where the curve meets its target."""
    a, b, floor, target = 1.1, 0.37, 0.02, 0.15
    curve = Curve(a, b, floor)
    assert curve.error(50.0) == pytest.approx(a * 50**-b + floor)
    assert curve.work(target) == pytest.approx(optimize.brentq(lambda s: a * s**-b + floor - target, 1, 1e6))


def test_energy_and_speeds(rng):
    """S5, S6, S7: Three laws, the speed under a cap, and the cheapest speeds against a solver."""
    capacity, load = np.array([30.0, 30.0, 60.0]), np.array([10.0, 0.0, 45.0])
    use, told = 55 / 120, (0.25, 7.5, capacity, 55.0, load)
    assert step_energy(POOLED, *told) == pytest.approx(3 * (0.25 + 7.5 * use**3))
    assert step_energy(PER_NODE, *told) == pytest.approx(
        sum(0.25 + 7.5 * (v / k) ** 3 for v, k in zip(load, capacity, strict=True))
    )
    assert step_energy(LINEAR, *told) == pytest.approx(3 * (0.25 + 7.5 * use))
    site = Site(servers=(Server(50, power_cap=4),))
    assert site.capacity == pytest.approx(50 * ((4 - 0.25) / 7.5) ** (1 / 3))
    rates, loads = np.array([25.0, 4.0, 6.0, 3.0]), np.zeros(3)
    cheapest_loads(rates.copy(), 4, loads)
    # Least sum of cubes: the k fastest tasks run on k servers at least, so no k servers do less than they need.
    ordered = np.sort(rates)[::-1]
    found = optimize.minimize(
        lambda v: (v**3).sum(),
        np.full(3, 38 / 3),
        bounds=[(0, None)] * 3,
        method="SLSQP",
        constraints=[
            {"type": "eq", "fun": lambda v: v.sum() - 38},
            {"type": "ineq", "fun": lambda v: v[0] - ordered[0]},
        ],
    )
    assert np.sort(loads)[::-1] == pytest.approx(np.sort(found.x)[::-1], abs=1e-3)


def test_errors_of_a_ratio(rng):
    """S9: By the delta method, written out, and near the bootstrap."""
    energy = rng.uniform(5, 9, 400)
    success = 3 * energy + rng.standard_normal(400)
    ratio, error = ratio_and_error(success, energy)
    assert ratio == pytest.approx(success.mean() / energy.mean())
    picks = rng.integers(0, 400, (2000, 400))
    assert error == pytest.approx((success[picks].mean(axis=1) / energy[picks].mean(axis=1)).std(), rel=0.1)


def test_sharing_out(rng):
    """S11: x = min(m, kappa w): the level kappa is found here by bisection."""
    weight, most = rng.uniform(0.1, 3, (2, 9))
    kappa = optimize.brentq(lambda k: np.minimum(most, k * weight).sum() - 8.0, 0, 1e4)
    given = share_out(weight[None, :], np.ones((1, 9), bool), most[None, :], 8.0)
    assert given[0] == pytest.approx(np.minimum(most, kappa * weight))


def watched(policy):
    """What a policy saw and said in every step of a run."""
    seen = []
    names = ("computing", "active", "samples", "error", "observed", "deadline", "target")

    class Spy:
        def start(self, scene):
            self.inner = policy.start(scene) if hasattr(policy, "start") else policy
            return self

        def decide(self, view):
            said = self.inner.decide(view)
            kept = {name: np.array(getattr(view, name)) for name in names}
            seen.append(kept | {"step": view.step, "compute": np.array(said.compute)})
            return said

    simulate(Spy(), Workload.described(), load=40, seeds=[3])
    return seen


def fitted(seen, task):
    """S18 of one task from all errors seen so far; None before three."""
    points = [(k["samples"][0, task], k["error"][0, task]) for k in seen if k["observed"][0, task]]
    if len(points) < 3:
        return None
    x, y = np.log(np.maximum(np.array(points), [1.0, 1e-4])).T
    b = min(max(-np.polyfit(x, y, 1)[0], 0.05), 1.5)
    work = x.mean() + (y.mean() - math.log(seen[-1]["target"][0, task])) / b
    return max(math.exp(min(max(work, 0.0), 15.0)) - points[-1][0], 0.0)


def test_published_policies_as_they_stand_on_the_page():
    """S12, S13, S15, S18: Every computing task of a run at 40 tasks, estimates by numpy.polyfit."""
    for policy in (policies.DescribedUniform(), policies.DescribedLARA(), policies.DescribedUARALARA()):
        seen, compared = watched(policy), 0
        for k in range(20, len(seen), 7):
            now = seen[k]
            who = np.flatnonzero(now["computing"][0])
            if not len(who):
                continue
            equal = min(150 / now["active"].sum(), 30.0)
            left = [fitted(seen[: k + 1], i) for i in who]
            pace = [
                None if v is None else max(v, 1.0) / max(now["deadline"][0, i] - now["step"], 1)
                for v, i in zip(left, who, strict=True)
            ]
            known = [v for v in pace if v is not None]
            if policy.label == "DescribedUniform":
                expected = [equal] * len(who)
            elif not known:
                continue
            elif policy.label == "DescribedLARA":
                mean = np.mean([v**0.4 for v in known])
                weight = np.array([mean if v is None else v**0.4 for v in pace])
                expected = np.minimum(150 * weight / weight.sum(), 30.0)
            else:
                expected = [min(1.4 * (np.mean(known) if v is None else v), equal) for v in pace]
            assert now["compute"][0, who] == pytest.approx(expected, rel=1e-6)
            compared += len(who)
        assert compared > 10


def test_the_work_that_is_left():
    """S17: The mean of a lognormal beyond what is done, by quadrature."""
    for w, sd, done in ((4.0, 0.5, 30.0), (5.0, 1.2, 400.0), (3.0, 0.2, 10.0)):
        law = stats.lognorm(sd, scale=math.exp(w))
        area, _ = integrate.quad(lambda v, law=law: law.sf(v), done, math.inf)
        assert called(mean_beyond)(w, sd, done) == pytest.approx(area / law.sf(done), rel=1e-6)


def test_a_belief_by_matrices(rng):
    """S19, S20: Posterior of (ln a, b) and the delta method, with numpy.linalg and finite differences."""
    mu, V, sigma2 = np.array([0.1, 0.4]), np.array([[0.03, 0.002], [0.002, 0.005]]), 0.02**2
    x, y, weight = np.log(rng.uniform(2, 90, 6)), rng.uniform(-2, 0, 6), rng.uniform(0.01, 0.4, 6)
    m = np.zeros(bayes.ROOM)  # a tile; its first task
    moments = (6, weight.sum(), weight @ x, weight @ x**2, weight @ y, weight @ (x * y), weight @ y**2)
    m[: 7 * bayes.WIDTH : bayes.WIDTH] = moments
    called(bayes.believe)(m, 8, np.array([*mu, V[0, 0], V[0, 1], V[1, 1], sigma2, 1.0]))
    rows = np.stack([np.ones(6), -x])
    precision = np.linalg.inv(V) + rows * weight @ rows.T / sigma2
    mean = np.linalg.solve(precision, np.linalg.solve(V, mu) + rows @ (weight * y) / sigma2)
    assert m[[bayes.LA, bayes.LB]] == pytest.approx(mean)
    belief = np.linalg.inv(precision)
    assert m[[bayes.VAA, bayes.VAB, bayes.VBB]] == pytest.approx([belief[0, 0], belief[0, 1], belief[1, 1]])
    told = called(bayes.work_of)(0.2, 0.35, 0.01, 0.001, 0.0005, math.log(0.15))
    work = lambda a, b: (a - math.log(0.15)) / b  # noqa: E731
    slope = optimize.approx_fprime([0.2, 0.35], lambda v: work(*v), 1e-7)
    spread = slope @ np.array([[0.01, 0.001], [0.001, 0.0005]]) @ slope
    assert told == (pytest.approx(work(0.2, 0.35)), pytest.approx(math.sqrt(spread), rel=1e-4))


def test_the_price_of_a_success(rng):
    """S25: min over d of E[min(left, d)] / P(left <= d), from the eight equally likely values themselves."""
    for _ in range(20):
        left, most = np.sort(rng.lognormal(3, 1, 8)), rng.uniform(5, 80)
        reach = [np.minimum(left, d).mean() / (left <= d).mean() for d in left if d <= most]
        assert price_of(left, left, 1.0, most, 0.5)[0] == pytest.approx(min(reach, default=math.inf))


def test_the_price_of_a_success_under_two_beliefs(rng):
    """S25: The same of sixteen values, eight with weight p / 8 and eight with (1 - p) / 8; and P(left <= most)."""
    for _ in range(20):
        two, most, p = np.sort(rng.lognormal(3, 1, (2, 8)), axis=1), rng.uniform(5, 80), rng.uniform(0.1, 0.9)
        left, weight = two.ravel(), np.repeat([p / 8, (1 - p) / 8], 8)
        reach = [weight @ np.minimum(left, d) / weight[left <= d].sum() for d in left if d <= most]
        price, _, hope = price_of(two[0], two[1], p, most, 0.1)
        assert price == pytest.approx(min(reach, default=math.inf))
        assert hope == pytest.approx(weight[left <= most].sum())


@pytest.mark.parametrize("done", [1e-9, 20.0, 150.0, 400.0])
def test_quantiles_of_the_work_left(done):
    """Of a lognormal beyond what is done: within 1 % of those of scipy's truncated normal."""
    found = quantiles_of(5.0, 0.6, done)
    z = stats.truncnorm((math.log(done) - 5.0) / 0.6, math.inf).ppf((np.arange(8) + 0.5) / 8)
    assert found + done == pytest.approx(np.exp(5.0 + 0.6 * z), rel=0.01)


def test_noise_is_normal_and_belongs_to_its_observation():
    """S3: Keyed by seed, task and number: 20,000 of them have the moments of a normal, and come again."""
    keys = keys_of(np.arange(20), 10)
    drawn = np.array([normal(keys[s, i], k) for s in range(20) for i in range(10) for k in range(100)])
    assert stats.kstest(drawn, "norm").pvalue > 0.001
    assert normal(keys[3, 4], 7) == normal(keys_of(np.array([3]), 10)[0, 4], 7)
