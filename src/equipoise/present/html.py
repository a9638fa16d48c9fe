"""A page as one HTML file that needs nothing else: style, chart library and data are inside, no network is asked."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from equipoise.certificate import Certificate
from equipoise.document import plain
from equipoise.present.echarts import Option, option
from equipoise.present.figures import Drawing, Figure
from equipoise.present.text import number, verdict
from equipoise.present.values import Block, Controls, Fold, Page, Picture, Section, Text, Widget
from equipoise.present.where import where_of

HERE = Path(__file__).parent
TEMPLATES, VENDOR = HERE / "templates", HERE / "vendor"


def html_of(page: Page) -> str:
    """The whole page as text."""
    document, blocks = page.document, list(page.blocks)
    banners = sum(1 for _ in takewhile(lambda block: isinstance(block, Text) and block.banner, blocks))
    place = len(blocks) if page.certificate_last else banners
    options = _options(blocks)
    widgets = {block.name: block for block in _all(blocks) if isinstance(block, Widget)}
    certificate, template = document.certificate, _environment().get_template("document.html.j2")
    files = {"result.json": "holds the result and the certificate"} | dict(page.beside)
    return template.render(
        page=page,
        document=document,
        where=where_of(document),
        parts=[*_parts(blocks[:place]), ("certificate", certificate), *_parts(blocks[place:])],
        checks=[] if certificate is None else _checks(certificate),
        verdict="" if certificate is None else verdict(certificate),
        options=embedded(options),
        config=yaml_text(document.config) if document.config else "",
        beside=_beside(files | {"config.yaml": "repeats the run"}),
        widgets=[(name, embedded(it.data), _text(TEMPLATES / f"{name}.js")) for name, it in widgets.items()],
        style=_text(TEMPLATES / "style.css"),
        script=_text(TEMPLATES / "charts.js"),
        echarts=_echarts() if options else "",
    )


def _all(blocks: Iterable[Block]) -> Iterator[Block]:
    """Every block, those inside others too."""
    for block in blocks:
        yield block
        if isinstance(block, Fold | Section | Widget):
            yield from _all(block.blocks)


def _options(blocks: Iterable[Block]) -> dict[str, Option]:
    """The option of every chart by its name in the page, which must be its own."""
    found: dict[str, Option] = {}
    for block in _all(blocks):
        if not isinstance(block, Figure | Drawing):
            continue
        made = option(block) if isinstance(block, Figure) else dict(block.option)
        if made is not None:
            if block.name in found:
                raise ValueError(f"two charts of this page are called {block.name}: give one a key")
            found[block.name] = made
    return found


def _parts(blocks: Iterable[Block]) -> Iterator[tuple[str, Any]]:
    """What the template draws, by kind; charts that follow each other are one part, with those of widgets."""
    charts: list[Picture] = []
    for block in blocks:
        if isinstance(block, Figure | Drawing | Controls):
            charts.append(block)
        elif isinstance(block, Widget):
            charts += block.blocks
        else:
            if charts:
                yield "charts", in_rows(charts)
                charts = []
            kind = type(block).__name__.lower()
            yield kind, (block, list(_parts(block.blocks))) if isinstance(block, Fold | Section) else block
    if charts:
        yield "charts", in_rows(charts)


def in_rows(figures: Sequence[Picture]) -> list[Picture]:
    """Two narrow charts share a row; one that would stand alone becomes wide."""
    placed: list[Picture] = []
    alone = False  # whether the last one placed still waits for a neighbour
    for figure in figures:
        if figure.wide and alone:
            placed[-1] = replace(placed[-1], wide=True)
        placed.append(figure)
        alone = not (figure.wide or alone)
    if alone:
        placed[-1] = replace(placed[-1], wide=True)
    return placed


def _beside(files: Mapping[str, str]) -> Markup:
    """result.json holds the result, history.csv every row, and config.yaml repeats the run."""
    said = [
        Markup("{} {}").format(escape(name) if "*" in name else Markup('<a href="{0}">{0}</a>').format(name), words)
        for name, words in files.items()
    ]
    return Markup(", ").join(said[:-1]) + Markup(", and ") + said[-1] if len(said) > 1 else Markup("").join(said)


def _checks(certificate: Certificate) -> list[dict[str, str]]:
    """Rows of the certificate's table: failed first, then not made, then passed."""
    outcomes = {False: ("failed", "✗ FAILED"), None: ("unmade", "○ not made"), True: ("passed", "✓ passed")}
    order = list(outcomes)
    found = []
    for check in sorted(certificate, key=lambda check: order.index(check.passed)):
        kind, mark = outcomes[check.passed]
        row = {"name": check.name, "value": number(check.value), "limit": number(check.limit)}
        found.append(row | {"kind": kind, "mark": mark, "meaning": check.meaning})
    return found


def embedded(data: object) -> Markup:
    """JSON that is safe inside <script>: no tag can begin in it, and every number is finite (others become null)."""
    text = json.dumps(plain(data), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def yaml_text(config: Mapping[str, object]) -> str:
    """The configuration as it would stand in config.yaml, lists of numbers on one line."""
    import yaml

    text: str = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
    return text


@cache
def _environment() -> Environment:
    loader = FileSystemLoader(TEMPLATES)
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


@cache
def _text(path: Path) -> Markup:
    """A file of our own, to be inlined as it is."""
    return Markup(path.read_text(encoding="utf-8"))


@cache
def _echarts() -> Markup:
    """The vendored library with the notice that must travel with it."""
    notice = (VENDOR / "NOTICE").read_text(encoding="utf-8")
    library = (VENDOR / "echarts.min.js").read_text(encoding="utf-8")
    return Markup(f"/*\n{notice.strip()}\n*/\n{library}")
