"""The cluster: types of machines laid out as arrays, and what cannot be a cluster."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from equipoise.place.cluster import Cluster, Machine
from refusals import refused


def two_types():
    return Cluster((Machine({"gpu": 8, "cpu": 64}, 2, "big"), Machine({"cpu": "500m", "disk": "1Gi"}, 1, "small")))


def test_machines_run_through_the_types():
    """Two big ones, then the small one: ids 0, 1, 2."""
    cluster = two_types()
    assert cluster.size == 3
    assert cluster.type_of.tolist() == [0, 0, 1]
    assert cluster.names == ("big-0", "big-1", "small")


def test_every_resource_of_any_machine_has_a_column():
    """By hand, in milli-units: what a type lacks is 0, and totals count every machine."""
    cluster = two_types()
    assert cluster.resources == ("gpu", "cpu", "disk")
    assert cluster.capacity.tolist() == [[8000, 64000, 0], [0, 500, 2**30 * 1000]]
    assert cluster.total.tolist() == [16000, 128500, 2**30 * 1000]


def test_bandwidths_take_human_quantities():
    """20 Gbps is 2.5e9 bytes per second, 1 Gbps 1.25e8: also what a cluster has that states none."""
    machine = Machine({"gpu": 1})
    told = Cluster((machine,), inside="20Gbps", between="1Gbps")
    assert (told.inside, told.between) == (2.5e9, 1.25e8)
    assert told == Cluster((machine,))


def test_one_machine_is_a_cluster():
    """A single Machine need not be put in a tuple."""
    assert Cluster(Machine({"gpu": 1}, 5)).size == 5


def test_a_changed_machine_keeps_its_capacity():
    """`replace` hands milli-units back to the constructor: they are not read as units again."""
    machine = replace(Machine({"gpu": 8}), count=3)
    assert (machine.capacity, machine.count) == ({"gpu": 8000}, 3)


def test_a_demand_is_a_row_in_the_clusters_order():
    """Left-out resources are 0; a resource nobody has may be asked for only as 0."""
    cluster = two_types()
    assert cluster.demand({"disk": 5, "gpu": 1000, "tpu": 0}, "job 'a'").tolist() == [1000, 0, 5]
    with refused("unknown", "'a'", "'tpu'", "gpu, cpu, disk"):
        cluster.demand({"tpu": 1}, "job 'a'")


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 10**6)), min_size=1, max_size=5))
def test_the_total_is_the_sum_over_machines(types):
    """Laid out machine by machine, the capacities add up to the total, and every id has its own name."""
    cluster = Cluster(tuple(Machine({"gpu": f"{m}m"}, n, f"type{k}") for k, (n, m) in enumerate(types)))
    assert cluster.total.tolist() == cluster.capacity[cluster.type_of].sum(axis=0).tolist()
    assert len(set(cluster.names)) == cluster.size == len(cluster.type_of)


def test_machines_that_share_a_name_are_numbered():
    """Two types of one name: every machine has a name of its own."""
    cluster = Cluster((Machine({"gpu": 1}), Machine({"gpu": 4}, 2), Machine({"gpu": 2}, name="big")))
    assert cluster.names == ("machine-0", "machine-1", "machine-2", "big")


def test_a_total_may_pass_64_bits():
    """10,000 machines of 1Ti are 1.1e19 milli-bytes, and 64 bits hold 9.2e18: totals are floats, machines are exact."""
    cluster = Cluster((Machine({"memory": "1Ti"}, 10_000),))
    assert cluster.total[0] == pytest.approx(10_000 * 2**40 * 1000)
    assert cluster.capacity[0, 0] == 2**40 * 1000


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda: Machine({}), ("machine.capacity", "capacity is {}")),
        (lambda: Machine(8), ("machine.capacity", "capacity is 8")),
        (lambda: Machine({"gpu": 0}), ("machine.capacity", "'machine'")),
        (lambda: Machine({"gpu": -1}), ("quantity.range", "gpu is -1")),
        (lambda: Machine({"gpu": "many"}), ("quantity.form", "gpu is 'many'")),
        (lambda: Machine({"gpu": np.nan}), ("quantity.form", "gpu is nan")),
        (lambda: Machine({"gpu": 1}, 0), ("machine.count", "count is 0")),
        (lambda: Machine({"gpu": 1}, 1.5), ("machine.count", "count is 1.5")),
        (lambda: Machine({"gpu": 1}, True), ("machine.count", "count is True")),
        (lambda: Machine({"gpu": 1}, 10**7), ("machine.count", "1,000,000")),
        (lambda: Cluster(()), ("cluster.machines",)),
        (lambda: Cluster(({"gpu": 8},)), ("cluster.machines",)),
        (lambda: Cluster((Machine({"gpu": 1}, 600_000),) * 2), ("machine.count", "1,000,000")),
        (lambda: Cluster((Machine({"gpu": 1}),), inside=0), ("bandwidth.range", "inside is 0")),
        (lambda: Cluster((Machine({"gpu": 1}),), between="1 Gbph"), ("quantity.unit", "'Gbph'")),
    ],
)
def test_what_cannot_be_a_cluster(make, refusal):
    """Named with the value, in one line."""
    with refused(*refusal):
        make()
