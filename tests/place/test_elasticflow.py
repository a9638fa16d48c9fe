"""ElasticFlow: what it admits, how it shares and packs, and that its dates hold; truths by hand and by enumeration."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from equipoise.place import PlaceSpec, placers
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Deadline, Job, Linear, Sigmoid, Utility, Workload
from equipoise.place.simulate import Result, simulate
from refusals import refused

FORMS = [(admission, scaling) for admission in (False, True) for scaling in (False, True)]


def job(
    name: str, work: float, due: float, most: int = 4, *, arrival: int = 0, worth: float = 1.0, **more: object
) -> Job:
    """Up to `most` workers of a GPU each; each does a sample in a slot. Worth something `due` slots after arrival."""
    given: dict[str, object] = {"worker": {"gpu": 1}, "utility": Deadline(worth, due)} | more
    return Job(id=name, arrival=arrival, work=work, batch=most, time_per_sample=1.0, **given)  # type: ignore[arg-type]


def gpus(count: int, machines: int = 1, **more: float) -> Cluster:
    return Cluster((Machine({"gpu": count} | more, machines, "m"),))


def run(cluster: Cluster, jobs: list[Job] | Workload, slots: int = 20, **settings: object) -> Result:
    return simulate(cluster, jobs, placers.ElasticFlow(**settings), slots=slots)  # type: ignore[arg-type]


def widths(result: Result, j: int) -> list[int]:
    """Workers of a job, slot by slot, as long as it runs."""
    rows = result.schedule[result.schedule[:, 0] == j]
    return [int(rows[rows[:, 1] == t, 3].sum()) for t in range(int(rows[:, 1].min()), int(rows[:, 1].max()) + 1)]


# Admission.


def test_a_deadline_that_is_just_long_enough_is_promised():
    """Eight samples at four a slot: two slots, so slot 1 can be promised and slot 0 cannot."""
    result = run(gpus(4), [job("a", 8, 1)])
    assert (result.states, result.due(0), result.finish.tolist()) == (("admitted",), 1, [1])
    assert run(gpus(4), [job("a", 8, 0)]).states == ("refused",)


def test_who_is_due_first_goes_first_though_he_came_later():
    """Two GPUs. a needs both for two slots, by slot 3; b and c come a slot later, need both for a slot, by slots 1 and 2.
    Had a kept slots 0 and 1, b would be too late; all are in time only as a, b, c, a."""
    jobs = [job("a", 4, 3, 2), job("b", 2, 0, 2, arrival=1), job("c", 2, 1, 2, arrival=1)]
    assert run(gpus(2), jobs).finish.tolist() == [3, 1, 2]


def test_one_too_many_is_declined_and_the_others_are_kept():
    """a and b need all of slots 0 and 1. c, due in them, has no room; d, due in slot 2, has."""
    jobs = [job("a", 4, 0), job("b", 4, 1), job("c", 1, 1), job("d", 4, 2)]
    result = run(gpus(4), jobs)
    assert result.finish.tolist() == [0, 1, -1, 2]
    assert result.reasons == {"no_capacity": 1}


def test_a_remainder_of_three_is_never_used_by_four():
    """a has one of four GPUs for three slots. b could do its six samples with all four in two; it gets two: three slots."""
    jobs = [job("a", 3, 2, 1), job("b", 6, 2)]
    assert widths(run(gpus(4), jobs), 1) == [2, 2, 2]
    assert run(gpus(4), [jobs[0], job("b", 7, 2)]).states == ("admitted", "refused")


LEVELS = (0, 1, 2, 4)


def possible(jobs: list[tuple[int, int]], slots: int = 4, total: int = 4) -> bool:
    """Whether all can be in time, by trying every allocation of every slot: jobs are (work, slots they have)."""
    shares = [one for one in itertools.product(LEVELS, repeat=len(jobs)) if sum(one) <= total]

    @cache
    def reached(t: int, left: tuple[int, ...]) -> bool:
        if any(work > 0 and t >= due for work, (_, due) in zip(left, jobs, strict=True)):
            return False
        if not any(left):
            return True
        after = {tuple(max(0, work - w) for work, w in zip(left, one, strict=True)) for one in shares}
        return any(reached(t + 1, one) for one in after)

    return reached(0, tuple(work for work, _ in jobs))


def test_admission_against_every_allocation_of_three_jobs_on_four_gpus():
    """500 draws of three jobs due within four slots. Who is admitted can be in time together; a job alone is admitted when
    it can be. Shares are greedy, so of three that could all be in time one may be declined: at most every sixth time."""
    rng = np.random.default_rng(3)
    all_three = missed = 0
    for _ in range(500):
        drawn = [(int(rng.integers(1, 9)), int(rng.integers(1, 5))) for _ in range(3)]
        jobs = [job(str(k), work, due - 1) for k, (work, due) in enumerate(drawn)]
        result = run(gpus(4), jobs)
        admitted = [one for one, state in zip(drawn, result.states, strict=True) if state == "admitted"]
        assert possible(admitted)
        assert (result.states[0] == "admitted") == possible(drawn[:1])
        assert all(result.finish[j] <= result.due(j) for j in range(3) if result.due(j) is not None)
        all_three += possible(drawn)
        missed += possible(drawn) and len(admitted) < 3
    assert all_three > 100
    assert missed <= all_three / 6


# Promises.


def drawn(seed: int, *, wrong: float = 0.0, restart: float = 0.0) -> tuple[Cluster, Workload]:
    """Sixty jobs at about twice the load: machines of 2 to 8 GPUs, cpu scarce for some; gradients, servers, any width."""
    rng = np.random.default_rng([seed, 5])
    machine = {"gpu": int(rng.choice([2, 4, 6, 8])), "cpu": int(rng.choice([12, 40]))}
    jobs = []
    for k in range(60):
        most, slots = int(rng.integers(1, 17)), float(rng.uniform(0.5, 12.0))
        worker = {"gpu": int(rng.choice([0, 1, 1, 1, 2])), "cpu": int(rng.integers(1, 5))}
        served = bool(rng.random() < 0.3)
        one = job(str(k), 1.0, float(rng.integers(0, 20)), most, arrival=int(rng.integers(0, 40)), worker=worker)
        one = one.but(
            server={"cpu": 2000} if served else None, workers_per_server=3, gradient=float(rng.uniform(0, 0.5))
        )
        one = one.but(inside=10.0, between=2.0, restart=restart, actual=float(1 + rng.uniform(-wrong, wrong)))
        jobs.append(one.but(work=slots * one.rate(max(1, most // 2), together=False), requested=max(1, most // 2)))
    return Cluster((Machine(machine, int(rng.integers(1, 6)), "m"),)), Workload(tuple(jobs))


@pytest.mark.parametrize("restart", [0.0, 0.2])
def test_every_date_holds_when_durations_do(restart: float):
    """Forty random workloads, certified; and no promise is given in vain: whoever is promised runs."""
    promised = 0
    for seed in range(40):
        cluster, jobs = drawn(seed, restart=restart)
        result = run(cluster, jobs, 70)
        assert result.certificate().passed, (seed, result.certificate())
        assert all(0 <= result.finish[j] <= due for j in range(len(jobs)) if (due := result.due(j)) is not None), seed
        promised += result.admitted
    assert promised > 400


def test_a_job_that_is_longer_than_it_said_breaks_no_date_but_its_own():
    """Twenty workloads with true work up to half off: the certificate asks it of all that are no longer than stated."""
    longer = done = 0
    for seed in range(20):
        cluster, jobs = drawn(seed, wrong=0.5)
        result = run(cluster, jobs, 70)
        assert result.certificate().passed, seed
        late = [j for j in range(len(jobs)) if result.due(j) is not None and jobs[j].actual > 1.0]
        longer += len(late)
        done += sum(result.finish[j] >= 0 for j in late)
    assert longer > 20
    assert done > 0.9 * longer  # they go on, on what the others leave


def test_every_share_finds_its_seats():
    """Powers of two, the widest first: with 1 x 8, 2 x 4, 4 x 2 and 8 x 1 on machines of eight, all in use in every slot."""
    mix = [(8, 1), (4, 2), (2, 4), (1, 8)]
    jobs = [job(f"{w}-{k}", 3 * w, 2, w) for w, count in reversed(mix) for k in range(count)]
    result = run(gpus(8, 4), jobs)
    assert (result.finish == 2).all()
    assert [int(result.schedule[result.schedule[:, 1] == t, 3].sum()) for t in range(3)] == [32] * 3
    assert len(result.schedule) == 3 * len(jobs)  # each on one machine


def test_what_is_scarce_besides_gpus_takes_a_larger_part_of_a_machine():
    """Eight GPUs and eight CPUs; a worker takes a GPU and two CPUs, so four fit. Two such jobs of four take turns."""
    jobs = [job(str(k), 8, 3, 4, worker={"gpu": 1, "cpu": 2}) for k in range(2)]
    assert run(gpus(8, cpu=8), jobs).states == ("admitted", "admitted")
    assert run(gpus(8, cpu=8), [*jobs, job("c", 1, 3, 4, worker={"gpu": 1, "cpu": 2})]).states[2] == "refused"


DATES: list[tuple[Utility, int]] = [
    (Deadline(1.0, 6.9), 6),
    (Linear(1.0, 6.0), 5),  # the last slot in which it is worth anything
    (Sigmoid(1.0, 2.0, 6.5), 6),  # its middle
    (Sigmoid(1.0, 0.0, 1.0), 11),  # worth the same whenever: the end of the horizon
    (Deadline(1.0, 99.0), 11),
]


@pytest.mark.parametrize(("utility", "date"), DATES)
def test_the_date_of_each_kind_of_worth(utility: Utility, date: int):
    """By hand, for a job that comes in slot 2 and a horizon of twelve; the worth promised is that of the date."""
    result = simulate(gpus(4), [job("a", 2, 1, utility=utility, arrival=2)], placers.ElasticFlow(), horizon=12)
    assert result.due(0) == 2 + date
    assert result.certificate().passed


# What is left over, and the parts it is made of.


def test_idle_gpus_widen_the_job_that_loses_least_by_it():
    """Each needs a GPU for eight slots; the fourth GPU is left over. b exchanges gradients: a second worker makes it 4/3 as
    fast, but a twice. c can have one only. So a has two, until its last sample, though b is asked first."""
    jobs = [job("b", 8, 7, gradient=1.0, inside=1.0), job("a", 8, 7), job("c", 8, 7, 1)]
    result = run(gpus(4), jobs)
    assert widths(result, 1) == [2, 2, 2, 2]
    assert widths(result, 0)[:5] == [1, 1, 1, 1, 2]


def test_without_scaling_a_job_has_the_width_it_asked_for_or_nothing():
    """Two of four GPUs asked for: four slots, though two are idle; one that asked for three is seated as three."""
    result = run(gpus(4), [job("a", 8, 9, requested=2), job("b", 3, 9, requested=3)], scaling=False)
    assert (widths(result, 0), widths(result, 1)) == ([2, 2, 2, 2], [3])


def test_without_admission_the_late_go_first():
    """Plain EDF: a cannot be in time and is due first, so b is late too. With admission b is in time."""
    jobs = [job("a", 8, 0, requested=4), job("b", 4, 1, requested=4)]
    plain = run(gpus(4), jobs, scaling=False, admission=False)
    assert (plain.finish.tolist(), plain.utility, plain.states) == ([1, 2], 0.0, ("lent", "lent"))
    assert run(gpus(4), jobs, scaling=False).utility == 1.0


def test_admission_helps_scaling_helps_and_both_help_most():
    """Its figure 9 in small: 150 jobs at twice the load of sixteen GPUs, deadlines .5 to 1.5 of the duration, up to
    four times the width."""
    rng = np.random.default_rng(9)
    width, slots = 2 ** rng.integers(0, 4, 150), rng.lognormal(2.0, 0.8, 150)
    arrival = np.sort(rng.uniform(0, (width * slots).sum() / 32, 150)).astype(int)
    jobs = []
    for k in range(150):
        due = float(np.ceil(slots[k] * rng.uniform(0.5, 1.5)) - 1)
        most = min(16, 4 * int(width[k]))
        jobs.append(job(str(k), slots[k] * width[k], due, most, arrival=int(arrival[k]), requested=int(width[k])))
    met = {form: run(gpus(8, 2), jobs, 400, admission=form[0], scaling=form[1]).utility for form in FORMS}
    assert met[False, False] < min(met[True, False], met[False, True])
    assert met[True, True] > max(met[True, False], met[False, True])


# The price.


def pairs(count: int) -> Workload:
    """Every two slots a job worth 1 comes, then one worth 10; each needs one GPU for those two slots."""
    each = [(f"{kind}-{t}", worth, 2 * t) for t in range(count) for kind, worth in (("cheap", 1.0), ("dear", 10.0))]
    return Workload(tuple(job(name, 2, 1, 1, arrival=when, worth=worth) for name, worth, when in each))


def test_a_price_declines_what_is_worth_less_than_its_share():
    """A share of four GPU-slots: at .2 each it costs .8, at .3 it costs 1.2, more than the job's worth."""
    one = [job("a", 4, 3)]
    assert run(gpus(4), one, theta=0.2).states == ("admitted",)
    assert run(gpus(4), one, theta=0.3).reasons == {"priced_out": 1}


def test_the_price_from_history_keeps_room_for_what_is_worth_more():
    """Whoever comes first has the GPU: the cheap. A price between 1/2 and 5 a slot leaves it to the dear."""
    past, jobs = pairs(8), pairs(5)
    assert run(gpus(1), jobs).utility == 5.0
    priced = placers.ElasticFlow(history=past)
    found = simulate(gpus(1), jobs, priced, slots=20)
    assert found.utility == 50.0
    assert 0.5 < found.detail["theta"] <= 5.0


def test_priced_is_made_by_name_with_history_and_all_leaves_it_out():
    """As the command line makes it: the built-in example's other draws are its history."""
    priced, plain = PlaceSpec(draw=10, policy="elasticflow:priced,elasticflow").build().placers
    assert isinstance(priced, placers.ElasticFlow)
    assert isinstance(plain, placers.ElasticFlow)
    assert (priced.label, plain.label) == ("ElasticFlow priced", "ElasticFlow")
    assert (len(priced.history or ()), plain.history) == (2, None)
    played = PlaceSpec(policy="all").policy
    assert {"easy", "fifo"} <= {*played}
    assert not {"elasticflow", "sia"} & {*played}


# Refused.


def test_unequal_machines_are_refused():
    with refused("elasticflow.machines", "small", "large"):
        run(Cluster((Machine({"gpu": 4}, name="small"), Machine({"gpu": 8}, name="large"))), [job("a", 1, 1)])


def test_a_price_below_zero_is_refused():
    with refused("number.range", "-1"):
        placers.ElasticFlow(theta=-1.0)
