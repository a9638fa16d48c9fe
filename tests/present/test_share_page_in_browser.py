"""The page of a comparison in a real browser: all charts are drawn, and its choices and legend do what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pages import COLOURS, NEEDS_A_BROWSER, visit

from equipoise.present import report as page_of
from equipoise.share import Workload, policies
from equipoise.share.sweep import Sweep, Timeline, sweep

pytestmark = NEEDS_A_BROWSER

PANELS = {"success", "energy", "efficiency", "network", "idle_while_work", "latency"}
LOAD, SEED = 20, 3


class Hostile(policies.DescribedUniform):
    label = "</script><img src=x onerror=alert(1)>"


def play(loads: Sequence[int] = (5, LOAD)) -> Sweep:
    players = [policies.DescribedUARALARA(), policies.Uniform(), policies.SRTF(), Hostile()]
    return replace(sweep(players, Workload.described(), loads=loads, seeds=4, oracle=1), timeline=Timeline(LOAD, SEED))


def write(path: Path, loads: Sequence[int]) -> Path:
    path.write_text(page_of(play(loads).document()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("share") / "report.html", [5, LOAD])


def option(page: Any, key: str) -> Any:
    """What a chart draws now."""
    return page.evaluate(
        f"""() => {{
          const chart = echarts.getInstanceByDom(document.querySelector('[data-chart="{key}"]'));
          const {{ series, legend, xAxis, yAxis }} = chart.getOption();
          const plain = series.map(({{ name, data, markLine }}) => ({{ name, data, markLine }}));
          return {{ series: plain, legend, xAxis, yAxis }};
        }}"""
    )


@pytest.mark.parametrize(("screen", "scheme"), [("desktop", "light"), ("phone", "dark")])
@pytest.mark.parametrize("loads", [[5, LOAD], [LOAD]])
def test_every_chart_is_drawn_and_the_page_asks_for_nothing(
    browser: Any, tmp_path: Path, report: Path, screen: str, scheme: str, loads: list[int]
) -> None:
    """Nine charts with something in them, a silent console, no request but the file, nothing wider than the screen."""
    path = report if len(loads) > 1 else write(tmp_path / "report.html", loads)
    page, complaints, asked = visit(browser, path, screen, scheme)
    places = page.query_selector_all("[data-chart]")
    drawn = {place.get_attribute("data-chart"): place.evaluate(COLOURS) for place in places}
    assert set(drawn) == PANELS | {"life", "errors", "site"}
    assert min(drawn.values()) > 5
    assert complaints == []
    assert asked == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


def test_choosing_a_task_redraws_its_life(browser: Any, report: Path) -> None:
    """Words, lanes, errors and target are those of the task chosen, as the engine recorded them."""
    page, complaints, _ = visit(browser, report)
    first = option(page, "life")
    wanted = 4 if page.input_value("#task") != "4" else 5
    page.select_option("#task", str(wanted))
    life, errors = option(page, "life"), option(page, "errors")
    assert life["series"] != first["series"]
    assert page.inner_text(".story").startswith(f"Task {wanted} needs ")
    for k, (name, run) in enumerate(play()._lives.items()):
        assert run.trace is not None
        finished = run.done_at[0, wanted]
        if finished >= 0:
            assert life["yAxis"][0]["data"][k] == f"{name}\ndone at step {finished}"
        got = run.trace.compute[:, 0, wanted] > 0
        expected = [[int(t) + 1, float(run.trace.error[t, 0, wanted])] for t in got.nonzero()[0]]
        drawn = [point for point in errors["series"][k]["data"] if point[1] is not None]
        assert [point[0] for point in drawn] == [point[0] for point in expected]
        assert [point[1] for point in drawn] == pytest.approx([point[1] for point in expected], rel=1e-3)
    target = errors["series"][0]["markLine"]["data"][0]["yAxis"]
    assert target == pytest.approx(run.batch.target[0, wanted], rel=1e-5)
    assert complaints == []
    page.close()


def test_the_lanes_add_up_to_what_the_task_was_given(browser: Any, report: Path) -> None:
    """Width times height of all computing spans is the samples computed, out of the 30 a lane stands for."""
    page, _, _ = visit(browser, report)
    task = int(page.input_value("#task"))
    computing = option(page, "life")["series"][2]
    assert computing["name"] == "computing"
    for k, run in enumerate(play()._lives.values()):
        spans = [span["value"] for span in computing["data"] if span["value"][2] == k]
        drawn = sum(30 * (to - start) * (top - bottom) for start, to, _, bottom, top in spans)
        assert drawn == pytest.approx(run.samples[0, task], abs=0.3)
    page.close()


def test_choosing_a_policy_redraws_the_site(browser: Any, report: Path) -> None:
    page, complaints, _ = visit(browser, report)
    for k, run in enumerate(play()._lives.values()):
        assert run.trace is not None
        page.select_option("#site-policy", str(k))
        used, idle, *_ = option(page, "site")["series"]
        assert used["data"] == pytest.approx(run.trace.compute[:, 0].sum(axis=1), abs=0.006)
        assert sum(idle["data"]) == pytest.approx(run.idle[0], abs=0.5)
    assert complaints == []
    page.close()


def test_one_press_hides_a_policy_in_every_chart_and_another_shows_it(browser: Any, report: Path) -> None:
    """It stays hidden when the reader turns from light to dark, and charts follow that turn."""
    page, complaints, _ = visit(browser, report)
    button = page.get_by_role("button", name="SRTF")
    picture = "place => place.querySelector('canvas').toDataURL()"
    places = {key: page.query_selector(f'[data-chart="{key}"]') for key in (*PANELS, "errors")}
    before = {key: place.evaluate(picture) for key, place in places.items()}
    button.click()
    page.wait_for_timeout(100)
    assert button.get_attribute("aria-pressed") == "false"
    assert all(place.evaluate(picture) != before[key] for key, place in places.items())
    colour = "() => echarts.getInstanceByDom(document.querySelector('[data-chart]')).getOption().textStyle.color"
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"() => ({colour})() !== {light!r}")
    assert option(page, "success")["legend"][0]["selected"]["SRTF"] is False
    assert option(page, "life")["series"][0]["data"]
    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"() => ({colour})() === {light!r}")
    button.click()
    page.wait_for_timeout(100)
    assert button.get_attribute("aria-pressed") == "true"
    assert all(place.evaluate(picture) == before[key] for key, place in places.items())
    assert complaints == []
    page.close()


def test_tooltips_say_what_is_there(browser: Any, report: Path) -> None:
    """Policies by value with their standard errors; a span in words; and a hostile name stays a name."""
    page, complaints, _ = visit(browser, report)
    shown = {}
    for key in ("success", "life", "errors", "site"):
        page.evaluate(f"""() => {{
          const chart = echarts.getInstanceByDom(document.querySelector('[data-chart="{key}"]'));
          chart.dispatchAction({{ type: "showTip", seriesIndex: 0, dataIndex: 0 }});
        }}""")
        page.wait_for_timeout(100)
        shown[key] = page.inner_text(f'[data-chart="{key}"]')
    assert shown["success"].startswith("5 tasks\n")
    assert "UARA+LARA: " in shown["success"] and " ± " in shown["success"]
    assert Hostile.label in shown["success"]
    assert shown["life"].startswith("sending: step ")
    assert shown["errors"].startswith("after step ")
    assert shown["site"].startswith("step 0\n")
    assert page.query_selector('[data-chart] img, [src="x"]') is None
    assert complaints == []
    page.close()
