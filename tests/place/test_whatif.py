"""What if: one more machine, or another policy, by hand: who gains, who loses, whose date moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equipoise import load
from equipoise.place import WhatIf, WhatIfSpec, whatif, write_cluster, write_jobs
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Deadline, Job, Linear, Utility, Workload
from equipoise.place.whatif import with_machines
from refusals import refused

LATE = {"a": Deadline(7.0, 90.0), "b": Deadline(10.0, 2.0), "c": Deadline(5.0, 90.0)}
FALLING = dict.fromkeys("abc", Linear(100.0, 100.0))


def asked(folder: Path, worth: dict[str, Utility] = LATE, **other: Any) -> WhatIf:
    """One GPU; a needs 4 slots, b 2, c 3, all from slot 0."""
    work = {"a": 4.0, "b": 2.0, "c": 3.0}
    jobs = [Job(n, 0, w, 1, 1.0, {"gpu": 1}, worth[n], requested=1, user=f"of {n}") for n, w in work.items()]
    write_jobs(Workload(tuple(jobs)), folder / "jobs.yaml")
    write_cluster(Cluster((Machine({"gpu": 1}, name="v100"),)), folder / "cluster.yaml")
    files = {"jobs": str(folder / "jobs.yaml"), "cluster": str(folder / "cluster.yaml"), "slots": 20}
    return whatif(WhatIfSpec(**({"policy": "fifo"} | files | other)))


def told(found: WhatIf) -> list[tuple[object, ...]]:
    return [(row["change"], row["id"], row["finish_before"], row["finish_after"]) for row in found.changes]


def test_one_more_machine(tmp_path):
    """FIFO on one GPU: a ends in slot 3, b in 5, c in 8. On two: a in 3, b in 1 and in time for its 10, c after it in 4."""
    found = asked(tmp_path, machine="v100")
    assert (found.words, found.then.cluster.size) == ("1 machine more (v100)", 2)
    assert told(found) == [("gained", "b", 5, 1), ("gained", "c", 8, 4)]
    assert [(row["utility_before"], row["utility_after"], row["user"]) for row in found.changes] == [
        (0.0, 10.0, "of b"),
        (5.0, 5.0, "of c"),
    ]
    certificate = found.document().certificate
    assert certificate is not None and certificate.passed


def test_another_policy(tmp_path):
    """SRTF on one GPU: b ends in slot 1, c in 4, a in 8, five later than under FIFO."""
    found = asked(tmp_path, instead="srtf")
    assert found.words == "SRTF instead of FIFO"
    assert told(found) == [("gained", "b", 5, 1), ("gained", "c", 8, 4), ("lost", "a", 3, 8)]
    result = found.document().result
    assert (result["jobs_gained"], result["jobs_lost"], [row["id"] for row in result["lost"]]) == (2, 1, ["a"])
    assert [(row["case"], row["policy"], row["utility"]) for row in result["rows"]] == [
        ("now", "FIFO", 12.0),
        ("then", "SRTF", 22.0),
    ]


def test_dates_instead_of_a_queue(tmp_path):
    """Dated keeps a and c, who have time, for the end: b first, in time for its 10; a two later; all three have a date."""
    found = asked(tmp_path, instead="dated")
    assert told(found) == [("gained", "b", 5, 1), ("lost", "a", 3, 5), ("date", "c", 8, 8)]
    assert [row["due_after"] for row in found.changes] == [2, 19, 19]
    assert found.document().result["dates"]["only then"] == 3


def test_whose_dates_move(tmp_path):
    """PDORS at next to no price, worth that falls: dates are the ends of FIFO above, so that b's and c's come earlier. Under
    FIFO nobody has one."""
    given = {"policy": "pdors", "prices": "fixed", "fixed_prices": {"gpu": 1e-6}, "replan": 0, "backfill": False}
    found = asked(tmp_path, FALLING, add=1, **given)
    assert [(row["id"], row["due_before"], row["due_after"]) for row in found.changes] == [("b", 5, 1), ("c", 8, 4)]
    assert found.document().result["dates"] == {"earlier": 2, "later": 0, "only then": 0, "only now": 0}
    other = asked(tmp_path, FALLING, instead="fifo", **given)
    assert other.document().result["dates"] == {"earlier": 0, "later": 0, "only then": 0, "only now": 3}
    assert [row["change"] for row in other.changes] == ["date"] * 3


def test_it_loads_back(tmp_path):
    """What was saved is what was found, job by job."""
    found = asked(tmp_path, instead="srtf")
    again = load(found.save(tmp_path / "run"))
    assert again.result == found.document().result and again.rows("changes") == found.document().rows("changes")
    assert again.config["instead"] == "srtf" and again.certificate == found.document().certificate


def test_machines_more_and_fewer():
    """Those that come are an entry of their own; of those that go the count falls, and with none left the entry is gone."""
    two = Cluster((Machine({"gpu": 8}, 2, "big"), Machine({"gpu": 1}, 1, "small")))
    assert [(m.name, m.count) for m in with_machines(two, 3, "small").machines] == [
        ("big", 2),
        ("small", 1),
        ("small-more", 3),
    ]
    assert [(m.name, m.count) for m in with_machines(two, -1, "big").machines] == [("big", 1), ("small", 1)]
    assert [(m.name, m.count) for m in with_machines(two, -2, "big").machines] == [("small", 1)]
    typed = Cluster((Machine({"gpu": 8}, name="n1"), Machine({"gpu": 8}, name="n2", type="a100")))
    assert [(m.name, m.type) for m in with_machines(typed, 1, "a100").machines][2:] == [("n2-more", "a100")]
    with refused("unknown", "'huge'"):
        with_machines(two, 1, "huge")
    with refused("machine.count", "-3", "2 machines of big"):
        with_machines(two, -3, "big")
    with refused("machine.which", "big, small"):
        with_machines(two, 1, None)


@pytest.mark.parametrize("other", [{}, {"instead": "fifo"}, {"add": 0}])
def test_nothing_other_is_refused(tmp_path, other):
    """The same policy on the same machines has no answer."""
    with refused("whatif.nothing"):
        asked(tmp_path, **other)
