"""The grouped occupancy against a plain array of what is taken, and the prices that follow from it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Deadline, Job
from equipoise.place.planner import Planner, occupancy
from equipoise.place.planner.job_arrays import arrays_of
from equipoise.place.planner.slot_costs import new_slot_costs, slot_costs

approx = pytest.approx
WINDOW = 3
MIXED = Cluster(
    (Machine({"gpu": 2, "cpu": 4}, 3, "a"), Machine({"gpu": 2, "cpu": 4}, 2, "b"), Machine({"cpu": 8}, 1, "c"))
)
GROWTH = np.log([50.0, 1e4])


def new(cluster: Cluster = MIXED, growth: np.ndarray = GROWTH) -> occupancy.Occupancy:
    return occupancy.new_occupancy(cluster, WINDOW, growth, np.ones((WINDOW, len(cluster.resources))))


def chain(first: int, after: np.ndarray) -> list[int]:
    out = []
    while first != occupancy.NONE:
        out.append(int(first))
        assert len(out) <= len(after), "the list runs in a circle"
        first = after[first]
    return out


def assert_sound(b: occupancy.Occupancy, taken: np.ndarray) -> None:
    """Every list of every row says what the plain array [row, machine, r] says."""
    for row in range(WINDOW):
        assert np.array_equal(occupancy.use(b, row), taken[row])
        listed: list[int] = []
        members: list[int] = []
        for bucket in range(occupancy.BUCKETS):
            groups = chain(b.top[row, bucket], b.later[row])
            for place, g in enumerate(groups):
                assert b.bucket[row, g] == bucket
                assert b.earlier[row, g] == (groups[place - 1] if place else occupancy.NONE)
                machines = chain(b.first[row, g], b.after[row])
                assert len(machines) == b.members[row, g] > 0
                for k, h in enumerate(machines):
                    assert b.group[row, h] == g
                    assert b.kind[h] == b.type[row, g]
                    assert b.before[row, h] == (machines[k - 1] if k else occupancy.NONE)
                    assert np.array_equal(taken[row, h], b.used[row, g])
                capacity = b.capacity[b.type[row, g]]
                has = capacity > 0
                assert bucket == min(
                    occupancy.BUCKETS - 1, int(occupancy.BUCKETS * np.mean(b.used[row, g, has] / capacity[has]))
                )
                for r in range(len(capacity)):
                    share = b.used[row, g, r] / capacity[r] if capacity[r] else 0.0
                    assert b.factor[row, g, r] == approx(math.exp(b.growth[r] * share), rel=1e-12)
                listed.append(g)
                members += machines
        assert sorted(members) == list(range(len(b.kind)))
        assert b.members[row, listed].sum() == len(b.kind)
        kinds = {(int(b.type[row, g]), *b.used[row, g].tolist()) for g in listed}
        assert len(kinds) == len(listed), "two groups of machines used alike"
        spare = b.spare[row, : b.spares[row]].tolist()
        assert sorted(listed + spare) == list(range(b.groups[row]))
        assert b.touched[row] == np.any(taken[row] > 0, axis=1).sum()
        free = b.capacity[b.kind] - taken[row]
        assert np.array_equal(occupancy.roomiest(b, row), free.max(axis=0))


steps = st.lists(
    st.tuples(
        st.sampled_from(["take", "take", "take", "back", "clear"]),
        st.integers(0, WINDOW - 1),
        st.integers(0, MIXED.size - 1),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=60,
)


@settings(max_examples=60)
@given(steps)
def test_groups_say_what_a_plain_array_says(todo: list[tuple[str, int, int, int, int]]) -> None:
    """Any order of taking, giving back and clearing: use, groups, buckets and factors stay those of the dense model."""
    b = new()
    capacity = MIXED.capacity[MIXED.type_of]
    taken = np.zeros((WINDOW, MIXED.size, 2), np.int64)
    held: list[tuple[int, int, np.ndarray]] = []
    for what, row, h, gpu, cpu in todo:
        if what == "take":
            amount = np.minimum(np.array([gpu, cpu]) * 1000, capacity[h] - taken[row, h])
            occupancy.move(b, row, h, amount)
            taken[row, h] += amount
            held.append((row, h, amount))
        elif what == "back" and held:
            row, h, amount = held.pop((gpu * 7 + cpu) % len(held))
            occupancy.move(b, row, h, -amount)
            taken[row, h] -= amount
        elif what == "clear":
            occupancy.clear(b, row)
            taken[row] = 0
            held = [one for one in held if one[0] != row]
        assert_sound(b, taken)


def test_taking_nothing_leaves_a_machine_in_its_group() -> None:
    """A server that asks for nothing alone on a machine: the group must not go to the spare ones with a machine in it."""
    b = new()
    taken = np.zeros((WINDOW, MIXED.size, 2), np.int64)
    occupancy.move(b, 0, 5, np.array([0, 0]))
    assert_sound(b, taken)
    occupancy.move(b, 0, 0, np.array([1000, 1000]))
    taken[0, 0] = 1000
    assert_sound(b, taken)


def test_equal_machines_of_two_types_are_never_one_group() -> None:
    """Types a and b have the same capacity; their machines still belong to their own type."""
    b = new()
    for h in (0, 3):
        occupancy.move(b, 1, h, np.array([1000, 0]))
    assert b.group[1, 0] != b.group[1, 3]


def test_price_is_low_when_empty_high_when_full_and_the_mean_between() -> None:
    """Used 0 -> L, full -> U, half -> sqrt(L U), strictly increasing (spec, section 7)."""
    low, high = 0.03, 12.0
    cluster = Cluster((Machine({"gpu": 8}),))
    b = occupancy.new_occupancy(cluster, 1, np.array([math.log(high / low)]), np.array([[low]]))
    prices = []
    for _ in range(9):
        prices.append(float(b.base[0, 0] * b.factor[0, b.group[0, 0], 0]))
        if len(prices) <= 8:
            occupancy.move(b, 0, 0, np.array([1000]))
    assert prices[0] == low
    assert prices[4] == approx(math.sqrt(low * high), rel=1e-12)
    assert prices[8] == approx(high, rel=1e-12)
    assert np.all(np.diff(prices) > 0)


def test_no_capacity_and_no_demand_cost_a_number() -> None:
    """A machine without a gpu, and a job that wants none: costs are finite or impossible, never NaN."""
    b = new(growth=np.array([700.0, 700.0]))
    occupancy.move(b, 0, 5, np.array([0, 8000]))  # the machine without gpus is full
    assert np.isfinite(b.factor[0, b.group[0, 5]]).all()
    job = Job("a", 0, 1.0, 4, 1.0, {"cpu": 1}, Deadline(1.0, 1.0), server={"gpu": 0}, workers_per_server=2)
    options = new_slot_costs(4, 2)
    slot_costs(b, 0, arrays_of(job, MIXED), options)
    assert not np.isnan(options.together[:5]).any() and not np.isnan(options.spread[:5]).any()
    assert np.isfinite(options.together[1:5]).all()


def test_a_row_cleared_for_a_new_slot_is_as_new() -> None:
    """The ring: what was taken in slot 0 is not there in slot 3, which has its row; slots between keep theirs."""
    planner = Planner(MIXED, WINDOW, GROWTH, np.ones(2))
    arrays = arrays_of(Job("a", 0, 1.0, 4, 1.0, {"cpu": 1}, Deadline(1.0, 1.0)), MIXED)
    cells = np.array([[t, t, 1 + t, 0] for t in range(WINDOW)], np.int32)
    planner.take(arrays, cells)
    planner.advance(1)
    assert planner.used(3).sum() == 0
    assert planner.used(1)[1, 1] == 2000
    assert planner.used(2)[2, 1] == 3000
    planner.release(arrays, cells)  # slot 0 is gone: its cell must not be given back in slot 3's row
    for t in (1, 2, 3):
        assert planner.used(t).sum() == 0
    planner.advance(40)
    assert_sound(planner.occupancy, np.zeros((WINDOW, MIXED.size, 2), np.int64))
