"""docs/mathematics.md: its equations can be read, and name modules that exist.

That they say what the code computes is checked beside each verb, tests/*/test_mathematics_of_*.py.
"""

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/mathematics.md").read_text(encoding="utf-8")
DISPLAYED = re.findall(r"\$\$(.+?)\$\$", PAGE, re.S)
TAGS = re.findall(r"\\tag\{(\w+)\}", PAGE)
# Where one file is one formula: a new one has to be on the page.
FOLDERS = (
    "train/costs",
    "train/models",
    "train/baselines",
    "train/dynamics",
    "train/theory",
    "share/policies",
    "share/estimators",
    "place/prices",
    "place/planner",
    "place/policies",
)
WITHOUT_FORMULA = {
    "place.placers.fifo",
    "place.planner.job_arrays",
    "train.baselines.ours",
    "train.dynamics.own",  # of a user
    "train.models.cnn",
    "train.models.mlp",
    "train.models.torch_model",
}
CHECKS = [ROOT / f"tests/{verb}/test_mathematics_of_{verb}.py" for verb in ("train", "share", "place")]


def inline():
    text = re.sub(r"`[^`]*`", "", re.sub(r"\$\$.+?\$\$", "", PAGE, flags=re.S))
    return re.findall(r"\$([^$]+)\$", text)


def test_every_equation_has_a_number_of_its_own():
    """One tag each, all different, counted from 1 in each of the three parts."""
    assert all(equation.count(r"\tag{") == 1 for equation in DISPLAYED)
    for part in "TSP":
        numbers = [int(tag[1:]) for tag in TAGS if tag[0] == part]
        assert numbers == list(range(1, len(numbers) + 1))
    assert len(TAGS) > 100


def test_a_number_that_the_text_names_is_there():
    """'T10' in a sentence leads to an equation."""
    assert {f"{part}{number}" for part, number in re.findall(r"\b([TSP])(\d+)\b", PAGE)} <= set(TAGS)


def test_every_formula_becomes_mathml():
    """No command that the converter does not know, which it would print as it stands."""
    converter = pytest.importorskip("latex2mathml.converter")
    for tex in (*DISPLAYED, *inline()):
        drawn = converter.convert(tex.strip())
        assert "\\" not in drawn and "<mi>&</mi>" not in drawn, tex


def test_every_module_named_can_be_imported():
    """What is said to compute an equation exists."""
    named = set(re.findall(r"`(equipoise(?:\.\w+)+)`", PAGE))
    assert len(named) > 100
    for name in named - {"equipoise.train.deep.rivals"}:
        importlib.import_module(name)
    assert importlib.util.find_spec("equipoise.train.deep.rivals")  # needs torch, which need not be there


def test_no_formula_of_these_folders_is_left_out():
    """A new policy, estimator, price, cost or bound has to be on the page."""
    for folder in FOLDERS:
        for file in (ROOT / "src/equipoise" / folder).glob("*.py"):
            name = f"{folder.replace('/', '.')}.{file.stem}"
            if not file.stem.startswith("_") and name not in WITHOUT_FORMULA:
                assert f"`equipoise.{name}`" in PAGE, name


def test_every_claim_named_is_in_the_ledger():
    """`claim x` is a file of equipoise.claims."""
    sentences = re.findall(r"claims?\s+((?:`[\w-]+`(?:,\s+)?)+)", PAGE)
    named = {name for sentence in sentences for name in re.findall(r"`([\w-]+)`", sentence)}
    known = {file.stem.replace("_", "-") for file in (ROOT / "src/equipoise/claims").glob("*/[a-z]*.py")}
    assert len(named) > 15
    assert named <= known


def test_enough_equations_are_checked_by_hand():
    """Tests beside each verb begin with the numbers they check: some fifty, all of them on the page."""
    said = [tags for file in CHECKS for tags in re.findall(r'"""((?:[TSP]\d+(?:, )?)+): ', file.read_text())]
    checked = [tag for tags in said for tag in tags.split(", ")]
    assert set(checked) <= set(TAGS)
    assert len(set(checked)) >= 40
