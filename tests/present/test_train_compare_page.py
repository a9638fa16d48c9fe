"""The page of a comparison of methods: what is drawn is what the tracks say, and it stands in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import COLOURS, NEEDS_A_BROWSER, visit

from equipoise.present import draw, report
from equipoise.present.figures import looks
from equipoise.present.train_compare import _line
from equipoise.train import baselines, compare
from equipoise.train.comparison import MethodComparison
from equipoise.train.instances import Instances
from equipoise.train.studies import alpha_study, rho_study
from refusals import refused

HOSTILE = "</script><img src=x onerror=alert(1)>"


class Hostile(baselines.PrimalDual):
    name = "hostile"
    label = HOSTILE


@pytest.fixture(scope="module")
def found() -> MethodComparison:
    players = [baselines.Ours(), baselines.LaplacianLog(), baselines.ADMM(), Hostile(), baselines.LaplacianEdge()]
    return compare(Instances(nodes=8), entrants=players, seeds=3, rounds=60)


@pytest.fixture(scope="module")
def html(found: MethodComparison) -> str:
    return report(found.document())


def embedded(html: str, key: str) -> dict[str, Any]:
    (text,) = re.findall(rf'<script type="application/json" id="{key}">(.*?)</script>', html, re.DOTALL)
    data: dict[str, Any] = json.loads(text)
    return data


def lines(option: dict[str, Any]) -> dict[str, list[Any]]:
    return {entry["name"]: entry["data"] for entry in option["series"] if entry["type"] == "line"}


def test_the_lines_are_the_medians_of_the_tracks(found: MethodComparison, html: str) -> None:
    """Distance against rounds, recomputed from the tracks; below 1e-12 the line lies on the floor."""
    drawn = lines(embedded(html, "chart-data")["distance-rounds"])["ADMM on the dual"]
    for number, value in drawn:
        here = sorted(track.distance[int(number)] for track in found.tracks["ADMM"])
        assert value == pytest.approx(max(here[1], 1e-12))
    assert [point[0] for point in drawn] == list(range(61))


def test_the_picture_draws_distance_against_bits(found: MethodComparison, html: str) -> None:
    """On two logarithmic axes, from the first message to the last; never rising above what the bits paid for."""
    option = embedded(html, "chart-data")["distance-bits"]
    assert (option["xAxis"]["type"], option["yAxis"]["type"]) == ("log", "log")
    drawn = lines(option)["ours (innovation)"]
    last = sorted(track.bits[-1] for track in found.tracks["Ours"])[1]
    assert drawn[-1][0] == pytest.approx(last)
    middle = sorted(track.at_bits(drawn[70][0]) for track in found.tracks["Ours"])[1]
    assert drawn[70][1] == pytest.approx(max(middle, 1e-12))


def test_bands_enclose_the_lines(html: str) -> None:
    """The outline of each band has the line's median between its sides."""
    option = embedded(html, "chart-data")["distance-bits"]
    bands = {entry["name"]: entry["outline"] for entry in option["series"] if entry["type"] == "custom"}
    for name, points in lines(option).items():
        outline = np.array(bands[name])
        upper, lower = outline[: len(points), 1], outline[len(points) :, 1][::-1]
        middle = np.array(points)[:, 1]
        assert (lower <= middle).all() and (middle <= upper).all()


def test_who_never_breaks_the_budget_is_named_and_not_drawn(html: str) -> None:
    """A logarithmic axis has no 0: the words say it."""
    drawn = lines(embedded(html, "chart-data")["violation"])
    assert set(drawn) == {"ADMM on the dual", HOSTILE}
    assert "Exactly 0 in every round, so without a line: ours (innovation), paper (node-wise log), edge-wise" in html


def test_the_table_holds_the_summary(found: MethodComparison, html: str) -> None:
    """Rounds, bits and messages to each target, and the worst violations."""
    (row,) = [row for row in found.summary if row["entrant"] == "ADMM"]
    for column in ("round", "bits", "messages"):
        assert f">{row[f'{column}_to_1e-06']:,.0f}</td>" in html
    assert ">never</td>" in html  # the paper's code
    assert f"Round {found.telling} is the last of" in html


def test_a_tool_of_analysis_is_nobodys_best_rival() -> None:
    """Edge-wise codes take fewer bits than floats, but no channel can send them."""
    players = [baselines.Ours(), baselines.ADMM(), baselines.LaplacianEdge()]
    found = compare(Instances(nodes=8, p=0.6), entrants=players, seeds=1, rounds=150)
    needed = {row["entrant"]: row["bits_to_1e-06"] for row in found.summary}
    assert needed["LaplacianEdge"] < needed["ADMM"]
    assert re.search(r"the best rival [^(]*\(ADMM on the dual\)", report(found.document()))


def test_the_title_is_the_finding(found: MethodComparison, html: str) -> None:
    assert "<title>5 methods on 3 instances: Ours reaches 1e-06 with the fewest bits" in html


def test_a_label_may_be_anything(html: str) -> None:
    """A tag in a name stays a name: in tables, legend and data."""
    assert "<img src=x" not in html
    assert "&lt;/script&gt;&lt;img" in html


def test_bits_are_looked_up_by_round() -> None:
    """Two tracks that recorded other rounds, one of which stopped; every round costs 10 bits in both."""
    long, short = (
        {"round": rounds, "bits": 10 * rounds, "distance": 1 / (1 + rounds)}
        for rounds in (np.array([0.0, 40.0, 80.0, 120.0]), np.array([0.0, 10.0, 20.0, 30.0, 40.0]))
    )
    look = looks(["Ours"], {})["Ours"]
    assert list(_line(look, [short, long], "rounds").x) == [0, 40, 80, 120]
    assert list(_line(look, [short, long], "bits").x) == [400, 800, 1200]


def test_a_study_has_no_figure_for_a_paper() -> None:
    """Its rows are over the knob and not over rounds: said in a sentence, and not by whatever breaks first."""
    study = rho_study(Instances(nodes=6), rounds=10, seeds=1)
    with refused("figure.rounds"):
        draw(study.document())


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, html: str) -> dict[str, Path]:
    """A page of every kind."""
    folder = tmp_path_factory.mktemp("compare")
    rho, alpha = rho_study(Instances(nodes=8), rounds=40, seeds=2), alpha_study(Instances(nodes=8), seeds=1)
    texts = {"comparison": html, "rho": report(rho.document()), "alpha": report(alpha.document())}
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@NEEDS_A_BROWSER
@pytest.mark.parametrize(
    ("name", "scheme"), [("comparison", "light"), ("comparison", "dark"), ("rho", "light"), ("alpha", "dark")]
)
def test_every_chart_is_drawn_without_a_complaint(browser: Any, pages: dict[str, Path], name: str, scheme: str) -> None:
    """All kinds of page: no errors, nothing fetched, nothing blank."""
    page, complaints, asked = visit(browser, pages[name], "desktop", scheme)
    places = page.query_selector_all("[data-chart]")
    assert places and all(place.evaluate(COLOURS) > 5 for place in places)
    assert complaints == []
    assert all(url.startswith(("file:", "data:")) for url in asked)
    page.close()


@NEEDS_A_BROWSER
def test_all_columns_of_a_comparison_fit_at_1200(browser: Any, tmp_path: Path) -> None:
    """Nothing to scroll to sideways, and no header higher than two lines."""
    found = compare(Instances(nodes=8, p=0.6), seeds=4, rounds=200)
    (tmp_path / "all.html").write_text(report(found.document()), encoding="utf-8")
    page, _, _ = visit(browser, tmp_path / "all.html")
    page.set_viewport_size({"width": 1200, "height": 900})
    for place in page.query_selector_all(".scroll"):
        assert place.evaluate("place => place.scrollWidth <= place.clientWidth")
        assert place.evaluate("place => place.querySelector('thead').offsetHeight") < 60
    page.close()


@NEEDS_A_BROWSER
def test_one_press_hides_a_method_with_its_band_in_every_chart(browser: Any, pages: dict[str, Path]) -> None:
    """And another shows it again; bands are drawn beside the lines."""
    page, complaints, _ = visit(browser, pages["comparison"])
    kinds = page.evaluate("""() => echarts.getInstanceByDom(document.querySelector('[data-chart="distance-bits"]'))
      .getOption().series.map(({ type }) => type)""")
    assert kinds.count("line") == 5 and kinds.count("custom") == 5
    picture = "place => place.querySelector('canvas').toDataURL()"
    places = page.query_selector_all("[data-chart]")
    before = [place.evaluate(picture) for place in places]
    button = page.get_by_role("button", name="ADMM on the dual")
    button.click()
    page.wait_for_timeout(100)
    assert button.get_attribute("aria-pressed") == "false"
    assert all(place.evaluate(picture) != old for place, old in zip(places, before, strict=True))
    button.click()
    page.wait_for_timeout(100)
    assert [place.evaluate(picture) for place in places] == before
    assert complaints == []
    page.close()
