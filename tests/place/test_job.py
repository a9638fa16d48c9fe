"""A job: how fast it runs (by hand), what it holds, and what cannot be a job."""

import math

import pytest
from hypothesis import given, strategies as st

from equipoise.errors import InputError
from equipoise.place.job import Deadline, Job, Sigmoid, Workload
from refusals import refused

SLOT = 3600  # seconds


def job(**changes):
    """The job of the specification's section 7: gamma 4, F 100, b_i 20 Gbps, b_e 1 Gbps, slots of an hour."""
    values = {
        "id": "a",
        "arrival": 0,
        "work": 1e6,
        "batch": 100,
        "time_per_sample": 5e-5,
        "worker": {"gpu": 1},
        "server": {"cpu": 1},
        "workers_per_server": 4,
        "gradient": 300e6,
        "inside": 2.5e9 * SLOT,
        "between": 1.25e8 * SLOT,
        "utility": Sigmoid(80, 0.5, 6),
    }
    return Job(**(values | changes))


def test_slots_per_sample_by_hand():
    """tau + (gamma/F)(2 g/b): 5e-5 + .04 x 6e8 / 4.5e11 = 1.03333e-4 between machines, 5.26667e-5 inside one."""
    assert job().sigma(job().between) == pytest.approx(1.03333e-4, abs=5e-10)
    assert job().sigma(job().inside) == pytest.approx(5.26667e-5, abs=5e-11)
    assert job().sigma(job().between) == pytest.approx(5e-5 + 0.04 * 6e8 / 4.5e11, rel=1e-14)
    assert job().sigma(job().inside) == pytest.approx(5e-5 + 0.04 * 6e8 / 9e12, rel=1e-14)


@pytest.mark.parametrize(("workers", "servers"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_workers_need_servers(workers, servers):
    """gamma 4: 8 workers need 2 servers, 9 need 3, 1 needs 1."""
    assert job().servers(workers) == servers


def test_eight_workers_together_and_apart():
    """All on one machine 8 / sigma_i; with a server elsewhere 8 / sigma_e for every worker. By hand 151899 and 77419."""
    assert job().rate(8, together=True) == pytest.approx(8 / 5.2666666666667e-5, rel=1e-12)
    assert job().rate(8, together=False) == pytest.approx(8 / 1.0333333333333e-4, rel=1e-12)
    assert job().rate(8, together=True) == pytest.approx(151898.7, abs=0.1)
    assert job().rate(8, together=False) == pytest.approx(77419.4, abs=0.1)


def test_all_reduce_by_hand():
    """F / (tau F/w + 2 (w-1)/w g/b) at w = 4: 100 / (1.25e-3 + 1.5 x 3e8/b), b = 9e12 inside and 4.5e11 between."""
    ring = job(server=None)
    assert ring.rate(4, together=True) == pytest.approx(100 / (1.25e-3 + 5e-5), rel=1e-12)
    assert ring.rate(4, together=False) == pytest.approx(100 / (1.25e-3 + 1e-3), rel=1e-12)
    assert ring.servers(4) == 0


@pytest.mark.parametrize("together", [True, False])
def test_one_worker_alone_exchanges_nothing(together):
    """All-reduce at w = 1 is 1 / tau = 20000 samples per slot, whatever the network; no worker does nothing."""
    ring = job(server=None, between=1.0)
    assert ring.rate(1, together=together) == pytest.approx(20_000, rel=1e-14)
    assert ring.rate(0, together=together) == job().rate(0, together=together) == 0


@given(st.integers(0, 100), st.booleans(), st.booleans(), st.floats(0, 1e9))
def test_together_is_never_slower(workers, ring, together, gradient):
    """More bandwidth cannot hurt, and `rates` lists `rate` for every width."""
    one = job(gradient=gradient, **({"server": None} if ring else {}))
    assert one.rate(workers, together=True) >= one.rate(workers, together=False)
    assert one.rates(workers, together=together).tolist() == [
        one.rate(w, together=together) for w in range(workers + 1)
    ]


@given(st.integers(1, 100), st.booleans())
def test_a_free_network_makes_workers_add_up(workers, ring):
    """Without a gradient to send, w workers are w times one."""
    one = job(gradient=0, **({"server": None} if ring else {}))
    assert one.rate(workers, together=False) == pytest.approx(workers / 5e-5, rel=1e-12)


@pytest.mark.parametrize(("most", "widest"), [(None, 100), (7, 7), (500, 100)])
def test_the_global_batch_limits_the_width(most, widest):
    """At most F workers, or `most` if that is less."""
    assert job(most=most).widest == widest


def test_demands_are_held_in_milli_units_and_kept_by_but():
    """A changed job does not read its milli-units as units again."""
    changed = job(worker={"gpu": "500m", "memory": "1Ki"}).but(arrival=3).but(work=5.0)
    assert changed.worker == {"gpu": 500, "memory": 1_024_000}
    assert (changed.arrival, changed.work) == (3, 5.0)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("arrival", [-1, 0.5, math.nan, math.inf, "0", None, True, [0]]),
        ("work", [0, -1, math.nan, math.inf, "5", None, True, 1e16]),
        ("batch", [0, -1, 1.5, math.nan, "5", None, True]),
        ("time_per_sample", [0, -1, math.nan, math.inf, "5ms", None]),
        ("worker", [{}, {"gpu": 0}, {"gpu": -1}, {"gpu": "x"}, 5, None, [1]]),
        ("server", [{"cpu": -1}, 5, [1]]),
        ("utility", [5, None, {"kind": "linear"}]),
        ("workers_per_server", [0, 1.5, "4", None]),
        ("gradient", [-1, math.nan, math.inf, "440MB"]),
        ("inside", [0, -1, math.nan, "10Gbps"]),
        ("between", [0, -1, math.nan, "10Gbps"]),
        ("requested", [0, 1.5, "4", True, math.inf]),
        ("most", [0, -2, "four", [4], math.nan]),
        ("restart", [-0.1, math.nan, math.inf, "30s"]),
        ("actual", [0, -1, math.nan, math.inf, "1"]),
    ],
)
def test_what_cannot_be_a_job(field, bad):
    """Every field on its own: the job and the field are named, in one line."""
    for value in bad:
        with pytest.raises(InputError) as caught:
            job(**{field: value})
        assert caught.value.code.partition(".")[0] in ("number", "quantity", "job")
        assert field in str(caught.value) and "job 'a'" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_workload_is_in_order_of_arrival():
    """Sorted by arrival, and jobs of one slot stay as given."""
    load = Workload((job(id="c", arrival=2), job(id="b"), job(id="a")))
    assert [one.id for one in load] == ["b", "a", "c"]
    assert [one.id for one in load[1:]] == ["a", "c"]
    assert load[0].id == "b"
    assert len(load) == 3


def test_a_part_of_a_workload_starts_at_zero():
    """Slots 2 and 3 of four, moved to 0 and 1; nothing else changes."""
    load = Workload(tuple(job(id=str(k), arrival=k) for k in range(5)), slot=600.0)
    part = load.between(2, 4)
    assert [(one.id, one.arrival) for one in part] == [("2", 0), ("3", 1)]
    assert part.slot == 600


def test_a_list_of_jobs_is_a_workload_of_hours():
    """And a workload stays itself."""
    load = Workload.of([job()])
    assert load.slot == 3600
    assert Workload.of(load) is load


@pytest.mark.parametrize("slot", [0, -1, math.nan])
def test_a_slot_has_a_length(slot):
    """Zero or less is refused."""
    with refused("slot.range"):
        Workload((job(),), slot=slot)


def test_ids_differ():
    """Two jobs of one name could not be told apart in a schedule."""
    with refused("job.twice", "'a'"):
        Workload((job(), job(utility=Deadline(1, 1))))


def test_jobs_between_slots_of_a_file_without_a_date():
    """The start of a file may be any text: what is no date has no calendar time later either."""
    jobs = Workload((job(arrival=3),), start="a Monday")
    assert (jobs.between(2, 4).start, jobs.between(2, 4)[0].arrival) == ("", 1)
