"""The pages of docs/ run as they stand: every block, what it prints, and every command's options.

python tests/test_docs.py    writes what the blocks print now into the pages
"""

import contextlib
import importlib
import io
import re
import shlex
import sys
from pathlib import Path

import pytest
import typer

ROOT = Path(__file__).parents[1]
PAGES = (
    "docs/share.md", "docs/write-a-policy.md", "docs/place.md", "docs/replay-your-cluster.md", "docs/write-a-placer.md",
    "docs/serve.md", "docs/train-theory.md", "docs/compare-methods.md", "docs/hostile-networks.md", "docs/coupling.md",
    "docs/spread.md", "docs/limits.md", "docs/execute.md", "docs/engine.md",
)  # fmt: skip
TOLD = ("README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md"))))
BLOCK = re.compile(r"```(python|py|text)\n(.*?)```", re.S)
NUMBER = re.compile(r"\d+(?:\.\d+)?")
UNITS = 2.01  # of the last printed digit: arithmetic may differ from one processor to another


def played(page, namespace=None):
    """(what a block of the page prints, what the page says it prints) for every block that is followed by `text`."""
    names, printed = {} if namespace is None else namespace, ""
    for kind, body in BLOCK.findall((ROOT / page).read_text()):
        if kind == "text":
            yield printed, body
            continue
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.chdir(ROOT):
            exec(compile(body, page, "exec"), names)
        printed = out.getvalue()


def alike(one, other):
    """The same words, and the same numbers to two units of the last digit."""
    if NUMBER.split(one) != NUMBER.split(other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= UNITS * 10.0 ** -len(b.partition(".")[2]) for a, b in pairs)


def test_alike_tells_a_wrong_output_from_a_rounded_one():
    """By hand: 61.2 and 61.3 are the same claim; 61.2 and 62.2, or another word, are not."""
    assert alike("A 61.2 ± 0.4", "A 61.3 ± 0.4")
    assert not alike("A 61.2 ± 0.4", "A 62.2 ± 0.4")
    assert not alike("A 61.2", "B 61.2")
    assert not alike("True", "False")


@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs_and_prints_what_the_page_says(page):
    """Copied from top to bottom, a page does what it says."""
    found = list(played(page))
    assert len(found) >= 2
    for printed, told in found:
        assert alike(printed, told), f"{page} says\n{told}but it is\n{printed}"


def test_the_readme_shares_as_it_says():
    """The README's second block: every policy is in the table, and Hybrid is ahead on the same seeds."""
    (block,) = re.findall(r"```py\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    names = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block, "README.md", "exec"), names)
    assert all(name in out.getvalue() for name in names["result"].names)
    (gap,) = names["result"].paired("Hybrid", "ShortestFirst")
    assert gap.difference > 3 * gap.standard_error


def commands():
    """Every `equipoise ...` of the README and of docs/: (page, its words)."""
    for page in TOLD:
        text = (ROOT / page).read_text()
        shown = re.findall(r"^(?:\S*/)?equipoise [^\n]*", "\n".join(re.findall(r"```sh\n(.*?)```", text, re.S)), re.M)
        shown += re.findall(r"`(equipoise [^`]*)`", text)
        for line in shown:
            yield page, shlex.split(line.partition(" #")[0])


def options_of(words):
    """The options that the command these words name does know."""
    command = typer.main.get_command(importlib.import_module(f"equipoise.cli.{words[1]}").app)
    inner = getattr(command, "commands", {})
    if len(words) > 2 and words[2] in inner:
        command = inner[words[2]]
    elif words[1] == "place":  # `place JOBS` is `place compare JOBS`
        command = inner["compare"]
    return {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)} | {"--help", "-h"}


def test_every_command_names_options_that_exist():
    """No option in the README or the docs that --help would not show."""
    shown = list(commands())
    assert {words[1] for _, words in shown} >= {"train", "share", "place"}
    for page, words in shown:
        unknown = {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)} - options_of(words)
        assert not unknown, f"{page}: {' '.join(words)}: no {', '.join(unknown)}"


def test_every_link_leads_somewhere():
    """Files that the README, the docs and CONTRIBUTING point at are there."""
    for page in (*TOLD, "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text()):
            assert ((ROOT / page).parent / target).exists(), f"{page}: {target}"


def test_the_example_is_the_one_the_tutorial_builds():
    """examples/shortest_first.py and the tutorial's first block decide alike, and both pass the checker."""
    from equipoise.cli.policy_file import load_policy
    from equipoise.share import check_policy, simulate

    block = BLOCK.search((ROOT / "docs/write-a-policy.md").read_text())
    names = {}
    exec(compile(block[2], "write-a-policy.md", "exec"), names)
    example = load_policy(f"{ROOT / 'examples/shortest_first.py'}:ShortestFirst")
    one, other = (simulate(policy, load=60, seeds=3) for policy in (names["ShortestFirst"](), example))
    assert (one.done_at == other.done_at).all()
    assert check_policy(example)["states"].passed


def rewrite(page):
    """Put what the blocks print now in place of what the page says."""
    text = (ROOT / page).read_text()
    printed = iter([now for now, _ in played(page)])
    new = re.sub(r"```text\n.*?```", lambda _: f"```text\n{next(printed)}```", text, flags=re.S)
    if new != text:
        (ROOT / page).write_text(new)
        print(f"{page}: rewritten")


if __name__ == "__main__":
    for page in sys.argv[1:] or PAGES:
        rewrite(page)
