"""What is learnt of durations, user by user: by hand, what is planned by them, and which promise they leave standing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from equipoise.place import placers, prices
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.durations import Durations, learn_durations
from equipoise.place.job import Deadline, Job, Workload
from equipoise.place.simulate import simulate
from equipoise.place.spec import PlaceSpec

ONE = Cluster((Machine({"gpu": 1}),))


def job(name: str, user: str, work: float, actual: float = 1.0, arrival: int = 0, slots: float = 30.0) -> Job:
    """On one GPU: a sample a slot. Worth 10 by its deadline."""
    return Job(name, arrival, work, 1, 1.0, {"gpu": 1}, Deadline(10.0, slots), requested=1, actual=actual, user=user)


def past(counts: dict[str, int], actual: dict[str, float]) -> Workload:
    return Workload(tuple(job(f"{user}{k}", user, 3.0, actual[user]) for user, n in counts.items() for k in range(n)))


def test_a_user_who_states_three_times_too_much_and_one_who_is_honest():
    """24 jobs of each: of all 48 half take at most 2/3 (between 1/3 and 1), 90 % at most 1. Their own weigh 24 of 32:
    (1/3)^.75 (2/3)^.25 = 2^.25 / 3 and (1/3)^.75 for A, (2/3)^.25 and 1 for B. Who is not known is taken for anybody."""
    found = learn_durations([past({"A": 24, "B": 24}, {"A": 1 / 3, "B": 1.0})])
    assert found is not None and found.jobs == 48
    assert found.overall == pytest.approx((2 / 3, 1.0))
    assert found.users["A"] == pytest.approx((2**0.25 / 3, 3**-0.75))
    assert found.users["B"] == pytest.approx(((2 / 3) ** 0.25, 1.0))
    jobs = Workload((job("a", "A", 6.0), job("b", "B", 3.0), job("c", "C", 3.0)))
    assert found.planned(jobs, promises=False) == pytest.approx([2**0.25 / 3, (2 / 3) ** 0.25, 2 / 3])
    assert found.planned(jobs, promises=True) == pytest.approx([1.0, 1.0, 1.0])


def test_few_jobs_are_hardly_believed_and_jobs_of_no_user_are_anybodys():
    """One job of A at 4 beside 8 of B at 1: nine values, the median 1, the 90 % quantile 1 + .2 (4 - 1) = 1.6. A weighs 1
    of 9: 4^(1/9) and 4^(1/9) 1.6^(8/9). The same without names is everybody's."""
    found = learn_durations([past({"A": 1, "B": 8}, {"A": 4.0, "B": 1.0})])
    assert found is not None and found.users["A"] == pytest.approx((4 ** (1 / 9), 4 ** (1 / 9) * 1.6 ** (8 / 9)))
    nameless = Workload(tuple(replace(one, user="") for one in past({"A": 1, "B": 8}, {"A": 4.0, "B": 1.0})))
    found = learn_durations([nameless])
    assert found is not None and found.users[""] == found.overall == pytest.approx((1.0, 1.6))
    assert learn_durations([]) is None


def test_srtf_runs_first_what_is_really_short():
    """A states 6 and takes 2, B states 3 and takes 3. By statements B ends in slot 2 and A in 4; by a third A ends in slot 1
    and B in 4."""
    jobs = Workload((job("a", "A", 6.0, 1 / 3), job("b", "B", 3.0)))
    learnt = replace(jobs, durations=Durations((1.0, 1.0), {"A": (1 / 3, 1 / 3)}, 9))
    ends = [simulate(ONE, each, placers.SRTF(), slots=20).finish.tolist() for each in (jobs, learnt)]
    assert ends == [[4, 2], [1, 4]]


def test_a_promise_is_planned_by_those_who_overrun_and_never_by_less_than_is_stated():
    """B's past says half as long again: 4 samples are planned as 6, and a deadline in slot 4 is not promised; one in slot 5
    is. A's past says a third: what now really takes all of its 6 is promised slot 5 and done in it."""
    learnt = Durations((1.0, 1.0), {"A": (1 / 3, 1 / 3), "B": (1.5, 1.5)}, 9)
    told = {}
    for name, one in {
        "late": job("b", "B", 4.0, 1.5, slots=4.0),
        "fits": job("b", "B", 4.0, 1.5, slots=5.0),
        "whole": job("a", "A", 6.0, 1.0, slots=5.0),
    }.items():
        jobs = Workload((one,), durations=learnt)
        run = simulate(ONE, jobs, placers.PDORS(prices=prices.Fixed(), backfill=False), slots=20)
        told[name] = (run.decisions[0][0].state, run.due(0), int(run.finish[0]))
        assert run.certificate().passed
    assert told == {"late": ("refused", None, -1), "fits": ("admitted", 5, 5), "whole": ("admitted", 5, 5)}


SACCT = "JobID|User|Submit|ElapsedRaw|Timelimit|NCPUS|State\n"


def week(folder, name, day):
    """20 jobs of ann, who asks for three hours and takes one, and of bob, who takes the hour he asks for."""
    lines = [
        f"{k}|{user}|2026-03-{day:02}T{k // 2:02}:00:00|3600|{limit}|4|COMPLETED"
        for k in range(40)
        for user, limit in [("ann", "03:00:00") if k % 2 else ("bob", "01:00:00")]
    ]
    path = folder / name
    path.write_text(SACCT + "\n".join(lines) + "\n")
    return str(path)


def test_place_learns_where_history_knows_whose_durations_were_wrong(tmp_path):
    """On by itself with users and limits, off when told; the note has the overall median, 2/3, and the quantile, 1."""
    given = {"jobs": week(tmp_path, "this.txt", 9), "history": week(tmp_path, "last.txt", 2), "machines": 2}
    given |= {"policy": "pdors:recalled,srtf", "slot": "1h", "bound": False}
    scene = PlaceSpec(**given).build()
    assert scene.jobs.durations is not None and scene.jobs.durations.overall == pytest.approx((2 / 3, 1.0))
    assert any("half took at most 0.67 and 90 % at most 1.00" in note for note in scene.notes)
    assert PlaceSpec(**given, learn_durations=False).build().jobs.durations is None
    nobodys = PlaceSpec(policy="pdors:recalled", wrong=0.5, bound=False)
    assert nobodys.build().jobs.durations is None
    honest = {**given, "history": given["jobs"]}
    assert PlaceSpec(**(honest | {"history": None, "policy": "srtf"})).build().jobs.durations is None
    asked = PlaceSpec(**(honest | {"history": None, "policy": "srtf", "learn_durations": True})).build()
    assert asked.jobs.durations is not None and asked.jobs.durations.jobs == len(asked.history[0])
