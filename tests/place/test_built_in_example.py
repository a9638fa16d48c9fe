"""Without files: jobs like those of Philly that state nothing; with --format synthetic those of the paper's experiments."""

import numpy as np
import pytest

from equipoise.place import traces
from equipoise.place.scene import history_scene, read_scene
from equipoise.place.spec import PlaceSpec, PricedSpec, SceneSpec
from refusals import refused


def test_the_example_states_nothing_and_is_two_days_of_philly():
    """The generator's own jobs, on two machines of 8 GPUs, each planned within 48 hours of ten-minute slots."""
    scene = read_scene(SceneSpec(), history=False)
    assert scene.jobs.jobs == traces.philly_like(400, seed=0, days=2).jobs
    assert {type(job.utility).__name__ for job in scene.jobs} == {"Unstated"}
    assert (scene.cluster.size, scene.cluster.total[0] / 1000, scene.jobs.slot) == (2, 16, 600)
    assert (scene.slots, scene.horizon) == (None, 48 * 6)
    assert "job-17" in {job.id for job in scene.jobs}


def test_it_asks_for_about_twice_what_there_is():
    """GPU-hours asked for over those of its two days, mean of ten seeds, of jobs that fit the 48 h."""
    asked = []
    for seed in range(10):
        jobs = read_scene(SceneSpec(seed=seed), history=False).jobs
        hours = [job.work / job.rate(job.requested, together=job.requested <= 8) / 6 for job in jobs]
        asked.append(sum(h * job.requested for h, job in zip(hours, jobs, strict=True) if h <= 48) / (16 * 48))
    assert 1.7 < np.mean(asked) < 2.5


def test_its_history_is_other_draws_of_the_same_kind():
    """None is the scored draw; with a seed of their own both move on."""
    for seed in (0, 5):
        scene = read_scene(PricedSpec(draw=30, seed=seed), history=True)
        assert [past.jobs for past in scene.history] == [
            traces.philly_like(30, seed=seed + 1000 + k, days=2).jobs for k in range(2)
        ]
    assert history_scene(PricedSpec(draw=30)).jobs.jobs == traces.philly_like(30, seed=1000, days=2).jobs


@pytest.mark.parametrize(("slots", "days"), [(36, 1), (144, 1), (216, 2), (288, 2)])
def test_a_fixed_end_is_also_the_end_of_arrivals(slots, days):
    """All of them arrive before it, in the order and by the days of the generator."""
    scene = read_scene(SceneSpec(draw=50, slots=slots), history=False)
    arrivals = [job.arrival for job in scene.jobs]
    whole = [job.arrival for job in traces.philly_like(50, seed=0, days=days)]
    assert (scene.slots, scene.horizon) == (slots, None)
    assert arrivals == [int(a / (144 * days) * slots + 1e-9) for a in whole] and max(arrivals) < slots


def test_what_a_trace_can_be_told_it_can_be_told():
    """Worth that is drawn, wider jobs, machines of another size; what says nothing here is refused."""
    told = SceneSpec(draw=40, worth="drawn", elasticity=2, machines=3, gpus_per_machine=4)
    scene = read_scene(told, history=False)
    like = traces.philly_like(40, seed=0, days=2, worth="drawn", elasticity=2, gpus_per_machine=4)
    assert scene.jobs.jobs == like.jobs and scene.cluster.total[0] / 1000 == 12
    assert {type(job.utility).__name__ for job in scene.jobs} == {"Sigmoid"}
    for unused in ({"slot": "1h"}, {"window": "0:4"}, {"format": "synthetic", "elasticity": 2}):
        with refused("drawn.unused", "--" + list(unused)[-1]):
            read_scene(SceneSpec(**unused), history=False)


def test_the_papers_kind_is_drawn_by_its_name():
    """The overloaded day that was the example before: 60 jobs on 20 machines, 24 slots, four other draws as history."""
    scene = read_scene(PricedSpec(format="synthetic"), history=True)
    assert scene.jobs.jobs == traces.synthetic(60, seed=0, slots=24).jobs
    assert (scene.cluster, scene.slots) == (traces.synthetic_cluster(20), 24)
    assert [past.jobs for past in scene.history] == [
        traces.synthetic(60, seed=1000 + k, slots=24).jobs for k in range(4)
    ]


def test_a_config_of_0_1_0_without_jobs_repeats_what_it_drew(tmp_path):
    """Its synthetic jobs, also from the config.yaml that the repetition writes; with jobs the format is as it was."""
    old, again = tmp_path / "old.yaml", tmp_path / "again.yaml"
    old.write_text("format: auto\ndraw: 12\nseed: 3\npolicy: [srtf]\n")
    spec = PlaceSpec.from_yaml(old)
    again.write_text(spec.to_yaml())
    for one in (spec, PlaceSpec.from_yaml(again)):
        assert read_scene(one, history=False).jobs.jobs == traces.synthetic(12, seed=3, slots=24).jobs
    old.write_text("jobs: trace.csv\npolicy: [srtf]\n")
    assert PlaceSpec.from_yaml(old).format == "auto"
    old.write_text("policy: [srtf]\n")
    assert PlaceSpec.from_yaml(old, jobs="trace.csv").format == "auto"
