"""Files of machines and jobs: what they mean, that they come back equal, and one line for every mistake."""

import json
import math
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, reject, settings, strategies as st

from equipoise.errors import InputError
from equipoise.place import files
from equipoise.place.cluster import Cluster, Machine
from equipoise.place.job import Deadline, Job, Linear, Sigmoid, Unstated, Workload

EXAMPLES = Path(__file__).parents[2] / "examples"
ENDINGS = ("yaml", "json", "csv")
CLUSTER = Cluster((Machine({"gpu": 8, "cpu": 64, "memory": "512Gi"}, 4, "v100"),))

JOB = {
    "id": "a",
    "arrival": 3,
    "work": 1000,
    "batch": 64,
    "time_per_sample": "4ms/sample",
    "gradient": "440MB",
    "worker": {"gpu": 1, "cpu": 4, "memory": "16Gi"},
    "utility": {"kind": "linear", "value": 20, "slots": 24},
}


def write(folder, text, name="jobs.yaml"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read_jobs(folder, *entries, **top):
    """The jobs of a JSON file with these entries, and these settings beside them."""
    return files.read_jobs(write(folder, json.dumps({**top, "jobs": entries}), "jobs.json"), CLUSTER)


def one(folder, slot="1h", **changes):
    """The job above with some fields changed; None takes a field away."""
    return read_jobs(folder, {k: v for k, v in (JOB | changes).items() if v is not None}, slot=slot)[0]


def refused(call, *words):
    """The one line with which a call is refused."""
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message and "\r" not in message
    assert len(message) < 600
    for word in words:
        assert word in message
    return message


# What a file means.


def test_the_examples_are_read():
    """Three types of machines; seven jobs of both kinds and all three utilities."""
    cluster = files.read_cluster(EXAMPLES / "cluster.yaml")
    assert (cluster.size, cluster.resources) == (12, ("gpu", "cpu", "memory"))
    assert (cluster.inside, cluster.between) == (2.5e9, 1.25e8)
    load = files.read_jobs(EXAMPLES / "jobs.yaml", cluster)
    assert (len(load), load.slot) == (7, 3600)
    assert {type(job.utility) for job in load} == {Sigmoid, Deadline, Linear}
    assert {job.server is None for job in load} == {True, False}


def test_a_cluster_file_by_hand(tmp_path):
    """Counts, names, human quantities and bandwidths; a count left out is one machine."""
    path = write(
        tmp_path,
        """
bandwidth: {inside: 40Gbps}
machines:
  - {name: big, count: 2, capacity: {gpu: 8, memory: 1Gi}}
  - capacity: {gpu: 500m}
""",
    )
    cluster = files.read_cluster(path)
    assert cluster == Cluster((Machine({"gpu": 8, "memory": "1Gi"}, 2, "big"), Machine({"gpu": "500m"})), inside=5e9)
    assert Cluster.from_yaml(path) == cluster


def test_a_cluster_in_csv(tmp_path):
    """Every column but name and count is a resource; an empty cell is a resource the machine lacks."""
    path = write(tmp_path, "# between: 10Gbps\nname,count,gpu,memory\nbig,2,8,1Gi\nsmall,1,,16Gi\n", "c.csv")
    machines = (Machine({"gpu": 8, "memory": "1Gi"}, 2, "big"), Machine({"memory": "16Gi"}, 1, "small"))
    assert files.read_cluster(path) == Cluster(machines, between=1.25e9)


def test_times_become_slots_and_bandwidths_bytes_per_slot(tmp_path):
    """By hand, slots of 10 minutes: 4 ms is 4e-3/600, 30 s is .05, 1 Gbps is 1.25e8 x 600, 2 h is 12 slots."""
    job = one(
        tmp_path,
        slot="10m",
        restart="30s",
        inside="1Gbps",
        utility={"kind": "sigmoid", "value": 80, "steepness": 0.5, "middle": "2h"},
    )
    assert job.time_per_sample == pytest.approx(0.004 / 600, rel=1e-15)
    assert job.restart == 0.05
    assert job.inside == 1.25e8 * 600
    assert job.between == CLUSTER.between * 600  # the cluster's, where the job states none
    assert job.utility == Sigmoid(80, 0.5, 12)
    assert job.gradient == 4.4e8
    assert job.worker == {"gpu": 1000, "cpu": 4000, "memory": 16 * 2**30 * 1000}


def test_the_specifications_row_from_a_file(tmp_path):
    """tau 5e-5 slots, g 300 MB, gamma 4, F 100, hours, 1 and 20 Gbps: sigma 1.03333e-4 and 5.26667e-5."""
    job = one(
        tmp_path,
        time_per_sample="5e-5 slots/sample",
        gradient="300MB",
        batch=100,
        server={"cpu": 1},
        workers_per_server=4,
        inside="20Gbps",
        between="1Gbps",
    )
    assert job.sigma(job.between) == pytest.approx(1.03333e-4, abs=5e-10)
    assert job.sigma(job.inside) == pytest.approx(5.26667e-5, abs=5e-11)


@pytest.mark.parametrize(
    ("said", "slot", "arrival"),
    [(7, "1h", 7), ("7", "1h", 7), ("90m", "1h", 1), ("59m", "1h", 0), ("1h", "10m", 6), ("0.3s", 0.1, 3)],
)
def test_arrival_is_a_slot_or_a_time_in_one(tmp_path, said, slot, arrival):
    """A bare number is a slot; a time falls into the slot that holds it, without float slips (.3/.1 is slot 3)."""
    assert one(tmp_path, slot=slot, arrival=said).arrival == arrival


def test_the_argument_goes_before_the_files_slot(tmp_path):
    """slot=600 over "slot: 30m"; and an hour where nobody says."""
    path = write(tmp_path, json.dumps({"slot": "30m", "jobs": [JOB]}), "half.json")
    assert files.read_jobs(path, CLUSTER, 600).slot == 600
    assert files.read_jobs(path, CLUSTER).slot == 1800
    assert read_jobs(tmp_path, JOB).slot == 3600


def test_work_is_samples_times_epochs(tmp_path):
    """50,000 samples, 200 epochs: 1e7; numbers may be written as YAML reads them, as text."""
    assert one(tmp_path, work=None, samples=50_000, epochs=200).work == 1e7
    assert one(tmp_path, work="1e7").work == 1e7


def test_defaults_are_for_jobs_that_do_not_say(tmp_path):
    """A job's own field wins as a whole, null takes a default away, and its own form of work replaces the other."""
    defaults = {k: v for k, v in JOB.items() if k not in ("id", "work")}
    defaults |= {"epochs": 10, "server": {"cpu": 2}}
    load = read_jobs(
        tmp_path,
        {"id": "a", "samples": 5},
        {"id": "b", "work": 7, "server": None, "worker": {"gpu": 2}},
        defaults=defaults,
    )
    assert [job.work for job in load] == [50, 7]
    assert [job.server for job in load] == [{"cpu": 2000}, None]
    assert [job.worker for job in load] == [{"gpu": 1000, "cpu": 4000, "memory": 16 * 2**30 * 1000}, {"gpu": 2000}]


def test_jobs_in_csv_are_the_jobs_in_yaml(tmp_path):
    """Columns with a dot are mappings, an empty cell is a field left out, blank lines and a BOM are nothing."""
    table = (
        "\ufeff# slot: 10m\nid,arrival,samples,epochs,batch,time_per_sample,worker.gpu,worker.memory,server.cpu,"
        "utility.kind,utility.value,utility.slots,tags.team\n"
        "a,1,10,2,4,4ms/sample,1,16Gi,,deadline,5,2h,vision\n\n"
        "b,90m,10,3,4,4ms,500m,,2,linear,5,3,\n"
    )
    text = """
slot: 10m
defaults: {samples: 10, batch: 4, time_per_sample: 4ms}
jobs:
  - {id: a, arrival: 1, epochs: 2, worker: {gpu: 1, memory: 16Gi}, tags: {team: vision},
     utility: {kind: deadline, value: 5, slots: 12}}
  - {id: b, arrival: 9, epochs: 3, worker: {gpu: 0.5}, server: {cpu: 2}, utility: {kind: linear, value: 5, slots: 3}}
"""
    rows = files.read_jobs(write(tmp_path, table, "jobs.csv"), CLUSTER)
    assert rows.jobs == files.read_jobs(write(tmp_path, text), CLUSTER).jobs
    assert (rows.slot, rows[0].tags, rows[1].server) == (600, {"team": "vision"}, {"cpu": 2000})


def test_a_job_that_states_no_worth_is_unstated(tmp_path):
    """In YAML, in a row of a CSV beside one that states it, and in Python; a value needs to know until when it stands."""
    bare = "{id: a, arrival: 0, workers: 2, duration: 1h, worker: {gpu: 1}"
    load = files.read_jobs(
        write(tmp_path, f"jobs:\n  - {bare}}}\n  - {bare.replace('a,', 'b,')}, deadline: 2h}}\n"), CLUSTER
    )
    assert [job.utility for job in load] == [Unstated(), Deadline(1, 2)]
    files.write_jobs(load, tmp_path / "jobs.csv")
    assert files.read_jobs(tmp_path / "jobs.csv", CLUSTER).jobs == load.jobs
    assert Job("a", 0, 1.0, 1, 1.0, {"gpu": 1}).utility == Unstated()


def test_yaml_words_stay_as_written(tmp_path):
    """An id of 007 is not 7, 1e3 not 1000.0, 2024-01-01 no date; and 010 cpus are ten, not octal eight."""
    body = "\n".join(
        f"  - {{id: {name}, arrival: 0, work: 1e3, batch: 010, time_per_sample: 1ms, worker: {{gpu: 1}},"
        " utility: {kind: linear, value: 1, slots: 1}}"
        for name in ("007", "1e3", "2024-01-01", "'true'")
    )
    load = files.read_jobs(write(tmp_path, f"jobs:\n{body}\n"), CLUSTER)
    assert [(job.id, job.work, job.batch) for job in load] == [
        (name, 1000, 10) for name in ("007", "1e3", "2024-01-01", "true")
    ]


def test_a_worker_larger_than_every_machine_is_read(tmp_path):
    """It is refused when it is offered, as infeasible_alone, not when it is read."""
    assert one(tmp_path, worker={"gpu": 1000}).worker == {"gpu": 1_000_000}


# There and back.

positive = st.floats(1e-12, 1e12)
names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8).filter(str.strip)
resources = st.sampled_from(["gpu", "cpu", "memory"])
milli = st.integers(1, 2**50) | st.integers(1, 64).map(lambda n: n * 1000) | st.integers(1, 99).map(lambda n: n << 30)
demands = st.dictionaries(resources, milli.map(lambda n: f"{n}m"), min_size=1)
utilities = st.one_of(
    st.builds(Sigmoid, positive, st.floats(0, 9), positive),
    st.builds(Deadline, positive, positive),
    st.builds(Linear, positive, positive),
    st.just(Unstated()),
)
jobs = st.builds(
    Job,
    id=names,
    arrival=st.integers(0, 1000),
    work=positive,
    batch=st.integers(1, 10**6),
    time_per_sample=positive,
    worker=demands,
    utility=utilities,
    server=st.none() | demands,
    workers_per_server=st.integers(1, 99),
    gradient=st.floats(0, 1e12),
    inside=positive | st.just(math.inf),
    between=positive | st.just(math.inf),
    requested=st.none() | st.integers(1, 99),
    most=st.none() | st.integers(1, 99),
    restart=st.floats(0, 9),
    actual=positive,
    user=st.just("") | names,
    priority=st.floats(1e-6, 1e6),
    tags=st.dictionaries(names, names, max_size=2),
)
workloads = st.builds(
    Workload, st.lists(jobs, min_size=1, max_size=3, unique_by=lambda job: job.id).map(tuple), st.floats(0.01, 1e6)
)
machines = st.builds(Machine, demands, st.integers(1, 50), names)


def written(ending, write, what, path):
    """Write it; what CSV says it cannot tell (a carriage return in a name) is another example."""
    try:
        write(what, path)
    except InputError as error:
        if ending != "csv" or "cannot be told in CSV" not in str(error):
            raise
        reject()


@pytest.mark.parametrize("ending", ENDINGS)
@given(load=workloads)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_jobs_come_back_equal(tmp_path, ending, load):
    """To the last bit of every float and the last milli-unit, whatever cluster they are read for."""
    path = tmp_path / f"back.{ending}"
    written(ending, files.write_jobs, load, path)
    again = files.read_jobs(path, CLUSTER)
    assert again.jobs == load.jobs
    assert again.slot == load.slot


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", files.GROUPS)
def test_a_name_in_a_group_may_be_that_of_a_group(tmp_path, ending, name):
    """A tag called server is the column tags.server, and no group."""
    job = one(tmp_path).but(tags={name: "q"})
    files.write_jobs([job], tmp_path / f"back.{ending}")
    assert files.read_jobs(tmp_path / f"back.{ending}", CLUSTER)[0] == job


@pytest.mark.parametrize("ending", ENDINGS)
@given(types=st.lists(machines, min_size=1, max_size=3), inside=positive, between=positive)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_a_cluster_comes_back_equal(tmp_path, ending, types, inside, between):
    """Capacities, counts, names and bandwidths."""
    cluster = Cluster(tuple(types), inside, between)
    path = tmp_path / f"back.{ending}"
    written(ending, files.write_cluster, cluster, path)
    assert files.read_cluster(path) == cluster


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_note_comes_back(tmp_path, ending):
    """Where utilities were made up, the file says so."""
    load = read_jobs(tmp_path, JOB, note="utilities synthesised, seed 7", start="2017-10-23 00:00")
    files.write_jobs(load, tmp_path / f"back.{ending}")
    again = files.read_jobs(tmp_path / f"back.{ending}", CLUSTER)
    assert (again.note, again.start) == ("utilities synthesised, seed 7", "2017-10-23 00:00")


def test_a_written_file_is_plain_yaml(tmp_path):
    """Another reader of YAML understands it: milli-units as text, slots named as such."""
    files.write_jobs([one(tmp_path, worker={"gpu": "1500m", "memory": "16Gi"})], tmp_path / "w.yaml")
    said = yaml.safe_load((tmp_path / "w.yaml").read_text())["jobs"][0]
    assert said["worker"] == {"gpu": "1500m", "memory": "16Gi"}
    assert said["time_per_sample"] == f"{0.004 / 3600!r} slots"


def test_what_csv_cannot_tell_is_not_written(tmp_path):
    """A server that asks for nothing is not the same as no server; YAML keeps the difference, CSV is refused."""
    job = one(tmp_path, server={})
    files.write_jobs([job], tmp_path / "w.yaml")
    assert files.read_jobs(tmp_path / "w.yaml", CLUSTER)[0].server == {}
    refused(lambda: files.write_jobs([job], tmp_path / "w.csv"), "server {} cannot be told in CSV", ".yaml")


@pytest.mark.parametrize("ending", ["yaml", "csv"])
def test_half_a_character_is_not_written(tmp_path, ending):
    """A lone surrogate is no UTF-8; JSON has an escape for it, the others say so."""
    refused(lambda: files.write_jobs([one(tmp_path).but(id="a\ud800")], tmp_path / f"w.{ending}"), "UTF-8")


@pytest.mark.parametrize("name", ["w.txt", "nowhere/w.yaml"])
def test_where_nothing_can_be_written(tmp_path, name):
    """An unknown ending, or a folder that is not there."""
    refused(lambda: files.write_cluster(CLUSTER, tmp_path / name), "w.")


# Mistakes: one line each.

BAD = [
    ({"arrival": -1}, "arrival is -1"),
    ({"arrival": 1.5}, "arrival is 1.5; expected a whole number"),
    ({"arrival": "-10m"}, "arrival is '-10m'"),
    ({"arrival": "noon"}, "arrival is 'noon'"),
    ({"arrival": None}, "no arrival"),
    ({"work": 0}, "work is 0"),
    ({"work": -5}, "work is -5"),
    ({"work": "much"}, "work is 'much'; expected a number"),
    ({"work": "1e999"}, "work is '1e999'"),
    ({"work": None}, "no work (or samples and epochs)"),
    ({"epochs": 3}, "keep one"),
    ({"work": None, "samples": 3}, "samples without epochs"),
    ({"work": None, "samples": -3, "epochs": -2}, "samples is -3"),
    ({"work": None, "samples": 3, "epochs": 0}, "epochs is 0"),
    ({"batch": 0}, "batch is 0; expected a whole number of 1 or more"),
    ({"batch": "0"}, "batch is 0"),
    ({"batch": 1.5}, "batch is 1.5"),
    ({"batch": True}, "batch is True"),
    ({"batch": [64]}, "batch is a list"),
    ({"batch": {"a": 1}}, "batch is {'a': 1}; expected one value"),
    ({"batch": None}, "no batch"),
    ({"time_per_sample": 0}, "time_per_sample is 0"),
    ({"time_per_sample": "4 lightyears"}, "'lightyears' is not known"),
    ({"time_per_sample": "9" * 10_000}, "time_per_sample is"),
    ({"gradient": "-1MB"}, "gradient is '-1MB'"),
    ({"gradient": "440 apples"}, "'apples' is not known"),
    ({"worker": None}, "no worker"),
    ({"worker": 4}, "worker is 4; expected a mapping"),
    ({"worker": {}}, "asks for nothing"),
    ({"worker": {"gpu": -1}}, "worker: gpu is -1; expected zero or more"),
    ({"worker": {"gpu": "one"}}, "worker: gpu is 'one'"),
    ({"worker": {"gpu": "1 Zi"}}, "the unit 'Zi' is not known"),
    ({"worker": {"gpu": True}}, "worker: gpu is True"),
    ({"worker": {"gpu": [1]}}, "worker: gpu is a list"),
    ({"worker": {"gpu": {"deep": {"deeper": 1}}}}, "worker: gpu is a mapping"),
    ({"worker": {"gpus": 1}}, "unknown resource in worker: 'gpus'; did you mean 'gpu'?"),
    ({"worker": {"g\npu": 1}}, "is no name"),
    ({"server": {"tpu": 1}}, "unknown resource in server: 'tpu'"),
    ({"server": [1]}, "server is a list"),
    ({"workers_per_server": 0}, "workers_per_server is 0"),
    ({"inside": "0Gbps"}, "inside is 0"),
    ({"between": "fast"}, "between is 'fast'"),
    ({"between": "1e999 B/slot"}, "between is '1e999'"),
    ({"requested": 0}, "requested is 0"),
    ({"requested": "all"}, "requested is 'all'"),
    ({"most": 2.5}, "most is 2.5"),
    ({"restart": "-3s"}, "restart is '-3s'"),
    ({"actual": 0}, "actual is 0"),
    ({"batchsize": 4}, "unknown field 'batchsize'; did you mean 'batch'?"),
    ({"utility": None, "value": 5}, "no utility"),
    ({"utility": 5}, "utility is 5; expected a mapping"),
    ({"utility": {"value": 5}}, "utility has no kind; expected one of sigmoid, deadline, linear, unstated"),
    ({"utility": {"kind": "sigmoyd"}}, "did you mean 'sigmoid'?"),
    ({"utility": {"kind": "linear", "value": 5}}, "utility linear has no slots"),
    ({"utility": {"kind": "linear", "value": 5, "slot": 5}}, "did you mean 'slots'?"),
    ({"utility": {"kind": "linear", "value": -5, "slots": 5}}, "value is -5"),
    ({"utility": {"kind": "linear", "value": "5h", "slots": 5}}, "utility.value is '5h'"),
    ({"utility": {"kind": "linear", "value": 5, "slots": "soon"}}, "utility.slots is 'soon'"),
    ({"priority": 0}, "priority is 0"),
    ({"priority": 2e6}, "priority is 2000000.0"),
    ({"priority": "high"}, "priority is 'high'"),
    ({"user": ["a", "b"]}, "user is a list"),
    ({"tags": "vision"}, "tags is 'vision'"),
]


@pytest.mark.parametrize("ending", ["json", "yaml"])
@pytest.mark.parametrize(("changes", "words"), BAD)
def test_a_bad_job_is_refused_with_its_place(tmp_path, changes, words, ending):
    """File, place, job and value in one line; the good job before it is not blamed. (YAML: the entry's line.)"""
    values = {k: v for k, v in (JOB | changes).items() if v is not None}
    text = f'{{"jobs": [\n{json.dumps(JOB | {"id": "good"})},\n{json.dumps(values)}\n]}}'
    path = write(tmp_path, text, f"jobs.{ending}")
    place = {"json": "entry 2 of jobs", "yaml": "line 3"}[ending]
    if ending == "yaml":  # numbers are text until they are needed: quoted where they could not be read
        words = words.replace("{'a': 1}", "{'a': '1'}")
        quoted = refused(lambda: files.read_jobs(path, CLUSTER), f"{path}, {place}: job 'a': ")
        assert words.replace("'", "") in quoted.replace("'", "")
    else:
        refused(lambda: files.read_jobs(path, CLUSTER), f"{path}, {place}: job 'a': ", words)


def test_user_and_priority_are_read_as_written(tmp_path):
    """A user called 042 stays text; a job that says nothing has none, and counts once."""
    path = write(tmp_path, HEADER + ",user,priority\n" + ROW + ",042,2.5\nb" + ROW[1:] + ",,\n", "jobs.csv")
    first, second = files.read_jobs(path, CLUSTER)
    assert [(job.user, job.priority) for job in (first, second)] == [("042", 2.5), ("", 1.0)]
    assert one(tmp_path, user=7).user == "7"


@pytest.mark.parametrize("bad", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("field", ["arrival", "work", "batch", "time_per_sample", "gradient", "inside", "restart"])
@pytest.mark.parametrize("ending", ["json", "yaml"])
def test_no_number_at_all(tmp_path, field, bad, ending):
    """NaN and infinity are refused in every field, as JSON or YAML (.nan, .inf) write them."""
    word = {"NaN": ".nan", "Infinity": ".inf", "-Infinity": "-.inf"}[bad] if ending == "yaml" else bad
    text = json.dumps({"jobs": [JOB | {field: "BAD"}]}).replace('"BAD"', word)
    refused(lambda: files.read_jobs(write(tmp_path, text, f"jobs.{ending}"), CLUSTER), f"job 'a': {field} is ")


def test_two_jobs_of_one_id_name_both_places(tmp_path):
    """Lines 2 and 3 of a table, entries 1 and 2 of a list."""
    text = f'{{"jobs": [\n{json.dumps(JOB)},\n{json.dumps(JOB)}]}}'
    refused(lambda: files.read_jobs(write(tmp_path, text), CLUSTER), "line 3: job 'a' is also at line 2")
    refused(lambda: read_jobs(tmp_path, JOB, JOB), "entry 2 of jobs: job 'a' is also at entry 1 of jobs")
    files.write_jobs([one(tmp_path)], tmp_path / "w.csv")
    lines = (tmp_path / "w.csv").read_text().splitlines()
    path = write(tmp_path, "\n".join([*lines, lines[-1]]), "twice.csv")
    refused(lambda: files.read_jobs(path, CLUSTER), "line 4: job 'a' is also at line 3")


@pytest.mark.parametrize("name", [None, "", "  ", [1], {"a": 1}])
def test_a_job_has_a_name(tmp_path, name):
    """Without one it could not be told apart."""
    refused(lambda: one(tmp_path, id=name), "entry 1 of jobs", "id")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("# nothing\n", "empty"),
        ("jobs: []\n", "no jobs; expected at least one"),
        ("jobs:\n", "expected a list"),
        ("jobs: 5\n", "line 1: jobs is '5'; expected a list"),
        ("a: 1\n", "unknown field 'a'"),
        ("slot: 10m\n", "no jobs; expected a list under `jobs:`"),
        ("- a\n- b\n", "expected a list under `jobs:`"),
        ("just words\n", "expected a list under `jobs:`"),
        ("jobs: [1, 2]\n", "line 1: '1' in jobs; expected a mapping"),
        ("jobs:\n  - [a]\n", "line 2: a list in jobs"),
        ("jobs:\n  - {id: a\n  - b\n", "while parsing a flow mapping from line 2"),
        ("jobs:\n\t- a\n", "line 2: not YAML"),
        ("jobs: *nobody\n", "not YAML"),
        ("---\njobs: []\n---\njobs: []\n", "not YAML"),
        ("jobs:\n  - {id: a, \x01}\n", "not YAML"),
        ("jobs:\n  - {id: a, id: b}\n", "line 2: 'id' is given twice"),
        ("jobs:\n  - {? [a] : b}\n", "line 2: a name is a list"),
        ("x: &x {id: a}\njobs:\n  - {<<: *x}\n", "`<<` is not read; put what jobs share under `defaults:`"),
        ("jobs: &j\n  - {id: a, worker: *j}\n", "worker is a list"),
        ("jobs:\n  - !!python/object/apply:os.system [echo]\n", "line 2: the tag"),
        ("jobs:\n  - {id: a,\n     batch: !!python/name:os.system ''}\n", "line 3: the tag"),
        ("!wrong {jobs: []}\n", "the tag '!wrong' is not read"),
        ("slot: 0\njobs: [{id: a}]\n", "slot is 0"),
        ("slot: -1h\njobs: [{id: a}]\n", "slot is '-1h'"),
        ("slot: long\njobs: [{id: a}]\n", "slot is 'long'"),
        ("slot: [1]\njobs: [{id: a}]\n", "slot is a list"),
        ("defaults: 5\njobs: [{id: a}]\n", "defaults is '5'"),
        ("defaults: {bach: 5}\njobs: [{id: a}]\n", "unknown field in defaults 'bach'; did you mean 'batch'?"),
        ("job: [{id: a}]\n", "unknown field 'job'"),
        ("[" * 100_000, "nested too deeply"),
        (b"jobs: \xff\n", "byte 6 is not UTF-8"),
    ],
)
def test_a_bad_yaml_file(tmp_path, text, words):
    """Malformed, tagged, misspelt, empty: the file, the line where there is one, what was expected."""
    path = write(tmp_path, text)
    refused(lambda: files.read_jobs(path, CLUSTER), str(path), words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: not JSON"),
        ('{"jobs": [\n{"id": }]}', "line 2: not JSON"),
        ("[]", "a list; expected a mapping with `jobs`"),
        ('{"jobs": {}}', "jobs is a mapping; expected a list"),
        ('{"jobs": []}', "no jobs"),
        ('{"jobs": [null]}', "None in jobs"),
        ('{"jobs": [{"id": "a", "batch": 1, "batch": 2}]}', "'batch' is given twice by 'a'"),
        ('{"jobs": [{"id": "a", "batch": ' + "9" * 5000 + "}]}", "digits"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_json_file(tmp_path, text, words):
    """As with YAML."""
    refused(lambda: files.read_jobs(write(tmp_path, text, "jobs.json"), CLUSTER), "jobs.json", words)


HEADER = "id,arrival,work,batch,time_per_sample,worker.gpu,utility.kind,utility.value,utility.slots"
ROW = "a,0,10,4,1ms,1,linear,5,5"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no jobs"),
        (HEADER, "no jobs"),
        (f"{HEADER}\n{ROW},7\n", "line 2: 10 cells under 9 columns"),
        (f"{HEADER}\n\n{ROW}\nb,0\n", "line 4: 2 cells under 9 columns"),
        (f'{HEADER}\n{ROW}\n"b,0', "line 3: not CSV"),
        (f"{HEADER},bach\n{ROW},1\n", "line 1: unknown column 'bach'; did you mean 'batch'?"),
        (f"{HEADER},worker\n{ROW},1\n", "line 1: the column 'worker' is a group"),
        (f"{HEADER},batch\n{ROW},1\n", "line 1: 'batch' is given twice"),
        (f"{HEADER},worker.tpu\n{ROW},1\n", "line 2: job 'a': unknown resource in worker: 'tpu'"),
        (f"# slot: 10m\n{HEADER}\n{ROW}\n,0,10,4,1ms,1,linear,5,5\n", "line 4: a job has no id"),
        (f"{HEADER}\n{ROW.replace('4', '0')}\n", "line 2: job 'a': batch is 0"),
        (f"{HEADER}\n{ROW.replace('1ms', '1 mss')}\n", "line 2: job 'a': time_per_sample is '1 mss'"),
        (f"{HEADER}\n{ROW.replace('1ms', '')}\n", "line 2: job 'a': no time_per_sample"),
        (f"{HEADER}\n{ROW.replace('a,0', 'a,nan')}\n", "line 2: job 'a': arrival is 'nan'"),
        (f'{HEADER},tags.x\n{ROW},"two\nlines"\nb{ROW[1:]},\nc,-1{ROW[3:]},\n', "line 5: job 'c': arrival is -1"),
        (f"# slot: never\n{HEADER}\n{ROW}\n", "slot is 'never'"),
    ],
)
def test_a_bad_csv_file(tmp_path, text, words):
    """The row's line is named, blank lines, comments and cells of several lines counted."""
    refused(lambda: files.read_jobs(write(tmp_path, text, "jobs.csv"), CLUSTER), "jobs.csv", words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("machines: []\n", "no machines"),
        ("machines:\n  - {name: a, capacity: {gpu: 1}}\n  - {name: b, capacity: {gpu: -1}}\n", "line 3: machine 'b': "),
        ("machines:\n  - {name: a, count: 0, capacity: {gpu: 1}}\n", "line 2: Machine 'a': count is 0"),
        ("machines:\n  - {name: a, count: few, capacity: {gpu: 1}}\n", "machine 'a': count is 'few'"),
        ("machines:\n  - {name: a, capacity: {gpu: 0}}\n", "every capacity is zero"),
        ("machines:\n  - {name: a, capacity: 8}\n", "capacity is '8'; expected a mapping"),
        ("machines:\n  - {name: a}\n", "capacity is missing"),
        ("machines:\n  - {name: a, capcity: {gpu: 1}}\n", "did you mean 'capacity'?"),
        ("bandwith: {}\nmachines: [{capacity: {gpu: 1}}]\n", "did you mean 'bandwidth'?"),
        ("bandwidth: 5\nmachines: [{capacity: {gpu: 1}}]\n", "bandwidth is '5'"),
        ("bandwidth: {insid: 5}\nmachines: [{capacity: {gpu: 1}}]\n", "did you mean 'inside'?"),
        ("bandwidth: {inside: 0}\nmachines: [{capacity: {gpu: 1}}]\n", "inside is 0"),
        ("bandwidth: {inside: fast}\nmachines: [{capacity: {gpu: 1}}]\n", "inside is 'fast'"),
    ],
)
def test_a_bad_cluster_file(tmp_path, text, words):
    """As with jobs."""
    path = write(tmp_path, text, "cluster.yaml")
    refused(lambda: files.read_cluster(path), str(path), words)


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_such_file(tmp_path, ending):
    """Missing, or a folder."""
    refused(lambda: files.read_cluster(tmp_path / f"none.{ending}"), f"none.{ending}: no such file")
    (tmp_path / f"folder.{ending}").mkdir()
    refused(lambda: files.read_cluster(tmp_path / f"folder.{ending}"), "cannot be read")


def test_an_unknown_ending(tmp_path):
    """The three that are read are named."""
    refused(lambda: files.read_cluster(write(tmp_path, "", "cluster.toml")), "'.toml'; expected .yaml, .json or .csv")


@given(st.binary(max_size=60), st.sampled_from(ENDINGS))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_noise_is_refused_not_a_crash(tmp_path, noise, ending):
    """Whatever the bytes, one line."""
    path = write(tmp_path, noise, f"noise.{ending}")
    refused(lambda: files.read_jobs(path, CLUSTER), "noise.")


# One schema.


def test_a_field_is_stated_once():
    """What a job can have is the same in files, in requests and in what the client sends; a file adds when and who."""
    from equipoise.place.job_spec import FIELDS, JobSpec
    from equipoise.serve.api.jobs import JobIn

    assert set(JobIn.model_fields) == set(JobSpec.model_fields)
    assert set(FIELDS) - set(JobSpec.model_fields) == {"id", "arrival", "actual"}


def test_a_file_may_use_the_short_form(tmp_path):
    """Four workers for two hours, worth 10 until the deadline, is as in a request."""
    said = {
        "id": "a",
        "arrival": 0,
        "worker": {"gpu": 1},
        "workers": 4,
        "duration": "2h",
        "value": 10,
        "deadline": "5h",
    }
    (job,) = read_jobs(tmp_path, said)
    assert (job.work, job.batch, job.requested, job.utility) == (8.0, 4, 4, Deadline(10.0, 5.0))
