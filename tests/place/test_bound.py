"""Upper bounds on utility: the integer program against enumeration, the linear one against it, CVXPY, and by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from equipoise.place.bound import bound
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Deadline, Job, Linear, Sigmoid, Unstated, Utility, Workload
from refusals import refused

approx = pytest.approx

ONE_GPU_EACH = Cluster((Machine({"gpu": 1}, 2),))


def job(id: str = "a", **changes: object) -> Job:
    """One worker does a sample a slot, wherever it is; four samples, worth 10 within 10 slots."""
    plain: dict[str, object] = {
        "id": id,
        "arrival": 0,
        "work": 4.0,
        "batch": 8,
        "time_per_sample": 1.0,
        "worker": {"gpu": 1},
        "utility": Deadline(10.0, 10.0),
    }
    return Job(**(plain | changes))  # type: ignore[arg-type]


def drawn_utility(rng: np.random.Generator) -> Utility:
    value = float(rng.uniform(1, 20))
    kinds = [
        Sigmoid(value, float(rng.choice([0.0, 0.5, 3.0])), float(rng.uniform(0, 3))),
        Deadline(value, float(rng.integers(0, 4))),
        Linear(value, float(rng.uniform(1, 5))),
    ]
    return kinds[rng.integers(3)]


def drawn_job(rng: np.random.Generator, id: str, slots: int, *, widest: int = 3) -> Job:
    """A few samples and workers; half of them with servers, exchange times of the order of the computing."""
    serves = bool(rng.random() < 0.5)
    between = float(rng.uniform(0.5, 4))
    return Job(
        id=id,
        arrival=int(rng.integers(0, slots)),
        work=float(rng.uniform(0.5, 5)),
        batch=int(rng.integers(1, widest + 1)),
        time_per_sample=float(rng.uniform(0.3, 1)),
        worker={"gpu": int(rng.integers(1, 3)), "cpu": int(rng.integers(0, 3))},
        utility=drawn_utility(rng),
        server={"cpu": int(rng.integers(1, 3))} if serves else None,
        workers_per_server=int(rng.integers(1, 4)),
        gradient=float(rng.uniform(0, 1)),
        inside=between * float(rng.uniform(1, 5)),
        between=between,
        actual=float(rng.choice([1.0, 0.6, 1.4])),
    )


def drawn_cluster(rng: np.random.Generator) -> Cluster:
    return Cluster(
        (
            Machine({"gpu": int(rng.integers(1, 5)), "cpu": int(rng.integers(1, 6))}),
            Machine({"gpu": int(rng.integers(0, 3)), "cpu": int(rng.integers(1, 5))}),
        )
    )


# --- enumeration, written without the package's formulas --------------------------------------------------------------


def placements(cluster: Cluster, one: Job) -> list[tuple[np.ndarray, float]]:
    """Every (demand [machine, resource], samples in the slot) of a job; doing nothing is first."""
    machines = [dict(m.capacity) for m in cluster.machines for _ in range(m.count)]
    names = cluster.resources
    found = [(np.zeros((len(machines), len(names))), 0.0)]
    for width in range(1, one.widest + 1):
        servers = 0 if one.server is None else math.ceil(width / one.workers_per_server)
        for ws in itertools.product(range(width + 1), repeat=len(machines)):
            for ss in itertools.product(range(servers + 1), repeat=len(machines)):
                if sum(ws) != width or sum(ss) != servers:
                    continue
                used = np.array(
                    [
                        [w * one.worker.get(r, 0) + s * (one.server or {}).get(r, 0) for r in names]
                        for w, s in zip(ws, ss, strict=True)
                    ],
                    dtype=float,
                )
                room = np.array([[m.get(r, 0) for r in names] for m in machines], dtype=float)
                if (used <= room).all():
                    alone = sum(bool(w or s) for w, s in zip(ws, ss, strict=True)) == 1
                    found.append((used, samples(one, width, one.inside if alone else one.between)))
    return found


def samples(one: Job, width: int, band: float) -> float:
    """The spec's rates, section 1."""
    tau, big, g = one.time_per_sample, one.batch, one.gradient
    if one.server is not None:
        return width / (tau + one.workers_per_server / big * 2 * g / band)
    return big / (tau * big / width + (2 * (width - 1) / width) * g / band)


def best_by_enumeration(cluster: Cluster, jobs: list[Job], slots: int) -> float:
    """All placements of all jobs in all slots; the work done so far decides the rest."""
    room = np.array(
        [[m.capacity.get(r, 0) for r in cluster.resources] for m in cluster.machines for _ in range(m.count)]
    )
    options = [placements(cluster, one) for one in jobs]

    def rest(t: int, left: tuple[float, ...]) -> float:
        if t == slots:
            return 0.0
        best = 0.0
        running = [
            range(len(o)) if had > 0 and j.arrival <= t else (0,) for o, had, j in zip(options, left, jobs, strict=True)
        ]
        for chosen in itertools.product(*running):
            placed = [options[i][k] for i, k in enumerate(chosen)]
            if (sum(used for used, _ in placed) > room).any():
                continue
            after, gained = [], 0.0
            for one, had, (_, rate) in zip(jobs, left, placed, strict=True):
                now = had - rate
                if had > 0 and now <= 1e-8 * one.work:
                    gained, now = gained + one.utility(t - one.arrival), 0.0
                after.append(now)
            best = max(best, gained + rest_known(t + 1, tuple(after)))
        return best

    known: dict[tuple[int, tuple[float, ...]], float] = {}

    def rest_known(t: int, left: tuple[float, ...]) -> float:
        key = (t, tuple(round(x, 9) for x in left))
        if key not in known:
            known[key] = rest(t, left)
        return known[key]

    return rest_known(0, tuple(one.work * one.actual for one in jobs))


def tiny(seed: int) -> tuple[Cluster, list[Job], int]:
    """One or two jobs, two machines, two or three slots; most can complete."""
    rng = np.random.default_rng(seed)
    cluster, slots, count = drawn_cluster(rng), int(rng.integers(2, 4)), int(rng.integers(1, 3))
    jobs = [drawn_job(rng, f"j{k}", 2, widest=4 - count) for k in range(count)]
    return cluster, [one.but(work=one.work / 2) for one in jobs], slots


@pytest.mark.parametrize("seed", range(24))
def test_the_exact_bound_is_the_best_of_all_schedules(seed: int) -> None:
    """The integer program equals enumeration."""
    cluster, jobs, slots = tiny(seed)
    found = bound(cluster, jobs, slots=slots, exact=True)
    assert found.utility == approx(best_by_enumeration(cluster, jobs, slots), abs=1e-6)
    assert found.status == "optimal"


def test_enumeration_meets_jobs_worth_something() -> None:
    """The comparison above is not between zeros, and some of its optima cannot complete every job at once."""
    found = [bound(cluster, jobs, slots=slots, exact=True) for cluster, jobs, slots in map(tiny, range(24))]
    assert sum(one.utility > 0.1 for one in found) >= 14
    assert sum(one.utility > 0.1 and one.completion.min() == 0.0 for one in found) >= 2


@pytest.mark.parametrize("seed", range(30))
def test_the_linear_bound_is_never_below_the_optimum(seed: int) -> None:
    """Three jobs, two unequal machines, four slots, every kind of job and utility; merged slots are looser still."""
    rng = np.random.default_rng(1000 + seed)
    cluster = drawn_cluster(rng)
    jobs = [drawn_job(rng, f"j{k}", 3) for k in range(3)]
    best = bound(cluster, jobs, slots=4, exact=True)
    fine, merged = bound(cluster, jobs, slots=4), bound(cluster, jobs, slots=4, coarsen=2)
    assert fine.utility >= best.utility - 1e-7
    assert merged.utility >= fine.utility - 1e-7


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_a_shared_gpu_is_divided_by_worth_per_sample() -> None:
    """Two GPUs, two slots, so 4 GPU-slots; a needs 3 (worth 9), b needs 2 (8). b whole, then 2/3 of a: 14; whole jobs: 9."""
    jobs = [job("a", work=3.0, utility=Deadline(9, 5)), job("b", work=2.0, utility=Deadline(8, 5))]
    found = bound(ONE_GPU_EACH, jobs, slots=2)
    assert found.utility == approx(14.0, abs=1e-6)
    assert found.completion == approx([2 / 3, 1.0], abs=1e-6)
    assert (found.kind, found.status, found.coarsen) == ("lp", "optimal", 1)
    assert bound(ONE_GPU_EACH, jobs, slots=2, coarsen=2).utility == approx(
        14.0, abs=1e-6
    )  # flat: merging loses nothing
    assert bound(ONE_GPU_EACH, jobs, slots=2, exact=True).utility == approx(9.0, abs=1e-6)


def test_a_job_completes_no_earlier_than_alone() -> None:
    """Three samples on two GPUs take two slots, so nothing completes in the first: u(1) = 5, not a part of u(0) = 10."""
    one = job(work=3.0, utility=Linear(10, 2))
    assert bound(ONE_GPU_EACH, [one], slots=3).utility == approx(5.0, abs=1e-6)


def test_nothing_stated_bounds_the_number_of_jobs() -> None:
    """Two GPUs, three jobs of a GPU for two slots: two are done in two slots, all in three (each GPU is shared by two)."""
    jobs = [job(f"j{k}", work=2.0, batch=1, utility=Unstated()) for k in range(3)]
    found = [bound(ONE_GPU_EACH, jobs, slots=slots, exact=True).utility for slots in (2, 3)]
    assert found == approx([2.0, 3.0], abs=1e-6)


def test_servers_take_their_part() -> None:
    """Two workers to a server, a cpu each, four cpus: 8/3 workers at once by the sum, so 4 samples take two slots."""
    one = job(worker={"cpu": 1}, server={"cpu": 1}, workers_per_server=2, utility=Linear(10, 4))
    cluster = Cluster((Machine({"cpu": 2}, 2),))
    assert bound(cluster, [one], slots=4).utility == approx(7.5, abs=1e-6)
    assert bound(cluster, [one], slots=4, exact=True).utility == approx(7.5, abs=1e-6)  # 2 workers, 1 server, apart


@pytest.mark.parametrize("machines", [(Machine({"gpu": 4, "cpu": 3}),), (Machine({"gpu": 1}, 4), Machine({"cpu": 3}))])
def test_every_worker_has_its_server(machines: tuple[Machine, ...]) -> None:
    """A server to a worker and three cpus for them, together or apart: of two jobs of two workers one can run."""
    jobs = [job(k, work=2.0, batch=2, server={"cpu": 1}) for k in "ab"]
    assert bound(Cluster(machines), jobs, slots=1, exact=True).utility == approx(10.0, abs=1e-6)
    assert bound(Cluster(machines), jobs, slots=1).utility == approx(15.0, abs=1e-6)


def test_a_lone_worker_needs_a_whole_server() -> None:
    """Up to four workers to a server, but these jobs have one each: a cpu lets one of the two run."""
    jobs = [job(k, work=1.0, batch=1, server={"cpu": 1}, workers_per_server=4) for k in "ab"]
    cluster = Cluster((Machine({"gpu": 4, "cpu": 1}),))
    assert bound(cluster, jobs, slots=1).utility == approx(10.0, abs=1e-6)


def test_a_job_that_exchanges_too_much_runs_on_one_worker() -> None:
    """Two workers would be slower than one, so four samples take four slots: u(3) = 25."""
    one = job(batch=4, gradient=10.0, inside=1.0, between=1.0, utility=Linear(100, 4))
    for exact in (False, True):
        assert bound(Cluster((Machine({"gpu": 4}, 2),)), [one], slots=6, exact=exact).utility == approx(25.0, abs=1e-6)


@pytest.mark.parametrize("together", [True, False])
def test_a_job_alone_reaches_the_worth_of_its_fastest_finish(together: bool) -> None:
    """Inside a machine sigma is 1 + 2/2 = 2, between 1 + 2/1 = 3: four workers take 4 slots or 6 for 8 samples."""
    one = job(
        work=8.0,
        batch=4,
        worker={"gpu": 1},
        server={"cpu": 1},
        workers_per_server=4,
        gradient=1.0,
        inside=2.0,
        between=1.0,
        utility=Linear(100, 10),
    )
    machine = Machine({"gpu": 4, "cpu": 1}) if together else Machine({"gpu": 2, "cpu": 1}, 2)
    worth = 70.0 if together else 50.0
    assert bound(Cluster((machine,)), [one], slots=20, exact=True).utility == approx(worth, abs=1e-6)
    assert bound(Cluster((machine,)), [one], slots=20).utility >= worth - 1e-6


def test_true_work_counts_not_the_stated() -> None:
    """Stated 4 samples, truly 2: done in one slot on two GPUs."""
    one = job(actual=0.5, utility=Linear(10, 2))
    assert bound(ONE_GPU_EACH, [one], slots=5).utility == approx(10.0, abs=1e-6)
    assert bound(ONE_GPU_EACH, [one], slots=5, exact=True).utility == approx(10.0, abs=1e-6)


def test_workers_confined_to_some_machines_share_those() -> None:
    """Memory is plentiful on the machine without GPUs, but GPU workers cannot use it: one of the two jobs at a time."""
    cluster = Cluster((Machine({"gpu": 8, "memory": 4}), Machine({"memory": 100})))
    jobs = [job(k, batch=1, work=1.0, worker={"gpu": 1, "memory": 4}) for k in "ab"]
    assert bound(cluster, jobs, slots=1).utility == approx(10.0, abs=1e-6)


# --- the same program, written again ---------------------------------------------------------------------------------


def by_cvxpy(cluster: Cluster, jobs: list[Job], slots: int, width_in: list[int], width_out: list[int]) -> float:
    """The compact program as it stands in the spec's words, with dense cumulative sums; one machine type."""
    import cvxpy

    rules, worth = [], []
    used: list[list[object]] = [[0.0 for _ in cluster.resources] for _ in range(slots)]
    for one, wi, wo in zip(jobs, width_in, width_out, strict=True):
        n = slots - one.arrival
        y = cvxpy.Variable(n, nonneg=True)
        rules.append(cvxpy.sum(y) <= 1)
        rate, busy = 0, 0
        alone = 0.0
        for limit, band in ((wi, one.inside), (wo, one.between)):
            x = cvxpy.Variable(n, nonneg=True)
            if not limit:
                rules.append(x == 0)
                continue
            rate, busy = rate + samples(one, 1, band) * x, busy + x / limit
            alone = max(alone, samples(one, limit, band))
            servers = 0.0 if one.server is None else max(1 / one.workers_per_server, 1 / limit)
            for t in range(n):
                for r, name in enumerate(cluster.resources):
                    per_worker = one.worker.get(name, 0) + servers * (one.server or {}).get(name, 0)
                    used[one.arrival + t][r] = used[one.arrival + t][r] + per_worker * x[t]
        work = one.work * one.actual
        for c in range(n):
            rules.append(cvxpy.sum(rate[: c + 1]) >= work * cvxpy.sum(y[: c + 1]))
            rules.append(busy[c] <= cvxpy.sum(y[c:]))
            worth.append(one.utility(c) * y[c])
            if (c + 1) * alone < work:
                rules.append(y[c] == 0)
    for row in used:
        for spent, total in zip(row, cluster.total.tolist(), strict=True):
            if not isinstance(spent, float):
                rules.append(spent / total <= 1)
    problem = cvxpy.Problem(cvxpy.Maximize(sum(worth)), rules)
    return float(problem.solve(solver="CLARABEL"))


@pytest.mark.parametrize("seed", range(4))
def test_cvxpy_finds_the_same_value(seed: int) -> None:
    """Eight parameter-server jobs on three equal machines in ten slots, formulated anew."""
    rng = np.random.default_rng(seed)
    cluster = Cluster((Machine({"gpu": 3, "cpu": 6}, 3),))
    jobs = [
        drawn_job(rng, f"j{k}", 5, widest=6).but(
            server={"cpu": 1}, worker={"gpu": 1, "cpu": 1}, workers_per_server=2, work=float(rng.uniform(5, 15))
        )
        for k in range(8)
    ]
    jobs = list(Workload.of(jobs))
    # a machine holds 3 workers and 2 servers; three of them at most 9 workers
    value = by_cvxpy(cluster, jobs, 10, [min(3, j.batch) for j in jobs], [min(9, j.batch) for j in jobs])
    found = bound(cluster, jobs, slots=10)
    assert found.utility == approx(value, rel=1e-5)
    assert value > 10 and found.completion.sum() < len(jobs) - 0.5


# --- ends and refusals -----------------------------------------------------------------------------------------------


def test_no_jobs_and_jobs_that_cannot_complete_are_worth_nothing() -> None:
    """None; a worker larger than any machine; a server larger; too long; arriving at the end; worth nothing so late."""
    hopeless = [
        job("wide", worker={"gpu": 2}),
        job("server", worker={"gpu": 1}, server={"gpu": 3}),
        job("long", work=7.0),
        job("late", arrival=3),
        job("stale", work=6.0, utility=Deadline(10, 1)),
    ]
    assert bound(ONE_GPU_EACH, [], slots=3).kind == "trivial"
    for exact in (False, True):
        found = bound(ONE_GPU_EACH, hopeless, slots=3, exact=exact)
        assert (found.utility, found.kind) == (0.0, "trivial")
        assert found.completion.tolist() == [0.0] * 5


def test_a_job_may_arrive_and_finish_in_the_last_slot() -> None:
    """Arrival at T-1, two samples on two GPUs: u(0)."""
    last = job(arrival=4, work=2.0, utility=Linear(10, 5))
    for exact in (False, True):
        assert bound(ONE_GPU_EACH, [last], slots=5, exact=exact).utility == approx(10.0, abs=1e-6)
    assert bound(ONE_GPU_EACH, [last.but(work=3.0)], slots=5).utility == 0.0


def test_the_smaller_of_slots_and_horizon_ends_a_job() -> None:
    """Six samples take three slots: within a horizon of 3, not of 2, nor when the end cuts it off."""
    one = job(arrival=5, work=6.0)
    assert bound(ONE_GPU_EACH, [one], horizon=3).utility == approx(10.0, abs=1e-6)
    assert bound(ONE_GPU_EACH, [one], horizon=2).utility == 0.0
    assert bound(ONE_GPU_EACH, [one], horizon=3, slots=7).utility == 0.0
    assert bound(ONE_GPU_EACH, [one], slots=8).utility == approx(10.0, abs=1e-6)


def test_a_time_limit_still_gives_a_bound() -> None:
    """Stopped at once, the value is loose but not below the optimum."""
    rng = np.random.default_rng(5)
    cluster = Cluster((Machine({"gpu": 3, "cpu": 6}, 3),))
    jobs = [drawn_job(rng, f"j{k}", 15, widest=6) for k in range(60)]
    full, cut = bound(cluster, jobs, slots=20), bound(cluster, jobs, slots=20, time_limit=0.0)
    assert cut.status == "time_limit"
    assert cut.utility > full.utility
    assert np.isfinite(cut.utility)


def test_equal_bounds_do_not_compare_their_clocks() -> None:
    """Two runs of one instance are equal, whatever they took."""
    one = job(utility=Sigmoid(80, 0.5, 2))
    assert bound(ONE_GPU_EACH, [one], slots=6) == bound(ONE_GPU_EACH, [one], slots=6)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({}, ("slots.missing",)),
        ({"slots": 0}, ("slots.range", "slots is 0")),
        ({"horizon": 2.5}, ("slots.range", "horizon is 2.5")),
        ({"slots": 5, "coarsen": 0}, ("coarsen.range", 0)),
        ({"slots": 5, "coarsen": 2, "exact": True}, ("coarsen.exact", "exact=True")),
        ({"slots": 5, "inside": 1.0, "exact": True}, ("bound.between", "'a'")),
        ({"slots": 3000, "exact": True, "work": 6000.0, "utility": Linear(1.0, 1e4)}, ("bound.size", "exact=True")),
    ],
)
def test_what_cannot_be_bounded_is_refused(settings: dict[str, object], refusal: tuple[object, ...]) -> None:
    changes = {k: settings.pop(k) for k in ("restart", "inside", "work", "utility") if k in settings}
    with refused(*refusal):
        bound(ONE_GPU_EACH, [job(**changes)], **settings)  # type: ignore[arg-type]


def test_too_large_a_program_is_merged_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten jobs of 64 slots beyond a limit of 5,000 entries: merged until they fit, and said so; asked finer, refused."""
    monkeypatch.setattr("equipoise.place.bound_lp.FITTING", 5_000)
    monkeypatch.setattr("equipoise.place.bound_lp.MOST_ENTRIES", 5_000)
    jobs = [job(f"j{k}", arrival=k, utility=Linear(10, 80)) for k in range(10)]
    found = bound(ONE_GPU_EACH, jobs, slots=74)
    assert found.coarsen == 2 and "merged by 2" in found.note
    with refused("bound.size", "coarsen=1"):
        bound(ONE_GPU_EACH, jobs, slots=74, coarsen=1)
