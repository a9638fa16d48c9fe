"""The page of a run on a hostile network: events stand where they happened, and who is gone is grey."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import COLOURS, NEEDS_A_BROWSER, SCREENS, visit

from equipoise.present import report, train_nodes
from equipoise.present.echarts import option
from equipoise.train import LeastSquares, Network, Problem, Quadratic, solve
from equipoise.train.hostile.faults import Faults, Partition
from equipoise.train.hostile.run import HostileRun

NODES = 6
FAULTS = Faults(
    loss=0.2, delay=1, crash={4: 30}, join={2: 50}, leave={1: 80}, partition=Partition(frozenset({0}), 100, 120)
)


def play(
    *, network: Network | None = None, faults: Faults = FAULTS, model: bool = True, cost: bool = True
) -> HostileRun:
    rng = np.random.default_rng(7)
    X = [rng.standard_normal((12, 3)) for _ in range(NODES)]
    shards = [(x, x @ np.array([1.0, -2.0, 0.5]) + 0.1 * rng.standard_normal(12)) for x in X]
    problem = Problem(
        Quadratic(a=1.0, c=np.linspace(3.0, 12.0, NODES), lo=0.0, hi=20.0) if cost else None,
        5.0 * NODES if cost else None,
        LeastSquares(shards) if model else None,
    )
    run = solve(problem, network or Network.complete(NODES), rounds=150, every=5, faults=faults)
    assert isinstance(run, HostileRun)
    return run


def page(run: HostileRun, **result: Any) -> str:
    found = run.document()
    return report(replace(found, config={"data": "none"}, result=found.result | result))


def charts(html: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" id="chart-data">(.*?)</script>', html, re.DOTALL)
    options: dict[str, Any] = json.loads(found)
    return options


def series(chart: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry for entry in chart["series"] if entry["name"]}


def marks(chart: dict[str, Any]) -> list[tuple[float, str]]:
    """Where upright marks stand, and their names."""
    rules = [entry["markLine"] for entry in chart["series"] if not entry["name"]]
    return [(rule["data"][0]["xAxis"], rule["label"]["formatter"]) for rule in rules if "xAxis" in rule["data"][0]]


@pytest.fixture(scope="module")
def run() -> HostileRun:
    return play()


@pytest.fixture(scope="module")
def html(run: HostileRun) -> str:
    return page(run)


@pytest.mark.parametrize("key", ["convergence", "shares", "in_flight"])
def test_events_are_marked_where_they_happened(html: str, key: str) -> None:
    """Rounds and names by hand from the schedule; what neighbours notice 5 rounds later has a mark and no name."""
    found = marks(charts(html)[key])
    named = {at: name for at, name in found if name}
    assert named == {30: "crash 4", 50: "join 2", 80: "leave 1", 100: "split", 120: "heal"}
    assert [at for at, name in found if not name] == [35, 105]
    assert "" not in charts(html)[key]["legend"]["data"]


def test_events_that_are_close_share_a_name() -> None:
    """Four crashes in four rounds of 150: one label with the first three, and four marks."""
    html = page(play(faults=Faults(crash={0: 30, 1: 31, 2: 32, 3: 33}), model=False))
    found = marks(charts(html)["in_flight"])
    assert [name for _, name in found if name] == ["crash 0, 1, 2, …"]
    assert {30, 31, 32, 33} <= {at for at, _ in found}


def test_in_flight_and_who_is_there(run: HostileRun, html: str) -> None:
    """The curve is the history; centres go 5, 4, 5, 4 exactly at their events."""
    drawn = series(charts(html)["in_flight"])
    assert [y for _, y in drawn["CPUs in flight"]["data"]] == run.history["in_flight"].tolist()
    there = dict(map(tuple, drawn["centres there"]["data"]))
    assert [there[at] for at in (0, 25, 30, 45, 50, 75, 80, 150)] == [5, 5, 4, 4, 5, 5, 4, 4]


def test_bands_and_what_is_in_flight_are_the_budget(run: HostileRun, html: str) -> None:
    drawn = series(charts(html)["shares"])
    bands = [entry["data"] for name, entry in drawn.items() if name.startswith("node") or name == "in flight"]
    sums = np.sum([[y for _, y in band] for band in bands], axis=0)
    assert len(bands) == NODES + 1
    assert sums.tolist() == [30.0] * len(run.history["round"])


def test_who_is_gone_is_grey_and_has_no_bar(html: str) -> None:
    """1 left and 4 crashed: grey in the network, with their story; bars and farthest distance are of the others."""
    (graph,) = charts(html)["network"]["series"]
    gone = {node["name"]: node["tooltip"]["formatter"] for node in graph["data"] if node.get("visualMap") is False}
    assert gone == {"1": "node 1: left in round 80", "4": "node 4: crashed in round 30"}
    assert all("value" not in node for node in graph["data"] if node["name"] in gone)
    dashed = [link for link in graph["links"] if link.get("lineStyle", {}).get("type") == "dashed"]
    assert len(dashed) == 5 + 4  # of a complete graph of 6, those that touch 1 or 4
    assert charts(html)["final"]["xAxis"]["data"] == ["0", "2", "3", "5"]


def test_the_words_explain_the_jumps(run: HostileRun, html: str) -> None:
    assert "over a hostile network: certificate" in html
    assert "the curve jumps there and falls anew" in html
    assert f"{run.lost:,} of {run.packets:,} packets were lost" in html
    assert "4 of 6" in html


def test_a_model_alone_shows_who_is_there() -> None:
    drawn = charts(page(play(cost=False)))["in_flight"]
    assert list(series(drawn)) == ["centres there"] and marks(drawn)


def test_losses_without_events_leave_no_marks() -> None:
    drawn = charts(page(play(faults=Faults(loss=0.3), model=False)))
    assert marks(drawn["in_flight"]) == marks(drawn["convergence"]) == []


def test_one_way_links_have_arrows() -> None:
    """A ring that turns one way: n arrows, each from a node to the next."""
    html = page(play(network=Network.ring(NODES, directed=True), faults=Faults(), cost=False))
    (graph,) = charts(html)["network"]["series"]
    assert graph["edgeSymbol"] == ["none", "arrow"]
    assert {(link["source"], link["target"]) for link in graph["links"]} == {(i, (i + 1) % NODES) for i in range(NODES)}
    assert "in the direction of their arrows" in html


STUDY = {
    "seeds": [0, 1],
    "target": 0.96,
    "rows": [
        {"allocation": "coupled", "label": "coupled", "mean": 300.0, "error": 20.0, "missed": 0},
        {"allocation": "equal", "label": "equal shares", "mean": 500.0, "error": 30.0, "missed": 1},
    ],
}
RIVALS = [
    {"way": "tracking", "label": "ours", "worst_loss": 0.1, "bits": 8e6, "accuracy": 0.95, "worst_accuracy": 0.94},
    {"way": "centralised", "label": "central", "worst_loss": 0.1, "bits": 0, "accuracy": 0.96, "worst_accuracy": 0.96},
]


def test_allocations_are_bars_with_errors_the_cheapest_on_top() -> None:
    chart = train_nodes.allocations(STUDY)
    assert chart is not None
    drawn = option(chart)
    assert drawn is not None and drawn["yAxis"]["data"] == ["coupled", "equal shares"]
    assert drawn["yAxis"]["inverse"]  # the first on top
    bars, errors = drawn["series"]
    assert [bar["value"][0] for bar in bars["data"]] == [300.0, 500.0]
    assert errors["data"] == [[300.0, 0, 20.0, 1], [500.0, 1, 30.0, 1]]
    assert drawn["xAxis"]["max"] == 550.0  # past 500 + 30
    assert "Not reached, and counted with the whole run: equal shares in 1." in chart.caption
    assert train_nodes.allocations(None) is None


def test_rivals_and_losses_of_nets() -> None:
    chart = train_nodes.rivals(RIVALS)
    assert chart is not None and "ours 1.0 MB" in chart.caption
    assert train_nodes.rivals(None) is None
    assert train_nodes.node_losses({"nodes": [0.1, None], "worst": 0.1}) is None


@NEEDS_A_BROWSER
@pytest.mark.parametrize(("screen", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_a_browser_draws_the_events(browser: Any, run: HostileRun, tmp_path: Path, screen: str, scheme: str) -> None:
    """Every chart has something in it, nothing complains or is fetched, and a red line stands at the crash, round 30."""
    path = tmp_path / "report.html"
    losses = {"nodes": [0.1] * 3, "worst": 0.1}
    path.write_text(page(run, allocations=STUDY, rivals=RIVALS, losses=losses), encoding="utf-8")
    opened, complaints, asked = visit(browser, path, screen, scheme)
    places = opened.query_selector_all("[data-chart]")
    drawn = {place.get_attribute("data-chart"): place.evaluate(COLOURS) for place in places}
    assert {"convergence", "shares", "network", "in_flight", "allocations", "rivals", "losses"} <= set(drawn)
    assert min(drawn.values()) > 5
    assert (complaints, asked) == ([], [path.as_uri()])
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth"), SCREENS[screen]
    red = opened.evaluate("""() => {
      const place = document.querySelector('[data-chart="in_flight"]');
      const chart = echarts.getInstanceByDom(place);
      const bad = getComputedStyle(document.documentElement).getPropertyValue("--bad").trim();
      const rgb = [1, 3, 5].map(k => parseInt(bad.slice(k, k + 2), 16));
      const canvas = place.querySelector("canvas"), scale = canvas.width / place.clientWidth;
      const x = Math.round(scale * chart.convertToPixel({ xAxisIndex: 0 }, 30));
      const data = canvas.getContext("2d").getImageData(x - 2, 0, 5, canvas.height).data;
      let count = 0;
      for (let k = 0; k < data.length; k += 4)
        if ([0, 1, 2].reduce((sum, c) => sum + Math.abs(data[k + c] - rgb[c]), 0) < 60) count++;
      return count;
    }""")
    assert red > 50
    opened.close()
