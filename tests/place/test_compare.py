"""Policies side by side: one certificate, the bound, who gained and who lost, and what is in use when."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from equipoise.certificate import Certificate, Check
from equipoise.place import Cluster, Deadline, Job, Machine, placers, simulate
from equipoise.place.compare import compare, merged
from equipoise.place.placers import Slotwise
from equipoise.place.tables import utilisation
from refusals import refused

CLUSTER = Cluster((Machine({"gpu": 2}, 1),))


def job(name, arrival=0, slots=1.0, value=1.0, deadline=9, gpus=2):
    """All-reduce work of so many slots on both GPUs at once, without communication."""
    return Job(
        name,
        arrival,
        work=slots * gpus,
        batch=gpus,
        time_per_sample=1.0,
        worker={"gpu": 1},
        utility=Deadline(value, deadline),
        requested=gpus,
    )


@dataclass(frozen=True)
class LastFirst:
    label: str = "LastFirst"
    colour: str = "#000000"

    def start(self, run, seed):
        return _LastFirst(run)


class _LastFirst(Slotwise):
    def seats(self, queue):
        return self.in_order(queue[::-1], fixed=False)


def test_gains_name_the_winner_and_the_loser():
    """Room for one of two jobs in time: first come earns 1, last first 5. By hand: +4, b gained, a lost."""
    jobs = [job("a", value=1, deadline=0), job("b", value=5, deadline=0)]
    found = compare(CLUSTER, jobs, [placers.FIFO(), LastFirst()], slots=4)
    (row,) = found.gains()
    assert (row["policy"], row["baseline"], row["utility"], row["same"]) == ("LastFirst", "FIFO", 4, 0)
    assert [(one["id"], one["utility_before"], one["utility_after"]) for one in row["gained"]] == [("b", 0, 5)]
    assert [(one["id"], one["finish_before"], one["finish_after"]) for one in row["lost"]] == [("a", 0, 1)]
    assert found.bound is not None
    assert found.bound.utility == pytest.approx(5)
    assert [line["share_of_bound"] for line in found.table] == pytest.approx([0.2, 1.0])
    (back,) = found.gains("lastfirst")
    assert back["utility"] == -4


def test_the_merged_certificate_names_who_fails():
    """Of each check the worst; one that only some make keeps its name; a failure anywhere fails all."""
    fine = Certificate((Check.at_most("capacity", 0, 0, "held"), Check.at_most("promise", 0, 0, "kept")))
    poor = Certificate((Check.at_most("capacity", 2, 0, "held"),))
    both = merged({"one": fine, "other": poor})
    assert not both.passed
    assert both["capacity"].value == 2
    assert "fails for other" in both["capacity"].meaning
    assert both["promise"].passed
    assert merged({"one": fine}).as_dict() == fine.as_dict()


def test_a_check_that_was_not_made_does_not_pass():
    """Worse than any that passed, better than one that failed."""
    missing = Certificate((Check.not_made("bound", "too large"),))
    fine = Certificate((Check.at_most("bound", -0.5, 0, "below"),))
    assert merged({"one": fine, "other": missing})["bound"].passed is None


def test_jobs_no_policy_could_finish_are_told_with_their_share():
    """Too wide for the machine; and of two that fit, three slots of four are more than the horizon."""
    jobs = [job("wide").but(worker={"gpu": 3}), job("short"), job("long", slots=3)]
    found = compare(CLUSTER, jobs, [placers.FIFO()], horizon=2)
    assert found.hopeless["infeasible_alone"]["jobs"] == 1
    beyond = found.hopeless["beyond_horizon"]
    assert beyond["jobs"] == 1
    wide = found.hopeless["infeasible_alone"]["resource_time"]["gpu"]
    assert beyond["resource_time"]["gpu"] / (1 - wide) == pytest.approx(0.75)
    assert found.results[0].reasons == {"infeasible_alone": 1, "beyond_horizon": 1}


def test_utilisation_is_what_the_schedule_holds():
    """One job on both GPUs in slots 1 and 2, nothing else."""
    result = simulate(CLUSTER, [job("a", arrival=1, slots=2)], placers.FIFO(), slots=5)
    assert utilisation(result)[:, 0].tolist() == [0, 1, 1, 0, 0]
    empty = replace(result, schedule=np.empty((0, 5), np.int32))
    assert not utilisation(empty).any()


def test_two_policies_of_one_name_are_refused():
    """Rows and files go by labels."""
    with refused("policies.twice", "'FIFO'"):
        compare(CLUSTER, [job("a")], [placers.FIFO(), placers.FIFO()], slots=3)
    with refused("policies.none"):
        compare(CLUSTER, [job("a")], [], slots=3)


def test_without_a_bound_nothing_claims_one():
    """bound=False: no check, no share."""
    found = compare(CLUSTER, [job("a")], [placers.FIFO()], slots=3, bound=False)
    assert "bound" not in found.certificate
    assert found.table[0]["share_of_bound"] is None
