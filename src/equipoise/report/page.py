"""One HTML file that needs nothing else: style, chart library and data are inside, and no network is asked."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from equipoise.report.charts import Chart
from equipoise.report.words import number

HERE = Path(__file__).parent
TEMPLATES, VENDOR = HERE / "templates", HERE / "vendor"


def render(template: str, *, title: str, document: dict[str, Any], charts: Sequence[Chart], **context: Any) -> str:
    """A page from a template that extends page.html.j2; `document` is what stands in result.json."""
    options = {chart.key: chart.option for chart in charts if chart.option is not None}
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            document=document,
            checks=_checks(document["certificate"]),
            verdict=verdict(document["certificate"]),
            charts=in_rows(charts),
            options=embedded(options),
            config=yaml_text(document["config"]),
            style=_text(TEMPLATES / "style.css"),
            script=_text(TEMPLATES / "charts.js"),
            echarts=_echarts() if options else "",
            **context,
        )
    )


def verdict(certificate: dict[str, Any]) -> str:
    """The whole certificate in a word: passed, FAILED or incomplete (nothing failed, but a check was not made)."""
    if certificate["passed"]:
        return "passed"
    return "FAILED" if any(check["passed"] is False for check in certificate["checks"]) else "incomplete"


def _checks(certificate: dict[str, Any]) -> list[dict[str, str]]:
    """Rows of the certificate's table: failed first, then not made, then passed."""
    outcomes = {False: ("failed", "✗ FAILED"), None: ("unmade", "○ not made"), True: ("passed", "✓ passed")}
    order = list(outcomes)
    return [
        {
            "name": check["name"],
            "value": number(check["value"]),
            "limit": number(check["limit"]),
            "kind": outcomes[check["passed"]][0],
            "mark": outcomes[check["passed"]][1],
            "meaning": check["meaning"],
        }
        for check in sorted(certificate["checks"], key=lambda check: order.index(check["passed"]))
    ]


def embedded(data: Any) -> Markup:
    """JSON that is safe inside <script>: no tag can begin in it, and every number is finite (others become null)."""
    text = json.dumps(finite(data), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def finite(data: Any) -> Any:
    """The same plain data with None for every number that JSON does not have."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return data


def yaml_text(config: dict[str, Any]) -> str:
    """The configuration as it would stand in config.yaml, lists of numbers on one line."""
    import yaml

    text: str = yaml.safe_dump(config, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
    return text


def in_rows(charts: Sequence[Chart]) -> list[Chart]:
    """Two narrow charts share a row; one that would stand alone becomes wide."""
    placed: list[Chart] = []
    alone = False  # whether the last one placed still waits for a neighbour
    for chart in charts:
        if chart.wide and alone:
            placed[-1] = replace(placed[-1], wide=True)
        placed.append(chart)
        alone = not (chart.wide or alone)
    if alone:
        placed[-1] = replace(placed[-1], wide=True)
    return placed


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


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
