"""Files that are damaged, strange or not ours at all: a reader gives a result or one line of error, and nothing else."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from equipoise.errors import InputError
from equipoise.place import Cluster, Machine, traces
from equipoise.place.files import read_cluster, read_jobs
from equipoise.place.job_spec import job_from
from equipoise.place.schedule import read_schedule, verify_files
from equipoise.place.traces import alibaba_cluster, tiresias_cluster
from equipoise.serve.shadow import Traced

BOXES = Cluster((Machine({"gpu": 4, "cpu": 32, "memory": "128Gi"}, 2, "box"),))

CLUSTER_YAML = """bandwidth: {inside: 20Gbps, between: 1Gbps}
machines:
  - {name: box, count: 2, capacity: {gpu: 4, cpu: 32, memory: 128Gi}}
  - name: thin
    capacity: {cpu: 64, memory: 1Ti}
"""
CLUSTER_JSON = (
    '{"bandwidth": {"inside": 1e9}, "machines": [{"name": "box", "count": 2, "capacity": {"gpu": 4, "cpu": "8"}}]}'
)
CLUSTER_CSV = "# inside: 20Gbps\nname,count,gpu,cpu,memory\nbox,2,4,32,128Gi\nthin,1,,64,1Ti\n"
JOBS_YAML = """slot: 10m
defaults: {batch: 8, utility: {kind: deadline, value: 10, slots: 24}}
jobs:
  - {id: a, arrival: 0, work: 1000, time_per_sample: 4ms, worker: {gpu: 1, cpu: 4}}
  - id: b
    arrival: 20m
    samples: 100
    epochs: 3
    time_per_sample: 1 slots
    worker: {cpu: 2, memory: 16Gi}
    server: {cpu: 1}
    workers_per_server: 2
    gradient: 440MB
    restart: 1m
    utility: {kind: sigmoid, value: 80, steepness: 0.5, middle: 6}
    tags: {team: vision}
"""
JOBS_JSON = (
    '{"slot": 600, "jobs": [{"id": "a", "arrival": 0, "work": 10, "batch": 2, "time_per_sample": "1s",'
    ' "worker": {"gpu": 1}, "utility": {"kind": "linear", "value": 3, "slots": 9}}]}'
)
JOBS_CSV = (
    "# slot: 10m\nid,arrival,work,batch,time_per_sample,worker.gpu,worker.cpu,utility.kind,utility.value,utility.slots\n"
    "a,0,1000,8,4ms,1,4,deadline,10,24\nb,3,50,2,1s,0,2,linear,5,9\n"
)
SCHEDULE = "job,slot,machine,workers,servers\na,0,box-0,2,0\na,1,box-0,2,0\nb,3,box-1,1,1\n"
SLURM = (
    "JobID|Partition|Submit|Start|End|ElapsedRaw|ReqTRES|AllocTRES|NCPUS|NNodes|State\n"
    "1001|gpu|2024-03-01T08:00:00|2024-03-01T08:05:00|2024-03-01T09:05:00|3600|cpu=8,gres/gpu=2|cpu=8,gres/gpu:a100=2,"
    "gres/gpu=2,mem=32G,node=1|8|1|COMPLETED\n"
    "1001.batch||2024-03-01T08:05:00|2024-03-01T08:05:00|2024-03-01T09:05:00|3600||cpu=8,mem=32G|8|1|COMPLETED\n"
    "1002_7|cpu|2024-03-01T00:10:00|2024-03-01T00:11:00|2024-03-01T00:31:00|1200||cpu=64,mem=100G,node=2|64|2|FAILED\n"
)
ELAPSED = "JobID|Submit|Elapsed|NCPUS\n7|2024-03-01T08:00:00|1-02:03:04|8\n8|2024-03-01T09:00:00|03:04|1\n"
ALIBABA = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "pod-0,12000,16384,1,460,,LS,Running,600,4800,1200\npod-1,4000,8192,0,0,,BE,Failed,0,1800,0\n"
)
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,96000,393216,8,G2\nn1,16000,122880,2,P100\n"
GAVEL = (
    "A3C\tcd x && python3 main.py\t--max\t1\t4000\t0\t1\n"
    "ResNet-18 (batch size 32)\tpython3 main.py\timage/cifar10\t--num_steps\t1\t5000\t2\t1\t-1.000000\t60\n"
)
ELASTICFLOW = (
    "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
    "bdd6,600,3249,deepspeech2,1800,32,1,1075\n23b8,1250,48266,inception3,4000,64,8,3604\n"
)
SHOCKWAVE = "A3C\tpython3 main.py\trl\t--max\t1\t4000\t2\tgns\t1\t-1.000000\t1418\t60\n"
SIA = "name,time,application,num_replicas,batch_size,duration\na,0,bert,1,12,600\nb,90,cifar10,4,512,1200\n"
PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n"
    "2017-10-09 06:13:03,2951.0,1,2951.0,6214e9\n2017-10-08 23:59:59,600,8,4800,x\n"
)
SWF = (
    "; Version: 2.2\n; UnixStartTime: 1034319600\n"
    "  1     0   10  1200   4  -1  -1     4  3600     -1   1  1 1 1 1 -1 -1 -1\n"
    "  2   600   10   600  -1  -1 2048   16  3600   1024   0  1 1 1 2 -1 -1 -1\n"
)
TIRESIAS = (
    "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
    "0,1,0,606,vgg19,164,30\n1,8,130,133,vgg11,180,23\n"
)
SPECIFICATION = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n4,32,8,128,256\n"


def certified(path: Path) -> Any:
    """A schedule is read, and then certified against jobs that it may not even name."""
    job = job_from(
        {
            "id": "a",
            "arrival": 0,
            "work": 4,
            "batch": 2,
            "time_per_sample": "1 slots",
            "worker": {"gpu": 1},
            "utility": {"kind": "linear", "value": 3, "slots": 9},
        },
        BOXES,
        600.0,
    )
    return verify_files(BOXES, [job], read_schedule(path), end=12, finish={"a": 1})


def followed(kind: str) -> Callable[[Path], Any]:
    return lambda path: Traced(path, kind, 600.0, follow=True).read()


READERS: dict[str, tuple[str, str, Callable[[Path], Any]]] = {
    "cluster.yaml": ("c.yaml", CLUSTER_YAML, read_cluster),
    "cluster.json": ("c.json", CLUSTER_JSON, read_cluster),
    "cluster.csv": ("c.csv", CLUSTER_CSV, read_cluster),
    "jobs.yaml": ("j.yaml", JOBS_YAML, lambda path: read_jobs(path, BOXES)),
    "jobs.json": ("j.json", JOBS_JSON, lambda path: read_jobs(path, BOXES)),
    "jobs.csv": ("j.csv", JOBS_CSV, lambda path: read_jobs(path, BOXES)),
    "schedule": ("s.csv", SCHEDULE, read_schedule),
    "certified schedule": ("s.csv", SCHEDULE.replace("b,3,box-1,1,1\n", ""), certified),
    "slurm": ("s.txt", SLURM, traces.slurm),
    "slurm elapsed": ("s.txt", ELAPSED, traces.slurm),
    "slurm followed": ("s.txt", SLURM, followed("slurm")),
    "alibaba": ("a.csv", ALIBABA, traces.alibaba),
    "alibaba followed": ("a.csv", ALIBABA, followed("alibaba")),
    "alibaba nodes": ("n.csv", NODES, alibaba_cluster),
    "elasticflow": ("e.csv", ELASTICFLOW, traces.elasticflow),
    "shockwave": ("s.trace", SHOCKWAVE, traces.gavel),
    "sia": ("s.csv", SIA, traces.sia),
    "gavel": ("g.trace", GAVEL, traces.gavel),
    "philly": ("p.csv", PHILLY, traces.philly),
    "philly gzipped": ("p.csv.gz", PHILLY, traces.philly),
    "swf": ("x.swf", SWF, traces.swf),
    "swf followed": ("x.swf", SWF, followed("swf")),
    "tiresias": ("t.csv", TIRESIAS, traces.tiresias),
    "tiresias machines": ("m.csv", SPECIFICATION, tiresias_cluster),
}
# What people and other programs put where a number, a name or a mark should be.
STRANGE = (
    b"",
    b" ",
    b"0",
    b"-1",
    b"1e999",
    b"1e308",
    b"1e-320",
    b"nan",
    b"inf",
    b"-inf",
    b".inf",
    b"9" * 30,
    b"9" * 5000,
    b"2" * 400,
    b"0x10",
    b"1_000",
    b"\xd9\xa1",
    b"\xc2\xb2",
    b"null",
    b"~",
    b"true",
    b"[]",
    b"{}",
    b"[[[[",
    b"}",
    b"]",
    b":",
    b"- ",
    b"\n",
    b"\r",
    b"\r\n",
    b"\t",
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b'"',
    b"'",
    b"#",
    b"&a ",
    b"*a",
    b"!!python/object:os.system ",
    b"!!binary ",
    b"!!timestamp ",
    b"!!set ",
    b"!!omap ",
    b"<<: ",
    b"? ",
    b"| ",
    b"> ",
    b"%YAML 9.9\n---\n",
    b"---\n",
    b"...\n",
    b"2024-02-30",
    b"2024-13-01T00:00:00",
    b"0001-01-01T00:00:00",
    b"9999-12-31T23:59:59-14:00",
    b"0001-01-01T00:00:00+23:59",
    b"1:2:3",
    b"\\ud800",
    b"\\",
    b"1e5 slots",
    b"B/slot",
    b"16Gi",
    b"1e300Pi",
    b"1e-300s",
    b"unlimited",
    b"gpu",
    b"a.b.c",
    b",",
    b"|",
    b";",
    b"=",
    b"cpu=",
    b"mem=9e9P",
    b"mem=1e400G",
    b"99999999999999999999-00:00:00",
    b"\xe2\x80\xa8",
    b"\x85",
    b"\x1c",
    b"\x0b",
)

edit = st.tuples(
    st.floats(0, 1, exclude_max=True),  # where, as a part of the file
    st.integers(0, 12),  # bytes that are taken out
    st.one_of(st.sampled_from(STRANGE), st.sampled_from(STRANGE), st.binary(max_size=6)),
)
cut = st.tuples(st.floats(0, 1), st.floats(0, 1))


def damaged(text: bytes, edits, tail) -> bytes:
    """The file with some places overwritten, and one part of it repeated or left out."""
    for where, out, put in edits:
        at = int(where * len(text))
        if put in (b"9" * 5000, b"2" * 400) or out > 8:  # a whole word goes
            out = next((k for k in range(len(text) - at) if text[at + k] in b' ,|\t\n:{}[]"'), 0)
        text = text[:at] + put + text[at + out :]
    if tail is not None:
        first, last = sorted(int(part * len(text)) for part in tail)
        text = text[:last] + text[first:]
    return text


def outcome(reader: Callable[[Path], Any], path: Path) -> str:
    try:
        reader(path)
    except InputError as error:
        said = str(error)
        assert said.strip() and len(said.splitlines()) == 1, f"not one line: {said!r}"
        return said
    return ""


def put(path: Path, text: bytes, name: str) -> None:
    if name == "philly gzipped":
        text = gzip.compress(text, mtime=0)
    path.write_bytes(text)


@pytest.mark.parametrize("name", READERS)
def test_what_is_damaged_here_was_sound_before(name, tmp_path):
    """Each sample is read without complaint as it stands: otherwise nothing would be shown below."""
    file, text, reader = READERS[name]
    put(tmp_path / file, text.encode(), name)
    assert outcome(reader, tmp_path / file) == ""


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_read_or_refused_in_one_line(name, tmp_path_factory):
    file, text, reader = READERS[name]
    path = tmp_path_factory.mktemp("damaged") / file

    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(edits=st.lists(edit, max_size=5), tail=st.none() | cut)
    def one(edits, tail):
        put(path, damaged(text.encode(), edits, tail), name)
        outcome(reader, path)

    one()


@pytest.mark.parametrize("name", READERS)
def test_bytes_of_no_format_are_refused_in_one_line(name, tmp_path_factory):
    file, text, reader = READERS[name]
    path = tmp_path_factory.mktemp("bytes") / file
    header = text.encode().split(b"\n")[0] + b"\n"

    @settings(max_examples=25, suppress_health_check=list(HealthCheck))
    @given(content=st.binary(max_size=200), after_header=st.booleans())
    def one(content, after_header):
        path.write_bytes(header + content if after_header else content)
        outcome(reader, path)

    one()


# What random damage found once: numbers past what int and float take, and a space that only str.strip() takes for one.
FOUND = {
    "a count of 400 digits": ("cluster.json", b'"count": 2', b'"count": ' + b"2" * 400),
    "work of 400 digits": ("jobs.json", b'"work": 10', b'"work": ' + b"2" * 400),
    "samples of 300 digits": ("jobs.yaml", b"samples: 100", b"samples: " + b"1" * 300),
    "epochs of 300 digits": ("jobs.yaml", b"epochs: 3", b"epochs: " + b"1" * 300),
    "a cell with a control character": ("schedule", b"box-0,2,0", b"box-0,\x1c2,0"),
    "seconds of 5000 digits": ("slurm elapsed", b"|03:04|", b"|03:" + b"9" * 5000 + b"|"),
    "CPUs of 5000 digits": ("slurm elapsed", b"|8\n", b"|" + b"9" * 5000 + b"\n"),
    "a wait that is a word": ("swf followed", b"0   10  1200", b"0   gpu  1200"),
    "a wait without end": ("swf followed", b"0   10  1200", b"0   inf  1200"),
    "a start of 5000 digits": ("swf followed", b"1034319600", b"1" * 5000),
}


@pytest.mark.parametrize("case", FOUND)
def test_numbers_past_all_measure_are_read_or_refused_in_one_line(case, tmp_path):
    name, old, new = FOUND[case]
    file, text, reader = READERS[name]
    assert old in text.encode()
    put(tmp_path / file, text.encode().replace(old, new, 1), name)
    outcome(reader, tmp_path / file)


ONE_JOB = (
    "{id: a, arrival: 0, work: 1, batch: 1, time_per_sample: 1s, worker: {gpu: 1},"
    " utility: {kind: linear, value: 1, slots: 1}}"
)
DOUBLED = "b0: &b0 [x, x]\n" + "".join(f"b{k + 1}: &b{k + 1} [*b{k}, *b{k}]\n" for k in range(40))
BOMBS = {
    "aliases": f"{DOUBLED}jobs: [{ONE_JOB}]\n",
    "aliases in a job": f"x: &x {{gpu: 1}}\njobs:\n  - {ONE_JOB.replace('{gpu: 1}', '*x')}\n",
    "an alias to itself": "jobs: &a [*a]\n",
    "a key that is a list": "? [a, b]\n: 1\njobs: []\n",
    "deep": "jobs: " + "[" * 5000 + "]" * 5000 + "\n",
    "deep maps": "jobs: " + "{a: " * 3000 + "1" + "}" * 3000 + "\n",
    "a long number": f"jobs: [{ONE_JOB.replace('work: 1', 'work: ' + '9' * 10_000)}]\n",
    "a long exponent": f"jobs: [{ONE_JOB.replace('work: 1', 'work: 1e' + '9' * 300)}]\n",
    "a long fraction": f"jobs: [{ONE_JOB.replace('work: 1', 'work: 0.' + '1' * 10_000)}]\n",
    "sixty": f"jobs: [{ONE_JOB.replace('work: 1', 'work: ' + '1:' * 2000 + '1')}]\n",
    "a date": f"jobs: [{ONE_JOB.replace('work: 1', 'work: 2024-01-01')}]\n",
    "a date that is none": f"jobs: [{ONE_JOB.replace('work: 1', 'work: 2024-99-99')}]\n",
    "a tag": f"jobs: [{ONE_JOB.replace('work: 1', 'work: !!python/name:os.system')}]\n",
    "binary": f"jobs: [{ONE_JOB.replace('work: 1', 'work: !!binary x')}]\n",
    "two documents": f"jobs: [{ONE_JOB}]\n---\njobs: []\n",
    "merged": "d: &d {batch: 1}\njobs:\n  - <<: *d\n    id: a\n",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_small_yaml_that_means_a_lot_is_read_or_refused_in_one_line(bomb, tmp_path):
    """Aliases that double, numbers of ten thousand digits, nesting without end: none of it takes the reader down."""
    path = tmp_path / "j.yaml"
    path.write_text(BOMBS[bomb])
    outcome(lambda file: read_jobs(file, BOXES), path)


TOO_MUCH = [
    "[" * 100_000,
    '{"jobs": ' * 50_000,
    '{"jobs": [' + "9" * 5000 + "]}",
    '{"jobs": [1e999]}',
    '{"jobs": [NaN]}',
]


@pytest.mark.parametrize("text", TOO_MUCH, ids=lambda text: text[:9])
def test_small_json_that_means_a_lot_is_refused_in_one_line(text, tmp_path):
    path = tmp_path / "j.json"
    path.write_text(text)
    assert outcome(lambda file: read_jobs(file, BOXES), path)
