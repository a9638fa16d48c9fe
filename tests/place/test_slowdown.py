"""How long jobs took against what they need alone, worked out by hand; the same numbers in rows and tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from equipoise.place import (
    Cluster,
    Deadline,
    Job,
    Linear,
    Machine,
    Result,
    Unstated,
    Workload,
    compare,
    placers,
    simulate,
)
from equipoise.place.execution import ADMITTED, Decision
from equipoise.place.slowdown import stated
from equipoise.present.place import headline, policy_table, summary, user_tables
from equipoise.present.values import Text

TWO_GPUS = Cluster((Machine({"gpu": 2}),))


def job(name: str, arrival: int, width: int, slots: float, **more: Any) -> Job:
    """So many GPUs for so many slots, never wider."""
    return Job(name, arrival, width * slots, width, 1.0, {"gpu": 1}, requested=width, **more)


# Under FIFO: a has both GPUs in slots 0-3; b, of one GPU, waits from slot 1 and runs in 4 and 5; c runs in 4; d never fits.
JOBS = [
    job("a", 0, 2, 4, user="ann"),
    job("b", 1, 1, 2, user="bob"),
    job("c", 2, 1, 0.5, user="bob", utility=Deadline(5, 1)),
    job("d", 2, 1, 40),
]


def test_slowdown_and_in_time_by_hand() -> None:
    """a 4 / 4; b slots 1-5 of 2; c slots 2-4 of 1, at least a slot; d needs 40 slots of 10 and is in no mean."""
    waits = simulate(TWO_GPUS, JOBS, placers.FIFO(), horizon=10).waits
    assert waits.slowdown[:3] == pytest.approx([1.0, 2.5, 3.0])
    assert np.isnan(waits.slowdown[3])
    assert waits.in_time.tolist() == [True, True, False, False]  # b within 2.5 x 2 slots; c had 2 slots by its deadline


def test_the_own_duration_is_the_true_one() -> None:
    """A limit of 8 slots, of which the job needs 2, and waits 2 for another: 4 / 2, and not 4 / 8."""
    before, short = job("a", 0, 2, 2), job("b", 0, 2, 8, actual=0.25)
    waits = simulate(TWO_GPUS, [before, short], placers.FIFO(), horizon=10).waits
    assert waits.slowdown == pytest.approx([1.0, 2.0])
    assert waits.in_time.tolist() == [True, True]


def test_every_outcome_says_it() -> None:
    """As above, a row for each job; nothing where it is hopeless."""
    rows = simulate(TWO_GPUS, JOBS, placers.FIFO(), horizon=10).document().rows("outcomes")
    assert [(row["slowdown"], row["in_time"]) for row in rows] == [(1.0, 1), (2.5, 1), (3.0, 0), (None, 0)]


def test_unfairness_is_slowdown_over_mean_contention() -> None:
    """GPUs asked for over GPUs, at least 1: slots 0 to 5 have 1, 1.5, 2, 2, 1 and 1 (b alone asks for half)."""
    row = simulate(TWO_GPUS, JOBS, placers.FIFO(), horizon=10).row
    a, b, c = 1 / (6.5 / 4), 2.5 / (7.5 / 5), 3 / (5 / 3)
    assert row["worst_unfairness"] == pytest.approx(max(a, b, c))
    assert row["unfair"] == pytest.approx(2 / 3)
    by_user = {one["user"]: one for one in simulate(TWO_GPUS, JOBS, placers.FIFO(), horizon=10).users}
    assert {user: (one["jobs"], one["completed"], one["in_time"], one["unfair"]) for user, one in by_user.items()} == {
        "ann": (1, 1, 1, 0.0),
        "bob": (2, 2, 1, 1.0),
    }


def test_a_job_that_is_not_finished_counts_to_the_end_and_at_least_its_own_duration() -> None:
    """Of three jobs of 4 slots on one GPU, none finishes in 5 slots but the first: 1, 5 / 4, and 4 / 4 from slot 4 on."""
    jobs = [job("a", 0, 1, 4), job("b", 0, 1, 4), job("c", 1, 1, 4)]
    run = simulate(Cluster((Machine({"gpu": 1}),)), jobs, placers.FIFO(), slots=5)
    assert run.waits.slowdown == pytest.approx([1.0, 1.25, 1.0])
    assert run.row["in_time"] == 1


def test_promises_by_whom_they_were_broken() -> None:
    """Three dates: one kept, one missed by a job twice as long as stated, one by a job that was as stated."""
    jobs = Workload((job("a", 0, 1, 1), job("b", 0, 1, 1, actual=2.0), job("c", 0, 1, 1)))
    told = ((Decision(0, ADMITTED, due=0),), (Decision(0, ADMITTED, due=0),), (Decision(1, ADMITTED, due=1),))
    finish, no_rows = np.array([0, 1, 2]), np.empty((0, 5), np.int32)
    row = Result(placers.FIFO(), TWO_GPUS, jobs, 5, None, 0, 5, no_rows, finish, told, 0.0).row
    assert (row["promised_on_arrival"], row["broken_by_statement"], row["broken_by_us"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("utilities", "expected"),
    [
        ([Unstated(), Unstated()], "nothing"),
        ([Unstated(), Deadline(1, 3)], "deadlines"),
        ([Deadline(1, 3), Linear(1, 3)], "worth"),
    ],
)
def test_what_jobs_state_decides_the_objective(utilities: list[Any], expected: str) -> None:
    assert stated(job("x", 0, 1, 1, utility=one) for one in utilities) == expected


def columns(jobs: list[Job]) -> list[str]:
    found = compare(TWO_GPUS, jobs, [placers.FIFO(), placers.SRTF()], horizon=10).document()
    return [column.name for column in policy_table(found).columns]


def test_tables_lead_with_jobs_done_and_show_no_worth_that_nobody_stated() -> None:
    """The same columns first; utility and its bound come after them, where a job states what it is worth."""
    lead = ["policy", "jobs done", "in time", "mean slowdown", "p95", "unfair, %"]
    assert columns(JOBS)[:8] == [*lead, "utility", "% of bound"]
    bare = columns([one.but(utility=Unstated()) for one in JOBS])
    assert bare[:6] == lead
    assert "utility" not in bare


def test_the_objective_is_one_sentence_and_the_best_is_best_by_it() -> None:
    """All at once: SRTF runs c, b, then a in slots 2-5: 1, 1, 6 / 4. FIFO runs a first: 1, 6 / 2, 5 / 1."""
    bare = [one.but(utility=Unstated(), arrival=0) for one in JOBS]
    found = compare(TWO_GPUS, bare, [placers.FIFO(), placers.SRTF()], horizon=10).document()
    assert [row["mean_slowdown"] for row in found.rows("rows")] == pytest.approx([9 / 3, 3.5 / 3])
    texts = [block.words for block in summary(found) if isinstance(block, Text)]
    assert "Objective: nothing is stated: the least slowdown, summed over jobs." in texts
    assert headline(found).startswith("SRTF completed 3 jobs, the least slowdown of 2 policies")
    assert [row[:2] for row in user_tables(found.result)[0].rows] == [["bob", "2"], ["ann", "1"]]
