"""The command line as a whole: what it shows first, what it loads, old names, completion."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from equipoise.cli.app import ALIASES, COMMANDS

HEAVY = ("numpy", "numba", "scipy", "sklearn", "pandas", "torch", "fastapi", "sqlalchemy", "httpx", "matplotlib", "ray")


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "equipoise", *words]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "80"} | environment)


def test_no_arguments_say_what_to_type_first() -> None:
    """A few lines, each a command that works as it stands; nobody has to read all of --help first."""
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) < 15 and max(map(len, done.stdout.splitlines())) <= 80
    for word in ("equipoise train", "equipoise share", "equipoise place", "equipoise serve", "equipoise --help"):
        assert word in done.stdout


def test_help_names_every_command_and_no_old_one() -> None:
    """The nouns of 0.2; what 0.1.0 called otherwise is not shown."""
    done = run("--help")
    first_words = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("│ ") and line[2] != " "}
    assert set(COMMANDS) <= first_words
    assert not set(ALIASES) & first_words


@pytest.mark.parametrize("words", [(), ("--help",), *((name, "--help") for name in COMMANDS)])
def test_help_loads_nothing_heavy(words: tuple[str, ...]) -> None:
    """No NumPy, no compiler, no web server before a command really runs."""
    script = (
        "import sys\n"
        "from equipoise.cli import main\n"
        f"sys.argv = ['equipoise', *{words!r}]\n"
        "try:\n    main()\n"
        f"except SystemExit:\n    print(*(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=dict(os.environ))
    assert (done.returncode, done.stderr.split()) == (0, [])


@pytest.mark.parametrize("name", ALIASES)
def test_an_old_name_is_the_new_command(name: str) -> None:
    """`equipoise submit` of 0.1.0 is `equipoise jobs submit`: the same options, the same words, until 0.3."""
    old, new = run(name, "--help"), run(*ALIASES[name], "--help")
    assert old.returncode == new.returncode == 0
    assert old.stdout.splitlines()[2:] == new.stdout.splitlines()[2:]  # the usage names the command as it was called


def test_bare_jobs_is_the_list() -> None:
    """`equipoise jobs --state pending` listed jobs in 0.1.0."""
    done = run("jobs", "--state", "pendign")
    assert done.returncode == 2 and "did you mean 'pending'?" in done.stderr


def test_a_command_nobody_knows_names_the_nearest() -> None:
    """One line, exit 2."""
    done = run("trian")
    assert (done.returncode, done.stdout) == (2, "") and "'train'" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("equipoise ", "reproduce"),
        ("equipoise admin ", "tenant"),
        ("equipoise admin token ", "revoke"),
        ("equipoise train --quant", "--quantizer"),
        ("equipoise jobs submit --dry", "--dry-run"),
    ],
)
def test_the_shell_completes_commands_and_options(line: str, found: str) -> None:
    """What `equipoise --install-completion` asks for at every Tab."""
    words = line.split(" ")
    done = run(_EQUIPOISE_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert found in done.stdout.split() and "submit" not in (done.stdout.split() if line == "equipoise " else ())
