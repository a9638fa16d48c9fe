"""The pages of docs/ run as they stand: every Python block, and what it prints.

python tests/test_docs.py [page ...]    writes what the blocks print now into the pages
"""

import contextlib
import io
import re
import sys
from pathlib import Path

import pytest

from shown import AFTER, ROOT, TOLD, shell, text_of

BLOCK = re.compile(r"```(python|py|text)\n(.*?)```", re.S)
PAGES = tuple(page for page in TOLD if page != "README.md" and re.search(r"```(python|py)\n", text_of(page)))
NUMBER = re.compile(r"\d+(?:\.\d+)?")
UNITS = 2.01  # of the last printed digit: arithmetic may differ from one processor to another
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)  # without a name: lines that commands of the page print
RULES = re.compile(r"[│┃|]")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def played(page, namespace=None):
    """(what a block of the page prints, what the page says it prints) for every block that is followed by `text`."""
    names, printed = {} if namespace is None else namespace, ""
    for kind, body in BLOCK.findall(text_of(page)):
        if kind == "text":
            yield printed, body
            continue
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.chdir(ROOT):
            exec(compile(body, page, "exec"), names)
        printed = out.getvalue()


def words(line):
    """Of a line in a terminal, without what draws tables."""
    return " ".join(RULES.sub(" ", line).split())


def lines_shown(page):
    """What a page shows of the commands that run after its blocks."""
    fences = FENCE.findall(text_of(page)) if page in AFTER else []
    return [words(line) for kind, body in fences if not kind for line in body.splitlines()]


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
def test_every_block_runs_and_prints_what_the_page_says(page, tmp_path):
    """Copied from top to bottom, a page does what it says, and it says something; then what it shows in the shell."""
    found = list(played(page))
    assert found
    for printed, told in found:
        assert alike(printed, told), f"{page} says\n{told}but it is\n{printed}"
    said = []
    for number, line in enumerate(AFTER.get(page, ())):
        (tmp_path / str(number)).mkdir()
        done = shell(line, tmp_path / str(number))
        assert done.returncode == 0 and "FAILED" not in done.stdout, done.stdout + done.stderr
        said.append(done.stdout + done.stderr)
    for line in lines_shown(page):
        assert any(alike(words(other), line) for other in "".join(said).splitlines()), f"{page} says\n{line}"


def test_code_is_never_shown_where_it_is_not_run():
    """Python stands in blocks called python or py: no other name, under which no test would run it."""
    for page in TOLD:
        kinds = set(re.findall(r"^\s*```(\w+)", text_of(page), re.M))
        assert kinds <= {"python", "py", "text", "sh", "yaml", "json"}, page


def test_docs_and_examples_import_public_packages_only():
    """What a user copies comes from a package's `__init__`, which stays when files inside it move."""
    examples = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("*.py"))
    for page in (*TOLD, *examples):
        for module in re.findall(r"^ *(?:from|import) (equipoise[\w.]*)", text_of(page), re.M):
            assert (ROOT / "src" / Path(*module.split(".")) / "__init__.py").exists(), f"{page}: {module}"


def test_every_link_leads_somewhere():
    """Files that the README, the docs and CONTRIBUTING point at are there."""
    for page in (*TOLD, "CONTRIBUTING.md"):
        for target in LINK.findall(text_of(page)):
            assert ((ROOT / page).parent / target).exists(), f"{page}: {target}"


def test_the_example_is_the_one_the_tutorial_builds():
    """examples/shortest_first.py and the tutorial's first block decide alike, and both pass the checker."""
    from equipoise.share import check_policy, simulate
    from equipoise.share.spec import policy_from

    block = BLOCK.search(text_of("docs/write-a-policy.md"))
    names = {}
    exec(compile(block[2], "write-a-policy.md", "exec"), names)
    example = policy_from(f"{ROOT / 'examples/shortest_first.py'}:ShortestFirst")
    one, other = (simulate(policy, load=60, seeds=3) for policy in (names["ShortestFirst"](), example))
    assert (one.done_at == other.done_at).all()
    assert check_policy(example)["states"].passed


def rewrite(page):
    """Put what the blocks print now in place of what the page says."""
    text = text_of(page)
    printed = iter([now for now, _ in played(page)])
    new = re.sub(r"```text\n.*?```", lambda _: f"```text\n{next(printed)}```", text, flags=re.S)
    if new != text:
        (ROOT / page).write_text(new, encoding="utf-8")
        print(f"{page}: rewritten")


if __name__ == "__main__":
    for page in sys.argv[1:] or PAGES:
        rewrite(page)
