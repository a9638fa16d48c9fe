"""A promise is a slot: the first one that a job was told binds, whatever happens to the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from failing import CLUSTER, workload

from equipoise.document import read_table
from equipoise.errors import InputError
from equipoise.place import (
    Cluster,
    Deadline,
    Job,
    Linear,
    Machine,
    Sigmoid,
    compare,
    placers,
    prices,
    simulate,
    verify,
    verify_schedule,
)
from equipoise.place.execution import Decision
from equipoise.place.simulate import Result

ONE = Cluster((Machine({"gpu": 1}),))


def job(id: str, arrival: int, work: float, utility: Deadline | Sigmoid | Linear, actual: float = 1.0) -> Job:
    """One gpu, a sample a slot."""
    return Job(id, arrival, work, 1, 1.0, {"gpu": 1}, utility, actual=actual)


def late(result: Result) -> list[str]:
    """Promised jobs, no longer than stated, that ended after the first slot they were told."""
    found = []
    for j, log in enumerate(result.decisions):
        dates = [d.due for d in log if d.state == "admitted"]
        if dates and result.jobs[j].actual <= 1.0 and not 0 <= result.finish[j] <= dates[0]:
            found.append(result.jobs[j].id)
    return found


@pytest.mark.parametrize("slack", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_no_date_is_broken_by_us(seed: int, slack: float):
    """Re-planning, lending, restarts, and in half of the workloads wrong durations: who told the truth is in time."""
    cluster, jobs = CLUSTER, workload(seed)
    policy = placers.PDORS(prices=prices.Level(5.0, 10.0), replan=20, slack=slack)
    result = simulate(cluster, jobs, policy, horizon=20, seed=seed)
    assert sum(result.due(j) is not None for j in range(len(jobs))) > 5
    assert late(result) == []
    assert result.certificate().passed, result.certificate()


def test_the_date_is_the_latest_slot_that_is_worth_as_much():
    """Planned for slot 1. A deadline at 5 has the same worth until then; a line falls at once, by a tenth a slot."""
    for utility, slack, due in (
        (Deadline(8.0, 5), 0.0, 5),
        (Linear(8.0, 10), 0.0, 1),
        (
            Linear(8.0, 10),
            0.25,
            3,
        ),  # 8 (1 - d / 10): 7.2 planned, of which three quarters are 5.4: 5.6 in slot 3, 4.8 in 4
        (Linear(8.0, 10), 1.0, 11),
    ):
        result = simulate(ONE, [job("one", 0, 2.0, utility)], placers.PDORS(slack=slack), slots=12)
        told = result.decisions[0][0]
        assert (told.due, result.due(0)) == (due, due)
        assert told.worth == pytest.approx(utility(due))
        assert result.finish.tolist() == [1]


def test_a_job_longer_than_stated_breaks_its_own_promise_only():
    """One says 2 slots and takes 4. The other was promised slot 3, and has it; the first is done when there is room."""
    jobs = [job("long", 0, 2.0, Linear(9.0, 9), actual=2.0), job("true", 0, 2.0, Deadline(5.0, 3))]
    result = simulate(ONE, jobs, placers.PDORS(replan=10), slots=12)
    assert (result.due(0), result.due(1)) == (1, 3)
    assert result.finish.tolist() == [5, 3]
    check = result.certificate()["promise"]
    assert (check.passed, check.value) == (True, 0)


def changed(result: Result, *log: Decision) -> Result:
    return replace(result, decisions=(log, *result.decisions[1:]))


def test_the_certificate_sees_a_broken_date_and_an_overstated_worth():
    """Finished in slot 1, worth 7.2 there. Told 0 it is late; told 1 and a worth of 8 it was promised too much."""
    result = simulate(ONE, [job("one", 0, 2.0, Linear(8.0, 10))], placers.PDORS(), slots=12)
    for log, passed in (
        ([Decision(0, "admitted", worth=7.2, due=1)], True),
        ([Decision(0, "admitted", worth=8.0, due=0)], False),
        ([Decision(0, "admitted", worth=8.0, due=1)], False),
        (
            [Decision(0, "admitted", worth=8.0, due=0), Decision(1, "admitted", worth=7.2, due=1)],
            False,
        ),  # the first binds
        ([Decision(0, "pending", "waiting"), Decision(1, "admitted", worth=7.2, due=1)], True),
    ):
        assert verify(changed(result, *log))["promise"].passed == passed


def test_verify_holds_a_table_of_outcomes_to_its_columns(tmp_path: Path):
    """A run folder's own outcomes.csv passes; each column that is changed fails its own check, and no other."""
    jobs = [
        job("one", 0, 2.0, Linear(8.0, 10)),
        job("two", 0, 2.0, Deadline(5.0, 3)),
        job("never", 0, 99.0, Linear(9.0, 9)),
    ]
    compare(ONE, jobs, [placers.PDORS()], slots=12, bound=False).save(tmp_path / "run")
    table = tmp_path / "run" / "outcomes.csv"
    rows = read_table(table)
    assert [row["due"] for row in rows] == [1, 3, None]
    schedule = next((tmp_path / "run").glob("allocations*.csv"))
    assert {"utility", "promise", "state"} <= {check.name for check in verify_schedule(schedule).certificate}
    assert verify_schedule(schedule).certificate.passed
    for column, j, value in (("utility", 0, 8.0), ("due", 1, 2), ("state", 0, "refused")):
        changed = [{**row, column: value} if k == j else row for k, row in enumerate(rows)]
        claimed = tmp_path / "claims.csv"
        names = list(rows[0])
        lines = [",".join("" if row[name] is None else str(row[name]) for name in names) for row in changed]
        claimed.write_text("\n".join([",".join(names), *lines]) + "\n")
        found = verify_schedule(schedule, claims=claimed).certificate
        assert [check.name for check in found if not check.passed] == ["promise" if column == "due" else column]


def test_a_slack_that_is_no_part_is_refused():
    with pytest.raises(InputError, match=r"slack is 1\.5; expected a part of a job's worth, 0 to 1"):
        placers.PDORS(slack=1.5)
