"""The documentation as a site: it builds without a warning, needs no network, and its reference misses no public name."""

from __future__ import annotations

import html
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from inspect import ismodule
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from equipoise.registry import Registry
from shown import ROOT, text_of

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
]
PACKAGES = ("train", "share", "place", "engine", "serve", "data")
FETCHED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=\"?((?:https?:)?//[^\"\s>]+)")
FOLDERS = {"share": ("policies", "estimators"), "place": ("placers",)}

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make docs` builds it, in another folder."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).strip() == ""
    return folder


def read(site: Path, page: str) -> str:
    return (site / page).read_text(encoding="utf-8")


def test_no_page_asks_for_anything_from_a_network(site: Path) -> None:
    """Scripts, styles, pictures and icons of every page are files of the site."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        assert not FETCHED.findall(page.read_text(encoding="utf-8")), page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//", style.read_text(encoding="utf-8")), style.name


def test_every_public_name_is_in_the_reference_with_its_docstring(site: Path) -> None:
    """A heading for each name of __all__, and the first words of its docstring after it."""
    for package in PACKAGES:
        module = importlib.import_module(f"equipoise.{package}")
        page = read(site, f"reference/{package}.html")
        for name in module.__all__:
            thing = getattr(module, name)
            if callable(thing) or ismodule(thing):
                assert documented(page, package, name, thing), f"{package}.{name}"


def documented(page: str, package: str, name: str, thing: Any) -> bool:
    """Whether a heading of this name is there, with the first line of its docstring after it."""
    first = " ".join(re.sub(r"[`*]", "", thing.__doc__.strip().partition("\n")[0]).split())
    for heading in re.finditer(rf'id="equipoise\.{package}(?:\.\w+)*\.{name}"', page):
        if first in " ".join(html.unescape(re.sub(r"<[^>]+>", "", page[heading.start() :])).split()):
            return True
    return False


def test_every_policy_has_its_place_in_the_reference(site: Path) -> None:
    """The words of each policy's and estimator's own file: what it does, and what it is bad at."""
    for package, folders in FOLDERS.items():
        page = read(site, f"reference/{package}.html")
        for folder in folders:
            for choice in Registry[object](f"equipoise.{package}.{folder}", "choice").choices():
                module = f"equipoise.{package}.{folder}.{choice.stem}"
                there = f'id="{module}"' in page or f'id="equipoise.{package}.{folder}.{choice.object_name}"' in page
                assert there, f"add a block `::: {module}` to docs/reference/{package}.md, as the others have"


def test_formulas_are_mathml(site: Path) -> None:
    """TeX between dollars comes out as elements that a browser draws by itself; no TeX is left over."""
    page = read(site, "mathematics.html")
    assert page.count("<math") >= len(re.findall(r"\$\$", text_of("docs/mathematics.md"))) // 2
    assert "arithmatex" not in page and "\\frac" not in page


def part(name: str) -> Any:
    """A module of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("tex", ["\\frac{1}{", "a_b_c", "\\nosuch{x}"])
def test_a_formula_that_cannot_be_read_stops_the_build(tex: str) -> None:
    """The message names the page and the formula, so that its author finds it."""
    page = SimpleNamespace(file=SimpleNamespace(src_uri="mathematics.md"))
    with pytest.raises(Exception, match=rf"mathematics\.md: .*{re.escape(repr(tex))}"):
        part("hooks").on_page_content(f'<span class="arithmatex">\\({tex}\\)</span>', page)


def test_aligned_lines_of_a_docstring_become_a_list() -> None:
    """By hand: two names, the second with a line that goes on; words of a sentence stay as they are."""
    said = "Run it.\n\ntarget     stop here\nevery      so many\n           rounds\n\nTo be used as is."
    told = "Run it.\n\n- **target**: stop here\n- **every**: so many\n    rounds\n\nTo be used as is."
    assert part("docstrings").as_markdown(said) == told


def test_examples_and_root_pages_are_part_of_the_site(site: Path) -> None:
    """examples.html shows every script whole; CONTRIBUTING and CHANGELOG are pages."""
    page = html.unescape(re.sub(r"<[^>]+>", "", read(site, "examples.html")))
    for script in (ROOT / "examples").glob("*.py"):
        line = script.read_text(encoding="utf-8").splitlines()[-1].strip()
        assert line in page, script.name
    assert "Add something: one file" in read(site, "contributing.html")
    assert "Changelog" in read(site, "changelog.html")


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: no browser test")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_site_works_from_disk(site: Path, scheme: str) -> None:
    """Opened as a file: no request but files, a silent console, search finds, and links lead on."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser test")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
        complaints: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri(), wait_until="load")
        assert page.get_attribute("body", "data-md-color-scheme") == {"light": "default", "dark": "slate"}[scheme]
        page.focus("input[name=query]")  # the index is loaded when somebody is about to search
        page.wait_for_function("() => document.querySelector('.md-search-result__meta').textContent.startsWith('Type')")
        page.locator("input[name=query]").press_sequentially("quantiser")
        page.wait_for_selector(".md-search-result__item a", state="attached")
        page.goto((site / "start.html").as_uri(), wait_until="domcontentloaded")
        page.click("article a[href='tutorial-share.html']")
        page.wait_for_selector("h1:has-text('share')")
        page.goto((site / "architecture.html").as_uri(), wait_until="domcontentloaded")
        assert "certificate" in page.text_content("svg.eq-architecture")
        browser.close()
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked), asked
    assert complaints == []
