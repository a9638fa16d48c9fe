"""Every run, page and docs page of train, share and place says first: simulation, execution, calculation or service; who
reads which data; what leaves. What is expected stands here in plain words, command by command."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
import yaml

import equipoise
from equipoise import present
from equipoise.cli import main
from equipoise.document import Document
from equipoise.present.html import html_of
from equipoise.present.values import Page
from equipoise.present.where import KNOWN, where
from shown import ROOT, text_of

SIMULATED, COMPUTED, EXECUTED = "Simulation: ", "Calculation: ", "Execution on this machine: "
STAYS = "Nothing leaves this machine."
DRAWN = "draws the jobs itself"
SMALL = ("--draw", "6", "--slots", "8", "--policy", "fifo,srtf", "--machines", "2")
TINY = ("--data", "none", "--rounds", "30", "--target", "0.9", "--nodes", "4")
SITE = ("--loads", "4", "--seeds", "2", "--policies", "Uniform,SDF")
CLOCK = (
    *("--tasks", "2", "--step", "0.15", "--cpus", "0.8", "--arrival", "0:2", "--deadline", "6:8", "--length", "10:20"),
    *("--patience", "5", "--trial", "0.05", "--policies", "Uniform", "--work", "my.py:learns"),
)
WORK = """
def learns(seed):
    for k in range(1, 10000):
        sum(range(20000))
        yield 1.0 / k
"""
CURVES = ("--repeats", "1", "--models", "naive-bayes-gaussian", "--data", "breast-cancer")
PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 06:00:03,900,1,1,a
2017-10-09 06:10:03,960,2,1,a
"""


class Command(NamedTuple):
    """A command with settings that take a moment, and what its first sentences must say."""

    words: tuple[str, ...]
    kind: str
    who: str
    reads: str
    leaves: str = STAYS
    json: bool = True


def command(words: str, *options: str, kind: str, who: str, reads: str, json: bool = True) -> Command:
    return Command((*words.split(), *options), kind, who, reads, json=json)


COMMANDS = (
    command("train", *TINY, kind=SIMULATED, who="one process on this machine plays all 4 centres", reads="no data"),
    command(
        "train",
        *("--engine", "processes", "--workers", "2", *TINY),
        kind=EXECUTED,
        who="2 workers, processes of this machine, play all 4 centres",
        reads="reads no data",
    ),
    command(
        "train compare",
        *("--nodes", "4", "--seeds", "1", "--rounds", "20", "--entrants", "Ours", "--target", "0.5"),
        kind=SIMULATED,
        who="one process on this machine plays every method",
        reads="draws the instances itself and reads no data",
    ),
    command("train analyse", "--nodes", "4", kind=COMPUTED, who="One process", reads="reads all data (digits)"),
    command("train verify", "TRAINED", kind=COMPUTED, who="One process", reads="reads the files of the run folder"),
    command("share", *SITE, "--oracle", "0", kind=SIMULATED, who="one process", reads="reads no data"),
    command("share", *SITE, "--oracle", "0", "--workers", "2", kind=SIMULATED, who="2 threads", reads="reads no data"),
    command("share --published-run", kind=SIMULATED, who="one process", reads="reads no data"),
    command(
        "share bundles",
        *("--seeds", "2", "--loads", "3", "--units", "60"),
        kind=SIMULATED,
        who="one process",
        reads="recorded curves that come with Equipoise",
    ),
    command("share check", "SDF", kind=SIMULATED, who="one process", reads="reads no data"),
    command(
        "share execute", *CLOCK, kind=EXECUTED, who="every task is a process that really trains", reads="what my.py"
    ),
    command(
        "share record",
        *("curves.csv.gz", *CURVES),
        kind=EXECUTED,
        who="one process on this machine really trains",
        reads="data sets that come with scikit-learn",
        json=False,
    ),
    command("place", *SMALL, "--no-bound", kind=SIMULATED, who="one process", reads=DRAWN),
    command(
        "place compare",
        *("examples/jobs.yaml", "--cluster", "examples/cluster.yaml", "--slots", "24", "--policy", "srtf"),
        kind=SIMULATED,
        who="one process on this machine plays every policy",
        reads="reads jobs.yaml and cluster.yaml",
    ),
    command("place sweep", *SMALL, "--no-bound", "--seeds", "2", kind=SIMULATED, who="processes", reads=DRAWN),
    command("place whatif", *SMALL[:4], "--policy", "fifo", "--add", "1", kind=SIMULATED, who="twice", reads=DRAWN),
    command("place explain", "job-0", *SMALL[:4], "--policy", "fifo", kind=SIMULATED, who="one process", reads=DRAWN),
    command("place calibrate", "--draw", "6", "--slots", "8", kind=SIMULATED, who="past jobs", reads=DRAWN),
    command("place bound", *SMALL[:4], kind=COMPUTED, who="One process", reads=DRAWN),
    command("place import", "trace.csv", kind=COMPUTED, who="writes them", reads="reads trace.csv"),
    command(
        "place verify", "SCHEDULE", kind=COMPUTED, who="checks the schedule", reads=".csv, jobs.json, cluster.yaml"
    ),
)
# Commands that print no result of a run: what can be chosen, commands that are gone, and names of the default.
PRINT_NO_RESULT = {"share": {"list", "ladder", "estimators"}, "place": {"list"}, "train": {"run"}}


class Done(NamedTuple):
    code: int
    out: str
    err: str


def call(*words: str) -> Done:
    """The command in this process: its imports are paid for once."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["equipoise", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as left:
            return Done(int(left.code or 0), out.getvalue(), err.getvalue())
        finally:
            sys.argv = before
    raise AssertionError("main always exits")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder with files to run on, a run of train and one of place; commands run in it."""
    home = tmp_path_factory.mktemp("where")
    (home / "my.py").write_text(WORK)
    (home / "trace.csv").write_text(PHILLY)
    (home / "examples").symlink_to(ROOT / "examples")
    with contextlib.chdir(home), pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "100")
        call("train", "--out", "trained", *TINY)
        call("place", "--out", "placed", "--no-report", *SMALL)
        yield home


def made(home: Path, word: str) -> str:
    """A word of a command, or the run that stands for it."""
    if word == "TRAINED":
        return str(next((home / "trained").iterdir()))
    return str(next((home / "placed").glob("*/allocations-*.csv"))) if word == "SCHEDULE" else word


def first(text: str) -> str:
    """The beginning of what was printed, with its lines joined."""
    return " ".join(text.split("\n\n")[0].split())[:700]


@pytest.mark.parametrize("one", COMMANDS, ids=lambda one: " ".join(one.words[:2]))
def test_what_a_command_prints_first_says_what_runs_where(one: Command, folder: Path) -> None:
    """The kind, who plays, who reads, and what leaves, before anything else; and so does the page, right below its title."""
    before = set(folder.glob("runs/*"))
    done = call(*(made(folder, word) for word in one.words))
    assert done.code in (0, 1), done.err
    said = first(done.out)
    assert said.startswith(one.kind), said
    for words in (one.who, one.reads, one.leaves):
        assert words in said, (words, said)
    for page in (page for run in set(folder.glob("runs/*")) - before for page in run.glob("report.html")):
        top = shown_first(page.read_text(encoding="utf-8"))
        assert top.startswith(one.kind) and one.reads in top and "leaves this machine" in top


@pytest.mark.parametrize("words", ["train", "share", "place compare", "place bound"])
def test_with_json_it_goes_to_standard_error(words: str, folder: Path) -> None:
    """Standard output is for JSON alone."""
    one = next(one for one in COMMANDS if " ".join(one.words).startswith(words))
    done = call(*one.words, "--json")
    assert json.loads(done.out)["verb"].startswith(words.split()[0])
    (line,) = [line for line in done.err.splitlines() if line.startswith(one.kind)]
    assert one.reads in line and line.endswith((one.leaves, "enforced."))


def test_no_command_of_the_three_verbs_is_left_out() -> None:
    """Every command of these groups is in COMMANDS above, or prints no result."""
    for verb, others in PRINT_NO_RESULT.items():
        group = typer.main.get_command(import_module(f"equipoise.cli.{verb}").app)
        known = {one.words[1] for one in COMMANDS if one.words[0] == verb and len(one.words) > 1}
        left_out = set(group.commands) - known - others
        assert not left_out, f"{verb}: {left_out}"


# pages


def shown_first(html: str) -> str:
    """What stands between the title of a page and the rest of it."""
    header = html.partition("</h1>")[2].partition("</header>")[0]
    return " ".join(re.sub(r"<[^>]*>", " ", header).split()).replace(" :", ":")


RECORDED = sorted(path.parent for path in (ROOT / "tests/recorded/0.1.0").glob("*/result.json"))
OLD = {
    "place": ("Simulation: one process", "draws the jobs itself"),
    "reproduce": ("Simulation: processes on this machine", "read data sets"),
    "share": ("Simulation: one process", "reads no data"),
    "share-execute": ("Execution on this machine: every task is a process", "Each reads"),
    "train": ("Simulation: one process on this machine plays", "It reads"),
    "train-compare": ("Simulation: one process on this machine plays every method", "reads no data"),
    "train-couple": ("Simulation: one process on this machine plays all 20 centres", "reads all data (digits)"),
    "train-hostile": ("Simulation: one process on this machine plays", "It reads"),
    "train-mlp": ("Simulation: one process on this machine plays", "reads all data (digits)"),
    "train-quadratic": (
        "Simulation: one process on this machine plays all 5 centres",
        "reads all data (breast cancer)",
    ),
    "train-study": ("Simulation: one process on this machine plays every method", "reads no data"),
}


@pytest.mark.parametrize("path", [path for path in RECORDED if path.name in OLD], ids=lambda path: path.name)
def test_the_page_of_a_run_of_0_1_0_says_it_too(path: Path) -> None:
    """From its verb and its settings, which had other names then."""
    top = shown_first(present.report(equipoise.load(path)))
    for words in OLD[path.name]:
        assert words in top, top
    assert "leaves this machine" in top


def test_every_verb_that_has_a_page_says_it() -> None:
    """Also where the document has neither settings nor results; a bare table, which nobody ran, says nothing."""
    for verb in present.PAGES:
        top = shown_first(html_of(Page(Document(verb, {}, version="0.1.0"), "A title", [], {})))
        assert re.match(r"(Simulation|Execution on this machine|Service): ", top) and "leaves this machine" in top, verb
    assert where("") is None and set(present.PAGES) <= set(KNOWN)


def test_names_of_files_are_text() -> None:
    """A name cannot begin a tag, nor steer a terminal."""
    config = {"data": "csv", "data_file": "/a/<b>\x1b[2J.csv", "model": "softmax", "nodes": 3}
    top = html_of(Page(Document("train", {}, config=config), "A title", [], {})).partition("</header>")[0]
    assert "&lt;b&gt;" in top and "<b>" not in top.partition("</h1>")[2] and "\x1b" not in str(where("train", config))


# what is so when it is asked for in another way


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"engine": "ray", "address": "10.0.0.1:6379"}, ("Execution on a Ray cluster", "rows leave this machine")),
        ({"engine": "ray"}, ("Execution on this machine", "Ray on this machine", STAYS)),
        ({"engine": "processes"}, ("Execution on this machine", "reads all data", "hands each worker", STAYS)),
        ({"engine": "processes", "couple": True}, ("Execution on this machine", "are enforced")),
        ({"engine": "processes", "couple": True, "limiter": "none"}, ("not enforced",)),
        ({"couple": True}, ("Simulation", "negotiated, not enforced")),
        ({"data": "csv", "data_file": "my.csv"}, ("Simulation", "reads all of my.csv", "20 centres", STAYS)),
        (
            {"files": ["a.csv", "b.csv"]},
            (
                "all 2 centres",
                "reads all 2 files, one for each centre",
                "fingerprint of each file",
                "never rows",
                STAYS,
            ),
        ),
        (
            {"engine": "processes", "workers": 2, "files": ["a.csv", "b.csv"]},
            ("2 workers, processes of this machine, play all 2 centres", "of the command reads all 2 files, one for"),
        ),
        ({"data": "csv", "files": ["in/a.csv"]}, ("reads all of a.csv and deals its rows", "all 20 centres", STAYS)),
        ({"network": "file"}, ("plays all centres.",)),
        ({"cost": "none"}, ("Simulation", STAYS)),
    ],
    ids=str,
)
def test_a_run_of_train_says_who_reads_and_what_leaves(config: dict[str, Any], words: tuple[str, ...]) -> None:
    """By engine, address, data, and whether CPU is held: docs/engine.md is where each of these is explained."""
    said = str(where("train", {"data": "digits", "nodes": 20, "cost": "latency", "model": "auto"} | config))
    for part in words:
        assert part in said, said
    assert ("CPU shares" in said) == (config.get("cost") != "none")


def test_a_page_of_train_knows_its_workers_from_the_result() -> None:
    """Settings do not say where a run was played; the result does, as `Workers.report` wrote it."""
    config: dict[str, Any] = {"data": "digits", "nodes": 20, "cost": "latency"}
    here = {"engine": {"where": "2 processes of this machine"}}
    there = {
        "engine": {"where": "3 actors on Ray at 10.0.0.1:6379: 2 nodes, 8 CPUs", "held": {"limiter": "cgroup2: x"}}
    }
    assert str(where("train", config, here)).startswith("Execution on this machine: 2 processes of this machine play")
    said = str(where("train", config, there))
    assert said.startswith("Execution on a Ray cluster: 3 actors on Ray at 10.0.0.1:6379 play")
    assert "rows leave this machine" in said and "are enforced" in said


@pytest.mark.parametrize("verb", ["share", "share bundles", "place", "place sweep"])
def test_a_sweep_over_a_cluster_says_what_leaves(verb: str) -> None:
    """To the hosts of a Ray cluster; on threads, processes and a Ray of this machine nothing does."""
    away = str(where(verb, {}, over="8 workers of Ray at 10.0.0.1:6379: 2 nodes, 8 CPUs"))
    assert "8 workers of Ray at 10.0.0.1:6379 play every policy" in away and "leave this machine" in away
    for over in ("", "4 processes of this machine", "2 workers of Ray on this machine: 1 node, 2 CPUs"):
        assert STAYS in str(where(verb, {}, over=over))
    assert "unless --address sent" in str(where(verb, {}))  # a document does not say where its sweep went


# the service


def test_the_page_of_the_service_says_it() -> None:
    """The same words that it starts with, above the numbers."""
    page = (ROOT / "src/equipoise/serve/page/index.html").read_text(encoding="utf-8")
    above = page.partition('<dl id="tiles"')[0].partition("<main")[2]
    shown = " ".join(re.sub(r"<[^>]*>", " ", above.partition(">")[2]).split())
    assert shown.endswith(str(where("serve")))
    for words in ("Service: one process decides and records", "your cluster runs the jobs", "reads", "sent elsewhere"):
        assert words in shown


def test_the_first_thing_a_service_logs_says_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As soon as it has its store; here it gets no further, for want of settings that can be."""
    run = pytest.importorskip("equipoise.serve.run", reason="the extra `serve` is not installed")
    with caplog.at_level(logging.INFO), pytest.raises(equipoise.errors.InputError):
        run.serve_store(f"sqlite:///{tmp_path}/s.db", None, {"horizon": -1}, host="127.0.0.1", port=0)
    begun = next(record for record in caplog.records if record.name.startswith("equipoise"))
    assert begun.getMessage() == "starting" and begun.__dict__["fields"]["where"] == str(where("serve"))


# docs

NOTHING_RUNS = {  # pages of words, equations and other projects' business
    "glossary.md",
    "mathematics.md",
    "architecture.md",
    "contributing.md",
    "changelog.md",
    "reference/index.md",
    "reference/certificate.md",
    "reference/data.md",
    "reference/results.md",
    "reference/files.md",
}
SERVICES = {"serve.md", "operate.md", "tutorial-serve.md", "reference/serve.md"}
EXECUTIONS = {"engine.md", "execute.md", "limits.md", "ray.md", "reference/engine.md"}


def pages(nav: Any) -> list[str]:
    """Every page of the site, from mkdocs.yml."""
    if isinstance(nav, str):
        return [nav]
    values = nav.values() if isinstance(nav, dict) else nav
    return [page for value in values for page in pages(value)]


NAV = re.search(r"^nav:\n(?:[ ].*\n?)+", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
DOCS = [page for page in pages(yaml.safe_load(NAV[0])["nav"]) if page not in NOTHING_RUNS] if NAV else []


def test_the_list_of_pages_is_that_of_the_site() -> None:
    """Nothing is excused that is not there, and the chapters are among what is asked."""
    everything = pages(yaml.safe_load(NAV[0])["nav"]) if NAV else []
    assert set(everything) >= NOTHING_RUNS
    assert {"train.md", "share.md", "place.md", "start.md", *SERVICES, *EXECUTIONS} <= set(DOCS)


@pytest.mark.parametrize("page", DOCS)
def test_a_docs_page_begins_with_what_runs_where(page: str) -> None:
    """Right below its title, in a few lines: the kind, who reads, what leaves."""
    title, _, rest = text_of(f"docs/{page}").partition("\n\n")
    assert title.startswith("# ") and "\n" not in title
    paragraph = rest.partition("\n\n")[0]
    assert paragraph.startswith("**What runs where.** "), paragraph
    said = " ".join(paragraph.split())
    assert len(said) < 500
    kind = r"[Ss]ervice" if page in SERVICES else r"[Ee]xecut" if page in EXECUTIONS else r"[Ss]imulat"
    assert re.search(kind, said)
    assert re.search(r"\breads?\b", said)
    assert re.search(r"\bleaves?\b|sent elsewhere", said)


def test_the_readme_says_it_once() -> None:
    """One paragraph for all verbs."""
    (said,) = [part for part in text_of("README.md").split("\n\n") if "are simulations in one process" in part]
    for words in ("`train`, `share` and `place`", "train --engine processes", "share execute", "`serve` decides"):
        assert words in said
