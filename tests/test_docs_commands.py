"""Commands that the README and docs/ show: all are well formed, the cheap ones run, and the others say why not."""

import importlib
import re

import pytest
import typer

from shown import AFTER, ROOT, TOLD, blocks, commands, shell

# Commands of these pages run one after the other, in one shell and one folder, as a reader would type them.
WALKED = ("docs/start.md",)

# Commands that run alone, in a folder of their own.
RUN = (
    "equipoise",
    "equipoise share check examples/shortest_first.py:ShortestFirst",
    "equipoise train analyse",
    "equipoise reproduce --list",
    "equipoise train --data none --delay 5 --fixed-delay",
    "equipoise place examples/jobs.yaml --cluster examples/cluster.yaml --slots 24 --policy srtf,drf",
)

# Every other command, by what it begins with or holds, and why CI does not run it. Its options are checked all the same.
NOT_RUN = {
    r"^make ": "sets up an environment; that the target is there is checked (start.md's runs)",
    r"^(pip|python3? -m venv|\S*/pip) |^\. ": "installs",
    r"^python benchmarks/|^python -m equipoise\.": "measures for minutes; tests of benchmarks and claims run short forms",
    r"^python examples/": "tests/test_examples.py runs every example",
    r"^equipoise doctor": "measures CPU limits for a while; tests/cli/test_doctor_cli.py runs it",
    r"^equipoise reproduce": "minutes of CPU; tests/claims measure every claim, and break some",
    r"^equipoise \w+( \w+)? --help$": "tests/cli shows every --help",
    r"^equipoise (serve|jobs|admin)\b|"
    r"^curl ": "needs a service: tests/serve runs them against real ones",
    r"^(useradd|install|echo '|systemd-analyze|systemctl|journalctl|sudo|cd|rm|podman|pg_dump|createdb|pg_restore|export) |"
    r"^EQUIPOISE_STORE=": "administers a machine: tests/serve/test_operate.py does it with files and processes of its own",
    r"^(FIELDS=|sacct )": "needs Slurm",
    r"^ray start|--address |--engine ray|--spread ray": "needs a cluster, or starts Ray: tests/engine and ray.md's block do",
    r"\.\.\.|runs/|this-week|last-week|philly|\bDIR\b|my[.-]|mine|"
    r"(?<!examples/)(jobs|cluster|prices)\.yaml|/tmp/|worth_first": "reads a file of the reader's, or a run of theirs",
    r"^equipoise share (execute|record)|--couple|--model (mlp|cnn)|"
    r"^equipoise (train compare|place (sweep|calibrate|bound|explain))": "minutes of CPU; tests/cli runs a short form",
    r"^equipoise (train|share|place)\b": "5 to 100 s of CPU each; tests/cli runs every option on a smaller problem",
}

DEFAULTS = {"place": "compare", "jobs": "list", "train": "run"}  # `place JOBS` is `place compare JOBS`
SHOWN = tuple(commands())
EXISTING = re.compile(r"(?:examples|benchmarks|deploy|docs)/[\w./-]+\.\w+")


def refusal(line: str) -> str | None:
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, line)), None)


def test_every_command_runs_here_or_says_why_not():
    """A command that fits no rule must be run: nothing is left out by silence."""
    for shown in SHOWN:
        run = shown.page in WALKED or shown.line in RUN or shown.line in AFTER.get(shown.page, ())
        assert run or shown.inline or refusal(shown.line), f"{shown.page}: {shown.line}"


def test_no_rule_and_no_run_is_left_over():
    """What RUN and AFTER list is shown somewhere, and every rule leaves out something."""
    lines = {shown.line for shown in SHOWN}
    assert set(RUN) <= lines
    for page, after in AFTER.items():
        assert set(after) <= {shown.line for shown in SHOWN if shown.page == page}
    for pattern in NOT_RUN:
        assert any(re.search(pattern, line) for line in lines), pattern


def options_of(words):
    """The options that the command these words name does know."""
    command = typer.main.get_command(importlib.import_module(f"equipoise.cli.{words[1]}").app)
    for word in words[2:]:
        inner = getattr(command, "commands", {})
        if word not in inner:
            break
        command = inner[word]
    if words[1] in DEFAULTS:
        command = getattr(command, "commands", {}).get(DEFAULTS[words[1]], command)
    return {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)} | {"--help", "-h"}


def options_in(words):
    return {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)}


def test_every_command_names_options_that_exist():
    """No option in the README or the docs that --help would not show."""
    seen = set()
    for shown in SHOWN:
        words = shown.words
        if not words or not re.fullmatch(r"(?:\S*/)?equipoise", words[0]) or len(words) < 2 or words[1].startswith("-"):
            continue
        if not re.fullmatch(r"[a-z]+", words[1]):  # `equipoise VERB` of a sentence
            continue
        seen.add(words[1])
        unknown = options_in(words) - options_of(words)
        assert not unknown, f"{shown.page}: {shown.line}: no {', '.join(unknown)}"
    assert seen >= {"train", "share", "place", "serve"}


def test_every_script_is_there_and_knows_its_options():
    """`python FILE --option`: the file is in the repository, and its text has the option."""
    seen = 0
    for shown in SHOWN:
        words = shown.words
        if len(words) < 2 or words[0] != "python" or not words[1].endswith(".py"):
            continue
        script = ROOT / words[1]
        assert script.is_file(), f"{shown.page}: {shown.line}"
        source = "".join(path.read_text(encoding="utf-8") for path in (script, *script.parent.glob("*.py")))
        for option in options_in(words):
            assert f'"{option}"' in source, f"{shown.page}: {shown.line}: no {option}"
        seen += 1
    assert seen > 20


def test_every_target_of_make_is_there():
    """`make X` names a target of the Makefile, and the help lines name no other."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.M))
    asked = {shown.words[1] for shown in SHOWN if shown.words[0] == "make"}
    assert asked >= {"train", "docs"} and asked <= targets
    assert set(re.findall(r"^# make (\w+)", makefile, re.M)) <= targets


def test_every_file_that_is_named_is_there():
    """examples/..., benchmarks/... and deploy/... of a command exist."""
    for shown in SHOWN:
        for path in EXISTING.findall(shown.line):
            assert (ROOT / path).exists(), f"{shown.page}: {shown.line}"


@pytest.mark.parametrize("line", RUN)
def test_a_cheap_command_does_what_its_page_says(line, tmp_path):
    """It ends with 0, and what it certifies passes."""
    done = shell(line, tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "FAILED" not in done.stdout


def test_the_first_five_minutes(tmp_path):
    """start.md from top to bottom, one shell: a certificate, its repetition bit for bit, one that fails, two more verbs."""
    assert "docs/start.md" in TOLD
    done = shell("\n".join(line for block in blocks("docs/start.md") for line in block), tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.count("certificate: passed") == 4  # train twice, share, place
    assert "the same to the last bit" in done.stdout
    assert done.stdout.count("│ FAILED │") == 1 and "exit code 1" in done.stdout
    reports = tmp_path.glob("runs/*/report.html")
    assert {path.parent.name.partition("-")[0] for path in reports} == {"train", "share", "place"}
