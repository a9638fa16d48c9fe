"""The page of a training run: its data is the run's own, its words are true, and it needs nothing but itself."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise.certificate import Certificate
from equipoise.document import Document
from equipoise.present import report
from equipoise.train import LeastSquares, Method, Network, Problem, Quadratic, Run, solve
from equipoise.train.state import StepWarning

NODES = 6


def cost(nodes: int = NODES) -> Quadratic:
    return Quadratic(a=np.linspace(1.0, 3.0, nodes), c=np.linspace(3.0, 12.0, nodes), lo=0.0, hi=20.0)


def model(nodes: int = NODES) -> LeastSquares:
    rng = np.random.default_rng(7)
    X = [rng.standard_normal((12, 3)) for _ in range(nodes)]
    return LeastSquares([(x, x @ np.array([1.0, -2.0, 0.5]) + 0.1 * rng.standard_normal(12)) for x in X])


def both_halves(rounds: int = 60, network: Network | None = None) -> Run:
    return solve(Problem(cost(), 30.0, model()), network or Network.ring(NODES), rounds=rounds)


def cpu_only(nodes: int = NODES, rounds: int = 60) -> Run:
    return solve(Problem(cost(nodes), 5.0 * nodes), Network.ring(nodes), rounds=rounds)


def model_only() -> Run:
    return solve(Problem(model=model()), Network.star(NODES), rounds=60)


def diverged() -> Run:
    with pytest.warns(StepWarning):
        run = solve(Problem(cost(), 30.0, model()), Network.ring(NODES), Method(step=50.0), rounds=60)
    assert run.status == "diverged"
    return run


def document(run: Run, config: dict[str, Any] | None = None, **result: Any) -> Document:
    """The run's own, with this configuration, and with what is measured beside a run."""
    found = run.document()
    return replace(found, version="1.2.3", config=config or {"data": "none"}, result=found.result | result)


def page(run: Run, config: dict[str, Any] | None = None, **result: Any) -> str:
    return report(document(run, config, **result))


def with_checks(found: Document, **changes: dict[str, Any]) -> Document:
    """The same document with some checks of its certificate changed."""
    assert found.certificate is not None
    checks = tuple(replace(check, **changes.get(check.name, {})) for check in found.certificate)
    return replace(found, certificate=Certificate(checks))


def charts(html: str) -> dict[str, Any]:
    """The chart options that a browser would read."""
    (found,) = re.findall(r'<script type="application/json" id="chart-data">(.*?)</script>', html, re.DOTALL)
    options: dict[str, Any] = json.loads(found)
    return options


def series(chart: dict[str, Any]) -> dict[str, Any]:
    """The points of each series that has a name."""
    return {entry["name"]: entry["data"] for entry in chart["series"] if entry["name"]}


def without_library(html: str) -> str:
    """The page without the vendored script, which carries its licence's addresses and JavaScript's own NaN."""
    short, cut = re.subn(r'<script id="echarts">.*?</script>', "", html, flags=re.DOTALL)
    assert cut == 1
    return short


def test_the_curves_are_the_history() -> None:
    """Every curve holds the history's values; a zero, which a log axis cannot show, is a hole."""
    run = both_halves()
    drawn = series(charts(page(run))["convergence"])
    assert list(drawn) == ["relative gap", "consensus", "kkt", "gradient"]
    for name, points in drawn.items():
        column = run.history[name.replace(" ", "_")]
        assert points == [[k, v if v > 0 else None] for k, v in zip(run.history["round"], column, strict=True)]


def test_values_that_a_log_axis_cannot_show_are_left_out() -> None:
    """Zero, negative, infinite and undefined gaps become holes in the line; the others stay."""
    run = both_halves()
    gap = run.history["relative_gap"].copy()
    gap[3:7] = [0.0, -1e-12, np.inf, np.nan]
    html = page(replace(run, history=run.history | {"relative_gap": gap}))
    points = series(charts(html)["convergence"])["relative gap"]
    assert [k for k, (_, y) in enumerate(points) if y is None] == [3, 4, 5, 6]
    assert "Zeros and negative values are left out" in html
    assert all(y in gap for _, y in series(charts(html)["bits"])["relative gap"])


def test_the_bands_are_the_shares_and_end_at_the_budget() -> None:
    run = cpu_only()
    assert run.share_history is not None
    drawn = series(charts(page(run))["shares"])
    for i in range(NODES):
        assert [y for _, y in drawn[f"node {i}"]] == run.share_history[:, i].tolist()
    assert drawn["budget"] == [[k, 30.0] for k in run.history["round"]]


def test_a_change_of_budget_is_a_step_of_the_dashed_line() -> None:
    run = solve(Problem(cost(), 30.0), Network.ring(NODES), rounds=40, budgets={20: 42.0})
    assert {y for _, y in series(charts(page(run))["shares"])["budget"]} == {30.0, 42.0}
    assert "shared 42 CPUs" in page(run)


def test_with_many_nodes_the_largest_are_bands_and_the_rest_is_one() -> None:
    """50 nodes: 20 bands, one of 30 others, and together they are still the budget."""
    run = cpu_only(50)
    assert run.shares is not None
    drawn = series(charts(page(run))["shares"])
    budget = drawn.pop("budget")
    assert len(drawn) == 21
    assert "30 others" in drawn
    assert np.sum([[y for _, y in band] for band in drawn.values()], axis=0) == pytest.approx([y for _, y in budget])
    named = {int(name.split()[1]) for name in drawn if name.startswith("node")}
    assert min(run.shares[list(named)]) >= max(np.delete(run.shares, list(named)))


def test_negative_shares_are_lines_and_not_stacked() -> None:
    """A stack of negative bands would not end at the budget."""
    wishes = Quadratic(a=1.0, c=np.array([-9.0, -3.0, 1.0, 4.0, 9.0, 16.0]))
    run = solve(Problem(wishes, 6.0), Network.ring(NODES), rounds=60)
    assert run.shares is not None
    assert run.shares.min() < 0
    assert not any("stack" in entry for entry in charts(page(run))["shares"]["series"])


def test_the_bits_chart_pairs_bits_with_gaps() -> None:
    run = both_halves()
    points = series(charts(page(run))["bits"])["relative gap"]
    pairs = zip(run.history["bits"], run.history["relative_gap"], strict=True)
    assert points == [[b, g] for b, g in pairs if b > 0 and g > 0]


def test_final_shares_stand_beside_the_optimum() -> None:
    run = cpu_only()
    assert run.shares is not None
    assert run.cpu_optimum is not None
    drawn = series(charts(page(run))["final"])
    assert [y for _, y in drawn["final share"]] == run.shares.tolist()
    assert [y for _, y in drawn["optimal share"]] == run.cpu_optimum.shares.tolist()


def test_the_network_drawn_is_that_of_the_last_round() -> None:
    """A network that never repeats: the links of round 60, and each node's share against its optimum."""
    network = Network.erdos_renyi(NODES, 0.5, switching="fresh", seed=3)
    run = both_halves(network=network)
    assert run.shares is not None
    html = page(run)
    (graph,) = charts(html)["network"]["series"]
    last = network.topology(run.rounds - 1)
    assert [(e["source"], e["target"]) for e in graph["links"]] == list(zip(last.tails, last.heads, strict=True))
    assert [node["value"] for node in graph["data"]] == run.shares.tolist()
    assert re.fullmatch(r"node 2: [\d.]+ CPUs \(optimum [\d.]+\)", graph["data"][2]["tooltip"]["formatter"])
    assert "Never repeating network" in html


@pytest.mark.parametrize(("switching", "word"), [(0, "Static"), (3, "Periodic"), ("fresh", "Never repeating")])
def test_the_caption_says_whether_links_change(switching: Any, word: str) -> None:
    network = Network.erdos_renyi(NODES, 0.5, switching=switching)
    assert f"{word} network ({network.description})" in page(both_halves(rounds=5, network=network))


def test_a_network_too_large_to_draw_is_a_histogram() -> None:
    html = page(cpu_only(500, rounds=5))
    (bars,) = charts(html)["network"]["series"]
    assert bars["type"] == "bar"
    assert sum(y for _, y in bars["data"]) == 500
    assert "500 nodes are too many to draw" in html


def test_a_long_run_is_thinned_but_keeps_its_ends() -> None:
    """2,501 rows become 1,000, and the page says so."""
    run = cpu_only(rounds=5000)
    html = page(run)
    points = series(charts(html)["convergence"])["relative gap"]
    assert (len(points), points[0][0], points[-1][0]) == (1000, 0, 5000)
    assert "1000 of 2,501 recorded rows are drawn" in html


def test_an_absent_half_leaves_its_charts_out() -> None:
    cpu, learning = charts(page(cpu_only())), charts(page(model_only()))
    assert set(cpu) == {"convergence", "shares", "network", "bits", "final"}
    assert set(series(cpu["convergence"])) == {"relative gap", "kkt"}
    assert set(learning) == {"convergence", "network", "bits"}
    assert set(series(learning["convergence"])) == {"relative gap", "consensus", "gradient"}


ACCURACY = {"nodes": [0.91, 0.9, 0.92, 0.93, 0.9, 0.94], "centralised": 0.953, "worst": 0.9}


def test_accuracy_is_shown_per_node_against_the_centralised_one() -> None:
    html = page(model_only(), accuracy=ACCURACY)
    dots, mark = charts(html)["accuracy"]["series"]
    assert [y for _, y in dots["data"]] == ACCURACY["nodes"]
    assert mark["markLine"]["data"] == [{"yAxis": 0.953}]
    assert "90.0 %" in html
    assert "centralised: 95.3 %" in html


def test_without_shares_the_network_is_coloured_by_accuracy() -> None:
    graph = charts(page(model_only(), accuracy=ACCURACY))["network"]["series"][0]
    assert [node["value"] for node in graph["data"]] == ACCURACY["nodes"]


def test_a_diverged_run_says_so_and_holds_no_value_that_is_not_finite() -> None:
    run = diverged()
    html = without_library(page(run))
    assert "The run diverged." in html
    assert run.reason.split("'")[0] in html
    assert "the run diverged, certificate FAILED</title>" in html
    assert not re.search(r"\b(NaN|nan|Infinity|inf)\b", html)


def test_shares_and_history_that_are_not_finite_never_reach_the_page() -> None:
    """Even a run of nothing but infinities makes a page."""
    run = both_halves()
    assert run.shares is not None
    assert run.share_history is not None
    broken = replace(
        run,
        shares=np.full_like(run.shares, np.nan),
        share_history=np.full_like(run.share_history, np.inf),
        history={
            name: column if name in ("round", "bits") else np.full_like(column, np.nan)  # whole numbers, as counted
            for name, column in run.history.items()
        },
    )
    certificate = with_checks(document(run), budget={"value": float("inf")}).certificate
    html = report(replace(broken.document(certify=False), certificate=certificate))
    assert set(charts(html)) == {"network"}
    assert not re.search(r"\b(NaN|nan|Infinity|inf)\b", without_library(html))


class Rows(HTMLParser):
    """The certificate's table, row by row."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("th", "td")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data


def test_failed_checks_come_first_then_those_not_made_and_in_words() -> None:
    run = both_halves()
    checks = {check.name: {"passed": True} for check in run.certificate()}
    checks["kkt"] = {"passed": False}
    checks["gap"] = {"passed": None, "value": None, "limit": None, "meaning": "not made: no optimum"}
    html = report(with_checks(document(run), **checks))
    header, *rows = Rows(without_library(html)).rows
    assert header == ["check", "outcome", "value", "limit", "meaning"]
    assert [row[0] for row in rows[:2]] == ["kkt", "gap"]
    assert [row[1] for row in rows] == ["✗ FAILED", "○ not made"] + ["✓ passed"] * (len(checks) - 2)
    assert rows[1][2:4] == ["–", "–"]
    assert "certificate FAILED</title>" in html


def test_a_certificate_with_nothing_failed_but_a_check_not_made_is_incomplete() -> None:
    run = cpu_only()
    checks = {check.name: {"passed": True} for check in run.certificate()}
    html = report(with_checks(document(run), **checks | {"budget": {"passed": None}}))
    assert "certificate incomplete</title>" in html


def test_every_check_is_shown_with_its_meaning() -> None:
    run = both_halves()
    rows = Rows(without_library(page(run))).rows[1:]
    assert {row[0]: row[4] for row in rows} == {check.name: check.meaning for check in run.certificate()}


@pytest.mark.parametrize(
    ("make", "config", "start"),
    [
        (
            both_halves,
            {"data": "breast_cancer"},
            "6 centres trained least squares on breast cancer and shared 30 CPUs: ",
        ),
        (cpu_only, {"data": "none"}, "6 centres shared 30 CPUs: "),
        (model_only, {}, "6 centres trained least squares: "),
    ],
)
def test_the_title_says_what_was_done(make: Any, config: dict[str, Any], start: str) -> None:
    run = make()
    verdict = "passed" if run.certificate().passed else "FAILED"
    assert f"<title>{start}certificate {verdict}</title>" in page(run, config)


def test_names_from_outside_are_escaped() -> None:
    """A data file may be called anything; it must stay text, in the title, the configuration and the checks."""
    run = model_only()
    content = document(run, {"data": "csv", "data_file": "/data/<b>.csv", "label": "</pre><script>alert(1)</script>"})
    html = without_library(report(with_checks(content, consensus={"meaning": "<i>x</i>"})))
    assert "on &lt;b&gt;.csv: certificate" in html
    assert "&lt;i&gt;x&lt;/i&gt;" in html
    assert not any(tag in html for tag in ("<b>.csv", "<script>alert", "<i>x"))


def test_nothing_is_asked_of_the_network() -> None:
    """No address stands in the page but those of the library's own licence; links lead to files beside it."""
    html = without_library(page(both_halves()))
    assert "http://" not in html
    assert "https://" not in html
    assert set(re.findall(r'(?:href|src)="([^"]*)"', html)) == {"data:,", "result.json", "history.csv", "config.yaml"}


def test_the_library_travels_with_its_notice() -> None:
    html = page(cpu_only())
    assert "Apache Software Foundation" in html
    assert "Licensed to the Apache Software Foundation" in html


def test_the_configuration_reads_as_yaml() -> None:
    html = page(cpu_only(), {"data": "none", "nodes": 6, "a": [1.0, 2.0], "budgets": {"20": 42.0}})
    assert "nodes: 6\na: [1.0, 2.0]\n" in html
    assert "1.2.3" in html


def test_charts_carry_words_for_who_cannot_see_them() -> None:
    html = page(both_halves())
    for key in charts(html):
        assert re.search(rf'data-chart="{key}" role="img" aria-label="[^"]{{20,}}"', html)
    assert "<noscript>" in html
    assert html.count('scope="col"') == 5


def test_a_run_on_workers_says_where_it_was_played_and_who_died() -> None:
    """Bytes between workers, the CPU they were held to, and a worker that was lost: in the numbers and in the title."""
    engine = {
        "where": "2 processes of this machine",
        "bytes_a_round": 1234.0,
        "lost": [{"worker": 1, "process": 77, "round": 40, "centres": [3, 4]}],
        "held": {"cpu_seconds": 1.5, "workers": [{"asked_cpu_seconds": 2.0}, {"asked_cpu_seconds": 1.0}]},
    }
    html = page(both_halves(), engine=engine)
    for words in (
        "1.23 kB",
        "a round; 2 processes of this machine; worker 1 died in round 40",
        "of the 3 s they were held to",
    ):
        assert words in html
    assert "lost 1 worker" in html


RECORDED = Path(__file__).parents[1] / "recorded" / "0.1.0"


@pytest.mark.parametrize("folder", sorted(path.name for path in RECORDED.glob("train*")))
def test_what_0_1_0_wrote_becomes_a_page(folder: str) -> None:
    """Without the links of the last round there is no picture of the network; the rest is there."""
    html = report(equipoise.load(RECORDED / folder))
    assert "certificate passed</title>" in html and charts(html)
    assert "network" not in charts(html)
