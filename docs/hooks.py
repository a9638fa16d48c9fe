"""What mkdocs.yml adds to the pages: formulas as MathML, examples, the ledger of claims, and two pages from the root.

Sources stay readable on GitHub: formulas are TeX between dollars, and links lead to files of the repository.
"""

from __future__ import annotations

import html
import logging
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from equipoise.claims.ledger import RECORDED
from equipoise.document import read
from equipoise.present import report

ROOT = Path(__file__).parents[1]
FROM_THE_ROOT = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
LEDGER = "ledger.html"
FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\([\[(])(.*?)\\[\])]\s*</\1>', re.S)
UNKNOWN = re.compile(r">(\\[a-zA-Z]+)<")  # a command it does not know comes out as it went in
EXAMPLE_LINK = re.compile(r"\]\((?:\.\./)+examples/([\w.-]+)\)")
PICTURE = re.compile(r'<img [^>]*src="(architecture\.svg)"[^>]*>')
DOCS_LINK = re.compile(r"\]\(docs/")
ROOT_LINK = re.compile(r"\]\((?:\.\./)+(CONTRIBUTING|CHANGELOG)\.md\b")


def on_startup(**_: Any) -> None:
    """Say nothing but what is wrong."""
    logging.getLogger("mkdocs").setLevel(logging.WARNING)


def on_files(files: Any, config: Any) -> Any:
    """CONTRIBUTING and CHANGELOG become pages of the site, and the recorded ledger its own page with every figure."""
    for name, source in FROM_THE_ROOT.items():
        text = DOCS_LINK.sub("](", (ROOT / source).read_text(encoding="utf-8"))
        files.append(File.generated(config, name, content=text))
    files.append(File.generated(config, LEDGER, content=report(read(RECORDED / "full.json"))))
    return files


def anchor(name: str) -> str:
    """Where an example stands on examples.md."""
    return name.replace(".", "-").replace("_", "-").lower()


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to a file of examples/ lead to where examples.md shows it."""
    up = "../" * page.file.src_uri.count("/")
    markdown = EXAMPLE_LINK.sub(lambda link: f"]({up}examples.md#{anchor(link[1])})", markdown)
    markdown = ROOT_LINK.sub(lambda link: f"]({up}{link[1].lower()}.md", markdown)
    if page.file.src_uri == "claims.md":
        markdown = markdown.replace(f"`{LEDGER}`", f"[{LEDGER}]({LEDGER})")
    return markdown + shown_examples() if page.file.src_uri == "examples.md" else markdown


def shown_examples() -> str:
    """Every file of examples/, whole, scripts first."""
    parts = []
    for path in sorted((ROOT / "examples").iterdir(), key=lambda file: (file.suffix != ".py", file.name)):
        if path.suffix not in (".py", ".yaml"):
            continue
        language = "python" if path.suffix == ".py" else "yaml"
        code = path.read_text(encoding="utf-8")
        parts.append(f"\n## {path.name} {{#{anchor(path.name)}}}\n\n```{language}\n{code}```\n")
    return "".join(parts)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """TeX to MathML, which browsers draw without a script."""

    def drawn(found: re.Match[str]) -> str:
        tag, bracket, tex = found.groups()
        tex = html.unescape(tex).strip()
        try:
            math = convert(tex, display="block" if bracket == "[" else "inline")
        except Exception as error:
            raise PluginError(f"{page.file.src_uri}: cannot read the formula {tex!r}: {error!r}") from error
        if unknown := UNKNOWN.findall(math):
            raise PluginError(f"{page.file.src_uri}: unknown to latex2mathml in {tex!r}: {', '.join(unknown)}")
        return f'<{tag} class="formula">{math}</{tag}>'

    return PICTURE.sub(inlined, FORMULA.sub(drawn, content))


def inlined(found: re.Match[str]) -> str:
    """A picture of ours stands in the page itself: its words can be selected, and it follows light and dark."""
    return f'<div class="picture">{(ROOT / "docs" / found[1]).read_text(encoding="utf-8")}</div>'
