"""The most jobs in time: against trying every subset."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from called import called
from equipoise.kernels import INDEX
from equipoise.share.policies._moore_hodgson import JOB, keep_most

jobs = st.lists(st.tuples(st.integers(0, 12), st.integers(-2, 30)), max_size=9)


def kept(work: list[float], due: list[float], rate: float = 1.0) -> list[bool]:
    """What keep_most keeps, of jobs in order of their due times."""
    found = np.zeros(len(work), JOB)
    found["work"], found["due"], found["kept"] = work, due, True
    called(keep_most)(found, len(work), rate, np.empty(len(work), INDEX))
    return found["kept"].tolist()


def in_time(chosen: tuple[int, ...], work: list[float], due: list[float], rate: float) -> bool:
    """Earliest due first is as good as any order for one rate."""
    ends = np.cumsum([work[j] for j in chosen])
    return all(end <= rate * due[j] for end, j in zip(ends, chosen, strict=True))


@given(jobs, st.sampled_from([0.5, 1.0, 2.0]))
def test_no_subset_in_time_is_larger_or_lighter(found: list[tuple[int, int]], rate: float):
    """All 2^n subsets: none in time has more jobs, and none of as many has less work."""
    found.sort(key=lambda job: job[1])
    work, due = [float(w) for w, _ in found], [float(d) for _, d in found]
    chosen = tuple(np.flatnonzero(kept(work, due, rate)).tolist())
    good = [s for k in range(len(work) + 1) for s in combinations(range(len(work)), k) if in_time(s, work, due, rate)]
    most = max(map(len, good))
    assert chosen in good
    assert len(chosen) == most
    assert sum(work[j] for j in chosen) == min(sum(work[j] for j in s) for s in good if len(s) == most)


def test_the_largest_gives_way():
    """By hand: 8 + 3 is late for 9.5; without the 8 both others are in time."""
    assert kept([8, 3, 3], [9, 9.5, 10]) == [False, True, True]


@pytest.mark.parametrize("huge", [np.inf, 1e300, 1e17])
def test_a_job_that_cannot_be_done_leaves_the_others_exactly_alone(huge: float):
    """Infinite work is never kept, even if never due; 1e17 must not swallow the digits of the rest's sum."""
    assert kept([5, huge, 5], [10, 10, 10]) == [True, False, True]
    assert kept([5, huge, 5.1], [10, 10, 10]) == [True, False, False]
    assert kept([np.inf], [np.inf]) == [False]


def test_no_job_is_kept_that_is_due_already():
    """A due time in the past leaves no room, and does not harm those that come."""
    assert kept([1, 1, 1], [-3, 0, 1]) == [False, False, True]


def test_only_the_first_n_are_looked_at():
    """Room beyond n is not touched."""
    for mark in (True, False):
        marks = np.array([(1.0, 9.0, 0.0, 0, False), (1.0, 9.0, 0.0, 0, False), (1.0, 9.0, 0.0, 0, mark)], JOB)
        called(keep_most)(marks, 2, 1.0, np.empty(3, INDEX))
        assert marks["kept"].tolist() == [True, True, mark]


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 40)), min_size=10, max_size=60))
def test_long_lists_keep_as_many_as_dropping_the_largest_by_hand(found: list[tuple[int, int]]):
    """The rule as it is told, with a list in place of the heap: whenever a job is late, the largest so far is dropped."""
    found.sort(key=lambda job: job[1])
    chosen: list[int] = []
    for work, due in found:
        if work <= due:
            chosen.append(work)
            if sum(chosen) > due:
                chosen.remove(max(chosen))
    mine = kept([float(w) for w, _ in found], [float(d) for _, d in found])
    assert sorted(w for (w, _), keep in zip(found, mine, strict=True) if keep) == sorted(chosen)
