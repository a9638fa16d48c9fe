"""The page in a real browser: every chart is drawn, in light and dark, and nothing is fetched or complained about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import COLOURS, NEEDS_A_BROWSER, SCREENS, visit

from equipoise.present import report as page_of
from equipoise.train import LeastSquares, Network, Problem, Quadratic, Run, solve

pytestmark = NEEDS_A_BROWSER

ACCURACY = {"nodes": [0.91, 0.9, 0.92, 0.93, 0.9, 0.94], "centralised": 0.9534, "worst": 0.9}


def play(nodes: int = 6, network: Network | None = None) -> Run:
    rng = np.random.default_rng(7)
    X = [rng.standard_normal((12, 3)) for _ in range(nodes)]
    model = LeastSquares([(x, x @ np.array([1.0, -2.0, 0.5]) + 0.1 * rng.standard_normal(12)) for x in X])
    cost = Quadratic(a=1.0, c=np.linspace(3.0, 12.0, nodes), lo=0.0, hi=20.0)
    return solve(Problem(cost, 5.0 * nodes, model), network or Network.ring(nodes), rounds=60)


def write(run: Run, path: Path, **result: Any) -> Path:
    found = run.document()
    path.write_text(page_of(replace(found, config={"data": "none"}, result=found.result | result)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(play(), tmp_path_factory.mktemp("report") / "report.html", accuracy=ACCURACY)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_every_chart_is_drawn_and_the_page_asks_for_nothing(
    browser: Any, report: Path, screen: str, scheme: str
) -> None:
    """Six charts with something in them, a silent console, no request but the file, nothing wider than the screen."""
    page, complaints, asked = visit(browser, report, screen, scheme)
    places = page.query_selector_all("[data-chart]")
    drawn = {place.get_attribute("data-chart"): place.evaluate(COLOURS) for place in places}
    assert set(drawn) == {"convergence", "shares", "network", "bits", "final", "accuracy"}
    assert min(drawn.values()) > 5
    assert complaints == []
    assert asked == [report.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


def test_charts_follow_the_reader_from_light_to_dark(browser: Any, report: Path) -> None:
    """The text of an axis is dark on white, and light once the reader's system turns dark."""
    page, complaints, _ = visit(browser, report)
    colour = """() => echarts.getInstanceByDom(document.querySelector('[data-chart="bits"]'))
                       .getOption().textStyle.color"""
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"() => ({colour})() !== {light!r}")
    sizes = [place.evaluate(COLOURS) for place in page.query_selector_all("[data-chart]")]
    assert min(sizes) > 5
    assert complaints == []
    page.close()


def test_charts_follow_the_width_of_the_window(browser: Any, report: Path) -> None:
    page, _, _ = visit(browser, report)
    page.set_viewport_size(SCREENS["phone"])
    page.wait_for_function(
        "() => [...document.querySelectorAll('[data-chart]')]"
        "        .every(place => place.querySelector('canvas').offsetWidth === place.clientWidth)"
    )
    page.close()


def test_the_line_of_the_centralised_accuracy_is_at_its_value(browser: Any, report: Path) -> None:
    """95.34 %, not the 95 % that two decimals would make of it: where the dashes are, the axis says 0.9534."""
    page, _, _ = visit(browser, report)
    drawn = page.evaluate("""() => {
      const place = document.querySelector('[data-chart="accuracy"]');
      const chart = echarts.getInstanceByDom(place);
      const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
      const [r, g, b] = [1, 3, 5].map(k => parseInt(ink.slice(k, k + 2), 16));
      const canvas = place.querySelector("canvas"), scale = canvas.width / place.clientWidth;
      const left = Math.round(canvas.width * 0.6), width = Math.round(canvas.width * 0.3);
      const pixels = canvas.getContext("2d").getImageData(left, 0, width, canvas.height).data;
      let best = [0, 0];
      for (let y = 0; y < canvas.height; y++) {
        let dark = 0;
        for (let x = 0; x < width; x++) {
          const k = 4 * (y * width + x);
          if (Math.abs(pixels[k] - r) + Math.abs(pixels[k + 1] - g) + Math.abs(pixels[k + 2] - b) < 60
              && pixels[k + 3] > 100) dark++;
        }
        if (dark > best[0]) best = [dark, y];
      }
      return chart.convertFromPixel({ yAxisIndex: 0 }, best[1] / scale);
    }""")
    assert drawn == pytest.approx(ACCURACY["centralised"], abs=0.001)
    page.close()


def test_a_tooltip_names_the_round_and_the_node(browser: Any, report: Path) -> None:
    page, complaints, _ = visit(browser, report)
    shown = {}
    for key in ("convergence", "shares", "final"):
        page.evaluate(f"""() => {{
          const chart = echarts.getInstanceByDom(document.querySelector('[data-chart="{key}"]'));
          chart.dispatchAction({{ type: "showTip", seriesIndex: 0, dataIndex: 2 }});
        }}""")
        page.wait_for_timeout(100)
        shown[key] = page.inner_text(f'[data-chart="{key}"]')
    assert "round 2\n" in shown["convergence"]
    assert "round 2\nbudget: 30\n" in shown["shares"]
    assert "node 2" in shown["final"]
    assert complaints == []
    page.close()


@pytest.mark.parametrize("network", [Network.ring(80), Network.star(61), Network.complete(61), Network.path(150)])
def test_a_large_network_fills_its_chart_and_stays_inside(browser: Any, tmp_path: Path, network: Network) -> None:
    """Placed by hops, not on a circle: none outside the chart or under its legend, and not all in one spot."""
    page, complaints, _ = visit(browser, write(play(network.n, network), tmp_path / "report.html"), "phone")
    across, down, width, height = page.evaluate("""() => {
      const place = document.querySelector('[data-chart="network"]');
      const chart = echarts.getInstanceByDom(place);
      const data = chart.getModel().getSeriesByIndex(0).getData();
      const at = [...Array(data.count()).keys()].map(i => data.getItemGraphicEl(i).getComputedTransform());
      const span = k => [Math.min(...at.map(m => m[k])), Math.max(...at.map(m => m[k]))];
      return [span(4), span(5), place.clientWidth, place.clientHeight];
    }""")
    assert 5 < across[0] <= across[1] < width - 5
    assert 5 < down[0] <= down[1] < height - 40
    assert max(across[1] - across[0], down[1] - down[0]) > 150
    assert complaints == []
    page.close()
